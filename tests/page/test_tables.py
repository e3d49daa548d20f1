"""The tables of the page, in a real browser: how they are sorted, and what heads a column."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.report_pages import opened, read


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
            # The gates and what a solved task takes have no test of their own.
            assert cells[-5:] == [""] * 5
            assert "" not in cells[:-5]


@pytest.mark.parametrize("kind", ["demo", "hostile", "no evidence"])
def test_every_column_has_a_name_and_can_be_sorted(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    with read(chromium, tmp_path, kind) as shown:
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


@pytest.mark.parametrize("kind", ["demo", "long names", "no evidence", "one arm"])
def test_no_two_columns_of_a_table_have_the_same_name(
    kind: str, chromium: Browser, tmp_path: Path
) -> None:
    with read(chromium, tmp_path, kind) as shown:
        heads = shown.page.evaluate(
            "[...document.querySelectorAll('table thead')].map(head =>"
            " [...head.querySelectorAll('th')].map(one => one.textContent.trim()))"
        )
        for names in heads:
            named = [name for name in names if name]
            assert len(set(named)) == len(named), names
        links = shown.page.locator("nav a").all_inner_texts()
        assert len(set(links)) == len(links), links


def test_nothing_is_drawn_below_the_last_row_of_a_table(chromium: Browser, tmp_path: Path) -> None:
    with read(chromium, tmp_path, "demo") as shown:
        widths = shown.page.evaluate(
            "[...document.querySelectorAll('.amounts tbody tr:last-child > *')].map(cell =>"
            " getComputedStyle(cell).borderBottomWidth)"
        )
        assert widths == ["0px"] * 6
