"""What repeats tell: pass@k and pass^k, and what a solved task costs with failed spend included."""

import math
from itertools import pairwise

import msgspec

from twoarm import column
from twoarm.evidence.interval import (
    IDENTICAL_REPEATS,
    IDENTICAL_TASKS,
    ONE_REPEAT,
    SIX,
    Estimate,
    Frame,
    Interval,
    between,
    borrowed,
    no_interval_over,
)
from twoarm.metric import COST, SUCCESS
from twoarm.screen import ArmRuns

ATTEMPTS = (1, 2, 3, 5, 10)


class PassRates(msgspec.Struct, frozen=True, kw_only=True):
    """The chance that at least one of k attempts succeeds, and that all of them do, over tasks."""

    k: int
    at_least_one: float
    all: float


class ArmRepeats(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's success over several attempts, and its cost per solved task."""

    arm: str
    pass_rates: tuple[PassRates, ...]
    cost_per_solved_usd: Estimate


def pass_rates(successes: list[int], sizes: list[int]) -> tuple[PassRates, ...]:
    """Unbiased for every k that each task has attempts for: choose k of its runs at random."""
    found = []
    for k in ATTEMPTS:
        if sizes and k <= min(sizes):
            none = [
                math.comb(n - c, k) / math.comb(n, k) for c, n in zip(successes, sizes, strict=True)
            ]
            every = [
                math.comb(c, k) / math.comb(n, k) for c, n in zip(successes, sizes, strict=True)
            ]
            found.append(
                PassRates(
                    k=k,
                    at_least_one=1.0 - math.fsum(none) / len(sizes),
                    all=math.fsum(every) / len(sizes),
                )
            )
    return tuple(found)


def arm_repeats(arm: ArmRuns, task_count: int, frame: Frame) -> ArmRepeats:
    """The figures of one arm."""
    bounds = column.bounds(arm.task, task_count)
    parts = [(a, b) for a, b in pairwise(bounds) if a < b]
    success = arm.values[SUCCESS.name]
    return ArmRepeats(
        arm=arm.arm,
        pass_rates=pass_rates(
            [int(column.total(success[a:b])) for a, b in parts], [b - a for a, b in parts]
        ),
        cost_per_solved_usd=_cost_per_solved(arm, task_count, frame),
    )


def _cost_per_solved(arm: ArmRuns, task_count: int, frame: Frame) -> Estimate:
    """All spend over all solved, with the error of a ratio of two sums, on the log scale."""
    rows = column.measured_rows(arm.values[COST.name])
    costs = column.take(arm.values[COST.name], rows)
    solved = column.take(arm.values[SUCCESS.name], rows)
    spend, count = column.total(costs), column.total(solved)
    if not count or not spend:
        why = "nothing solved" if len(rows) and not count else "no cost known"
        return Estimate(
            estimate=None, these_tasks=None, tasks_like_these=None, caveats=(f"No figure: {why}.",)
        )
    ratio = spend / count
    bounds = column.bounds(column.take(arm.task, rows), task_count)
    starts = [bounds[i] for i in range(task_count) if bounds[i] < bounds[i + 1]] + [bounds[-1]]
    away = column.subtracted(costs, column.scaled(solved, ratio))
    sizes = [b - a for a, b in pairwise(starts)]
    tasks, runs = len(sizes), len(rows)
    caveats = []
    these = like = None
    if max(sizes) == 1:
        caveats.append(ONE_REPEAT)
    else:
        squares = column.group_squares(away, starts)
        variance = math.fsum(q * n / (n - 1) for q, n in zip(squares, sizes, strict=True) if n > 1)
        # A task with a single run borrows the pooled variance of the others.
        variance += sizes.count(1) * math.fsum(squares) / (runs - tasks)
        if variance == 0.0:
            caveats.append(IDENTICAL_REPEATS)
        else:
            these = _log_interval(
                ratio, variance, spend, runs - tasks, "within tasks", borrowed(sizes), frame
            )
    if tasks < SIX:
        caveats.append(no_interval_over(tasks))
    else:
        totals = column.group_totals(away, starts)
        variance = math.fsum(total * total for total in totals) * tasks / (tasks - 1)
        if math.sqrt(variance) <= 1e-12 * spend:
            caveats.append(IDENTICAL_TASKS)
        else:
            like = _log_interval(ratio, variance, spend, tasks - 1, "over tasks", (), frame)
    return Estimate(
        estimate=ratio, these_tasks=these, tasks_like_these=like, caveats=tuple(caveats)
    )


def _log_interval(
    ratio: float,
    variance: float,
    spend: float,
    df: float,
    over: str,
    caveats: tuple[str, ...],
    frame: Frame,
) -> Interval:
    reach = min(700.0, frame.quantile(df) * math.sqrt(variance) / spend)
    return between(
        low=ratio * math.exp(-reach),
        high=ratio * math.exp(reach),
        method=f"t on the linearised ratio {over}, on logarithms",
        caveats=caveats,
    )
