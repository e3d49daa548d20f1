"""What the tests of the numerical kernels share: the values of tasks as the arrays they take."""

import itertools

import numpy as np

from twoarm.evidence.cells import Grouped
from twoarm.runs.arrays import Floats, Ints


def floats(values: list[float]) -> Floats:
    return np.array(values, dtype=np.float64)


def ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def together(parts: list[list[float]]) -> tuple[Floats, Ints]:
    """The values of all tasks, and where each task starts."""
    values = floats([value for part in parts for value in part])
    return values, ints([0, *itertools.accumulate(map(len, parts))])


def grouped(parts: list[list[float]]) -> Grouped:
    values, starts = together(parts)
    return Grouped(values=values, tasks=np.arange(len(parts)), starts=starts)


PARTS = [[1.0, 5.0, 5.0], [2.0, 7.0], [3.0, 3.0, 8.0]]
