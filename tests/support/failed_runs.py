"""Runs that failed, most of them because of a budget."""

from typing import Any

from tests.conftest import WITH, WITHOUT, run

BUDGET = {"failure": "agent", "failure_reason": "budget limit", "success": False}


def budget_runs(passed: int = 5) -> list[dict[str, Any]]:
    """Twenty runs an arm: each fails once, and the baseline meets its budget seven times."""
    runs = []
    for number in range(20):
        for arm in (WITH, WITHOUT):
            made = run(f"t{number // 5}", arm, number % 5 + 1, acceptance_exit_code=0, failure=None)
            if number == 19:
                made |= {"success": False, "acceptance_exit_code": 1}
            elif arm == WITHOUT and number < 7:
                made |= BUDGET | {"acceptance_exit_code": int(number >= passed)}
            runs.append(made)
    return runs
