"""Tests by relabelling: labels inside tasks, signs of tasks; exact when small; Holm."""

import math
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import msgspec

from twoarm import column
from twoarm.evidence.cells import Pairs, Sides
from twoarm.evidence.interval import SIX, Frame, Scope
from twoarm.evidence.resample import draws
from twoarm.metric import SUCCESS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# An exact test lists the sums of two halves of the tasks, each no longer than this.
LONGEST_HALF = 200_000
_LARGEST_LISTED = 10
# Up to so many tasks all sign flips are listed, as two halves.
ALL_SIGNS_UP_TO = 24
# From so many pairs or tasks on, the law of the statistic is normal for all that it matters.
NORMAL_FROM = 2_000

# Seeds apart from those of the resampled tasks.
_POOL, _PICK, _SIGN = 101, 102, 103


class P(msgspec.Struct, frozen=True, kw_only=True):
    """Two-sided p-values of "no difference": on these tasks, over tasks like these, and by Holm.

    `holm` adjusts the p-value of the headline question for the five metrics looked at.
    """

    these_tasks: float | None
    tasks_like_these: float | None
    holm: float | None


def sides(pairs: Pairs) -> Sides:
    """The scale of the tests: ratios, unless a value is zero or the metric is success."""
    return pairs.logs or Sides(ours=pairs.ours, theirs=pairs.theirs, deltas=pairs.deltas)


def labels_within_tasks(pairs: Pairs, frame: Frame) -> float | None:
    """Is there any difference on these tasks? Labels are exchanged among the runs of each task."""
    if not len(pairs) or _played_again(pairs):
        return None
    pairs = _varied(pairs)
    tested = sides(pairs)
    observed = abs(math.fsum(column.group_totals(tested.deltas, pairs.starts)))
    size = column.magnitude(tested.ours) + column.magnitude(tested.theirs)
    # A relabelling that repeats what was seen must count, whatever the rounding.
    bound = observed - 1e-12 * size
    if bound <= 0.0:
        return 1.0
    # The number of relabellings of a large task is a number too long to be worth computing.
    listable = max(pairs.sizes) <= _LARGEST_LISTED
    halves = _halves([math.comb(2 * n, n) for n in pairs.sizes]) if listable else None
    if halves is not None:
        return _exact_labels(tested, pairs, halves, bound, frame)
    if len(pairs) > NORMAL_FROM:
        return _normal_labels(tested, pairs, observed)
    return _drawn_labels(tested, pairs, bound, frame)


def _played_again(pairs: Pairs) -> bool:
    """Whether no repeat differs from another of its task: they are one run, not several."""
    if pairs.metric is SUCCESS or max(pairs.sizes) == 1:
        return False
    return all(
        column.smallest(side[first:last]) == column.largest(side[first:last])
        for first, last in pairwise(pairs.starts)
        for side in (pairs.ours, pairs.theirs)
    )


def _varied(pairs: Pairs) -> Pairs:
    """Without the tasks in which every run succeeded or every run failed: labels change nothing.

    Few may be left of many, too few for a normal law.
    """
    if pairs.metric is not SUCCESS:
        return pairs
    won, lost = (column.group_totals(side, pairs.starts) for side in (pairs.ours, pairs.theirs))
    kept = [t for t, n in enumerate(pairs.sizes) if 0 < won[t] + lost[t] < 2 * n]
    if len(kept) == len(pairs.sizes):
        return pairs
    rows = [row for t in kept for row in range(pairs.starts[t], pairs.starts[t + 1])]
    sizes = [pairs.sizes[t] for t in kept]
    return Pairs(
        metric=pairs.metric,
        tasks=[pairs.tasks[t] for t in kept],
        starts=[0, *accumulate(sizes)],
        ours=column.take(pairs.ours, rows),
        theirs=column.take(pairs.theirs, rows),
        deltas=column.take(pairs.deltas, rows),
    )


def direction(pairs: Pairs, headline: Scope) -> float:
    """Which way the statistic of the test points: its sign is that of candidate minus baseline."""
    totals = column.group_totals(sides(pairs).deltas, pairs.starts)
    if headline == "these_tasks":
        return math.fsum(totals)
    return math.fsum(total / n for total, n in zip(totals, pairs.sizes, strict=True))


def _halves(ways: list[int]) -> list[list[int]] | None:
    """The tasks in two halves whose relabellings can be listed, or None if there are too many."""
    halves: list[list[int]] = [[], []]
    products = [1, 1]
    for task in sorted(range(len(ways)), key=lambda t: -ways[t]):
        side = 0 if products[0] <= products[1] else 1
        halves[side].append(task)
        products[side] *= ways[task]
        if products[side] > LONGEST_HALF:
            return None
    return halves


def _exact_labels(
    tested: Sides, pairs: Pairs, halves: list[list[int]], bound: float, frame: Frame
) -> float:
    sums = []
    for half in halves:
        groups = []
        for task in half:
            part = slice(pairs.starts[task], pairs.starts[task + 1])
            values = [float(v) for v in (*tested.ours[part], *tested.theirs[part])]
            total = math.fsum(values)
            chosen = frame.kernel.subset_sums(values, len(values) // 2)
            groups.append([2.0 * one - total for one in chosen])
        sums.append(frame.kernel.all_sums(groups))
    share: float = frame.kernel.share_beyond(sums[0], sums[1], bound)
    return min(1.0, share)


def _normal_labels(tested: Sides, pairs: Pairs, observed: float) -> float:
    """Half of 2n values drawn without replacement: their sum varies by n/2 times the variance."""
    variance = 0.0
    sums = [column.group_totals(side, pairs.starts) for side in (tested.ours, tested.theirs)]
    squares = [column.group_squares(side, pairs.starts) for side in (tested.ours, tested.theirs)]
    for n, a, b, qa, qb in zip(pairs.sizes, *sums, *squares, strict=True):
        between = (a - b) ** 2 / (2 * n)
        variance += 2.0 * n * (qa + qb + between) / (2 * n - 1)
    return math.erfc(observed / math.sqrt(2.0 * variance)) if variance else 1.0


@lru_cache(maxsize=32)
def _label_pool(seed: int, count: int, size: int) -> "NDArray[np.float64]":
    """Random choices of `size` among twice as many runs: +1 for chosen, -1 for the others."""
    import numpy as np

    words = np.random.PCG64([seed, _POOL, size]).random_raw(count * 2 * size)
    order = np.argsort(words.reshape(count, 2 * size), axis=1)
    return np.where(order < size, 1.0, -1.0)


@lru_cache(maxsize=4)
def _picks(seed: int, count: int, tasks: int) -> "NDArray[np.int64]":
    """Which choice of its pool each task takes, a row each."""
    return draws([seed, _PICK], count, tasks, count).T.copy()


def _drawn_labels(tested: Sides, pairs: Pairs, bound: float, frame: Frame) -> float:
    """Random relabellings; each task picks its own from a pool that all tasks of its size share."""
    import numpy as np

    count = frame.resamples
    picks = _picks(frame.seed, count, len(pairs.sizes))
    statistic = np.zeros(count)
    ours, theirs = np.asarray(tested.ours), np.asarray(tested.theirs)
    sizes = np.asarray(pairs.sizes)
    starts = np.asarray(pairs.starts[:-1])
    for size in sorted(set(pairs.sizes)):
        tasks = np.flatnonzero(sizes == size)
        at = starts[tasks][:, None] + np.arange(size)
        values = np.concatenate((ours[at], theirs[at]), axis=1)
        sums = values @ _label_pool(frame.seed, count, size).T
        for row, task in zip(sums, tasks, strict=True):
            statistic += row[picks[task]]
    return float((1 + (np.abs(statistic) >= bound).sum()) / (count + 1))


def signs_of_tasks(pairs: Pairs, frame: Frame) -> float | None:
    """Is there a difference over tasks like these? Whole tasks change sign; from six tasks on."""
    tasks = len(pairs.sizes)
    if tasks < SIX:
        return None
    totals = column.group_totals(sides(pairs).deltas, pairs.starts)
    # A task without a difference has no sign to change.
    means = [total / n for total, n in zip(totals, pairs.sizes, strict=True) if total]
    tasks = len(means)
    observed = abs(math.fsum(means))
    bound = observed - 1e-12 * math.fsum(map(abs, means))
    if bound <= 0.0:
        return 1.0
    if tasks <= ALL_SIGNS_UP_TO:
        half = tasks // 2
        groups = [[[mean, -mean] for mean in part] for part in (means[:half], means[half:])]
        left, right = (frame.kernel.all_sums(group) for group in groups)
        return min(1.0, float(frame.kernel.share_beyond(left, right, bound)))
    if tasks > NORMAL_FROM:
        return math.erfc(observed / math.sqrt(2.0 * math.fsum(mean**2 for mean in means)))
    statistic = _signs(frame.seed, frame.resamples, tasks) @ means
    return float((1 + (abs(statistic) >= bound).sum()) / (frame.resamples + 1))


@lru_cache(maxsize=4)
def _signs(seed: int, count: int, tasks: int) -> "NDArray[np.float64]":
    return draws([seed, _SIGN], count, tasks, 2).astype("float64") * 2.0 - 1.0


def holm(values: list[float | None]) -> list[float | None]:
    """The p-values adjusted so that any false alarm among them is as rare as one alone."""
    known = sorted((p, i) for i, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        adjusted[i] = highest
    return adjusted
