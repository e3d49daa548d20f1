"""`twoarm show`: the runs of a task and repeat in the terminal."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import both, lines, run, twoarm
from tests.support.pseudo_terminal import printed_on_terminal
from tests.support.run_page_folders import WITH, pages, score, some_runs
from twoarm.run_pages.pages import page_name

DOCUMENT = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()


@pytest.fixture
def some(tmp_path: Path) -> Path:
    return some_runs(tmp_path)


def test_show_prints_the_runs_of_both_arms(some: Path) -> None:
    for where in (some, some / "collected.jsonl"):
        result = twoarm("show", str(where), "two", "2")
        assert result.code == 0
        for text in (
            "two, repeat 2, with_x: passed\n",
            "two, repeat 2, without_x: failed\n",
            "PROMPT\n  Please do it.\n",
            "  2. Bash (1,001 input, 50 output tokens)\n     ls\n     ->\n     done\n",
            "LAST WORDS\n  Done 2.\n",
            "ACCEPTANCE\n  1 test failed\n",
            "CHANGE\n  --- a/x\n",
        ):
            assert text in result.out, text
    one = twoarm("show", str(some), "two", "2", "--arm", WITH)
    assert "without_x" not in one.out


def test_show_says_what_is_not_there(some: Path, tmp_path: Path) -> None:
    result = twoarm("show", str(some), "three", "1")
    assert (result.code, result.out) == (2, "")
    assert "no run of task `three`; tasks in it: `one`, `two`\n" in result.err
    result = twoarm("show", str(some), "two", "7")
    assert "no repeat 7 of task `two`; repeats in it: `1`, `2`\n" in result.err
    result = twoarm("show", str(some), "two", "2", "--arm", "third")
    assert "no run of arm `third`; arms of this repeat: `with_x`, `without_x`\n" in result.err
    (tmp_path / "empty").mkdir()
    assert "no collected.jsonl in it" in twoarm("show", str(tmp_path / "empty"), "t", "1").err
    assert "cannot be read" in twoarm("show", str(tmp_path / "nothing"), "t", "1").err


def test_lines_of_twoarm_are_folded_and_those_of_a_run_are_not(some: Path) -> None:
    place = some / "runs" / WITH / "3"
    wide = "--- " + "x" * 200
    (place / "diff.patch").write_text(wide)
    (place / "acceptance.log").write_text("")
    out = twoarm("show", str(some), "two", "2", "--arm", WITH).out
    assert [line for line in out.splitlines() if len(line) > 80 and "file:" not in line] == [
        f"  {wide}"
    ]
    assert "ACCEPTANCE\n  (empty)\n" in out


def test_show_without_a_task_lists_what_there_is(some: Path) -> None:
    for where in (some, some / "collected.jsonl"):
        result = twoarm("show", str(where))
        assert (result.code, result.err) == (0, "")
        assert result.out == (
            "`one`: repeats `1`, `2`\n`two`: repeats `1`, `2`\n"
            f"see the runs of one with twoarm show {where} TASK REPEAT\n"
        )
    one = twoarm("show", str(some), "two")
    assert one.out.startswith("`two`: repeats `1`, `2`\nsee the runs")
    missing = twoarm("show", str(some), "three")
    assert missing.code == 2
    assert "no run of task `three`; tasks in it: `one`, `two`\n" in missing.err
    idle = twoarm("show", str(some), "two", "--arm", WITH)
    assert (idle.code, "--arm has no effect without REPEAT" in idle.err) == (2, True)


def test_a_list_of_many_tasks_and_repeats_is_short_and_inert(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    many = [run(f"t{number:03}\x1b[2J", WITH) for number in range(200)]
    path.write_bytes(lines([*many, *(run("a", WITH, repeat) for repeat in range(1, 101))]))
    out = twoarm("show", str(path)).out
    first = ", ".join(f"`{repeat}`" for repeat in range(1, 21))
    assert out.splitlines()[0] == f"`a`: repeats {first} and 80 more"
    assert out.splitlines()[1] == "`t000\\x1b[2J`: repeats `1`"
    assert "and 151 more tasks\n" in out
    assert len(out.splitlines()) == 52
    assert "\x1b" not in out
    path.write_text("\n")
    empty = twoarm("show", str(path))
    assert (empty.code, empty.err) == (2, f"twoarm: {path}: no runs in it\n")


def test_a_run_that_was_not_made_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    left = {"success": False, "failure": "missing", "failure_reason": "not yet run"}
    path.write_bytes(lines([*both(), *both(repeat=2, **left)]))
    shown = twoarm("show", str(path), both()[0]["task_id"], "2").out
    assert "missing: planned, and without a run: `not yet run`" in shown
    assert "nothing to show: it has not been run\n" in shown


def test_records_without_run_path_are_told_what_they_lack(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    found = [one for repeat in range(1, 6) for one in both(repeat=repeat)]
    path.write_bytes(lines(found))
    task = found[0]["task_id"]
    result = twoarm("show", str(path), task, "1")
    assert result.code == 0
    said = "nothing to show: the record has no `run_path`; add it to the record, see "
    assert f"{said}docs/records.md, or collect the runs again\n" in result.out
    out = tmp_path / "out"
    words = ("score", str(path), "--out", str(out), "--run-pages", "all", "--no-evidence")
    result = twoarm(*words)
    assert result.code == 0
    assert (
        "twoarm: no pages of runs: no record has a `run_path`; see docs/records.md\n" in result.err
    )
    assert "pages of runs to" not in result.err
    assert not (out / "run-pages").exists()
    assert "run-pages/" not in (out / "report.html").read_text()


def test_pages_of_an_earlier_report_do_not_stay_beside_one_that_has_none(some: Path) -> None:
    assert score(some, "--run-pages", "all").code == 0
    assert len(pages(some)) == 4
    path = some / "collected.jsonl"
    bare = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_bytes(lines([{**one, "run_path": None} for one in bare]))
    assert score(some, "--run-pages", "all").code == 0
    assert not (some / "out" / "run-pages").exists()


def test_a_folder_of_results_names_the_run_file_it_was_scored_from(some: Path) -> None:
    assert score(some).code == 0
    result = twoarm("show", str(some / "out"), "two", "2")
    assert (result.code, result.err) == (
        2,
        f"twoarm: {some}/out: no collected.jsonl in it; it was scored from "
        f"{some}/collected.jsonl, so name that file\n",
    )
    for text in ("{", "[]", '{"inputs": 3}', '{"inputs": []}', "[" * 9999):
        (some / "out" / "analysis.json").write_text(text)
        plain = twoarm("show", str(some / "out"), "two", "2")
        assert "no collected.jsonl in it; collect its runs, or name a run file" in plain.err


def test_the_commands_of_the_document_work(some: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(some)
    (block,) = re.findall(r"^```sh\n(twoarm run .*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert [words[0] for words in commands] == ["run", "show", "score", "show"]
    # The two after `run` are tried where a run leaves its runs.
    assert commands[0][-2:] == ["--out", commands[1][1]]
    (some / commands[1][1]).mkdir()
    for name in ("runs", "collected.jsonl"):
        (some / commands[1][1] / name).symlink_to(some / name)
    for words in commands[1:]:
        found = ["two" if word == "sql-pagination" else word for word in words]
        result = twoarm(*("2" if word == "3" else word for word in found))
        assert result.code == 0, result.err
        assert "two, repeat 2" in result.out or words[0] == "score"


PATCH = (
    "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n--- a comment\n+new \x1b[5m\n"
    "diff --git a/y b/y\n--- a/y\n"
)


def test_a_diff_has_color_where_the_terminal_does(some: Path) -> None:
    (some / "runs" / WITH / "3" / "diff.patch").write_text(PATCH)
    given = ["show", str(some), "two", "2", "--arm", WITH]
    seen = printed_on_terminal(given, NO_COLOR="").decode().replace("\r\n", "\n")
    plain = printed_on_terminal(given, NO_COLOR="1").decode().replace("\r\n", "\n")
    start = seen.index("CHANGE\n")
    assert seen[start : seen.index("file:")] == (
        "CHANGE\n"
        "  \x1b[2mdiff --git a/x b/x\x1b[0m\n"
        "  \x1b[2m--- a/x\x1b[0m\n"
        "  \x1b[2m+++ b/x\x1b[0m\n"
        "  \x1b[2m@@ -1,2 +1,2 @@\x1b[0m\n"
        "   same\n"
        "  \x1b[1;31m--- a comment\x1b[0m\n"
        "  \x1b[1;32m+new \x1b[0m\n"
        "  \x1b[2mdiff --git a/y b/y\x1b[0m\n"
        "  \x1b[2m--- a/y\x1b[0m\n"
    )
    assert "\x1b" not in plain
    assert "\x1b" not in seen[:start]
    assert plain == re.sub(r"\x1b\[[\d;]*m", "", seen)
    assert plain == twoarm(*given).out


def test_a_diff_has_color_on_its_page(some: Path) -> None:
    (some / "runs" / WITH / "3" / "diff.patch").write_text(f"{PATCH}<b>")
    score(some, "--run-pages", "all")
    page = pages(some)[page_name("two", 2)]
    for line in (
        '<span class="faint">@@ -1,2 +1,2 @@</span>\n same\n',
        '\n<span class="bad">--- a comment</span>\n',
        '<span class="good">+new ',
        '<span class="faint">--- a/y</span>\n<span class="faint">&lt;b&gt;</span></pre>',
    ):
        assert line in page
