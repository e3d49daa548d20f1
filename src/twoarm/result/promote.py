"""Whether the candidate may be promoted: one function, whatever the promotion goes by."""

from collections.abc import Iterator
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import MINIMUM_REPEATS, fails, lacks_repeats, number_of_gates
from twoarm.compare.screen import Arms
from twoarm.compare.trials import ended_by_budget
from twoarm.evidence.cells import MOST_ZEROS
from twoarm.evidence.exclusions import one_sided
from twoarm.evidence.harm import HARM, Held, held_back, held_by_margin
from twoarm.evidence.losses import OneSided
from twoarm.evidence.results import Evidence, Grade, MarginRange, Paid, fewest_tasks
from twoarm.evidence.solved import FEWEST_SOLVED
from twoarm.options import Options, PromoteBy
from twoarm.result.shortfall import worse_anyway
from twoarm.runs.metric import BY_NAME, LABELS, SCORE, SUCCESS
from twoarm.text.escape import counted, series
from twoarm.text.number_format import NOT_MEASURED, change, share
from twoarm.text.sentence import Name, Sentence, joined, listed, say

Verdict = Literal["promote", "do not promote", "not enough data"]

_FOUND = {
    "candidate better": "the candidate is better",
    "baseline better": "the baseline is better",
    "trade-off": "a trade-off, better in one gate and worse in another,",
}
_BY_MARGIN = {
    "candidate": "within the margins everywhere, and better somewhere",
    "baseline": "the baseline is within the margins everywhere, and better somewhere",
    "no difference": "no difference beyond the margins",
}


class OtherVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What another way to promote would say of the same runs, and why."""

    by: PromoteBy
    verdict: Verdict
    reasons: tuple[Sentence, ...]


class Promotion(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the candidate may be promoted, what settled it, and why.

    `by` is the way that was named, or the gates if they settled it for the baseline; `withheld` are
    losses on one side, where nothing else stands against a promotion; `others` are the ways to
    promote that give another verdict, if there is evidence to go by.
    """

    by: PromoteBy
    verdict: Verdict
    reasons: tuple[Sentence, ...]
    withheld: tuple[OneSided, ...]
    others: tuple[OtherVerdict, ...]


def promote(comparison: Comparison, evidence: Evidence | None, options: Options) -> Promotion:
    """What the promotion goes by, and what the other ways would say where that differs."""
    promotion = _by_one_way(comparison, evidence, options)
    if evidence is None:
        return promotion
    ways = [by for by in get_args(PromoteBy) if by != options.promote_by]
    verdicts = [
        (by, _by_one_way(comparison, evidence, replace(options, promote_by=by))) for by in ways
    ]
    others = tuple(
        OtherVerdict(by=by, verdict=other.verdict, reasons=other.reasons)
        for by, other in verdicts
        if other.verdict != promotion.verdict
    )
    return replace(promotion, others=others)


def verdict_by(by: PromoteBy, promotion: Promotion, options: Options) -> Verdict:
    """What one of the ways to promote says; all that are not among the others say the same."""
    if by == options.promote_by:
        return promotion.verdict
    return next((other.verdict for other in promotion.others if other.by == by), promotion.verdict)


def _by_one_way(comparison: Comparison, evidence: Evidence | None, options: Options) -> Promotion:
    """What the promotion goes by, unless losses on one side leave it in doubt."""
    promotion = _promote(comparison, evidence, options)
    if promotion.verdict != "promote":
        return promotion
    scores = None if evidence is None or options.primary != SCORE.name else evidence.scores
    lost = one_sided(comparison)
    if scores is not None and scores.one_sided is not None:
        lost = (*lost, scores.one_sided)
    if not lost:
        return promotion
    return replace(
        promotion,
        verdict="not enough data",
        reasons=(
            *(_lost(loss, comparison.arms) for loss in lost),
            say("otherwise {}", joined(promotion.reasons, "; ")),
        ),
        withheld=lost,
    )


def _lost(loss: OneSided, arms: Arms) -> Sentence:
    """What was lost on one side, the arm that lost more first, and what to do about it."""
    sides = list(zip(arms.both, loss.lost, loss.of, strict=True))
    (arm, lost, of), (other, less, of_other) = sides if loss.arm == arms.candidate else sides[::-1]
    if loss.metric is None:
        again = sum(loss.run_again)
        return say(
            "{} lost {} of {}, {} {} of {}{}: find out why{}",
            Name(arm),
            f"{lost:,}",
            counted(of, "planned run"),
            Name(other),
            f"{less:,}",
            f"{of_other:,}",
            f" ({again:,} broke off and {'was' if again == 1 else 'were'} run again)"
            if again
            else "",
            "" if again == lost + less else ", then run them again",
        )
    return say(
        "{} lacks {} in {} of {}, {} in {} of {}: find out why, then run them again",
        Name(arm),
        LABELS[loss.metric],
        f"{lost:,}",
        counted(of, "run"),
        Name(other),
        f"{less:,}",
        f"{of_other:,}",
    )


def _settled(by: PromoteBy, verdict: Verdict, *reasons: Sentence) -> Promotion:
    return Promotion(by=by, verdict=verdict, reasons=reasons, withheld=(), others=())


def _promote(comparison: Comparison, evidence: Evidence | None, options: Options) -> Promotion:
    """Enough data first, unless it is clearly worse; then the gates, then what it goes by."""
    by = options.promote_by
    if by == "evidence" and (over := _over_at_look(comparison, evidence)):
        return _settled(by, "do not promote", over)
    if by == "evidence" and evidence is not None and worse_anyway(comparison, evidence.grade):
        return _by_evidence(evidence, options)
    lacking = tuple(_lacking(comparison))
    if lacking:
        return _settled(by, "not enough data", *lacking)
    # Nothing overrules the baseline.
    if by == "gates" or comparison.decision.kind == "baseline":
        return _by_gates(comparison)
    assert evidence is not None
    if by == "margin":
        return _by_margin(evidence, options)
    return _by_evidence(evidence, options)


def _over_at_look(comparison: Comparison, evidence: Evidence | None) -> Sentence | None:
    """Why more repeats would promote nothing: a planned look has named the baseline, or a run has
    ended at one because a verdict was unlikely."""
    looks = None if evidence is None else evidence.looks
    if looks is None:
        return None
    if looks.stop == "baseline better":
        return say("clearly worse after {}", counted(looks.after, "repeat"))
    studies = comparison.runs.studies
    futile = any(study.ended_for(*comparison.arms.both) == "futility" for study in studies)
    if futile and looks.after < looks.r_max:
        return say("a verdict was unlikely, even after all {}", counted(looks.r_max, "repeat"))
    return None


def _lacking(comparison: Comparison) -> Iterator[Sentence]:
    trials = comparison.screening.trials
    if ended_by_budget(trials):
        yield say(
            "the budget ended it after {} of {}",
            f"{sum(arm.counted for arm in trials):,}",
            counted(sum(arm.planned for arm in trials), "planned run"),
        )
    if comparison.decision.kind == "insufficient":
        yield comparison.decision.why or say("{}", comparison.decision)
    adequacy = comparison.adequacy
    if lacks_repeats(adequacy, comparison.gates):
        yield say(
            "not enough repeats to promote: {} with fewer than {} measured repeats in an arm (the "
            "fewest: {})",
            counted(adequacy.short, "task"),
            MINIMUM_REPEATS,
            adequacy.fewest_repeats,
        )


def _by_gates(comparison: Comparison) -> Promotion:
    if comparison.decision.kind == "candidate":
        if not any(arm.successes for arm in comparison.summaries):
            # Whoever fails first is the faster one, and perhaps the tests are what fails.
            return _settled("gates", "not enough data", say("no run succeeded in either arm"))
        fewest = comparison.adequacy.fewest_repeats
        return _settled(
            "gates",
            "promote",
            say("all {} hold", number_of_gates()),
            say("every task has at least {} repeats in both arms", fewest),
        )
    failed = [gate.rule.metric for gate in comparison.gates if gate.holds is False]
    # A rate hides that a single run may decide.
    counts = f": {_successes(comparison)}" if failed == [SUCCESS] else ""
    candidate = Name(comparison.arms.candidate)
    reason = say("{} {}{}", candidate, fails(comparison.gates), counts)
    return _settled("gates", "do not promote", reason)


def _successes(comparison: Comparison) -> str:
    ours, theirs = (f"{arm.successes:,} of {arm.runs:,}" for arm in comparison.summaries)
    return f"success {ours} against {theirs}"


def _by_evidence(evidence: Evidence, options: Options) -> Promotion:
    """A verdict that reaches other tasks, and the guard; too little evidence decides nothing."""
    grade = evidence.grade
    if grade.verdict == "too few tasks":
        reason = say("too few runs: even the largest difference could not be clear")
        return _settled("evidence", "not enough data", reason)
    if grade.scope == "these_tasks":
        of = "" if evidence.families is None else f" of {counted(evidence.families, 'family')}"
        reason = say(
            "{} on {}{}; it takes at least {}{} to speak for others",
            _verdict(grade),
            here(evidence),
            of,
            fewest_tasks(options.level),
            " families" if of else "",
        )
        return _settled("evidence", "not enough data", reason)
    if grade.verdict != "candidate better":
        reason = say("{} for tasks like these", _verdict(grade))
        return _settled("evidence", "do not promote", reason)
    reason = say("{} for tasks like these", series(_gains(evidence)))
    if evidence.guard.gain_survives:
        reason = say("{} for tasks like these", series(_gains(evidence, solved=True)))
    if options.guard == "none":
        off = say(
            "the guard is off: success, solved runs, broken tasks, cost and the order of runs were "
            "not checked"
        )
        return _settled("evidence", "promote", reason, off)
    held = held_back(evidence.guard, evidence.order, options)
    if not held:
        return _settled("evidence", "promote", reason, *_passed(evidence))
    return _withheld("evidence", held, evidence, reason)


def _verdict(grade: Grade) -> str:
    """What the evidence says, in words."""
    first = grade.first
    if grade.verdict == "trade-off" and first is not None and first.standing == "worse":
        return f"a trade-off, better in one gate but with a lower {LABELS[first.metric]},"
    return _FOUND.get(grade.verdict, grade.verdict)


def _withheld(
    by: PromoteBy, held: tuple[Held, ...], evidence: Evidence, otherwise: Sentence
) -> Promotion:
    """Harm that was seen is a no; what is only not ruled out takes more data."""
    return _settled(
        by,
        "do not promote" if HARM & set(held) else "not enough data",
        *(_against(harm, evidence) for harm in held),
        say("otherwise {}", otherwise),
    )


def _gains(evidence: Evidence, *, solved: bool = False) -> list[str]:
    """What is clearly better, in words; also among solved runs, if that is asked."""
    gains = []
    for finding in evidence.grade.findings:
        words, among = BY_NAME[finding.metric].words, evidence.deltas[finding.metric].solved
        gone = solved and among is not None and among.survives is False
        if finding.standing == "better" and words is not None and not gone:
            gains.append(words[0])
    return gains


def here(evidence: Evidence) -> str:
    """The tasks that were run, and no others."""
    return f"these {evidence.tasks} tasks" if evidence.tasks > 1 else "this one task"


def _against(held: Held, evidence: Evidence) -> Sentence:
    """What stands against a promotion, in words."""
    guard = evidence.guard
    low, high = guard.success_low or 0.0, guard.success_high or 0.0
    match held:
        case "not side by side":
            return say("the arms did not run side by side")
        case "gain unchecked":
            return say(
                "the gain cannot be checked among solved runs: fewer than {} tasks have some in "
                "both arms",
                FEWEST_SOLVED,
            )
        case "gain of failed runs":
            gains = ", ".join(_gains_left(evidence))
            return say("most of the gain is gone among solved runs: {}", gains)
        case "no success":
            return say("no interval of success on these very tasks: repeats are missing")
        case "success drops":
            return say("success on these very tasks drops by {}", _drop(low, high))
        case "success may drop":
            seen = evidence.deltas[SUCCESS.name].mean.estimate or 0.0
            lower = f"success was {-seen * 100:.1f} points lower, and " if seen <= -0.001 else ""
            drop = f"{-low * 100:.1f} points"
            return say(
                "{}a drop of up to {} of success on these very tasks is not ruled out", lower, drop
            )
        case "never succeeds":
            return say("no run of it succeeded")
        case "breaks tasks":
            tasks = guard.broken.tasks
            names = listed([task.task_id for task in tasks], 3)
            return say("it breaks {}: {}", counted(len(tasks), "task"), names)
        case "costs more":
            return say("{}", _more_paid(guard.paid))


def _gains_left(evidence: Evidence) -> Iterator[str]:
    """What solved runs show where a clear gain does not survive."""
    for finding in evidence.grade.findings:
        if finding.standing == "better":
            yield f"{BY_NAME[finding.metric].short} {solved_change(evidence, finding.metric)}"


def solved_change(evidence: Evidence, metric: str) -> str:
    """The change of a metric among solved runs."""
    delta = evidence.deltas[metric]
    if delta.solved is None or delta.solved.solved_runs is None:
        return NOT_MEASURED
    moved = delta.solved.solved_runs
    return change(moved, BY_NAME[metric].unit) if delta.ratio is None else share(moved - 1.0)


def _more_paid(paid: Paid) -> str:
    assert paid.metric is not None
    metric = BY_NAME[paid.metric]
    assert metric.words is not None
    ends = (paid.estimate,) if paid.change is None else (paid.change.low, paid.change.high)
    moved = [
        share(end - 1.0) if paid.ratio and end is not None else change(end, metric.unit)
        for end in ends
    ]
    return f"{metric.words[1]}: {' to '.join(moved)}"


def _passed(evidence: Evidence) -> Iterator[Sentence]:
    """What the guard let through on the tasks it looks at, and what it could not see."""
    low, high = evidence.guard.success_low or 0.0, evidence.guard.success_high or 0.0
    if high < 0:
        drops = "success on these very tasks drops, but within the margin: by {}"
        yield say(drops, _drop(low, high))
    elif low < 0:
        drop = f"{-low * 100:.1f} points"
        yield say("on these very tasks success could drop by at most {}", drop)
    if evidence.guard.paid.metric is None:
        yield say("cost and total tokens were not measured well enough to be checked")


def _drop(low: float, high: float) -> str:
    return f"{-high * 100:.1f} to {-low * 100:.1f} points"


def _by_margin(evidence: Evidence, options: Options) -> Promotion:
    """Not worse by more than the margins, and better somewhere; one margin exceeded is a no."""
    margin = evidence.margin
    if margin.verdict == "inconclusive":
        reasons = list(_inconclusive(evidence))
    else:
        ranges = "; ".join(map(_ranged, margin.ranges))
        where = "" if evidence.headline == "tasks_like_these" else f" on {here(evidence)}"
        reasons = [say("{}{} ({})", _BY_MARGIN[margin.verdict], where, ranges)]
    beyond = [LABELS[limits.metric] for limits in margin.ranges if limits.beyond]
    verdict: Verdict = "promote" if margin.verdict == "candidate" else "do not promote"
    if beyond:
        verdict = "do not promote"
        reasons.append(say("the whole interval is worse than the margin: {}", series(beyond)))
    elif margin.verdict == "inconclusive":
        verdict = "not enough data"
    success = margin.ranges[0]
    if verdict == "promote" and success.high is not None and success.high < 0:
        reasons.append(say("success drops, but within the margin"))
    broken = evidence.guard.broken
    if verdict == "promote" and broken.beyond_chance:
        names = listed([task.task_id for task in broken.tasks], 3)
        reasons.insert(0, say("it breaks {}, but this rule does not look at single tasks", names))
    held = held_by_margin(evidence.margin, evidence.order, options) if verdict == "promote" else ()
    if held:
        return _withheld("margin", held, evidence, joined(reasons, "; "))
    return _settled("margin", verdict, *reasons)


def _inconclusive(evidence: Evidence) -> Iterator[Sentence]:
    """What is not known, or not ruled out."""
    rule, safe = evidence.margin, True
    for limits in rule.ranges:
        label = LABELS[limits.metric]
        success = limits.metric == SUCCESS.name
        margin = rule.margin_success if success else rule.margin_ratio
        if limits.low is None or limits.high is None:
            yield say(
                "the margin says nothing about {}: {}", label, _why_none(limits.metric, evidence)
            )
        elif success and limits.low <= -margin:
            drop, limit = f"{-limits.low * 100:.1f} points", f"{margin * 100:g}"
            yield say("success could drop by up to {}, and the margin is {}", drop, limit)
        elif not success and limits.high >= margin:
            rise, limit = f"{limits.high:.1%}", f"{margin * 100:g}%"
            yield say("{} could rise by up to {}, and the margin is {}", label, rise, limit)
        else:
            continue
        safe = False
    if safe:
        yield say(
            "no clear gain, and not equal within the margins ({})",
            "; ".join(map(_ranged, rule.ranges)),
        )


def _why_none(metric: str, evidence: Evidence) -> str:
    """Why a range that the margin rule asks for is not there."""
    delta = evidence.deltas[metric]
    if delta.ratio is None and metric != SUCCESS.name and delta.tasks:
        return f"it is a share, and more than {MOST_ZEROS:.0%} of the values are zero"
    reasons = " ".join(delta.change.reasons(evidence.headline)) or "it has no interval"
    return reasons[0].lower() + reasons[1:].rstrip(".")


def _ranged(limits: MarginRange) -> str:
    label = LABELS[limits.metric]
    if limits.low is None or limits.high is None:
        return f"{label}: no interval"
    if limits.metric == SUCCESS.name:
        return f"{label}: {limits.low * 100:+.1f} to {limits.high * 100:+.1f} points"
    return f"{label}: {share(limits.low)} to {share(limits.high)}"
