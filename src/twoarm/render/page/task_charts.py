"""The tasks as charts: every delta, and the success of each task in both arms."""

from collections.abc import Iterator
from typing import Any

from twoarm.render.chart_points import ChartPoints, MetricDeltas, Successes
from twoarm.render.page.marks import (
    AXIS_FORMAT,
    BASELINE,
    CANDIDATE,
    INK,
    NAME,
    NAMED_TASKS,
    SURFACE,
    Chart,
    axes,
    axis_title,
    by_side,
    chart_spec,
    field,
    height,
    labels_of,
    layer,
    mark,
    narrow,
    rate_domain,
    shape_by_side,
    short,
    side_of,
    zero_line,
    zoomed,
)
from twoarm.runs.metric import BY_NAME, SUCCESS, Metric
from twoarm.text.escape import counted, shortened
from twoarm.text.number_format import change


def deltas(points: ChartPoints) -> Iterator[Chart]:
    """Every task's deltas, in order of their mean, for each metric."""
    for paired in points.deltas:
        metric = BY_NAME[paired.metric]
        heading = f"{metric.label}, candidate minus baseline"
        name = f"delta-{metric.name}"
        if not paired.tasks:
            shows = f"No pair has {metric.label} in both arms: not measured, so nothing is drawn."
            yield Chart(name=name, heading=heading, shows=shows)
            continue
        lower = sum(task.mean < 0 for task in paired.tasks)
        higher = sum(task.mean > 0 for task in paired.tasks)
        least, most = paired.tasks[0], paired.tasks[-1]
        shows = (
            f"{lower} of {counted(len(paired.tasks), 'task')} lower with the candidate, {higher} "
            f"higher; task means from {change(least.mean, metric.unit)} "
            f"({shortened(least.task_id, NAME)}) to {change(most.mean, metric.unit)} "
            f"({shortened(most.task_id, NAME)})."
        )
        yield Chart(
            name=name,
            heading=heading,
            how=_delta_how(paired),
            shows=shows,
            spec=_deltas(paired, metric),
        )


def _spans(paired: MetricDeltas) -> bool:
    """Whether there are too many pairs for a dot each, and too many tasks for a few of them."""
    drawn = sum(len(task.points) for task in paired.tasks)
    return drawn < paired.pair_count and len(paired.tasks) > NAMED_TASKS


def _delta_how(paired: MetricDeltas) -> str:
    drawn = sum(len(task.points) for task in paired.tasks)
    if _spans(paired):
        how = (
            "A mark is the mean of a task; its line runs from the smallest to the largest of "
            f"its pairs ({paired.pair_count:,} in all)."
        )
    else:
        how = "A small dot is one pair, a large mark the mean of its task."
        if drawn < paired.pair_count:
            how += (
                f" {drawn:,} of {paired.pair_count:,} pairs are drawn: the smallest and largest "
                "of each task, and some evenly spaced between."
            )
    if len(paired.tasks) < paired.task_count:
        how += f" {len(paired.tasks):,} of {paired.task_count:,} tasks are drawn, evenly by rank."
    return how


def _delta_points(
    paired: MetricDeltas, metric: Metric, labels: list[str]
) -> dict[str, list[dict[str, Any]]]:
    """Every pair, and every task by its mean; if pairs are too many, only their range."""
    spans = _spans(paired)
    pairs, means = [], []
    for rank, (task, label) in enumerate(zip(paired.tasks, labels, strict=True), 1):
        place = {"task": label, "rank": rank}
        for point in () if spans else task.points:
            tooltip = change(point, metric.unit)
            side = side_of(point, metric.unit)
            pairs.append({**place, "at": short(point), "side": side, "said": tooltip})
        tooltip = f"{change(task.mean, metric.unit)} over {counted(task.pairs, 'pair')}"
        mean = {"at": short(task.mean), "side": side_of(task.mean, metric.unit), "said": tooltip}
        if spans:
            mean |= {"low": short(task.points[0]), "high": short(task.points[-1])}
        means.append(place | mean)
    return {"pairs": pairs, "means": means}


def _deltas(paired: MetricDeltas, metric: Metric) -> dict[str, Any]:
    names = [task.task_id for task in paired.tasks]
    labels = labels_of(names)
    axis: dict[str, Any] = {"format": AXIS_FORMAT[metric.unit]}
    by_task, value = axes(labels, axis, axis_title(metric))
    task_hint = field("task:N", title="task")
    few = len(labels) <= NAMED_TASKS
    look = {"color": by_side(), "shape": shape_by_side()}
    if _spans(paired):
        ends = {"y": field("low:Q"), "y2": field("high")}
        spread = layer(
            "spans", "means", mark("rule", opacity=0.45), **by_task, **ends, color=by_side()
        )
    else:
        spread = layer(
            "pairs",
            "pairs",
            mark("point", filled=True, size=26 if few else 8, opacity=0.6),
            **(by_task | value | look),
            tooltip=[task_hint, field("said:N", title="pair")],
        )
    edge = {"stroke": SURFACE, "strokeWidth": 1.5 if few else 0}
    means = layer(
        "means",
        "means",
        mark("point", filled=True, size=110 if few else 22, opacity=1, **edge),
        **(by_task | value | look),
        tooltip=[task_hint, field("said:N", title="task mean")],
    )
    return chart_spec(
        zero_line(upright=few),
        spread,
        means,
        datasets=_delta_points(paired, metric, labels),
        narrow=narrow(labels, names),
        height=height(labels),
    )


def successes(points: ChartPoints) -> Chart:
    """The success rate of every task in both arms, and the pairs that flipped."""
    rates = points.successes
    heading = "success rate per task"
    if not rates.tasks:
        shows = "No task has runs in both arms: nothing to draw."
        return Chart(name="success", heading=heading, shows=shows)
    higher = sum(task.candidate > task.baseline for task in rates.tasks)
    lower = sum(task.candidate < task.baseline for task in rates.tasks)
    gained = sum(task.gained for task in rates.tasks)
    lost = sum(task.lost for task in rates.tasks)
    how = "A line joins the two arms of a task."
    how += (
        " ▲ counts the pairs that flipped from failed to passed with the candidate, ▼ those that "
        "flipped from passed to failed."
        if len(rates.tasks) <= NAMED_TASKS
        else " Tasks are side by side, the largest rise first; the mark is the candidate's rate."
    )
    if len(rates.tasks) < rates.task_count:
        how += f" {len(rates.tasks):,} of {rates.task_count:,} tasks are drawn, evenly by rank."
    how += zoomed(rate_domain(_rates(rates)))
    return Chart(
        name="success",
        heading=heading,
        how=how,
        shows=f"Of {counted(len(rates.tasks), 'task')}, {higher} succeed more often with the "
        f"candidate, {lower} less often, {len(rates.tasks) - higher - lower} equally often; "
        f"{counted(gained, 'pair')} flipped to passed and {lost} to failed.",
        wide=True,
        spec=_successes(rates),
    )


def _success_points(rates: Successes, labels: list[str]) -> list[dict[str, Any]]:
    """Every task: its rate in both arms, and the pairs that flipped."""
    return [
        {
            "task": label,
            "rank": rank,
            "at": task.candidate,
            "from": task.baseline,
            "side": side_of(task.candidate - task.baseline, SUCCESS.unit),
            "said": f"{task.candidate:.1%} vs. {task.baseline:.1%}",
            "flips": " ".join(
                f"{mark}{count}" for mark, count in (("▲", task.gained), ("▼", task.lost)) if count
            ),
            "gained": task.gained,
            "lost": task.lost,
        }
        for rank, (task, label) in enumerate(zip(rates.tasks, labels, strict=True), 1)
    ]


def _successes(rates: Successes) -> dict[str, Any]:
    names = [task.task_id for task in rates.tasks]
    labels = labels_of(names)
    few = len(labels) <= NAMED_TASKS
    domain = rate_domain(_rates(rates))
    by_task, value = axes(labels, {"format": "~%"}, "success rate", domain=domain)
    start = {"x" if few else "y": field("from:Q")}
    end = {"x2" if few else "y2": field("at")}
    hint = [
        field("task:N", title="task"),
        field("said:N", title="candidate vs. baseline"),
        field("gained:Q", title="flipped to passed"),
        field("lost:Q", title="flipped to failed"),
    ]
    join = mark("rule", strokeWidth=3 if few else 1, opacity=0.55)
    joined = by_task | start | end
    layers = [layer("joins", "tasks", join, **joined, color=by_side(), tooltip=hint)]
    if few:
        square = mark("point", shape="square", size=130, strokeWidth=2.5, opacity=1, color=BASELINE)
        circle = mark("point", filled=True, size=70, opacity=1, color=CANDIDATE)
        flips = {"x": {"value": "width"}, "text": field("flips:N")}
        layers += [
            layer("baselines", "tasks", square, **by_task, **start, tooltip=hint),
            layer("candidates", "tasks", circle, **by_task, **value, tooltip=hint),
            layer(
                "flips", "tasks", mark("text", align="left", dx=12, color=INK), **by_task, **flips
            ),
        ]
    else:
        dot = mark("point", filled=True, size=20, opacity=0.9)
        look = {"color": by_side(), "shape": shape_by_side(), "tooltip": hint}
        layers.append(layer("candidates", "tasks", dot, **by_task, **value, **look))
    padding = {"left": 5, "top": 5, "bottom": 5, "right": 62 if few else 5}
    return chart_spec(
        *layers,
        datasets={"tasks": _success_points(rates, labels)},
        narrow=narrow(labels, names),
        height=height(labels),
        padding=padding,
    )


def _rates(rates: Successes) -> list[float]:
    return [rate for task in rates.tasks for rate in (task.candidate, task.baseline)]
