"""All the evidence, from what scoring found: the two questions, side by side, never on one line."""

import math

import msgspec
import numpy as np

from twoarm.arrays import Ints, squares, sums
from twoarm.comparison import Comparison
from twoarm.decide import GATES, Decision, GateName
from twoarm.errors import UsageError
from twoarm.escape import counted
from twoarm.evidence import means, permute
from twoarm.evidence.cells import Pairs, group_pairs, shared_tasks
from twoarm.evidence.deltas import DeltaEvidence, weigh_deltas, with_holm
from twoarm.evidence.design import ran_first
from twoarm.evidence.exclusions import Exclusions, audit
from twoarm.evidence.gates import GateEvidence, weigh_gate
from twoarm.evidence.grade import Grade, Margin, Tested, grade, margin_rule
from twoarm.evidence.influence import (
    DecisionWithout,
    Influence,
    MeanWithout,
    mean_without,
    without_tasks,
)
from twoarm.evidence.interval import FEWEST_TASKS, Frame, Scope
from twoarm.evidence.kernel import log_choose
from twoarm.evidence.repeats import ArmRepeats, arm_repeats
from twoarm.evidence.resample import MOST_UNITS, Tables, shared_resamples
from twoarm.evidence.stability import Stability, decision_stability, decision_without, sample
from twoarm.metric import DURATION, JUDGED, SUCCESS
from twoarm.options import Options

# No table of random draws is larger, in numbers of 8 bytes.
MOST_CELLS = 2**25


class Variance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the uncertainty over tasks like these comes from."""

    metric: str
    tasks_share: float
    repeats_share: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the data can support beyond the point estimates.

    `on_shared_tasks` is the decision of the gates on the tasks that both arms have; `ran_first` is
    the arm whose runs all started before the other's, if one's did.
    """

    level: float
    seed: int
    resamples: int
    tasks: int
    headline: Scope
    deltas: dict[str, DeltaEvidence]
    gates: dict[GateName, GateEvidence]
    shared_tasks: int
    on_shared_tasks: Decision
    stability: Stability | None
    grade: Grade
    margin: Margin
    exclusions: Exclusions
    influence: Influence
    variance: Variance | None
    repeats: tuple[ArmRepeats, ArmRepeats]
    ran_first: str | None


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What is found one metric at a time: the pairs of many runs take much memory."""

    deltas: dict[str, DeltaEvidence]
    without: dict[str, MeanWithout]
    directions: dict[str, float]
    variance: Variance | None


class _Hanging(msgspec.Struct, frozen=True, kw_only=True):
    """How the decision fares on the tasks that both arms have, and what it hangs on."""

    tasks: int
    decision: Decision
    stability: Stability | None
    influence: Influence


def weigh(comparison: Comparison, options: Options) -> Evidence:
    """Everything the runs can support."""
    # Success is measured in every pair.
    sizes = np.bincount(comparison.pairing.task)
    sizes = sizes[sizes > 0]
    frame = _frame(options, sizes)
    tasks = len(sizes)
    headline: Scope = "tasks_like_these" if tasks >= FEWEST_TASKS else "these_tasks"
    found = _judged(comparison, frame, headline)
    tables = Tables()
    gates = {gate.name: weigh_gate(gate, comparison, frame, tables) for gate in comparison.gates}
    deltas = with_holm(found.deltas, headline)
    hanging = _hanging(comparison, frame, tables, found.without)
    tested = [
        Tested(
            metric=gate.metric,
            direction=found.directions[gate.metric.name],
            p=getattr(deltas[gate.metric.name].p, headline),
        )
        for gate in GATES
    ]
    ratios = {
        gate.metric.name: deltas[gate.metric.name].ratio
        for gate in GATES
        if gate.metric is not SUCCESS
    }
    task_count = len(comparison.runs.tasks)
    ours, theirs = comparison.screening.arms
    return Evidence(
        level=options.level,
        seed=options.seed,
        resamples=options.resamples,
        tasks=tasks,
        headline=headline,
        deltas=deltas,
        gates=gates,
        shared_tasks=hanging.tasks,
        on_shared_tasks=hanging.decision,
        stability=hanging.stability,
        grade=grade(tested, frame, tasks, _smallest_p(sizes, headline)),
        margin=margin_rule(
            gates["success_rate"].difference,
            ratios,
            headline,
            options.margin_success,
            options.margin_ratio,
        ),
        exclusions=audit(comparison),
        influence=hanging.influence,
        variance=found.variance,
        repeats=(arm_repeats(ours, task_count, frame), arm_repeats(theirs, task_count, frame)),
        ran_first=ran_first(comparison),
    )


def _frame(options: Options, sizes: Ints) -> Frame:
    """The level and the draws; more of them than memory should hold are refused."""
    # Tasks are drawn in bundles, and pairs by a normal distribution, beyond these.
    largest = int(sizes.max(initial=0))
    wide = max(min(len(sizes), MOST_UNITS), 2 * min(largest, permute.NORMAL_FROM // 2), 1)
    if options.resamples * wide > MOST_CELLS:
        raise UsageError(
            f"resamples: at most {MOST_CELLS // wide} fit into memory for these "
            f"{counted(len(sizes), 'task')}, got {options.resamples}"
        )
    return Frame(level=options.level, seed=options.seed, resamples=options.resamples)


def _judged(comparison: Comparison, frame: Frame, headline: Scope) -> _Judged:
    deltas, without, directions = {}, {}, {}
    variance = None
    for metric in JUDGED:
        pairs = group_pairs(metric, comparison)
        deltas[metric.name] = weigh_deltas(pairs, frame)
        single = mean_without(pairs, comparison.runs.tasks)
        if single is not None:
            without[metric.name] = single
        directions[metric.name] = permute.direction(pairs, headline)
        if metric is DURATION:
            variance = _variance(pairs)
        del pairs
    return _Judged(deltas=deltas, without=without, directions=directions, variance=variance)


def _hanging(
    comparison: Comparison, frame: Frame, tables: Tables, means_without: dict[str, MeanWithout]
) -> _Hanging:
    names, decision = comparison.runs.tasks, comparison.decision
    shared = shared_tasks(SUCCESS, comparison.screening)
    stability, on_shared = None, decision
    changes: tuple[DecisionWithout, ...] = ()
    if decision.kind != "insufficient" and len(shared):
        ours, theirs = (sample(arm, len(names), shared) for arm in comparison.screening.arms)
        if len(shared) < len(comparison.tasks):
            on_shared = decision_without((ours, theirs), None)
        # Otherwise what is resampled or left out says nothing about the decision.
        if on_shared == decision:
            changes = without_tasks(names, decision, (ours, theirs), tables)
            resampled = shared_resamples(len(shared), frame)
            if len(shared) >= FEWEST_TASKS and resampled is not None:
                stability = decision_stability(decision, (ours, theirs), frame, resampled, tables)
    return _Hanging(
        tasks=len(shared),
        decision=on_shared,
        stability=stability,
        influence=Influence(decision_changes_without=changes, means=means_without),
    )


def _variance(pairs: Pairs) -> Variance | None:
    """How much of the error over tasks is run-to-run noise: what more repeats could remove."""
    scale = pairs.logs
    if scale is None or len(pairs.sizes) < 2 or pairs.sizes.max() == 1:
        return None
    spreads = squares(scale.ours, pairs.starts), squares(scale.theirs, pairs.starts)
    within = means.within_tasks(spreads, (pairs.sizes, pairs.sizes))
    over = means.over_tasks(sums(scale.deltas, pairs.starts), pairs.sizes)
    if within is None or over.variance <= 0.0:
        return None
    repeats = min(1.0, within.variance / over.variance)
    return Variance(metric=pairs.metric.name, tasks_share=1.0 - repeats, repeats_share=repeats)


def _smallest_p(sizes: Ints, headline: Scope) -> float:
    """The smallest p-value that the test of the headline could give."""
    if headline == "tasks_like_these":
        return float(2.0 ** (1 - len(sizes)))
    # By logarithms: the number of relabellings may be longer than any float.
    ways = math.fsum(log_choose(2 * sizes, sizes))
    return min(1.0, 2.0 * math.exp(-ways))
