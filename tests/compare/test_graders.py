"""Runs of one task that were graded in two ways are not compared."""

import json
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, run
from tests.conftest import twoarm as command

OLD, NEW = "a" * 64, "b" * 64


def graded(by: str | None, **more: Any) -> list[dict[str, Any]]:
    return [record | {"grader": by} for record in both(**more)]


def test_two_graders_of_a_task_are_refused_with_the_task_and_both() -> None:
    runs = [*graded(OLD), *graded(OLD, repeat=2), *graded(NEW, repeat=3)]
    with pytest.raises(twoarm.BadRunsError) as refused:
        twoarm.score(runs)
    assert str(refused.value) == (
        "run:5: grader: task `t` was graded by `bbbbbbbbbb…bbbbb` here and by "
        "`aaaaaaaaaa…aaaaa` at run:1, and what differs may be the graders; grade all of "
        "its runs alike with `twoarm regrade`"
    )


def test_two_graders_in_two_arms_are_refused() -> None:
    runs = [run(grader=OLD), run(arm=WITHOUT, grader=NEW)]
    with pytest.raises(twoarm.BadRunsError):
        twoarm.score(runs)


def test_tasks_may_have_a_grader_each() -> None:
    runs = [*graded(OLD), *graded(NEW, task_id="t2")]
    assert twoarm.score(runs).effective_run_count == 4


@pytest.mark.parametrize("unknown", [{}, {"grader": None}])
def test_a_run_that_does_not_say_is_compared_with_any(unknown: dict[str, Any]) -> None:
    runs = [*graded(OLD), *(record | unknown for record in both(repeat=2))]
    assert twoarm.score(runs).effective_run_count == 4


def test_runs_that_do_not_count_may_have_any_grader() -> None:
    others = [
        run(repeat=2, failure="infra", grader=NEW),
        run(repeat=3, arm="another", grader=NEW),
    ]
    runs = [*graded(OLD), *others]
    assert twoarm.score(runs, candidate=WITH, baseline=WITHOUT).effective_run_count == 2
    again = [*graded(OLD), *graded(NEW)]
    assert twoarm.score(again, duplicates="last").effective_run_count == 2


def test_each_candidate_is_compared_with_the_baseline_alone() -> None:
    runs = [*both(), run(arm="other", grader=NEW), run(arm="third", grader=OLD)]
    loaded = twoarm.read(runs)
    assert len(twoarm.compare_candidates(loaded, baseline=WITHOUT).reports) == 3
    loaded = twoarm.read([*runs, run(arm=WITHOUT, repeat=2, grader=OLD)])
    with pytest.raises(twoarm.BadRunsError):
        twoarm.compare_candidates(loaded, baseline=WITHOUT)


def test_check_names_every_task_and_score_folds_many(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    lines = [
        record
        for task in range(5)
        for record in (
            *graded(OLD, task_id=f"t{task}"),
            *graded(NEW, task_id=f"t{task}", repeat=2),
        )
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    checked = twoarm.check(str(path))
    assert [(problem.line, problem.field) for problem in checked.problems] == [
        (line, "grader") for line in (3, 7, 11, 15, 19)
    ]
    result = command("score", str(path))
    assert result.code == 2
    assert "the same mistake in 5 places" in result.err
    assert result.err.endswith("twoarm: 5 problems; nothing was scored\n")
    assert result.err.count("\n") == 2
