"""Tasks drawn again: weights shared by every metric, bootstrap means, arm medians, stability."""

import math
from functools import lru_cache
from itertools import combinations_with_replacement

import msgspec
import numpy as np

from twoarm.evidence.cells import Grouped
from twoarm.evidence.interval import Frame
from twoarm.evidence.kernel import Support
from twoarm.runs.arrays import Flags, Floats, Ints
from twoarm.runs.metric import Metric

# Up to this many tasks, every resample is listed with its chance: at most 6,435, and no seed.
ALL_UP_TO = 8
# Beyond this many, tasks are drawn in bundles.
MOST_UNITS = 2_000
BUNDLES = 1_000
# In a table of medians: values in a block, most blocks, and rows of weights at a time.
_WIDTH = 64
_BLOCKS = 1_024
_ROWS = 512
_FAR = 8.0


def draws(seed: int | list[int], rows: int, columns: int, below: int) -> Ints:
    """Whole numbers from 0 to `below` - 1 that every version of numpy draws alike.

    The words of a bit generator are promised not to change; what `Generator` makes of them is not.
    """
    count = rows * columns
    words = np.random.PCG64(seed).random_raw((count + 1) // 2)
    drawn = words.view(np.uint32)[:count].astype(np.uint64)
    drawn *= np.uint64(below)
    drawn >>= np.uint64(32)
    return drawn.view(np.int64).reshape(rows, columns)


class Resamples(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of the tasks in each resample, a row each, and the chance of each row.

    `unit` says which column a task's weight is in: its own, or that of its bundle.
    """

    weights: Floats
    chances: Floats
    unit: Ints
    exact: bool

    def sums(self, per_task: Floats | Ints) -> Floats:
        """The weighted sum of a figure per task, for every resample."""
        units = np.bincount(self.unit, weights=per_task, minlength=self.weights.shape[1])
        return self.weights @ units

    def percentiles(self, values: Floats, tail: float) -> tuple[float, float]:
        """The smallest values reached with a chance of the tail, and of all but the tail."""
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(self.chances[order])
        low, high = np.searchsorted(reached, [tail - 1e-12, 1.0 - tail - 1e-12])
        last = len(order) - 1
        return float(values[order[min(low, last)]]), float(values[order[min(high, last)]])


def _every_resample(tasks: int) -> Resamples:
    """All ways to draw as many tasks as there are, with replacement."""
    drawn = combinations_with_replacement(range(tasks), tasks)
    weights = np.array([np.bincount(resample, minlength=tasks) for resample in drawn])
    factorials = np.array([math.factorial(n) for n in range(tasks + 1)])
    ways = math.factorial(tasks) // factorials[weights].prod(axis=1)
    return Resamples(
        weights=weights.astype(np.float64),
        chances=ways / tasks**tasks,
        unit=np.arange(tasks),
        exact=True,
    )


@lru_cache(maxsize=2)
def resample_tasks(tasks: int, seed: int, resamples: int) -> Resamples:
    """The resamples that every metric shares."""
    if tasks <= ALL_UP_TO:
        return _every_resample(tasks)
    unit = np.arange(tasks)
    units = tasks
    if tasks > MOST_UNITS:
        # A fixed shuffle, so that bundles do not follow the order of names.
        mixed = np.argsort(np.random.PCG64(seed + 1).random_raw(tasks), kind="stable")
        unit = np.empty(tasks, dtype=np.int64)
        unit[mixed] = np.arange(tasks) % BUNDLES
        units = BUNDLES
    drawn = draws(seed, resamples, units, units)
    flat = (drawn + np.arange(resamples)[:, None] * units).ravel()
    weights = np.bincount(flat, minlength=resamples * units).reshape(resamples, units)
    return Resamples(
        weights=weights.astype(np.float64),
        chances=np.full(resamples, 1.0 / resamples),
        unit=unit,
        exact=False,
    )


def shared_resamples(tasks: int, frame: Frame) -> Resamples | None:
    """The same draws for everything that looks at this many tasks; None for fewer than two."""
    return resample_tasks(tasks, frame.seed, frame.resamples) if tasks >= 2 else None


def task_medians(values: Floats, starts: Ints) -> Support:
    """The median of the values under every resample of a few tasks, with its chance."""
    tasks = np.arange(len(starts) - 1)
    every = _every_resample(len(tasks))
    table = MedianTable(Grouped(values=values, tasks=tasks, starts=starts), tasks, len(tasks))
    return Support(values=table.medians(every.weights), chances=every.chances)


class MedianTable:
    """One arm's values in order, with what it takes to find the median under any task weights.

    The values around the median are cut into blocks; how many of each task lie below each cut is
    counted once. A resample then needs one product for all cuts and a look into a single block.
    """

    def __init__(self, grouped: Grouped, unit: Ints, units: int, *, whole: bool = False) -> None:
        # Any order of equal values gives the same medians.
        order = np.argsort(grouped.values)
        self._values = grouped.values[order]
        self._task = np.repeat(unit.astype(np.int32), grouped.sizes)[order]
        self._again = grouped, unit, units
        self._sizes = np.bincount(self._task, minlength=units).astype(np.float64)
        size = len(order)
        lower = np.bincount(self._task[: size // 2], minlength=units)
        # How far a resample moves the rank of its median; this many times that is far enough.
        reach = size if whole else int(_FAR * np.sqrt(((lower - self._sizes / 2) ** 2).sum())) + 64
        first, last = max(0, size // 2 - reach), min(size, size // 2 + reach)
        blocks = max(1, min(_BLOCKS, (last - first) // _WIDTH))
        self._edges = np.linspace(first, last, blocks + 1).astype(np.int64)
        block_of = np.repeat(np.arange(blocks), np.diff(self._edges))
        counts = np.bincount(
            block_of * units + self._task[first:last], minlength=blocks * units
        ).reshape(blocks, units)
        below = np.bincount(self._task[:first], minlength=units)
        self._below = np.cumsum(np.vstack((below, counts)), axis=0).astype(np.float64)

    def medians(self, weights: Floats) -> Floats:
        """The median of the arm for every row of weights; NaN where a row draws no value."""
        results = [self._some(weights[i : i + _ROWS]) for i in range(0, len(weights), _ROWS)]
        return np.concatenate(results)

    def _some(self, weights: Floats) -> Floats:
        reached = weights @ self._below.T
        totals = weights @ self._sizes
        rank = np.floor((totals + 1) / 2)
        even = totals % 2 == 0
        medians = np.full(len(weights), np.nan)
        here = (reached[:, 0] < rank) & (rank + even <= reached[:, -1])
        medians[here] = self._inside(weights[here], reached[here], rank[here], even[here])
        # A median so far out is rare: all values are looked through for it.
        elsewhere = ~here & (totals > 0)
        if elsewhere.any():
            medians[elsewhere] = MedianTable(*self._again, whole=True).medians(weights[elsewhere])
        return medians

    def _inside(self, weights: Floats, reached: Floats, rank: Floats, even: Flags) -> Floats:
        first, second = self._ranked(weights, reached, rank, even)
        # Where the next value is past the block, by its own rank.
        past = np.flatnonzero(second < 0)
        alone = np.zeros(len(past), dtype=bool)
        second[past], _ = self._ranked(weights[past], reached[past], rank[past] + 1, alone)
        low, high = self._values[first], self._values[second]
        return np.where(low == high, low, (low + high) / 2)

    def _ranked(
        self, weights: Floats, reached: Floats, rank: Floats, and_next: Flags
    ) -> tuple[Ints, Ints]:
        """Where the value of this rank is and, if asked for, the next; -1 if past the block."""
        block = np.count_nonzero(reached < rank[:, None], axis=1) - 1
        starts, stops = self._edges[block], self._edges[block + 1]
        width = int(np.diff(self._edges).max())
        at = np.minimum(starts[:, None] + np.arange(width), len(self._values) - 1)
        rows = np.arange(len(weights))
        # Small numbers: they are gathered in half the time.
        steps = weights.astype(np.int32)[rows[:, None], self._task[at]]
        steps[np.arange(width) >= (stops - starts)[:, None]] = 0
        counted = np.cumsum(steps, axis=1)
        missing = (rank - reached[rows, block])[:, None]
        first = starts + np.count_nonzero(counted < missing, axis=1)
        second = starts + np.count_nonzero(counted < missing + and_next[:, None], axis=1)
        return first, np.where(second < stops, second, -1)


class Tables:
    """The median tables of each arm and metric, built once for all that ask."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str, bytes, int], MedianTable] = {}

    def table(self, arm: str, grouped: Grouped, metric: Metric, unit: Ints) -> MedianTable:
        """The table of one arm and metric over these tasks."""
        units = int(unit.max()) + 1
        key = (arm, metric.name, grouped.tasks.tobytes(), units)
        if key not in self._tables:
            self._tables[key] = MedianTable(grouped, unit, units)
        return self._tables[key]
