"""The ten-second summary: promote or not, by how much, how sure, what next.

The terminal, the pull-request comment and the page's first screen all show this one.
"""

from collections.abc import Iterator
from math import isfinite

import msgspec

from twoarm.compare.decide import Decision, Gate, fails
from twoarm.evidence.interval import by_interval
from twoarm.evidence.results import (
    FEWEST_TASKS,
    ArmsPerSolved,
    Evidence,
    Interval,
    Scope,
)
from twoarm.render.evidence import level, per_solved
from twoarm.render.tables import ROLES, Role, of_rows, overview
from twoarm.result.analysis import Analysis
from twoarm.result.caveats import foremost
from twoarm.result.findings import (
    beside_interval,
    broken_said,
    difference_range,
    evidence_said,
    failed_said,
    ratio_range,
    stability_word,
)
from twoarm.result.promote import Promotion, Verdict, here, solved_change
from twoarm.result.tested import tested_said
from twoarm.runs.metric import COST, SCORE, SUCCESS, Better, Metric
from twoarm.text.escape import counted, series
from twoarm.text.number_format import NOT_MEASURED, change, figure, share
from twoarm.text.sentence import Name, Sentence, joined, say

SCOPES = {"these_tasks": "these very tasks", "tasks_like_these": "tasks like these"}
ANSWERS: dict[Verdict, str] = {
    "promote": "yes",
    "do not promote": "no",
    "not enough data": "not yet",
}
# What a promotion goes by, in words.
PROMOTED_BY = {"gates": "the gates", "evidence": "the evidence", "margin": "the margin rule"}

# The same where they are what the promotion does not go by.
_OTHERWISE_BY = {"gates": "the gates", "evidence": "evidence", "margin": "margin"}

# A standing at the end of a row, where that is not its own word.
_MARKS = {"no clear difference": "~", "no test": ""}

_NOT_A_GATE = "not a gate"
_TOTALS = "totals, not a gate"
_SHORT = {"minutes": "min"}


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both arms: how far apart they are, and in which range the truth may lie.

    `change` and `interval` are one estimand; `why` says why there is no interval; the notes are
    footnotes; `short` is the label where there is little room; `solved` is what solved runs show of
    a gain, where that is another figure.
    """

    gate: Gate | None
    label: str
    short: str
    candidate: str
    baseline: str
    change: str
    interval: str
    mark: str
    role: Role | None
    label_note: str
    mark_note: str
    solved: str
    why: str
    # Whether the change is in points, where more is better; otherwise it is in percent.
    points: bool
    # The change and its interval as numbers, in points or percent; None if it is in neither.
    at: float | None
    low: float | None
    high: float | None

    @property
    def notes(self) -> str:
        """Everything that is said about the mark, where a row has room for it."""
        return "; ".join(
            filter(None, (self.mark_note, self.solved and f"solved runs: {self.solved}"))
        )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader has time for."""

    # What was run, and when; None if nobody says.
    tested: Sentence | None
    candidate: Name
    baseline: Name
    overview: str
    # The same for one line of a terminal.
    brief: str
    verdict: Verdict
    promote: Sentence
    # What other ways would say, as the end of that sentence.
    others: str
    decision: Decision
    fails: str
    why: Sentence | None
    evidence: Sentence
    amounts: tuple[Amount, ...]
    change: str
    level: str
    scope: str
    # None if no run failed; the same for one line of a terminal.
    failed: str | None
    failed_brief: str | None
    broken: Sentence | None
    # Whether it names tasks that seem broken.
    names_broken: bool
    stability: str
    steps: tuple[Sentence, ...]
    caveats: tuple[Sentence, ...]
    # Whether the first caveat should make a reader stop.
    serious: bool

    @property
    def missing(self) -> str:
        """Why figures have no interval, each reason once, with the figures that it is about."""
        why: dict[str, list[str]] = {}
        for amount in self.amounts:
            if amount.why:
                why.setdefault(amount.why, []).append(amount.label)
        count = len(self.amounts)
        return " ".join(of_rows(text, labels, count) for text, labels in why.items())


def summarize(analysis: Analysis) -> Summary:
    """Put the analysis into words."""
    evidence = analysis.evidence
    promotion = analysis.promotion
    amounts, caveats = tuple(_amounts(analysis)), tuple(foremost(analysis.caveats))
    ranged = any(amount.interval != NOT_MEASURED for amount in amounts)
    return Summary(
        tested=tested_said(analysis.tested),
        candidate=Name(analysis.candidate),
        baseline=Name(analysis.baseline),
        overview=overview(analysis),
        brief=overview(analysis, brief=True),
        verdict=promotion.verdict,
        promote=say(
            "{}, by {}: {}",
            ANSWERS[promotion.verdict],
            PROMOTED_BY[promotion.by],
            joined(promotion.reasons, "; "),
        ),
        others=others_said(promotion),
        decision=analysis.decision,
        fails=_fails(analysis),
        why=analysis.decision.why,
        evidence=evidence_said(evidence),
        amounts=amounts,
        # Without the evidence it is the change of the two figures beside it.
        change="change" if evidence is None else "mean change",
        level=level(evidence) if evidence is not None else "interval",
        scope=_scope(evidence) if evidence is not None and ranged else "",
        failed=failed_said(analysis.failures),
        failed_brief=failed_said(analysis.failures, brief=True),
        broken=broken_said(evidence) if evidence is not None and evidence.tasks else None,
        names_broken=evidence is not None and bool(evidence.guard.broken.tasks),
        stability=_stability(analysis),
        steps=tuple(step.message for step in analysis.next),
        caveats=tuple(caveat.message for caveat in caveats),
        serious=bool(caveats) and caveats[0].severity == "serious",
    )


def promotion_said(promotion: Promotion) -> str:
    """The verdict, what settled it and why, in one line for a log."""
    by, reasons = PROMOTED_BY[promotion.by], "; ".join(promotion.reasons)
    return f"{promotion.verdict}, by {by}: {reasons}{others_said(promotion)}"


def others_said(promotion: Promotion) -> str:
    """The ways that would give another answer, as the end of a sentence; nothing if none would."""
    ways: dict[Verdict, list[str]] = {}
    for other in promotion.others:
        ways.setdefault(other.verdict, []).append(_OTHERWISE_BY[other.by])
    return "".join(f"; by {series(by)}: {ANSWERS[verdict]}" for verdict, by in ways.items())


def _fails(analysis: Analysis) -> str:
    """Why a decision is mixed, unless that is why the candidate is not promoted."""
    promotion = analysis.promotion
    if promotion.verdict == "do not promote" and promotion.by == "gates":
        return ""
    return fails(analysis.gates) if analysis.decision.kind == "mixed" else ""


# Amounts ------------------------------------------------------------------------------------------


def _amounts(analysis: Analysis) -> Iterator[Amount]:
    """A row for each gate, one for the score where there is one, and what people ask for: what a
    solved task takes, or a run costs."""
    for gate in analysis.gates:
        yield _amount(
            analysis,
            gate.rule.metric,
            gate.rule.short,
            (gate.candidate, gate.baseline),
            gate,
        )
    evidence = analysis.evidence
    if evidence is not None and SCORE.name in evidence.deltas and evidence.scores is not None:
        ours, theirs = (arm.mean for arm in evidence.scores.arms)
        yield _amount(analysis, SCORE, f"mean {SCORE.label}", (ours, theirs), None)
    if evidence is not None and _has_figures(evidence.per_solved.cost_usd):
        for what, unit, figures in per_solved(evidence):
            yield _of_solved(what, unit, figures, evidence.headline)
        return
    if any(gate.rule.metric is COST for gate in analysis.gates):
        return
    costs = [summary.median_cost_usd for summary in analysis.arm_summaries]
    if costs != [None, None]:
        yield _amount(analysis, COST, f"median {COST.label}", (costs[0], costs[1]), None)


def _amount(
    analysis: Analysis,
    metric: Metric,
    label: str,
    figures: tuple[float | None, float | None],
    gate: Gate | None,
) -> Amount:
    ours, theirs = figures
    note = ""
    moved, interval, mark, why, solved = NOT_MEASURED, NOT_MEASURED, "", "", ""
    role: Role | None = None
    at = low = high = None
    if analysis.evidence is None:
        moved = _moved(metric, ours, theirs)
        if ours is not None and theirs is not None:
            ratio = metric is not SUCCESS and theirs != 0
            at = _drawn(ours / theirs if ratio else ours - theirs, metric, ratio=ratio)
        # Nothing says that it is clear.
        mark = "" if gate is None or gate.holds is None else "holds" if gate.holds else "fails"
    else:
        delta = analysis.evidence.deltas[metric.name]
        estimate, ratio = delta.change, delta.ratio is not None
        scope = analysis.evidence.headline
        limits: Interval | None = getattr(estimate, scope)
        if estimate.estimate is not None:
            moved = share(estimate.estimate - 1.0) if ratio else _points(estimate.estimate, metric)
            at = _drawn(estimate.estimate, metric, ratio=ratio)
        if limits is not None:
            low, high = (_drawn(end, metric, ratio=ratio) for end in (limits.low, limits.high))
        interval = ratio_range(limits) if ratio else difference_range(limits, metric.unit)
        why = " ".join(estimate.reasons(scope)) if limits is None else ""
        standing, note = beside_interval(analysis.evidence, metric)
        mark, role = _mark(standing), ROLES.get(standing)
        if role == "good" and delta.solved is not None and delta.solved.differs:
            solved = f"{metric.short} {solved_change(analysis.evidence, metric.name)}"
    return Amount(
        gate=gate,
        label=label,
        short=label,
        candidate=figure(ours, metric.unit),
        baseline=figure(theirs, metric.unit),
        change=moved,
        interval=interval.replace(" points", " pts"),
        mark=mark,
        role=role,
        label_note="" if gate is not None else _NOT_A_GATE,
        mark_note=note,
        solved=solved,
        why=why,
        points=metric.unit == SUCCESS.unit,
        at=at,
        low=low if high is not None else None,
        high=high if low is not None else None,
    )


def _has_figures(figures: ArmsPerSolved) -> bool:
    return figures.candidate.estimate is not None and figures.baseline.estimate is not None


def _of_solved(what: str, unit: str, figures: ArmsPerSolved, scope: Scope) -> Amount:
    """What a solved task takes in both arms; the change is that of the totals."""
    ratio = figures.ratio
    limits: Interval | None = getattr(ratio, scope)
    standing = by_interval(limits, 1.0, Better.LOWER)
    ends = [None, None] if limits is None else [limits.low, limits.high]
    at, low, high = (
        None if value is None else _drawn(value, COST, ratio=True)
        for value in (ratio.estimate, *ends)
    )
    return Amount(
        gate=None,
        label=f"{what} per solved",
        short=f"{_SHORT.get(what, what)}/solved",
        candidate=figure(figures.candidate.estimate, unit),
        baseline=figure(figures.baseline.estimate, unit),
        change=NOT_MEASURED if ratio.estimate is None else share(ratio.estimate - 1.0),
        interval=ratio_range(limits),
        mark=_mark(standing),
        role=ROLES.get(standing),
        label_note=_TOTALS,
        mark_note="",
        solved="",
        why=" ".join(ratio.reasons(scope)) if limits is None else "",
        points=False,
        at=at,
        low=low if high is not None else None,
        high=high if low is not None else None,
    )


def _drawn(value: float, metric: Metric, *, ratio: bool) -> float | None:
    """A change in percent, or in points; None for what an axis of these cannot show."""
    if not ratio and metric.unit != SUCCESS.unit:
        return None
    shown = (value - 1.0 if ratio else value) * 100
    return shown if isfinite(shown) else None


def _points(value: float, metric: Metric) -> str:
    return change(value, metric.unit).replace(" points", " pts")


def _moved(metric: Metric, ours: float | None, theirs: float | None) -> str:
    """How far apart two figures are: in percent where there is something to divide by."""
    if ours is None or theirs is None:
        return NOT_MEASURED
    if metric is SUCCESS or not theirs:
        return _points(ours - theirs, metric)
    return share(ours / theirs - 1.0)


def _mark(standing: str) -> str:
    return _MARKS.get(standing, standing)


def _scope(evidence: Evidence) -> str:
    """Which tasks the intervals are for, and what success is for the others."""
    if evidence.headline == "these_tasks":
        return f"Intervals are for {here(evidence)} only."
    like = f"tasks like these {evidence.tasks:,}"
    if evidence.families is not None:
        like = f"tasks like these ({counted(evidence.families, 'family')})"
    limits = evidence.deltas[SUCCESS.name].mean.these_tasks
    if limits is None:
        return f"Intervals are for {like}."
    ends = difference_range(limits, SUCCESS.unit).replace(" points", " pts")
    return f"Intervals: {like}; on {SCOPES['these_tasks']}, success {ends}."


def _stability(analysis: Analysis) -> str:
    evidence = analysis.evidence
    if evidence is None:
        return "not known (--no-evidence)"
    resampled = evidence.stability
    if resampled is None:
        if analysis.decision.kind == "insufficient":
            return "no decision to resample"
        if evidence.on_shared_tasks != analysis.decision:
            return "not available: on the tasks that both arms share, the decision is different"
        shared = "shared tasks" if evidence.families is None else "families of shared tasks"
        return f"not available: with fewer than {FEWEST_TASKS} {shared} it would mislead"
    held = resampled.decision_share
    return (
        f"{stability_word(held)}: the same decision in {held:.0%} of "
        f"{counted(resampled.resamples, 'resample')} ({resampled.method}); this is not the "
        "probability of being right"
    )
