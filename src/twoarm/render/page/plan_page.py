"""The plan as a page: power against dollars."""

from typing import Any

from twoarm.render.html import require_extra
from twoarm.render.page import sheet_page
from twoarm.render.page.marks import (
    BASELINE,
    CANDIDATE,
    MUTED,
    Chart,
    chart_spec,
    field,
    layer,
    mark,
    short,
)
from twoarm.render.plan import amount, label, sheet_of
from twoarm.result.plan_advice import percent, what_to_run
from twoarm.result.plan_file import Plan
from twoarm.text.number_format import dollars

_LINES = {"tasks": "more tasks", "repeats": "more repeats of these tasks"}


def render(plan: Plan) -> str:
    """The whole page."""
    require_extra()
    return sheet_page.render(sheet_of(plan), "plan", [_chart(plan)])


def _chart(plan: Plan) -> Chart:
    priced = plan.pair_cost_usd is not None
    return Chart(
        name="power",
        heading=f"power against {'dollars' if priced else 'runs'}",
        how=(
            f"the chance{'' if plan.assumed else ', as expected,'} that a change of "
            f"{amount(plan, plan.detect)} in {label(plan)} is clear; the line across is what is "
            f"wanted, {percent(plan.wanted_power)}"
        ),
        shows=f"{what_to_run(plan)}.",
        wide=True,
        spec=_spec(plan, priced),
    )


def _spec(plan: Plan, priced: bool) -> dict[str, Any]:
    points = [
        {
            "at": short(point.usd if point.usd is not None else point.more_runs),
            "power": short(point.power),
            "way": _LINES[point.kind],
            "design": f"{point.tasks:,} tasks x {point.repeats:,} repeats",
            "cost": "-" if point.usd is None else dollars(point.usd),
            "chance": percent(point.power),
        }
        for point in plan.curve
    ]
    title = "dollars" if priced else "runs"
    title = title if plan.assumed else f"additional {title}"
    x = field("at:Q", title=title, axis={"format": "$,~f" if priced else ",~f"})
    y = field("power:Q", title="power", axis={"format": ".0%"}, scale={"domain": [0, 1]})
    ways = list(_LINES.values())
    legend = {"title": None, "orient": "bottom", "labelColor": MUTED, "labelFontSize": 12}
    colors = {"domain": ways, "range": [CANDIDATE, BASELINE]}
    line = {"x": x, "y": y, "color": field("way:N", scale=colors, legend=legend)}
    shapes = {"domain": ways, "range": ["circle", "square"]}
    hint = [
        field("way:N", title="way"),
        field("design:N", title="design"),
        field("cost:N", title="dollars"),
        field("chance:N", title="power"),
    ]
    return chart_spec(
        layer("wanted", "wanted", mark("rule", strokeDash=[4, 4], color=MUTED), y=field("power:Q")),
        layer("lines", "points", mark("line"), **line),
        layer(
            "points",
            "points",
            mark("point", filled=True, size=70, opacity=1),
            **line,
            shape=field("way:N", scale=shapes, legend=legend),
            tooltip=hint,
        ),
        datasets={"points": points, "wanted": [{"power": plan.wanted_power}]},
        height=300,
    )
