"""The runs as charts: how they spread, what they cost, and when they started."""

from collections.abc import Iterator
from typing import Any

from twoarm.render.chart_points import MOST_STARTS, ChartPoints, MetricSpread, RunSpread, Starts
from twoarm.render.page.marks import (
    AXIS_FORMAT,
    INK,
    NAME,
    SIDES,
    SURFACE,
    Chart,
    axis_title,
    by_side,
    chart_spec,
    field,
    layer,
    mark,
    moment,
    rate_domain,
    shape_by_side,
    short,
    zoomed,
)
from twoarm.result.analysis import Analysis
from twoarm.runs.metric import BY_NAME, Metric
from twoarm.text.escape import counted, shortened
from twoarm.text.number_format import figure
from twoarm.text.sentence import Name, say


def spreads(analysis: Analysis, points: ChartPoints) -> Iterator[Chart]:
    """How the runs of each arm spread, on a logarithmic axis."""
    for by_arm in points.spreads:
        metric = BY_NAME[by_arm.metric]
        name, heading = f"spread-{metric.name}", metric.label
        sides = [arm for arm in (by_arm.candidate, by_arm.baseline) if arm is not None]
        if not sides:
            shows = f"No run has {metric.label} above zero: nothing is drawn."
            yield Chart(name=name, heading=heading, shows=shows)
            continue
        told = [
            f"{shortened(arm, NAME)}: {_told(side, metric)}"
            for arm, side in (
                (analysis.candidate, by_arm.candidate),
                (analysis.baseline, by_arm.baseline),
            )
        ]
        how = "A dot is a run, the band spans the middle half, the line is the median."
        drawn, runs = sum(len(s.points) for s in sides), sum(s.runs for s in sides)
        zeros = sum(s.not_positive for s in sides)
        if drawn < runs - zeros:
            how += f" {drawn:,} of {runs:,} runs are drawn, evenly by rank."
        if zeros:
            how += f" Not shown on this axis: {counted(zeros, 'run')} at zero."
        yield Chart(
            name=name,
            heading=heading,
            how=how,
            shows=f"{'; '.join(told)}.",
            spec=_spread(by_arm, metric, (analysis.candidate, analysis.baseline)),
        )


def _told(side: RunSpread | None, metric: Metric) -> str:
    if side is None:
        return "not measured"
    low, middle, high = (figure(value, metric.unit) for value in side.quartiles)
    return f"median {middle}, middle half {low} to {high}, {counted(side.runs, 'run')}"


def _dots(spread: RunSpread, row: float, side: str, unit: str) -> Iterator[dict[str, Any]]:
    for number, point in enumerate(spread.points):
        # Steps of the golden ratio spread the dots evenly, the same way each time.
        shift = (number * 0.618034) % 1.0 - 0.5
        yield {
            "at": short(point),
            "row": round(row + 0.4 * shift, 3),
            "side": side,
            "said": figure(point, unit),
        }


def _band(spread: RunSpread, row: float, side: str, tooltip: str) -> dict[str, Any]:
    low, middle, high = spread.quartiles
    return {
        "low": low,
        "middle": middle,
        "high": high,
        "side": side,
        "from": row - 0.28,
        "to": row + 0.28,
        "top": row + 0.38,
        "said": tooltip,
    }


def _spread(by_arm: MetricSpread, metric: Metric, arms: tuple[str, str]) -> dict[str, Any]:
    points: list[dict[str, Any]] = []
    bands: list[dict[str, Any]] = []
    for row, arm, side, spread in zip(
        (1.0, 0.0), arms, SIDES[:2], (by_arm.candidate, by_arm.baseline), strict=True
    ):
        if spread is not None:
            points += _dots(spread, row, side, metric.unit)
            middle = figure(spread.quartiles[1], metric.unit)
            bands.append(_band(spread, row, side, f"{shortened(arm, 24)}: median {middle}"))
    rows = {"domain": [-0.4, 1.62], "nice": False, "zero": False}
    x = field(
        "at:Q",
        scale={"type": "log", "nice": False, "padding": 12},
        axis={"format": AXIS_FORMAT[metric.unit]},
        title=f"{axis_title(metric)}, logarithmic",
    )
    width = {"x": field("low:Q"), "x2": field("high")}
    height = {"y": field("from:Q", axis=None, title=None), "y2": field("to")}
    return chart_spec(
        layer("bands", "bands", mark("rect", opacity=0.22), **width, **height, color=by_side()),
        layer(
            "points",
            "points",
            mark("point", filled=True, size=22, opacity=0.6),
            x=x,
            y=field("row:Q", scale=rows, axis=None, title=None),
            color=by_side(),
            shape=shape_by_side(),
            tooltip=[field("said:N", title=metric.label)],
        ),
        layer(
            "medians",
            "bands",
            mark("rule", strokeWidth=3, color=INK),
            x=field("middle:Q"),
            **height,
        ),
        _names("arms", "bands", "top:Q"),
        datasets={"points": points, "bands": bands},
        height=170,
    )


def _names(name: str, points: str, row: str) -> dict[str, Any]:
    """The names of the arms, each at the left of its row."""
    return layer(
        name,
        points,
        mark("text", align="left", baseline="bottom", color=INK),
        x={"value": 0},
        y=field(row, axis=None, title=None),
        text=field("said:N"),
    )


def costs(analysis: Analysis, points: ChartPoints) -> Chart:
    """What a run costs, and how often it succeeds."""
    heading = "cost vs. success"
    arms = [
        (candidate, summary)
        for candidate, summary in zip((True, False), analysis.arm_summaries, strict=True)
        if summary.median_cost_usd is not None and summary.success_rate is not None
    ]
    if not points.costs:
        shows = "Cost was not measured: nothing is drawn."
        return Chart(name="cost", heading=heading, shows=shows)
    told = [
        f"{shortened(summary.arm, NAME)}: {figure(summary.success_rate, 'points')} succeed at a "
        f"median of {figure(summary.median_cost_usd, 'usd')} a run"
        for _, summary in arms
    ]
    return Chart(
        name="cost",
        heading=heading,
        how="A small mark is a task in one arm, a large one the whole arm. Up and to the left is "
        "better: more success for less money."
        + zoomed(rate_domain(point.success_rate for point in points.costs)),
        shows=f"{'; '.join(told)}.",
        spec=_costs(analysis, points),
    )


def _costs(analysis: Analysis, points: ChartPoints) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = [
        {
            "task": shortened(point.task_id, NAME),
            "at": short(point.median_cost_usd),
            "rate": short(point.success_rate),
            "side": SIDES[not point.candidate],
            "said": f"{figure(point.success_rate, 'points')} at "
            f"{figure(point.median_cost_usd, 'usd')}",
        }
        for point in points.costs
    ]
    arms: list[dict[str, Any]] = [
        {
            "task": f"all of {shortened(summary.arm, 24)}",
            "at": summary.median_cost_usd,
            "rate": summary.success_rate,
            "side": side,
            "said": f"{figure(summary.success_rate, 'points')} at "
            f"{figure(summary.median_cost_usd, 'usd')}",
            "name": shortened(summary.arm, 24),
        }
        for side, summary in zip(SIDES, analysis.arm_summaries, strict=False)
        if summary.median_cost_usd is not None
    ]
    positive = all(point["at"] > 0 for point in (*tasks, *arms))
    x = field(
        "at:Q",
        scale={"type": "log" if positive else "linear", "nice": False, "padding": 24},
        axis={"format": "$,~f"},
        title=f"median cost of a run in US dollars{', logarithmic' if positive else ''}",
    )
    domain = rate_domain(point["rate"] for point in (*tasks, *arms))
    y = field("rate:Q", scale={"domain": domain}, axis={"format": "~%"}, title="success rate")
    hint = [
        field("task:N", title="task"),
        field("said:N", title="success and median cost"),
    ]
    look = {"x": x, "y": y, "color": by_side(), "shape": shape_by_side(), "tooltip": hint}
    large = mark("point", filled=True, size=320, opacity=1, stroke=SURFACE, strokeWidth=2)
    return chart_spec(
        layer("tasks", "tasks", mark("point", filled=True, size=46, opacity=0.65), **look),
        layer("arms", "arms", large, **look),
        datasets={"tasks": tasks, "arms": arms},
        height=240,
    )


def timeline(analysis: Analysis, points: ChartPoints) -> Chart:
    """When the runs of each arm started."""
    heading = "start of the runs"
    by_arm = points.starts
    if not by_arm.timed:
        reason = (
            say("Not drawn: start times are only read with the evidence.")
            if analysis.evidence is None
            else say("Not drawn: no run has {}.", Name("started_at_utc"))
        )
        return Chart(name="timeline", heading=heading, shows=reason)
    how = "Both rows should look alike: at different times, runs meet different conditions."
    if by_arm.timed > MOST_STARTS:
        how += " Runs are grouped by time; darker means more."
    if by_arm.untimed:
        how += f" Not drawn: {counted(by_arm.untimed, 'run')} without a start time."
    blocked = analysis.evidence is not None and analysis.evidence.order.in_separate_blocks
    told = "; ".join(
        f"{shortened(arm, NAME)} from {moment(starts[0].at)} to {moment(starts[-1].until)}"
        for arm, starts in (
            (analysis.candidate, by_arm.candidate),
            (analysis.baseline, by_arm.baseline),
        )
        if starts
    )
    shows = f"{told}. " + (
        "The arms ran one after the other." if blocked else "The arms' runs are interleaved."
    )
    return Chart(
        name="timeline",
        heading=heading,
        how=how,
        shows=shows,
        spec=_timeline(by_arm, (analysis.candidate, analysis.baseline)),
    )


def _timeline(by_arm: Starts, arms: tuple[str, str]) -> dict[str, Any]:
    many = by_arm.timed > MOST_STARTS
    marks = []
    for row, side, starts in zip(
        (1.0, 0.0), SIDES, (by_arm.candidate, by_arm.baseline), strict=False
    ):
        most = max((start.runs for start in starts), default=1)
        for start in starts:
            drawn = {
                "at": round(start.at * 1000),
                "low": row - 0.25,
                "high": row + 0.25,
                "side": side,
                "said": counted(start.runs, "run")
                if start.task_id is None
                else shortened(start.task_id, NAME),
                "when": moment(start.at),
            }
            if many:
                drawn["until"] = round(start.until * 1000)
                drawn["share"] = round(0.15 + 0.85 * start.runs / most, 3)
            marks.append(drawn)
    names = [
        {"row": row + 0.3, "said": shortened(arm, 40)}
        for row, arm in zip((1.0, 0.0), arms, strict=True)
    ]
    rows = {"domain": [-0.35, 1.65], "nice": False, "zero": False}
    place = {
        "x": field("at:T", scale={"type": "utc", "padding": 6}, title="start of the run (UTC)"),
        "y": field("low:Q", scale=rows, axis=None, title=None),
        "y2": field("high"),
    }
    shade = {"x2": field("until"), "opacity": field("share:Q", scale=None, legend=None)}
    look = mark("rect") if many else mark("rule", strokeWidth=2, opacity=0.75)
    hint = [
        field("said:N", title="runs" if many else "task"),
        field("when:N", title="start (UTC)"),
    ]
    place |= shade if many else {}
    return chart_spec(
        layer("starts", "starts", look, **place, color=by_side(), tooltip=hint),
        _names("names", "names", "row:Q"),
        datasets={"starts": marks, "names": names},
        height=200,
    )
