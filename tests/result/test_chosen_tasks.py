"""Every report on chosen tasks says so, and nobody can take it for the whole."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.conftest import WITHOUT, both, lines, run
from tests.conftest import twoarm as command
from twoarm.errors import SERIOUS
from twoarm.render.github import annotations

OF = "5 of 8 tasks"
ALONE = "this is about 5 of 8 tasks alone"
MESSAGE = (
    "only 5 of 8 tasks, those tagged `sql`; 36 runs of the others left out: whoever chooses tasks "
    "after seeing results can find a winner, so decide by this only if the choice came first"
)


def runs_of(tasks: int = 8, repeats: int = 6) -> list[dict[str, Any]]:
    return [
        record
        | {"duration_seconds": 100.0 + 3 * task + repeat + (record["arm"] == WITHOUT) * (5 + task)}
        | ({"task_tags": ["sql"]} if task < 5 else {})
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for record in both(f"t{task}", repeat)
    ]


@pytest.fixture(scope="module")
def report() -> twoarm.Report:
    return twoarm.score(runs_of(), tag=("sql",), resamples=99)


def plain(text: str) -> str:
    """Without line ends and markup."""
    return " ".join(re.sub(r"<[^>]*>|`", "", text).replace("\n", " ").split())


WAYS: dict[str, Callable[[twoarm.Report], str]] = {
    "text": lambda report: report.to_text(),
    "full": lambda report: report.to_text(full=True),
    "markdown": lambda report: report.to_markdown(),
    "github": lambda report: report.to_github(),
    "html": lambda report: report.to_html(),
    "notebook": lambda report: report._repr_html_(),
    "junit": lambda report: report.to_junit(),
    "annotations": lambda report: "\n".join(annotations(report)),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_report_says_of_how_many_tasks_it_is(report: twoarm.Report, way: str) -> None:
    shown = WAYS[way](report)
    # What JUnit says of a suite is in attributes.
    assert OF in (shown if way == "junit" else plain(shown))


@pytest.mark.parametrize("way", list(WAYS)[:6])
def test_what_a_promotion_is_about_stands_beside_it(report: twoarm.Report, way: str) -> None:
    assert ALONE in plain(WAYS[way](report))


def test_the_file_says_how_many_tasks_were_left_out_and_how(report: twoarm.Report) -> None:
    document = json.loads(report.to_json())
    assert document["chosen_tasks"] == {"tasks": 5, "of": 8}
    assert (document["options"]["tag"], document["options"]["task"]) == (["sql"], None)
    assert [(g["kind"], g["runs"]) for g in document["excluded"]] == [("other task", 18)] * 2
    assert document["promotion"]["reasons"][-1] == ALONE


def test_the_caveat_is_the_first_of_all(report: twoarm.Report) -> None:
    caveats = {caveat.code: caveat for caveat in report.caveats}
    assert str(caveats["chosen_tasks"].message) == MESSAGE
    assert (caveats["chosen_tasks"].severity, SERIOUS[0]) == ("serious", "chosen_tasks")


def test_both_ways_to_choose_are_told() -> None:
    report = twoarm.score(runs_of(), tag=("sql",), task=("t1", "t[23]"), evidence=False)
    (message,) = (c.message for c in report.caveats if c.code == "chosen_tasks")
    assert str(message).startswith("only 3 of 8 tasks, those tagged `sql` and those named `t1`, ")


def test_an_exit_code_comes_with_what_it_is_about(runs: Path) -> None:
    runs.write_bytes(lines(runs_of()))
    done = command("score", str(runs), "--tag", "sql", "--exit-code", "--resamples", "99")
    assert done.code == 0
    assert f"; {ALONE}" in done.err


def test_the_command_of_the_page_has_the_choice(runs: Path) -> None:
    runs.write_bytes(lines(runs_of()))
    page = twoarm.score(runs, tag=("sql",), task=("t1", "t2"), evidence=False).to_html()
    assert f"twoarm score {runs} --no-evidence --tag=sql --task=t1 --task=t2" in page
    assert "<dt>task</dt><dd>t1,t2</dd>" in page
    assert "<dt>task</dt><dd>all</dd>" in twoarm.score(runs, evidence=False).to_html()


def test_several_candidates_say_it_together() -> None:
    runs = [
        *runs_of(),
        *(run("t0", "b", repeat, task_tags=["sql"]) for repeat in range(1, 7)),
    ]
    both_of = twoarm.compare_candidates(
        twoarm.read(runs), ["with_skelly", "b"], baseline=WITHOUT, tag=("sql",), resamples=99
    )
    for shown in (
        both_of.to_text(),
        both_of.to_markdown(),
        both_of.to_github(),
        both_of._repr_html_(),
        both_of.to_html(),
    ):
        assert OF in plain(shown)
    assert OF in both_of.to_junit()


def test_a_plan_and_a_calibration_say_it() -> None:
    made = [
        record | {"duration_seconds": record["duration_seconds"] * (1 + 0.1 * (number * 7 % 5))}
        for number, record in enumerate(runs_of())
    ]
    plan = twoarm.plan(made, detect="-20%", metric="duration", tag=("sql",))
    calibration = twoarm.calibrate(made, baseline=WITHOUT, tag=("sql",), trials=50)
    for short, where in ((plan, "Pilot of 5 of 8 tasks x"), (calibration, "each 5 of 8 tasks x")):
        assert short.chosen_tasks is not None
        for shown in (short.to_text(), short.to_markdown(), short._repr_html_()):
            assert where in plain(shown)
            assert "only 5 of 8 tasks, those tagged sql; " in plain(shown)
            # Neither is a verdict.
            assert "winner, so decide" not in plain(shown)
    assert twoarm.plan(made, detect="-20%", metric="duration").chosen_tasks is None


def test_the_tag_of_a_run_says_which_tasks_are_run() -> None:
    from twoarm.commands.run import _options

    assert _options({"tag": ["sql"], "level": 0.9}) == twoarm.Options(level=0.9)


def test_rows_for_a_frame_have_the_tags() -> None:
    rows = twoarm.score(runs_of(), evidence=False).task_rows()
    assert [row["task_tags"] for row in rows] == ["sql"] * 5 + [""] * 3
