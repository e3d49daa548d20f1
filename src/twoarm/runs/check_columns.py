"""What acceptance found in each run, as columns: its score, and each check by its name.

A file without checks costs nothing for them.
"""

import math
from array import array
from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec import UNSET

from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.record import LineColumns
from twoarm.runs.tool_columns import any_known


class CheckColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Checks by run: row `row[i]` has the check with code `check[i]`, and `passed[i]` says how.

    That is 1 if it passed, 0 if it failed, and NaN if nobody knows. `known` are the rows that
    have checks at all, in order; `names_of` is, for each of these, a code into `sets`.
    """

    names: tuple[str, ...]
    row: Ints
    check: Ints
    passed: Floats
    # The names that the checks of one run may have, in alphabetical order.
    sets: tuple[tuple[str, ...], ...]
    known: Ints
    names_of: Ints


class CheckBuilder:
    """Takes decoded lines a batch at a time and gives the columns at the end."""

    def __init__(self) -> None:
        self._score = array("d")
        self._names: dict[str, int] = {}
        self._row = array("q")
        self._check = array("q")
        self._passed = array("d")
        self._sets: dict[tuple[str, ...], int] = {}
        self._known = array("q")
        self._names_of = array("q")

    def add(self, columns: LineColumns, first_row: int) -> None:
        """Take note of runs that follow those before; a key that no line has is not there."""
        scores = columns.get("score", ())
        if any_known(scores):
            self._fill(first_row)
            self._score.extend(math.nan if s is None or s is UNSET else s for s in scores)
        checks = columns.get("checks", ())
        if any_known(checks):
            for row, results in enumerate(checks, first_row):
                # An empty object says as little as a null.
                if results and results is not UNSET:
                    self._add(row, results)

    def _add(self, row: int, results: Mapping[str, bool | None]) -> None:
        names = tuple(sorted(results))
        self._known.append(row)
        self._names_of.append(self._sets.setdefault(names, len(self._sets)))
        for name in names:
            passed = results[name]
            self._row.append(row)
            self._check.append(self._names.setdefault(name, len(self._names)))
            self._passed.append(math.nan if passed is None else passed)

    def _fill(self, rows: int) -> None:
        self._score += array("d", (math.nan,)) * (rows - len(self._score))

    def scores(self, rows: int) -> Floats:
        """The score of every run; NaN where there is none."""
        self._fill(rows)
        column = np.frombuffer(self._score, dtype=np.float64)
        # No -0.0 in any figure.
        column += 0.0
        return column

    def finish(self) -> CheckColumns:
        """The checks of everything added."""
        return CheckColumns(
            names=tuple(self._names),
            row=np.frombuffer(self._row, dtype=np.int64),
            check=np.frombuffer(self._check, dtype=np.int64),
            passed=np.frombuffer(self._passed, dtype=np.float64),
            sets=tuple(self._sets),
            known=np.frombuffer(self._known, dtype=np.int64),
            names_of=np.frombuffer(self._names_of, dtype=np.int64),
        )
