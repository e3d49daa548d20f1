"""How likely a change is to be clear, before the runs are made: closed forms, no random numbers.

The test of the tasks' signs has the power of Student's t at the level that is left of it where
several metrics are looked at together. Nothing here looks at the effect that the runs show: a plan
made for the effect of its own pilot is a plan for luck.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES, MINIMUM_REPEATS
from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.kernel import normal_below, normal_quantile
from twoarm.evidence.results import fewest_tasks
from twoarm.runs.arrays import Floats, Ints, mean, measured
from twoarm.runs.metric import COST, SUCCESS, Metric

# Below this many tasks their spread is so uncertain that a plan is also made for its upper limit.
FEW_TASKS = 10
UPPER_LIMIT = 0.80
# Up to this many tasks the level of a test of signs comes in steps that matter.
_STEPS_UP_TO = 24
# What is looked at: no more tasks, or repeats of a task, than this.
MOST_TASKS, MOST_REPEATS = 5_000, 500
# Fewer repeats of a task than the first are too few for a promotion.
_GRID = np.arange(MINIMUM_REPEATS, 41)
_POINTS = 1 << 10
# Correlations count for this much of what they are.
_NOT_QUITE = 1.0 - 1e-8


class Pilot(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs at hand say about those to come, for the metrics that are tested together.

    `at` is the place of the planned one among them. A run variance is that of a candidate's run and
    a baseline's together, a task variance that of the true change between tasks; `seen` is that of
    the planned metric's task differences with the noise of their runs. `rates` are the success
    rates of the tasks, empty where success is not among the metrics.
    """

    metrics: tuple[Metric, ...]
    at: int
    run_variance: Floats
    task_variance: Floats
    seen: float
    freedom: int
    correlation: Floats
    rates: Floats
    tasks: int
    repeats: int

    @property
    def metric(self) -> Metric:
        """The planned metric."""
        return self.metrics[self.at]

    def with_upper_limits(self) -> "Pilot":
        """The same with variances that the true ones exceed in one suite of five only."""
        from scipy import special

        runs, tasks = self.run_variance.copy(), self.task_variance.copy()
        noise = float(runs[self.at]) / self.repeats
        degrees = self.tasks - 1
        above = self.seen * degrees / float(special.chdtri(degrees, UPPER_LIMIT))
        tasks[self.at] = max(0.0, above - noise)
        if self.metric is not SUCCESS:
            runs[self.at] *= self.freedom / float(special.chdtri(self.freedom, UPPER_LIMIT))
        return msgspec.structs.replace(self, run_variance=runs, task_variance=tasks)


def pair_cost(comparison: Comparison) -> float | None:
    """What a run of each arm costs on average; None where an arm has no cost."""
    costs = [mean(measured(arm.values[COST.name])) for arm in comparison.screening.arms]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if len(known) == len(costs) else None


def lacking(runs: TaskRuns) -> str | None:
    """Why nothing can be planned from these runs of a metric; None if it can be."""
    label, shared = runs.metric.label, runs.shared
    sizes = runs.sizes[:, shared]
    if not shared.any():
        return f"no task has {label} in both arms"
    if not runs.logs and runs.metric is not SUCCESS:
        return f"{label} is 0 in some runs, so there is no change in percent to plan for"
    if int(shared.sum()) == 1:
        return "one task says nothing about how much tasks differ; it takes 2, better 10"
    if (sizes - 1).sum(axis=1).min() == 0:
        return (
            "one repeat of each task: the noise between repeats cannot be told from the "
            "difference between tasks; it takes 2, better 5"
        )
    if runs.metric is SUCCESS and not runs.spreads[:, shared].any():
        rates = runs.means[:, shared]
        if (rates == rates[0, 0]).all():
            done = "passed" if rates[0, 0] else "failed"
            return f"every run {done}, so nothing is known about how much success varies"
    if not runs.spreads[:, shared].any() and np.ptp(runs.deltas[shared]) == 0.0:
        return f"{label} does not vary at all (replayed or cached runs?)"
    return None


def pilot_of(runs: Sequence[TaskRuns], metric: Metric) -> Pilot:
    """What the runs say about a metric that is not `lacking`."""
    by_name = {measure.metric.name: measure for measure in runs}
    family = [by_name[gate.metric.name] for gate in GATES]
    if metric not in [measure.metric for measure in family]:
        family = [by_name[metric.name]]
    # What never differs has no test, and takes nothing from the level of the others.
    family = [
        measure
        for measure in family
        if measure.metric is metric or np.nan_to_num(measure.deltas).any()
    ]
    at = [measure.metric for measure in family].index(metric)
    own = family[at]
    sizes = own.sizes[:, own.shared]
    tasks = sizes.shape[1]
    passes = [measure for measure in family if measure.metric is SUCCESS]
    spread = [_variances(measure) for measure in family]
    return Pilot(
        metrics=tuple(measure.metric for measure in family),
        at=at,
        run_variance=np.array([runs for runs, _ in spread]),
        task_variance=np.array([tasks for _, tasks in spread]),
        seen=float(own.deltas[own.shared].var(ddof=1)),
        freedom=int((sizes - 1).sum()),
        correlation=_correlation(family),
        rates=_rates(passes[0]) if passes else np.empty(0),
        tasks=tasks,
        repeats=max(1, round(2.0 * tasks / float((1.0 / sizes).sum()))),
    )


def _variances(runs: TaskRuns) -> tuple[float, float]:
    """Between the runs of a task, and between the true changes of the tasks."""
    sizes, deltas = runs.sizes[:, runs.shared], runs.deltas[runs.shared]
    if sizes.shape[1] < 2:
        return 0.0, 0.0
    freedom = np.maximum((sizes - 1).sum(axis=1), 1)
    within = runs.spreads[:, runs.shared].sum(axis=1) / freedom
    noise = math.fsum(within * (1.0 / sizes).mean(axis=1))
    return math.fsum(within), max(0.0, float(deltas.var(ddof=1)) - noise)


def _correlation(family: Sequence[TaskRuns]) -> Floats:
    """How the task differences of the metrics vary together; too few tasks cannot tell."""
    shared = np.logical_and.reduce([measure.shared for measure in family])
    if len(family) == 1 or int(shared.sum()) < FEW_TASKS:
        return np.eye(len(family))
    deltas = np.array([measure.deltas[shared] for measure in family])
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Floats = np.nan_to_num(np.corrcoef(deltas))
    np.fill_diagonal(correlation, 1.0)
    return correlation


def _rates(passes: TaskRuns) -> Floats:
    """The success rates of the tasks, pulled in to vary as tasks do and not as runs do."""
    sizes = passes.sizes[:, passes.shared]
    seen = passes.means[:, passes.shared].mean(axis=0)
    freedom = np.maximum((sizes - 1).sum(axis=1), 1)
    within = passes.spreads[:, passes.shared].sum(axis=1) / freedom
    noise = math.fsum(within * (1.0 / sizes).mean(axis=1)) / 4.0
    spread = float(seen.var(ddof=1)) if len(seen) > 1 else 0.0
    kept = math.sqrt(max(0.0, spread - noise) / spread) if spread > 0.0 else 0.0
    rates: Floats = seen.mean() + kept * (seen - seen.mean())
    return rates


def assumed_pilot(metric: Metric, spread: float, task_spread: float) -> Pilot:
    """No runs at all: standard deviations on logarithms, of a run and of the change in a task."""
    family = [gate.metric for gate in GATES]
    if metric not in family:
        family = [metric]
    return Pilot(
        metrics=tuple(family),
        at=family.index(metric),
        run_variance=np.full(len(family), 2.0 * spread**2),
        task_variance=np.full(len(family), task_spread**2),
        seen=task_spread**2,
        freedom=0,
        correlation=np.eye(len(family)),
        rates=np.empty(0),
        tasks=0,
        repeats=0,
    )


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be seen: a change on the scale of the test, at which level, how often.

    `first` says that the metric will be named to be tested before the others.
    """

    change: float
    alpha: float
    power: float
    first: bool


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """This many tasks, and this many repeats of each in both arms."""

    tasks: int
    repeats: int


class UnitCosts(msgspec.Struct, frozen=True, kw_only=True):
    """What a pair of runs costs, and what it costs to write a new task."""

    pair: float
    task: float


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What can be hoped for from more tasks and repeats than those of the pilot."""

    pilot: Pilot
    aim: Aim

    @property
    def fewest_tasks(self) -> int:
        """How many tasks it takes for a verdict about tasks like these."""
        return fewest_tasks(1.0 - self.aim.alpha)

    @property
    def level(self) -> float:
        """The level that the metric is tested at, given all that is looked at besides it."""
        if self.aim.first or len(self.pilot.metrics) == 1:
            return self.aim.alpha
        return shared_level(
            self.pilot.correlation.tobytes(), len(self.pilot.metrics), self.aim.alpha
        )

    def pairs_to_add(self, tasks: Ints | int, repeats: Ints | int) -> Ints:
        """How many pairs a design has more than the pilot, whose tasks keep their repeats."""
        have = self.pilot
        more: Ints = have.tasks * np.maximum(0, repeats - have.repeats)
        return more + (tasks - have.tasks) * repeats

    def variance(self, tasks: Ints, repeats: Ints | float) -> Floats:
        """That of the mean over tasks; the tasks of the pilot keep their repeats."""
        have, at = self.pilot, self.pilot.at
        kept = np.minimum(have.tasks, tasks)
        of_runs = kept / np.maximum(repeats, have.repeats) + (tasks - kept) / repeats
        between, within = have.task_variance[at], have.run_variance[at]
        variances: Floats = (between + within * of_runs / tasks) / tasks
        return variances

    def power(
        self, tasks: Ints | int, repeats: Ints | float, change: float | None = None
    ) -> Floats:
        """The chance that the change is clear, and in the right direction."""
        tasks, repeats = np.broadcast_arrays(np.asarray(tasks), np.asarray(repeats))
        size = abs(self.aim.change if change is None else change)
        few = tasks < self.fewest_tasks
        over = _power(
            size, self.variance(tasks, repeats), _degrees(tasks - 1.0), self._levels(tasks)
        )
        # On these very tasks, only the repeats are a sample.
        noise = self.pilot.run_variance[self.pilot.at] / (repeats * tasks)
        here = _power(
            size, noise, _degrees(2.0 * tasks * (repeats - 1.0)), np.full(tasks.shape, self.level)
        )
        return np.where(few, here, over)

    def _levels(self, tasks: Ints) -> Floats:
        """The level that a test of the signs of this many tasks can have."""
        level = np.full(tasks.shape, self.level)
        if self.pilot.metric is COST:
            # An interval, not a test of signs.
            return level
        patterns = 2.0 ** (np.minimum(tasks, _STEPS_UP_TO) - 1)
        return np.where(tasks <= _STEPS_UP_TO, np.floor(level * patterns + 1e-9) / patterns, level)

    def endless_repeats(self, tasks: int) -> float:
        """The power that no number of repeats of these tasks gets beyond."""
        return float(self.power(tasks, math.inf))

    def detectable(self, design: Design) -> float:
        """The smallest change, on the scale of the test, that is seen as often as wanted."""
        low, high = 0.0, 1.0
        while self._seen(design, high) < self.aim.power:
            high *= 2.0
            if high > 64.0:
                return math.inf
        for _ in range(40):
            middle = (low + high) / 2.0
            low, high = (
                (low, middle) if self._seen(design, middle) >= self.aim.power else (middle, high)
            )
        return high

    def _seen(self, design: Design, change: float) -> float:
        return float(self.power(design.tasks, design.repeats, change))

    def repeats_for(self, tasks: int) -> int | None:
        """The fewest repeats of this many tasks to reach the power; None if none do."""
        reached = self.power(tasks, np.arange(2, MOST_REPEATS + 1)) >= self.aim.power
        return int(np.argmax(reached)) + 2 if reached.any() else None

    def tasks_for(self, repeats: Ints | int, fewest: int) -> Ints:
        """The fewest tasks with this many repeats to reach the power; one too many if none do."""
        repeats = np.atleast_1d(np.asarray(repeats))
        low = np.full(repeats.shape, max(fewest, self.fewest_tasks) - 1)
        high = np.full(repeats.shape, MOST_TASKS + 1)
        while (high - low > 1).any():
            middle = (low + high) // 2
            enough = self.power(middle, repeats) >= self.aim.power
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def cheapest(self, prices: UnitCosts) -> Design | None:
        """The design that reaches the power for the least money, on a grid of repeats."""
        repeats = _GRID
        tasks = self.tasks_for(repeats, self.pilot.tasks)
        cost = self.cost(tasks, repeats, prices)
        cost[tasks > MOST_TASKS] = np.inf
        best = int(np.argmin(cost))
        if not math.isfinite(cost[best]):
            return None
        return Design(tasks=int(tasks[best]), repeats=int(repeats[best]))

    def within(self, budget: float, prices: UnitCosts) -> Design:
        """The design with the most power for this much money; the pilot if it buys nothing."""
        have = self.pilot
        repeats = np.append(_GRID, max(have.repeats, 2))
        raised = have.tasks * np.maximum(0, repeats - have.repeats) * prices.pair
        tasks = have.tasks + np.floor((budget - raised) / (repeats * prices.pair + prices.task))
        tasks = np.clip(tasks, -1, MOST_TASKS).astype(np.int64)
        # Or no new task at all, and as many repeats as there is money for.
        most = have.repeats + int(budget / max(have.tasks, 1) / prices.pair) if have.tasks else 0
        repeats = np.append(repeats, min(most, MOST_REPEATS))
        tasks = np.append(tasks, have.tasks)
        fits = (tasks >= max(have.tasks, 2)) & (repeats >= 2)
        if not fits.any():
            return Design(tasks=have.tasks, repeats=have.repeats)
        power = np.where(fits, self.power(np.maximum(tasks, 2), np.maximum(repeats, 2)), -1.0)
        best = int(np.argmax(power))
        return Design(tasks=int(tasks[best]), repeats=int(repeats[best]))

    def cost(self, tasks: Ints | int, repeats: Ints | int, prices: UnitCosts) -> Floats:
        """What a design costs beyond what there is."""
        new = tasks - self.pilot.tasks
        return self.pairs_to_add(tasks, repeats) * prices.pair + new * prices.task

    def best_repeats(self, prices: UnitCosts) -> float | None:
        """How many repeats of a task are worth their money, where a new task has its price."""
        between, within = (
            float(variances[self.pilot.at])
            for variances in (self.pilot.task_variance, self.pilot.run_variance)
        )
        if not (between and prices.pair and prices.task):
            return None
        return math.sqrt(within / between * prices.task / prices.pair)


def _degrees(count: Floats | NDArray[np.floating[Any]]) -> Floats:
    """Degrees of freedom, of which there is always one."""
    return np.clip(count.astype(np.float64), 1.0, 1e7)


def _power(size: float, variance: Floats, df: Floats, level: Floats) -> Floats:
    """The chance that a noncentral t is beyond the two-sided quantile of the central one."""
    from scipy import special

    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.where(variance > 0.0, size / np.sqrt(variance), np.inf)
    bound = special.stdtrit(df, 1.0 - np.where(level > 0.0, level, 0.5) / 2.0)
    # Beyond this, the noncentral t has no chance left below any bound, and no digits to say so.
    far = away > 35.0
    below = special.nctdtr(df, np.where(far, 0.0, away), bound)
    return np.where(level > 0.0, np.where(far, 1.0, 1.0 - below), 0.0)


@lru_cache(maxsize=64)
def shared_level(correlation: bytes, size: int, alpha: float) -> float:
    """The level of one of several metrics that are tested by the largest of them.

    Between alpha over their number and alpha, by how much they go together.
    """
    matrix = np.frombuffer(correlation).reshape(size, size)
    # Metrics that say the same to the last digit have no room between them to integrate over.
    kept = matrix * _NOT_QUITE + (1.0 - _NOT_QUITE) * np.eye(size)
    factor = np.linalg.cholesky(kept).astype(np.float64)
    low, high = alpha / size, alpha
    for _ in range(20):
        middle = (low + high) / 2.0
        bound = float(normal_quantile(np.array(1.0 - middle / 2.0)))
        enough = _all_below(bound, factor) >= 1.0 - alpha
        low, high = (middle, high) if enough else (low, middle)
    return low


def _all_below(bound: float, factor: Floats) -> float:
    """The chance that no one of several normals is further than the bound from zero.

    One after the other, each between the bounds that those before it leave (Genz, 1992), which
    makes an integral over a cube that few points can tell.
    """
    size = len(factor)
    points = _even_points(size - 1)
    drawn, chance = np.zeros((len(points), size)), np.ones(len(points))
    for row in range(size):
        shift = drawn[:, :row] @ factor[row, :row]
        low, high = (normal_below((end - shift) / factor[row, row]) for end in (-bound, bound))
        chance *= high - low
        if row < size - 1:
            drawn[:, row] = normal_quantile(low + points[:, row] * (high - low))
    return float(chance.mean())


@lru_cache(maxsize=4)
def _even_points(dimensions: int) -> Floats:
    """Points of a cube that fill it evenly: an additive sequence whose steps are the powers of the
    root of x^(d + 1) = x + 1, folded so that its ends meet."""
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1.0)
    return 1.0 - np.abs(2.0 * ((0.5 + np.arange(_POINTS)[:, None] * steps) % 1.0) - 1.0)
