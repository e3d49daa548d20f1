"""Secondary diagnostics: they never block, they explain which habits moved with a failed gate."""

import math

import msgspec

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import Gate
from twoarm.compare.pair import Paired
from twoarm.compare.summarize import ArmSummary
from twoarm.explain.tools import ToolShift, ToolUse
from twoarm.explain.tools import moved as moved_tools
from twoarm.runs.metric import DIAGNOSTICS, SUCCESS, Metric
from twoarm.text.number_format import change, share
from twoarm.text.sentence import Name, Sentence, joined, say


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """How one diagnostic metric moved: the arm medians, and the deltas of the pairs."""

    metric: str
    candidate: float | None
    baseline: float | None
    shift: float | None
    shift_share: float | None
    mean_delta: float | None
    median_delta: float | None
    pairs: int


class Diagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """Shifts of cache use and orchestration, and one line for each gate that failed."""

    shifts: tuple[Shift, ...]
    explanations: tuple[Sentence, ...]


def diagnose(comparison: Comparison, tools: ToolUse | None) -> Diagnostics:
    """What moved, and what it moved with."""
    ours, theirs = comparison.summaries
    shifts = tuple(_shift(metric, ours, theirs, comparison.paired) for metric in DIAGNOSTICS)
    failed = (gate for gate in comparison.gates if gate.holds is False)
    return Diagnostics(
        shifts=shifts, explanations=tuple(_explain(gate, shifts, tools) for gate in failed)
    )


def _shift(metric: Metric, candidate: ArmSummary, baseline: ArmSummary, paired: Paired) -> Shift:
    assert metric.median is not None
    ours: float | None = getattr(candidate, metric.median)
    theirs: float | None = getattr(baseline, metric.median)
    moved = None if ours is None or theirs is None else ours - theirs
    return Shift(
        metric=metric.name,
        candidate=ours,
        baseline=theirs,
        shift=moved,
        shift_share=_share(moved, theirs),
        mean_delta=getattr(paired, f"mean_{metric.delta}"),
        median_delta=getattr(paired, f"median_{metric.delta}"),
        pairs=paired.pairs_with[metric.name],
    )


def _share(moved: float | None, of: float | None) -> float | None:
    """A relative change; None if it would be relative to zero, or to next to nothing."""
    if moved is None or not of or not math.isfinite(moved / of):
        return None
    return moved / of


def _explain(gate: Gate, shifts: tuple[Shift, ...], tools: ToolUse | None) -> Sentence:
    assert gate.candidate is not None
    assert gate.baseline is not None
    metric = gate.rule.metric
    moved = gate.candidate - gate.baseline
    if metric is SUCCESS:
        worse = f"{metric.label} {moved * 100:+.1f} points"
    elif (moved_share := _share(moved, gate.baseline)) is not None:
        # Whole percent, unless that would be zero.
        worse = f"{metric.label} {share(moved_share, 0 if abs(moved_share) >= 0.005 else 2)}"
    else:
        worse = f"{metric.label} {moved:+,.10g}"
    labels = {metric.name: metric.label for metric in DIAGNOSTICS}
    along = [f"{labels[shift.metric]} {shift.shift:+,.10g}" for shift in shifts if shift.shift]
    explanation = say("{}; {}", worse, ", ".join(along) if along else "no diagnostic moved")
    called = [say("{} {}", Name(shift.tool), _called(shift)) for shift in moved_tools(tools)]
    return say("{}; tool calls: {}", explanation, joined(called, ", ")) if called else explanation


def _called(shift: ToolShift) -> str:
    """How much more or less a tool was called; one that only the candidate calls has no share."""
    if shift.change is not None:
        return share(shift.change, 0)
    return f"{change(shift.mean_delta, 'rate')} per run"
