"""The verdict on the evidence, and the margin rule: both look at the gates' metrics."""

import msgspec

from twoarm.evidence.results import (
    Estimate,
    EvidenceVerdict,
    Finding,
    Grade,
    Interval,
    Margin,
    MarginRange,
    MarginVerdict,
    Scope,
    TestStanding,
)
from twoarm.runs.metric import SUCCESS, Better, Metric


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """One graded metric at the headline: which way its test points, and how clearly."""

    metric: Metric
    direction: float
    p: float | None
    adjusted: float | None
    clear: bool


def grade(
    tested: list[Tested], scope: Scope, primary: str | None, most: float, fewest: float
) -> Grade:
    """Better somewhere and worse nowhere, the mirror image, both, or neither.

    `most` is the largest p-value that is clear, `fewest` the smallest there can be.
    """
    findings = tuple(map(_finding, tested))
    standings = {finding.standing for finding in findings}
    verdict: EvidenceVerdict
    if fewest > most:
        verdict = "too few tasks"
    elif {"better", "worse"} <= standings:
        verdict = "trade-off"
    elif "better" in standings:
        verdict = "candidate better"
    elif "worse" in standings:
        verdict = "baseline better"
    else:
        verdict = "no clear difference"
    return Grade(verdict=verdict, scope=scope, primary=primary, findings=findings)


def _finding(one: Tested) -> Finding:
    standing: TestStanding
    if one.adjusted is None:
        standing = "no test"
    elif not one.clear:
        standing = "no clear difference"
    else:
        good = (one.direction > 0) == (one.metric.better is Better.HIGHER)
        standing = "better" if good else "worse"
    return Finding(metric=one.metric.name, p=one.p, adjusted_p=one.adjusted, standing=standing)


class Margins(msgspec.Struct, frozen=True, kw_only=True):
    """How far success may drop, and how far time and tokens may rise."""

    success: float
    ratio: float


def margin_rule(
    success: Estimate, ratios: dict[str, Estimate | None], found: Grade, margins: Margins
) -> Margin:
    """Not worse by more than the margins anywhere, and clearly better somewhere, by the verdict's
    own tests; the mirror image; no difference beyond the margins; or nothing that can be said."""
    rate: Interval | None = getattr(success, found.scope)
    spans: dict[str, Interval | None] = {
        name: getattr(estimate, found.scope) if estimate else None
        for name, estimate in ratios.items()
    }
    limit = 1.0 + margins.ratio
    ranges = (
        _range(SUCCESS.name, rate, 0.0, rate is not None and rate.high <= -margins.success),
        *(
            _range(name, one, 1.0, one is not None and one.low >= limit)
            for name, one in spans.items()
        ),
    )
    verdict: MarginVerdict = "inconclusive"
    known = [one for one in spans.values() if one is not None]
    if rate is not None and len(known) == len(spans):
        standings = {finding.standing for finding in found.findings}
        safe = rate.low > -margins.success and all(one.high < limit for one in known)
        harmless = rate.high < margins.success and all(one.low > 1 / limit for one in known)
        if safe and harmless and "worse" in standings:
            verdict = "no difference" if "better" in standings else "baseline"
        elif safe and "better" in standings:
            verdict = "candidate"
        elif harmless and "worse" in standings:
            verdict = "baseline"
        elif safe and harmless:
            verdict = "no difference"
    return Margin(
        verdict=verdict,
        scope=found.scope,
        margin_success=margins.success,
        margin_ratio=margins.ratio,
        ranges=ranges,
    )


def _range(metric: str, found: Interval | None, nothing: float, beyond: bool) -> MarginRange:
    ends = (None, None) if found is None else (found.low - nothing, found.high - nothing)
    return MarginRange(metric=metric, low=ends[0], high=ends[1], beyond=beyond)
