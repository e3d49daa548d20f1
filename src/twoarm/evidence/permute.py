"""Tests by relabelling: labels inside tasks, signs of tasks; exact when small; Holm."""

import math
from functools import lru_cache

import msgspec
import numpy as np

from twoarm.arrays import Floats, Ints, squares, sums
from twoarm.evidence.cells import Pairs, Sides
from twoarm.evidence.interval import FEWEST_TASKS, Frame, Scope
from twoarm.evidence.kernel import all_sums, share_beyond, subset_sums
from twoarm.evidence.resample import draws
from twoarm.metric import SUCCESS

# An exact test lists the sums of two halves of the tasks, each no longer than this.
LONGEST_HALF = 200_000
_LARGEST_LISTED = 10
# Up to so many tasks all sign flips are listed, as two halves.
ALL_SIGNS_UP_TO = 24
# From so many pairs or tasks on, the statistic is normal for all that it matters.
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
    observed = abs(math.fsum(sums(tested.deltas, pairs.starts)))
    size = float(np.abs(tested.ours).sum() + np.abs(tested.theirs).sum())
    # A relabelling that repeats what was seen must count, whatever the rounding.
    bound = observed - 1e-12 * size
    if bound <= 0.0:
        return 1.0
    # The number of relabellings of a large task is a number too long to be worth computing.
    listable = pairs.sizes.max() <= _LARGEST_LISTED
    halves = _halves([math.comb(2 * n, n) for n in pairs.sizes.tolist()]) if listable else None
    if halves is not None:
        return _exact_labels(tested, pairs, halves, bound)
    if len(pairs) > NORMAL_FROM:
        return _normal_labels(tested, pairs, observed)
    return _drawn_labels(tested, pairs, bound, frame)


def _played_again(pairs: Pairs) -> bool:
    """Whether no repeat differs from another of its task: they are one run, not several."""
    if pairs.metric is SUCCESS or pairs.sizes.max() == 1:
        return False
    return not any(squares(side, pairs.starts).any() for side in (pairs.ours, pairs.theirs))


def _varied(pairs: Pairs) -> Pairs:
    """Without the tasks in which every run succeeded or every run failed: labels change nothing.

    Few may be left of many, too few for a normal distribution.
    """
    if pairs.metric is not SUCCESS:
        return pairs
    passed = sums(pairs.ours, pairs.starts) + sums(pairs.theirs, pairs.starts)
    kept = (passed > 0) & (passed < 2 * pairs.sizes)
    if kept.all():
        return pairs
    rows = np.repeat(kept, pairs.sizes)
    return Pairs(
        metric=pairs.metric,
        tasks=pairs.tasks[kept],
        starts=np.concatenate(([0], np.cumsum(pairs.sizes[kept]))),
        ours=pairs.ours[rows],
        theirs=pairs.theirs[rows],
        deltas=pairs.deltas[rows],
    )


def direction(pairs: Pairs, headline: Scope) -> float:
    """Which way the statistic of the test points: its sign is that of candidate minus baseline."""
    totals = sums(sides(pairs).deltas, pairs.starts)
    return math.fsum(totals if headline == "these_tasks" else totals / pairs.sizes)


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


def _exact_labels(tested: Sides, pairs: Pairs, halves: list[list[int]], bound: float) -> float:
    listed = []
    for half in halves:
        groups = []
        for task in half:
            part = slice(pairs.starts[task], pairs.starts[task + 1])
            values = np.concatenate((tested.ours[part], tested.theirs[part]))
            groups.append(2.0 * subset_sums(values, len(values) // 2) - math.fsum(values))
        listed.append(all_sums(groups))
    return min(1.0, share_beyond(listed[0], listed[1], bound))


def _normal_labels(tested: Sides, pairs: Pairs, observed: float) -> float:
    """Half of 2n values drawn without replacement: their sum varies by n/2 times the variance."""
    n = pairs.sizes
    between = sums(tested.deltas, pairs.starts) ** 2 / (2 * n)
    within = squares(tested.ours, pairs.starts) + squares(tested.theirs, pairs.starts)
    variance = math.fsum(2.0 * n * (within + between) / (2 * n - 1))
    return math.erfc(observed / math.sqrt(2.0 * variance)) if variance else 1.0


@lru_cache(maxsize=32)
def _label_pool(seed: int, count: int, size: int) -> Floats:
    """Random choices of `size` among twice as many runs: +1 for chosen, -1 for the others."""
    words = np.random.PCG64([seed, _POOL, size]).random_raw(count * 2 * size)
    order = np.argsort(words.reshape(count, 2 * size), axis=1)
    return np.where(order < size, 1.0, -1.0)


@lru_cache(maxsize=4)
def _picks(seed: int, count: int, tasks: int) -> Ints:
    """Which choice of its pool each task takes, a row each."""
    return draws([seed, _PICK], count, tasks, count).T.copy()


def _drawn_labels(tested: Sides, pairs: Pairs, bound: float, frame: Frame) -> float:
    """Random relabellings; each task picks its own from a pool that all tasks of its size share."""
    count = frame.resamples
    picks = _picks(frame.seed, count, len(pairs.sizes))
    statistic = np.zeros(count)
    for size in np.unique(pairs.sizes).tolist():
        tasks = np.flatnonzero(pairs.sizes == size)
        at = pairs.starts[tasks][:, None] + np.arange(size)
        values = np.concatenate((tested.ours[at], tested.theirs[at]), axis=1)
        relabelled = values @ _label_pool(frame.seed, count, size).T
        for row, task in zip(relabelled, tasks, strict=True):
            statistic += row[picks[task]]
    return float((1 + (np.abs(statistic) >= bound).sum()) / (count + 1))


def signs_of_tasks(pairs: Pairs, frame: Frame) -> float | None:
    """Is there a difference over tasks like these? Whole tasks change sign; from six tasks on."""
    if len(pairs.sizes) < FEWEST_TASKS:
        return None
    totals = sums(sides(pairs).deltas, pairs.starts)
    # A task without a difference has no sign to change.
    means = (totals / pairs.sizes)[totals != 0]
    tasks = len(means)
    observed = abs(math.fsum(means))
    bound = observed - 1e-12 * math.fsum(abs(means))
    if bound <= 0.0:
        return 1.0
    if tasks <= ALL_SIGNS_UP_TO:
        signed = np.column_stack((means, -means))
        left, right = all_sums(list(signed[: tasks // 2])), all_sums(list(signed[tasks // 2 :]))
        return min(1.0, share_beyond(left, right, bound))
    if tasks > NORMAL_FROM:
        return math.erfc(observed / math.sqrt(2.0 * math.fsum(means**2)))
    statistic = _signs(frame.seed, frame.resamples, tasks) @ means
    return float((1 + (abs(statistic) >= bound).sum()) / (frame.resamples + 1))


@lru_cache(maxsize=4)
def _signs(seed: int, count: int, tasks: int) -> Floats:
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
