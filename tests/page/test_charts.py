"""The charts of the page, in a real browser: what is drawn, and what is left out."""

import html
import json
import re
from pathlib import Path

import altair as alt
import pytest
from playwright.sync_api import Browser

import twoarm as package
from tests.conftest import run
from tests.support.browser_pages import SCREENSHOTS, Opened
from tests.support.report_pages import KINDS, opened, page_of, read


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_draws_every_chart_without_a_complaint_or_a_request(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, kind) as shown:
        assert shown.complaints == []
        assert shown.requests == [(tmp_path / "report.html").as_uri()]
        places = shown.page.locator(".chart")
        assert shown.page.locator(".chart[data-drawn] svg").count() == places.count()
        for place in places.all():
            assert place.get_attribute("role") == "img"
            label = place.get_attribute("aria-label") or ""
            assert len(label) > 20
            assert place.locator(".role-mark > *").count() > 0
            said = place.locator("xpath=following-sibling::noscript").text_content() or ""
            assert html.escape(label.replace("`", "")[:40]) in said.replace("<code>", "")


@pytest.mark.parametrize("kind", ["demo", "no evidence", "free"])
def test_every_chart_keeps_to_the_schema_of_vega_lite(kind: str) -> None:
    script = re.search(r'id="charts">(.*?)</script>', page_of(kind))
    assert script is not None
    charts = json.loads(script[1])["charts"].values()
    assert len(charts) > 5
    for spec in charts:
        alt.LayerChart.from_dict(spec | {"datasets": {}})


def test_the_demo_draws_one_mark_per_pair_task_and_run(chromium: Browser, tmp_path: Path) -> None:
    with read(chromium, tmp_path, "demo") as shown:
        for gate in ("success_rate", "median_duration_seconds", "median_non_cache_tokens"):
            assert shown.marks(gate, "zero") == 1
            assert shown.marks(gate, "intervals") == 2
            assert shown.marks(gate, "differences") == 2
        for metric, pairs in (
            ("duration_seconds", 119),
            ("non_cache_tokens", 119),
            ("tokens", 119),
            ("cost_usd", 118),
        ):
            assert shown.marks(f"delta-{metric}", "pairs") == pairs
            assert shown.marks(f"delta-{metric}", "means") == 12
        for layer in ("joins", "candidates", "baselines"):
            assert shown.marks("success", layer) == 12
        flips = shown.page.locator("#chart-success .flips_marks text").all_text_contents()
        assert "▲3 ▼1" in flips
        for metric, runs in (("duration_seconds", 239), ("cost_usd", 238)):
            assert shown.marks(f"spread-{metric}", "points") == runs
            assert shown.marks(f"spread-{metric}", "medians") == 2
        assert shown.marks("cost", "tasks") == 24
        assert shown.marks("cost", "arms") == 2
        assert shown.marks("timeline", "starts") == 239


def test_a_newcomer_reads_arm_amount_certainty_and_next_step_on_the_first_screen(
    chromium: Browser, tmp_path: Path
) -> None:
    with read(chromium, tmp_path, "demo") as shown:
        banner = shown.page.locator(".banner")
        box = banner.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
        text = banner.inner_text()
        for said in (
            "✓ Promote",
            "yes, by the gates: all three gates hold",
            "prefer with_skelly",
            "fewer tokens; perhaps faster (-27.9% to -2.2%); no clear difference in",
            "largest drop: flaky-retry-test, 6 of 10 to 5 of 10; up to 22% of tasks like these",
            "could easily change: the same decision in 63%",
            "185.5 s",
            "221.6 s",
            "-27.9% to -2.2%",
            "~ no clear difference",
            "▲ better",
            "To see a 10% change in duration: 97 tasks x 5 repeats",
            "vary a lot between repeats",
        ):
            assert said in text, said
        rows = banner.locator(".amounts tbody tr").all_inner_texts()
        assert [row.split("\t") for row in rows[1:3]] == [
            [
                *("median duration", "185.5 s", "221.6 s", "-16.1%", "-27.9% to -2.2%"),
                "~ no clear difference\nclear on its own, not after allowing for three gates",
            ],
            [
                *("median non-cache tokens", "10,938", "13,586", "-20.3%", "-30.5% to -8.6%"),
                "▲ better",
            ],
        ]


def test_metrics_nobody_measured_are_said_and_not_drawn(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "unmeasured") as shown:
        for name in (
            "median_non_cache_tokens",
            "delta-cost_usd",
            "delta-tokens",
            "spread-cost_usd",
            "cost",
            "timeline",
        ):
            assert shown.page.locator(f"#chart-{name}").count() == 0
        text = shown.page.locator("main").inner_text()
        assert "No pair has cost in both arms: not measured, so nothing is drawn." in text
        assert "Cost was not measured: nothing is drawn." in text
        assert "Not drawn: no run has started_at_utc." in text
        assert "insufficient data" in shown.page.locator(".banner .lines").inner_text()
        assert shown.marks("delta-duration_seconds", "pairs") == 5


def test_runs_that_cost_nothing_have_no_place_on_a_log_axis(
    chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, "free") as shown:
        assert shown.page.locator("#chart-spread-cost_usd").count() == 0
        assert shown.marks("cost", "tasks") == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["demo", "long names"])
def test_a_chart_of_the_gates_is_on_the_first_screen(
    kind: str, width: int, scheme: str, chromium: Browser, tmp_path: Path
) -> None:
    with read(chromium, tmp_path, kind, width=width, scheme=scheme) as shown:
        box = shown.page.locator("#chart-gates").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
        assert shown.marks("gates", "changes") == 5
        assert shown.marks("gates", "intervals") == 5
        caveat = shown.page.locator("#first-caveat").bounding_box()
        assert caveat is not None
        assert caveat["y"] < 900
        SCREENSHOTS.mkdir(exist_ok=True)
        shown.page.screenshot(path=SCREENSHOTS / f"first-{kind}-{width}-{scheme}.png")
        wide = shown.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, "the page does not scroll sideways"


def test_the_chart_of_the_gates_says_what_the_table_beside_it_says(
    chromium: Browser, tmp_path: Path
) -> None:
    """One estimand, one unit: the change and its interval are those of the summary."""
    with read(chromium, tmp_path, "demo") as shown:
        page = shown.page
        said = page.locator("#chart-gates").get_attribute("aria-label") or ""
        rows = [row.split("\t") for row in page.locator(".amounts tbody tr").all_inner_texts()]
        for label, _, _, change, interval, _ in rows:
            assert f"{label.splitlines()[0]}: {change}, {interval}" in said
        assert rows[2][0] == "median non-cache tokens"


def colours(shown: Opened, chart: str, layer: str) -> list[str]:
    marks = shown.page.locator(f"#chart-{chart} .{layer}_marks > *")
    return [str(mark.get_attribute("fill")) for mark in marks.all()]


def test_what_is_not_clear_is_grey_in_charts_and_tables(chromium: Browser, tmp_path: Path) -> None:
    with read(chromium, tmp_path, "demo") as shown:
        grey, blue = "var(--muted)", "var(--candidate)"
        assert colours(shown, "gates", "changes") == [grey, grey, blue, blue, blue]
        assert colours(shown, "success_rate", "differences") == [grey, grey]
        # For tasks like these the interval of the difference includes none; on these it does not.
        assert colours(shown, "median_duration_seconds", "differences") == [grey, blue]
        assert shown.column("gates-table", 5) == ["higher, not clear", "lower, not clear", "better"]
        green = shown.page.locator("#gates-table td.good").all_inner_texts()
        assert green == ["holds", "holds", "better", "holds"]


def test_without_evidence_nothing_is_called_unclear() -> None:
    text = page_of("no evidence")
    assert "not clear" not in text[text.index('id="gates-table"') :]


@pytest.mark.parametrize(
    ("rates", "starts_at"),
    [([0.95, 1.0], 0.9), ([0.9, 0.9], 0.9), ([0.89, 1.0], 0.0), ([1.0, 1.0], 0.9)],
)
def test_the_success_chart_is_zoomed_when_every_task_is_above_90_percent(
    rates: list[float], starts_at: float
) -> None:
    runs = [
        run("t", arm, repeat, success=repeat <= round(100 * rate))
        for arm, rate in zip(("with_skelly", "without_skelly"), rates, strict=True)
        for repeat in range(1, 101)
    ]
    page = package.score(runs, evidence=False).to_html()
    specs = json.loads(page.split('id="charts">')[1].split("</script>")[0])["charts"]
    assert f'"domain":[{starts_at:g},1' in json.dumps(specs["success"], separators=(",", ":"))
    assert f'"domain":[{starts_at:g},1' in json.dumps(specs["cost"], separators=(",", ":"))
    assert ("The axis starts at 90%." in page) is (starts_at > 0)


def test_a_caption_does_not_repeat_its_chart(chromium: Browser, tmp_path: Path) -> None:
    with read(chromium, tmp_path, "demo") as shown:
        text = shown.page.locator("main").inner_text()
        for place in shown.page.locator(".chart").all():
            assert (place.get_attribute("aria-label") or "") not in text
