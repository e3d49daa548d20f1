"""Single tasks as charts: what each shows, moved toward all of them, and how far that reaches."""

from collections.abc import Iterator, Sequence
from typing import Any

from twoarm.compare.decide import GATES
from twoarm.evidence.single_parts import SingleChange
from twoarm.render.chart_points import thinned
from twoarm.render.page.marks import (
    MUTED,
    NAMED_TASKS,
    Chart,
    axes,
    by_side,
    chart_spec,
    field,
    height,
    labels_of,
    layer,
    mark,
    narrow,
    shape_by_side,
    short,
    zero_line,
)
from twoarm.result.analysis import Analysis
from twoarm.runs.metric import SUCCESS, Metric
from twoarm.text.escape import counted, shortened
from twoarm.text.number_format import at_level, change, share

_SIDES = {"better": "candidate", "worse": "baseline"}
_NAME = 40

# A task and what it shows.
_Entry = tuple[str, SingleChange]


def single_tasks(analysis: Analysis) -> Iterator[Chart]:
    """The tasks by how far one can tell, for the metric of each gate; none where none can."""
    evidence = analysis.evidence
    if evidence is None:
        return
    for gate in GATES:
        name = gate.metric.name
        entries = [
            (task.task_id, task.changes[name])
            for task in evidence.single_tasks
            if name in task.changes
        ]
        if entries:
            entries.sort(key=lambda entry: (entry[1].estimate, entry[0]))
            yield _chart(gate.metric, entries, at_level(evidence.level))


def _chart(metric: Metric, entries: list[_Entry], level: str) -> Chart:
    drawn = thinned(entries)
    clear = [sum(moved.standing == word for _, moved in entries) for word in ("better", "worse")]
    (least, low), (most, high) = entries[0], entries[-1]
    how = (
        "What a task shows, moved toward the mean of all tasks by how noisy it is; a bar is its "
        f"{level} interval, and a small dot what its own runs show. Gray is not clear."
    )
    if len(drawn) < len(entries):
        how += f" {len(drawn):,} of {len(entries):,} tasks are drawn, evenly by rank."
    return Chart(
        name=f"single-{metric.name}",
        heading=f"{metric.label}, single tasks",
        how=how,
        shows=f"{clear[0]:,} of {counted(len(entries), 'task')} clearly better, {clear[1]:,} "
        f"clearly worse; from {_said(metric, low, low.estimate)} ({shortened(least, _NAME)}) to "
        f"{_said(metric, high, high.estimate)} ({shortened(most, _NAME)}).",
        spec=_spec(metric, drawn),
    )


def _said(metric: Metric, moved: SingleChange, value: float) -> str:
    return share(value - 1.0) if moved.ratio else change(value, metric.unit)


def _drawn(moved: SingleChange, value: float) -> float:
    """In percent, or in points."""
    return short((value - 1.0 if moved.ratio else value) * 100.0)


def _points(
    metric: Metric, entries: Sequence[_Entry], labels: Sequence[str]
) -> list[dict[str, Any]]:
    points = []
    for rank, ((_, moved), label) in enumerate(zip(entries, labels, strict=True), 1):
        ends = [_said(metric, moved, value) for value in (moved.estimate, moved.low, moved.high)]
        points.append(
            {
                "task": label,
                "rank": rank,
                "at": _drawn(moved, moved.estimate),
                "low": _drawn(moved, moved.low),
                "high": _drawn(moved, moved.high),
                "seen": _drawn(moved, moved.seen),
                "side": _SIDES.get(moved.standing, "tied"),
                "said": f"{ends[0]} ({ends[1]} to {ends[2]})",
                "own": _said(metric, moved, moved.seen),
            }
        )
    return points


def _spec(metric: Metric, entries: Sequence[_Entry]) -> dict[str, Any]:
    names = [task for task, _ in entries]
    labels = labels_of(names)
    few = len(labels) <= NAMED_TASKS
    unit = "points" if metric is SUCCESS else "percent"
    by_task, value = axes(labels, {"format": "+~f"}, unit)
    hint = [
        field("task:N", title="task"),
        field("said:N", title="moved toward all tasks"),
        field("own:N", title="its own runs"),
    ]
    start, end = ("x", "x2") if few else ("y", "y2")
    bars = {start: field("low:Q"), end: field("high")}
    look = {"color": by_side(), "tooltip": hint}
    return chart_spec(
        zero_line(upright=few),
        layer("bars", "tasks", mark("rule", strokeWidth=2, opacity=0.7), **by_task, **bars, **look),
        layer(
            "seen",
            "tasks",
            mark("point", filled=True, size=16 if few else 5, color=MUTED, opacity=0.8),
            **by_task,
            **{start: field("seen:Q")},
            tooltip=hint,
        ),
        layer(
            "singles",
            "tasks",
            mark("point", filled=True, size=80 if few else 16, opacity=1),
            **by_task,
            **value,
            **look,
            shape=shape_by_side(),
        ),
        datasets={"tasks": _points(metric, entries, labels)},
        narrow=narrow(labels, names),
        height=height(labels),
    )
