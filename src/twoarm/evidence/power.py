"""How likely a change is to be clear, before the runs are made: closed forms, no random numbers.

The test of the tasks' signs has the power of Student's t at the level that is left of it where
several metrics are looked at together.
"""

import math
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from twoarm.compare.decide import MINIMUM_REPEATS
from twoarm.evidence.kernel import normal_below, normal_quantile
from twoarm.evidence.odds import Variances, added_by
from twoarm.evidence.pilot import Pilot
from twoarm.evidence.results import fewest_tasks
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.metric import COST, SUCCESS

# Up to this many tasks the level of a test of signs comes in steps that matter.
_STEPS_UP_TO = 24
# What is looked at: no more tasks, or repeats of a task, than this.
MOST_TASKS, MOST_REPEATS = 5_000, 500
# Fewer repeats of a task than the first are too few for a promotion.
_GRID = np.arange(MINIMUM_REPEATS, 41)
_POINTS = 1 << 10
# Correlations count for this much of what they are.
_NOT_QUITE = 1.0 - 1e-8


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

    def variance(self, tasks: Ints, repeats: Ints | float, change: float | None = None) -> Floats:
        """That of the mean over tasks; the tasks of the pilot keep their repeats."""
        have, spread = self.pilot, self._spread(change)
        kept = np.minimum(have.tasks, tasks)
        of_runs = kept / np.maximum(repeats, have.repeats) + (tasks - kept) / repeats
        variances: Floats = (spread.task + spread.run * of_runs / tasks) / tasks
        return variances

    def _spread(self, change: float | None) -> Variances:
        """The variances once the change is there: that of success depends on how often it is."""
        have = self.pilot
        size = abs(self.aim.change if change is None else change)
        run, task = float(have.run_variance[have.at]), float(have.task_variance[have.at])
        if have.metric is not SUCCESS:
            return Variances(run=run, task=task)
        families = None if have.family is None else have.family.tobytes()
        added = added_by(have.rates.tobytes(), math.copysign(size, self.aim.change), families)
        return Variances(run=max(0.0, run + have.shrunk * added.run), task=task + added.task)

    def power(
        self, tasks: Ints | int, repeats: Ints | float, change: float | None = None
    ) -> Floats:
        """The chance that the change is clear, and in the right direction."""
        tasks, repeats = np.broadcast_arrays(np.asarray(tasks), np.asarray(repeats))
        size = abs(self.aim.change if change is None else change)
        few = tasks < self.fewest_tasks
        over = _power(
            size, self.variance(tasks, repeats, change), _degrees(tasks - 1.0), self._levels(tasks)
        )
        # On these very tasks, only the repeats are a sample.
        noise = self._spread(change).run / (repeats * tasks)
        here = _power(
            size,
            noise,
            _degrees(2.0 * self.pilot.each * tasks * (repeats - 1.0)),
            np.full(tasks.shape, self.level),
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
