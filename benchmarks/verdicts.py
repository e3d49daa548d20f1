"""Verdicts and promotions, simulated from runs to the end: who is promoted, and who should not be.

log duration and log tokens of a run = task + arm * (effect + task effect) + noise; the noise of the
two has a correlation of .8, their task effects one of .7. Success has a logit per task. Every
figure that a generator draws stands in `Arms`; the docs show them beside the tables.
"""

import math
from typing import NamedTuple

import numpy as np

from benchmarks.generators import logistic
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.grade import Margins, margin_rule
from twoarm.evidence.harm import broken_tasks
from twoarm.evidence.interval import Frame
from twoarm.evidence.means import ratio_estimate, success_estimate
from twoarm.evidence.results import BROKEN_BY_CHANCE, Estimate, Grade
from twoarm.evidence.weigh import grade_of, headline_tests
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import (
    COST,
    DURATION,
    JUDGED,
    NON_CACHE_TOKENS,
    SUCCESS,
    TOKENS,
    Better,
    Metric,
)

RUN_SD = 0.45
RUN_CORRELATION, TASK_CORRELATION = 0.8, 0.7
MARGIN = 0.10
RATIOS = (DURATION.name, NON_CACHE_TOKENS.name)


class Arms(NamedTuple):
    """What the candidate changes; success is None where every run succeeds."""

    duration: float = 0.0
    tokens: float = 0.0
    cost: float = 0.0
    success: tuple[float, float] | None = (1.5, 1.5)
    success_effect: tuple[float, float] = (0.0, 0.5)
    broken: float = 0.0
    task_sd: float = 0.20


FASTER = math.log(0.8)
PROMOTIONS = {
    "arms equal on average": Arms(),
    "fails fast": Arms(duration=-0.22, tokens=-0.22, success_effect=(-0.75, 0.5)),
    "breaks 1 task in 10": Arms(
        duration=-0.36, tokens=-0.36, success=(5.0, 0.5), success_effect=(0.0, 0.0), broken=0.1
    ),
    "costs 40% more": Arms(duration=FASTER, tokens=FASTER, cost=math.log(1.4), success=None),
    "-20%, everything passes": Arms(duration=FASTER, tokens=FASTER, success=None),
    "-20%, 97% pass": Arms(duration=FASTER, tokens=FASTER, success=(4.0, 0.7)),
    "-15/-20%, mixed success": Arms(duration=math.log(0.85), tokens=FASTER),
}


class Trial(NamedTuple):
    """One drawn data set: values by metric, of shape arm, task, repeat."""

    values: dict[str, Floats]
    broken: int


def normals(draw: np.random.Generator, count: int, shape: tuple[int, ...], common: float) -> Floats:
    """So many standard normals with a common correlation."""
    shared = draw.normal(size=shape)
    own = draw.normal(size=(count, *shape))
    return math.sqrt(common) * shared + math.sqrt(1.0 - common) * own


def trial(arms: Arms, tasks: int, repeats: int, draw: np.random.Generator) -> Trial:
    noise = RUN_SD * normals(draw, 3, (2, tasks, repeats), RUN_CORRELATION)
    between = arms.task_sd * normals(draw, 3, (tasks,), TASK_CORRELATION)
    shifts = np.array([arms.duration, arms.tokens, arms.cost])
    noise[:, 0] += (shifts[:, None] + between)[:, :, None]
    broken = np.zeros(tasks, dtype=bool)
    if arms.success is None:
        passed = np.ones((2, tasks, repeats))
    else:
        level = draw.normal(*arms.success, tasks)
        changed = level + draw.normal(*arms.success_effect, tasks)
        rates = np.array([logistic(changed), logistic(level)])
        broken = draw.random(tasks) < arms.broken
        rates[0, broken] = 0.0
        passed = (draw.random((2, tasks, repeats)) < rates[:, :, None]).astype(np.float64)
    duration, tokens, cost = np.exp(noise)
    return Trial(
        values={
            SUCCESS.name: passed,
            DURATION.name: duration,
            NON_CACHE_TOKENS.name: tokens,
            TOKENS.name: tokens,
            COST.name: cost,
        },
        broken=int(broken.sum()),
    )


def runs_of(values: dict[str, Floats], metrics: tuple[Metric, ...] = JUDGED) -> list[TaskRuns]:
    """Some metrics of a data set with as many runs in every task and arm."""
    _, tasks, repeats = values[SUCCESS.name].shape
    layout = Layout(tasks=np.arange(tasks), sizes=np.full((2, tasks), repeats))
    return [
        TaskRuns(
            metric=metric,
            logs=False,
            values=np.swapaxes(values[metric.name], 0, 1).ravel(),
            layout=layout,
        ).on_test_scale()
        for metric in metrics
    ]


def frame() -> Frame:
    return Frame(level=0.95, tests=0.95, seed=1, resamples=1_999)


def verdict(runs: list[TaskRuns], primary: str | None = None) -> Grade:
    here = frame()
    return grade_of(runs, headline_tests(runs, here, primary), primary, here)


class Judged(NamedTuple):
    """What the second edition says of a data set."""

    grade: Grade
    guarded: bool
    margin: str


def judged(runs: list[TaskRuns]) -> Judged:
    """The verdict, whether the guard lets it through, and the margin rule."""
    here, by_name = frame(), {one.metric.name: one for one in runs}
    grade = verdict(runs)
    success = success_estimate(by_name[SUCCESS.name], here)
    ratios = {name: ratio_estimate(by_name[name], here) for name in RATIOS}
    margin = margin_rule(success, ratios, grade, Margins(success=MARGIN, ratio=MARGIN))
    return Judged(
        grade=grade,
        guarded=grade.scope == "tasks_like_these" and _guarded(by_name, success),
        margin=margin.verdict,
    )


def _guarded(by_name: dict[str, TaskRuns], success: Estimate) -> bool:
    passes = by_name[SUCCESS.name]
    if success.these_tasks is None or success.these_tasks.low <= -MARGIN:
        return False
    names = tuple(map(str, range(len(passes.layout.tasks))))
    broken = broken_tasks(passes, names, frame().level)
    if broken.p is not None and broken.p <= BROKEN_BY_CHANCE:
        return False
    cost = ratio_estimate(by_name[COST.name], frame())
    assert cost is not None
    assert cost.tasks_like_these is not None
    return cost.tasks_like_these.low <= 1.0


def holm_verdict(runs: list[TaskRuns]) -> str:
    """The first edition: three sign tests, adjusted by Holm, and nothing else."""
    found = headline_tests(runs, frame(), None).relabelled
    assert found is not None
    columns = [
        (found.p(column), one)
        for column, one in enumerate(runs)
        if one.metric in (SUCCESS, DURATION, NON_CACHE_TOKENS)
    ]
    known = sorted((p, rank, one) for rank, (p, one) in enumerate(columns) if p is not None)
    standings, highest = set(), 0.0
    for rank, (p, _, one) in enumerate(known):
        highest = max(highest, (len(known) - rank) * p)
        if highest <= 0.05:
            higher = one.deltas.sum() > 0
            standings.add(higher == (one.metric.better is Better.HIGHER))
    return "candidate better" if standings == {True} else "other"


def promotion_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    draw = np.random.default_rng([41, len(name), tasks, repeats])
    counts = dict.fromkeys(ROWS, 0)
    for _ in range(datasets):
        drawn = trial(PROMOTIONS[name], tasks, repeats, draw)
        runs = runs_of(drawn.values)
        found = judged(runs)
        better = found.grade.verdict == "candidate better"
        first = verdict(runs, "tokens").verdict == "candidate better"
        seen = (
            better and found.guarded,
            better,
            first,
            found.margin == "candidate",
            found.margin == "no difference",
            holm_verdict(runs) == "candidate better",
            not drawn.broken,
        )
        for row, hit in zip(ROWS, seen, strict=True):
            counts[row] += hit
    return {row: [hits, datasets] for row, hits in counts.items()}


ROWS = (
    "promoted by the evidence",
    "candidate better (without the guard)",
    "candidate better, tokens named first",
    "promoted by the margins",
    "no difference beyond the margins",
    "first edition: promoted by the evidence",
    "no broken task was drawn",
)
