"""The charts of the page as Vega-Lite, made with Altair; each with a text that says the same.

Colours are variables of the page's style, so that light, dark and paper need one drawing. Blue
with circles is the candidate, or a task that favours it; orange with squares is the baseline.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from twoarm.drawing import MOST_STARTS
from twoarm.figures import change, figure
from twoarm.metric import METRICS, SUCCESS, Metric
from twoarm.quote import counted, shortened
from twoarm.render.reading import SCOPES
from twoarm.render.sections import GATES

if TYPE_CHECKING:
    from twoarm.analysis import Analysis
    from twoarm.drawing import MetricDeltas, MetricSpread, Spread, Starts
    from twoarm.evidence.interval import Estimate

# More tasks than this have no room for their names: they stand side by side, in order.
NAMED_TASKS = 40
_NAME = 34

_INK, _MUTED, _GRID = "var(--ink)", "var(--muted)", "var(--grid)"
_SURFACE = "var(--surface)"
_CANDIDATE, _BASELINE = "var(--candidate)", "var(--baseline)"
_SIDES = ("candidate", "baseline", "tied")

_AXIS_FORMAT = {"seconds": ",~f", "usd": "$,~f", "tokens": "~s", "points": "+.0f", "count": "~s"}
_METRICS = {metric.name: metric for metric in METRICS}

CONFIG: dict[str, Any] = {
    "aria": False,
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _MUTED,
        "titleColor": _MUTED,
        "titleFontWeight": "normal",
        "gridColor": _GRID,
        "domainColor": _GRID,
        "tickColor": _GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelOverlap": True,
        "tickCount": 5,
        # Vega writes a zero among thousands as 0k.
        "labelExpr": "datum.value === 0 ? '0' : datum.label",
    },
    "axisY": {"labelLimit": 220},
    "text": {"color": _INK, "fontSize": 12},
}


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart, how to read it, and what it shows in words; without a spec only the words."""

    name: str
    heading: str
    how: str
    shows: str
    wide: bool
    spec: dict[str, Any] | None


def forest(analysis: "Analysis") -> Iterator[Chart]:
    """The gates: the difference, its intervals, and the line of no difference."""
    for gate in analysis.gates:
        label, unit = GATES[gate.name]
        better = "right" if unit == SUCCESS.unit else "left"
        if gate.candidate is None or gate.baseline is None:
            shows = "Not measured in at least one arm: nothing to draw."
            yield Chart(name=gate.name, heading=label, how="", shows=shows, wide=False, spec=None)
            continue
        moved = gate.candidate - gate.baseline
        found: Estimate | None = None
        scopes = ["tasks_like_these", "these_tasks"]
        level = ""
        if analysis.evidence is not None:
            found = analysis.evidence.gates[gate.name].difference
            # On the tasks that both arms have, as the bars are.
            moved = moved if found.estimate is None else found.estimate
            level = f"{analysis.evidence.level * 100:g}% interval"
            if analysis.evidence.headline == "these_tasks":
                scopes.reverse()
        scale = 100.0 if unit == SUCCESS.unit else 1.0
        rows, told = [], []
        for scope in scopes:
            interval = getattr(found, scope) if found is not None else None
            if interval is not None:
                ends = f"{change(interval.low, unit)} to {change(interval.high, unit)}"
                told.append(f"{level} for {SCOPES[scope]} {ends}")
                rows.append(
                    {
                        "row": SCOPES[scope],
                        "low": interval.low * scale,
                        "high": interval.high * scale,
                        "said": ends,
                    }
                )
        if not rows:
            rows = [{"row": "no interval", "said": "no interval"}]
        for row in rows:
            row |= {"at": moved * scale, "side": _side(moved, unit), "moved": change(moved, unit)}
        why = f" {' '.join(found.caveats)}" if found is not None and found.caveats else ""
        yield Chart(
            name=gate.name,
            heading=label,
            how=f"{better} of zero is better for the candidate",
            shows=f"{label}: {change(moved, unit)}; {'; '.join(told) or 'no interval'}.{why}",
            wide=False,
            spec=_forest(rows, "points" if unit == SUCCESS.unit else unit),
        )


def _forest(rows: list[dict[str, Any]], unit: str) -> dict[str, Any]:
    import altair as alt

    y = alt.Y("row:N", sort=[row["row"] for row in rows]).title(None)
    x = alt.X("at:Q").title(f"{unit}, candidate minus baseline").axis(format=_AXIS_FORMAT[unit])
    hint = [
        alt.Tooltip("moved:N", title="difference"),
        alt.Tooltip("row:N", title="interval for"),
        alt.Tooltip("said:N", title="interval"),
    ]
    layers = [_zero_line()]
    if "low" in rows[0]:
        end: dict[str, Any] = {"color": _INK, "thickness": 2, "size": 12}
        layers += [
            _layer("intervals", "rows")
            .mark_rule(strokeWidth=3, color=_INK)
            .encode(x=alt.X("low:Q"), x2="high:Q", y=y, tooltip=hint),
            _layer("lows", "rows").mark_tick(**end).encode(x=alt.X("low:Q"), y=y),
            _layer("highs", "rows").mark_tick(**end).encode(x=alt.X("high:Q"), y=y),
        ]
    layers.append(
        _layer("differences", "rows")
        .mark_point(filled=True, size=150, opacity=1, stroke=_SURFACE, strokeWidth=1.5)
        .encode(x=x, y=y, color=_by_side(), shape=_shape_by_side(), tooltip=hint)
    )
    return _spec(*layers, datasets={"rows": rows}, height=26 * len(rows))


def deltas(analysis: "Analysis") -> Iterator[Chart]:
    """Every task's deltas, in order of their mean, for each metric."""
    for found in analysis.drawing.deltas:
        metric = _METRICS[found.metric]
        heading = f"{metric.label}, candidate minus baseline"
        name = f"delta-{metric.name}"
        if not found.tasks:
            shows = f"No pair has {metric.label} in both arms: not measured, so nothing is drawn."
            yield Chart(name=name, heading=heading, how="", shows=shows, wide=False, spec=None)
            continue
        lower = sum(task.mean < 0 for task in found.tasks)
        higher = sum(task.mean > 0 for task in found.tasks)
        least, most = found.tasks[0], found.tasks[-1]
        shows = (
            f"{lower} of {counted(len(found.tasks), 'task')} lower with the candidate, {higher} "
            f"higher; task means from {change(least.mean, metric.unit)} "
            f"({shortened(least.task_id, _NAME)}) to {change(most.mean, metric.unit)} "
            f"({shortened(most.task_id, _NAME)})."
        )
        yield Chart(
            name=name,
            heading=heading,
            how=_delta_how(found),
            shows=shows,
            wide=False,
            spec=_deltas(found, metric),
        )


def _spans(found: "MetricDeltas") -> bool:
    """Whether there are too many pairs for a dot each, and too many tasks for a few of them."""
    drawn = sum(len(task.points) for task in found.tasks)
    return drawn < found.pair_count and len(found.tasks) > NAMED_TASKS


def _delta_how(found: "MetricDeltas") -> str:
    drawn = sum(len(task.points) for task in found.tasks)
    if _spans(found):
        how = (
            "A mark is the mean of a task, its line reaches from the smallest to the largest of "
            f"its pairs ({found.pair_count:,} in all)."
        )
    else:
        how = "A small dot is one pair, a large mark the mean of its task."
        if drawn < found.pair_count:
            how += (
                f" {drawn:,} of {found.pair_count:,} pairs are drawn: of each task the smallest, "
                "the largest and some evenly between."
            )
    if len(found.tasks) < found.task_count:
        how += f" {len(found.tasks):,} of {found.task_count:,} tasks are drawn, evenly by rank."
    return how


def _deltas(found: "MetricDeltas", metric: Metric) -> dict[str, Any]:
    import altair as alt

    labels = _labels([task.task_id for task in found.tasks])
    spans = _spans(found)
    pairs, means = [], []
    for rank, (task, label) in enumerate(zip(found.tasks, labels, strict=True), 1):
        place = {"task": label, "rank": rank}
        for point in () if spans else task.points:
            said = change(point, metric.unit)
            side = _side(point, metric.unit)
            pairs.append({**place, "at": _short(point), "side": side, "said": said})
        said = f"{change(task.mean, metric.unit)} over {counted(task.pairs, 'pair')}"
        mean = {"at": _short(task.mean), "side": _side(task.mean, metric.unit), "said": said}
        if spans:
            mean |= {"low": _short(task.points[0]), "high": _short(task.points[-1])}
        means.append(place | mean)
    axis: dict[str, Any] = {"format": _AXIS_FORMAT[metric.unit]}
    by_task, value = _axes(alt, labels, axis, _title(metric))
    task_hint = alt.Tooltip("task:N", title="task")
    few = len(labels) <= NAMED_TASKS
    if spans:
        spread = (
            _layer("spans", "means")
            .mark_rule(opacity=0.45)
            .encode(**by_task, y=alt.Y("low:Q"), y2="high:Q", color=_by_side())
        )
    else:
        spread = (
            _layer("pairs", "pairs")
            .mark_point(filled=True, size=26 if few else 8, opacity=0.6)
            .encode(
                **by_task,
                **value,
                color=_by_side(),
                shape=_shape_by_side(),
                tooltip=[task_hint, alt.Tooltip("said:N", title="pair")],
            )
        )
    layers = [
        _zero_line(upright=few),
        spread,
        _layer("means", "means")
        .mark_point(
            filled=True,
            size=110 if few else 22,
            opacity=1,
            stroke=_SURFACE,
            strokeWidth=1.5 if few else 0,
        )
        .encode(
            **by_task,
            **value,
            color=_by_side(),
            shape=_shape_by_side(),
            tooltip=[task_hint, alt.Tooltip("said:N", title="task mean")],
        ),
    ]
    return _spec(*layers, datasets={"pairs": pairs, "means": means}, height=_height(labels))


def successes(analysis: "Analysis") -> Chart:
    """The success rate of every task in both arms, and the pairs that flipped."""
    found = analysis.drawing.successes
    heading = "success rate per task"
    if not found.tasks:
        shows = "No task has runs in both arms: nothing to draw."
        return Chart(name="success", heading=heading, how="", shows=shows, wide=False, spec=None)
    helped = sum(task.candidate > task.baseline for task in found.tasks)
    hurt = sum(task.candidate < task.baseline for task in found.tasks)
    gained = sum(task.gained for task in found.tasks)
    lost = sum(task.lost for task in found.tasks)
    how = "A line joins the two arms of a task."
    how += (
        " ▲ counts the pairs that flipped from failed to passed with the candidate, ▼ those that "
        "flipped from passed to failed."
        if len(found.tasks) <= NAMED_TASKS
        else " Tasks stand side by side, the most helped first; the mark is at the candidate."
    )
    if len(found.tasks) < found.task_count:
        how += f" {len(found.tasks):,} of {found.task_count:,} tasks are drawn, evenly by rank."
    return Chart(
        name="success",
        heading=heading,
        how=how,
        shows=f"Of {counted(len(found.tasks), 'task')}, {helped} succeed more often with the "
        f"candidate, {hurt} less often, {len(found.tasks) - helped - hurt} as often; "
        f"{counted(gained, 'pair')} flipped to passed and {lost} to failed.",
        wide=True,
        spec=_successes(analysis),
    )


def _successes(analysis: "Analysis") -> dict[str, Any]:
    import altair as alt

    tasks = analysis.drawing.successes.tasks
    labels = _labels([task.task_id for task in tasks])
    rows = [
        {
            "task": label,
            "rank": rank,
            "at": task.candidate,
            "from": task.baseline,
            "side": _side(task.candidate - task.baseline, SUCCESS.unit),
            "said": f"{task.candidate:.1%} against {task.baseline:.1%}",
            "flips": " ".join(
                f"{mark}{count}" for mark, count in (("▲", task.gained), ("▼", task.lost)) if count
            ),
            "gained": task.gained,
            "lost": task.lost,
        }
        for rank, (task, label) in enumerate(zip(tasks, labels, strict=True), 1)
    ]
    few = len(labels) <= NAMED_TASKS
    by_task, value = _axes(alt, labels, {"format": ".0%"}, "success rate", domain=[0, 1])
    start = {("x" if few else "y"): (alt.X if few else alt.Y)("from:Q")}
    end = {"x2" if few else "y2": "at:Q"}
    hint = [
        alt.Tooltip("task:N", title="task"),
        alt.Tooltip("said:N", title="candidate against baseline"),
        alt.Tooltip("gained:Q", title="flipped to passed"),
        alt.Tooltip("lost:Q", title="flipped to failed"),
    ]
    layers = [
        _layer("joins", "tasks")
        .mark_rule(strokeWidth=3 if few else 1, opacity=0.55)
        .encode(**by_task, **start, **end, color=_by_side(), tooltip=hint)
    ]
    if few:
        layers += [
            _layer("baselines", "tasks")
            .mark_point(shape="square", size=130, strokeWidth=2.5, opacity=1, color=_BASELINE)
            .encode(**by_task, **start, tooltip=hint),
            _layer("candidates", "tasks")
            .mark_point(filled=True, size=70, opacity=1, color=_CANDIDATE)
            .encode(**by_task, **value, tooltip=hint),
            _layer("flips", "tasks")
            .mark_text(align="left", dx=12, color=_INK)
            .encode(**by_task, x=alt.value("width"), text="flips:N"),
        ]
    else:
        layers.append(
            _layer("candidates", "tasks")
            .mark_point(filled=True, size=20, opacity=0.9)
            .encode(**by_task, **value, color=_by_side(), shape=_shape_by_side(), tooltip=hint)
        )
    padding = {"left": 5, "top": 5, "bottom": 5, "right": 62 if few else 5}
    return _spec(*layers, datasets={"tasks": rows}, height=_height(labels), padding=padding)


def spreads(analysis: "Analysis") -> Iterator[Chart]:
    """How the runs of each arm spread, on a logarithmic axis."""
    for found in analysis.drawing.spreads:
        metric = _METRICS[found.metric]
        name, heading = f"spread-{metric.name}", metric.label
        sides = [one for one in (found.candidate, found.baseline) if one is not None]
        if not sides:
            shows = f"Nobody measured {metric.label}, or it is zero in every run: nothing is drawn."
            yield Chart(name=name, heading=heading, how="", shows=shows, wide=False, spec=None)
            continue
        told = [
            f"{shortened(arm, _NAME)}: {_told(side, metric)}"
            for arm, side in (
                (analysis.candidate, found.candidate),
                (analysis.baseline, found.baseline),
            )
        ]
        how = "A dot is a run, the band holds the middle half, the line is the median."
        drawn, runs = sum(len(s.points) for s in sides), sum(s.runs for s in sides)
        zeros = sum(s.not_positive for s in sides)
        if drawn < runs - zeros:
            how += f" {drawn:,} of {runs:,} runs are drawn, evenly by rank."
        if zeros:
            how += f" {counted(zeros, 'run')} at zero have no place on this axis."
        yield Chart(
            name=name,
            heading=heading,
            how=how,
            shows=f"{'; '.join(told)}.",
            wide=False,
            spec=_spread(found, metric, (analysis.candidate, analysis.baseline)),
        )


def _told(side: "Spread | None", metric: Metric) -> str:
    if side is None:
        return "not measured"
    low, middle, high = (figure(value, metric.unit) for value in side.quartiles)
    return f"median {middle}, middle half {low} to {high}, {counted(side.runs, 'run')}"


def _spread(found: "MetricSpread", metric: Metric, arms: tuple[str, str]) -> dict[str, Any]:
    import altair as alt

    points, bands = [], []
    for row, arm, side, spread in zip(
        (1.0, 0.0), arms, _SIDES[:2], (found.candidate, found.baseline), strict=True
    ):
        if spread is None:
            continue
        for number, point in enumerate(spread.points):
            # Steps of the golden ratio spread the dots evenly, the same way each time.
            shift = (number * 0.618034) % 1.0 - 0.5
            points.append(
                {
                    "at": _short(point),
                    "row": round(row + 0.4 * shift, 3),
                    "side": side,
                    "said": figure(point, metric.unit),
                }
            )
        low, middle, high = spread.quartiles
        band = {"low": low, "middle": middle, "high": high, "side": side}
        bands.append(
            {
                **band,
                "from": row - 0.28,
                "to": row + 0.28,
                "top": row + 0.38,
                "said": f"{shortened(arm, 24)}: median {figure(middle, metric.unit)}",
            }
        )
    y = alt.Y("row:Q").scale(domain=[-0.4, 1.62], nice=False, zero=False).axis(None).title(None)
    x = (
        alt.X("at:Q")
        .scale(type="log", nice=False, padding=12)
        .axis(format=_AXIS_FORMAT[metric.unit])
        .title(f"{_title(metric)}, logarithmic")
    )
    height = {"y": alt.Y("from:Q").axis(None).title(None), "y2": "to:Q"}
    return _spec(
        _layer("bands", "bands")
        .mark_rect(opacity=0.22)
        .encode(x=alt.X("low:Q"), x2="high:Q", **height, color=_by_side()),
        _layer("points", "points")
        .mark_point(filled=True, size=22, opacity=0.6)
        .encode(
            x=x,
            y=y,
            color=_by_side(),
            shape=_shape_by_side(),
            tooltip=[alt.Tooltip("said:N", title=metric.label)],
        ),
        _layer("medians", "bands")
        .mark_rule(strokeWidth=3, color=_INK)
        .encode(x=alt.X("middle:Q"), **height),
        _layer("arms", "bands")
        .mark_text(align="left", baseline="bottom", color=_INK)
        .encode(x=alt.value(0), y=alt.Y("top:Q").axis(None).title(None), text="said:N"),
        datasets={"points": points, "bands": bands},
        height=170,
    )


def costs(analysis: "Analysis") -> Chart:
    """What a run costs against how often it succeeds."""
    heading = "cost against success"
    points = analysis.drawing.costs
    arms = [
        (candidate, summary)
        for candidate, summary in zip((True, False), analysis.arm_summaries, strict=True)
        if summary.median_cost_usd is not None and summary.success_rate is not None
    ]
    if not points:
        shows = "Nobody measured cost: nothing is drawn."
        return Chart(name="cost", heading=heading, how="", shows=shows, wide=False, spec=None)
    told = [
        f"{shortened(summary.arm, _NAME)}: {figure(summary.success_rate, 'points')} succeed at a "
        f"median of {figure(summary.median_cost_usd, 'usd')} a run"
        for _, summary in arms
    ]
    return Chart(
        name="cost",
        heading=heading,
        how="A small mark is a task in one arm, a large one the whole arm. Up and to the left is "
        "better: more success for less money.",
        shows=f"{'; '.join(told)}.",
        wide=False,
        spec=_costs(analysis),
    )


def _costs(analysis: "Analysis") -> dict[str, Any]:
    import altair as alt

    tasks: list[dict[str, Any]] = [
        {
            "task": shortened(point.task_id, _NAME),
            "at": _short(point.median_cost_usd),
            "rate": _short(point.success_rate),
            "side": _SIDES[not point.candidate],
            "said": f"{figure(point.success_rate, 'points')} at "
            f"{figure(point.median_cost_usd, 'usd')}",
        }
        for point in analysis.drawing.costs
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
        for side, summary in zip(_SIDES, analysis.arm_summaries, strict=False)
        if summary.median_cost_usd is not None
    ]
    positive = all(point["at"] > 0 for point in (*tasks, *arms))
    x = (
        alt.X("at:Q")
        .scale(type="log" if positive else "linear", nice=False, padding=24)
        .axis(format="$,~f")
        .title(f"median cost of a run in US dollars{', logarithmic' if positive else ''}")
    )
    y = alt.Y("rate:Q").scale(domain=[0, 1]).axis(format=".0%").title("success rate")
    hint = [
        alt.Tooltip("task:N", title="task"),
        alt.Tooltip("said:N", title="success and median cost"),
    ]
    look = {"color": _by_side(), "shape": _shape_by_side(), "tooltip": hint}
    return _spec(
        _layer("tasks", "tasks")
        .mark_point(filled=True, size=46, opacity=0.65)
        .encode(x=x, y=y, **look),
        _layer("arms", "arms")
        .mark_point(filled=True, size=320, opacity=1, stroke=_SURFACE, strokeWidth=2)
        .encode(x=x, y=y, **look),
        datasets={"tasks": tasks, "arms": arms},
        height=240,
    )


def timeline(analysis: "Analysis") -> Chart:
    """When the runs of each arm started."""
    heading = "start of the runs"
    found = analysis.drawing.starts
    if not found.timed:
        why = (
            "start times are read with the evidence only"
            if analysis.evidence is None
            else "no run has `started_at_utc`"
        )
        shows = f"Not drawn: {why}."
        return Chart(name="timeline", heading=heading, how="", shows=shows, wide=False, spec=None)
    how = "Both rows should look alike: an arm that ran first also met other conditions."
    if found.timed > MOST_STARTS:
        how += " Runs are counted by stretches of time; the darker, the more."
    if found.untimed:
        how += f" {counted(found.untimed, 'run')} without a start time are not drawn."
    blocked = any(caveat.code == "separate_time_blocks" for caveat in analysis.caveats)
    told = "; ".join(
        f"{shortened(arm, _NAME)} from {_moment(starts[0].at)} to {_moment(starts[-1].until)}"
        for arm, starts in (
            (analysis.candidate, found.candidate),
            (analysis.baseline, found.baseline),
        )
        if starts
    )
    shows = f"{told}. " + (
        "The arms ran one after the other." if blocked else "The arms do not stand in blocks."
    )
    return Chart(
        name="timeline",
        heading=heading,
        how=how,
        shows=shows,
        wide=False,
        spec=_timeline(found, (analysis.candidate, analysis.baseline)),
    )


def _timeline(found: "Starts", arms: tuple[str, str]) -> dict[str, Any]:
    import altair as alt

    many = found.timed > MOST_STARTS
    marks = []
    for row, side, starts in zip(
        (1.0, 0.0), _SIDES, (found.candidate, found.baseline), strict=False
    ):
        most = max((start.runs for start in starts), default=1)
        for start in starts:
            mark = {
                "at": round(start.at * 1000),
                "low": row - 0.25,
                "high": row + 0.25,
                "side": side,
                "said": counted(start.runs, "run")
                if start.task_id is None
                else shortened(start.task_id, _NAME),
                "when": _moment(start.at),
            }
            if many:
                mark["until"] = round(start.until * 1000)
                mark["share"] = round(0.15 + 0.85 * start.runs / most, 3)
            marks.append(mark)
    names = [
        {"row": row + 0.3, "said": shortened(arm, 40)}
        for row, arm in zip((1.0, 0.0), arms, strict=True)
    ]
    y = alt.Y("low:Q").scale(domain=[-0.35, 1.65], nice=False, zero=False).axis(None).title(None)
    x = alt.X("at:T").scale(type="utc", padding=6).title("start of the run (UTC)")
    hint = [
        alt.Tooltip("said:N", title="runs" if many else "task"),
        alt.Tooltip("when:N", title="start (UTC)"),
    ]
    drawn = (
        _layer("starts", "starts")
        .mark_rect()
        .encode(
            x=x,
            x2="until:T",
            y=y,
            y2="high:Q",
            color=_by_side(),
            opacity=alt.Opacity("share:Q").scale(None).legend(None),
            tooltip=hint,
        )
        if many
        else _layer("starts", "starts")
        .mark_rule(strokeWidth=2, opacity=0.75)
        .encode(x=x, y=y, y2="high:Q", color=_by_side(), tooltip=hint)
    )
    return _spec(
        drawn,
        _layer("names", "names")
        .mark_text(align="left", baseline="bottom", color=_INK)
        .encode(x=alt.value(0), y=alt.Y("row:Q").axis(None).title(None), text="said:N"),
        datasets={"starts": marks, "names": names},
        height=200,
    )


def _axes(
    alt: Any, labels: list[str], axis: dict[str, Any], title: str, domain: list[int] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tasks downwards with their names while there is room for them, else side by side."""
    few = len(labels) <= NAMED_TASKS
    value = (alt.X if few else alt.Y)("at:Q").axis(**axis).title(title)
    if domain:
        value = value.scale(domain=domain)
    if few:
        # Vega gathers a domain by names in an object, which has a `constructor` of its own.
        task = alt.Y("task:N", sort=None).scale(domain=labels)
        return {"y": task.title(None).axis(grid=True)}, {"x": value}
    rank = alt.X("rank:Q").title(f"{len(labels):,} tasks, in order")
    rank = rank.axis(labels=False, ticks=False, grid=False)
    return {"x": rank.scale(domain=[0, len(labels) + 1], nice=False)}, {"y": value}


def _height(labels: list[str]) -> int:
    return 22 * len(labels) if len(labels) <= NAMED_TASKS else 280


def _layer(name: str, points: str) -> Any:
    """A layer over one of the lists of points, under a name by which its marks can be found."""
    import altair as alt

    return alt.Chart(alt.NamedData(points), name=name)


def _zero_line(*, upright: bool = True) -> Any:
    import altair as alt

    line = _layer("zero", "zero").mark_rule(strokeWidth=1.5, color=_MUTED)
    return line.encode(**({"x": alt.X("at:Q")} if upright else {"y": alt.Y("at:Q")}))


def _by_side() -> Any:
    import altair as alt

    return (
        alt.Color("side:N").scale(domain=_SIDES, range=[_CANDIDATE, _BASELINE, _MUTED]).legend(None)
    )


def _shape_by_side() -> Any:
    import altair as alt

    return (
        alt.Shape("side:N").scale(domain=_SIDES, range=["circle", "square", "diamond"]).legend(None)
    )


def _spec(*layers: Any, datasets: dict[str, list[dict[str, Any]]], **size: Any) -> dict[str, Any]:
    """The layers as one Vega-Lite chart of the width of its place on the page.

    The points are added last: Altair would check every one of them against its schema.
    """
    import altair as alt

    spec: dict[str, Any] = (
        alt.layer(*layers)
        .properties(width="container", autosize={"type": "fit-x", "contains": "padding"}, **size)
        .to_dict()
    )
    # The page has one config for all charts, and no network to fetch a schema from.
    for unwanted in ("config", "$schema", "datasets"):
        spec.pop(unwanted, None)
    return {**spec, "datasets": {**datasets, "zero": [{"at": 0}]}}


def _side(moved: float, unit: str) -> str:
    """Whom a difference favours."""
    if moved == 0:
        return "tied"
    higher = unit == SUCCESS.unit
    return "candidate" if (moved > 0) == higher else "baseline"


def _title(metric: Metric) -> str:
    return {"seconds": "seconds", "usd": "US dollars"}.get(metric.unit, metric.label)


def _short(value: float) -> float:
    """Six digits are more than a screen can show."""
    return float(f"{value:.6g}")


def _labels(names: list[str]) -> list[str]:
    """Names short enough for an axis, and still all different."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        label = shortened(name, _NAME)
        seen[label] = seen.get(label, 0) + 1
        labels.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return labels


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%d %H:%M:%S")
