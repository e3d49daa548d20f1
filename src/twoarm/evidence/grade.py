"""The verdict on the evidence, and the margin rule: both look at the three gates' metrics."""

from typing import Literal

import msgspec

from twoarm.decide import Promotion
from twoarm.evidence.interval import SIX, Estimate, Scope
from twoarm.figures import share
from twoarm.metric import DURATION, NON_CACHE_TOKENS, SUCCESS, Better, Metric
from twoarm.quote import counted

GRADED = (SUCCESS, DURATION, NON_CACHE_TOKENS)

Verdict = Literal[
    "candidate better", "baseline better", "trade-off", "no clear difference", "too few tasks"
]
MarginVerdict = Literal["candidate", "baseline", "inconclusive"]


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What the evidence supports, for which tasks, and why."""

    verdict: Verdict
    scope: Scope
    reasons: tuple[str, ...]


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """The margin rule: not worse by more than the margins anywhere, and better somewhere.

    `beyond` names what is worse by more than its margin for certain: the whole interval is.
    """

    verdict: MarginVerdict
    scope: Scope
    margin_success: float
    margin_ratio: float
    reasons: tuple[str, ...]
    beyond: tuple[str, ...]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one graded metric at the headline: which way the test points, and p."""

    metric: Metric
    direction: float
    p: float | None


def grade(
    findings: list[Finding], adjusted: list[float | None], level: float, tasks: int, reach: bool
) -> Grade:
    """Better somewhere and worse nowhere, the mirror image, both, or neither.

    `adjusted` are the p-values by Holm over the three; `reach` is whether any test could have
    found a difference at this level with so few runs.
    """
    scope: Scope = "tasks_like_these" if tasks >= SIX else "these_tasks"
    reasons = []
    better = worse = False
    for finding, p in zip(findings, adjusted, strict=True):
        label = finding.metric.label
        if p is None:
            reasons.append(f"{label}: no test")
            continue
        if p > 1.0 - level:
            reasons.append(f"{label}: no clear difference (p = {p:.3g} by Holm)")
            continue
        good = (finding.direction > 0) == (finding.metric.better is Better.HIGHER)
        better, worse = better or good, worse or not good
        reasons.append(f"{label}: {'better' if good else 'worse'} (p = {p:.3g} by Holm)")
    if tasks == 1:
        reasons.append("one task says nothing about other tasks")
    elif tasks < SIX:
        reasons.append(
            f"{counted(tasks, 'task')}: no test over tasks can reach p < {1.0 - level:.2g}"
            if 2.0 ** (1 - tasks) > 1.0 - level
            else f"{counted(tasks, 'task')}: too few for a test over tasks"
        )
    verdict: Verdict
    if not reach:
        verdict = "too few tasks"
    elif better and worse:
        verdict = "trade-off"
    elif better:
        verdict = "candidate better"
    elif worse:
        verdict = "baseline better"
    else:
        verdict = "no clear difference"
    return Grade(verdict=verdict, scope=scope, reasons=tuple(reasons))


def margin_rule(
    success: Estimate,
    duration: Estimate | None,
    tokens: Estimate | None,
    *,
    margin_success: float,
    margin_ratio: float,
    scope: Scope,
) -> Margin:
    """Symmetric and consistent, unlike the three gates; the price: small trials say nothing."""
    found = {
        "success": getattr(success, scope),
        "duration": getattr(duration, scope) if duration else None,
        "tokens": getattr(tokens, scope) if tokens else None,
    }
    missing = [name for name, interval in found.items() if interval is None]
    verdict: MarginVerdict = "inconclusive"
    reasons = [f"{name}: no interval" for name in missing]
    beyond = [
        name
        for name, interval in found.items()
        if interval is not None
        and (
            interval.high <= -margin_success
            if name == "success"
            else interval.low >= 1.0 + margin_ratio
        )
    ]
    if not missing:
        rate, ratios = found["success"], (found["duration"], found["tokens"])
        limit = 1.0 + margin_ratio
        safe = rate.low > -margin_success and all(one.high < limit for one in ratios)
        gain = rate.low > 0 or any(one.high < 1 for one in ratios)
        harmed = rate.high < margin_success and all(one.low > 1 / limit for one in ratios)
        loss = rate.high < 0 or any(one.low > 1 for one in ratios)
        if safe and gain and not (harmed and loss):
            verdict = "candidate"
        elif harmed and loss and not (safe and gain):
            verdict = "baseline"
        reasons = [
            f"success: {rate.low * 100:+.1f} to {rate.high * 100:+.1f} points",
            *(
                f"{name}: {share(one.low - 1)} to {share(one.high - 1)}"
                for name, one in zip(("duration", "tokens"), ratios, strict=True)
            ),
        ]
    return Margin(
        verdict=verdict,
        scope=scope,
        margin_success=margin_success,
        margin_ratio=margin_ratio,
        reasons=tuple(reasons),
        beyond=tuple(beyond),
    )


def promote_by_evidence(found: Grade) -> Promotion:
    """Only evidence that reaches other tasks promotes; too little of it says nothing."""
    if found.verdict == "too few tasks":
        return Promotion(verdict="not enough data", reasons=("too few tasks for any evidence",))
    if found.scope == "these_tasks":
        reason = f"{found.verdict} on these tasks; too few tasks to speak for others"
        return Promotion(verdict="not enough data", reasons=(reason,))
    return _promoted(found.verdict == "candidate better", f"evidence: {found.verdict}")


def promote_by_margin(found: Margin) -> Promotion:
    """Not worse by more than the margins, and better somewhere; beyond one margin is enough not."""
    reason = f"margin rule: {found.verdict} ({'; '.join(found.reasons)})"
    if found.beyond:
        beyond = f"worse by more than the margin: {' and '.join(found.beyond)}"
        return _promoted(False, f"{reason}; {beyond}")
    if found.verdict == "inconclusive":
        return Promotion(verdict="not enough data", reasons=(reason,))
    return _promoted(found.verdict == "candidate", reason)


def _promoted(good: bool, reason: str) -> Promotion:
    return Promotion(verdict="promote" if good else "do not promote", reasons=(reason,))
