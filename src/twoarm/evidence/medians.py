"""Intervals of medians by the exact distribution of the resampled median: no Monte Carlo.

Tasks drawn again: task t with c of its n values at most x adds 2c - n to a sum; the lower median of
the resample is at most x when the sum over the drawn tasks is at least 0, the upper one when it is
above 0. Repeats drawn again: task t adds Binomial(n, c / n) to a count, which is compared with half
of all values. Both are sums of small independent whole numbers.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from twoarm.evidence.cells import Grouped, Noun
from twoarm.evidence.interval import (
    FEWEST_PAIRS,
    NO_PAIRS,
    ONE_REPEAT,
    Answer,
    Frame,
    between,
    borrowed,
    few_tasks,
    no_interval_over,
    no_width,
    only_one,
)
from twoarm.evidence.kernel import binomial_tails, normal_below, sum_of_draws
from twoarm.evidence.resample import task_medians
from twoarm.evidence.results import FEWEST_TASKS, Scope, Withheld
from twoarm.runs.arrays import Flags, Floats, Ints, median
from twoarm.text.escape import counted

# From this many tasks on, the tail is that of all of them, not of one fewer.
MANY_TASKS = 10
# From this many pairs on, the resampling distribution replaces order statistics.
ENOUGH_PAIRS = 20
# Beyond these sizes a normal distribution is as good and far cheaper.
NORMAL_FROM = 2_000
NORMAL_TASKS = 500
EXACT_UP_TO = 200_000

OVER_TASKS = "expanded percentile, {}, exact"
OVER_MANY_TASKS = "expanded percentile, {}, normal distribution"
STANDARD_ERROR = "t on the exact bootstrap standard error, {}"
WITHIN_TASKS = "expanded percentile, repeats resampled in tasks, exact"
NORMAL_WITHIN = "expanded percentile, repeats resampled in tasks, normal distribution"
ORDER_STATISTICS = "order statistics"


def expanded_tail(frame: Frame, units: float, df: float) -> float:
    """The tail of a percentile interval, widened as Student's t would be for so few units."""
    reach = math.sqrt(units / (units - 1.0)) * frame.quantile(df)
    return 0.5 * math.erfc(reach / math.sqrt(2.0))


class OverTasks:
    """The distribution of the median when whole tasks are drawn again.

    Exact for few tasks; beyond, a normal distribution with its skewness is within 1e-4, and in its
    tails within 2e-3 even where no two tasks overlap.
    """

    def __init__(self, grouped: Grouped) -> None:
        self._grouped = grouped
        self._largest = int(grouped.sizes.max())
        tasks = len(grouped.sizes)
        self.exact = tasks < NORMAL_TASKS and tasks * self._largest <= EXACT_UP_TO
        self.batch = 1

    def at(self, points: Floats) -> Floats:
        """Of each point x, P(lower median <= x) and P(upper median <= x)."""
        steps = 2 * self._grouped.up_to(points) - self._grouped.sizes
        return np.array([self._exactly(row) for row in steps]) if self.exact else self._near(steps)

    def nearly(self, points: Floats) -> Floats:
        """The same by the normal distribution, which costs little."""
        return self._near(2 * self._grouped.up_to(points) - self._grouped.sizes)

    def _near(self, steps: Ints) -> Floats:
        tasks = steps.shape[1]
        mean, spread = steps.mean(axis=1)[:, None], steps.std(axis=1)[:, None]
        skewness = ((steps - mean) ** 3).mean(axis=1)[:, None]
        bounds = _half_way(steps)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (bounds - tasks * mean) / (spread * math.sqrt(tasks))
            skewness = np.nan_to_num(skewness / spread**3) / (6.0 * math.sqrt(tasks))
            bend = skewness * (z**2 - 1.0) * np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
        chances: Floats = np.clip(normal_below(-z) + np.nan_to_num(bend), 0.0, 1.0)
        return chances

    def _exactly(self, steps: Ints) -> tuple[float, float]:
        tasks = len(steps)
        pmf = np.bincount(steps + self._largest, minlength=2 * self._largest + 1) / tasks
        chances = sum_of_draws(pmf, tasks)
        zero = self._largest * tasks
        upper = float(chances[zero + 1 :].sum())
        return upper + float(chances[zero]), upper


def _half_way(steps: Ints) -> Floats:
    """For each row of steps, the middle between the sums on both sides of "at least" and "above 0".

    The sums of as many steps as there are tasks all lie some distance apart: two where every task
    has an even, or an odd, number of values.
    """
    apart = np.maximum(np.gcd.reduce(steps - steps[:, :1], axis=1), 1)
    first = steps.shape[1] * steps[:, 0] % apart
    bounds: Floats = (
        np.column_stack((first, np.where(first > 0, first, apart))) - apart[:, None] / 2
    )
    return bounds


class WithinTasks:
    """The distribution of the median when the repeats are drawn again inside each task."""

    def __init__(self, grouped: Grouped) -> None:
        self._grouped = grouped
        self._together = _single_runs(grouped.sizes)
        self._sizes = self._strata(grouped.sizes[None, :])[0]
        self.strata = len(self._sizes)
        total = int(self._sizes.sum())
        self._bounds = ((total + 1) // 2, total // 2 + 1)
        self.normal = total > NORMAL_FROM
        self.batch = 15

    def at(self, points: Floats) -> Floats:
        """Of each point x, P(lower median <= x) and P(upper median <= x)."""
        counts = self._strata(self._grouped.up_to(points))
        if not self.normal:
            return binomial_tails(self._sizes, counts, self._bounds)
        means = counts.sum(axis=1)[:, None]
        variances = (counts * (1.0 - counts / self._sizes)).sum(axis=1)[:, None]
        away = np.asarray(self._bounds) - 0.5 - means
        with np.errstate(divide="ignore", invalid="ignore"):
            return normal_below(-away / np.sqrt(variances))

    def _strata(self, of_tasks: Ints) -> Ints:
        """The figures of the tasks in each row, those of single runs added up."""
        if not self._together.any():
            return of_tasks
        together = of_tasks[:, self._together].sum(axis=1)
        return np.column_stack((of_tasks[:, ~self._together], together))


def _single_runs(sizes: Ints) -> Flags:
    """The tasks with one value: drawn again alone they would not vary, so they are drawn together.

    A lone one is drawn with the smallest of the others.
    """
    single: Flags = sizes == 1
    if single.sum() == 1 and len(sizes) > 1:
        single[int(np.argmin(np.where(single, sizes.max() + 1, sizes)))] = True
    return single


def ends(
    distribution: OverTasks | WithinTasks, support: Floats, tail: float
) -> tuple[float, float]:
    """Both ends, outward: the lower from the lower median, the upper from the upper median."""
    # A hair below the tail: a sum of chances that should equal it may fall short by rounding.
    slack = 1e-12
    # And never zero: a tail may be smaller than any rounding.
    low = _first(support, distribution, 0, max(tail - slack, slack))
    high = _first(support, distribution, 1, 1.0 - tail - slack)
    return float(support[low]), float(support[high])


def _first(
    support: Floats, distribution: OverTasks | WithinTasks, side: Literal[0, 1], chance: float
) -> int:
    """Where an ordered support first has a value at which the lower or upper median has reached
    a chance."""
    low, high = 0, len(support) - 1
    if isinstance(distribution, OverTasks) and distribution.exact:
        # The exact chances cost much: they are looked at only around where they should be.
        near = _bisected(support, distribution.nearly, 1, side, chance, low, high)
        low, high = _around(support, distribution, side, chance, near)
    return _bisected(support, distribution.at, distribution.batch, side, chance, low, high)


def _around(
    support: Floats, distribution: OverTasks, side: Literal[0, 1], chance: float, near: int
) -> tuple[int, int]:
    """A stretch around a place that holds the first value to reach a chance."""
    last = len(support) - 1
    low, high, step = near, near, 1
    while high < last and distribution.at(support[high : high + 1])[0, side] < chance:
        low, high, step = high + 1, min(last, high + step), 2 * step
    if high > near:
        return low, high
    while low > 0 and distribution.at(support[low - 1 : low])[0, side] >= chance:
        low, high, step = max(0, low - step), low - 1, 2 * step
    return low, high


def _bisected(
    support: Floats,
    at: Callable[[Floats], Floats],
    batch: int,
    side: Literal[0, 1],
    chance: float,
    low: int,
    high: int,
) -> int:
    """By bisection, or by looking at several points at once where that costs no more."""
    while low < high:
        step = max(1, (high - low) // (batch + 1))
        looked = np.arange(low + step - 1, high, step)[:batch]
        there = np.flatnonzero(at(support[looked])[:, side] >= chance)
        if len(there):
            high = int(looked[there[0]])
            low = int(looked[there[0] - 1]) + 1 if there[0] else low
        else:
            low = int(looked[-1]) + 1
    return low


def these_tasks(deltas: Grouped, frame: Frame) -> Answer:
    """The median of the deltas if the same tasks were run again."""
    count = len(deltas)
    if not count:
        return NO_PAIRS
    if deltas.sizes.max() == 1:
        return ONE_REPEAT
    support = deltas.ordered
    if count < FEWEST_PAIRS:
        level = 1.0 - 2.0 ** (1 - count)
        return _too_few_pairs(
            "these_tasks",
            f"No interval: {counted(count, 'pair')} (the observed range {support[0]:.6g} to "
            f"{support[-1]:.6g} holds the median {level:.4g} of the time).",
        )
    if count < ENOUGH_PAIRS:
        rank = _order_rank(count, frame.level)
        if rank == 0:
            message = f"No interval: {counted(count, 'pair')} for a level of {frame.level}."
            return _too_few_pairs("these_tasks", message)
        low, high = float(support[rank - 1]), float(support[count - rank])
        return _answer(low, high, ORDER_STATISTICS, (), deltas, "these_tasks")
    within = WithinTasks(deltas)
    tail = expanded_tail(frame, count / within.strata, count - within.strata)
    low, high = ends(within, support, tail)
    method = NORMAL_WITHIN if within.normal else WITHIN_TASKS
    notes = borrowed(int((deltas.sizes == 1).sum()), len(deltas.sizes))
    return _answer(low, high, method, notes, deltas, "these_tasks")


def _too_few_pairs(scope: Scope, message: str) -> Withheld:
    return Withheld(code="too_few_pairs", scope=scope, message=message)


def _order_rank(count: int, level: float) -> int:
    """The largest k with P(Binomial(count, 1/2) <= k - 1) at most half of what may be missed."""
    allowed = (1.0 - level) / 2.0
    ways = [math.comb(count, rank) for rank in range(count // 2)]
    return int(np.count_nonzero(np.cumsum(ways) / 2.0**count <= allowed))


def tasks_like_these(deltas: Grouped, frame: Frame) -> Answer:
    """The median of the deltas over other tasks of the same kind."""
    noun, repeated = deltas.noun, bool(len(deltas)) and deltas.sizes.max() > 1
    deltas = deltas.by_family
    tasks = len(deltas.sizes)
    if not len(deltas):
        return NO_PAIRS
    if tasks == 1:
        return only_one(noun)
    if tasks < FEWEST_TASKS and not repeated:
        return no_interval_over(tasks, noun=noun)
    if len(deltas) < FEWEST_PAIRS:
        message = f"No interval: {counted(len(deltas), 'pair')}; it takes {FEWEST_PAIRS}."
        return _too_few_pairs("tasks_like_these", message)
    if FEWEST_TASKS <= tasks < frame.fewest_tasks:
        return no_interval_over(tasks, frame.fewest_tasks, noun)
    if tasks < FEWEST_TASKS:
        middle = median(deltas.values)
        assert middle is not None
        drawn = task_medians(deltas.values, deltas.starts)
        centre = math.fsum(drawn.values * drawn.chances)
        variance = math.fsum(drawn.chances * (drawn.values - centre) ** 2)
        reach = frame.quantile(tasks - 1) * math.sqrt(variance * tasks / (tasks - 1))
        notes = (few_tasks(tasks, noun),)
        method = STANDARD_ERROR.format(resampled(noun))
        return _answer(middle - reach, middle + reach, method, notes, deltas, "tasks_like_these")
    return _percentile_over_tasks(deltas, noun, frame)


def resampled(noun: Noun) -> str:
    """What is drawn again."""
    return "tasks resampled" if noun == "task" else "families resampled"


def _percentile_over_tasks(deltas: Grouped, noun: Noun, frame: Frame) -> Answer:
    tasks = len(deltas.sizes)
    # One task fewer while there are few: at six, the tail of six covers 93 to 94 %.
    units = tasks - 1 if FEWEST_TASKS <= tasks < MANY_TASKS else tasks
    tail = expanded_tail(frame, units, units - 1)
    over = OverTasks(deltas)
    low, high = ends(over, deltas.ordered, tail)
    method = (OVER_TASKS if over.exact else OVER_MANY_TASKS).format(resampled(noun))
    return _answer(low, high, method, (), deltas, "tasks_like_these")


def _answer(
    low: float,
    high: float,
    method: str,
    notes: tuple[str, ...],
    deltas: Grouped,
    scope: Scope,
) -> Answer:
    """An interval, unless it has no width: that is a tie, not a certainty."""
    if no_width(low, high):
        support = deltas.ordered
        message = (
            f"Every pair has the same delta, {low:.6g}."
            if support[0] == support[-1]
            else f"More than half of the pairs share the value {low:.6g}."
        )
        return Withheld(code="shared_value", scope=scope, message=message)
    return between(low=low, high=high, method=method, caveats=notes)
