"""The page, in a real browser: what it draws, what it refuses, and how it looks."""

import html
import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from twoarm.escape import html_script
from twoarm.render import html as renderer
from twoarm.render.page.marks import labels_of
from twoarm.sentence import Name, say

SCREENSHOTS = Path(__file__).parent / "screenshots"
MEGABYTE = 1_000_000

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "\"' onmouseover=alert(4) x='",
    "{{constructor.constructor('alert(5)')()}}",
    "datum['x'] + 'y'",
    "a.b[c]\\d",
    "<!-- --> ]]> &amp; &lt;",
    "line\nbreak\u2028\u202eend",
    "漢字の課題",
    "x" * 300,
    "x" * 150 + "y" + "x" * 149,
    " ",
]


# What every object of JavaScript has, and words that it takes for values.
PROTOTYPE = [
    *("constructor", "toString", "__proto__", "hasOwnProperty", "valueOf", "prototype"),
    *("__defineGetter__", "isPrototypeOf", "toLocaleString", "propertyIsEnumerable", "length"),
    *("undefined", "null", "NaN", "true", "0", "1e3", "Infinity", "2026-11-01", "task", "rank"),
]


def started(minute: int) -> str:
    return f"2026-11-01T{minute // 60:02}:{minute % 60:02}:00Z"


def hostile() -> list[dict[str, Any]]:
    """Names that would like to be code, in both arms, in a reason and in a key."""
    arms = HOSTILE[0], HOSTILE[1]
    runs = [
        run(
            name,
            arms[arm],
            repeat,
            success=(repeat + arm) % 3 > 0,
            duration_seconds=100 + 7 * repeat + 20 * arm,
            started_at_utc=started(10 * repeat + arm),
        )
        for name in HOSTILE
        for arm in (0, 1)
        for repeat in range(1, 4)
    ]
    runs.append(run("t", arms[0], 9, failure="infra", failure_reason=HOSTILE[2]))
    runs[0][HOSTILE[3]] = HOSTILE[4]
    return runs


def many(tasks: int, repeats: int) -> list[dict[str, Any]]:
    draw = Random(1)
    runs = []
    for task in range(tasks):
        size, ease, help_ = draw.lognormvariate(5, 0.6), draw.random(), draw.gauss(0.1, 0.15)
        for repeat in range(1, repeats + 1):
            for candidate, arm in ((1, "with_skelly"), (0, "without_skelly")):
                long = size * draw.lognormvariate(0, 0.3) * (1 - help_ * candidate)
                runs.append(
                    run(
                        f"task-{task:04}",
                        arm,
                        repeat,
                        success=draw.random() < ease**0.3 + 0.02 * candidate,
                        duration_seconds=round(long, 1),
                        input_tokens=round(long * 60),
                        total_cost_usd=round(long / 900, 6),
                        started_at_utc=started(draw.randrange(1440)),
                    )
                )
    return runs


def unmeasured() -> list[dict[str, Any]]:
    return [
        one
        for repeat in range(1, 6)
        for one in both("t", repeat, total_cost_usd=None, input_tokens=None, cache_read_tokens=None)
    ]


@cache
def page_of(kind: str) -> str:
    """The pages under test, by what is special about them."""
    if kind == "demo":
        return package.score(
            [json.loads(line) for line in twoarm("demo", "--runs").out.splitlines()]
        ).to_html()
    if kind == "hostile":
        arms = {"candidate": HOSTILE[0], "baseline": HOSTILE[1]}
        return package.score(hostile(), **arms).to_html()  # type: ignore[arg-type]
    runs = {
        "one pair": both(),
        "one arm": [run()],
        "one task": [one for repeat in range(1, 6) for one in both("only", repeat)],
        "unmeasured": unmeasured(),
        "free": [one for repeat in range(1, 6) for one in both("t", repeat, total_cost_usd=0)],
        "500 tasks": many(500, 10),
        "41 tasks": many(41, 2),
    }
    if kind == "prototype":
        made = [
            run(
                name,
                arm,
                repeat,
                duration_seconds=100 + 7 * repeat + 20 * number * (arm == "constructor"),
                started_at_utc=started(10 * repeat + number),
            )
            for number, name in enumerate(PROTOTYPE)
            for arm in ("constructor", "toString")
            for repeat in range(1, 4)
        ]
        return package.score(made, candidate="constructor", baseline="toString").to_html()
    if kind == "long names":
        return package.score(long_names()).to_html()
    if kind == "no evidence":
        return package.score(many(8, 5), evidence=False).to_html()
    return package.score(runs[kind]).to_html()


KINDS = [
    "demo",
    "hostile",
    "prototype",
    "one pair",
    "one arm",
    "one task",
    "unmeasured",
    "free",
    "no evidence",
    "41 tasks",
    "500 tasks",
]


class Opened:
    """A page in the browser, and what it did that it should not."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))

    def marks(self, chart: str, layer: str) -> int:
        return self.page.locator(f"#chart-{chart} .{layer}_marks > *").count()

    def column(self, table: str, number: int) -> list[str]:
        return self.page.locator(f"#{table} tbody td:nth-child({number})").all_inner_texts()


@contextmanager
def opened(
    chromium: Browser, tmp_path: Path, kind: str, *, width: int = 1280, scheme: Any = "light"
) -> Iterator[Opened]:
    path = tmp_path / "report.html"
    path.write_text(page_of(kind), encoding="utf-8")
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    context.set_default_timeout(120_000)
    shown = Opened(context.new_page())
    try:
        shown.page.goto(path.as_uri())
        shown.page.wait_for_selector("body[data-ready]")
        yield shown
    finally:
        context.close()


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


def test_the_demo_draws_one_mark_per_pair_task_and_run(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo") as shown:
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
    with opened(chromium, tmp_path, "demo") as shown:
        banner = shown.page.locator(".banner")
        box = banner.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
        text = banner.inner_text()
        for said in (
            "✓ Promote",
            "yes, by the gates: all three gates hold",
            "prefer with_skelly",
            "fewer tokens; no clear difference in success (could be -18.2 to +22.5 points) or",
            "none of 12 tasks; up to 22% of tasks like these still could break",
            "could easily change: the same decision in 63%",
            "185.5 s",
            "221.6 s",
            "-27.9% to -2.2%",
            "~ no clear difference",
            "▲ better",
            "To see a 10% change in duration four times out of five",
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


def test_500_tasks_stay_small_and_are_all_there(chromium: Browser, tmp_path: Path) -> None:
    assert len(page_of("demo").encode()) < 2 * MEGABYTE
    assert len(page_of("500 tasks").encode()) < 5 * MEGABYTE
    with opened(chromium, tmp_path, "500 tasks") as shown:
        assert shown.marks("delta-duration_seconds", "means") == 500
        assert shown.marks("delta-duration_seconds", "spans") == 500
        assert shown.marks("success", "candidates") == 500
        assert 100 < shown.marks("timeline", "starts") <= 240
        assert shown.page.locator("#tasks tbody tr").count() == 500
        text = shown.page.locator("#tasks-chart").inner_text()
        assert "from the smallest to the largest of its pairs (5,000 in all)" in text


def test_a_table_is_sorted_by_mouse_and_keyboard(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo") as shown:
        page = shown.page
        duration = page.locator("#tasks th button", has_text="duration, delta")
        head = duration.locator("xpath=..")
        assert head.get_attribute("aria-sort") is None
        duration.click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert shown.column("tasks", 1)[0] == "migrate-settings"
        up = shown.column("tasks", 10)
        assert up[0] == "-445.6 s"
        duration.focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        assert shown.column("tasks", 10) == up[::-1]
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Space")
        assert head.get_attribute("aria-sort") is None
        assert page.locator("#tasks th[aria-sort]").count() == 1
        page.locator("#tasks th button", has_text="task").first.click()
        names = shown.column("tasks", 1)
        assert names == sorted(names)


def test_what_was_not_measured_is_sorted_last_both_ways(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo") as shown:
        button = shown.page.locator("#tasks-like-these th button").last
        for _ in range(2):
            button.click()
            cells = shown.column("tasks-like-these", 4)
            # The gates have no test of their own.
            assert cells[-3:] == [""] * 3
            assert "" not in cells[:-3]


@pytest.mark.parametrize("kind", ["demo", "hostile", "no evidence"])
def test_every_column_has_a_name_and_can_be_sorted(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, kind) as shown:
        heads = shown.page.locator("th button").all_inner_texts()
        assert len(heads) >= 30
        assert all(heads)
        # Text would be NaN among numbers, and leave the rows as they are.
        wrong = shown.page.evaluate(
            "[...document.querySelectorAll('th.number')].flatMap(head =>"
            " [...head.closest('table').tBodies[0].rows].map(row =>"
            " row.cells[head.cellIndex].dataset.key).filter(key => key !== undefined"
            " && !Number.isFinite(Number(key))))"
        )
        assert wrong == []


def test_hostile_names_show_as_text(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "hostile") as shown:
        page = shown.page
        assert shown.complaints == []
        names = shown.column("tasks", 1)
        assert HOSTILE[0] in names
        assert HOSTILE[1] in names
        assert HOSTILE[2] in names
        assert "line\\nbreak\\u2028\\u202eend" in names
        assert HOSTILE[0] in page.locator(".banner > p").first.inner_text()
        assert page.title() == "twoarm: not enough data"
        assert HOSTILE[2] in shown.column("excluded", 1)[0]
        assert page.locator("img, iframe, object, embed").count() == 0
        assert page.locator("script").count() == 3
        # Two names that are cut to the same label keep two rows.
        assert shown.marks("delta-duration_seconds", "means") == len(HOSTILE)
        rows = page.evaluate(
            "[...document.querySelectorAll('#chart-success .candidates_marks > *')]"
            ".map(mark => Math.round(mark.getBoundingClientRect().y))"
        )
        assert len(set(rows)) == len(HOSTILE)
        labels = page.locator("#chart-success text").all_text_contents()
        assert HOSTILE[0] in labels


def test_names_that_every_object_has_are_drawn(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "prototype") as shown:
        assert shown.complaints == []
        for chart, layer in (
            ("success", "candidates"),
            ("success", "baselines"),
            ("delta-duration_seconds", "means"),
        ):
            places = shown.page.evaluate(
                f"[...document.querySelectorAll('#chart-{chart} .{layer}_marks > *')]"
                ".map(mark => mark.getAttribute('transform') + mark.getAttribute('d'))"
            )
            assert len(places) == len(PROTOTYPE)
            assert not [place for place in places if "NaN" in place or "null" in place]
            heights = {place.partition(")")[0].rpartition(",")[2] for place in places}
            assert len(heights) == len(PROTOTYPE), "each task has a row of its own"
            labels = shown.page.locator(f"#chart-{chart} .role-axis-label text")
            assert set(PROTOTYPE) <= set(labels.all_text_contents())
        assert shown.marks("delta-duration_seconds", "pairs") == 3 * len(PROTOTYPE)
        assert shown.marks("cost", "tasks") == 2 * len(PROTOTYPE)
        assert shown.marks("timeline", "starts") == 6 * len(PROTOTYPE)
        assert sorted(shown.column("tasks", 1)) == sorted(PROTOTYPE)


def test_a_tooltip_names_the_task_as_text(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "hostile") as shown:
        shown.page.locator("#chart-success .joins_marks").scroll_into_view_if_needed()
        found = ""
        for mark in shown.page.locator("#chart-success .candidates_marks > *").all():
            mark.hover(force=True)
            shown.page.wait_for_selector("#vg-tooltip-element.visible")
            found += shown.page.locator("#vg-tooltip-element").inner_text()
        assert HOSTILE[0] in found
        assert "flipped to passed" in found
        assert shown.page.locator("#vg-tooltip-element script").count() == 0
        assert shown.complaints == []


def test_the_policy_allows_what_is_in_the_file_and_nothing_else(
    chromium: Browser, tmp_path: Path
) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page_of("demo"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    with opened(chromium, tmp_path, "demo") as shown:
        shown.page.evaluate(
            "const one = document.createElement('script'); one.textContent = 'window.bad = 1';"
            "document.body.append(one)"
        )
        assert shown.page.evaluate("window.bad") is None
        assert any("Content Security Policy" in text for text in shown.complaints)


def test_the_words_of_the_page(
    golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    page = twoarm("demo", "--format", "html").out
    start, end = page.index("<main>"), page.index("</main>") + len("</main>\n")
    golden("demo.html", page[start:end])


def test_the_page_names_no_other_address_to_load() -> None:
    page = page_of("demo")
    body = page[: page.index('<script type="application/json"')]
    assert not re.search(r'(src|href)="(?!#)', body)
    assert "@import" not in body
    assert "url(" not in body


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


def test_without_scripts_the_words_and_tables_are_there(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of("demo"), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    text = page.locator("main").inner_text()
    context.close()
    assert "Scripts are off, so no chart is drawn." in text
    assert "prefer with_skelly" in text
    assert "Of 12 tasks, 4 succeed more often with the candidate" in text


def test_the_command_of_the_page_gives_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    name = "my runs; $(x).jsonl"
    Path(name).write_bytes(lines([*hostile(), hostile()[0]]))
    roles = [f"--candidate={HOSTILE[0]}", f"--baseline={HOSTILE[1]}"]
    given = ["score", name, *roles, "--duplicates", "first", "--missing", "zero", "--keep-infra"]
    page = twoarm(*given, "--format", "html").out
    (shown,) = re.findall(r"<pre><code>(.*?)</code></pre>", page)
    for escaped, character in (
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#39;", "'"),
        ("&quot;", '"'),
        ("&amp;", "&"),
    ):
        shown = shown.replace(escaped, character)
    words = shlex.split(shown)
    assert words[0] == "twoarm"
    again = twoarm(*words[1:], "--format", "json").out
    assert again == twoarm(*given, "--format", "json").out


def test_the_page_says_what_it_was_made_from() -> None:
    page = twoarm("demo", "--format", "html").out
    sha256 = json.loads(twoarm("demo", "--format", "json").out)["inputs"][0]["sha256"]
    for said in (sha256, "example.jsonl, 240 runs", "<dt>seed</dt><dd>1</dd>", "twoarm 0.1.0"):
        assert said in page
    assert "The runs came from memory, so no command can read them again." in page_of("one pair")


def test_the_drawing_is_not_in_the_analysis_file() -> None:
    analysis = package.score(both())
    assert set(analysis.to_dict()) == set(package.Analysis.__struct_fields__)
    assert set(json.loads(analysis.to_json())) == set(package.Analysis.__struct_fields__)
    assert "comparison" not in analysis.to_dict()
    assert "comparison" not in json.loads(twoarm("schema", "analysis").out)["properties"]


def test_the_same_runs_give_the_same_page() -> None:
    runs = many(7, 3)
    assert package.score(runs).to_html() == package.score(runs[::-1]).to_html()


def test_a_page_without_its_extra_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    renderer._scripts.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(both()))
    message = 'the page needs `altair`: pip install "twoarm[html]"'
    with pytest.raises(package.TwoarmError, match=re.escape(message)):
        package.score(path).to_html()
    result = twoarm("score", str(path), "--format", "html")
    assert (result.code, result.out, result.err) == (2, "", f"twoarm: {message}\n")
    result = twoarm("score", str(path), "--out", str(tmp_path / "out"))
    assert result.code == 0
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [
        "analysis.json",
        "analysis.md",
    ]
    assert f"twoarm: no report.html: {message}\n" in result.err


def test_json_in_a_script_cannot_end_it() -> None:
    text = html_script(json.dumps({"name": "</script><!-- &amp; \u2028\u2029"}, ensure_ascii=False))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"name": "</script><!-- &amp; \u2028\u2029"}


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (say("no name & <none>"), "no name &amp; &lt;none&gt;"),
        (say("task {}, arm {}", Name("a"), Name("b")), "task <code>a</code>, arm <code>b</code>"),
        (say("task {}: more", Name("a`b")), "task <code>a`b</code>: more"),
        (say("task {}.", Name("`a`")), "task <code>`a`</code>."),
        (say("task {} is empty", Name(" ")), "task <code> </code> is empty"),
        (say("task {}", Name("<i>")), "task <code>&lt;i&gt;</code>"),
        ("one `tick` of no name", "one `tick` of no name"),
    ],
)
def test_names_in_sentences_become_code(sentence: str, shown: str) -> None:
    assert renderer.sentence_html(sentence) == shown


# What a reader trips over -------------------------------------------------------------------------

AREAS = ("authentication", "pagination", "serialization", "migrations", "permissions")
LONG = [
    f"enterprise-monorepo/services/{area}-service/fix-regression-in-{part}-handler-v{number}"
    for number, area in enumerate(AREAS, 1)
    for part in ("request", "response", "background-job")
]


@cache
def long_names() -> list[dict[str, Any]]:
    """15 tasks whose names are long and alike; nearly every run passes."""
    draw = Random(3)
    runs = []
    for task in LONG:
        size, help_ = draw.lognormvariate(5, 0.6), draw.gauss(0.05, 0.15)
        for repeat in range(1, 11):
            for change, arm in (
                (help_, "with_repository_context_and_semantic_search"),
                (0.0, "without_repository_context_and_semantic_search"),
            ):
                long = size * draw.lognormvariate(0, 0.3) * (1 - change)
                runs.append(
                    run(
                        task,
                        arm,
                        repeat,
                        success=draw.random() < 0.99 or repeat > 1,
                        duration_seconds=round(long, 1),
                        input_tokens=round(long * 60),
                        total_cost_usd=round(long / 900, 6),
                    )
                )
    return runs


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["demo", "long names"])
def test_a_chart_of_the_gates_is_on_the_first_screen(
    kind: str, width: int, scheme: str, chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, kind, width=width, scheme=scheme) as shown:
        box = shown.page.locator("#chart-gates").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 900
        assert shown.marks("gates", "changes") == 4
        assert shown.marks("gates", "intervals") == 4
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
    with opened(chromium, tmp_path, "demo") as shown:
        page = shown.page
        said = page.locator("#chart-gates").get_attribute("aria-label") or ""
        rows = [row.split("\t") for row in page.locator(".amounts tbody tr").all_inner_texts()]
        for label, _, _, change, interval, _ in rows:
            assert f"{label.removesuffix(' (not a gate)')}: {change}, {interval}" in said
        assert rows[2][0] == "median non-cache tokens"


def colours(shown: Opened, chart: str, layer: str) -> list[str]:
    marks = shown.page.locator(f"#chart-{chart} .{layer}_marks > *")
    return [str(mark.get_attribute("fill")) for mark in marks.all()]


def test_what_is_not_clear_is_grey_in_charts_and_tables(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo") as shown:
        grey, blue = "var(--muted)", "var(--candidate)"
        assert colours(shown, "gates", "changes") == [grey, grey, blue, blue]
        assert colours(shown, "success_rate", "differences") == [grey, grey]
        # For tasks like these the interval of the difference includes none; on these it does not.
        assert colours(shown, "median_duration_seconds", "differences") == [grey, blue]
        assert shown.column("gates-table", 5) == ["better ~", "better ~", "better"]
        green = shown.page.locator("#gates-table td.good").all_inner_texts()
        assert green == ["holds", "holds", "better", "holds"]


def test_without_evidence_nothing_is_called_unclear() -> None:
    text = page_of("no evidence")
    assert "better ~" not in text
    assert "worse ~" not in text


@pytest.mark.parametrize("kind", ["demo", "long names", "one task", "500 tasks"])
def test_no_two_labels_of_an_axis_are_the_same(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    """A format that rounds half steps writes -1 twice; a label that is cut, a task twice."""
    for width in (390, 1280):
        with opened(chromium, tmp_path, kind, width=width) as shown:
            axes = shown.page.evaluate(
                "[...document.querySelectorAll('.chart .role-axis-label')].map(axis =>"
                " [...axis.querySelectorAll('text')].filter(one => one.style.opacity !== '0'"
                " && one.getAttribute('opacity') !== '0').map(one => one.textContent))"
            )
            assert len(axes) > 8
            for labels in axes:
                # A logarithmic axis leaves ticks without a label.
                shown_labels = [label for label in labels if label]
                assert len(set(shown_labels)) == len(shown_labels), (width, labels)


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


@pytest.mark.parametrize("kind", ["demo", "long names", "no evidence", "one arm"])
def test_no_two_columns_of_a_table_have_the_same_name(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    with opened(chromium, tmp_path, kind) as shown:
        heads = shown.page.evaluate(
            "[...document.querySelectorAll('table thead')].map(head =>"
            " [...head.querySelectorAll('th')].map(one => one.textContent.trim()))"
        )
        for names in heads:
            named = [name for name in names if name]
            assert len(set(named)) == len(named), names
        links = shown.page.locator("nav a").all_inner_texts()
        assert len(set(links)) == len(links), links


def test_a_caption_does_not_repeat_its_chart(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo") as shown:
        text = shown.page.locator("main").inner_text()
        for place in shown.page.locator(".chart").all():
            assert (place.get_attribute("aria-label") or "") not in text


@pytest.mark.parametrize(
    ("names", "width", "labels"),
    [
        (["a", "b"], 5, ["a", "b"]),
        (["fix-dates-now", "fix-rates-now"], 8, ["…dates…", "…rates…"]),
        (["same-prefix-1", "same-prefix-2"], 20, ["same-prefix-1", "same-prefix-2"]),
        (["x" * 30, "x" * 30 + "y"], 9, ["xxxxxx…xx", "xxxxxx…xy"]),
        (["ab" * 20, "ab" * 21], 9, ["ababab…ab", "aba…b (2)"]),
    ],
)
def test_a_label_keeps_what_tells_it_from_the_others(
    names: list[str], width: int, labels: list[str]
) -> None:
    assert labels_of(names, width) == labels


@pytest.mark.parametrize("width", [16, 34])
def test_long_names_that_are_alike_have_labels_of_their_own(width: int) -> None:
    labels = labels_of(LONG, width)
    assert len(set(labels)) == len(LONG)
    assert max(map(len, labels)) <= width
