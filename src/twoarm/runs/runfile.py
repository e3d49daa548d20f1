"""Run files in: every line is a run, blank, or reported with its position."""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import Any, Never, TypeAlias, cast

import msgspec

from twoarm.errors import (
    BadRunsError,
    InputError,
    Position,
    Problem,
    Problems,
    TwoarmError,
    UsageError,
)
from twoarm.options import refuse_unknown
from twoarm.runs.badline import problems_of
from twoarm.runs.frame import ArrowFrame, is_frame, rows
from twoarm.runs.record import Line, OpenLine, Run, columns_of, explain
from twoarm.runs.repeated_keys import MOST_UNKNOWN_KEYS, SeenKeys, whole
from twoarm.runs.runs import Builder, Input, Runs
from twoarm.runs.stream import (
    LONGEST_LINE,
    Batch,
    Digest,
    Path,
    Progress,
    Readable,
    Watched,
    batches,
    blocks_of,
    unpacked,
)
from twoarm.text.escape import counted, visible

__all__ = [
    "LONGEST_LINE",
    "MOST_UNKNOWN_KEYS",
    "Progress",
    "Readable",
    "Source",
    "read",
]

Source: TypeAlias = (
    Path | Readable | Sequence[Path | Readable] | ArrowFrame | Iterable[Mapping[str, Any] | Run]
)

_ITEMS = 4_096
# How much of a file without a run is looked at, to say what it is instead.
_HEAD = 2**16
_decode_open = msgspec.json.Decoder(OpenLine).decode
_decode_any = msgspec.json.Decoder().decode


def read(
    source: Source,
    *,
    skip_bad: bool = False,
    list_all: bool = False,
    times: bool = True,
    progress: Progress | None = None,
    **unknown: Never,
) -> Runs:
    """All runs of a path, several paths, an open binary file, a frame with a row per run, or an
    iterable of mappings or Runs.

    Raises BadRunsError with every bad line, unless `skip_bad` and some lines are good. Without
    `times`, which only the evidence and the timeline need, reading is quicker. With `list_all`
    every problem is kept, not only the first of each mistake.
    """
    refuse_unknown(unknown, read.__kwdefaults__ or ())
    reader = _Reader(list_all=list_all, times=times)
    files, items = _told_apart(source)
    if progress is not None and files:
        reader.watched = Watched(progress, files)
    try:
        noun = "row" if is_frame(source) else "run"
        inputs = [reader.file(file) for file in files] if files else [reader.items(items, noun)]
        return _finished(reader, inputs, skip_bad=skip_bad)
    except MemoryError:
        held = counted(len(reader.builder), "run")
        raise InputError(f"out of memory after {held}; score fewer files at once") from None


def _finished(reader: "_Reader", inputs: list[Input], *, skip_bad: bool) -> Runs:
    if reader.bad_lines and not (skip_bad and len(reader.builder)):
        raise BadRunsError(reader.problems)
    if not len(reader.builder):
        where = ", ".join(visible(given.path) for given in inputs)
        in_memory = all(given.sha256 is None for given in inputs)
        expected = "a row or mapping per run" if in_memory else "one JSON object per line"
        raise InputError(f"{where}: no runs; expected {expected}")
    return reader.builder.finish(
        inputs=inputs,
        unknown_keys=reader.seen_keys.unknown,
        bad_lines=reader.bad_lines,
        problems=reader.problems.kept,
    )


def _told_apart(source: Source) -> tuple[list[Path | Readable], Iterable[Any]]:
    """Files, or else runs in memory."""
    if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
        return [source], ()  # type: ignore[list-item]
    if is_frame(source):
        return [], rows(cast(ArrowFrame, source))
    if isinstance(source, bytes | Mapping | Run) or not isinstance(source, Iterable):
        kind = type(source).__name__
        raise UsageError(
            "expected a path, paths, a frame that is in memory, or an iterable of runs, got one "
            f"`{kind}`"
        )
    remaining = iter(source)
    head = list(islice(remaining, 1))
    if head and (isinstance(head[0], str | os.PathLike) or hasattr(head[0], "read")):
        return [*head, *remaining], ()  # type: ignore[list-item]
    return [], chain(head, remaining)


def _refuse_foreign(head: bytes, source: str) -> None:
    """A file without a run so far: one answer for all of it, if it is known what it is."""
    from twoarm.runs.foreign import refusal

    why = refusal(head, source)
    if why is not None:
        raise InputError(why)


class _Reader:
    """Decodes lines in batches; only a batch that does not add up is looked at line by line."""

    def __init__(self, *, list_all: bool, times: bool) -> None:
        self.builder = Builder(times=times)
        self.seen_keys = SeenKeys()
        self.problems = Problems(every=list_all)
        self.bad_lines = 0
        self.watched: Watched | None = None
        self._blank_lines = 0

    def file(self, file: Path | Readable) -> Input:
        """Read one file to its end."""
        if not isinstance(file, str | os.PathLike):
            return self._stream(file, str(getattr(file, "name", "<stream>")))
        # A path may hold bytes that are not text; they must not break an output.
        name = os.fsencode(file).decode("utf-8", "backslashreplace")
        if "\0" in name:
            raise InputError(
                f"{visible(name)}: cannot be read: a path cannot contain a null character"
            )
        try:
            stream = open(file, "rb")  # noqa: SIM115
        except IsADirectoryError as error:
            from twoarm.runs.foreign import folder_refusal

            raise InputError(folder_refusal(os.fspath(file), visible(name))) from error
        except OSError as error:
            raise InputError(f"{visible(name)}: cannot be read: {error.strerror}") from error
        with stream:
            return self._stream(stream, name)

    def _stream(self, stream: Readable, name: str) -> Input:
        digest = Digest()
        before, accounted = len(self.builder), self._accounted()
        source, line = visible(name), 1
        blocks = digest.through(blocks_of(stream, source))
        if self.watched is not None:
            blocks = self.watched.through(blocks)
        head = b""
        for batch in batches(unpacked(blocks, source)):
            self._batch(batch, source, line)
            line += batch.size
            if len(head) < _HEAD and len(self.builder) == before:
                head += batch.text + b"\n"
                if len(head) >= _HEAD:
                    _refuse_foreign(head, source)
        if len(head) < _HEAD and len(self.builder) == before:
            _refuse_foreign(head, source)
        self._balance(source, "line", line - 1, self._accounted() - accounted)
        return Input(path=name, sha256=digest.hex(), records=len(self.builder) - before)

    def _accounted(self) -> int:
        """How many lines, or runs in memory, have become a run, were blank, or were reported."""
        return len(self.builder) + self._blank_lines + self.bad_lines

    def _balance(self, source: str, noun: str, read: int, accounted: int) -> None:
        """The promise of this module: nothing is dropped in silence."""
        if read != accounted:
            raise TwoarmError(
                f"{source}: {counted(read, noun)} read but {accounted:,} accounted for; "
                "nothing was scored; please report this as a bug in twoarm"
            )

    def _batch(self, batch: Batch, source: str, line: int) -> None:
        reader = self.seen_keys.reader()
        if reader is not None and not batch.too_long:
            decoded = reader.decoded(batch.text, batch.ends)
            if decoded is not None:
                self.builder.add(decoded, source, line)
                return
        numbered = enumerate(batch.lines(), line)
        self._add([self._line(text, Position(source, at)) for at, text in numbered], source, line)

    def _add(self, rows: list[Line | None], source: str, first: int) -> None:
        """Append what is a run among consecutive lines."""
        for good, stretch in groupby(enumerate(rows, first), lambda pair: pair[1] is not None):
            if good:
                numbers, lines = zip(*stretch, strict=True)
                self.builder.add(columns_of(lines), source, numbers[0])

    def _line(self, text: bytes | None, where: Position) -> Line | None:
        """A run; None for a line that is blank, or bad and now reported."""
        if text is None:
            message = f"longer than {LONGEST_LINE // 2**20} MiB; write one object per line"
            self._bad([where.problem(message)])
            return None
        if not text.strip():
            self._blank_lines += 1
            return None
        try:
            # The one skips what it does not know; the other sees all of it.
            decoded, row = _decode_open(text), _decode_any(text)
            problems = [] if whole(row, text) else problems_of(text, where, None)
        except (ValueError, RecursionError) as error:
            problems = problems_of(text, where, error)
        if problems:
            self._bad(problems)
            return None
        self.seen_keys.learn(row)
        return decoded

    def items(self, items: Iterable[Any], noun: str) -> Input:
        """Take runs that are in memory already, each called by the noun and its number."""
        numbered = enumerate(items, 1)
        read = 0
        while batch := list(islice(numbered, _ITEMS)):
            lines = [self._item(item, Position(noun, number)) for number, item in batch]
            self._add(lines, noun, read + 1)
            read += len(batch)
        self._balance("<memory>", noun, read, self._accounted())
        return Input(path="<memory>", sha256=None, records=len(self.builder))

    def _item(self, item: Any, where: Position) -> Line | None:
        if isinstance(item, Run):
            fields = msgspec.structs.asdict(item)
            item = {key: value for key, value in fields.items() if value is not msgspec.UNSET}
        try:
            decoded = msgspec.convert(item, OpenLine)
            # Python strings can hold what no file can.
            f"{decoded.task_id}{decoded.arm}{decoded.failure_reason}".encode()
        except (ValueError, OverflowError, RecursionError) as error:
            problems = explain(item, where)
            self._bad(problems or [where.problem(visible(str(error)))])
            return None
        self.seen_keys.learn(item)
        return decoded

    def _bad(self, problems: list[Problem]) -> None:
        self.bad_lines += 1
        for problem in problems:
            self.problems.add(problem)
