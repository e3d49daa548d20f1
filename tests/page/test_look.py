"""How the page looks, in a real browser: on a phone, in the dark, in gray, and on paper."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser_pages import SCREENSHOTS
from tests.support.report_pages import opened


@pytest.mark.parametrize(
    ("kind", "scheme", "width"),
    [
        ("demo", "light", 1280),
        ("demo", "dark", 1280),
        ("demo", "light", 390),
        ("demo", "dark", 390),
        ("hostile", "light", 390),
        ("500 tasks", "dark", 1280),
        ("500 tasks", "light", 390),
        ("unmeasured", "light", 1280),
    ],
)
def test_nothing_is_wider_than_the_screen(
    kind: str, scheme: str, width: int, chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, kind, width=width, scheme=scheme) as shown:
        assert shown.page.evaluate("document.documentElement.scrollWidth") == width
        for chart in shown.page.locator(".chart svg").all():
            box = chart.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        SCREENSHOTS.mkdir(exist_ok=True)
        name = f"{kind.replace(' ', '-')}-{width}-{scheme}.png"
        shown.page.screenshot(path=SCREENSHOTS / name, full_page=True)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["demo", "one arm", "unmeasured"])
def test_the_first_figures_do_not_scroll_and_say_once_why_there_is_no_interval(
    kind: str, width: int, chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, kind, width=width) as shown:
        around = shown.page.locator(".banner .scroll").first
        assert around.evaluate("one => one.scrollWidth <= one.clientWidth")
        said = shown.page.locator(".first").inner_text()
        assert said.count("No task has this metric in both arms") == (kind != "demo")


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out_from_their_ground(
    scheme: str, chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, "one pair", scheme=scheme) as shown:
        style = "getComputedStyle(document.documentElement).getPropertyValue"

        def contrast(name: str, ground: str) -> float:
            light = [
                luminance(shown.page.evaluate(f"{style}('--{one}').trim()"))
                for one in (name, ground)
            ]
            return (max(light) + 0.05) / (min(light) + 0.05)

        for ground in ("surface", "ground"):
            for text in ("ink", "muted", "good", "bad", "wait"):
                assert contrast(text, ground) >= 4.5, (text, ground)
            for mark in ("candidate", "baseline", "focus"):
                assert contrast(mark, ground) >= 3.0, (mark, ground)


def test_colour_is_never_the_only_signal(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo") as shown:
        shapes = shown.page.evaluate(
            "[...document.querySelectorAll('#chart-delta-duration_seconds .means_marks path')]"
            ".map(mark => [mark.getAttribute('fill'), mark.getAttribute('d')])"
        )
        by_colour: dict[str, set[str]] = {}
        for fill, path in shapes:
            by_colour.setdefault(fill, set()).add("circle" if "A" in path else "square")
        # From the task that the candidate made fastest to the one it made slowest.
        assert [shapes[0][0], shapes[-1][0]] == ["var(--candidate)", "var(--baseline)"]
        assert by_colour == {"var(--candidate)": {"circle"}, "var(--baseline)": {"square"}}


def test_paper_gets_everything_in_light_colours(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo", scheme="dark") as shown:
        shown.page.emulate_media(media="print")
        ground = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        assert not shown.page.locator("nav").is_visible()
        SCREENSHOTS.mkdir(exist_ok=True)
        paper = shown.page.pdf(path=SCREENSHOTS / "demo.pdf", format="A4", print_background=True)
        assert paper.startswith(b"%PDF")
