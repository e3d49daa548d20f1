"""Trials without a difference: who is named a winner when the same runs are dealt to two arms."""

from collections.abc import Mapping

import msgspec
import numpy as np

from twoarm.compare.decide import GATES, decide, figures, judge
from twoarm.compare.screen import Arms
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.grade import Margins, margin_rule
from twoarm.evidence.interval import Frame
from twoarm.evidence.means import bounded_estimate, ratio_estimate
from twoarm.evidence.solved import among_solved, gain_survives
from twoarm.evidence.weigh import grade_of, headline_tests
from twoarm.runs.arrays import Flags, Floats, Ints
from twoarm.runs.metric import JUDGED, SUCCESS

# The share of trials that stay below the noise floor.
FLOOR = 0.95
_ARMS = Arms(candidate="candidate", baseline="baseline")
_DEALT, _HALVES = 301, 302


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of some tasks, task by task in the order in which they were made.

    `deal` has a row for each arm: how many runs of each task it is dealt. What is left over plays
    no part. `family` is the place of the family of each task, None where no two are of one.
    """

    task: Ints
    values: dict[str, Floats]
    deal: Ints
    family: Ints | None = None

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return int(self.deal.shape[1])

    @property
    def families(self) -> int | None:
        """How many families the tasks have; None where no two are of one."""
        return None if self.family is None else int(self.family.max()) + 1

    @property
    def starts(self) -> Ints:
        """Where each task begins."""
        return np.searchsorted(self.task, np.arange(self.tasks))

    def part(self, order: Ints) -> Ints:
        """Which runs in this order are dealt, task by task, the candidate's first."""
        rank = np.arange(len(self.task)) - self.starts[self.task]
        dealt: Ints = order[rank < self.deal.sum(axis=0)[self.task]]
        return dealt


class Dealt(msgspec.Struct, frozen=True, kw_only=True):
    """What the trials found: whether each way named a winner, and how far apart the arms were."""

    gates: Flags
    evidence: Flags
    margin: Flags
    away: dict[str, Floats]

    def noise_floor(self) -> dict[str, float]:
        """The difference of each metric that nearly all trials stay below; as a ratio less one."""
        floor = {}
        for name, away in self.away.items():
            known = away[~np.isnan(away)]
            if len(known):
                floor[name] = float(np.quantile(known, FLOOR))
        return floor


def deal(pool: Pool, trials: int, frame: Frame, margins: Margins) -> Dealt:
    """Deal the runs of each task to two arms, at random, and judge them as any two arms."""
    layout = Layout(tasks=np.arange(pool.tasks), sizes=pool.deal, family=pool.family)
    ours = layout.cell % 2 == 0
    scaled = _on_test_scale(pool)
    named = np.zeros((3, trials), dtype=bool)
    away = {metric.name: np.full(trials, np.nan) for metric in JUDGED}
    for trial in range(trials):
        rows = pool.part(_shuffled(pool.task, [frame.seed, _DEALT, trial]))
        runs = [
            msgspec.structs.replace(measure, values=measure.values[rows], layout=layout)
            for measure in scaled
        ]
        named[:, trial] = (_by_gates(pool.values, rows, ours), *winners(runs, frame, margins))
        for measure in runs:
            deltas = measure.independent
            if len(deltas):
                size = abs(float(deltas.mean()))
                away[measure.metric.name][trial] = np.expm1(size) if measure.logs else size
    comparable = {
        measure.metric.name for measure in scaled if measure.logs or measure.metric is SUCCESS
    }
    return Dealt(
        gates=named[0],
        evidence=named[1],
        margin=named[2],
        away={name: sizes for name, sizes in away.items() if name in comparable},
    )


def _on_test_scale(pool: Pool) -> list[TaskRuns]:
    """Every metric of all runs, on logarithms once and for all where it is tested on them."""
    whole = Layout(
        tasks=np.arange(pool.tasks),
        sizes=np.array([np.bincount(pool.task, minlength=pool.tasks), np.zeros(pool.tasks, int)]),
    )
    return [
        TaskRuns(
            metric=metric, logs=False, values=pool.values[metric.name], layout=whole
        ).on_test_scale()
        for metric in JUDGED
    ]


def _shuffled(task: Ints, seed: list[int]) -> Ints:
    """The runs in an order that is random inside each task."""
    return np.lexsort((np.random.PCG64(seed).random_raw(len(task)), task))


def _by_gates(values: Mapping[str, Floats], rows: Ints, ours: Flags) -> bool:
    sides = [
        {name: column[rows[side]] for name, column in values.items()} for side in (ours, ~ours)
    ]
    decision = decide(judge(figures(sides[0]), figures(sides[1])), _ARMS)
    return decision.kind in ("candidate", "baseline")


def winners(runs: list[TaskRuns], frame: Frame, margins: Margins) -> tuple[bool, bool]:
    """Whether the verdict names a winner, and whether the margin rule does.

    A winner that is better only because failed runs are short, or long, is none; nor is one of
    which that cannot be said.
    """
    by_name = {measure.metric.name: measure for measure in runs}
    grade = grade_of(runs, headline_tests(runs, frame, None), None, frame)
    passes = by_name[SUCCESS.name]
    solved = {
        gate.metric.name: None
        if gate.metric is SUCCESS
        else among_solved(by_name[gate.metric.name], passes)
        for gate in GATES
    }
    rule = margin_rule(
        bounded_estimate(passes, frame),
        {
            gate.metric.name: ratio_estimate(by_name[gate.metric.name], frame)
            for gate in GATES
            if gate.metric is not SUCCESS
        },
        solved,
        grade,
        margins,
    )
    clear = (entry.metric for entry in grade.findings if entry.standing in ("better", "worse"))
    return (
        grade.verdict in ("candidate better", "baseline better")
        and gain_survives(clear, solved) is True,
        rule.verdict in ("candidate", "baseline") and rule.gain_survives is True,
    )


def drift(pool: Pool, trials: int, seed: int) -> float | None:
    """The chance that random halves of the runs differ as much as the first half and the second do.

    By the largest difference among the gates' metrics, each in its own spread.
    """
    scaled = {measure.metric.name: measure.values for measure in _on_test_scale(pool)}
    columns = [scaled[gate.metric.name] for gate in GATES]
    values = np.array([column for column in columns if not np.isnan(column).any()])
    half = np.bincount(pool.task, minlength=pool.tasks) // 2
    if not len(values) or not half.max():
        return None
    kept = half[pool.task] > 0
    orders = [np.arange(len(pool.task))]
    orders += [_shuffled(pool.task, [seed, _HALVES, trial]) for trial in range(trials)]
    rank = np.arange(len(pool.task)) - pool.starts[pool.task]
    size = np.bincount(pool.task, minlength=pool.tasks)[pool.task]
    first, last = rank < half[pool.task], rank >= size - half[pool.task]
    weight = np.where(kept, (first.astype(float) - last) / np.maximum(half[pool.task], 1), 0.0)
    differences = np.array([values[:, order] @ weight for order in orders])
    spread = differences[1:].std(axis=0)
    varied = spread > 1e-12
    if not varied.any():
        return None
    largest = (np.abs(differences[:, varied]) / spread[varied]).max(axis=1)
    return float((1 + (largest[1:] >= largest[0] - 1e-9).sum()) / (trials + 1))
