"""Suites whose tasks come in families: what intervals and tests hold with families and without.

A family has 2 to 6 tasks, which share an effect on time and tokens and one on success, besides
their own. Both effects are symmetric around none and split between the arms, so that the arms are
equal on average over families, in time, tokens and success. What is true of other figures, where
families that are larger change more, comes from one very large suite.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.counting import Cell, Count
from benchmarks.generators import logistic
from benchmarks.verdicts import MARGINS, RUN_CORRELATION, TASK_CORRELATION, frame, normals
from twoarm.compare.decide import GATES
from twoarm.evidence.arm_medians import arm_medians
from twoarm.evidence.cells import Grouped, Layout, TaskRuns
from twoarm.evidence.interval import Answer
from twoarm.evidence.looks import clear_at, flipped_tasks, spending
from twoarm.evidence.means import bounded_estimate, ratio_estimate
from twoarm.evidence.medians import tasks_like_these
from twoarm.evidence.per_solved import Solving
from twoarm.evidence.per_solved import ratio_estimate as per_solved_ratio
from twoarm.evidence.results import Estimate, Interval
from twoarm.planning.calibration import winners
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.metric import DURATION, JUDGED, SUCCESS

# Standard deviations: of a run, of the size of a family and of a task in it, of a task's own
# effect; on logarithms, and of success on logits.
RUN_SD, FAMILY_SIZE, TASK_SIZE = 0.30, 0.6, 0.5
FAMILY_LEVEL, TASK_LEVEL, MEAN_LEVEL = 1.0, 0.7, 1.0
# Effects on logits are this many times those on logarithms.
ON_SUCCESS = 2.0
FEWEST, MOST = 2, 6
LOOKS = (3, 5)
HERE = msgspec.structs.replace(frame(), resamples=999)
GATED = [JUDGED.index(gate.metric) for gate in GATES]
NAIVE_DATASETS = 300
# Families of the suite that says what is true.
MANY = 40_000


class Kind(NamedTuple):
    """The standard deviation of what a family shares, and of what each task has of its own; with
    `larger`, families that are larger change more."""

    shared: float
    own: float = 0.10
    larger: bool = False


FAMILIES = {
    "FA1 families share nothing": Kind(0.0),
    "FA2 families share an effect of sd 0.10": Kind(0.10),
    "FA3 families share an effect of sd 0.25": Kind(0.25),
    "FA4 sd 0.25, and larger families change more": Kind(0.25, larger=True),
}


class Drawn(NamedTuple):
    """A suite: the family of each task, and its runs by arm, task and repeat."""

    family: Ints
    passed: Floats
    duration: Floats
    tokens: Floats


def suite_of(kind: Kind, families: int, repeats: int, draw: np.random.Generator) -> Drawn:
    """Runs of tasks that come in families."""
    shared = normals(draw, 3, (families,), TASK_CORRELATION)
    rank = 0.8 * shared[0] + 0.6 * draw.normal(size=families) if kind.larger else None
    sizes = draw.integers(FEWEST, MOST + 1, families)
    if rank is not None:
        sizes = np.clip(np.floor(4.5 + 1.8 * rank), FEWEST, MOST).astype(np.int64)
    family = np.repeat(np.arange(families), sizes)
    tasks = len(family)
    effects = kind.shared * shared[:, family] + kind.own * normals(draw, 3, (tasks,), 0.7)
    effects[0] *= ON_SUCCESS
    half = np.array([0.5, -0.5])[:, None]
    level = MEAN_LEVEL + FAMILY_LEVEL * draw.normal(size=families)[family]
    rates = logistic(level + TASK_LEVEL * draw.normal(size=tasks) - half * effects[0])
    passed = draw.random((2, tasks, repeats)) < rates[:, :, None]
    size = 5.0 + FAMILY_SIZE * draw.normal(size=families)[family]
    size = size + TASK_SIZE * draw.normal(size=tasks)
    noise = RUN_SD * normals(draw, 2, (2, tasks, repeats), RUN_CORRELATION)
    logs = size[:, None] + noise + (half * effects[1:, None])[..., None]
    duration, tokens = np.exp(logs)
    return Drawn(family=family, passed=passed.astype(np.float64), duration=duration, tokens=tokens)


def runs_of(drawn: Drawn, families: bool) -> list[TaskRuns]:
    """Every metric that is judged, with or without what is known of families; cost is tokens."""
    _, tasks, repeats = drawn.passed.shape
    layout = Layout(
        tasks=np.arange(tasks),
        sizes=np.full((2, tasks), repeats),
        family=drawn.family if families else None,
    )
    columns = {SUCCESS.name: drawn.passed, DURATION.name: drawn.duration}
    return [
        TaskRuns(
            metric=metric,
            logs=False,
            values=np.swapaxes(columns.get(metric.name, drawn.tokens), 0, 1).ravel(),
            layout=layout,
        ).on_test_scale()
        for metric in JUDGED
    ]


class Truths(NamedTuple):
    """What is true where the runs of larger families weigh more."""

    median: float
    arm_medians: float
    per_solved: float


@lru_cache
def truths(name: str) -> Truths:
    kind = FAMILIES[name]
    if not kind.larger:
        return Truths(median=0.0, arm_medians=0.0, per_solved=0.0)
    drawn = suite_of(kind, MANY, 5, np.random.default_rng(9))
    took, solved = drawn.duration.sum(axis=(1, 2)), drawn.passed.sum(axis=(1, 2))
    middles = np.median(drawn.duration.reshape(2, -1), axis=1)
    return Truths(
        median=float(np.median(drawn.duration[0] - drawn.duration[1])),
        arm_medians=float(middles[0] - middles[1]),
        per_solved=float(np.log(took[0] / solved[0]) - np.log(took[1] / solved[1])),
    )


def families_cell(name: str, families: int, repeats: int, datasets: int) -> Cell:
    """Coverage and false alarms with families; and of means if tasks are taken for independent."""
    kind, true = FAMILIES[name], truths(name)
    draw = np.random.default_rng([113, list(FAMILIES).index(name), families, repeats])
    count = Count()
    for number in range(datasets):
        drawn = suite_of(kind, families, repeats, draw)
        ways = ((True, "families"), (False, "naive: tasks taken for independent"))
        for known, what in ways if number < NAIVE_DATASETS else ways[:1]:
            runs = runs_of(drawn, known)
            ratio = ratio_estimate(runs[JUDGED.index(DURATION)], HERE)
            assert ratio is not None
            _ratio(count, f"{what}: ratio (b)", ratio, 0.0)
            success = bounded_estimate(runs[JUDGED.index(SUCCESS)], HERE).tasks_like_these
            count.interval(f"{what}: success (b)", success, 0.0)
            by_evidence, by_margin = winners(runs, HERE, MARGINS)
            count.test(f"{what}: false winner by the evidence", _p(by_evidence))
            if known:
                count.test(f"{what}: false winner by the margin", _p(by_margin))
                count.test(f"{what}: false alarm, looks after 3 and 5", _p(_at_looks(runs)))
        _others(count, drawn, true)
    return count.cell()


def _ratio(count: Count, row: str, ratio: Estimate, true: float) -> None:
    found = ratio.tasks_like_these
    if found is not None:
        count.pair(row, math.log(found.low), math.log(found.high), true)


def _p(hit: bool) -> float:
    return 0.0 if hit else 1.0


def _at_looks(runs: list[TaskRuns]) -> bool:
    """Whether anything is clear at one of two looks."""
    gated = [runs[at] for at in GATED]
    rank = np.arange(runs[0].layout.rows) % LOOKS[-1] + 1
    deltas = [
        np.array([each.among(rank <= look).family_deltas for each in gated]) for look in LOOKS
    ]
    shares = [spending(look, LOOKS[-1], HERE.level) for look in LOOKS]
    return bool(clear_at(flipped_tasks(deltas, 1), shares, range(len(gated)), None))


def _known(answer: Answer) -> Interval | None:
    return answer if isinstance(answer, Interval) else None


def _others(count: Count, drawn: Drawn, true: Truths) -> None:
    """What is not a mean over families."""
    tasks, repeats = drawn.passed.shape[1:]
    starts = np.arange(tasks + 1) * repeats

    def grouped(values: Floats) -> Grouped:
        return Grouped(
            values=values.ravel(), tasks=np.arange(tasks), starts=starts, family=drawn.family
        )

    medians = arm_medians(grouped(drawn.duration[0]), grouped(drawn.duration[1]), HERE)
    count.interval("families: arm medians (b)", medians.tasks_like_these, true.arm_medians)
    median = tasks_like_these(grouped(drawn.duration[0] - drawn.duration[1]), HERE)
    count.interval("families: median (b)", _known(median), true.median)
    sides = [
        Solving(
            took=drawn.duration[arm].ravel(),
            solved=drawn.passed[arm].ravel(),
            starts=starts,
            family=drawn.family,
        )
        for arm in (0, 1)
    ]
    per_solved = per_solved_ratio((sides[0], sides[1]), (), HERE)
    _ratio(count, "families: per solved, ratio (b)", per_solved, true.per_solved)
