"""What a solved task takes, simulated: whether the intervals of both arms and of their ratio hold.

log cost of a run = task + arm * (effect + tau * u) + noise, and `failed` if it fails; the noise is
that of benchmarks/generators.py. The truth about a task is known in closed form. All data sets of a
cell are computed at once; tests/evidence/test_per_solved.py holds that to what a score gives.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from benchmarks import first_edition
from benchmarks.counting import Cell, Count
from benchmarks.generators import LOST, RUN_SD, RUNAWAY_SD, logistic
from twoarm.evidence.per_solved import FEWEST_EQUAL, FEWEST_HERE, FEWEST_SOLVING, Solving
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.runs.arrays import Flags, Floats

EFFECT = math.log(0.85)
SUCCESS_EFFECT = (0.2, 0.5)
DEAD = 0.005
POPULATION = 1_000_000
ARMS = ("candidate", "baseline")


class Costs(NamedTuple):
    """How cost and success are drawn.

    `success`: mean and sd of the logit of success; `between`: its lowest and highest rate instead,
    all as likely. `failed`: how much longer the log of a failed run is. `hard`: how far success and
    the size of a task go together. `die`: the share of the candidate's runs that end at once.
    """

    success: tuple[float, float] = (4.0, 0.7)
    between: tuple[float, float] | None = None
    failed: float = 0.0
    hard: float = 0.0
    die: float = 0.0
    lost: float = 0.0
    task_sd: float = 0.8
    tau: float = 0.30
    runaway: tuple[float, float] = (0.08, 0.9)


MIXED, LOW, HEAVY = (0.2, 0.8), (-1.6, 1.0), (0.15, 1.2)
SOLVED = {
    "D1 97% pass": Costs(),
    "D2 20 to 80% pass": Costs(between=MIXED),
    "D3 20% pass": Costs(success=LOW),
    "D4 failed runs are short": Costs(between=MIXED, failed=-0.9),
    "D5 failed runs are long": Costs(between=MIXED, failed=0.7),
    "D6 heavy tails": Costs(task_sd=1.2, tau=0.50, runaway=HEAVY),
    "D7 heavy tails, 20% pass": Costs(
        success=LOW, failed=0.7, task_sd=1.2, tau=0.50, runaway=HEAVY
    ),
    "D8 hard tasks cost more": Costs(success=(0.0, 1.5), failed=0.4, hard=-0.6),
    "D9 4% die at once, runs lost": Costs(die=0.04, lost=LOST),
}


class Tasks(NamedTuple):
    """The tasks of data sets: the log size and the chance of success, by set, arm and task."""

    level: Floats
    rates: Floats


def tasks_of(kind: Costs, shape: tuple[int, int], draw: np.random.Generator) -> Tasks:
    """So many tasks for each of so many data sets."""
    size = draw.normal(size=shape)
    effect = EFFECT + kind.tau * draw.normal(size=shape)
    if kind.between is None:
        own = draw.normal(size=shape)
        logit = kind.success[0] + kind.success[1] * (
            kind.hard * size + math.sqrt(1.0 - kind.hard**2) * own
        )
    else:
        rates = draw.uniform(*kind.between, shape)
        logit = np.log(rates / (1.0 - rates))
    level = kind.task_sd * size
    changed = logit + draw.normal(*SUCCESS_EFFECT, shape)
    return Tasks(
        level=np.stack([level + effect, level], axis=1),
        rates=logistic(np.stack([changed, logit], axis=1)),
    )


def expected(kind: Costs, tasks: Tasks) -> tuple[Floats, Floats]:
    """What a run of each task and arm costs on average, and how often it succeeds."""
    share, shift = kind.runaway
    noise = (1.0 - share) * math.exp(RUN_SD**2 / 2.0)
    noise += share * math.exp(shift + RUNAWAY_SD**2 / 2.0)
    whole = np.exp(tasks.level) * noise
    whole *= tasks.rates + (1.0 - tasks.rates) * math.exp(kind.failed)
    die = np.array([[kind.die], [0.0]])
    return (1.0 - die) * whole + die * DEAD, (1.0 - die) * tasks.rates


class Sets(NamedTuple):
    """Many data sets at once: of every set, arm, task and repeat, what the run took and whether it
    succeeded; `made` is whether there is one."""

    took: Floats
    solved: Floats
    made: Flags

    def solving(self, number: int, arm: int) -> Solving:
        """One arm of one data set, as a score has it."""
        made = self.made[number, arm]
        return Solving(
            took=self.took[number, arm][made],
            solved=self.solved[number, arm][made],
            starts=np.concatenate(([0], np.cumsum(made.sum(axis=1)))),
        )


def sets_of(kind: Costs, tasks: Tasks, repeats: int, draw: np.random.Generator) -> Sets:
    """Runs of tasks that have a row for each data set, then one for each arm."""
    shape = (*tasks.level.shape, repeats)
    share, shift = kind.runaway
    runaway = draw.random(shape) < share
    noise = np.where(
        runaway, draw.normal(shift, RUNAWAY_SD, shape), draw.normal(0.0, RUN_SD, shape)
    )
    solved = draw.random(shape) < tasks.rates[..., None]
    took = np.exp(tasks.level[..., None] + noise + kind.failed * ~solved)
    made = np.ones(shape, dtype=bool)
    if kind.die:
        dead = draw.random(shape) < kind.die
        dead[:, 1] = False
        took, solved = np.where(dead, DEAD, took), solved & ~dead
    if kind.lost:
        made = draw.random(shape) >= kind.lost
        made[..., 0] |= ~made.any(axis=-1)
    return Sets(took=np.where(made, took, 0.0), solved=np.where(made, solved, 0.0), made=made)


Ends = tuple[Floats, Floats]


class _Side(NamedTuple):
    """One arm of many data sets: totals, and shares of each task; then what is inside tasks."""

    figure: Floats
    sizes: Floats
    weights: Floats
    shares: Floats
    wins: Floats
    parts: Floats
    own: Floats
    alike: Floats


def _side(sets: Sets, arm: int) -> _Side:
    took, solved, made = (values[:, arm] for values in sets)
    sizes = made.sum(axis=-1).astype(np.float64)
    total, count = took.sum(axis=(1, 2)), solved.sum(axis=(1, 2))
    weights = took.sum(axis=-1) / total[:, None]
    again = sizes > 1.0
    less = np.maximum(sizes - 1.0, 1.0)

    def squares(values: Floats) -> Floats:
        means = np.where(made, values, 0.0).sum(axis=-1) / sizes
        away: Floats = np.where(made, values - means[..., None], 0.0)
        squared: Floats = (away**2).sum(axis=-1)
        return squared

    away = took / total[:, None, None] - solved / count[:, None, None]
    single = (~again).sum(axis=1) / np.maximum((sizes - 1.0).sum(axis=1), 1.0)
    parts = np.where(again, squares(away) * (sizes / less + single[:, None]), 0.0)
    means = took.sum(axis=-1) / sizes
    relative = squares(took / means[..., None]) / less
    typical = (relative * again).sum(axis=1) / np.maximum(again.sum(axis=1), 1)
    each = np.where(again, relative, typical[:, None])
    squared = weights**2 / sizes
    return _Side(
        figure=np.log(total / count),
        sizes=sizes,
        weights=weights,
        shares=solved.sum(axis=-1) / count[:, None],
        wins=count,
        parts=parts,
        own=(squared * each).sum(axis=1),
        alike=squared.sum(axis=1) * typical,
    )


def _quantile(df: Floats) -> Floats:
    quantiles: Floats = special.stdtrit(df, 0.975)
    return quantiles


def _within(*arms: _Side) -> tuple[Floats, Floats]:
    """The variance on these tasks, and the quantile of its t; NaN where it is withheld."""
    parts = np.concatenate([side.parts for side in arms], axis=1)
    freedom = np.maximum(np.concatenate([side.sizes for side in arms], axis=1) - 1.0, 1.0)
    variance = parts.sum(axis=1)
    quantile = _quantile(np.maximum(1.0, variance**2 / (parts**2 / freedom).sum(axis=1)))
    known = np.logical_and.reduce(
        [(side.wins >= FEWEST_SOLVING) & (side.sizes.max(axis=1) > 1.0) for side in arms]
    )
    return variance, np.where(known, quantile, np.nan)


def _over(*arms: _Side) -> Floats:
    """How far an interval over tasks reaches; NaN where it is withheld."""
    moved = [np.log1p(-side.weights) - np.log1p(-side.shares) for side in arms]
    apart = moved[0] if len(arms) == 1 else moved[0] - moved[1]
    tasks = apart.shape[1]
    away = apart - apart.mean(axis=1, keepdims=True)
    deviation = np.sqrt((away**2).sum(axis=1) * (tasks - 1) / tasks)
    weights = np.mean([side.weights for side in arms], axis=0)
    known = np.logical_and.reduce(
        [
            ((side.shares > 0.0).sum(axis=1) >= FEWEST_SOLVING)
            & (1.0 / (side.weights**2).sum(axis=1) >= FEWEST_EQUAL)
            for side in arms
        ]
    ) & (tasks >= FEWEST_TASKS)
    return np.where(known, deviation * _quantile(1.0 / (weights**2).sum(axis=1) - 1.0), np.nan)


def intervals(sets: Sets) -> dict[str, Ends]:
    """On the log scale, what `arm_estimate` and `ratio_estimate` give for each data set; NaN where
    they withhold an interval."""
    with np.errstate(all="ignore"):
        sides = _side(sets, 0), _side(sets, 1)
        ends: dict[str, Ends] = {}
        for label, side in zip(ARMS, sides, strict=True):
            middle, tasks = side.figure, side.sizes.shape[1]
            variance, quantile = _within(side)
            reach = quantile * np.sqrt(variance + np.maximum(0.0, side.alike - side.own))
            if tasks < FEWEST_HERE:
                reach = np.full(len(reach), np.nan)
            freedom = (side.sizes - 1.0).sum(axis=1)
            further = _quantile(freedom) ** 2 * np.maximum(side.own, side.alike)
            ends[f"per solved, {label} (a)"] = middle - reach, middle + reach + further
            reach = _over(side)
            spread = (tasks * (side.weights**2).sum(axis=1) - 1.0) / (tasks - 1.0)
            further = special.stdtrit(tasks - 1.0, 0.975) ** 2 * spread
            ends[f"per solved, {label} (b)"] = middle - reach, middle + reach + further
        ratio = sides[0].figure - sides[1].figure
        variance, quantile = _within(*sides)
        reach = quantile * np.sqrt(variance)
        ends["per solved, ratio (a)"] = ratio - reach, ratio + reach
        reach = _over(*sides)
        ends["per solved, ratio (b)"] = ratio - reach, ratio + reach
    return ends


@lru_cache
def population(name: str) -> tuple[float, float]:
    """The logarithm of what a solved task costs in each arm, over all tasks there could be."""
    draw = np.random.default_rng([43, len(name)])
    cost, rate = expected(SOLVED[name], tasks_of(SOLVED[name], (1, POPULATION), draw))
    ours, theirs = np.log(cost.mean(axis=(0, 2)) / rate.mean(axis=(0, 2))).tolist()
    return ours, theirs


def per_solved_cell(name: str, count: int, repeats: int, datasets: int) -> Cell:
    kind, draw = SOLVED[name], np.random.default_rng([47, len(name), count, repeats])
    tasks = tasks_of(kind, (datasets, count), draw)
    sets = sets_of(kind, tasks, repeats, draw)
    cost, rate = expected(kind, tasks)
    sizes, far = sets.made.sum(axis=-1), population(name)
    here = np.log((cost * sizes).sum(axis=-1) / (rate * sizes).sum(axis=-1))
    truths = {"candidate": (here[:, 0], far[0]), "baseline": (here[:, 1], far[1])}
    truths["ratio"] = here[:, 0] - here[:, 1], far[0] - far[1]
    counted = Count()
    for row, (lows, highs) in intervals(sets).items():
        label, _, scope = row.removeprefix("per solved, ").partition(" ")
        true = np.broadcast_to(truths[label][scope == "(b)"], len(lows))
        for low, high, at in zip(lows.tolist(), highs.tolist(), true.tolist(), strict=True):
            if not math.isnan(low):
                counted.pair(row, low, high, at)
    for number in range(datasets):
        old = first_edition.per_solved_over_tasks(sets.solving(number, 1))
        if old is not None:
            counted.pair("first edition: per solved, baseline (b)", *old, far[1])
    return counted.cell()
