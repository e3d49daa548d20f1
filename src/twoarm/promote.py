"""Whether the candidate may be promoted: one function, whatever the promotion goes by."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from twoarm.comparison import Comparison
from twoarm.decide import MINIMUM_REPEATS, Decision, fails, number_of_gates
from twoarm.escape import counted, series
from twoarm.evidence.grade import Grade, Margin, MarginRange
from twoarm.evidence.weigh import Evidence
from twoarm.metric import LABELS, SUCCESS
from twoarm.number_format import share
from twoarm.options import PromoteBy
from twoarm.sentence import Name, Sentence, say

Verdict = Literal["promote", "do not promote", "not enough data"]

_BY_MARGIN = {
    "candidate": "the candidate is within the margins and better somewhere",
    "baseline": "the baseline is within the margins and better somewhere",
    "inconclusive": "inconclusive",
}


class Promotion(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the candidate may be promoted, and why."""

    verdict: Verdict
    reasons: tuple[Sentence, ...]


def promote(comparison: Comparison, evidence: Evidence | None, by: PromoteBy) -> Promotion:
    """Enough data first, then the gates, then what the promotion goes by."""
    lacking = tuple(_lacking(comparison))
    if lacking:
        return Promotion(verdict="not enough data", reasons=lacking)
    if gates_decide(comparison.decision, by):
        return _by_gates(comparison)
    assert evidence is not None
    if comparison.on_pairs != comparison.decision:
        reason = say(
            "the gates say {} on all runs but {} on the paired runs, and the evidence covers only "
            "those",
            Name(comparison.decision),
            Name(comparison.on_pairs),
        )
        return Promotion(verdict="not enough data", reasons=(reason,))
    return _by_evidence(evidence.grade) if by == "evidence" else _by_margin(evidence.margin)


def gates_decide(decision: Decision, by: PromoteBy) -> bool:
    """Whether the gates say it all, if there is enough data: nothing overrules the baseline."""
    return by == "gates" or decision.kind == "baseline"


def _lacking(comparison: Comparison) -> Iterator[Sentence]:
    if comparison.decision.kind == "insufficient":
        yield comparison.decision.why or say("{}", comparison.decision)
    adequacy = comparison.adequacy
    if adequacy.status == "below minimum":
        yield say(
            "not enough repeats to promote: {} with fewer than {} measured repeats (the "
            "fewest: {})",
            counted(adequacy.short, "task-arm"),
            MINIMUM_REPEATS,
            adequacy.fewest_repeats,
        )


def _by_gates(comparison: Comparison) -> Promotion:
    if comparison.decision.kind == "candidate":
        fewest = comparison.adequacy.fewest_repeats
        return Promotion(
            verdict="promote",
            reasons=(
                say("all {} hold", number_of_gates()),
                say("every task has at least {} repeats in both arms", fewest),
            ),
        )
    return Promotion(
        verdict="do not promote",
        reasons=(say("{} {}", Name(comparison.arms.candidate), fails(comparison.gates)),),
    )


def _by_evidence(found: Grade) -> Promotion:
    """Only evidence that reaches other tasks promotes; too little of it says nothing."""
    if found.verdict == "too few tasks":
        reason = "too few tasks for any evidence"
        return Promotion(verdict="not enough data", reasons=(say(reason),))
    if found.scope == "these_tasks":
        reason = f"{found.verdict} on these tasks; too few tasks to say anything about others"
        return Promotion(verdict="not enough data", reasons=(say(reason),))
    return Promotion(
        verdict="promote" if found.verdict == "candidate better" else "do not promote",
        reasons=(say("{} for tasks like these", found.verdict),),
    )


def _by_margin(found: Margin) -> Promotion:
    """Not worse by more than the margins, and better somewhere; beyond one margin is enough not."""
    reasons = [say("{} ({})", _BY_MARGIN[found.verdict], "; ".join(map(_ranged, found.ranges)))]
    beyond = [LABELS[one.metric] for one in found.ranges if one.beyond]
    verdict: Verdict = "promote" if found.verdict == "candidate" else "do not promote"
    if beyond:
        verdict = "do not promote"
        reasons.append(say("worse by more than the margin: {}", series(beyond)))
    elif found.verdict == "inconclusive":
        verdict = "not enough data"
    return Promotion(verdict=verdict, reasons=tuple(reasons))


def _ranged(one: MarginRange) -> str:
    label = LABELS[one.metric]
    if one.low is None or one.high is None:
        return f"{label}: no interval"
    if one.metric == SUCCESS.name:
        return f"{label}: {one.low * 100:+.1f} to {one.high * 100:+.1f} points"
    return f"{label}: {share(one.low)} to {share(one.high)}"
