"""What the reader must know about the evidence, as caveats."""

from collections.abc import Iterator

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES, Decision
from twoarm.compare.trials import lost_runs
from twoarm.errors import Caveat
from twoarm.evidence.cells import MOST_ZEROS
from twoarm.evidence.harm import clearly_worse
from twoarm.evidence.results import Evidence, Interval
from twoarm.options import Options
from twoarm.runs.metric import JUDGED, LABELS, SUCCESS
from twoarm.text.escape import counted, series, tasks_or_families
from twoarm.text.number_format import change, share
from twoarm.text.sentence import Name, joined, listed, say

# Below this share of run-to-run noise, more repeats would narrow nothing much.
FEW_REPEATS_HELP = 0.25
_NAMED = 3


def evidence_caveats(
    evidence: Evidence, comparison: Comparison, options: Options
) -> Iterator[Caveat]:
    """All of them, the most important first."""
    if evidence.on_shared_tasks != comparison.decision:
        yield Caveat.say(
            "unshared_tasks_decide",
            "the decision depends on tasks that only one arm has: on the {} that both share it "
            "would be {}",
            counted(evidence.shared_tasks, "task"),
            Name(evidence.on_shared_tasks),
        )
    yield from _on_looks(evidence, comparison, options)
    yield from _on_broken(evidence)
    yield from _on_ungated(evidence)
    yield from _on_the_winner(evidence, comparison.decision)
    yield from _on_excluded(evidence, comparison)
    yield from _on_missing(evidence, comparison)
    yield from _on_scores(evidence, comparison)
    yield from _on_single_tasks(evidence)
    yield from _on_weights(evidence)
    yield from _on_zeros(evidence)
    variance = evidence.variance
    if variance is not None and variance.repeats_share < FEW_REPEATS_HELP:
        units = tasks_or_families(evidence.families)
        yield Caveat.say(
            "add_tasks",
            "about {} of the uncertainty about duration comes from which {} were used: repeats "
            "narrow it down to that spread, more {} beyond it",
            f"{variance.tasks_share:.0%}",
            units,
            units,
        )


def _on_looks(evidence: Evidence, comparison: Comparison, options: Options) -> Iterator[Caveat]:
    looks = evidence.looks
    if options.ignore_looks and comparison.runs.planned_looks:
        yield Caveat.say(
            "looks_ignored",
            "these runs were planned to be judged at several looks, which is ignored here: a "
            "verdict that is looked for more than once is wrong more often than it says",
        )
    if looks is not None and looks.incomplete:
        yield Caveat.say(
            "incomplete_look",
            "{} with fewer than {} counted repeats in an arm at this look: the look is valid, "
            "with less to go by",
            counted(looks.incomplete, "task"),
            looks.after,
        )


def _on_broken(evidence: Evidence) -> Iterator[Caveat]:
    """What can be chance is said beside BROKEN, and no reason to stop."""
    broken = evidence.guard.broken
    if broken.beyond_chance:
        tasks = [
            say(
                "{} ({} to {})", Name(task.task_id), f"{task.baseline:.0%}", f"{task.candidate:.0%}"
            )
            for task in broken.tasks[:_NAMED]
        ]
        more = len(broken.tasks) - _NAMED
        yield Caveat.say(
            "broken_tasks",
            "{} {} at most half as often with the candidate: {}{}",
            counted(len(broken.tasks), "task"),
            "succeeds" if len(broken.tasks) == 1 else "succeed",
            joined(tasks, ", "),
            f" and {more} more" if more > 0 else "",
        )


def _on_ungated(evidence: Evidence) -> Iterator[Caveat]:
    """What people pay for is not a gate, but must not get worse in silence."""
    gated = {gate.metric.name for gate in GATES}
    for metric in JUDGED:
        delta = evidence.deltas[metric.name]
        if metric.name in gated or not clearly_worse(
            metric, delta, evidence.headline, evidence.level
        ):
            continue
        interval: Interval | None = getattr(delta.change, evidence.headline)
        ends = (delta.change.estimate,) if interval is None else (interval.low, interval.high)
        moved = [
            change(end, metric.unit) if delta.ratio is None or end is None else share(end - 1.0)
            for end in ends
        ]
        yield Caveat.say(
            "ungated_worse",
            "no gate looks at {}, and it is worse: {}",
            metric.label,
            " to ".join(moved),
        )


def _on_weights(evidence: Evidence) -> Iterator[Caveat]:
    """Weighing runs alike and weighing tasks, or families, alike may disagree."""
    differ = []
    for gate in GATES:
        delta, unit = evidence.deltas[gate.metric.name], gate.metric.unit
        by_task, by_pair = change(delta.mean.estimate, unit), change(delta.bootstrap.mean, unit)
        if delta.pairs and by_task != by_pair:
            differ.append(f"{gate.metric.label} {by_task}, not {by_pair}")
    if differ:
        yield Caveat.say(
            "weights_differ",
            "weighed {}, as in the evidence, mean differences are not those over pairs: {}",
            "task by task" if evidence.families is None else "family by family",
            "; ".join(differ),
        )


def _on_zeros(evidence: Evidence) -> Iterator[Caveat]:
    few, many = [], []
    for metric in JUDGED:
        delta = evidence.deltas[metric.name]
        ours, theirs = delta.zeros
        if metric is SUCCESS or not delta.tasks or not ours + theirs:
            continue
        if delta.ratio is None:
            many.append(metric.label)
        else:
            count = counted(ours + theirs, "run")
            few.append(f"{metric.label} in {count} (candidate {ours}, baseline {theirs})")
    instead = "where a zero stands for a value that was not measured, write null"
    if few:
        yield Caveat.say(
            "zeros",
            "a few values are zero: {}; ratios and tests take each for half of the smallest "
            "other value of its task; {}",
            series(few),
            instead,
        )
    if many:
        yield Caveat.say(
            "zeros",
            "more than {} of the values are zero, so there is no ratio and the test is on plain "
            "differences: {}; {}",
            f"{MOST_ZEROS:.0%}",
            series(many),
            instead,
        )


def _on_the_winner(evidence: Evidence, decision: Decision) -> Iterator[Caveat]:
    if decision.arm is not None and evidence.grade.verdict != f"{decision.kind} better":
        yield Caveat.say(
            "winner_without_evidence",
            "the gates prefer {}, but the evidence does not show that it is better: even when "
            "two arms are the same, the gates name a winner about one time in three, however "
            "many the repeats",
            Name(decision.arm),
        )


def _on_excluded(evidence: Evidence, comparison: Comparison) -> Iterator[Caveat]:
    bounds = evidence.exclusions.bounds
    other = next((bound for bound in bounds if bound.decision != comparison.decision), None)
    lost = lost_runs(comparison.screening.trials)
    if other is not None:
        yield Caveat.say(
            "excluded_could_flip",
            "{} could flip this decision: it would be {} if all {} of {} had {}",
            lost,
            Name(other.decision),
            lost,
            Name(other.arm),
            other.outcome,
        )
    p = evidence.exclusions.p
    if p is not None and p <= 1.0 - evidence.level:
        yield Caveat.say(
            "uneven_exclusion",
            "the arms lost runs at different rates (p = {}, exact test): find out why before "
            "trusting either",
            f"{p:.3g}",
        )


def _on_missing(evidence: Evidence, comparison: Comparison) -> Iterator[Caveat]:
    for values in evidence.exclusions.missing:
        label = LABELS[values.metric]
        shares = [
            say("{} of {} of {}", missing, counted(runs, "run"), Name(arm))
            for missing, runs, arm in zip(
                values.missing, values.runs, comparison.arms.both, strict=True
            )
        ]
        if values.p <= 1.0 - evidence.level:
            yield Caveat.say(
                "uneven_missing",
                "{} missing in {} and {}: one arm was measured less often (p = {}, exact "
                "test); find out why before trusting this gate",
                label,
                *shares,
                f"{values.p:.3g}",
            )
        other = next(
            (bound for bound in values.bounds if bound.decision != comparison.decision), None
        )
        if other is not None:
            yield Caveat.say(
                "missing_could_flip",
                "missing values could flip this decision: it would be {} if {} were very {} in "
                "every run of {} that lacks it",
                Name(other.decision),
                label,
                other.values,
                Name(other.arm),
            )


def _on_scores(evidence: Evidence, comparison: Comparison) -> Iterator[Caveat]:
    """A score that one arm lacks more often may be missing where it would have been low."""
    lost = None if evidence.scores is None else evidence.scores.one_sided
    if lost is not None:
        yield Caveat.say(
            "uneven_scores",
            "a score is missing in {} and {}: one arm was scored less often (p = {}, exact test), "
            "perhaps where its score would have been low",
            *(
                say("{} of {} of {}", missing, counted(runs, "run"), Name(arm))
                for missing, runs, arm in zip(lost.lost, lost.of, comparison.arms.both, strict=True)
            ),
            f"{lost.p:.3g}",
        )


def _on_single_tasks(evidence: Evidence) -> Iterator[Caveat]:
    changes = [without.task_id for without in evidence.influence.decision_changes_without]
    if changes:
        yield Caveat.of(
            code="one_task_decides",
            message=say(
                "the decision hangs on single tasks: dropping any one of {} tasks changes it ({})",
                len(changes),
                listed(changes, _NAMED),
            )
            if len(changes) > 1
            else say("the decision hangs on one task: dropping {} changes it", Name(changes[0])),
        )
    driven: dict[str, list[str]] = {}
    for metric in JUDGED:
        mean = evidence.influence.means.get(metric.name)
        if mean is not None and mean.driven_by is not None:
            whole = change(evidence.deltas[metric.name].bootstrap.mean, metric.unit)
            less = change(mean.mean_without_it, metric.unit)
            moved = driven.setdefault(mean.driven_by, [])
            moved.append(f"{metric.label} {whole} with it, {less} without")
    for task, moved in driven.items():
        yield Caveat.say(
            "one_task_drives", "task {} drives the mean delta: {}", Name(task), "; ".join(moved)
        )
