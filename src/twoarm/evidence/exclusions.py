"""Whether the runs that were excluded could change the decision."""

import math
from collections.abc import Iterator
from typing import Literal

import msgspec

from twoarm import column
from twoarm.decide import GATE_METRICS, INSUFFICIENT, decide, judge
from twoarm.evidence.stability import Figures
from twoarm.metric import Metric
from twoarm.screen import Screening
from twoarm.summarize import ArmSummary

# Up to so many runs the tables are counted in whole numbers.
_COUNTED = 2_000


class ExcludedArm(msgspec.Struct, frozen=True, kw_only=True):
    """The infra failures of one arm."""

    arm: str
    runs: int
    excluded: int
    reasons: dict[str, int]


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The decision if every excluded run of one arm had failed, or passed."""

    arm: str
    outcome: Literal["failed", "passed"]
    decision: str


class MissingBound(msgspec.Struct, frozen=True, kw_only=True):
    """The decision if every missing value of one arm were as low, or as high, as can be."""

    arm: str
    values: Literal["low", "high"]
    decision: str


class MissingValues(msgspec.Struct, frozen=True, kw_only=True):
    """A gate's metric that some runs lack: how many of each arm, and whether it matters."""

    metric: str
    missing: tuple[int, int]
    runs: tuple[int, int]
    p: float
    bounds: tuple[MissingBound, ...]
    could_flip: bool


class Exclusions(msgspec.Struct, frozen=True, kw_only=True):
    """The audit: who lost runs or values, whether one arm lost more, and whether it matters."""

    arms: tuple[ExcludedArm, ExcludedArm]
    p: float | None
    bounds: tuple[Bound, ...]
    could_flip: bool
    missing: tuple[MissingValues, ...]


def audit(
    screening: Screening,
    summaries: tuple[ArmSummary, ArmSummary],
    decision: str,
) -> Exclusions:
    """Count the excluded runs, compare their rates, and try the extremes."""
    arms = tuple(_excluded_arm(screening, summary) for summary in summaries)
    names = summaries[0].arm, summaries[1].arm
    bounds = []
    for number, arm in enumerate(arms):
        if arm.excluded:
            for outcome in ("failed", "passed"):
                gained = arm.excluded if outcome == "passed" else 0
                figures = [
                    _with_more(summary, arm.excluded, gained)
                    if number == i
                    else _with_more(summary, 0, 0)
                    for i, summary in enumerate(summaries)
                ]
                found = decide(judge(figures[0], figures[1]), *names)
                bounds.append(Bound(arm=arm.arm, outcome=outcome, decision=found))
    p = None
    if any(arm.excluded for arm in arms):
        p = fisher(arms[0].excluded, arms[0].runs, arms[1].excluded, arms[1].runs)
    return Exclusions(
        arms=arms,  # type: ignore[arg-type]
        p=p,
        bounds=tuple(bounds),
        could_flip=any(bound.decision != decision for bound in bounds),
        missing=tuple(_missing_values(screening, summaries, decision)),
    )


def _missing_values(
    screening: Screening, summaries: tuple[ArmSummary, ArmSummary], decision: str
) -> Iterator[MissingValues]:
    if decision == INSUFFICIENT:
        return
    runs = summaries[0].runs, summaries[1].runs
    for metric in GATE_METRICS.values():
        missing = summaries[0].missing[metric.name], summaries[1].missing[metric.name]
        if not any(missing):
            continue
        bounds = tuple(
            MissingBound(
                arm=summaries[side].arm,
                values=values,
                decision=_with_missing(screening, summaries, metric, side, values),
            )
            for side in (0, 1)
            if missing[side]
            for values in ("low", "high")
        )
        yield MissingValues(
            metric=metric.name,
            missing=missing,
            runs=runs,
            p=fisher(missing[0], runs[0], missing[1], runs[1]),
            bounds=bounds,
            could_flip=any(bound.decision != decision for bound in bounds),
        )


def _with_missing(
    screening: Screening,
    summaries: tuple[ArmSummary, ArmSummary],
    metric: Metric,
    side: int,
    values: Literal["low", "high"],
) -> str:
    """The decision with the missing values of one arm filled in."""
    assert metric.median is not None
    filled = column.filled(
        screening.arms[side].values[metric.name], 0.0 if values == "low" else math.inf
    )
    figures = [_with_more(summary, 0, 0) for summary in summaries]
    figures[side] = msgspec.structs.replace(figures[side], **{metric.median: column.median(filled)})
    return decide(judge(figures[0], figures[1]), summaries[0].arm, summaries[1].arm)


def _excluded_arm(screening: Screening, summary: ArmSummary) -> ExcludedArm:
    reasons = {
        group.reason: group.runs
        for group in screening.excluded
        if group.arm == summary.arm and group.reason.startswith("infra")
    }
    excluded = sum(reasons.values())
    return ExcludedArm(
        arm=summary.arm, runs=summary.runs + excluded, excluded=excluded, reasons=reasons
    )


def _with_more(summary: ArmSummary, runs: int, successes: int) -> Figures:
    total = summary.runs + runs
    return Figures(
        success_rate=(summary.successes + successes) / total if total else None,
        median_duration_seconds=summary.median_duration_seconds,
        median_non_cache_tokens=summary.median_non_cache_tokens,
    )


def fisher(a: int, n: int, b: int, m: int) -> float:
    """Fisher's exact test, two-sided: a of n against b of m."""
    drawn = a + b
    tables = range(max(0, drawn - m), min(n, drawn) + 1)
    if n + m <= _COUNTED:
        ways = {k: math.comb(n, k) * math.comb(m, drawn - k) for k in tables}
        as_rare = sum(way for way in ways.values() if way <= ways[a])
        return as_rare / math.comb(n + m, drawn)
    logs = {k: _log_choose(n, k) + _log_choose(m, drawn - k) for k in tables}
    every = _log_choose(n + m, drawn)
    # Tables as likely as the one seen count as well, whatever the rounding.
    rare = (log for log in logs.values() if log <= logs[a] + 1e-7)
    return min(1.0, math.fsum(math.exp(log - every) for log in rare))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
