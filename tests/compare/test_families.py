"""Families of tasks: who names them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT
from tests.conftest import run as line
from tests.support.effect_runs import evidence, suite
from tests.support.family_runs import FAMILIES, SIZES, even, in_families
from twoarm.errors import BadRunsError, UsageError
from twoarm.runs.metric import JUDGED


def prefixed(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The family in the name of the task, and in no key."""
    return [
        dict(
            {key: value for key, value in run.items() if key != "family"},
            task_id=f"{run['family']}__{run['task_id']}",
        )
        for run in runs
    ]


def test_the_option_takes_the_first_group_of_each_task() -> None:
    runs = in_families(suite(24, 3, seed=5), FAMILIES)
    expected = evidence(runs)
    found = evidence(prefixed(runs), family="^(f[0-9]+)__")
    assert found.families == expected.families == len(SIZES)
    for metric in JUDGED:
        ours, theirs = (each.deltas[metric.name] for each in (found, expected))
        assert ours.change.estimate == pytest.approx(theirs.change.estimate)
        assert ours.change.tasks_like_these == theirs.change.tasks_like_these
        assert ours.p.tasks_like_these == pytest.approx(theirs.p.tasks_like_these)


def test_a_task_that_does_not_match_is_a_family_of_its_own() -> None:
    runs = [dict(run, task_id=name(run["task_id"])) for run in suite(8, 2)]
    report = twoarm.score(runs, family="^(ab?)")
    families = {task.task_id: task.family for task in report.tasks}
    assert families["a-t000"] == families["a-t001"] == "a"
    assert families["t003"] is None
    assert report.evidence is not None
    assert report.evidence.families == 6


def name(task: str) -> str:
    return f"a-{task}" if task in ("t000", "t001", "t002") else task


def test_the_option_comes_before_the_records() -> None:
    runs = in_families(suite(8, 2), [0, 0, 0, 0, 1, 1, 1, 1])
    runs[0]["family"] = "another"
    found = evidence(runs, family="^(t00[0-5])")
    assert found.families is None
    with pytest.raises(BadRunsError):
        evidence(runs)


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        ("^(django", "family: `^(django` is not a valid regular expression: "),
        ("^django", "family: expected a group in parentheses that is the family, such as "),
        ("^(x)__", "family: `^(x)__` finds no family in any task_id, such as `t000`"),
    ],
)
def test_an_expression_that_finds_no_family_is_refused(regex: str, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        twoarm.score(suite(6, 2), family=regex)
    assert str(raised.value).startswith(why)


def test_two_families_of_one_task_are_an_error_that_says_where(tmp_path: Path) -> None:
    runs = [
        line("a", WITH, 1, family="one"),
        line("a", WITHOUT, 1),
        line("a", WITH, 2, family="two"),
        line("a", WITHOUT, 2, family="two"),
        line("b", WITH, 1, family="two"),
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in runs), encoding="utf-8")
    expected = (
        f"{file}:3: family: task `a` is of family `two` here, and of `one` at {file}:1; a task is "
        "of one family in all of its runs"
    )
    with pytest.raises(BadRunsError) as raised:
        twoarm.score(str(file))
    assert [str(problem) for problem in raised.value.problems] == [expected]
    assert [str(problem) for problem in twoarm.check(str(file)).problems] == [expected]


def test_a_run_that_names_no_family_agrees_with_any() -> None:
    runs = even(6, 2)
    expected = evidence(runs)
    for run in runs[::3]:
        run["family"] = None
    assert evidence(runs) == expected


# Ids that look like families ----------------------------------------------------------------------


def named_caveats(names: list[str]) -> list[str]:
    runs = [line(name, arm, 1) for name in names for arm in (WITH, WITHOUT)]
    found = twoarm.score(runs).caveats
    return [str(caveat.message) for caveat in found if caveat.code == "family_not_named"]


@pytest.mark.parametrize(
    "names",
    [
        ["x/1", "x/2", "y/1", "y/2"],
        ["x:1", "x:2", "y__1", "y__2", "alone", "z/1", "other", "more"],
        ["django__django-1", "django__django-2", "sympy__sympy-1", "sympy__sympy-2"],
    ],
)
def test_ids_that_look_like_families_are_said(names: list[str]) -> None:
    (message,) = named_caveats(names)
    some = "all 4" if len(names) == 4 else f"4 of {len(names)}"
    assert message.startswith(f"the ids of {some} tasks look like 2 families (")
    assert "--family" in message


@pytest.mark.parametrize(
    "names",
    [
        # One prefix is the suite's, not a family's.
        ["x/1", "x/2", "x/3", "x/4"],
        # Every task has its own.
        ["a/1", "b/1", "c/1", "d/1"],
        # Fewer than half of the tasks.
        ["x/1", "x/2", "y/1", "y/2", "a", "b", "c", "d", "e"],
        ["flaky-retry-test", "flaky-other", "slow-a", "slow-b"],
    ],
)
def test_other_ids_are_not(names: list[str]) -> None:
    assert not named_caveats(names)


def test_nothing_is_said_where_families_are_named() -> None:
    runs = prefixed(even(4, 2, repeats=1))
    assert "family_not_named" in {caveat.code for caveat in twoarm.score(runs).caveats}
    found = twoarm.score(runs, family="^(.+?)__").caveats
    assert "family_not_named" not in {caveat.code for caveat in found}
    named = [dict(run, family=run["task_id"]) for run in runs]
    assert "family_not_named" not in {caveat.code for caveat in twoarm.score(named).caveats}
