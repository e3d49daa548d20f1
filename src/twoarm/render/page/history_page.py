"""A history as a page: the effect of each result with its interval, and the arms over time."""

import math
from collections.abc import Iterator
from typing import Any

from twoarm.compare.decide import GATES
from twoarm.render.history import (
    SHORT,
    alarm_said,
    change_said,
    result_said,
    sheet_of,
)
from twoarm.render.html import require_extra
from twoarm.render.page import sheet_page
from twoarm.render.page.marks import (
    CANDIDATE,
    INK,
    MUTED,
    SURFACE,
    Chart,
    by_side,
    chart_spec,
    field,
    layer,
    mark,
    shape_by_side,
    short,
    zero_line,
)
from twoarm.result.history_file import History, HistorySeries, LoggedArm, LoggedResult
from twoarm.runs.metric import SUCCESS, Metric
from twoarm.text.number_format import figure

# The series with the newest results; a page of all of them would be too long.
MOST_SERIES = 6


def render(history: History) -> str:
    """The whole page."""
    require_extra()
    drawn = history.series[:MOST_SERIES]
    charts = [chart for series in drawn for chart in _charts(series)]
    return sheet_page.render(sheet_of(history), "history", charts)


def _charts(series: HistorySeries) -> Iterator[Chart]:
    for gate in GATES:
        yield _effect(series, gate.metric)
    for gate in GATES:
        yield _arms(series, gate.metric)


def _effect(series: HistorySeries, metric: Metric) -> Chart:
    """What the candidate changed, result by result; a line stands where that changed itself."""
    points = list(_points(series, metric))
    alarms = [alarm for alarm in series.alarms if alarm.metric == metric.name]
    told = [f"{alarm_said(series, alarm)}." for alarm in alarms]
    heading = f"effect on {metric.label}, series {series.series[:SHORT]}"
    name = f"effect-{series.series[:SHORT]}-{metric.name}"
    if not points:
        return Chart(name=name, heading=heading, shows="No result has it: nothing is drawn.")
    return Chart(
        name=name,
        heading=heading,
        how="a dot is a result against the baseline of the same day, the bar its interval; "
        "a dashed line stands where the effect changed",
        shows=" ".join(told) or "No change of the effect is clear.",
        wide=True,
        spec=_effect_spec(series, metric, points),
    )


def _points(series: HistorySeries, metric: Metric) -> Iterator[dict[str, Any]]:
    for result in series.results:
        change = result.changes.get(metric.name)
        if change is None or change.estimate is None:
            continue
        ratio = change.scale == "ratio"

        def scaled(value: float | None, ratio: bool = ratio) -> float | None:
            if value is None or not math.isfinite(value):
                return None
            return short(value - 1.0 if ratio else value)

        yield {
            "at": result.time_utc,
            "change": scaled(change.estimate),
            "low": scaled(change.low),
            "high": scaled(change.high),
            "which": str(result_said(result)),
            "said": change_said(change, metric),
        }


def _effect_spec(
    series: HistorySeries, metric: Metric, points: list[dict[str, Any]]
) -> dict[str, Any]:
    share = {"format": "+.0%"} if _is_ratio(series, metric) else {}
    if metric is SUCCESS:
        share = {"labelExpr": "datum.value === 0 ? '0' : format(100 * datum.value, '+.0f')"}
    x = field("at:T", title=None, axis={"format": "%Y-%m-%d"})
    y = field(
        "change:Q", title=f"change in {metric.unit}" if metric is SUCCESS else "change", axis=share
    )
    hint = [field("which:N", title="result"), field("said:N", title="change")]
    since = [
        {"at": series.results[alarm.since].time_utc}
        for alarm in series.alarms
        if alarm.metric == metric.name
    ]
    bar = mark("rule", strokeWidth=3, color=INK)
    dot = mark("point", filled=True, size=90, opacity=1, stroke=SURFACE, color=CANDIDATE)
    dashed = mark("rule", strokeDash=[4, 4], color=MUTED)
    ends = {"y": field("low:Q"), "y2": field("high")}
    ranges = [point for point in points if point["low"] is not None and point["high"] is not None]
    # Vega warns of a layer without a point.
    layers = [
        *([layer("since", "since", dashed, x=field("at:T"))] if since else []),
        *([layer("bars", "ranges", bar, x=x, **ends, tooltip=hint)] if ranges else []),
    ]
    return chart_spec(
        zero_line(upright=False),
        *layers,
        layer("dots", "points", dot, x=x, y=y, tooltip=hint),
        datasets={"points": points, "ranges": ranges, "since": since},
        height=220,
    )


def _is_ratio(series: HistorySeries, metric: Metric) -> bool:
    changes = [result.changes.get(metric.name) for result in series.results]
    return any(change is not None and change.scale == "ratio" for change in changes)


def _arms(series: HistorySeries, metric: Metric) -> Chart:
    """Each arm on its own, about which nothing is judged: days differ."""
    points = [
        {
            "at": result.time_utc,
            "value": short(value),
            "side": side,
            "which": str(result_said(result)),
            "said": figure(value, metric.unit),
        }
        for result in series.results
        for side, arm in _sides(result)
        if (value := _value(arm, metric)) is not None
    ]
    what = "success rate" if metric is SUCCESS else f"median {metric.label}"
    heading = f"{what} of each arm, series {series.series[:SHORT]}"
    name = f"arms-{series.series[:SHORT]}-{metric.name}"
    last = series.results[-1]
    ours, theirs = (figure(_value(arm, metric), metric.unit) for _, arm in _sides(last))
    if not points:
        return Chart(name=name, heading=heading, shows="No result has it: nothing is drawn.")
    x = field("at:T", title=None, axis={"format": "%Y-%m-%d"})
    axis = {"format": ".0%"} if metric is SUCCESS else {"format": "~s"}
    y = field("value:Q", title=what, axis=axis)
    hint = [field("side:N", title="arm"), field("which:N", title="result"), field("said:N")]
    dot = mark("point", filled=True, size=70, opacity=1)
    return Chart(
        name=name,
        heading=heading,
        how="circles are the candidate, squares the baseline; no verdict follows from one arm over "
        "time, because days differ",
        shows=f"Newest: candidate {ours}, baseline {theirs}.",
        wide=True,
        spec=chart_spec(
            layer("lines", "points", mark("line", opacity=0.4), x=x, y=y, color=by_side()),
            layer(
                *("dots", "points", dot),
                x=x, y=y, color=by_side(), shape=shape_by_side(), tooltip=hint,
            ),
            datasets={"points": points},
            height=180,
        ),
    )  # fmt: skip


def _sides(result: LoggedResult) -> tuple[tuple[str, LoggedArm], tuple[str, LoggedArm]]:
    return ("candidate", result.candidate), ("baseline", result.baseline)


def _value(arm: LoggedArm, metric: Metric) -> float | None:
    if metric is SUCCESS:
        return arm.successes / arm.runs if arm.runs else None
    value: float | None = getattr(arm, str(metric.median))
    return value
