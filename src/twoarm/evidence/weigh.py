"""All the evidence, from what scoring found: the two questions, side by side, never on one line."""

import math

import msgspec

from twoarm import column
from twoarm.decide import INSUFFICIENT, Gate, Promotion
from twoarm.errors import Caveat, UsageError
from twoarm.evidence import means, permute, plain
from twoarm.evidence.cautions import cautions, unshared_tasks_decide
from twoarm.evidence.cells import (
    WEIGHED,
    Pairs,
    group_pairs,
    shared_tasks,
)
from twoarm.evidence.deltas import DeltaEvidence, weigh_deltas, with_holm
from twoarm.evidence.exclusions import Exclusions, audit
from twoarm.evidence.gates import GateEvidence, weigh_gate
from twoarm.evidence.grade import (
    GRADED,
    Finding,
    Grade,
    Margin,
    grade,
    margin_rule,
    promote_by_evidence,
    promote_by_margin,
)
from twoarm.evidence.influence import Influence, MeanWithout, mean_without, single_tasks
from twoarm.evidence.interval import (
    SIX,
    Frame,
    Scope,
)
from twoarm.evidence.repeats import ArmRepeats, arm_repeats
from twoarm.evidence.resample import MOST_UNITS, Tables, shared_resamples
from twoarm.evidence.stability import (
    Stability,
    decision_stability,
    decision_without,
    sample,
)
from twoarm.metric import DURATION, NON_CACHE_TOKENS, SUCCESS
from twoarm.pair import Pairing
from twoarm.quote import counted
from twoarm.screen import Screening
from twoarm.summarize import ArmSummary

# Up to here the plain kernel answers before numpy could be imported.
HANDFUL_OF_RUNS = 24
# No table of random draws is larger, in numbers of 8 bytes.
MOST_CELLS = 2**25


class Variance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the uncertainty over tasks like these comes from."""

    metric: str
    tasks_share: float
    repeats_share: float


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the data can support beyond the point estimates."""

    level: float
    seed: int
    resamples: int
    tasks: int
    headline: Scope
    deltas: dict[str, DeltaEvidence]
    gates: dict[str, GateEvidence]
    stability: Stability | None
    grade: Grade
    margin: Margin | None
    exclusions: Exclusions
    influence: Influence
    variance: Variance | None
    repeats: tuple[ArmRepeats, ArmRepeats]
    caveats: tuple[Caveat, ...]


class Margins(msgspec.Struct, frozen=True, kw_only=True):
    """How much worse still counts as not worse."""

    success: float
    ratio: float


def weigh(
    names: tuple[str, ...],
    screening: Screening,
    summaries: tuple[ArmSummary, ArmSummary],
    pairing: Pairing,
    gates: tuple[Gate, Gate, Gate],
    decision: str,
    *,
    level: float,
    seed: int,
    resamples: int,
    margins: Margins | None,
) -> Evidence:
    """Everything the runs can support."""
    _check_draws(pairing, resamples)
    seen = {code for arm in screening.arms for code in column.distinct(arm.task)}
    runs = len(screening.candidate) + len(screening.baseline)
    frame = _frame(runs, len(seen), level, seed, resamples)
    weighed: dict[str, DeltaEvidence] = {}
    without: dict[str, MeanWithout | None] = {}
    directions: dict[str, float] = {}
    # Success is measured in every pair.
    sizes = [pairs for pairs in column.counts(pairing.task, len(names)) if pairs]
    tasks = len(sizes)
    headline: Scope = "tasks_like_these" if tasks >= SIX else "these_tasks"
    variance = None
    for metric in WEIGHED:
        # One metric at a time: the pairs of many runs take much memory.
        pairs = group_pairs(metric, screening, pairing, len(names), small=frame.small)
        weighed[metric.name] = weigh_deltas(pairs, frame)
        without[metric.name] = mean_without(pairs, names)
        directions[metric.name] = permute.direction(pairs, headline)
        if metric is DURATION:
            variance = _variance(pairs)
        del pairs
    tables = Tables()
    gate_evidence: dict[str, GateEvidence] = {
        gate.name: weigh_gate(gate, screening, len(names), frame, tables) for gate in gates
    }
    deltas = with_holm(weighed, headline)
    roles = screening.candidate.arm, screening.baseline.arm
    arms = stability = elsewhere = None
    shared = shared_tasks(SUCCESS, screening)
    if decision != INSUFFICIENT and shared:
        ours, theirs = (sample(arm, len(names), shared) for arm in screening.arms)
        arms = ours, theirs
        on_shared = decision_without(ours, theirs, roles, None) if shared < seen else decision
        if on_shared != decision:
            # What is resampled or left out could not tell the tasks apart that one arm has alone.
            arms, elsewhere = None, on_shared
    resampled = shared_resamples(len(shared), frame)
    if arms is not None and len(shared) >= SIX and resampled is not None:
        stability = decision_stability(decision, *arms, roles, frame, resampled, tables)
    exclusions = audit(screening, summaries, decision)
    margin = None
    if margins is not None:
        margin = margin_rule(
            gate_evidence["success_rate"].difference,
            deltas[DURATION.name].ratio,
            deltas[NON_CACHE_TOKENS.name].ratio,
            margin_success=margins.success,
            margin_ratio=margins.ratio,
            scope=headline,
        )
    evidence = Evidence(
        level=level,
        seed=seed,
        resamples=resamples,
        tasks=tasks,
        headline=headline,
        deltas=deltas,
        gates=gate_evidence,
        stability=stability,
        grade=_grade(deltas, directions, sizes, headline, frame),
        margin=margin,
        exclusions=exclusions,
        influence=single_tasks(names, without, decision, arms, roles, tables),
        variance=variance,
        repeats=(
            arm_repeats(screening.candidate, len(names), frame),
            arm_repeats(screening.baseline, len(names), frame),
        ),
        caveats=(),
    )
    caveats: list[Caveat] = []
    if elsewhere is not None:
        caveats.append(unshared_tasks_decide(len(shared), elsewhere))
    caveats += cautions(evidence, decision, roles)
    return msgspec.structs.replace(evidence, caveats=tuple(caveats))


def _check_draws(pairing: Pairing, resamples: int) -> None:
    """Refuse more resamples than memory should hold; the default is never too many."""
    sizes = column.counts(pairing.task, 1 + max(column.distinct(pairing.task), default=0))
    tasks = sum(map(bool, sizes))
    # Tasks are drawn in bundles, and pairs by a normal law, beyond these.
    wide = max(min(tasks, MOST_UNITS), 2 * min(max(sizes), permute.NORMAL_FROM // 2), 1)
    if resamples * wide > MOST_CELLS:
        raise UsageError(
            f"resamples: at most {MOST_CELLS // wide} fit into memory for these "
            f"{counted(tasks, 'task')}, got {resamples}"
        )


def promote_by(gate: str, evidence: Evidence) -> Promotion:
    """Whether the candidate may be promoted, by the evidence or by the margin rule."""
    if gate == "evidence":
        return promote_by_evidence(evidence.grade)
    assert evidence.margin is not None
    return promote_by_margin(evidence.margin)


def _frame(runs: int, tasks: int, level: float, seed: int, resamples: int) -> Frame:
    if runs <= HANDFUL_OF_RUNS and tasks < SIX:
        return Frame(level=level, seed=seed, resamples=resamples, kernel=plain, small=True)
    from twoarm.evidence import vector

    return Frame(level=level, seed=seed, resamples=resamples, kernel=vector, small=False)


def _variance(pairs: Pairs) -> Variance | None:
    """How much of the error over tasks is run-to-run noise: what more repeats could remove."""
    scale = pairs.logs
    if scale is None or len(pairs.sizes) < 2 or max(pairs.sizes) == 1:
        return None
    squares = [column.group_squares(side, pairs.starts) for side in (scale.ours, scale.theirs)]
    within = means.within_tasks(squares, [pairs.sizes, pairs.sizes])
    over = means.over_tasks(column.group_totals(scale.deltas, pairs.starts), pairs.sizes)
    if within is None or over.variance <= 0.0:
        return None
    repeats = min(1.0, within.variance / over.variance)
    return Variance(metric=pairs.metric.name, tasks_share=1.0 - repeats, repeats_share=repeats)


def _grade(
    deltas: dict[str, DeltaEvidence],
    directions: dict[str, float],
    sizes: list[int],
    headline: Scope,
    frame: Frame,
) -> Grade:
    findings = [
        Finding(
            metric=metric,
            direction=directions[metric.name],
            p=getattr(deltas[metric.name].p, headline),
        )
        for metric in GRADED
    ]
    adjusted = permute.holm([finding.p for finding in findings])
    smallest = _smallest_p(sizes, headline)
    tests = sum(p is not None for p in adjusted)
    reach = tests > 0 and smallest * tests <= 1.0 - frame.level
    return grade(findings, adjusted, frame.level, len(sizes), reach)


def _smallest_p(sizes: list[int], headline: Scope) -> float:
    """The smallest p-value that the test of the headline could give."""
    if headline == "tasks_like_these":
        return 2.0 ** (1 - len(sizes))
    # By logarithms: the number of relabellings may be longer than any float.
    ways = math.fsum(math.lgamma(2 * n + 1) - 2.0 * math.lgamma(n + 1) for n in sizes)
    return min(1.0, 2.0 * math.exp(-ways))
