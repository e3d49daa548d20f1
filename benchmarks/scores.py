"""Scores, simulated: whether the interval of the difference of mean scores holds.

The score of a run is the share of its checks that pass. logit of a check = task + check + arm *
effect + run, where everything is normal: the checks of a task are not equally hard, and
those of a run pass or fail together, so that many scores are 0 or 1. `scored` are scores that a
grader gives instead, to two digits. What is true of a task is integrated, not drawn. All data sets
of a cell are computed at once; tests/evidence/test_score_simulation.py holds that to what a
score gives.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from benchmarks.counting import Cell, Count
from benchmarks.generators import logistic
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.interval import Frame
from twoarm.evidence.means import PSEUDO_TASKS
from twoarm.evidence.relabel import MOST_LISTED, signs
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.runs.arrays import Flags, Floats, Ints
from twoarm.runs.metric import SCORE

FRAME = Frame(level=0.95, tests=0.95, seed=1, resamples=99)
POPULATION = 200_000
# Chances are integrated over what the checks of a run share, at these logits, and interpolated.
LOGITS = np.linspace(-40.0, 40.0, 8_001)
SHARED = np.linspace(-8.0, 8.0, 1_601)


class Graded(NamedTuple):
    """How scores are drawn.

    `run_sd`: how far the checks of a run go together. `broken` and `fixed`: shares of tasks of
    which the candidate passes no check, or every one. `first_check`: what the logit of the first
    check has more in the candidate. `lost`: the share of the candidate's runs without a score.
    """

    checks: int = 5
    level: tuple[float, float] = (1.0, 2.0)
    check_sd: float = 1.0
    run_sd: float = 1.0
    effect: tuple[float, float] = (0.0, 0.0)
    broken: float = 0.0
    fixed: float = 0.0
    first_check: float = 0.0
    lost: float = 0.0
    scored: bool = False


SCORES = {
    "K1 2 checks, equal arms": Graded(checks=2),
    "K2 5 checks, equal arms": Graded(),
    "K3 10 checks, equal on average": Graded(checks=10, level=(0.0, 1.5), effect=(0.0, 1.0)),
    "K4 3 checks, gain": Graded(checks=3, effect=(0.6, 1.0)),
    "K5 10 checks, nearly all or nothing": Graded(checks=10, run_sd=6.0, effect=(0.5, 1.0)),
    "K6 5 checks, ceiling": Graded(level=(6.0, 2.0), effect=(-0.9, 0.5)),
    "K7 2 checks, breaks 10% of easy tasks": Graded(checks=2, level=(5.0, 0.5), broken=0.10),
    "K8 10 checks, breaks 5% of easy tasks": Graded(checks=10, level=(5.0, 0.5), broken=0.05),
    "K9 5 checks, fixes 10% of hard tasks": Graded(level=(-5.0, 0.5), fixed=0.10),
    "K10 4 checks, breaks 10%, fixes 10%": Graded(checks=4, broken=0.10, fixed=0.10),
    "K11 5 checks, one hardly passes": Graded(level=(3.0, 1.0), first_check=-5.0),
    "K12 5 checks, 30% not scored": Graded(effect=(0.6, 1.0), lost=0.30),
    "K13 a grader's number": Graded(scored=True, effect=(0.3, 0.5)),
}


class Tasks(NamedTuple):
    """The logits of tasks, by arm, task and check; and which the candidate broke or fixed."""

    logits: Floats
    broken: Flags
    fixed: Flags


def tasks_of(kind: Graded, count: int, draw: np.random.Generator) -> Tasks:
    level = draw.normal(*kind.level, count)
    effect = draw.normal(*kind.effect, count)
    checks = 1 if kind.scored else kind.checks
    harder = draw.normal(0.0, kind.check_sd, (count, checks))
    logits = np.stack([level + effect, level])[:, :, None] + harder
    logits[0, :, 0] += kind.first_check
    chance = draw.random(count)
    return Tasks(logits=logits, broken=chance < kind.broken, fixed=chance >= 1.0 - kind.fixed)


def expected(kind: Graded, tasks: Tasks) -> Floats:
    """The mean score of each task, a row for each arm."""
    mean: Floats = np.interp(tasks.logits, LOGITS, _chances(kind.run_sd)).mean(axis=2)
    mean[0, tasks.broken], mean[0, tasks.fixed] = 0.0, 1.0
    return mean


@lru_cache
def _chances(run_sd: float) -> Floats:
    weights = np.exp(-(SHARED**2) / 2.0)
    weights /= weights.sum()
    chances: Floats = sum(
        (w * logistic(LOGITS + run_sd * at) for w, at in zip(weights, SHARED, strict=True)),
        np.zeros(len(LOGITS)),
    )
    return chances


def scores_of(kind: Graded, tasks: Tasks, repeats: int, draw: np.random.Generator) -> Floats:
    """A score for each arm, task and repeat; NaN where there is none."""
    arms, count, _ = tasks.logits.shape
    run = kind.run_sd * draw.normal(size=(arms, count, repeats, 1))
    chances = logistic(tasks.logits[:, :, None, :] + run)
    if kind.scored:
        scores: Floats = chances[..., 0].round(2)
    else:
        scores = (draw.random(chances.shape) < chances).mean(axis=3)
    scores[0, tasks.broken], scores[0, tasks.fixed] = 0.0, 1.0
    if kind.lost:
        absent = draw.random((count, repeats)) < kind.lost
        absent[:, 0] &= ~absent.all(axis=1)
        scores[0, absent] = np.nan
    return scores


def score_runs(scores: Floats) -> TaskRuns:
    """One data set as a score has it."""
    _, tasks, repeats = scores.shape
    layout = Layout(tasks=np.arange(tasks), sizes=np.full((2, tasks), repeats))
    values = np.swapaxes(scores, 0, 1).ravel()
    return TaskRuns(metric=SCORE, logs=False, values=values, layout=layout)


class Ends(NamedTuple):
    """Both ends of an interval in each data set."""

    low: Floats
    high: Floats


def intervals(scores: Floats) -> dict[str, Ends]:
    """What `score_estimate` gives, from scores by arm, data set, task and repeat; and plain t."""
    tasks = scores.shape[2]
    sizes = (~np.isnan(scores)).sum(axis=3)
    means = np.nanmean(scores, axis=3)
    squares = np.nansum((scores - means[..., None]) ** 2, axis=3)
    apart = means[0] - means[1]
    middle = apart.mean(axis=1)
    freedom = (sizes - 1).sum(axis=(0, 2))
    pooled = squares.sum(axis=(0, 2)) / freedom
    own = squares / np.maximum(sizes - 1, 1) / sizes
    within = np.where(sizes == 1, pooled[None, :, None], own).sum(axis=(0, 2)) / tasks**2
    pairs = (2.0 * sizes[0] * sizes[1] / sizes.sum(axis=0)).sum(axis=1)
    ends = {"score (a)": _guarded(middle, within, pairs, 2.0, freedom)}
    over = apart.var(axis=1, ddof=1) / tasks
    few = np.full(len(middle), tasks - 1)
    if tasks >= FEWEST_TASKS:
        count = np.full(len(middle), float(tasks))
        ends["score (b)"] = _guarded(middle, over, count, PSEUDO_TASKS, few)
    half = special.stdtrit(few, 0.975) * np.sqrt(over)
    ends["naive: score (b), t on task means"] = Ends(middle - half, middle + half)
    return ends


def _guarded(middle: Floats, variance: Floats, count: Floats, pseudo: float, freedom: Ints) -> Ends:
    shrink = count / (count + 2.0)
    deviation = np.sqrt(variance * shrink**2 + pseudo / (count + 2.0) ** 2)
    reach = special.stdtrit(freedom, 0.975) * deviation
    low = np.minimum(middle * shrink - reach, middle)
    high = np.maximum(middle * shrink + reach, middle)
    return Ends(np.maximum(low, -1.0), np.minimum(high, 1.0))


@lru_cache
def population(name: str) -> float:
    """The difference of mean scores over all tasks there could be."""
    kind = SCORES[name]
    draw = np.random.default_rng([61, len(name)])
    rates = expected(kind, tasks_of(kind, POPULATION, draw))
    return float((rates[0] - rates[1]).mean())


def scores_cell(name: str, count: int, repeats: int, datasets: int) -> Cell:
    kind, draw = SCORES[name], np.random.default_rng([67, len(name), count, repeats])
    # The tasks of all data sets, one after the other.
    tasks = tasks_of(kind, datasets * count, draw)
    rates = expected(kind, tasks).reshape(2, datasets, count)
    scores = scores_of(kind, tasks, repeats, draw).reshape(2, datasets, count, repeats)
    here = (rates[0] - rates[1]).mean(axis=1)
    counted = Count()
    for row, (lows, highs) in intervals(scores).items():
        true = here if row.endswith("(a)") else np.full(datasets, population(name))
        for low, high, at in zip(lows.tolist(), highs.tolist(), true.tolist(), strict=True):
            counted.pair(row, low, high, at)
    # The level of K3 is even on both sides of a half, so its effects cancel out.
    equal = kind.effect[0] == 0.0 and not (kind.broken or kind.fixed or kind.first_check)
    if equal and count >= FEWEST_TASKS:
        means = scores.mean(axis=3)
        for p in sign_tests(np.round(means[0] - means[1], 12)):
            counted.test("false alarm: score, signs of tasks (b)", p)
    return counted.cell_in_points()


def sign_tests(apart: Floats) -> Iterator[float]:
    """The p-value of each data set, as `signs_of_tasks` gives it; 1 where nothing differs."""
    patterns = signs(apart.shape[1], FRAME.seed)
    drawn = int(2 ** (apart.shape[1] - 1) > MOST_LISTED)
    for part in np.array_split(apart, 20):
        reached = np.abs(patterns @ part.T) >= np.abs(part.sum(axis=1)) - 1e-9
        yield from ((reached.sum(axis=0) + drawn) / (len(patterns) + drawn)).tolist()
