"""All the evidence, from what scoring found: the two questions, side by side, never on one line."""

import math

import msgspec

from twoarm import column
from twoarm.decide import INSUFFICIENT, Adequacy, Gate, Promotion
from twoarm.errors import Caveat
from twoarm.evidence import means, medians, permute, plain
from twoarm.evidence.cells import (
    WEIGHED,
    Pairs,
    group_arm,
    group_pairs,
    shared_tasks,
)
from twoarm.evidence.deltas import DeltaEvidence, distinct, weigh_deltas, with_holm
from twoarm.evidence.exclusions import Exclusions, audit
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
from twoarm.evidence.interval import SIX, Estimate, Frame, Scope, between, no_interval_over
from twoarm.evidence.repeats import ArmRepeats, arm_repeats
from twoarm.evidence.resample import Tables, shared_resamples
from twoarm.evidence.stability import Stability, decision_stability, sample
from twoarm.figures import change
from twoarm.metric import DURATION, NON_CACHE_TOKENS, SUCCESS, Metric
from twoarm.pair import Pairing
from twoarm.quote import counted, named
from twoarm.screen import Screening
from twoarm.summarize import ArmSummary

# Up to here the plain kernel answers before numpy could be imported.
HANDFUL_OF_PAIRS = 12
GATE_METRICS: dict[str, Metric] = {
    "success_rate": SUCCESS,
    "median_duration_seconds": DURATION,
    "median_non_cache_tokens": NON_CACHE_TOKENS,
}


class GateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs support about the difference that one gate looks at."""

    difference: Estimate


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
    distinct_tasks = sum(map(bool, column.counts(pairing.task, len(names))))
    frame = _frame(len(pairing), distinct_tasks, level, seed, resamples)
    weighed: dict[str, DeltaEvidence] = {}
    without: dict[str, MeanWithout | None] = {}
    sizes: list[int] = []
    variance = None
    for metric in WEIGHED:
        # One metric at a time: the pairs of many runs take much memory.
        pairs = group_pairs(metric, screening, pairing, len(names), small=frame.small)
        weighed[metric.name] = weigh_deltas(pairs, frame)
        without[metric.name] = mean_without(pairs, names)
        if metric is SUCCESS:
            sizes = pairs.sizes
        if metric is DURATION:
            variance = _variance(pairs)
        del pairs
    tasks = len(sizes)
    headline: Scope = "tasks_like_these" if tasks >= SIX else "these_tasks"
    deltas = with_holm(weighed, headline)
    tables = Tables()
    gate_evidence: dict[str, GateEvidence] = {
        gate.name: GateEvidence(
            difference=_gate_difference(gate, screening, len(names), frame, tables)
        )
        for gate in gates
    }
    roles = screening.candidate.arm, screening.baseline.arm
    arms = stability = None
    shared = shared_tasks(SUCCESS, screening, len(names))
    resampled = shared_resamples(len(shared), frame)
    if decision != INSUFFICIENT and len(shared) >= SIX and resampled is not None:
        ours, theirs = (sample(arm, len(names), shared) for arm in screening.arms)
        arms = ours, theirs
        stability = decision_stability(decision, ours, theirs, roles, frame, resampled, tables)
    exclusions = audit(screening, summaries, gates, decision)
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
        grade=_grade(deltas, sizes, headline, frame),
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
    return msgspec.structs.replace(evidence, caveats=tuple(_caveats(evidence, decision, roles)))


def promote_by(gate: str, evidence: Evidence, adequacy: Adequacy) -> Promotion:
    """Whether the candidate may be promoted, by the evidence or by the margin rule."""
    if gate == "evidence":
        return promote_by_evidence(evidence.grade, adequacy)
    assert evidence.margin is not None
    return promote_by_margin(evidence.margin, adequacy)


def _frame(pairs: int, tasks: int, level: float, seed: int, resamples: int) -> Frame:
    if pairs <= HANDFUL_OF_PAIRS and tasks < SIX:
        return Frame(level=level, seed=seed, resamples=resamples, kernel=plain, small=True)
    from twoarm.evidence import vector

    return Frame(level=level, seed=seed, resamples=resamples, kernel=vector, small=False)


def _gate_difference(
    gate: Gate, screening: Screening, task_count: int, frame: Frame, tables: Tables
) -> Estimate:
    if gate.candidate is None or gate.baseline is None:
        return Estimate(
            estimate=None,
            these_tasks=None,
            tasks_like_these=None,
            caveats=("Not measured in at least one arm.",),
        )
    metric = GATE_METRICS[gate.name]
    shared = shared_tasks(metric, screening, task_count)
    difference = gate.candidate - gate.baseline
    if not shared:
        return Estimate(
            estimate=difference,
            these_tasks=None,
            tasks_like_these=None,
            caveats=("No task has runs in both arms.",),
        )
    ours, theirs = (
        group_arm(metric, arm, task_count, shared, small=frame.small) for arm in screening.arms
    )
    if metric is SUCCESS:
        successes = tuple(column.group_totals(g.values, g.starts) for g in (ours, theirs))
        passes = means.Passes(
            successes=(successes[0], successes[1]), sizes=(ours.sizes, theirs.sizes)
        )
        return means.success_estimate(passes, difference, frame)
    these = medians.arms_apart(ours, theirs, frame)
    tasks = len(shared)
    like = None
    caveats = list(these.caveats)
    resamples = shared_resamples(tasks, frame)
    if tasks < SIX or resamples is None:
        caveats.append(no_interval_over(tasks))
    else:
        drawn = [
            tables.drawn(arm.arm, side, metric, resamples)
            for arm, side in zip(screening.arms, (ours, theirs), strict=True)
        ]
        moved = drawn[0] - drawn[1]
        tail = (1.0 - frame.level) / 2.0
        low, high = resamples.percentiles(moved, tail)
        if low == high:
            caveats.append("Every resample of the tasks has the same difference.")
        else:
            method = f"percentile, tasks resampled{', exact' if resamples.exact else ''}"
            like = between(low=low, high=high, method=method, caveats=())
    return Estimate(
        estimate=difference,
        these_tasks=these.interval,
        tasks_like_these=like,
        caveats=distinct(*caveats),
    )


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
    deltas: dict[str, DeltaEvidence], sizes: list[int], headline: Scope, frame: Frame
) -> Grade:
    findings = []
    for metric in WEIGHED:
        if metric not in GRADED:
            continue
        found = deltas[metric.name]
        # The direction on the scale of the test.
        estimate = found.mean.estimate
        if found.ratio is not None and found.ratio.estimate is not None:
            estimate = found.ratio.estimate - 1.0
        findings.append(
            Finding(
                metric=metric,
                estimate=estimate,
                p=getattr(found.p, headline),
            )
        )
    adjusted = permute.holm([finding.p for finding in findings])
    smallest = _smallest_p(sizes, headline)
    reach = smallest * sum(p is not None for p in adjusted) <= 1.0 - frame.level
    return grade(findings, adjusted, frame.level, len(sizes), reach and bool(sizes))


def _smallest_p(sizes: list[int], headline: Scope) -> float:
    """The smallest p-value that the test of the headline could give."""
    if headline == "tasks_like_these":
        return 2.0 ** (1 - len(sizes))
    return 2.0 / math.prod(math.comb(2 * n, n) for n in sizes) if sizes else 1.0


def _caveats(evidence: Evidence, decision: str, roles: tuple[str, str]) -> list[Caveat]:
    found = []
    for arm, proof in zip(roles, ("candidate better", "baseline better"), strict=True):
        if decision == f"prefer {arm}" and evidence.grade.verdict != proof:
            found.append(
                Caveat(
                    code="winner_without_evidence",
                    message=f"the gates prefer {named(arm)}, the evidence says "
                    f'"{evidence.grade.verdict}": of two arms that are the same, the gates name a '
                    "winner in about one trial of three, however many the repeats",
                )
            )
    if evidence.exclusions.could_flip:
        found.append(
            Caveat(
                code="excluded_could_flip",
                message="excluded runs could flip this decision: had every excluded run of one "
                "arm failed, or passed, it would be another",
            )
        )
    if evidence.exclusions.p is not None and evidence.exclusions.p <= 1.0 - evidence.level:
        found.append(
            Caveat(
                code="uneven_exclusion",
                message="the arms lost runs at different rates "
                f"(p = {evidence.exclusions.p:.3g}, exact test): find out why before believing "
                "either",
            )
        )
    changes = evidence.influence.decision_changes_without
    if changes:
        listed = ", ".join(named(change.task_id) for change in changes[:3])
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        found.append(
            Caveat(
                code="one_task_decides",
                message=f"the decision hangs on single tasks: it changes without any one of "
                f"{counted(len(changes), 'task')} ({listed}{more})",
            )
        )
    driven: dict[str, list[str]] = {}
    for metric in WEIGHED:
        mean = evidence.influence.means.get(metric.name)
        if mean is not None and mean.driven_by is not None:
            whole = change(evidence.deltas[metric.name].mean.estimate, metric.unit)
            less = change(mean.mean_without_it, metric.unit)
            driven.setdefault(mean.driven_by, []).append(
                f"{metric.label} {whole}, without it {less}"
            )
    for task, moved in driven.items():
        found.append(
            Caveat(
                code="one_task_drives",
                message=f"task {named(task)} drives the mean delta: {'; '.join(moved)}",
            )
        )
    variance = evidence.variance
    if variance is not None and variance.repeats_share < 0.25:
        found.append(
            Caveat(
                code="add_tasks",
                message=f"about {variance.tasks_share:.0%} of the uncertainty about duration comes "
                "from which tasks were used: add tasks, not repeats",
            )
        )
    return found
