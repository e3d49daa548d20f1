"""Intervals of means, ratios and success: closed forms, no random numbers."""

import math
from collections.abc import Sequence

import msgspec

from twoarm import column
from twoarm.column import Floats
from twoarm.evidence.cells import Pairs
from twoarm.evidence.interval import (
    IDENTICAL_REPEATS,
    IDENTICAL_TASKS,
    NO_PAIRS,
    ONE_REPEAT,
    ONE_TASK,
    ONE_TASK_WEIGHS,
    SIX,
    TOO_EXTREME,
    Estimate,
    Frame,
    Interval,
    between,
    borrowed,
    few_tasks,
    no_interval_over,
    no_width,
)

OVER_TASKS = "t on task means (CR2, effective df)"
WITHIN_TASKS = "Welch t within tasks"
# The degrees of freedom that six tasks have; fewer tasks than that have their own.
FEWEST_DF = SIX - 1
# Below, one task has nearly all the pairs, and Student's t reaches to anything.
FEWEST_EFFECTIVE_DF = 0.5

PASS_OVER_TASKS = "guarded t on task means"
PASS_WITHIN_TASKS = "guarded Welch t within tasks"


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A squared standard error and its degrees of freedom."""

    variance: float
    df: float


def over_tasks(sums: Sequence[float], sizes: Sequence[float]) -> Spread:
    """The error of the mean over pairs when tasks are a sample: CR2, for unequal repeats too."""
    total = sum(sizes)
    centre = math.fsum(sums) / total
    squares = math.fsum(
        (s - centre * n) ** 2 / (1.0 - n / total) for s, n in zip(sums, sizes, strict=True)
    )
    effective = total**2 / sum(n * n for n in sizes)
    return Spread(variance=squares / total**2, df=effective - 1.0)


def within_tasks(squares: list[list[float]], sizes: list[list[int]]) -> Spread | None:
    """The error of a weighted mean of task differences when only the repeats are a sample.

    One list per arm. A task with a single run borrows the pooled variance of the others; the
    degrees of freedom are those of the variances it is made of.
    """
    total = sum(sizes[0]) + sum(sizes[1])
    tasks = len(sizes[0])
    weights = [(sizes[0][t] + sizes[1][t]) / total for t in range(tasks)]
    cells = [(weights[t], squares[arm][t], sizes[arm][t]) for arm in (0, 1) for t in range(tasks)]
    freedom = sum(n - 1 for _, _, n in cells)
    if not freedom:
        return None
    lent = math.fsum(weight**2 for weight, _, n in cells if n == 1) / freedom
    variance = scale = 0.0
    for weight, square, n in cells:
        if n > 1:
            part = weight**2 * (square / (n - 1) / n) + lent * square
            variance += part
            scale += part**2 / (n - 1)
    return Spread(variance=variance, df=max(1.0, variance**2 / scale) if scale else 1.0)


def mean_estimate(pairs: Pairs, frame: Frame) -> Estimate:
    """The mean of the deltas with both intervals."""
    if not len(pairs):
        return Estimate(estimate=None, these_tasks=None, tasks_like_these=None, caveats=(NO_PAIRS,))
    mean = column.mean(pairs.deltas)
    assert mean is not None
    return _estimate(mean, pairs, pairs.ours, pairs.theirs, pairs.deltas, frame)


def ratio_estimate(pairs: Pairs, frame: Frame) -> Estimate | None:
    """The ratio of geometric means, candidate to baseline; None where a value is not positive."""
    logarithms = pairs.logs
    if logarithms is None:
        return None
    mean = column.mean(logarithms.deltas)
    assert mean is not None
    found = _estimate(mean, pairs, logarithms.ours, logarithms.theirs, logarithms.deltas, frame)
    these, like = _exp_interval(found.these_tasks), _exp_interval(found.tasks_like_these)
    lost = (found.these_tasks and not these) or (found.tasks_like_these and not like)
    return Estimate(
        estimate=_exp(mean),
        these_tasks=these,
        tasks_like_these=like,
        caveats=(*found.caveats, TOO_EXTREME) if lost else found.caveats,
    )


def _estimate(
    mean: float, pairs: Pairs, ours: Floats, theirs: Floats, deltas: Floats, frame: Frame
) -> Estimate:
    tasks = len(pairs.sizes)
    caveats: list[str] = []
    these = like = None
    if max(pairs.sizes) == 1:
        caveats.append(ONE_REPEAT)
    else:
        squares = [column.group_squares(side, pairs.starts) for side in (ours, theirs)]
        spread = within_tasks(squares, [pairs.sizes, pairs.sizes])
        if spread is None or spread.variance == 0.0:
            caveats.append(IDENTICAL_REPEATS)
        else:
            these = _around(mean, spread, WITHIN_TASKS, borrowed(pairs.sizes), frame)
    if tasks == 1:
        caveats.append(ONE_TASK)
    elif tasks >= SIX or max(pairs.sizes) > 1:
        spread = over_tasks(column.group_totals(deltas, pairs.starts), pairs.sizes)
        size = (column.magnitude(ours) + column.magnitude(theirs)) / len(pairs)
        if _vanishes(spread.variance, size):
            caveats.append(IDENTICAL_TASKS)
        elif spread.df < FEWEST_EFFECTIVE_DF:
            caveats.append(ONE_TASK_WEIGHS)
        else:
            notes = (few_tasks(tasks),) if tasks < SIX else ()
            like = _around(mean, spread, OVER_TASKS, notes, frame)
    else:
        caveats.append(no_interval_over(tasks))
    return Estimate(estimate=mean, these_tasks=these, tasks_like_these=like, caveats=tuple(caveats))


def _vanishes(variance: float, size: float) -> bool:
    """Whether a variance is nothing but rounding."""
    return math.sqrt(variance) <= 1e-12 * abs(size)


def _around(
    mean: float, spread: Spread, method: str, caveats: tuple[str, ...], frame: Frame
) -> Interval:
    reach = frame.quantile(spread.df) * math.sqrt(spread.variance)
    return between(low=mean - reach, high=mean + reach, method=method, caveats=caveats)


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

    successes: tuple[list[float], list[float]]
    sizes: tuple[list[int], list[int]]


def success_estimate(passes: Passes, difference: float, frame: Frame) -> Estimate:
    """A difference of success rates, guarded by two pseudo pairs (one won, one lost).

    Without them an arm without failures would have an interval of no width.
    """
    (s1, s0), (n1, n0) = passes.successes, passes.sizes
    tasks = len(n1)
    pairs = (sum(n1) + sum(n0)) / 2.0
    if tasks == 0:
        return Estimate(
            estimate=difference, these_tasks=None, tasks_like_these=None, caveats=(NO_PAIRS,)
        )
    shrink = pairs / (pairs + 2.0)
    pseudo = 2.0 / (pairs + 2.0) ** 2

    def guarded(spread: Spread, method: str, notes: tuple[str, ...]) -> Interval:
        reach = frame.quantile(spread.df) * math.sqrt(spread.variance * shrink**2 + pseudo)
        centre = difference * shrink
        # The shrunk centre may leave what was seen outside a narrow interval.
        low, high = min(centre - reach, difference), max(centre + reach, difference)
        return between(
            low=max(-1.0, low),
            high=min(1.0, high),
            method=method,
            caveats=(*notes, *_all_alike(passes, low, high)),
        )

    caveats: list[str] = []
    these = like = None
    repeats = max(*n1, *n0)
    if repeats == 1:
        caveats.append(ONE_REPEAT)
    else:
        squares = [
            [s * (n - s) / n for s, n in zip(successes, sizes, strict=True)]
            for successes, sizes in ((s1, n1), (s0, n0))
        ]
        spread = within_tasks(squares, [n1, n0]) or Spread(variance=0.0, df=1.0)
        # The df of the pooled variance: with no variation at all there is nothing to weigh it by.
        df = max(1.0, float(sum(n - 1 for n in (*n1, *n0))))
        these = guarded(
            Spread(variance=spread.variance, df=df),
            PASS_WITHIN_TASKS,
            borrowed(list(map(min, n1, n0))),
        )
    if tasks == 1:
        caveats.append(ONE_TASK)
    elif tasks >= SIX or repeats > 1:
        sums, sizes = _weighted(passes)
        notes = (few_tasks(tasks),) if tasks < SIX else ()
        spread = over_tasks(sums, sizes)
        # Tasks without a difference tell nothing of its spread: near the ceiling, where most are
        # so, T - 1 degrees of freedom would promise too much.
        telling = sum(1 for one in sums if one) - 1
        df = max(FEWEST_EFFECTIVE_DF, min(spread.df, float(max(telling, FEWEST_DF))))
        like = guarded(Spread(variance=spread.variance, df=df), PASS_OVER_TASKS, notes)
    else:
        caveats.append(no_interval_over(tasks))
    return Estimate(
        estimate=difference, these_tasks=these, tasks_like_these=like, caveats=tuple(caveats)
    )


def _weighted(passes: Passes) -> tuple[list[float], list[float]]:
    """The difference of each task times its pairs, and its pairs: the mean of both arms' runs."""
    (s1, s0), (n1, n0) = passes.successes, passes.sizes
    sizes = [(a + b) / 2.0 for a, b in zip(n1, n0, strict=True)]
    sums = [(a / n - b / m) * size for a, n, b, m, size in zip(s1, n1, s0, n0, sizes, strict=True)]
    return sums, sizes


def mean_by_task(passes: Passes) -> float:
    """The mean over tasks of the difference of success rates inside each."""
    sums, sizes = _weighted(passes)
    return math.fsum(sums) / math.fsum(sizes)


def _all_alike(passes: Passes, low: float, high: float) -> tuple[str, ...]:
    if low <= -1.0 or high >= 1.0:
        return ()
    if passes.successes == passes.sizes:
        return (f"No failures seen: a drop of more than {-low * 100:.1f} points is ruled out.",)
    if not any(map(any, passes.successes)):
        return (f"No successes seen: a gain of more than {high * 100:.1f} points is ruled out.",)
    return ()
