"""What the agent did differently: every figure worked out by hand, intervals that hold together."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import twoarm as library
from tests.conftest import run
from twoarm.evidence.relabel import simultaneous

WITH, WITHOUT = "with_skelly", "without_skelly"


def pairs(
    tasks: dict[str, list[tuple[dict[str, int] | None, dict[str, int] | None]]], **more: Any
) -> list[dict[str, Any]]:
    """Pairs of runs with their calls, by task."""
    return [
        run(task_id=task, arm=arm, repeat=repeat, tool_calls=calls, **more)
        for task, both in tasks.items()
        for repeat, pair in enumerate(both, 1)
        for arm, calls in zip((WITH, WITHOUT), pair, strict=True)
    ]


def shifts(found: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    report = library.score(found, **options)
    assert report.tool_use is not None
    return {shift.tool: shift for shift in report.tool_use.largest}


def test_calls_are_paired_by_task() -> None:
    found = shifts(
        pairs(
            {
                "a": [({"Read": 1}, {"Read": 3}), ({"Read": 3}, {"Read": 5, "Grep": 2})],
                "b": [({"Read": 2}, {"Read": 8})],
            }
        )
    )
    read = found["Read"]
    # Each arm by itself: 6 calls in 3 runs, 16 in 3.
    assert (read.candidate_per_run, read.baseline_per_run) == (2.0, 16 / 3)
    # Task a: 2 - 4; task b: 2 - 8. A task counts once, however many repeats it has.
    assert read.mean_delta == -4.0
    assert read.change == -4.0 / 6.0
    # A tool that a run does not name was not called in it.
    assert found["Grep"].mean_delta == -0.5


def test_a_run_that_does_not_tell_is_in_no_pair_and_is_not_zero() -> None:
    calls = {"a": [({"Read": 4}, {"Read": 2}), ({"Read": 9}, None)], "b": [(None, {"Read": 7})]}
    report = library.score(pairs(calls))  # type: ignore[arg-type]
    assert report.tool_use is not None
    assert report.tool_use.runs == (2, 2)
    assert (report.tool_use.pairs, report.tool_use.tasks) == (1, 1)
    (read,) = report.tool_use.largest
    assert (read.candidate_per_run, read.baseline_per_run, read.mean_delta) == (6.5, 4.5, 2.0)


@pytest.mark.parametrize("other", [None, {}])
def test_calls_known_for_one_arm_only_are_not_compared(other: dict[str, int] | None) -> None:
    report = library.score(pairs({"a": [({"Read": 1}, other)]}))
    assert (report.tool_use is None) is (other is None)


def test_failed_calls_are_those_of_all_tools() -> None:
    found = [
        run(task_id="a", arm=arm, tool_calls={"Bash": 5}, failed_tool_calls=failed)
        for arm, failed in ((WITH, {"Bash": 1}), (WITHOUT, {"Bash": 2, "(other)": 2}))
    ]
    report = library.score(found)
    assert report.tool_use is not None
    failed = report.tool_use.failed
    assert failed is not None
    assert (failed.candidate_per_run, failed.baseline_per_run, failed.mean_delta) == (1, 4, -3)
    (bash,) = report.tool_use.largest
    assert (bash.candidate_failed, bash.baseline_failed) == (1, 2)
    assert library.score(pairs({"a": [({"x": 1}, {"x": 1})]})).tool_use.failed is None  # type: ignore[union-attr]


def test_the_ten_largest_are_reported() -> None:
    calls = {f"t{n:02}": 20 + n for n in range(20)}
    report = library.score(pairs({"a": [(calls, dict.fromkeys(calls, 20))]}))
    assert report.tool_use is not None
    assert [shift.tool for shift in report.tool_use.largest] == [f"t{n}" for n in range(19, 9, -1)]
    assert (report.tool_use.tools, report.tool_use.compared) == (20, 20)


def test_calls_of_other_tools_are_no_tool() -> None:
    assert set(shifts(pairs({"a": [({"(other)": 9, "x": 1}, {"x": 2})]}))) == {"x"}


def many(tasks: int, candidate: int, baseline: int) -> list[dict[str, Any]]:
    """Read differs between the arms; Bash varies alike in both."""
    return pairs(
        {
            f"t{n}": [
                (
                    {"Read": candidate + n % 3, "Bash": n % 4},
                    {"Read": baseline + n % 2, "Bash": (n + 1) % 4},
                )
            ]
            for n in range(tasks)
        }
    )


def test_intervals_need_six_tasks() -> None:
    assert shifts(many(5, 2, 9))["Read"].low is None
    assert "No intervals: they need at least 6 tasks." in library.score(many(5, 2, 9)).to_markdown()
    assert shifts(many(6, 2, 9))["Read"].high < 0
    unweighed = library.score(many(6, 2, 9), evidence=False)
    assert unweighed.tool_use is not None
    assert all(shift.low is None for shift in unweighed.tool_use.largest)


def test_a_failed_gate_names_the_tools_that_moved_with_it() -> None:
    found = many(8, 2, 9)
    for one in found:
        one["duration_seconds"] = 200 if one["arm"] == WITH else 100
    (said,) = library.score(found).diagnostics.explanations
    assert str(said).endswith("; tool calls: `Read` -70%")
    same = many(8, 3, 3)
    for one in same:
        one["duration_seconds"] = 200 if one["arm"] == WITH else 100
    (said,) = library.score(same).diagnostics.explanations
    assert str(said) == "duration +100%; no diagnostic moved"


def test_tools_never_block() -> None:
    found, plain = many(8, 2, 9), many(8, 2, 9)
    for one in plain:
        del one["tool_calls"]
    with_tools, without = library.score(found), library.score(plain)
    assert with_tools.promotion == without.promotion
    assert with_tools.decision == without.decision
    assert with_tools.gates == without.gates
    assert "never block a promotion" in with_tools.to_text(full=True)


def test_names_of_tools_are_hostile() -> None:
    name = "<img src=x onerror=alert(1)>|`\x1b[31m\u202e"
    report = library.score(pairs({"a": [({name: 1}, {name: 5})]}))
    page, text, markdown = report.to_html(), report.to_text(full=True), report.to_markdown()
    assert "<img src=x" not in page
    for shown in (text, markdown):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "\\|" in next(line for line in markdown.splitlines() if "onerror" in line)


def test_two_agents_with_two_names_for_one_tool_are_said() -> None:
    found = [
        run(arm=WITH, tool_calls={"bash": 3}, agent="opencode"),
        run(arm=WITHOUT, tool_calls={"Bash": 3}, agent="claude-code"),
    ]
    codes = {caveat.code: str(caveat.message) for caveat in library.score(found).caveats}
    assert (
        "(`claude-code`, `opencode`), which name their tools differently"
        in codes["tools_of_several_agents"]
    )
    for one in found:
        one["agent"] = "opencode"
    assert "tools_of_several_agents" not in {c.code for c in library.score(found).caveats}


# Intervals that hold together ---------------------------------------------------------------------


def test_an_interval_of_one_row_is_worked_out_by_hand() -> None:
    deltas = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]])
    # Of the 32 patterns of signs, the studentized sums by hand: the 31st largest is the reach.
    residuals = deltas[0] - 4.0
    sums = []
    for bits in range(32):
        signs = np.array([-1.0 if bits >> n & 1 else 1.0 for n in range(6)])
        total = float((signs * residuals).sum())
        left = (float((residuals**2).sum()) - total**2 / 6) / 5
        sums.append(abs(total) / np.sqrt(6 * left))
    reach = sorted(sums)[30]
    error = float(np.sqrt((residuals**2).sum() / 5 / 6))
    (found,) = simultaneous(deltas, 0.95, 1)
    assert found == pytest.approx((4.0 - reach * error, 4.0 + reach * error))


def test_more_rows_make_every_interval_wider() -> None:
    rows = np.random.default_rng(3).normal(size=(20, 12))
    alone = simultaneous(rows[:1], 0.95, 1)[0]
    together = simultaneous(rows, 0.95, 1)[0]
    assert alone is not None
    assert together is not None
    assert together[0] < alone[0] < alone[1] < together[1]
    # The same row twice is no second chance.
    assert simultaneous(np.vstack([rows[:1], rows[:1]]), 0.95, 1)[0] == pytest.approx(alone)


def test_what_never_varies_has_no_interval_and_disturbs_no_other() -> None:
    rows = np.vstack([np.full(8, 3.0), np.arange(8.0), np.zeros(8)])
    found = simultaneous(rows, 0.95, 1)
    assert found[0] is None
    assert found[2] is None
    assert found[1] == simultaneous(rows[1:2], 0.95, 1)[0]
    assert simultaneous(rows[:0], 0.95, 1) == []
    assert simultaneous(rows[:, :5], 0.95, 1) == [None] * 3


def test_many_tasks_are_drawn_and_repeat_to_the_bit() -> None:
    rows = np.random.default_rng(4).normal(size=(3, 200))
    assert simultaneous(rows, 0.95, 7) == simultaneous(rows, 0.95, 7)
    assert simultaneous(rows, 0.95, 7) != simultaneous(rows, 0.95, 8)


def test_very_many_tasks_take_no_more_memory_than_many() -> None:
    rows = np.random.default_rng(5).normal(size=(2, 20_000)) + 0.05
    tracemalloc.start()
    found = simultaneous(rows, 0.95, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A sign for each of the tasks would take 1.3 GB.
    assert peak < 200e6
    assert all(one is not None and 0.02 < one[0] < 0.05 < one[1] < 0.09 for one in found)
