"""From a number to a run: the pages of runs, and the links to them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import twoarm as library
from tests.conftest import run, twoarm
from tests.support.run_page_folders import (
    WITH,
    WITHOUT,
    claude,
    collect,
    folder,
    pages,
    say,
    score,
    shown,
    some_runs,
)
from twoarm.run_pages.pages import page_name, plan_pages


@pytest.fixture
def some(tmp_path: Path) -> Path:
    return some_runs(tmp_path)


def test_all_runs_have_a_page_or_those_of_flips_or_none(some: Path) -> None:
    assert score(some).code == 0
    assert not (some / "out" / "run-pages").exists()
    result = score(some, "--run-pages", "all")
    assert f"twoarm: wrote 4 pages of runs to {some / 'out' / 'run-pages'}\n" in result.err
    assert set(pages(some)) == {page_name(task, n) for task in ("one", "two") for n in (1, 2)}
    # The pages of an earlier report go with it.
    score(some, "--run-pages", "flips")
    assert set(pages(some)) == {page_name("two", 2)}


def test_a_page_has_what_both_runs_did_and_why_they_count(some: Path) -> None:
    score(some, "--run-pages", "all")
    page = pages(some)[page_name("two", 2)]
    for text in (
        "I am with_x.",
        "I am without_x.",
        "<code>Bash</code>",
        "<pre>ls</pre>",
        "Done 2.",
        "Please do it.",
        "all tests passed",
        "1 test failed",
        "acceptance ended with exit code 1",
        "counts as failed",
        "+    new",
        "1,000 input, 50 output",
        'id="candidate"',
        'id="baseline"',
        "2: passed vs. failed",
        "1: passed vs. passed",
    ):
        assert text in page, text
    assert page.index('id="candidate"') < page.index('id="baseline"')
    # The pair that flipped comes first.
    assert page.index("2: passed vs. failed") < page.index("1: passed vs. passed")
    assert f'href="{page_name("two", 1)}"' in page
    assert 'href="./../../runs/with_x/3/stream.jsonl"' in page


def test_the_report_links_every_task_and_flips_come_first(some: Path) -> None:
    score(some, "--run-pages", "all")
    report = (some / "out" / "report.html").read_text()
    assert f'<a href="run-pages/{page_name("two", 2)}">two</a>' in report
    assert f'<a href="run-pages/{page_name("one", 1)}">one</a>' in report
    score(some, "--run-pages", "flips")
    report = (some / "out" / "report.html").read_text()
    assert f'<a href="run-pages/{page_name("two", 2)}">two</a>' in report
    assert "run-pages/one" not in report
    score(some, "--run-pages", "none")
    assert "run-pages" not in (some / "out" / "report.html").read_text()


def test_a_list_leads_to_every_page_and_flips_come_first(some: Path) -> None:
    score(some, "--run-pages", "all")
    report = (some / "out" / "report.html").read_text()
    assert '<a href="run-pages/index.html">Runs, flips first</a>' in report
    index = (some / "out" / "run-pages" / "index.html").read_text()
    flip, rest = index.split("<h2>")[1:]
    assert flip.startswith("Flips: 1 pair, ")
    assert "Gained: only the candidate passed." in flip
    assert f'<a href="{page_name("two", 2)}">repeat 2</a> gained' in flip
    for task, repeat in (("one", 1), ("one", 2), ("two", 1)):
        assert f'<a href="{page_name(task, repeat)}">repeat {repeat}</a> passed' in rest
    assert page_name("two", 2) not in rest
    assert '<a href="index.html">All runs</a>' in pages(some)[page_name("two", 2)]
    score(some, "--run-pages", "flips")
    index = (some / "out" / "run-pages" / "index.html").read_text()
    assert index.count("<h2>") == 1
    assert page_name("one", 1) not in index


def test_a_run_without_a_partner_has_a_page_of_its_own(some: Path) -> None:
    folder(some, WITH, "three", 1, claude(say("alone")))
    collect(some)
    score(some, "--run-pages", "all")
    page = pages(some)[page_name("three", 1)]
    assert "alone" in page
    assert 'id="baseline"' not in page


def test_pages_have_a_limit_and_flips_are_not_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twoarm.run_pages.pages.MOST_PAGES", 2)
    found = [
        run(arm=arm, repeat=n, success=not (n == 9 and arm == "without_skelly"))
        for n in range(1, 10)
        for arm in ("with_skelly", "without_skelly")
    ]
    plan = plan_pages([library.score(found).comparison], "all")
    assert plan.wanted == 9
    assert [(page.repeat, page.flips) for page in plan.pages] == [(9, (0,)), (1, ())]


@pytest.mark.parametrize(
    "task", ["../../x", "a/b", "", ".", "CON", "x" * 500, "é\u202e", "<script>"]
)
def test_no_task_chooses_the_name_of_a_file(task: str) -> None:
    name = page_name(task, 3)
    assert name.isascii()
    assert len(name) < 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
    assert not name.startswith(".")
    assert page_name(task + "!", 3) != name


@pytest.mark.parametrize("name", ["mine.txt", "mine.html", "one.2.html", "FOLDER", "LINK"])
def test_a_folder_with_other_files_is_left_alone(name: str, some: Path) -> None:
    place = some / "out" / "run-pages"
    assert score(some, "--run-pages", "flips").code == 0
    before = pages(some)
    if name.isupper():
        mine = place / page_name("mine", 1)
        (some / "precious").mkdir()
        mine.mkdir() if name == "FOLDER" else mine.symlink_to(some / "precious")
    else:
        mine = place / name
        mine.write_text("precious")
    result = score(some, "--run-pages", "all")
    assert result.code == 2
    expected = f"{mine.name}: not a file of twoarm; move it, or choose another folder by --out"
    assert expected in result.err
    assert mine.exists()
    if not name.isupper():
        mine.unlink()
        assert pages(some) == before


@pytest.mark.parametrize("which", ["all", "none"])
def test_nothing_is_written_or_removed_through_a_link_to_a_folder(some: Path, which: str) -> None:
    score(some, "--run-pages", "all")
    place = some / "out" / "run-pages"
    before = {path.name for path in place.iterdir()}
    place.rename(some / "elsewhere")
    place.symlink_to(some / "elsewhere")
    result = score(some, "--run-pages", which)
    assert result.code == 2
    assert "run-pages: a link, and nothing is written through it; remove it" in result.err
    assert place.is_symlink()
    assert {path.name for path in (some / "elsewhere").iterdir()} == before


def test_a_write_that_fails_leaves_the_old_pages(
    some: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score(some, "--run-pages", "flips")
    before = pages(some)

    def broken(*given: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("twoarm.run_pages.pages.render", broken)
    result = score(some, "--run-pages", "all")
    assert result.code == 2
    assert "No space left on device" in result.err
    assert pages(some) == before
    assert sorted(os.listdir(some / "out")) == [
        "analysis.json",
        "analysis.md",
        "report.html",
        "run-pages",
    ]


def test_an_option_without_effect_is_refused(some: Path) -> None:
    path = str(some / "collected.jsonl")
    assert (
        "--run-pages has no effect without --out" in twoarm("score", path, "--run-pages", "all").err
    )
    result = twoarm("score", "-", "--out", str(some / "o"), "--run-pages", "all")
    assert "--run-pages needs run files" in result.err


def test_several_candidates_have_one_page_for_each_repeat(some: Path) -> None:
    path = some / "collected.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    more = [
        {**line, "arm": "<third>", "run_id": None, "success": not line["success"]}
        for line in lines
        if line["arm"] == WITH
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
    reports = library.compare_candidates(library.read(path), baseline=WITHOUT).reports
    plan = plan_pages([report.comparison for report in reports], "flips")
    runs = reports[0].comparison.runs
    for page in plan.pages:
        assert [runs.arms[runs.arm[row]] for row in page.rows if row is not None] == [
            "<third>",
            WITH,
            WITHOUT,
        ]
    # All of the third arm failed, and so did one run of the baseline.
    assert [(page.task_id, page.repeat, page.flips) for page in plan.pages] == [
        ("one", 1, (0,)),
        ("one", 2, (0,)),
        ("two", 1, (0,)),
        ("two", 2, (1,)),
    ]
    assert score(some, "--run-pages", "flips", "--baseline", WITHOUT).code == 0
    index = (some / "out" / "run-pages" / "index.html").read_text()
    assert "Flips: 4 repeats in which a candidate did not end like the baseline" in index
    assert (index.count("&lt;third&gt; lost<"), index.count(f"{WITH} gained<")) == (3, 1)
    page_of_two = pages(some)[page_name("two", 2)]
    ids = [f'id="{name}"' for name in ("candidate", "candidate-2", "baseline")]
    assert sorted(ids, key=page_of_two.index) == ids
    assert f"repeat 1: &lt;third&gt; failed, {WITH} passed, {WITHOUT} passed" in page_of_two
    assert f"run-pages/{page_name('two', 2)}" in (some / "out" / "report.html").read_text()


def test_a_dot_and_a_row_open_their_run(some: Path, chromium: Browser) -> None:
    path, out = str(some / "collected.jsonl"), str(some / "out")
    assert twoarm("score", path, "--out", out, "--run-pages", "all").code == 0
    with shown(chromium, some / "out" / "report.html") as (page, complaints, _):
        page.wait_for_selector("body[data-ready]")
        charts = page.evaluate("JSON.parse(document.getElementById('charts').textContent).charts")
        expected = {f"run-pages/{page_name(task, n)}" for task in ("one", "two") for n in (1, 2)}
        for chart, dataset, layer in (
            ("delta-duration_seconds", "pairs", "pairs"),
            ("spread-duration_seconds", "points", "points"),
            ("timeline", "starts", "starts"),
        ):
            spec = charts[chart]
            assert {row["url"] for row in spec["datasets"][dataset]} == expected
            (drawn,) = (one for one in spec["layer"] if one["name"] == layer)
            assert drawn["encoding"]["href"]["field"] == "url"
        for row in charts["delta-duration_seconds"]["datasets"]["pairs"]:
            # A pair differs by the square of its repeat.
            repeat = {1: 1, 4: 2}[row["at"]]
            assert row["url"] == f"run-pages/{page_name(row['task'], repeat)}"
        for chart, dataset in (
            ("success", "tasks"),
            ("delta-duration_seconds", "means"),
            ("cost", "tasks"),
        ):
            assert charts[chart]["datasets"][dataset]
            for row in charts[chart]["datasets"][dataset]:
                first = 2 if row["task"] == "two" else 1
                assert row["url"] == f"run-pages/{page_name(row['task'], first)}"
        page.locator("#tasks tbody td a", has_text="two").click()
        page.wait_for_url("**/run-pages/two-*")
        assert page.locator("h1").inner_text() == "two, repeat 2"
        page.locator("nav a", has_text="Report").click()
        page.wait_for_url("**/report.html#tasks")
        page.wait_for_selector("body[data-ready]")
        page.locator("#chart-delta-duration_seconds .pairs_marks > *").first.click()
        page.wait_for_url("**/run-pages/*")
        assert complaints == []
