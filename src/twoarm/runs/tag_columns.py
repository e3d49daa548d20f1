"""The tags of the task of each run, as columns. A file without tags costs nothing for them."""

from array import array

import msgspec
import numpy as np
from msgspec import UNSET

from twoarm.runs.arrays import Ints
from twoarm.runs.record import LineColumns
from twoarm.runs.tool_columns import any_known


class TagColumns(msgspec.Struct, frozen=True, kw_only=True):
    """For each run a code into `sets`, or -1 where its record says nothing; empty if none does."""

    # In alphabetical order, each once.
    sets: tuple[tuple[str, ...], ...]
    codes: Ints

    def by_task(self, task: Ints, tasks: int) -> tuple[tuple[str, ...], ...]:
        """The tags of every task: those of any of its runs, which are all alike."""
        tags: list[tuple[str, ...]] = [()] * tasks
        rows = np.flatnonzero(self.codes >= 0)
        of_task = np.full(tasks, -1)
        of_task[task[rows]] = self.codes[rows]
        for place in np.flatnonzero(of_task >= 0).tolist():
            tags[place] = self.sets[int(of_task[place])]
        return tuple(tags)


class TagBuilder:
    """Takes decoded lines a batch at a time and gives the columns at the end."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, ...], int] = {}
        self._codes = array("q")

    def add(self, columns: LineColumns, first_row: int) -> None:
        """Take note of runs that follow those before; a key that no line has is not there."""
        tagged = columns.get("task_tags", ())
        if not any_known(tagged):
            return
        self._fill(first_row)
        # Those of a task are in all of its runs.
        codes = {tags: self._code(tags) for tags in set(tagged)}
        self._codes.extend(map(codes.__getitem__, tagged))

    def _code(self, tags: object) -> int:
        """An empty list says as little as a null."""
        if not tags or tags is UNSET or not isinstance(tags, tuple):
            return -1
        return self._sets.setdefault(tuple(sorted(set(tags))), len(self._sets))

    def _fill(self, rows: int) -> None:
        self._codes += array("q", (-1,)) * (rows - len(self._codes))

    def finish(self, rows: int) -> TagColumns:
        """The tags of everything added."""
        if self._sets:
            self._fill(rows)
        return TagColumns(sets=tuple(self._sets), codes=np.frombuffer(self._codes, dtype=np.int64))
