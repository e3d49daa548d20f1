"""All runs of a task are put to the same checks, or nothing is scored."""

import io
from typing import Any

import pytest

import twoarm
from tests.conftest import lines, run
from twoarm.runs.runfile import read

BOTH = {"unit": True, "lint": False}


def arms(checks: list[Any], **more: Any) -> list[dict[str, Any]]:
    """A pair of runs for each, the second with these checks."""
    return [
        run(arm=arm, repeat=n, checks=given if arm.startswith("without") else BOTH, **more)
        for n, given in enumerate(checks, 1)
        for arm in ("with_x", "without_x")
    ]


def refused(records: list[dict[str, Any]]) -> list[str]:
    stream = io.BytesIO(lines(records))
    stream.name = "runs.jsonl"
    with pytest.raises(twoarm.BadRunsError) as caught:
        twoarm.score(stream)
    return str(caught.value).splitlines()


def test_other_checks_are_refused_with_both_places_and_both_sets() -> None:
    (line,) = refused(arms([BOTH, {"unit": True, "types": True}]))
    assert line == (
        "runs.jsonl:4: checks: task `t` has `types`, `unit` here, and `lint`, `unit` at "
        "runs.jsonl:1; all runs of a task need the same checks"
    )


def test_fewer_checks_are_other_checks() -> None:
    assert len(refused(arms([{"unit": True}]))) == 1


def test_the_order_of_names_and_what_they_found_do_not_matter() -> None:
    records = arms([{"lint": None, "unit": False}, BOTH])
    assert twoarm.score(io.BytesIO(lines(records))).decision


def test_runs_without_checks_differ_from_none() -> None:
    records = arms([None, {}, BOTH])
    assert twoarm.score(io.BytesIO(lines(records))).decision


def test_two_tasks_may_have_different_checks() -> None:
    records = [
        *arms([BOTH], task_id="a"),
        *(run(task_id="b", arm=arm, checks={"c": True}) for arm in ("with_x", "without_x")),
    ]
    assert twoarm.score(io.BytesIO(lines(records))).decision


def test_a_run_that_does_not_count_may_have_others() -> None:
    records = arms([{"unit": True}], failure="infra", failure_reason="no network")
    records += arms([BOTH])
    assert twoarm.score(io.BytesIO(lines(records))).decision


def test_the_order_of_the_file_decides_which_run_is_the_odd_one() -> None:
    tasks = [*arms([BOTH], task_id="z"), *arms([{"unit": True}], task_id="a")]
    (line,) = refused(tasks)
    assert line.startswith("runs.jsonl:4: checks: task `a` has `unit` here, and `lint`, `unit` at")


def test_the_same_mistake_in_many_runs_is_said_once() -> None:
    (line,) = refused(arms([{"unit": True}] * 40))
    assert "the same mistake in 40 places" in line


def test_names_of_checks_cannot_talk_to_a_terminal_or_a_ci_runner() -> None:
    (line,) = refused(arms([{"\n::error::gone\x1b[2J": True}]))
    assert "\x1b" not in line
    assert "::error::" not in line.split("\n")[0][:10]


def test_check_finds_them_too() -> None:
    stream = io.BytesIO(lines(arms([{"unit": True}])))
    stream.name = "runs.jsonl"
    (problem,) = twoarm.check(stream).problems
    assert str(problem).startswith("runs.jsonl:2: checks: task ")
    assert len(read(io.BytesIO(lines(arms([{"unit": True}]))))) == 2
