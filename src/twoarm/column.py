"""Columns of numbers: plain lists when there are few, numpy arrays when there are many.

Every function gives the same answer for both, to the last bit. Importing numpy takes longer than
scoring a small file, so it is imported only when a column is long. NaN stands for "not measured":
no run can hold a NaN, so nothing else can be meant by it.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import reduce
from itertools import chain, pairwise
from operator import add
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Floats: TypeAlias = "list[float] | NDArray[np.float64]"
Ints: TypeAlias = "list[int] | NDArray[np.int64]"

# From about this many values on, numpy earns back its import.
FEW = 2_000
# Whole numbers are added exactly by any method while every partial sum stays below this.
EXACT = 2.0**53
_BLOCK = 1 << 16
# From so many values to a stretch on, ordering them pays.
_LONG = 64
# Up to so many values, sums by task are rounded once; beyond, speed matters more.
_FSUM = 2_000


def floats(values: "array[float]", *, few: bool) -> Floats:
    """A column over `values`, without a copy when there are many; -0.0 becomes 0.0."""
    if few:
        return [value + 0.0 for value in values]
    import numpy as np

    column = np.frombuffer(values, dtype=np.float64)
    column += 0.0
    return column


def flags(values: bytearray, *, few: bool) -> Floats:
    """A column of 0.0 and 1.0."""
    if few:
        return [float(value) for value in values]
    import numpy as np

    return np.frombuffer(values, dtype=np.int8).astype(np.float64)


def ints(values: "array[int]", *, few: bool) -> Ints:
    """A column of whole numbers over `values`."""
    if few:
        return values.tolist()
    import numpy as np

    return np.frombuffer(values, dtype=f"i{values.itemsize}")


def take(column: Any, rows: Ints) -> Any:
    """The values at `rows`, in that order."""
    if isinstance(column, list):
        return [column[row] for row in rows]
    return column[rows]


def rows_where(codes: Ints, wanted: Sequence[bool]) -> Ints:
    """The rows whose code is wanted."""
    if isinstance(codes, list):
        return [row for row, code in enumerate(codes) if wanted[code]]
    import numpy as np

    return np.flatnonzero(np.asarray(wanted, dtype=bool)[codes])


def counts(codes: Ints, size: int) -> list[int]:
    """How often each code from 0 to `size` - 1 occurs."""
    if isinstance(codes, list):
        result = [0] * size
        for code in codes:
            result[code] += 1
        return result
    import numpy as np

    return [int(count) for count in np.bincount(codes, minlength=size)]


def recoded(codes: Ints, table: list[int]) -> Ints:
    """Each code replaced by its entry in `table`."""
    if isinstance(codes, list):
        return [table[code] for code in codes]
    import numpy as np

    return np.asarray(table, dtype=np.int64)[codes]


def joined_keys(major: Ints, minor: Ints) -> Ints:
    """One whole number per row that orders and identifies rows as (major, minor) would."""
    if isinstance(major, list):
        step = max(minor, default=0) + 1
        return [a * step + b for a, b in zip(major, minor, strict=True)]
    import numpy as np

    if len(major) == 0:
        return np.empty(0, dtype=np.int64)
    step = int(np.max(minor)) + 1
    if (int(np.max(major)) + 1) * step >= 2**63:
        distinct, minor = np.unique(minor, return_inverse=True)
        step = len(distinct)
    return np.asarray(major, dtype=np.int64) * step + minor


def order(keys: Ints) -> Ints:
    """The rows that put `keys` in order; equal keys stay in the order they came."""
    if isinstance(keys, list):
        return sorted(range(len(keys)), key=keys.__getitem__)
    import numpy as np

    return np.argsort(keys, kind="stable")


def repeated(ordered: Ints) -> list[int]:
    """The positions in an ordered column whose value is that of the position before."""
    if isinstance(ordered, list):
        return [i for i in range(1, len(ordered)) if ordered[i] == ordered[i - 1]]
    import numpy as np

    found: list[int] = (np.flatnonzero(ordered[1:] == ordered[:-1]) + 1).tolist()
    return found


def without(column: Any, positions: list[int]) -> Any:
    """The column less the values at `positions`."""
    if not positions:
        return column
    if isinstance(column, list):
        gone = set(positions)
        return [value for i, value in enumerate(column) if i not in gone]
    import numpy as np

    return np.delete(column, positions)


def outside(column: Floats, first: int, last: int) -> Floats:
    """The column less the values from `first` to before `last`."""
    if first == last:
        return column
    if isinstance(column, list):
        return column[:first] + column[last:]
    import numpy as np

    return np.concatenate((column[:first], column[last:]))


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Where two ordered columns without repeats hold the same key."""

    left: Ints
    right: Ints


def match(left: Ints, right: Ints) -> Match:
    """The positions of the keys that both ordered columns hold, in order."""
    if isinstance(left, list):
        at = {key: i for i, key in enumerate(right)}
        both = [i for i, key in enumerate(left) if key in at]
        return Match(left=both, right=[at[left[i]] for i in both])
    import numpy as np

    at_right = np.searchsorted(right, left)
    at_right[at_right == len(right)] = 0
    both_rows = (
        np.flatnonzero(np.asarray(right)[at_right] == left)
        if len(right)
        else np.empty(0, dtype=np.int64)
    )
    return Match(left=both_rows, right=at_right[both_rows])


def bounds(ordered: Ints, size: int) -> list[int]:
    """Where each code from 0 to `size` starts in an ordered column; last, its length."""
    if isinstance(ordered, list):
        return [bisect_left(ordered, code) for code in range(size)] + [len(ordered)]
    import numpy as np

    found: list[int] = np.searchsorted(ordered, np.arange(size + 1)).tolist()
    return found


def position(ordered: Ints, value: int) -> int:
    """How many values of an ordered column are below `value`."""
    if isinstance(ordered, list):
        return bisect_left(ordered, value)
    import numpy as np

    return int(np.searchsorted(ordered, value))


def share_smaller(left: Floats, right: Floats) -> float:
    """The share of pairs of one of each, both ordered, in which the left is smaller; ties half."""
    if isinstance(left, list):
        above = sum(
            2 * len(right) - bisect_left(right, value) - bisect_right(right, value)
            for value in left
        )
        return above / (2 * len(left) * len(right))
    import numpy as np

    first = np.searchsorted(right, left, side="left")
    last = np.searchsorted(right, left, side="right")
    return float((2 * len(right) - first - last).sum() / (2 * len(left) * len(right)))


def added(columns: list[Floats]) -> Floats:
    """The row-wise sum; a row with a value not measured is not measured."""
    if len(columns) == 1:
        return columns[0]
    if isinstance(columns[0], list):
        # Not `sum`, which since Python 3.12 rounds otherwise than numpy does.
        return [reduce(add, values) for values in zip(*columns, strict=True)]
    total = columns[0] + columns[1]
    for column in columns[2:]:
        total += column
    return total


def subtracted(left: Floats, right: Floats) -> Floats:
    """The row-wise difference; a row with a value not measured is not measured."""
    if isinstance(left, list):
        return [a - b for a, b in zip(left, right, strict=True)]
    return left - right


def scaled(column: Floats, factor: float) -> Floats:
    """The column times a number."""
    if isinstance(column, list):
        return [value * factor for value in column]
    return column * factor


def magnitude(column: Floats) -> float:
    """The sum of the absolute values, near enough to judge rounding by."""
    if isinstance(column, list):
        return math.fsum(map(abs, column))
    import numpy as np

    return float(np.abs(column).sum())


def smallest(column: Floats) -> float:
    """The smallest value."""
    return min(column) if isinstance(column, list) else float(column.min())


def largest(column: Floats) -> float:
    """The largest value."""
    return max(column) if isinstance(column, list) else float(column.max())


def count_equal(column: Floats, value: float) -> int:
    """How many values equal this one."""
    return column.count(value) if isinstance(column, list) else int((column == value).sum())


def rows_from(column: Floats, least: float) -> Ints:
    """The rows whose value is at least this."""
    if isinstance(column, list):
        return [row for row, value in enumerate(column) if value >= least]
    import numpy as np

    return np.flatnonzero(column >= least)


def distinct(codes: Ints) -> list[int]:
    """The codes that occur, in order."""
    if isinstance(codes, list):
        return sorted(set(codes))
    import numpy as np

    found: list[int] = np.flatnonzero(np.bincount(codes)).tolist()
    return found


def zeroed(column: Floats, rows: Ints) -> Floats:
    """The column with 0 at `rows`."""
    changed = column.copy()
    if isinstance(changed, list):
        for row in rows:
            changed[row] = 0.0
    else:
        changed[rows] = 0.0
    return changed


def filled(column: Floats, stand_in: float) -> Floats:
    """The column with another value wherever nothing was measured."""
    if isinstance(column, list):
        return [stand_in if math.isnan(value) else value for value in column]
    import numpy as np

    return np.where(np.isnan(column), stand_in, column)


def measured_rows(column: Floats) -> Ints:
    """The rows where something was measured."""
    if isinstance(column, list):
        return [row for row, value in enumerate(column) if not math.isnan(value)]
    import numpy as np

    return np.flatnonzero(~np.isnan(column))


def measured(column: Floats) -> Floats:
    """The values that were measured."""
    if isinstance(column, list):
        return [value for value in column if not math.isnan(value)]
    import numpy as np

    missing = np.isnan(column)
    return column[~missing] if missing.any() else column


def total(column: Floats) -> float:
    """The sum, rounded once: it does not depend on the order of the values."""
    if isinstance(column, list):
        return math.fsum(column)
    import numpy as np

    whole = np.rint(column)
    if np.array_equal(whole, column) and float(np.abs(whole).sum()) < EXACT:
        return float(column.sum())
    blocks = (column[i : i + _BLOCK].tolist() for i in range(0, len(column), _BLOCK))
    return math.fsum(chain.from_iterable(blocks))


def mean(column: Floats) -> float | None:
    """The mean, or None of an empty column."""
    return total(column) / len(column) if len(column) else None


def median(column: Floats) -> float | None:
    """The middle value, or the mean of the two middle ones; None of an empty column."""
    size = len(column)
    if size == 0:
        return None
    middle = size // 2
    if isinstance(column, list):
        ordered = sorted(column)
        low, high = ordered[middle - 1 + size % 2], ordered[middle]
    elif size <= 64:
        return median(column.tolist())
    else:
        import numpy as np

        parted = np.partition(column, (middle - 1 + size % 2, middle))
        low, high = float(parted[middle - 1 + size % 2]), float(parted[middle])
    return low if low == high else (low + high) / 2


def spread(column: Floats) -> float | None:
    """The standard deviation as a share of the mean; None of one value or a mean of zero."""
    size = len(column)
    if size < 2:
        return None
    centre = total(column) / size
    if centre == 0.0:
        return None
    if isinstance(column, list):
        squares = math.fsum((value - centre) ** 2 for value in column)
    else:
        away = column - centre
        squares = float((away * away).sum())
    return math.sqrt(squares / (size - 1)) / centre


def vector(column: Floats) -> Floats:
    """The column as an array, however short."""
    import numpy as np

    return np.asarray(column, dtype=np.float64)


def group_totals(column: Floats, starts: list[int]) -> list[float]:
    """The sum of each stretch between two neighbours in `starts`; no stretch is empty."""
    if not isinstance(column, list) and len(column) <= _FSUM:
        column = column.tolist()
    if isinstance(column, list):
        return [math.fsum(column[a:b]) for a, b in pairwise(starts)]
    import numpy as np

    return np.add.reduceat(column, starts[:-1]).tolist() if len(starts) > 1 else []


def group_squares(column: Floats, starts: list[int]) -> list[float]:
    """The sum of squared distances from the mean of each stretch; exactly 0 if all are equal."""
    if not isinstance(column, list) and len(column) <= _FSUM:
        column = column.tolist()
    if isinstance(column, list):
        squares = []
        for a, b in pairwise(starts):
            part = column[a:b]
            centre = part[0] if min(part) == max(part) else math.fsum(part) / len(part)
            squares.append(math.fsum((value - centre) ** 2 for value in part))
        return squares
    if len(starts) < 2:
        return []
    import numpy as np

    sizes = np.diff(starts)
    means = np.add.reduceat(column, starts[:-1]) / sizes
    low = np.minimum.reduceat(column, starts[:-1])
    means = np.where(low == np.maximum.reduceat(column, starts[:-1]), low, means)
    away = column - np.repeat(means, sizes)
    found: list[float] = np.add.reduceat(away * away, starts[:-1]).tolist()
    return found


class Counter:
    """Counts, in each stretch between two neighbours in `starts`, the values up to given points.

    Long stretches are put in order once, so that a point costs a look-up in each and not a pass
    over all values.
    """

    def __init__(self, column: Floats, starts: list[int]) -> None:
        self._starts = starts
        self._column = column
        self._ordered = len(column) >= _LONG * (len(starts) - 1)
        if self._ordered:
            self._column = column.copy()
            for a, b in pairwise(starts):
                self._column[a:b] = ordered(self._column[a:b])

    def up_to(self, points: list[float]) -> list[list[int]]:
        """For each point, how many values of each stretch are at most that."""
        column = self._column
        if isinstance(column, list):
            return [
                [sum(value <= point for value in column[a:b]) for a, b in pairwise(self._starts)]
                for point in points
            ]
        import numpy as np

        found: list[list[int]]
        if self._ordered:
            looked = [
                np.searchsorted(column[a:b], points, side="right")
                for a, b in pairwise(self._starts)
            ]
            found = np.stack(looked, axis=1).tolist()
        else:
            heads = self._starts[:-1]
            found = [
                np.add.reduceat((column <= point).astype(np.int64), heads).tolist()
                for point in points
            ]
        return found


def logarithms(column: Floats) -> "Floats | None":
    """The natural logarithms, or None if a value is not positive."""
    if isinstance(column, list):
        return [math.log(value) for value in column] if min(column, default=1) > 0 else None
    import numpy as np

    return np.log(column) if len(column) == 0 or column.min() > 0 else None


def ordered(column: Floats) -> Floats:
    """The values from the smallest to the largest."""
    if isinstance(column, list):
        return sorted(column)
    import numpy as np

    return np.sort(column)


def at_ranks(column: Floats, shares: list[float]) -> list[float]:
    """The values nearest to these ranks, from 0 for the smallest to 1 for the largest."""
    ranks = [round(share * (len(column) - 1)) for share in shares]
    if isinstance(column, list):
        values = sorted(column)
        return [values[rank] for rank in ranks]
    import numpy as np

    parted = np.partition(column, sorted(set(ranks)))
    return [float(parted[rank]) for rank in ranks]


def spaced(column: Floats, most: int) -> list[float]:
    """The values in order; of more than `most`, so many evenly by rank, with both ends."""
    if len(column) > most:
        return at_ranks(column, [i / (most - 1) for i in range(most)])
    return sorted(column) if isinstance(column, list) else sorted(column.tolist())


def above_zero(column: Floats) -> Floats:
    """The values above zero."""
    if isinstance(column, list):
        return [value for value in column if value > 0]
    return column[column > 0]


def histogram(column: Floats, first: float, wide: float, size: int) -> list[int]:
    """How many values lie in each of `size` stretches of this width, from `first` on."""
    if isinstance(column, list):
        return counts([min(size - 1, int((value - first) / wide)) for value in column], size)
    import numpy as np

    return counts(np.minimum(size - 1, ((column - first) / wide).astype(np.int64)), size)


def thinned(items: list[Any], most: int) -> list[Any]:
    """The items in their order; of more than `most`, so many evenly, with both ends."""
    if len(items) <= most:
        return items
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]
