"""The verdict on the evidence, and the margin rule: both look at the gates' metrics."""

from collections.abc import Iterator, Mapping

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
    SolvedRuns,
    TestStanding,
)
from twoarm.evidence.solved import gain_survives
from twoarm.runs.metric import SUCCESS, Better, Metric


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """One graded metric at the headline: which way its test points, and how clearly."""

    metric: Metric
    direction: float
    p: float | None
    adjusted: float | None
    clear: bool


def grade(
    tested: list[Tested],
    first: Tested | None,
    scope: Scope,
    primary: str | None,
    most: float,
    fewest: float,
) -> Grade:
    """Better somewhere and worse nowhere, the mirror image, both, or neither.

    `first` was named to be tested first although no gate looks at it: worse, it stands against the
    candidate; better, it does not make it better. `most` is the largest p-value that is clear,
    `fewest` the smallest there can be.
    """
    findings = tuple(map(_finding, tested))
    standings = {finding.standing for finding in findings}
    named = None if first is None else _finding(first)
    if named is not None and named.standing == "worse":
        standings.add("worse")
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
    return Grade(verdict=verdict, scope=scope, primary=primary, first=named, findings=findings)


def _finding(tested: Tested) -> Finding:
    standing: TestStanding
    if tested.adjusted is None:
        standing = "no test"
    elif not tested.clear:
        standing = "no clear difference"
    else:
        good = (tested.direction > 0) == (tested.metric.better is Better.HIGHER)
        standing = "better" if good else "worse"
    return Finding(
        metric=tested.metric.name, p=tested.p, adjusted_p=tested.adjusted, standing=standing
    )


class Margins(msgspec.Struct, frozen=True, kw_only=True):
    """How far success may drop, and how far time and tokens may rise."""

    success: float
    ratio: float


def margin_rule(
    success: Estimate,
    ratios: dict[str, Estimate | None],
    solved: Mapping[str, SolvedRuns | None],
    graded: Grade,
    margins: Margins,
) -> Margin:
    """Not worse by more than the margins anywhere, and clearly better somewhere, by the verdict's
    own tests; the mirror image; no difference beyond the margins; or nothing that can be said."""
    rate: Interval | None = getattr(success, graded.scope)
    spans: dict[str, Interval | None] = {
        name: getattr(estimate, graded.scope) if estimate else None
        for name, estimate in ratios.items()
    }
    limit = 1.0 + margins.ratio
    ranges = (
        _range(SUCCESS.name, rate, 0.0, rate is not None and rate.high <= -margins.success),
        *(
            _range(name, span, 1.0, span is not None and span.low >= limit)
            for name, span in spans.items()
        ),
    )
    verdict: MarginVerdict = "inconclusive"
    known = [span for span in spans.values() if span is not None]
    if rate is not None and len(known) == len(spans):
        standings = {finding.standing for finding in graded.findings}
        safe = rate.low > -margins.success and all(span.high < limit for span in known)
        harmless = rate.high < margins.success and all(span.low > 1 / limit for span in known)
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
        scope=graded.scope,
        margin_success=margins.success,
        margin_ratio=margins.ratio,
        ranges=ranges,
        gain_survives=gain_survives(_won(verdict, ranges, graded), solved),
    )


def _won(verdict: MarginVerdict, ranges: tuple[MarginRange, ...], graded: Grade) -> Iterator[str]:
    """Where the winner is clearly better: by its test, or with the whole interval."""
    if verdict not in ("candidate", "baseline"):
        return
    won = {"candidate": "better", "baseline": "worse"}[verdict]
    standings = {finding.metric: finding.standing for finding in graded.findings}
    for limits in ranges:
        up = (verdict == "candidate") == (limits.metric == SUCCESS.name)
        wholly = (limits.low or 0.0) > 0 if up else (limits.high or 0.0) < 0
        if wholly or standings.get(limits.metric) == won:
            yield limits.metric


def _range(metric: str, interval: Interval | None, nothing: float, beyond: bool) -> MarginRange:
    ends = (None, None) if interval is None else (interval.low - nothing, interval.high - nothing)
    return MarginRange(metric=metric, low=ends[0], high=ends[1], beyond=beyond)
