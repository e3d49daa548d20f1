"""Names on the page, in a real browser: hostile ones are text, and long ones are told apart."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.report_pages import HOSTILE, LONG, PROTOTYPE, opened
from twoarm.render import html as renderer
from twoarm.render.page.marks import labels_of
from twoarm.text.sentence import Name, say


def test_hostile_names_show_as_text(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "hostile") as shown:
        page = shown.page
        assert shown.complaints == []
        names = shown.column("tasks", 1)
        assert HOSTILE[0] in names
        assert HOSTILE[1] in names
        assert HOSTILE[2] in names
        assert "line\\nbreak\\u2028\\u202eend" in names
        assert HOSTILE[0] in page.locator(".banner > p").nth(1).inner_text()
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
    ("names", "width", "labels"),
    [
        (["a", "b"], 5, ["a", "b"]),
        (["fix-dates-now", "fix-rates-now"], 8, ["…dates…", "…rates…"]),
        (["same-prefix-1", "same-prefix-2"], 20, ["same-prefix-1", "same-prefix-2"]),
        (["x" * 30, "x" * 30 + "y"], 9, ["xxxxxx…xx", "xxxxxx…xy"]),
        (["ab" * 20, "ab" * 21], 9, ["ababab…ab", "aba…b (2)"]),
        # Signs between words stay, though all names have them.
        (["cli-exit-codes", "rename-public-api"], 16, ["cli-exit-codes", "rename-pub…c-api"]),
        (["fix_a_b", "fix_the_long_name_c"], 16, ["…a_b", "…the_long_name_c"]),
    ],
)
def test_a_label_keeps_what_tells_it_from_the_others(
    names: list[str], width: int, labels: list[str]
) -> None:
    assert labels_of(names, width) == labels


def test_a_phone_has_short_labels_and_whole_hints(chromium: Browser, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "demo", width=390) as shown:
        labels = shown.page.locator("#chart-success .role-axis-label text").all_text_contents()
        assert "rename-pub…c-api" in labels
        assert shown.complaints == []
        hints = []
        for mark in shown.page.locator("#chart-success .candidates_marks > *").all():
            mark.hover(force=True)
            shown.page.wait_for_selector("#vg-tooltip-element.visible")
            hints.append(shown.page.locator("#vg-tooltip-element").inner_text())
        assert any("rename-public-api" in hint for hint in hints)


@pytest.mark.parametrize("width", [16, 34])
def test_long_names_that_are_alike_have_labels_of_their_own(width: int) -> None:
    labels = labels_of(LONG, width)
    assert len(set(labels)) == len(LONG)
    assert max(map(len, labels)) <= width
