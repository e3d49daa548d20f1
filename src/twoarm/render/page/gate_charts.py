"""The gates as charts: the difference, its intervals, and the line of no difference."""

from collections.abc import Iterator
from typing import Any

from twoarm.evidence.results import Estimate
from twoarm.render.evidence import level as interval_level
from twoarm.render.page.marks import (
    AXIS_FORMAT,
    INK,
    SURFACE,
    Chart,
    by_side,
    chart_spec,
    field,
    layer,
    mark,
    shape_by_side,
    side_of,
    zero_line,
)
from twoarm.render.summary import SCOPES, Amount, Summary
from twoarm.result.analysis import Analysis
from twoarm.runs.metric import SUCCESS
from twoarm.text.number_format import change

# Which arm a mark of the summary favors; every other mark favors neither.
_SIDES = {"better": "candidate", "worse": "baseline"}


def forest(analysis: Analysis) -> Iterator[Chart]:
    """The gates: the difference, its intervals, and the line of no difference."""
    for gate in analysis.gates:
        label, unit = gate.rule.label, gate.rule.metric.unit
        better = "right" if unit == SUCCESS.unit else "left"
        if gate.candidate is None or gate.baseline is None:
            shows = "Not measured in at least one arm: nothing to draw."
            yield Chart(name=gate.name, heading=label, shows=shows)
            continue
        moved = gate.candidate - gate.baseline
        difference: Estimate | None = None
        scopes = ["tasks_like_these", "these_tasks"]
        level = ""
        if analysis.evidence is not None:
            difference = analysis.evidence.gates[gate.name].difference
            # On the tasks that both arms have, as the bars are.
            moved = moved if difference.estimate is None else difference.estimate
            level = interval_level(analysis.evidence)
            if analysis.evidence.headline == "these_tasks":
                scopes.reverse()
        scale = 100.0 if unit == SUCCESS.unit else 1.0
        rows, told = [], []
        for scope in scopes:
            interval = getattr(difference, scope) if difference is not None else None
            if interval is not None:
                ends = f"{change(interval.low, unit)} to {change(interval.high, unit)}"
                told.append(f"{level} for {SCOPES[scope]} {ends}")
                rows.append(
                    {
                        "row": SCOPES[scope],
                        "low": interval.low * scale,
                        "high": interval.high * scale,
                        "said": ends,
                        "side": _side(moved, interval.low, interval.high, unit),
                    }
                )
        if not rows:
            rows = [{"row": "no interval", "said": "no interval", "side": side_of(moved, unit)}]
        for row in rows:
            row |= {"at": moved * scale, "moved": change(moved, unit)}
        why = (
            "".join(f" {reason.message}" for reason in difference.withheld)
            if difference is not None
            else ""
        )
        yield Chart(
            name=gate.name,
            heading=label,
            how=f"{better} of zero is better for the candidate",
            shows=f"{label}: {change(moved, unit)}; {'; '.join(told) or 'no interval'}.{why}",
            spec=_forest(rows, "points" if unit == SUCCESS.unit else unit),
        )


def _side(moved: float, low: float, high: float, unit: str) -> str:
    """Which arm a difference favors; neither, if its interval includes no difference."""
    return "tied" if low <= 0.0 <= high else side_of(moved, unit)


def changes(summary: Summary) -> Chart:
    """The figures of the summary: each change, its interval, and whether it is clear."""
    drawn = [amount for amount in summary.amounts if amount.at is not None]
    heading = f"{summary.change}, with its {summary.level}"
    if not drawn:
        shows = "No figure has a change that could be drawn."
        return Chart(name="gates", heading=heading, shows=shows)
    rows = [
        {
            "row": amount.label,
            "at": amount.at,
            "low": amount.low,
            "high": amount.high,
            "side": _SIDES.get(amount.mark, "tied"),
            "said": f"{amount.change}, {amount.interval}",
        }
        for amount in drawn
    ]
    return Chart(
        name="gates",
        heading=heading,
        how=f"{_in_points(drawn)} in points: right is better. All else in percent: left is better. "
        "Gray is not clear.",
        shows="; ".join(
            f"{page_label(amount)}: {amount.change}, {amount.interval}" for amount in drawn
        )
        + ".",
        spec=_changes(rows),
    )


def _in_points(drawn: list[Amount]) -> str:
    """What is drawn in points."""
    scored = any(amount.points and amount.gate is None for amount in drawn)
    return "Success and score" if scored else "Success"


def page_label(amount: Amount) -> str:
    """What a figure is called where there is room for all of its name."""
    return amount.label if amount.gate is None else amount.gate.rule.label


def _changes(rows: list[dict[str, Any]]) -> dict[str, Any]:
    y = field("row:N", sort=[row["row"] for row in rows], title=None)
    x = field("at:Q", title="points or percent", axis={"format": "+~f"})
    hint = [field("row:N", title="figure"), field("said:N", title="change")]
    ranged = [row for row in rows if row["low"] is not None]
    layers = [zero_line()]
    if ranged:
        bar = mark("rule", strokeWidth=3, color=INK)
        ends = {"x": field("low:Q"), "x2": field("high")}
        layers.append(layer("intervals", "ranged", bar, **ends, y=y, tooltip=hint))
    dot = mark("point", filled=True, size=130, opacity=1, stroke=SURFACE, strokeWidth=1.5)
    look = {"color": by_side(), "shape": shape_by_side(), "tooltip": hint}
    layers.append(layer("changes", "rows", dot, x=x, y=y, **look))
    return chart_spec(*layers, datasets={"rows": rows, "ranged": ranged}, height=26 * len(rows))


def _forest(rows: list[dict[str, Any]], unit: str) -> dict[str, Any]:
    y = field("row:N", sort=[row["row"] for row in rows], title=None)
    x = field("at:Q", title=f"{unit}, candidate minus baseline", axis={"format": AXIS_FORMAT[unit]})
    hint = [
        field("moved:N", title="difference"),
        field("row:N", title="interval for"),
        field("said:N", title="interval"),
    ]
    layers = [zero_line()]
    if "low" in rows[0]:
        bar = mark("rule", strokeWidth=3, color=INK)
        end = mark("tick", color=INK, thickness=2, size=12)
        ends = {"x": field("low:Q"), "x2": field("high")}
        layers += [
            layer("intervals", "rows", bar, **ends, y=y, tooltip=hint),
            layer("lows", "rows", end, x=field("low:Q"), y=y),
            layer("highs", "rows", end, x=field("high:Q"), y=y),
        ]
    dot = mark("point", filled=True, size=150, opacity=1, stroke=SURFACE, strokeWidth=1.5)
    look = {"color": by_side(), "shape": shape_by_side(), "tooltip": hint}
    layers.append(layer("differences", "rows", dot, x=x, y=y, **look))
    return chart_spec(*layers, datasets={"rows": rows}, height=26 * len(rows))
