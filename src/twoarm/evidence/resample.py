"""Tasks drawn again: weights shared by every metric, bootstrap means, arm medians, stability."""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from typing import TYPE_CHECKING

import msgspec

from twoarm import column
from twoarm.evidence.cells import Grouped
from twoarm.evidence.interval import Frame
from twoarm.metric import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats2 = NDArray[np.float64]

# Up to so many tasks every resample is listed with its chance: 6,435 at the most, and no seed.
ALL_UP_TO = 8
# More tasks than this are drawn in bundles.
MOST_UNITS = 2_000
BUNDLES = 1_000
_BLOCKS = 1_024
_ROWS = 512


class Resample(msgspec.Struct, frozen=True, kw_only=True):
    """How often each task was drawn, and the chance of exactly that."""

    weights: tuple[int, ...]
    chance: float


def every_resample(tasks: int) -> Iterator[Resample]:
    """All ways to draw as many tasks as there are, with replacement."""
    for drawn in combinations_with_replacement(range(tasks), tasks):
        weights = [0] * tasks
        for task in drawn:
            weights[task] += 1
        ways = math.factorial(tasks)
        for weight in weights:
            ways //= math.factorial(weight)
        yield Resample(weights=tuple(weights), chance=ways / tasks**tasks)


class MedianAtom(msgspec.Struct, frozen=True, kw_only=True):
    """A median that a resample can have, and its chance."""

    median: float
    chance: float


def task_medians(grouped: Grouped) -> list[MedianAtom]:
    """The median of the values under every resample of a few tasks, with its chance."""
    parts = [[float(v) for v in grouped.values[a:b]] for a, b in pairwise(grouped.starts)]
    found = []
    for resample in every_resample(len(parts)):
        values: list[float] = []
        for weight, part in zip(resample.weights, parts, strict=True):
            values += part * weight
        middle = column.median(values)
        assert middle is not None
        found.append(MedianAtom(median=middle, chance=resample.chance))
    return found


def draws(seed: int | list[int], rows: int, columns: int, below: int) -> "NDArray[np.int64]":
    """Whole numbers from 0 to `below` - 1 that every version of numpy draws alike.

    The words of a bit generator are promised not to change; what `Generator` makes of them is not.
    """
    import numpy as np

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

    weights: "Floats2"
    chances: "Floats2"
    unit: "NDArray[np.int64]"
    exact: bool

    def sums(self, per_task: list[float] | list[int]) -> "Floats2":
        """The weighted sum of a figure per task, for every resample."""
        import numpy as np

        units = np.bincount(self.unit, weights=per_task, minlength=self.weights.shape[1])
        return self.weights @ units

    def share(self, sums: "Floats2", bound: float) -> float:
        """The chance that a sum is at least `bound`."""
        return float(self.chances[sums >= bound].sum())

    def percentiles(self, values: "Floats2", tail: float) -> tuple[float, float]:
        """The smallest values reached with a chance of the tail, and of all but the tail."""
        import numpy as np

        order = np.argsort(values, kind="stable")
        reached = np.cumsum(self.chances[order])
        low, high = np.searchsorted(reached, [tail - 1e-12, 1.0 - tail - 1e-12])
        last = len(order) - 1
        return float(values[order[min(low, last)]]), float(values[order[min(high, last)]])


def resample_tasks(tasks: int, seed: int, resamples: int) -> Resamples:
    """The resamples that every metric shares."""
    import numpy as np

    if tasks <= ALL_UP_TO:
        listed = list(every_resample(tasks))
        return Resamples(
            weights=np.array([one.weights for one in listed], dtype=np.float64),
            chances=np.array([one.chance for one in listed]),
            unit=np.arange(tasks),
            exact=True,
        )
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
    """The resamples of this many tasks, drawn once; None where they are listed or not needed."""
    if frame.small or tasks < 2:
        return None
    return _drawn(tasks, frame.seed, frame.resamples)


@lru_cache(maxsize=2)
def _drawn(tasks: int, seed: int, resamples: int) -> Resamples:
    return resample_tasks(tasks, seed, resamples)


class MedianTable:
    """One arm's values in order, with what it takes to find the median under any task weights.

    The values are cut into blocks; how many of each task lie below each cut is counted once. A
    resample then needs one product for all cuts and a look into a single block.
    """

    def __init__(self, grouped: Grouped, unit: "NDArray[np.int64]", units: int) -> None:
        import numpy as np

        values = np.asarray(grouped.values, dtype=np.float64)
        # Any order of equal values gives the same medians.
        order = np.argsort(values)
        owner = np.repeat(unit.astype(np.int32), grouped.sizes)
        self._values = values[order]
        self._task = owner[order]
        size = len(values)
        # A step of the product for all cuts is far quicker than one inside a block.
        blocks = max(1, min(_BLOCKS, math.isqrt(100 * size // units)))
        self._edges = np.linspace(0, size, blocks + 1).astype(np.int64)
        block_of = np.repeat(np.arange(blocks), np.diff(self._edges))
        counts = np.bincount(block_of * units + self._task, minlength=blocks * units)
        self._below = np.zeros((blocks + 1, units))
        np.cumsum(counts.reshape(blocks, units), axis=0, out=self._below[1:])

    def medians(self, weights: "Floats2") -> "Floats2":
        """The median of the arm for every row of weights; NaN where a row draws no value."""
        import numpy as np

        results = [self._some(weights[i : i + _ROWS]) for i in range(0, len(weights), _ROWS)]
        return np.concatenate(results)

    def _some(self, weights: "Floats2") -> "Floats2":
        import numpy as np

        reached = weights @ self._below.T
        totals = reached[:, -1]
        rank = np.floor((totals + 1) / 2)
        first, second = self._ranked(weights, reached, rank, totals % 2 == 0)
        # Where the next value is past the block, by its own rank.
        past = np.flatnonzero(second < 0)
        second[past], _ = self._ranked(
            weights[past], reached[past], rank[past] + 1, np.zeros(len(past), dtype=bool)
        )
        low, high = self._values[first], self._values[second]
        middle = np.where(low == high, low, (low + high) / 2)
        found: Floats2 = np.where(totals > 0, middle, np.nan)
        return found

    def _ranked(
        self,
        weights: "Floats2",
        reached: "Floats2",
        rank: "Floats2",
        and_next: "NDArray[np.bool_]",
    ) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        """Where the value of this rank is and, if asked for, the next; -1 if past the block."""
        import numpy as np

        last = len(self._values) - 1
        block = np.count_nonzero(reached < rank[:, None], axis=1) - 1
        block = np.clip(block, 0, len(self._edges) - 2)
        starts, stops = self._edges[block], self._edges[block + 1]
        width = int((self._edges[1:] - self._edges[:-1]).max())
        at = np.minimum(starts[:, None] + np.arange(width), last)
        rows = np.arange(len(weights))
        # Small numbers: they are gathered in half the time.
        steps = weights.astype(np.int32)[rows[:, None], self._task[at]]
        steps[np.arange(width) >= (stops - starts)[:, None]] = 0
        counted = np.cumsum(steps, axis=1)
        missing = (rank - reached[rows, block])[:, None]
        first = starts + np.count_nonzero(counted < missing, axis=1)
        second = starts + np.count_nonzero(counted < missing + and_next[:, None], axis=1)
        return np.minimum(first, last), np.where(second < stops, second, -1)


class Tables:
    """The median tables of each arm and metric, built once for all that ask."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str, int, int], MedianTable] = {}
        self._drawn: dict[tuple[str, str, int, int], Floats2] = {}

    def table(
        self, arm: str, grouped: Grouped, metric: Metric, unit: "NDArray[np.int64]"
    ) -> MedianTable:
        """The table of one arm and metric over these tasks."""
        units = int(unit.max()) + 1
        key = (arm, metric.name, hash(tuple(grouped.tasks)), units)
        if key not in self._tables:
            self._tables[key] = MedianTable(grouped, unit, units)
        return self._tables[key]

    def drawn(self, arm: str, grouped: Grouped, metric: Metric, resamples: Resamples) -> "Floats2":
        """The medians of one arm and metric under the shared resamples."""
        table = self.table(arm, grouped, metric, resamples.unit)
        key = (arm, metric.name, hash(tuple(grouped.tasks)), resamples.weights.shape[1])
        if key not in self._drawn:
            self._drawn[key] = table.medians(resamples.weights)
        return self._drawn[key]
