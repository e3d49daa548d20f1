"""Whether runs without a result, or values that are missing, could change the decision, and
whether one arm clearly lost more of them than the other."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES, Decision, GateRule, decide, judge
from twoarm.compare.screen import Arms
from twoarm.compare.trials import Trials
from twoarm.evidence.kernel import log_choose
from twoarm.evidence.losses import (
    LOSS_BY_CHANCE,
    LOSS_POINTS,
    Bound,
    ExcludedArm,
    Exclusions,
    MissingBound,
    MissingValues,
    OneSided,
)
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import SUCCESS

# Up to this many runs the tables are counted in whole numbers.
_COUNTED = 2_000

_OUTCOMES: tuple[Literal["failed"], Literal["passed"]] = ("failed", "passed")
_EXTREMES: tuple[Literal["low"], Literal["high"]] = ("low", "high")


def audit(comparison: Comparison) -> Exclusions:
    """Count the planned runs without a result, compare their rates, and try the extremes."""
    arms = [_excluded_arm(trials) for trials in comparison.screening.trials]
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
    """The decision with the lost runs of one arm counted; only success is known of them."""
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


def _excluded_arm(trials: Trials) -> ExcludedArm:
    reasons = {f"infra: {tally.reason}": tally.trials for tally in trials.excluded_reasons}
    reasons |= {f"missing: {tally.reason}": tally.trials for tally in trials.missing_reasons}
    return ExcludedArm(arm=trials.arm, runs=trials.planned, excluded=trials.lost, reasons=reasons)


def one_sided(comparison: Comparison) -> tuple[OneSided, ...]:
    """What one arm lost clearly more of, whole runs or values of a gate's metric: neither chance
    nor a trifle, and perhaps the very runs that would have told against it."""
    ours, theirs = comparison.screening.trials
    candidate, baseline = comparison.summaries
    runs = candidate.runs, baseline.runs
    losses = (
        lost_more(
            comparison.arms,
            None,
            (ours.at_risk, theirs.at_risk),
            (ours.planned, theirs.planned),
            (ours.interrupted, theirs.interrupted),
        ),
        *(
            lost_more(
                comparison.arms, name, (candidate.missing[name], baseline.missing[name]), runs
            )
            for name in (gate.metric.name for gate in GATES)
        ),
    )
    return tuple(loss for loss in losses if loss is not None)


def lost_more(
    arms: Arms,
    metric: str | None,
    lost: tuple[int, int],
    of: tuple[int, int],
    run_again: tuple[int, int] = (0, 0),
) -> OneSided | None:
    """What an arm lost of something that both have so many of, if that is clearly one-sided."""
    p = p_of_losses(lost, of)
    if p is None:
        return None
    arm = arms.both[lost[0] * of[1] < lost[1] * of[0]]
    return OneSided(metric=metric, arm=arm, lost=lost, run_again=run_again, of=of, p=p)


def p_of_losses(lost: tuple[int, int], of: tuple[int, int]) -> float | None:
    """The chance of losses as uneven as these; None if they may well be chance, or a trifle."""
    # The shares are compared in whole numbers: ten points are ten points.
    apart = lost[0] * of[1] - lost[1] * of[0]
    if not all(of) or 100 * abs(apart) < LOSS_POINTS * of[0] * of[1]:
        return None
    p = fisher(lost[0], of[0], lost[1], of[1])
    return None if p >= LOSS_BY_CHANCE else p


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
