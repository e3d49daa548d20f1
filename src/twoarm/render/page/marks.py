"""What the charts of the page are made of: colors, axes, layers and labels.

Colors are variables of the page's style, so that light, dark and paper need one drawing. Blue
with circles is the candidate, or a task that favors it; orange with squares is the baseline.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from twoarm.runs.metric import SUCCESS, Metric
from twoarm.text.escape import columns, shortened, visible

# More tasks than this have no room for their names: they stand side by side, in order.
NAMED_TASKS = 40
# How many columns of a task's name an axis has room for, and that of a phone.
NAME = 34
SHORT_NAME = 16
# Success is drawn from here on when no rate is below it.
_ZOOMED = 0.9

INK, MUTED, GRID = "var(--ink)", "var(--muted)", "var(--grid)"
SURFACE = "var(--surface)"
CANDIDATE, BASELINE = "var(--candidate)", "var(--baseline)"
_MORE = "…"
_WORDS = re.compile(r"[^\W_]+|[\W_]+")
# What is left out, with the signs around it.
_GAPS = re.compile(r"[\W_]*…[\W_]*")

SIDES = ("candidate", "baseline", "tied")

_TYPES = {"Q": "quantitative", "N": "nominal", "T": "temporal"}

AXIS_FORMAT = {"seconds": ",~f", "usd": "$,~f", "tokens": "~s", "points": "+~f", "count": "~s"}

CONFIG: dict[str, Any] = {
    "aria": False,
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelOverlap": True,
        "tickCount": 5,
        # Vega writes a zero among thousands as 0k.
        "labelExpr": "datum.value === 0 ? '0' : datum.label",
    },
    "axisY": {"labelLimit": 260},
    "text": {"color": INK, "fontSize": 12},
}


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart, how to read it, and what it shows in words; without a spec only the words."""

    name: str
    heading: str
    how: str = ""
    shows: str
    wide: bool = False
    spec: dict[str, Any] | None = None


def rate_domain(rates: Iterable[float]) -> list[float]:
    """The range in which rates are drawn: the whole axis, or its top if all of them are there."""
    return [_ZOOMED if min(rates, default=0.0) >= _ZOOMED else 0, 1]


def zoomed(domain: list[float]) -> str:
    """What is said of an axis that does not start at zero."""
    return f" The axis starts at {domain[0]:.0%}." if domain[0] else ""


def axes(
    labels: list[str],
    axis: dict[str, Any],
    title: str,
    domain: list[float] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tasks from top to bottom with their names while there is room, otherwise side by side."""
    value = field("at:Q", axis=axis, title=title)
    if domain:
        value["scale"] = {"domain": domain}
    if len(labels) <= NAMED_TASKS:
        # Vega gathers a domain by names in an object, which has a `constructor` of its own.
        task = field("task:N", sort=None, scale={"domain": labels}, title=None)
        return {"y": {**task, "axis": {"grid": True}}}, {"x": value}
    rank = field(
        "rank:Q",
        title=f"{len(labels):,} tasks, in order",
        axis={"labels": False, "ticks": False, "grid": False},
        scale={"domain": [0, len(labels) + 1], "nice": False},
    )
    return {"x": rank}, {"y": value}


def height(labels: list[str]) -> int:
    """How tall a chart of tasks is."""
    return 22 * len(labels) if len(labels) <= NAMED_TASKS else 280


def field(shorthand: str, **more: Any) -> dict[str, Any]:
    """What is drawn from a field of the points; `at:Q` has its type, the other end of it has none.

    Charts are written as plain Vega-Lite: Altair takes fifty times as long to make the same page.
    """
    name, _, kind = shorthand.partition(":")
    return {"field": name, **({"type": _TYPES[kind]} if kind else {}), **more}


def mark(kind: str, **look: Any) -> dict[str, Any]:
    """What stands for a point."""
    return {"type": kind, **look}


def layer(name: str, points: str, mark: dict[str, Any], **encoding: Any) -> dict[str, Any]:
    """A layer over one of the lists of points, under a name by which its marks can be found."""
    return {"name": name, "data": {"name": points}, "mark": mark, "encoding": encoding}


def zero_line(*, upright: bool = True) -> dict[str, Any]:
    """The line of no difference."""
    line = mark("rule", strokeWidth=1.5, color=MUTED)
    return layer("zero", "zero", line, **{"x" if upright else "y": field("at:Q")})


def by_side() -> dict[str, Any]:
    """The color of the arm that a mark belongs to or favors."""
    scale = {"domain": SIDES, "range": [CANDIDATE, BASELINE, MUTED]}
    return field("side:N", scale=scale, legend=None)


def shape_by_side() -> dict[str, Any]:
    """The shape of the same, so that color is never the only signal."""
    scale = {"domain": SIDES, "range": ["circle", "square", "diamond"]}
    return field("side:N", scale=scale, legend=None)


def chart_spec(
    *layers: dict[str, Any],
    datasets: dict[str, list[dict[str, Any]]],
    narrow: list[tuple[str, str]] | None = None,
    **size: Any,
) -> dict[str, Any]:
    """The layers as one Vega-Lite chart of the width of its place on the page.

    `narrow` has each label and what stands for it on a phone.
    """
    shorter = {"usermeta": {"labels": narrow}} if narrow else {}
    return {
        "layer": layers,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        **size,
        **shorter,
        "datasets": {**datasets, "zero": [{"at": 0}]},
    }


def side_of(moved: float, unit: str) -> str:
    """Which arm a difference favors."""
    if moved == 0:
        return "tied"
    higher = unit == SUCCESS.unit
    return "candidate" if (moved > 0) == higher else "baseline"


def axis_title(metric: Metric) -> str:
    """What an axis of a metric is labeled."""
    return {"seconds": "seconds", "usd": "US dollars"}.get(metric.unit, metric.label)


def short(value: float) -> float:
    """Six digits are more than a screen can show."""
    return float(f"{value:.6g}")


def labels_of(names: list[str], width: int = NAME) -> list[str]:
    """Names short enough for an axis, and still all different.

    Names that do not fit lose the words that all of them share.
    """
    if any(columns(visible(name)) > width for name in names):
        names = _without_common_words(names)
    seen: set[str] = set()
    labels = []
    for name in names:
        label, number = shortened(name, width), 1
        while label in seen:
            number += 1
            mark = f" ({number})"
            label = f"{shortened(name, width - len(mark))}{mark}"
        seen.add(label)
        labels.append(label)
    return labels


def narrow(labels: list[str], names: list[str]) -> list[tuple[str, str]]:
    """What stands for each label where there is less room."""
    return list(zip(labels, labels_of(names, SHORT_NAME), strict=True))


def _without_common_words(names: list[str]) -> list[str]:
    parts = [_WORDS.findall(name) for name in names]
    in_all = set.intersection(*(set(words) for words in parts)) if len(names) > 1 else set()
    common = {word for word in in_all if word[0].isalnum()}
    left = []
    for name, words in zip(names, parts, strict=True):
        kept = "".join(_MORE if word in common else word for word in words)
        kept = _GAPS.sub(_MORE, kept)
        left.append(kept if kept.strip(_MORE) else name)
    return left


def moment(seconds: float) -> str:
    """A start time in words."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%d %H:%M:%S")
