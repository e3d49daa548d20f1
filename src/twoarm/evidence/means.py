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
    SIX,
    Estimate,
    Frame,
    Interval,
    between,
    few_tasks,
)

OVER_TASKS = "t on task means (CR2, effective df)"
WITHIN_TASKS = "Welch t within tasks"
# The degrees of freedom that six tasks have; fewer tasks than that have their own.
FEWEST_DF = SIX - 1

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

    One list per arm. A task with a single run borrows the mean of the other variances.
    """
    total = sum(sizes[0]) + sum(sizes[1])
    tasks = len(sizes[0])
    weights = [(sizes[0][t] + sizes[1][t]) / total for t in range(tasks)]
    known = []
    for arm in (0, 1):
        for t in range(tasks):
            n = sizes[arm][t]
            if n > 1:
                known.append(squares[arm][t] / (n - 1) / n)
    if not known:
        return None
    borrowed = math.fsum(known) / len(known)
    variance = scale = 0.0
    for arm in (0, 1):
        for t in range(tasks):
            n = sizes[arm][t]
            own = squares[arm][t] / (n - 1) / n if n > 1 else borrowed
            part = weights[t] ** 2 * own
            variance += part
            if n > 1:
                scale += part**2 / (n - 1)
    if variance == 0.0:
        return Spread(variance=0.0, df=1.0)
    # Without a run of its own to vary, no degree of freedom: a borrowed part adds none.
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
    return Estimate(
        estimate=_exp(mean),
        these_tasks=_exp_interval(found.these_tasks),
        tasks_like_these=_exp_interval(found.tasks_like_these),
        caveats=found.caveats,
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
            these = _around(mean, spread, WITHIN_TASKS, (), frame)
    if tasks == 1:
        caveats.append(ONE_TASK)
    elif tasks >= SIX or max(pairs.sizes) > 1:
        spread = over_tasks(column.group_totals(deltas, pairs.starts), pairs.sizes)
        if _vanishes(spread.variance, mean):
            caveats.append(IDENTICAL_TASKS)
        else:
            notes = (few_tasks(tasks),) if tasks < SIX else ()
            like = _around(mean, spread, OVER_TASKS, notes, frame)
    else:
        caveats.append(few_tasks(tasks))
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
    if interval is None:
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
        return between(
            low=max(-1.0, centre - reach),
            high=min(1.0, centre + reach),
            method=method,
            caveats=notes,
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
            _all_alike(s1, n1, s0, n0),
        )
    if tasks == 1:
        caveats.append(ONE_TASK)
    elif tasks >= SIX or repeats > 1:
        sizes = [(a + b) / 2.0 for a, b in zip(n1, n0, strict=True)]
        sums = [
            (a / n - b / m) * size for a, n, b, m, size in zip(s1, n1, s0, n0, sizes, strict=True)
        ]
        notes = (few_tasks(tasks),) if tasks < SIX else ()
        spread = over_tasks(sums, sizes)
        # Tasks without a difference tell nothing of its spread: near the ceiling, where most are
        # so, T - 1 degrees of freedom would promise too much.
        telling = sum(1 for one in sums if one) - 1
        df = min(spread.df, float(max(telling, FEWEST_DF)))
        like = guarded(Spread(variance=spread.variance, df=df), PASS_OVER_TASKS, notes)
    else:
        caveats.append(few_tasks(tasks))
    return Estimate(
        estimate=difference, these_tasks=these, tasks_like_these=like, caveats=tuple(caveats)
    )


def _all_alike(s1: list[float], n1: list[int], s0: list[float], n0: list[int]) -> tuple[str, ...]:
    if s1 == n1 and s0 == n0:
        return ("No failures seen: the interval rests on the number of runs alone.",)
    if not any(s1) and not any(s0):
        return ("No successes seen: the interval rests on the number of runs alone.",)
    return ()
