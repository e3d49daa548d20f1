"""Whether the runs that were excluded could change the decision."""

import math
from typing import Literal

import msgspec

from twoarm.decide import decide, judge
from twoarm.evidence.stability import Figures
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


class Exclusions(msgspec.Struct, frozen=True, kw_only=True):
    """The audit: who lost runs, whether one arm lost more, and whether it matters."""

    arms: tuple[ExcludedArm, ExcludedArm]
    p: float | None
    bounds: tuple[Bound, ...]
    could_flip: bool


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
    )


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
