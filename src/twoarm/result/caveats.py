"""What the reader must know about the figures, in the order of how much it matters."""

import os
from collections.abc import Iterator

import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import number_of_gates
from twoarm.compare.families import PREFIX, prefixes
from twoarm.compare.screen import WITH, Arms, Screening, opposite
from twoarm.compare.summarize import ArmSummary
from twoarm.compare.trials import Trials
from twoarm.errors import Caveat
from twoarm.evidence.nodes import nodes_of
from twoarm.evidence.results import Evidence
from twoarm.evidence.scores import has_scores
from twoarm.options import Options
from twoarm.result.promote import Promotion
from twoarm.runs.metric import METRICS, SCORE
from twoarm.runs.runs import UnreadTimes
from twoarm.runs.study import COLLECTED, StudyRun
from twoarm.text.escape import counted, numbered
from twoarm.text.sentence import Name, Sentence, Whole, joined, listed, say

# What the promotion and the advice say already.
_TOLD = ("too_few_repeats", "insufficient_data", "add_tasks")
# How many families are named.
_FAMILIES = 3
# How many reasons for missing runs are named for an arm.
_REASONS = 3


def caveats(comparison: Comparison, options: Options) -> tuple[Caveat, ...]:
    """All caveats of the point estimates."""
    return (
        *_on_the_decision(comparison),
        *_on_repeats(comparison),
        *_on_grading(comparison, options),
        *_on_nodes(comparison),
        *_on_excluded(comparison, options),
        *comparison.screening.caveats,
        *_on_families(comparison),
        *_on_tasks(comparison),
        *_on_pairs(comparison),
        *(caveat for summary in comparison.summaries for caveat in _on_missing(summary)),
        *_on_missing_scores(comparison),
        *_on_unread_times(comparison.runs.unread_times),
        *_on_unknown_keys(comparison.runs.unknown_keys),
    )


def order_caveats(evidence: Evidence, promotion: Promotion, options: Options) -> Iterator[Caveat]:
    """What a promotion by the evidence takes for granted where no order of the runs is known."""
    if options.promote_by == "gates" or promotion.verdict != "promote":
        return
    if not evidence.order.known:
        yield Caveat.say(
            "order_unknown",
            "nothing says in which order the arms ran (most records lack a {} that can be "
            "read): if one ran after the other, whatever else changed in between is part of the "
            "difference",
            Name("started_at_utc"),
        )


def foremost(caveats: tuple[Caveat, ...]) -> tuple[Caveat, ...]:
    """What a reader in a hurry must know beyond promotion and advice, the most serious first."""
    left = (caveat for caveat in caveats if caveat.code not in _TOLD)
    return tuple(sorted(left, key=lambda caveat: caveat.rank))


def _on_the_decision(comparison: Comparison) -> Iterator[Caveat]:
    gates, summaries = comparison.gates, comparison.summaries
    if comparison.decision.why is not None:
        yield Caveat.say("insufficient_data", "no decision: {}", comparison.decision.why)
    elif all(gate.standing == "tied" for gate in gates):
        yield Caveat.say(
            "nothing_differs",
            "nothing differs: the arms are tied on all {}, and a tie counts as holding; the "
            "decision names the candidate, the data do not",
            number_of_gates(),
        )
    candidate, baseline = comparison.arms.both
    if opposite(candidate) == baseline and baseline.startswith(WITH):
        yield Caveat.say(
            "arms_look_swapped",
            "going by their names, the arms are swapped, and so is every delta: the candidate "
            "is {}, the baseline {}",
            Name(candidate),
            Name(baseline),
        )
    if all(summary.runs and not summary.successes for summary in summaries):
        yield Caveat.say(
            "nothing_succeeded",
            "no run succeeded in either arm: failing faster or cheaper is not success",
        )


def _on_repeats(comparison: Comparison) -> Iterator[Caveat]:
    adequacy, tasks = comparison.adequacy, len(comparison.tasks)
    if adequacy.below_minimum:
        yield Caveat.say(
            "too_few_repeats",
            "not enough repeats to promote: {} of {} with fewer than {} measured repeats in an "
            "arm (the fewest: {})",
            adequacy.short,
            counted(tasks, "task"),
            adequacy.minimum_repeats,
            adequacy.fewest_repeats,
        )
    if tasks == 1:
        yield Caveat.say("one_task", "only one task: nothing here applies to other tasks")
    if adequacy.high_variance.suite and adequacy.status != "preferred met":
        varied = adequacy.high_variance.tasks
        yield Caveat.say(
            "high_variance",
            "high-variance suite: {} of {} {} a lot between repeats ({}); prefer {} repeats of "
            "every task (the fewest here: {})",
            len(varied),
            counted(tasks, "task"),
            "varies" if len(varied) == 1 else "vary",
            listed(varied),
            adequacy.preferred_repeats,
            adequacy.fewest_repeats,
        )


def _on_families(comparison: Comparison) -> Iterator[Caveat]:
    """Tasks that are alike are taken for independent unless somebody says so."""
    families = {} if comparison.families.given else prefixes([t.task_id for t in comparison.tasks])
    if families:
        largest = sorted(families, key=lambda prefix: (-families[prefix], prefix))
        yield Caveat.say(
            "family_not_named",
            "the ids of {} look like {} ({}), and tasks of a family are not independent: intervals "
            "over tasks like these may be far too narrow; name families with {}",
            _among(sum(families.values()), len(comparison.tasks)),
            counted(len(families), "family"),
            listed(largest, _FAMILIES),
            Name(f"--family '{PREFIX}'"),
        )


def _among(some: int, tasks: int) -> str:
    """`all 32 tasks`, or `30 of 32 tasks`."""
    return f"all {counted(tasks, 'task')}" if some == tasks else f"{some:,} of {tasks:,} tasks"


def _on_grading(comparison: Comparison, options: Options) -> Iterator[Caveat]:
    def counted_of(runs: tuple[StudyRun, ...]) -> list[str]:
        parts = options.part
        here = (run for run in runs if run.arm in comparison.arms.both)
        return [run.path for run in here if parts is None or run.part in parts]

    for study in comparison.runs.studies:
        if doubtful := counted_of(study.doubtful):
            single = len(doubtful) == 1
            yield Caveat.say(
                "runs_in_doubt",
                "{} may have started from, or been judged by, files that somebody had changed: {}; "
                "to run {} again, remove {} below {}, then {}",
                counted(len(doubtful), "run"),
                listed(doubtful),
                "it" if single else "them",
                "its folder" if single else "their folders",
                Whole(os.path.join(study.path, "runs")),
                Whole(f"twoarm run --resume {study.path}"),
            )
        if kept := counted_of(study.not_regraded):
            single = len(kept) == 1
            yield Caveat.say(
                "not_regraded",
                "{} could not be graded again and {} the verdict of then: {}; to count {} as "
                "missing instead, remove {} below {} and {}, then score",
                counted(len(kept), "run"),
                "keeps" if single else "keep",
                listed(kept),
                "it" if single else "them",
                "its folder" if single else "their folders",
                Whole(os.path.join(study.path, "runs")),
                Whole(os.path.join(study.path, COLLECTED)),
            )
        if study.missing_shards:
            single = len(study.missing_shards) == 1
            yield Caveat.say(
                "shards_missing",
                "{} missing; merge again with {}, or run {} trials here with {}",
                numbered("shard", study.missing_shards, study.shards),
                "it" if single else "them",
                "its" if single else "their",
                Whole(f"twoarm run --resume {study.path}"),
            )


def _on_nodes(comparison: Comparison) -> Iterator[Caveat]:
    known = nodes_of(comparison)
    if known is None:
        return
    if known.split:
        yield Caveat.say(
            "split_blocks",
            "{} of {} ran on more than one node, because a node was lost: whatever differs between "
            "these nodes is part of the difference",
            known.split,
            counted(known.blocks, "block"),
        )
    if known.unchecked:
        yield Caveat.say(
            "trees_unchecked",
            "{} started from trees on nodes that could not be checked afterwards: an earlier trial "
            "may have changed them",
            counted(known.unchecked, "run"),
        )
    speeds = known.speeds
    if speeds is not None and speeds.clear:
        yield Caveat.say(
            "nodes_differ",
            "nodes differ in how long the same task takes: {} needs {} times as long as {}; where "
            "both arms of a block ran on one node, that is spread and no bias",
            Name(known.names[speeds.slowest]),
            f"{speeds.ratio:.2f}",
            Name(known.names[speeds.fastest]),
        )


def _on_excluded(comparison: Comparison, options: Options) -> Iterator[Caveat]:
    runs, screening = comparison.runs, comparison.screening
    if runs.bad_lines:
        yield Caveat.say(
            "bad_lines",
            "{} left out (--skip-bad); {} lists them",
            counted(runs.bad_lines, "bad line"),
            Name("twoarm check"),
        )
    if screening.excluded_runs("infra"):
        by_arm = [
            say("{} in {}", screening.excluded_runs("infra", arm), Name(arm))
            for arm in comparison.arms.both
        ]
        yield Caveat.say(
            "infra_excluded",
            "{} excluded: {}{}",
            counted(screening.excluded_runs("infra"), "infra failure"),
            joined(by_arm, ", "),
            _nothing_else(comparison.screening),
        )
    if any(arm.missing for arm in screening.trials):
        yield Caveat.say(
            "missing_runs",
            "{} of {} missing: {}",
            f"{sum(arm.missing for arm in screening.trials):,}",
            counted(sum(arm.planned for arm in screening.trials), "planned run"),
            joined([_missing(arm) for arm in screening.trials if arm.missing], "; "),
        )
    if options.keep_infra and any(outcome.failure == "infra" for outcome in runs.outcomes):
        yield Caveat.say(
            "infra_kept",
            "infra failures count as runs (--keep-infra): these numbers include provider and "
            "sandbox failures",
        )
    if screening.excluded_runs("duplicate"):
        yield Caveat.say(
            "duplicates",
            "{} excluded: same task, arm and repeat as another run",
            counted(screening.excluded_runs("duplicate"), "run"),
        )
    others = [group.arm for group in screening.excluded if group.kind == "other arm"]
    if others:
        gone = counted(screening.excluded_runs("other arm"), "run")
        yield Caveat.say("other_arms", "{} in other arms excluded: {}", gone, listed(others))
    apart = screening.excluded_runs("other part")
    if options.part is not None and apart:
        yield Caveat.say(
            "other_parts",
            "{} of other parts excluded: this is part {} alone",
            counted(apart, "run"),
            " and ".join(map(str, options.part)),
        )


def _nothing_else(screening: Screening) -> str:
    """How many planned runs the infra failures cost, where some were tried more than once."""
    left = sum(arm.excluded for arm in screening.trials)
    again = left != screening.excluded_runs("infra")
    return f"; planned runs with nothing else: {left:,}" if again else ""


def _missing(arm: Trials) -> Sentence:
    """The missing runs of an arm, by reason; the most frequent first."""
    ranked = sorted(arm.missing_reasons, key=lambda cause: (-cause.trials, cause.reason))
    reasons = [say("{} {}", f"{cause.trials:,}", Name(cause.reason)) for cause in ranked[:_REASONS]]
    more = sum(cause.trials for cause in ranked[_REASONS:])
    if more:
        reasons.append(say("{} for other reasons", f"{more:,}"))
    return say("{} in {} ({})", f"{arm.missing:,}", Name(arm.arm), joined(reasons, ", "))


def _on_tasks(comparison: Comparison) -> Iterator[Caveat]:
    arms: Arms = comparison.arms
    for arm, only in (
        (arms.candidate, [t.task_id for t in comparison.tasks if not t.baseline.runs]),
        (arms.baseline, [t.task_id for t in comparison.tasks if not t.candidate.runs]),
    ):
        if only:
            yield Caveat.say(
                "tasks_in_one_arm",
                "{} ran only in {}, so the arms are not compared on the same tasks: {}",
                counted(len(only), "task"),
                Name(arm),
                listed(only),
            )


def _on_pairs(comparison: Comparison) -> Iterator[Caveat]:
    unpaired = comparison.paired.unpaired_runs
    if unpaired:
        yield Caveat.say(
            "unpaired_runs",
            "{} no partner, the same task and repeat in the other arm: {} counts in its arm, "
            "but in no delta",
            "1 run has" if unpaired == 1 else f"{unpaired:,} runs have",
            "it" if unpaired == 1 else "each",
        )
    if comparison.on_pairs != comparison.decision:
        yield Caveat.say(
            "unpaired_runs_decide",
            "without the unpaired runs the decision would be {}: the paired deltas do not "
            "include those runs, the gates and the evidence do",
            Name(comparison.on_pairs),
        )


def _on_missing(summary: ArmSummary) -> Iterator[Caveat]:
    if not summary.runs:
        return
    partly = [
        f"{metric.label} in {summary.missing[metric.name]}"
        for metric in METRICS
        if 0 < summary.missing[metric.name] < summary.runs
    ]
    never = [metric.label for metric in METRICS if summary.missing[metric.name] == summary.runs]
    if partly:
        yield Caveat.say(
            "missing_values",
            "missing in some of the {} of {}: {}; each number leaves out the runs that lack it",
            counted(summary.runs, "run"),
            Name(summary.arm),
            ", ".join(partly),
        )
    if never:
        yield Caveat.say(
            "never_measured", "never measured in {}: {}", Name(summary.arm), ", ".join(never)
        )


def _on_missing_scores(comparison: Comparison) -> Iterator[Caveat]:
    arms = comparison.screening.arms
    missing = [int(np.isnan(arm.values[SCORE.name]).sum()) for arm in arms]
    if has_scores(comparison) and any(missing):
        ours, theirs = (
            say("{} of {} of {}", f"{lost:,}", counted(len(arm), "run"), Name(arm.arm))
            for lost, arm in zip(missing, arms, strict=True)
        )
        yield Caveat.say(
            "missing_scores",
            "the score is missing in {} and {}: the mean score leaves them out",
            ours,
            theirs,
        )


def _on_unread_times(unread: UnreadTimes | None) -> Iterator[Caveat]:
    if unread is not None:
        yield Caveat.of(code="unread_times", message=unread.said)


def _on_unknown_keys(keys: tuple[str, ...]) -> Iterator[Caveat]:
    if keys:
        count = counted(len(keys), "unknown key")
        yield Caveat.say("unknown_keys", "{}, ignored: {}", count, listed(keys))
