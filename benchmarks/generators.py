"""What the simulation draws from: every generator of runs, with every constant.

log value = task + arm * (effect + tau * u) + noise. The noise is a mixture of two normals, the
second being runaway runs. Each kind of trouble is a generator of its own.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from twoarm.runs.arrays import Floats, Ints

RUN_SD, RUNAWAY_SD = 0.30, 0.40
# Runs drawn for the truth about the very tasks of a data set: its error is a fraction of a rank.
TRUTH_DRAWS = 40_000
POPULATION = 2_000_000

Sizes = Literal["equal", "random", "follow the effect", "lost", "lost in one arm"]


class Values(NamedTuple):
    """How a duration is drawn.

    `jump`: a share of tasks whose effect is larger by so much. `spread_sd`: the noise of a task is
    larger or smaller by such a factor. `modes`: the noise has two modes so far apart. `cap`: no
    value is larger, and all are rounded to whole seconds. `fails`: mean and sd of the logit of
    success, its shift in the candidate, and how much shorter the log of a failed run is. `run_sd`:
    the noise of a run in each arm.
    """

    task_sd: float = 0.8
    effect: float = math.log(0.85)
    tau: float = 0.30
    runaway: tuple[float, float] = (0.08, 0.08)
    runaway_shift: float = 0.9
    jump: tuple[float, float] = (0.0, 0.0)
    spread_sd: float = 0.0
    modes: float = 0.0
    cap: float | None = None
    fails: tuple[float, float, float, float] | None = None
    run_sd: tuple[float, float] = (RUN_SD, RUN_SD)
    sizes: Sizes = "equal"


VALUES = {
    "S1 null": Values(effect=0.0, tau=0.0),
    "S2 realistic": Values(),
    "S3 heavy": Values(task_sd=1.2, tau=0.50, runaway=(0.15, 0.15), runaway_shift=1.2),
    "S4 lopsided": Values(tau=0.20, runaway=(0.12, 0.04), jump=(0.10, 1.15)),
    "S5 mixed effects": Values(effect=0.0),
    "S6 skewed effects": Values(effect=-0.0993, tau=0.20, jump=(0.10, 0.993)),
    "S7 task-specific spread": Values(spread_sd=0.5),
    "S8 two modes": Values(runaway=(0.0, 0.0), modes=1.2),
    "S9 capped and rounded": Values(cap=400.0),
    "S10 failures are fast": Values(fails=(1.5, 1.5, -0.75, 0.9)),
    "S11 a steady candidate": Values(task_sd=0.2, run_sd=(0.10, 0.60)),
    "S12 two modes, tasks alike": Values(task_sd=0.2, runaway=(0.0, 0.0), modes=1.2),
    "U1 unequal repeats": Values(sizes="random"),
    "U2 repeats follow the effect": Values(sizes="follow the effect"),
    "U3 runs lost": Values(sizes="lost"),
    "U4 runs lost in one arm": Values(sizes="lost in one arm"),
}
# Of so many runs in a task and arm, lost ones are drawn with this chance; one is always left.
LOST, LOST_IN_ONE_ARM = 0.2, 0.3


def logistic(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-x))


class Suite(NamedTuple):
    """The tasks of one data set: what their runs are drawn from."""

    kind: Values
    level: Floats
    effect: Floats
    spread: Floats
    rates: Floats

    def runs(self, draw: np.random.Generator, arm: int, task: Ints) -> Floats:
        """A value for each run; the first arm is the candidate."""
        kind = self.kind
        noise = self.spread[task] * draw.normal(0.0, kind.run_sd[arm], len(task))
        if kind.runaway[arm]:
            runaway = draw.random(len(task)) < kind.runaway[arm]
            noise = np.where(runaway, draw.normal(kind.runaway_shift, RUNAWAY_SD, len(task)), noise)
        if kind.modes:
            noise += np.where(draw.random(len(task)) < 0.5, -0.5, 0.5) * kind.modes
        logs = self.level[task] + noise
        if arm == 0:
            logs += self.effect[task]
        if kind.fails is not None:
            logs -= kind.fails[3] * (draw.random(len(task)) >= self.rates[arm][task])
        values = np.exp(logs)
        return values if kind.cap is None else np.rint(np.minimum(values, kind.cap)).clip(1.0)


def suite(kind: Values, tasks: int, draw: np.random.Generator) -> Suite:
    effect = kind.effect + kind.tau * draw.normal(size=tasks)
    effect += kind.jump[1] * (draw.random(tasks) < kind.jump[0])
    rates = np.ones((2, tasks))
    if kind.fails is not None:
        logit = draw.normal(*kind.fails[:2], tasks)
        rates = logistic(np.array([logit + kind.fails[2], logit]))
    return Suite(
        kind=kind,
        level=draw.normal(5.0, kind.task_sd, tasks),
        effect=effect,
        spread=np.exp(kind.spread_sd * draw.normal(size=tasks)),
        rates=rates,
    )


def sizes(found: Suite, repeats: int, draw: np.random.Generator) -> Ints:
    """How many runs each task has, a row for each arm."""
    tasks = len(found.level)
    kind = found.kind.sizes
    if kind == "random":
        return np.tile(draw.integers(1, repeats + 1, tasks), (2, 1))
    if kind == "follow the effect":
        gains = found.effect < found.kind.effect
        return np.tile(np.where(gains, 2 * repeats, max(1, repeats // 2)), (2, 1))
    if kind == "lost":
        return np.maximum(1, draw.binomial(repeats, 1.0 - LOST, (2, tasks)))
    whole = np.full((2, tasks), repeats)
    if kind == "lost in one arm":
        whole[0] = np.maximum(1, draw.binomial(repeats, 1.0 - LOST_IN_ONE_ARM, tasks))
    return whole


class Truth(NamedTuple):
    """What the intervals should hold; every task weighs alike."""

    mean: float
    ratio: float
    median: float
    arm_medians: float


def truth(found: Suite, counts: Ints, draw: np.random.Generator) -> Truth:
    """Of these very tasks; a median is over runs, so a task weighs in it as much as it has runs."""
    tasks = len(found.level)
    each = np.full(tasks, TRUTH_DRAWS // tasks)
    x1, x0 = (found.runs(draw, arm, np.repeat(np.arange(tasks), each)) for arm in (0, 1))
    logs = np.log(x1) - np.log(x0)
    deltas, sides = x1 - x0, (x1, x0)
    if counts.min() != counts.max():
        pairs = counts.min(axis=0)
        deltas = np.subtract(*(_weighed(found, draw, arm, pairs) for arm in (0, 1)))
        sides = (_weighed(found, draw, 0, counts[0]), _weighed(found, draw, 1, counts[1]))
    return Truth(
        mean=float((x1 - x0).mean()),
        ratio=float(np.exp(logs.mean())),
        median=float(np.median(deltas)),
        arm_medians=float(np.median(sides[0]) - np.median(sides[1])),
    )


def _weighed(found: Suite, draw: np.random.Generator, arm: int, counts: Ints) -> Floats:
    many = np.maximum(1, (counts / counts.sum() * TRUTH_DRAWS).astype(np.int64))
    return found.runs(draw, arm, np.repeat(np.arange(len(counts)), many))


@lru_cache
def population(name: str) -> Truth:
    """Of all tasks there could be."""
    kind = VALUES[name]
    draw = np.random.default_rng([7, len(name)])
    found = suite(kind, POPULATION, draw)
    task = np.arange(POPULATION)
    x1, x0 = (found.runs(draw, arm, task) for arm in (0, 1))
    y1, y0 = x1, x0
    if kind.sizes == "follow the effect":
        # Medians over runs see tasks that were repeated more, more often.
        many = sizes(found, 4, draw)[0]
        y1, y0 = np.repeat(x1, many), np.repeat(x0, many)
    return Truth(
        mean=float((x1 - x0).mean()),
        ratio=float(np.exp((np.log(x1) - np.log(x0)).mean())),
        median=float(np.median(y1 - y0)),
        arm_medians=float(np.median(y1) - np.median(y0)),
    )


class Passes(NamedTuple):
    """How success is drawn: a logit per task, and the candidate's effect on it.

    `broken` and `fixed` are shares of tasks that the candidate never solves, and always.
    """

    level: tuple[float, float] = (1.5, 1.5)
    effect: tuple[float, float] = (0.0, 0.0)
    broken: float = 0.0
    fixed: float = 0.0

    def rates(self, tasks: int, draw: np.random.Generator) -> Floats:
        """The chance of success in each task, a row for each arm."""
        level = draw.normal(*self.level, tasks)
        rates = logistic(np.array([level + draw.normal(*self.effect, tasks), level]))
        chance = draw.random(tasks)
        rates[0, chance < self.broken] = 0.0
        rates[0, chance >= 1.0 - self.fixed] = 1.0
        return rates


PASSES = {
    "P1 null": Passes(level=(1.0, 2.0)),
    "P2 gain": Passes(level=(1.0, 2.0), effect=(0.45, 1.0)),
    "P3 ceiling": Passes(level=(6.0, 2.0), effect=(-0.9, 0.5)),
    "P4 bimodal": Passes(level=(1.0, 5.0), effect=(0.5, 2.0)),
    "P5 a tenth below the ceiling": Passes(level=(5.293, 0.0), effect=(-3.150, 0.0)),
    "B5 breaks 5% of easy tasks": Passes(level=(5.0, 0.5), broken=0.05),
    "B10 breaks 10% of easy tasks": Passes(level=(5.0, 0.5), broken=0.10),
    "B20 breaks 20% of easy tasks": Passes(level=(5.0, 0.5), broken=0.20),
    "F10 fixes 10% of hard tasks": Passes(level=(-5.0, 0.5), fixed=0.10),
    "M10 breaks 10% and fixes 10%": Passes(broken=0.10, fixed=0.10),
}


@lru_cache
def pass_population(name: str) -> float:
    rates = PASSES[name].rates(4_000_000, np.random.default_rng([17, len(name)]))
    return float((rates[0] - rates[1]).mean())
