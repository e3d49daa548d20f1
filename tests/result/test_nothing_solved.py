"""Where no run succeeded: nobody is promoted for failing faster; what ended all of them is told."""

from typing import Any

import pytest

import twoarm as package
from tests.conftest import WITH, WITHOUT, run
from tests.support.advice import advised
from tests.support.formula_runs import spread


def test_where_nothing_succeeds_the_tasks_are_looked_into() -> None:
    runs = [one | {"success": False} for one in spread(8, 5, 0.5)]
    for by in ("gates", "evidence", "margin"):
        (step,) = advised(package.score(runs, promote_by=by))
        assert step.startswith("check the tasks and the acceptance command: no run succeeded")


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["exit code 2"], "find out why the agent crashed, as it did in every run; "),
        (["hit the time limit"], "raise the limits: every run met one (timeout), and none"),
        (["turn limit", "hit the time limit"], "raise the limits: every run met one (timeout and"),
        (["exit code 2", "hit the time limit"], "check the tasks and the acceptance command: "),
    ],
)
def test_where_nothing_succeeds_whatever_ended_all_runs_is_looked_into(
    reasons: list[str], said: str
) -> None:
    failed = {"success": False, "failure": "agent"}
    runs = [
        one | failed | {"failure_reason": reasons[at % len(reasons)]}
        for at, one in enumerate(spread(8, 5, 0.5))
    ]
    (step,) = advised(package.score(runs))
    assert step.startswith(said)


@pytest.mark.parametrize("solved", [0, 1])
def test_where_no_run_succeeded_nobody_is_promoted_by_the_gates(solved: int) -> None:
    """As where the acceptance command is mistyped: whoever fails first is the faster one."""
    runs = [
        run(f"t{task}", arm, repeat, success=task < solved, duration_seconds=seconds)
        for task in range(6)
        for repeat in range(1, 6)
        for arm, seconds in ((WITH, 90.0), (WITHOUT, 100.0))
    ]
    report = package.score(runs)
    assert report.comparison.decision.kind == "candidate"
    assert report.promotion.verdict == ("promote" if solved else "not enough data")
    if not solved:
        assert [str(reason) for reason in report.promotion.reasons] == [
            "no run succeeded in either arm"
        ]


def crashing(*, tasks: int) -> list[dict[str, Any]]:
    """A candidate whose every run crashes and so counts no tokens; what it replaces works."""
    return [
        run(f"t{task}", arm, repeat, success=works, input_tokens=100 if works else None)
        for task in range(tasks)
        for repeat in range(1, 6)
        for arm, works in ((WITH, False), (WITHOUT, True))
    ]


def test_a_candidate_that_only_crashes_is_clearly_worse_whatever_is_not_measured() -> None:
    report = package.score(crashing(tasks=8), promote_by="evidence")
    assert report.comparison.decision.kind == "insufficient"
    assert report.promotion.verdict == "do not promote"
    assert "for tasks like these" in str(report.promotion.reasons[0])
    # The gates need every metric; on few tasks nothing can be said of others.
    by_gates = package.score(crashing(tasks=8))
    on_few = package.score(crashing(tasks=5), promote_by="evidence")
    for lacking in (by_gates, on_few):
        assert lacking.promotion.verdict == "not enough data"
        assert str(lacking.promotion.reasons[0]).startswith("not measured in at least one arm: ")


def test_a_run_that_is_not_over_is_not_judged_by_its_crashes() -> None:
    unmade = run("t0", WITH, 6, success=False, failure="missing", failure_reason="not yet run")
    report = package.score([*crashing(tasks=8), unmade], promote_by="evidence")
    assert report.promotion.verdict == "not enough data"
