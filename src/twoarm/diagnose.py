"""Secondary diagnostics: they never block, they explain which habits moved with a failed gate."""

import math

import msgspec

from twoarm.comparison import Comparison
from twoarm.decide import Gate
from twoarm.metric import DIAGNOSTICS, SUCCESS, Metric
from twoarm.number_format import share
from twoarm.pair import Paired
from twoarm.summarize import ArmSummary


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
    explanations: tuple[str, ...]


def diagnose(comparison: Comparison) -> Diagnostics:
    """What moved, and what it moved with."""
    ours, theirs = comparison.summaries
    shifts = tuple(_shift(metric, ours, theirs, comparison.paired) for metric in DIAGNOSTICS)
    failed = (gate for gate in comparison.gates if gate.holds is False)
    return Diagnostics(shifts=shifts, explanations=tuple(_explain(gate, shifts) for gate in failed))


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
    """A relative change; None of nothing, or of so little that the change has no size."""
    if moved is None or not of or not math.isfinite(moved / of):
        return None
    return moved / of


def _explain(gate: Gate, shifts: tuple[Shift, ...]) -> str:
    assert gate.candidate is not None
    assert gate.baseline is not None
    metric = gate.rule.metric
    moved = gate.candidate - gate.baseline
    if metric is SUCCESS:
        worse = f"{metric.label} {moved * 100:+.1f} points"
    elif (moved_share := _share(moved, gate.baseline)) is not None:
        worse = f"{metric.label} {share(moved_share, 0)}"
    else:
        worse = f"{metric.label} {moved:+,.10g}"
    labels = {metric.name: metric.label for metric in DIAGNOSTICS}
    along = [f"{labels[shift.metric]} {shift.shift:+,.10g}" for shift in shifts if shift.shift]
    return f"{worse}; {', '.join(along) if along else 'no diagnostic moved'}"
