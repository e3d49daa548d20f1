"""The calibration as a page: how often each way names a winner where there is none."""

from typing import Any

from twoarm.render.calibrate import WAYS, sheet_of
from twoarm.render.html import require_extra
from twoarm.render.page import sheet_page
from twoarm.render.page.marks import (
    CANDIDATE,
    INK,
    MUTED,
    SURFACE,
    Chart,
    chart_spec,
    field,
    layer,
    mark,
)
from twoarm.result.calibration_file import Calibration


def render(calibration: Calibration) -> str:
    """The whole page."""
    require_extra()
    sheet = sheet_of(calibration)
    chart = Chart(
        name="winners",
        heading="winners named where there is none",
        how="the share of trials; a bar allows for suites like this one",
        shows=f"{sheet.lines[0].text}.",
        wide=True,
        spec=_spec(calibration),
    )
    return sheet_page.render(sheet, "calibration", [chart])


def _spec(calibration: Calibration) -> dict[str, Any]:
    rows = []
    for name, way in WAYS.items():
        share = getattr(calibration.false_winners, name)
        interval = f"{share.low:.1%} to {share.high:.1%}"
        ends = {"low": share.low, "high": share.high, "said": interval}
        rows.append({"way": way, "at": share.share, **ends})
    nominal = 1.0 - calibration.level
    y = field("way:N", sort=None, scale={"domain": list(WAYS.values())}, title=None)
    x = field("at:Q", title="share of trials", axis={"format": ".0%"})
    hint = [
        field("way:N", title="by"),
        field("at:Q", title="share", format=".1%"),
        field("said:N", title="range"),
    ]
    bar = mark("rule", strokeWidth=3, color=INK)
    ends = {"x": field("low:Q"), "x2": field("high")}
    dot = mark("point", filled=True, size=150, opacity=1, stroke=SURFACE, color=CANDIDATE)
    return chart_spec(
        layer("nominal", "nominal", mark("rule", strokeDash=[4, 4], color=MUTED), x=field("at:Q")),
        layer("ranges", "rows", bar, **ends, y=y, tooltip=hint),
        layer("shares", "rows", dot, x=x, y=y, tooltip=hint),
        datasets={"rows": rows, "nominal": [{"at": nominal}]},
        height=110,
    )
