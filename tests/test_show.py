"""`twoarm show`: the runs of a task and repeat in the terminal."""

from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.paging import WITH, some_runs


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
