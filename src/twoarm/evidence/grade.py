"""The verdict on the evidence, and the margin rule: both look at the gates' metrics."""

from typing import Literal

import msgspec

from twoarm.evidence.interval import FEWEST_TASKS, Estimate, Frame, Interval, Scope
from twoarm.evidence.permute import holm
from twoarm.metric import SUCCESS, Better, Metric

Verdict = Literal[
    "candidate better", "baseline better", "trade-off", "no clear difference", "too few tasks"
]
MarginVerdict = Literal["candidate", "baseline", "inconclusive"]


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """One graded metric at the headline: which way its test points, and how clearly."""

    metric: Metric
    direction: float
    p: float | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What the test of one gate's metric shows; `holm_p` allows for looking at all of them."""

    metric: str
    p: float | None
    holm_p: float | None
    standing: Literal["better", "worse", "no clear difference", "no test"]


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What the evidence supports, for which tasks, and what that rests on."""

    verdict: Verdict
    scope: Scope
    findings: tuple[Finding, ...]


class MarginRange(msgspec.Struct, frozen=True, kw_only=True):
    """An interval held against its margin: a difference of success, or a ratio less one.

    `beyond` says that the whole interval is worse by more than the margin.
    """

    metric: str
    low: float | None
    high: float | None
    beyond: bool


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """The margin rule: not worse by more than the margins anywhere, and better somewhere."""

    verdict: MarginVerdict
    scope: Scope
    margin_success: float
    margin_ratio: float
    ranges: tuple[MarginRange, ...]


def grade(tested: list[Tested], frame: Frame, tasks: int, smallest: float) -> Grade:
    """Better somewhere and worse nowhere, the mirror image, both, or neither.

    `smallest` is the smallest p-value that a test of so few runs could have given.
    """
    adjusted = holm([one.p for one in tested])
    tests = sum(p is not None for p in adjusted)
    findings = tuple(
        _finding(one, p, 1.0 - frame.level) for one, p in zip(tested, adjusted, strict=True)
    )
    standings = {finding.standing for finding in findings}
    verdict: Verdict
    if not tests or smallest * tests > 1.0 - frame.level:
        verdict = "too few tasks"
    elif {"better", "worse"} <= standings:
        verdict = "trade-off"
    elif "better" in standings:
        verdict = "candidate better"
    elif "worse" in standings:
        verdict = "baseline better"
    else:
        verdict = "no clear difference"
    scope: Scope = "tasks_like_these" if tasks >= FEWEST_TASKS else "these_tasks"
    return Grade(verdict=verdict, scope=scope, findings=findings)


def _finding(one: Tested, p: float | None, most: float) -> Finding:
    standing: Literal["better", "worse", "no clear difference", "no test"]
    if p is None:
        standing = "no test"
    elif p > most:
        standing = "no clear difference"
    else:
        good = (one.direction > 0) == (one.metric.better is Better.HIGHER)
        standing = "better" if good else "worse"
    return Finding(metric=one.metric.name, p=one.p, holm_p=p, standing=standing)


def margin_rule(
    success: Estimate,
    ratios: dict[str, Estimate | None],
    scope: Scope,
    margin_success: float,
    margin_ratio: float,
) -> Margin:
    """Symmetric and consistent, unlike the gates; the price: small trials say nothing."""
    rate: Interval | None = getattr(success, scope)
    found: dict[str, Interval | None] = {
        name: getattr(estimate, scope) if estimate else None for name, estimate in ratios.items()
    }
    limit = 1.0 + margin_ratio
    ranges = (
        _range(SUCCESS.name, rate, 0.0, rate is not None and rate.high <= -margin_success),
        *(
            _range(name, one, 1.0, one is not None and one.low >= limit)
            for name, one in found.items()
        ),
    )
    verdict: MarginVerdict = "inconclusive"
    known = [one for one in found.values() if one is not None]
    if rate is not None and len(known) == len(found):
        safe = rate.low > -margin_success and all(one.high < limit for one in known)
        gain = rate.low > 0 or any(one.high < 1 for one in known)
        harmed = rate.high < margin_success and all(one.low > 1 / limit for one in known)
        loss = rate.high < 0 or any(one.low > 1 for one in known)
        if safe and gain and not (harmed and loss):
            verdict = "candidate"
        elif harmed and loss and not (safe and gain):
            verdict = "baseline"
    return Margin(
        verdict=verdict,
        scope=scope,
        margin_success=margin_success,
        margin_ratio=margin_ratio,
        ranges=ranges,
    )


def _range(metric: str, found: Interval | None, nothing: float, beyond: bool) -> MarginRange:
    ends = (None, None) if found is None else (found.low - nothing, found.high - nothing)
    return MarginRange(metric=metric, low=ends[0], high=ends[1], beyond=beyond)
