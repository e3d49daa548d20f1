"""Where no run succeeded: nobody is promoted for failing faster; what ended all of them is told."""

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
