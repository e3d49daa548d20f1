"""What the runs called, as columns: uses of the change, and calls of each tool where there are any.

A file without these keys costs nothing; in one with very many tool names, only the first are told
apart.
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.record import OTHER_TOOLS, UPTAKE_NOT_SHOWN, LineColumns

# No more names than this are told apart in one data set.
MOST_NAMES = 1000


class Tallies(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by tool: those of row `row[i]` of the tool with code `tool[i]` are `count[i]`.

    `known` are the rows that have counts at all, in order.
    """

    known: Ints
    row: Ints
    tool: Ints
    count: Floats


class ToolColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of all runs; a column of uses is empty if no run has one, NaN where missing."""

    names: tuple[str, ...]
    made: Tallies
    failed: Tallies
    uptake: Floats
    failed_uptake: Floats
    # The rows whose uses were to be counted, but cannot be seen.
    not_shown: Ints


class _Tally:
    """Collects the counts of one key."""

    def __init__(self) -> None:
        self.known = array("q")
        self.row = array("q")
        self.tool = array("q")
        self.count = array("d")

    def add(self, row: int, counts: Mapping[str, int], names: dict[str, int]) -> None:
        self.known.append(row)
        for name, count in counts.items():
            code = names.get(name)
            if code is None:
                code = names[OTHER_TOOLS]
                if len(names) < MOST_NAMES:
                    code = names[name] = len(names)
            self.row.append(row)
            self.tool.append(code)
            self.count.append(count)

    def finish(self) -> Tallies:
        return Tallies(
            known=np.frombuffer(self.known, dtype=np.int64),
            row=np.frombuffer(self.row, dtype=np.int64),
            tool=np.frombuffer(self.tool, dtype=np.int64),
            count=np.frombuffer(self.count, dtype=np.float64),
        )


class ToolBuilder:
    """Takes decoded lines a batch at a time and gives the columns at the end."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {OTHER_TOOLS: 0}
        self._made = _Tally()
        self._failed = _Tally()
        self._uptake = array("d")
        self._failed_uptake = array("d")
        self._not_shown = array("q")

    def add(self, columns: LineColumns, first_row: int) -> None:
        """Take note of runs that follow those before; a key that no line has is not there."""
        for tally, key in ((self._made, "tool_calls"), (self._failed, "failed_tool_calls")):
            _each(tally, columns.get(key, ()), first_row, self._names)
        _extend(self._uptake, columns.get("uptake_count", ()), first_row)
        _extend(self._failed_uptake, columns.get("failed_uptake_count", ()), first_row)
        tags = columns.get("tags", ())
        if any_known(tags):
            self._not_shown.extend(
                row
                for row, caveats in enumerate(tags, first_row)
                if isinstance(caveats, list | tuple) and UPTAKE_NOT_SHOWN in caveats
            )

    def finish(self, rows: int) -> ToolColumns:
        """The columns of everything added."""
        return ToolColumns(
            names=tuple(self._names),
            made=self._made.finish(),
            failed=self._failed.finish(),
            uptake=_whole(self._uptake, rows),
            failed_uptake=_whole(self._failed_uptake, rows),
            not_shown=np.frombuffer(self._not_shown, dtype=np.int64),
        )


def _extend(column: "array[float]", values: Sequence[Any], first_row: int) -> None:
    if any_known(values):
        column.extend([math.nan] * (first_row - len(column)))
        column.extend(value if isinstance(value, int) else math.nan for value in values)


def _whole(column: "array[float]", rows: int) -> Floats:
    if len(column):
        column.extend([math.nan] * (rows - len(column)))
    return np.frombuffer(column, dtype=np.float64)


def any_known(values: Sequence[Any]) -> bool:
    """Whether some line has a value there."""
    return values.count(None) < len(values) and any(
        v is not None and v is not UNSET for v in values
    )


def _each(tally: _Tally, values: Sequence[Any], first_row: int, names: dict[str, int]) -> None:
    if any_known(values):
        for row, counts in enumerate(values, first_row):
            if counts is not None and counts is not UNSET:
                tally.add(row, counts, names)
