"""Whether the runs that were excluded could change the decision."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from twoarm.arrays import Floats
from twoarm.comparison import Comparison
from twoarm.decide import GATES, Decision, GateRule, decide, judge
from twoarm.evidence.kernel import log_choose
from twoarm.evidence.results import (
    Bound,
    ExcludedArm,
    Exclusions,
    MissingBound,
    MissingValues,
)
from twoarm.metric import SUCCESS
from twoarm.summarize import ArmSummary

# Up to so many runs the tables are counted in whole numbers.
_COUNTED = 2_000

_OUTCOMES: tuple[Literal["failed"], Literal["passed"]] = ("failed", "passed")
_EXTREMES: tuple[Literal["low"], Literal["high"]] = ("low", "high")


def audit(comparison: Comparison) -> Exclusions:
    """Count the excluded runs, compare their rates, and try the extremes."""
    arms = [_excluded_arm(comparison, summary) for summary in comparison.summaries]
    bounds = tuple(
        Bound(
            arm=arm.arm,
            outcome=outcome,
            decision=_with_outcome(comparison, side, arm.excluded, outcome),
        )
        for side, arm in enumerate(arms)
        if arm.excluded
        for outcome in _OUTCOMES
    )
    p = None
    if any(arm.excluded for arm in arms):
        p = fisher(arms[0].excluded, arms[0].runs, arms[1].excluded, arms[1].runs)
    return Exclusions(
        arms=(arms[0], arms[1]),
        p=p,
        bounds=bounds,
        could_flip=any(bound.decision != comparison.decision for bound in bounds),
        missing=tuple(_missing_values(comparison)),
    )


def _decided(comparison: Comparison, side: int, gate: GateRule, values: Floats) -> Decision:
    """The decision with other values of one gate's metric in one arm."""
    both = (
        {judged.name: judged.candidate for judged in comparison.gates},
        {judged.name: judged.baseline for judged in comparison.gates},
    )
    both[side][gate.name] = gate.figure(values)
    return decide(judge(*both), comparison.arms)


def _with_outcome(
    comparison: Comparison, side: int, excluded: int, outcome: Literal["failed", "passed"]
) -> Decision:
    """The decision with the excluded runs of one arm counted; only success is known of them."""
    gate = next(gate for gate in GATES if gate.metric is SUCCESS)
    successes = comparison.screening.arms[side].values[SUCCESS.name]
    more = np.full(excluded, 1.0 if outcome == "passed" else 0.0)
    return _decided(comparison, side, gate, np.concatenate((successes, more)))


def _missing_values(comparison: Comparison) -> Iterator[MissingValues]:
    if comparison.decision.kind == "insufficient":
        return
    ours, theirs = comparison.summaries
    for gate in GATES:
        missing = ours.missing[gate.metric.name], theirs.missing[gate.metric.name]
        if not any(missing):
            continue
        bounds = tuple(
            MissingBound(
                arm=comparison.arms.both[side],
                values=values,
                decision=_with_missing(comparison, gate, side, values),
            )
            for side in (0, 1)
            if missing[side]
            for values in _EXTREMES
        )
        yield MissingValues(
            metric=gate.metric.name,
            missing=missing,
            runs=(ours.runs, theirs.runs),
            p=fisher(missing[0], ours.runs, missing[1], theirs.runs),
            bounds=bounds,
            could_flip=any(bound.decision != comparison.decision for bound in bounds),
        )


def _with_missing(
    comparison: Comparison, gate: GateRule, side: int, values: Literal["low", "high"]
) -> Decision:
    """The decision with the missing values of one arm filled in; success is never missing."""
    assert gate.metric is not SUCCESS
    filled = np.nan_to_num(
        comparison.screening.arms[side].values[gate.metric.name],
        nan=0.0 if values == "low" else math.inf,
    )
    return _decided(comparison, side, gate, filled)


def _excluded_arm(comparison: Comparison, summary: ArmSummary) -> ExcludedArm:
    reasons = {
        group.reason: group.runs
        for group in comparison.screening.excluded
        if group.arm == summary.arm and group.kind == "infra"
    }
    excluded = sum(reasons.values())
    return ExcludedArm(
        arm=summary.arm, runs=summary.runs + excluded, excluded=excluded, reasons=reasons
    )


def fisher(a: int, n: int, b: int, m: int) -> float:
    """Fisher's exact test, two-sided: a of n against b of m."""
    drawn = a + b
    tables = range(max(0, drawn - m), min(n, drawn) + 1)
    if n + m <= _COUNTED:
        ways = {k: math.comb(n, k) * math.comb(m, drawn - k) for k in tables}
        as_rare = sum(way for way in ways.values() if way <= ways[a])
        return as_rare / math.comb(n + m, drawn)
    k = np.arange(tables.start, tables.stop)
    logs = log_choose(n, k) + log_choose(m, drawn - k)
    # Tables as likely as the one seen count as well, whatever the rounding.
    rare = logs <= logs[a - tables.start] + 1e-7
    return min(1.0, math.fsum(np.exp(logs[rare] - log_choose(n + m, drawn))))
