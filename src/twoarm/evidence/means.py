"""Intervals of means, ratios and success: closed forms, no random numbers."""

import math

import msgspec
import numpy as np

from twoarm.arrays import Floats, Ints, mean, squares, sums
from twoarm.evidence.cells import Pairs, Sides
from twoarm.evidence.interval import (
    FEWEST_TASKS,
    IDENTICAL_REPEATS,
    IDENTICAL_TASKS,
    NO_PAIRS,
    ONE_REPEAT,
    ONE_TASK,
    ONE_TASK_WEIGHS,
    TOO_EXTREME,
    Estimate,
    Frame,
    Interval,
    Withheld,
    between,
    borrowed,
    few_tasks,
    no_interval_over,
    no_width,
)

OVER_TASKS = "t on task means (CR2, effective df)"
WITHIN_TASKS = "Welch t within tasks"
# The degrees of freedom that six tasks have; fewer tasks than that have their own.
FEWEST_DF = FEWEST_TASKS - 1
# Below, one task has nearly all the pairs, and Student's t reaches to anything.
FEWEST_EFFECTIVE_DF = 0.5

PASS_OVER_TASKS = "guarded t on task means"
PASS_WITHIN_TASKS = "guarded Welch t within tasks"


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """A squared standard error and its degrees of freedom."""

    variance: float
    df: float


def over_tasks(totals: Floats, sizes: Floats | Ints) -> Error:
    """The error of the mean over pairs when tasks are a sample: CR2, for unequal repeats too."""
    total = float(sizes.sum())
    centre = math.fsum(totals) / total
    spread = math.fsum((totals - centre * sizes) ** 2 / (1.0 - sizes / total))
    effective = total**2 / float((sizes.astype(np.float64) ** 2).sum())
    return Error(variance=spread / total**2, df=effective - 1.0)


def within_tasks(spreads: tuple[Floats, Floats], sizes: tuple[Ints, Ints]) -> Error | None:
    """The error of a weighted mean of task differences when only the repeats are a sample.

    One array of squared distances per arm. A task with a single run borrows the pooled variance of
    the others; the degrees of freedom are those of the variances it is made of.
    """
    weights = (sizes[0] + sizes[1]) / (sizes[0].sum() + sizes[1].sum())
    weight = np.concatenate((weights, weights))
    square, n = np.concatenate(spreads), np.concatenate(sizes)
    freedom = int((n - 1).sum())
    if not freedom:
        return None
    lent = math.fsum(weight[n == 1] ** 2) / freedom
    weight, square, n = weight[n > 1], square[n > 1], n[n > 1]
    parts = weight**2 * (square / (n - 1) / n) + lent * square
    variance, scale = math.fsum(parts), math.fsum(parts**2 / (n - 1))
    return Error(variance=variance, df=max(1.0, variance**2 / scale) if scale else 1.0)


def mean_estimate(pairs: Pairs, frame: Frame) -> Estimate:
    """The mean of the deltas with both intervals."""
    if not len(pairs):
        return Estimate(
            estimate=None, these_tasks=None, tasks_like_these=None, withheld=(NO_PAIRS,)
        )
    return _estimate(pairs, Sides(ours=pairs.ours, theirs=pairs.theirs, deltas=pairs.deltas), frame)


def ratio_estimate(pairs: Pairs, frame: Frame) -> Estimate | None:
    """The ratio of geometric means, candidate to baseline; None where a value is not positive."""
    if pairs.logs is None:
        return None
    found = _estimate(pairs, pairs.logs, frame)
    assert found.estimate is not None
    these, like = _exp_interval(found.these_tasks), _exp_interval(found.tasks_like_these)
    lost = (found.these_tasks and not these) or (found.tasks_like_these and not like)
    return Estimate(
        estimate=_exp(found.estimate),
        these_tasks=these,
        tasks_like_these=like,
        withheld=(*found.withheld, TOO_EXTREME) if lost else found.withheld,
    )


def _estimate(pairs: Pairs, sides: Sides, frame: Frame) -> Estimate:
    centre = mean(sides.deltas)
    assert centre is not None
    tasks, most = len(pairs.sizes), int(pairs.sizes.max())
    withheld: list[Withheld] = []
    these = like = None
    if most == 1:
        withheld.append(ONE_REPEAT)
    else:
        spreads = squares(sides.ours, pairs.starts), squares(sides.theirs, pairs.starts)
        error = within_tasks(spreads, (pairs.sizes, pairs.sizes))
        if error is None or error.variance == 0.0:
            withheld.append(IDENTICAL_REPEATS)
        else:
            notes = borrowed(int((pairs.sizes == 1).sum()), tasks)
            these = _around(centre, error, WITHIN_TASKS, notes, frame)
    if tasks == 1:
        withheld.append(ONE_TASK)
    elif tasks >= FEWEST_TASKS or most > 1:
        error = over_tasks(sums(sides.deltas, pairs.starts), pairs.sizes)
        size = float(np.abs(sides.ours).sum() + np.abs(sides.theirs).sum()) / len(pairs)
        if math.sqrt(error.variance) <= 1e-12 * size:
            withheld.append(IDENTICAL_TASKS)
        elif error.df < FEWEST_EFFECTIVE_DF:
            withheld.append(ONE_TASK_WEIGHS)
        else:
            notes = (few_tasks(tasks),) if tasks < FEWEST_TASKS else ()
            like = _around(centre, error, OVER_TASKS, notes, frame)
    else:
        withheld.append(no_interval_over(tasks))
    return Estimate(
        estimate=centre, these_tasks=these, tasks_like_these=like, withheld=tuple(withheld)
    )


def _around(
    centre: float, error: Error, method: str, caveats: tuple[str, ...], frame: Frame
) -> Interval:
    reach = frame.quantile(error.df) * math.sqrt(error.variance)
    return between(low=centre - reach, high=centre + reach, method=method, caveats=caveats)


def _exp(value: float) -> float:
    # The largest double stands in for what is larger: no infinity in any output.
    return math.exp(min(value, 700.0))


def _exp_interval(interval: Interval | None) -> Interval | None:
    if interval is None or no_width(_exp(interval.low), _exp(interval.high)):
        return None
    return between(
        low=_exp(interval.low),
        high=_exp(interval.high),
        method=f"{interval.method}, on logarithms",
        caveats=interval.caveats,
    )


class Passes(msgspec.Struct, frozen=True, kw_only=True):
    """Successes and runs of both arms in each task."""

    successes: tuple[Floats, Floats]
    sizes: tuple[Ints, Ints]

    @property
    def weighted(self) -> tuple[Floats, Floats]:
        """The difference of each task times its pairs, and its pairs: the mean of both arms."""
        (won, lost), (n1, n0) = self.successes, self.sizes
        sizes = (n1 + n0) / 2.0
        return (won / n1 - lost / n0) * sizes, sizes

    @property
    def mean_by_task(self) -> float:
        """The mean over tasks of the difference of success rates inside each."""
        totals, sizes = self.weighted
        return math.fsum(totals) / math.fsum(sizes)


def success_estimate(passes: Passes, difference: float, frame: Frame) -> Estimate:
    """A difference of success rates, guarded by two pseudo pairs (one won, one lost).

    Without them an arm without failures would have an interval of no width.
    """
    n1, n0 = passes.sizes
    tasks = len(n1)
    if tasks == 0:
        return Estimate(
            estimate=difference, these_tasks=None, tasks_like_these=None, withheld=(NO_PAIRS,)
        )
    withheld: list[Withheld] = []
    these = like = None
    repeats = int(max(n1.max(), n0.max()))
    if repeats == 1:
        withheld.append(ONE_REPEAT)
    else:
        won, lost = passes.successes
        error = within_tasks((won * (n1 - won) / n1, lost * (n0 - lost) / n0), (n1, n0))
        # The df of the pooled variance: with no variation at all there is nothing to weigh it by.
        df = max(1.0, float((n1 - 1).sum() + (n0 - 1).sum()))
        error = Error(variance=error.variance if error else 0.0, df=df)
        notes = borrowed(int((np.minimum(n1, n0) == 1).sum()), tasks)
        these = _guarded(passes, difference, error, PASS_WITHIN_TASKS, notes, frame)
    if tasks == 1:
        withheld.append(ONE_TASK)
    elif tasks >= FEWEST_TASKS or repeats > 1:
        totals, sizes = passes.weighted
        error = over_tasks(totals, sizes)
        # Tasks without a difference say nothing of its spread: near the ceiling, where most are
        # so, T - 1 degrees of freedom would promise too much.
        differing = int(np.count_nonzero(totals)) - 1
        df = max(FEWEST_EFFECTIVE_DF, min(error.df, float(max(differing, FEWEST_DF))))
        notes = (few_tasks(tasks),) if tasks < FEWEST_TASKS else ()
        error = Error(variance=error.variance, df=df)
        like = _guarded(passes, difference, error, PASS_OVER_TASKS, notes, frame)
    else:
        withheld.append(no_interval_over(tasks))
    return Estimate(
        estimate=difference, these_tasks=these, tasks_like_these=like, withheld=tuple(withheld)
    )


def _guarded(
    passes: Passes,
    difference: float,
    error: Error,
    method: str,
    notes: tuple[str, ...],
    frame: Frame,
) -> Interval:
    pairs = float(passes.sizes[0].sum() + passes.sizes[1].sum()) / 2.0
    shrink = pairs / (pairs + 2.0)
    pseudo = 2.0 / (pairs + 2.0) ** 2
    reach = frame.quantile(error.df) * math.sqrt(error.variance * shrink**2 + pseudo)
    centre = difference * shrink
    # The shrunk centre may leave what was seen outside a narrow interval.
    low, high = min(centre - reach, difference), max(centre + reach, difference)
    return between(
        low=max(-1.0, low),
        high=min(1.0, high),
        method=method,
        caveats=(*notes, *_all_alike(passes, low, high)),
    )


def _all_alike(passes: Passes, low: float, high: float) -> tuple[str, ...]:
    if low <= -1.0 or high >= 1.0:
        return ()
    if all(map(np.array_equal, passes.successes, passes.sizes)):
        return (f"No failures seen: a drop of more than {-low * 100:.1f} points is ruled out.",)
    if not any(map(np.any, passes.successes)):
        return (f"No successes seen: a gain of more than {high * 100:.1f} points is ruled out.",)
    return ()
