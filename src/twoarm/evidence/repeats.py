"""What repeats tell: pass@k and pass^k, and what a solved task costs with failed spend included."""

import math

import msgspec
import numpy as np

from twoarm.compare.screen import ArmRuns
from twoarm.evidence.interval import (
    IDENTICAL_REPEATS,
    IDENTICAL_TASKS,
    ONE_REPEAT,
    Answer,
    Frame,
    between,
    borrowed,
    estimated,
    no_interval_over,
)
from twoarm.evidence.results import (
    FEWEST_TASKS,
    ArmRepeats,
    Estimate,
    Interval,
    PassRates,
    Withheld,
)
from twoarm.runs.arrays import Floats, Ints, squares, starts_of, sums, total
from twoarm.runs.metric import COST, SUCCESS

ATTEMPTS = (1, 2, 3, 5, 10)


def pass_rates(successes: Floats | Ints, sizes: Ints) -> tuple[PassRates, ...]:
    """Unbiased for every k that each task has attempts for: choose k of its runs at random."""
    fewest = int(sizes.min()) if len(sizes) else 0
    return tuple(
        PassRates(
            k=k,
            at_least_one=1.0 - math.fsum(_chosen(sizes - successes, sizes, k)) / len(sizes),
            all=math.fsum(_chosen(successes, sizes, k)) / len(sizes),
        )
        for k in ATTEMPTS
        if k <= fewest
    )


def _chosen(wanted: Floats | Ints, sizes: Ints, k: int) -> Floats:
    """The chance that k runs of each task, drawn without replacement, all have the outcome."""
    drawn = np.arange(k)[:, None]
    chances: Floats = np.prod(np.maximum(wanted - drawn, 0.0) / (sizes - drawn), axis=0)
    return chances


def arm_repeats(arm: ArmRuns, task_count: int, frame: Frame) -> ArmRepeats:
    """The figures of one arm."""
    sizes = np.bincount(arm.task, minlength=task_count)
    won = np.bincount(arm.task, weights=arm.values[SUCCESS.name], minlength=task_count)
    return ArmRepeats(
        arm=arm.arm,
        pass_rates=pass_rates(won[sizes > 0], sizes[sizes > 0]),
        cost_per_solved_usd=_cost_per_solved(arm, task_count, frame),
    )


def _cost_per_solved(arm: ArmRuns, task_count: int, frame: Frame) -> Estimate:
    """All spend over all solved, with the error of a ratio of two sums, on the log scale."""
    known = ~np.isnan(arm.values[COST.name])
    costs, solved = arm.values[COST.name][known], arm.values[SUCCESS.name][known]
    spend, count = total(costs), float(solved.sum())
    if not count or not spend:
        why = "nothing solved" if len(costs) and not count else "no cost known"
        withheld = Withheld(code="no_figure", scope=None, message=f"No figure: {why}.")
        return estimated(None, withheld, withheld)
    # Where each task that has a cost begins.
    starts = np.unique(starts_of(arm.task[known], task_count))
    cost = _Cost(
        ratio=spend / count, spend=spend, away=costs - solved * spend / count, starts=starts
    )
    return estimated(cost.ratio, _on_these(cost, frame), _over_tasks(cost, frame))


class _Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a solved task, and how far each run is from it."""

    ratio: float
    spend: float
    away: Floats
    starts: Ints

    def interval(
        self, variance: float, df: float, over: str, caveats: tuple[str, ...], frame: Frame
    ) -> Interval:
        reach = min(700.0, frame.quantile(df) * math.sqrt(variance) / self.spend)
        return between(
            low=self.ratio * math.exp(-reach),
            high=self.ratio * math.exp(reach),
            method=f"t on the linearized ratio {over}, on logarithms",
            caveats=caveats,
        )


def _on_these(cost: _Cost, frame: Frame) -> Answer:
    sizes = np.diff(cost.starts)
    if sizes.max() == 1:
        return ONE_REPEAT
    tasks, runs, single = len(sizes), int(sizes.sum()), int((sizes == 1).sum())
    spread = squares(cost.away, cost.starts)
    again = sizes > 1
    variance = math.fsum(spread[again] * sizes[again] / (sizes[again] - 1))
    # A task with a single run borrows the pooled variance of the others.
    variance += single * math.fsum(spread) / (runs - tasks)
    if variance == 0.0:
        return IDENTICAL_REPEATS
    return cost.interval(variance, runs - tasks, "within tasks", borrowed(single, tasks), frame)


def _over_tasks(cost: _Cost, frame: Frame) -> Answer:
    totals = sums(cost.away, cost.starts)
    tasks = len(totals)
    if tasks < FEWEST_TASKS:
        return no_interval_over(tasks)
    variance = math.fsum(totals**2) * tasks / (tasks - 1)
    if math.sqrt(variance) <= 1e-12 * cost.spend:
        return IDENTICAL_TASKS
    return cost.interval(variance, tasks - 1, "over tasks", (), frame)
