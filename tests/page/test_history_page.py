"""The page of a history in a real browser: every result drawn, every change marked."""

import json
from pathlib import Path

import altair as alt
import pytest
from playwright.sync_api import Browser

from tests.support.browser_pages import SCREENSHOTS, browsed
from tests.support.history_folder import Folder
from twoarm.history.overview import overview
from twoarm.render.page.history_page import _charts


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("history"))
    folder.fill(9, step_at=6)
    return folder


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_result_is_drawn_and_every_change_is_marked(
    chromium: Browser, tmp_path: Path, history: Folder, width: int, scheme: str
) -> None:
    report = overview(str(history.path))
    name = report.series[0].series[:8]
    with browsed(chromium, tmp_path, report.to_html(), width=width, scheme=scheme) as shown:
        for metric in ("success", "duration_seconds", "non_cache_tokens"):
            assert shown.marks(f"effect-{name}-{metric}", "dots") == 9
            # Tokens are always the same, and so have no interval.
            bars = 0 if metric == "non_cache_tokens" else 9
            assert shown.marks(f"effect-{name}-{metric}", "bars") == bars
            assert shown.marks(f"arms-{name}-{metric}", "dots") == 18
        assert shown.marks(f"effect-{name}-duration_seconds", "since") == 1
        assert shown.marks(f"effect-{name}-success", "since") == 0
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        assert "`" not in shown.page.locator(f"#series-{name}").inner_text()
        assert (shown.complaints, shown.requests[1:]) == ([], [])
        SCREENSHOTS.mkdir(exist_ok=True)
        shown.page.screenshot(path=SCREENSHOTS / f"history-{width}-{scheme}.png", full_page=True)


def test_its_charts_are_what_vega_lite_says(history: Folder) -> None:
    for chart in _charts(overview(str(history.path)).series[0]):
        spec = json.loads(json.dumps(chart.spec))
        alt.LayerChart.from_dict(spec | {"datasets": {}})
