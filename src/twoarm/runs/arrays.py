"""Sums, means and medians of arrays, whole or task by task.

NaN stands for "not measured": no run can hold a NaN, so nothing else can be meant by it. A task's
values stand together; `starts` says where each task begins, and last where the array ends.
"""

import math
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

# Whole numbers are added exactly by any method while every partial sum stays below this.
EXACT = 2.0**53
_BLOCK = 1 << 16


def measured(values: Floats) -> Floats:
    """The values that were measured."""
    missing = np.isnan(values)
    return values[~missing] if missing.any() else values


def or_none(values: Floats) -> list[Any]:
    """The values as a list, None where nothing was measured."""
    return [None if value != value else value for value in values.tolist()]


def total(values: Floats) -> float:
    """The sum, rounded once: it does not depend on the order of the values."""
    whole = np.rint(values)
    if np.array_equal(whole, values) and float(np.abs(whole).sum()) < EXACT:
        return float(values.sum())
    blocks = (values[i : i + _BLOCK].tolist() for i in range(0, len(values), _BLOCK))
    return math.fsum(chain.from_iterable(blocks))


def mean(values: Floats) -> float | None:
    """The mean; None if there are no values."""
    return total(values) / len(values) if len(values) else None


def median(values: Floats) -> float | None:
    """The middle value, or the mean of the two middle ones; None if there are no values."""
    size = len(values)
    if size == 0:
        return None
    middle = size // 2
    parted = np.partition(values, (middle - 1 + size % 2, middle))
    low, high = float(parted[middle - 1 + size % 2]), float(parted[middle])
    return low if low == high else (low + high) / 2


def starts_of(ordered: Ints, size: int) -> Ints:
    """Where each code from 0 on starts in an ordered array; last, where the array ends."""
    return np.searchsorted(ordered, np.arange(size + 1))


def sums(values: Floats, starts: Ints) -> Floats:
    """The sum of each task; none may be empty."""
    if len(starts) < 2:
        return np.empty(0)
    return np.add.reduceat(values, starts[:-1])


def squares(values: Floats, starts: Ints) -> Floats:
    """The sum of squared distances from the mean of each task; exactly 0 where all are equal."""
    if len(starts) < 2:
        return np.empty(0)
    heads, sizes = starts[:-1], np.diff(starts)
    low = np.minimum.reduceat(values, heads)
    centre = np.where(
        low == np.maximum.reduceat(values, heads), low, np.add.reduceat(values, heads) / sizes
    )
    away = values - np.repeat(centre, sizes)
    return np.add.reduceat(away * away, heads)


def medians(values: Floats, starts: Ints) -> Floats:
    """The median of what was measured in each task; NaN where nothing was. Tasks may be empty."""
    sizes = np.diff(starts)
    medians = np.full(len(sizes), np.nan)
    # `np.unique` would import masked arrays.
    for size in {*sizes.tolist()} - {0}:
        tasks = np.flatnonzero(sizes == size)
        # A row for each task of this size; NaN is ordered last.
        rows = np.sort(values[starts[tasks][:, None] + np.arange(size)], axis=1)
        known = size - np.isnan(rows).sum(axis=1)
        each = np.arange(len(tasks))
        low, high = rows[each, (known - 1) // 2], rows[each, known // 2]
        medians[tasks] = np.where(low == high, low, (low + high) / 2)
    return medians


def spaced(values: Floats, most: int) -> Ints:
    """Where the values are, in order; if too many, `most` at even ranks, with both ends."""
    order = np.argsort(values, kind="stable")
    if len(values) <= most:
        return order
    return order[[round(i / (most - 1) * (len(values) - 1)) for i in range(most)]]


def at_ranks(values: Floats, shares: list[float]) -> list[float]:
    """The values nearest to these ranks, from 0 for the smallest to 1 for the largest."""
    ranks = [round(share * (len(values) - 1)) for share in shares]
    parted = np.partition(values, sorted(set(ranks)))
    return [float(parted[rank]) for rank in ranks]
