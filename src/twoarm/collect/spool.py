"""The spool: records wait outside memory until all are there to be numbered and sorted."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from tempfile import SpooledTemporaryFile

from twoarm.errors import OutputError, Position, Problem
from twoarm.options import either
from twoarm.text.escape import named

# Up to this size the records wait in memory after all.
IN_MEMORY = 16 * 2**20

# How a record spells its repeat until it is settled. No text in JSON can hold these bytes.
OPEN_REPEAT = b'"repeat":1,'


class Spool:
    """Takes records in the order they are found and gives them back in order."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        self._tasks: dict[str, int] = {}
        self._arms: dict[str, int] = {}
        self._task = array("q")
        self._arm = array("q")
        self._repeat = array("q")
        self._infra = array("b")
        self._started = array("d")
        self._offset = array("q")
        # The line of the source; 0 for a record made from all of it.
        self._line = array("q")
        self._end = 0

    def __len__(self) -> int:
        return len(self._task)

    def close(self) -> None:
        """Give the space back."""
        # Closing would try once more to write what could not be written, and nobody needs it now.
        with suppress(OSError):
            self._file.close()

    def add(
        self,
        line: bytes,
        *,
        where: Position,
        task: str,
        arm: str,
        repeat: int | None,
        infra: bool,
        started: float | None,
    ) -> None:
        """Keep one record; its JSON says repeat 1 until it is numbered."""
        self._task.append(self._tasks.setdefault(task, len(self._tasks)))
        self._arm.append(self._arms.setdefault(arm, len(self._arms)))
        self._repeat.append(repeat or 0)
        self._infra.append(infra)
        self._started.append(math.nan if started is None else started)
        self._offset.append(self._end)
        self._line.append(0 if where.line is None else where.line)
        try:
            self._end += self._file.write(
                b"%s\n%s\n" % (line, where.source.encode("utf-8", "backslashreplace"))
            )
        except OSError as error:
            raise _no_room(error) from error

    def number(self, *, renumber: bool) -> tuple[list[Problem], int]:
        """Settle every repeat; gives what stands in the way, and how many runs were numbered.

        Runs that a source does not number are numbered by start time within task and arm.
        """
        try:
            self._file.flush()
        except OSError as error:
            raise _no_room(error) from error
        problems: list[Problem] = []
        numbered = 0
        for rows in self._groups():
            given = [row for row in rows if self._repeat[row]]
            if renumber or not given:
                rows.sort(key=self._by_start)
                for repeat, row in enumerate(rows, 1):
                    self._repeat[row] = repeat
                numbered += len(rows)
            elif len(given) < len(rows):
                without = next(row for row in rows if not self._repeat[row])
                message = (
                    "no repeat, but other runs of its task and arm have one; "
                    f"number all of them or none, or pass {_renumber()}"
                )
                problems.append(self._problem(without, message))
            else:
                problems += self._collisions(rows)
        return problems, numbered

    def lines(self) -> Iterator[bytes]:
        """The records as JSON lines, by task, arm and repeat."""
        tasks = _ranks(self._tasks)
        arms = _ranks(self._arms)
        order = sorted(
            range(len(self)),
            key=lambda row: (
                tasks[self._task[row]],
                arms[self._arm[row]],
                self._repeat[row],
                self._by_start(row),
            ),
        )
        for row in order:
            self._file.seek(self._offset[row])
            line = self._file.readline()
            repeat = self._repeat[row]
            yield line if repeat == 1 else line.replace(OPEN_REPEAT, b'"repeat":%d,' % repeat, 1)

    def counts(self) -> dict[str, dict[str, int]]:
        """Runs per task and arm."""
        tasks, arms = list(self._tasks), list(self._arms)
        table: dict[str, dict[str, int]] = {task: {} for task in sorted(tasks)}
        for task, arm in zip(self._task, self._arm, strict=True):
            row = table[tasks[task]]
            row[arms[arm]] = row.get(arms[arm], 0) + 1
        return table

    def attempts(self) -> int:
        """How many records share their repeat with another record."""
        rows = zip(self._task, self._arm, self._repeat, strict=True)
        return sum(count for count in Counter(rows).values() if count > 1)

    def without_start(self) -> int:
        """How many records have no start time."""
        return sum(map(math.isnan, self._started))

    def _groups(self) -> Iterator[list[int]]:
        groups: dict[tuple[int, int], list[int]] = {}
        for row, key in enumerate(zip(self._task, self._arm, strict=True)):
            groups.setdefault(key, []).append(row)
        yield from groups.values()

    def _by_start(self, row: int) -> tuple[bool, float, int]:
        started = self._started[row]
        unknown = math.isnan(started)
        return unknown, 0.0 if unknown else started, row

    def _collisions(self, rows: list[int]) -> list[Problem]:
        """Every run of a repeat after one that counts: only an infra failure is attempted again."""
        done: dict[int, int] = {}
        problems = []
        for row in sorted(rows, key=self._by_start):
            repeat = self._repeat[row]
            if repeat in done:
                task = named(list(self._tasks)[self._task[row]])
                arm = named(list(self._arms)[self._arm[row]])
                message = (
                    f"task {task}, arm {arm}, repeat {repeat} is already in "
                    f"{self._where(done[repeat])}; give each its own repeat, or pass {_renumber()}"
                )
                problems.append(self._problem(row, message))
            elif not self._infra[row]:
                done[repeat] = row
        return problems

    def _problem(self, row: int, message: str) -> Problem:
        return self._where(row).problem(message)

    def _where(self, row: int) -> Position:
        self._file.seek(self._offset[row])
        self._file.readline()
        source = self._file.readline()[:-1].decode("utf-8")
        return Position(source, self._line[row] or None)


def _no_room(error: OSError) -> OutputError:
    return OutputError(
        f"cannot store the records to sort them: {error.strerror}; "
        "set TMPDIR to a folder with enough space"
    )


def _ranks(codes: dict[str, int]) -> list[int]:
    ranks = [0] * len(codes)
    for rank, name in enumerate(sorted(codes)):
        ranks[codes[name]] = rank
    return ranks


def _renumber() -> str:
    return either(flag="--renumber", argument="`renumber=True`")
