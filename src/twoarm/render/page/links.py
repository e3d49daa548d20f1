"""Links from the marks of the charts to the pages of the runs that they stand for."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from twoarm.render.chart_points import ChartPoints, RunStart
from twoarm.render.page.marks import Chart

# By task and repeat, where the page of a run is.
Links = Mapping[str, Mapping[int, str]]
NO_LINKS: Links = {}
# Where they all are, beside the report, and the list of them.
FOLDER = "run-pages"
INDEX = "index.html"

# What can be clicked.
_PRESSED = ("point", "rule", "rect", "circle", "tick")


def link_charts(charts: Iterable[Chart], points: ChartPoints, links: Links) -> None:
    """Give every mark of a run, a pair or a task its link, where there is a page."""
    urls_of = dict(_urls(points, links))
    for chart in charts:
        if chart.spec is None:
            continue
        for dataset, urls in urls_of.get(chart.name, {}).items():
            rows = chart.spec["datasets"].get(dataset, [])
            for row, url in zip(rows, urls, strict=False):
                if url is not None:
                    row["url"] = url
            if any("url" in row for row in rows):
                _encode(chart.spec, dataset)


def _urls(points: ChartPoints, links: Links) -> Iterator[tuple[str, dict[str, list[str | None]]]]:
    """The links of each chart, in the order of the rows of its datasets."""
    for deltas in points.deltas:
        yield (
            f"delta-{deltas.metric}",
            {
                "pairs": [_url(links, t.task_id, r) for t in deltas.tasks for r in t.repeats],
                "means": [task_url(links, task.task_id) for task in deltas.tasks],
            },
        )
    tasks = [task_url(links, task.task_id) for task in points.successes.tasks]
    yield "success", {"tasks": tasks}
    for spread in points.spreads:
        sides = (side for side in (spread.candidate, spread.baseline) if side is not None)
        drawn = [run for side in sides for run in side.drawn]
        yield f"spread-{spread.metric}", {"points": [_url(links, *run) for run in drawn]}
    yield "cost", {"tasks": [task_url(links, point.task_id) for point in points.costs]}
    starts: tuple[RunStart, ...] = (*points.starts.candidate, *points.starts.baseline)
    yield (
        "timeline",
        {"starts": [_url(links, start.task_id or "", start.repeat or 0) for start in starts]},
    )


def _url(links: Links, task: str, repeat: int) -> str | None:
    return links.get(task, {}).get(repeat)


def task_url(links: Links, task: str) -> str | None:
    """The first page of a task: a pair that flipped, if there is one."""
    return next(iter(links.get(task, {}).values()), None)


def _encode(spec: dict[str, Any], dataset: str) -> None:
    for layer in spec.get("layer", [spec]):
        mark = layer.get("mark")
        kind = mark.get("type") if isinstance(mark, dict) else mark
        if layer.get("data", {}).get("name") == dataset and kind in _PRESSED:
            layer["encoding"]["href"] = {"field": "url", "type": "nominal"}
