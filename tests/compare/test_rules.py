"""Every rule of the figures and the decision, with a row worked out by hand."""

from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, run
from tests.support.arms_by_hand import arm_of, decided, summary
from twoarm.compare.decide import GATES, MIXED, GateRule, decide, judge
from twoarm.compare.screen import Arms

# Per run -----------------------------------------------------------------------------------------


def test_total_tokens_are_all_four_counts_and_non_cache_tokens_are_input_and_output() -> None:
    one = twoarm.Run(
        task_id="t",
        arm="a",
        repeat=1,
        success=True,
        duration_seconds=1,
        total_cost_usd=None,
        input_tokens=1,
        output_tokens=20,
        cache_read_tokens=300,
        cache_write_tokens=4000,
    )
    assert one.total_tokens == 4321
    assert one.non_cache_tokens == 21
    scored = summary([*both(), run(repeat=2)])
    assert scored.median_total_tokens == 6600
    assert scored.median_non_cache_tokens == 1100


@pytest.mark.parametrize(
    ("missing", "total", "non_cache"),
    [
        ("input_tokens", None, None),
        ("output_tokens", None, None),
        ("cache_read_tokens", None, 1100),
        ("cache_write_tokens", None, 1100),
    ],
)
def test_a_sum_with_a_null_part_is_null(
    missing: str, total: float | None, non_cache: float | None
) -> None:
    scored = summary([run(**{missing: None}), run(arm=WITHOUT)])
    assert scored.median_total_tokens == total
    assert scored.median_non_cache_tokens == non_cache
    made = twoarm.Run(**(run(**{missing: None})))
    assert (made.total_tokens, made.non_cache_tokens) == (total, non_cache)


# Per arm -----------------------------------------------------------------------------------------


def test_runs_successes_and_success_rate() -> None:
    scored = summary(arm_of([True, False, True, True], "success"))
    assert (scored.runs, scored.successes, scored.success_rate) == (4, 3, 0.75)


def test_costs_are_summed_averaged_and_ordered() -> None:
    scored = summary(arm_of([0.5, 4.0, 1.5], "total_cost_usd"))
    assert scored.total_cost_usd == 6.0
    assert scored.avg_cost_usd == 2.0
    assert scored.median_cost_usd == 1.5


def test_solved_per_dollar() -> None:
    runs = [run(repeat=1, total_cost_usd=3.0), run(repeat=2, total_cost_usd=1.0, success=False)]
    assert summary(runs).solved_per_dollar == 0.25


def test_solved_per_dollar_is_null_when_the_total_cost_is_zero() -> None:
    assert summary(arm_of([0, 0], "total_cost_usd")).solved_per_dollar is None


@pytest.mark.parametrize(
    ("values", "median"),
    [([7], 7), ([9, 1, 2], 2), ([1, 2, 4, 100], 3), ([5, 5, 1, 9], 5)],
)
@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("total_cost_usd", "median_cost_usd"),
        ("duration_seconds", "median_duration_seconds"),
        ("cache_read_tokens", "median_cache_read_tokens"),
        ("cache_write_tokens", "median_cache_write_tokens"),
        ("step_count", "median_step_count"),
        ("tool_call_count", "median_tool_call_count"),
        ("acceptance_cmd_count", "median_acceptance_cmd_count"),
    ],
)
def test_a_median_of_an_even_number_is_the_mean_of_the_middle_two(
    field: str, name: str, values: list[float], median: float
) -> None:
    assert getattr(summary(arm_of(values, field)), name) == median


def test_a_null_is_left_out_and_never_read_as_zero() -> None:
    runs = [
        run(repeat=1, total_cost_usd=None, success=True),
        run(repeat=2, total_cost_usd=2.0, success=True),
        run(repeat=3, total_cost_usd=6.0, success=False),
    ]
    scored = summary(runs)
    assert scored.total_cost_usd == 8.0
    assert scored.avg_cost_usd == 4.0, "divided by the runs that have a cost"
    assert scored.median_cost_usd == 4.0
    assert scored.solved_per_dollar == 0.125, "counts only successes whose cost is known"
    assert scored.successes == 2
    assert scored.missing["cost_usd"] == 1


def test_a_metric_nobody_measured_is_null() -> None:
    scored = summary([run(total_cost_usd=None), run(arm=WITHOUT)])
    assert scored.total_cost_usd is None
    assert scored.avg_cost_usd is None
    assert scored.median_cost_usd is None
    assert scored.solved_per_dollar is None
    assert scored.median_step_count is None
    assert scored.missing == {
        "success": 0,
        "cost_usd": 1,
        "duration_seconds": 0,
        "tokens": 0,
        "non_cache_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "step_count": 1,
        "tool_call_count": 1,
        "acceptance_cmd_count": 1,
    }


def test_missing_zero_reads_nulls_as_zero_and_says_so() -> None:
    runs = [run(total_cost_usd=None), run(repeat=2, total_cost_usd=2.0), run(arm=WITHOUT)]
    scored = summary(runs, missing="zero")
    assert scored.avg_cost_usd == 1.0
    codes = [caveat.code for caveat in twoarm.score(runs, missing="zero").caveats]
    assert "missing_as_zero" in codes


# Per pair ----------------------------------------------------------------------------------------


# Field, name of its delta, candidate and baseline of three pairs, mean and median of the deltas.
DELTAS: list[tuple[str, str, list[Any], list[Any], float, float]] = [
    ("success", "pass_delta", [True, True, False], [False, True, False], 1 / 3, 0),
    ("total_cost_usd", "cost_delta_usd", [1, 2, 3], [2, 2, 9], -7 / 3, -1),
    ("duration_seconds", "duration_delta_seconds", [10, 20, 90], [15, 10, 30], 65 / 3, 10),
    ("input_tokens", "token_delta", [5, 6, 7], [1, 1, 1], 5, 5),
    ("cache_read_tokens", "token_delta", [5, 6, 10], [1, 1, 1], 6, 5),
    ("cache_write_tokens", "token_delta", [0, 6, 10], [1, 1, 1], 13 / 3, 5),
    ("input_tokens", "non_cache_token_delta", [5, 6, 10], [1, 1, 1], 6, 5),
    ("output_tokens", "non_cache_token_delta", [0, 0, 0], [1, 2, 9], -4, -2),
    ("cache_read_tokens", "non_cache_token_delta", [5, 6, 10], [1, 1, 1], 0, 0),
    ("cache_read_tokens", "cache_read_token_delta", [5, 6, 10], [1, 1, 1], 6, 5),
    ("cache_write_tokens", "cache_write_token_delta", [5, 6, 10], [1, 1, 1], 6, 5),
    ("step_count", "step_count_delta", [5, 6, 10], [1, 1, 1], 6, 5),
    ("tool_call_count", "tool_call_count_delta", [5, 6, 10], [1, 1, 1], 6, 5),
    ("acceptance_cmd_count", "acceptance_cmd_count_delta", [5, 6, 10], [1, 1, 1], 6, 5),
]


@pytest.mark.parametrize(("field", "delta", "ours", "theirs", "mean", "median"), DELTAS)
def test_a_delta_is_candidate_minus_baseline(
    field: str, delta: str, ours: list[Any], theirs: list[Any], mean: float, median: float
) -> None:
    runs = arm_of(ours, field) + arm_of(theirs, field, WITHOUT)
    paired = twoarm.score(runs).paired
    assert getattr(paired, f"mean_{delta}") == pytest.approx(mean, abs=1e-12)
    assert getattr(paired, f"median_{delta}") == median


def test_only_runs_of_the_same_task_and_repeat_are_paired() -> None:
    runs = [
        run("a", WITH, 1, duration_seconds=10),
        run("a", WITHOUT, 1, duration_seconds=30),
        run("a", WITH, 2, duration_seconds=1000),
        run("b", WITHOUT, 2, duration_seconds=9000),
        run("c", WITH, 7, duration_seconds=5),
        run("c", WITHOUT, 7, duration_seconds=4),
    ]
    paired = twoarm.score(runs).paired
    assert (paired.paired_runs, paired.unpaired_runs) == (2, 2)
    assert paired.mean_duration_delta_seconds == (-20 + 1) / 2


def test_a_pair_with_a_null_on_either_side_has_no_delta_for_that_metric() -> None:
    runs = [
        *arm_of([None, 5.0, 2.0], "total_cost_usd"),
        *arm_of([1.0, None, 5.0], "total_cost_usd", WITHOUT),
    ]
    paired = twoarm.score(runs).paired
    assert paired.paired_runs == 3
    assert paired.pairs_with["cost_usd"] == 1
    assert paired.mean_cost_delta_usd == -3.0
    assert paired.pairs_with["duration_seconds"] == 3


def test_deltas_nobody_measured_are_null() -> None:
    paired = twoarm.score(both()).paired
    assert paired.mean_step_count_delta is None
    assert paired.median_step_count_delta is None


# Gates and decision ------------------------------------------------------------------------------


# Changes to the candidate, changes to the baseline, standings of the three gates, decision.
DECISIONS = [
    (
        {},
        {"success": False, "duration_seconds": 200, "input_tokens": 2000},
        "bbb",
        "prefer with_skelly",
    ),
    (
        {"success": False, "duration_seconds": 200, "input_tokens": 2000},
        {},
        "www",
        "prefer without_skelly",
    ),
    ({}, {}, "ttt", "prefer with_skelly"),
    ({}, {"success": False}, "btt", "prefer with_skelly"),
    ({}, {"duration_seconds": 101}, "tbt", "prefer with_skelly"),
    ({}, {"output_tokens": 101}, "ttb", "prefer with_skelly"),
    ({"success": False}, {}, "wtt", MIXED),
    ({"duration_seconds": 100.1}, {}, "twt", MIXED),
    ({"input_tokens": 1001}, {}, "ttw", MIXED),
    ({"duration_seconds": 101, "input_tokens": 1001}, {}, "tww", MIXED),
    ({"success": False, "duration_seconds": 101}, {"input_tokens": 1001}, "wwb", MIXED),
    ({"cache_read_tokens": 10**9, "cache_write_tokens": 10**9}, {}, "ttt", "prefer with_skelly"),
    ({"total_cost_usd": 10**9}, {}, "ttt", "prefer with_skelly"),
]


@pytest.mark.parametrize(("candidate", "baseline", "standings", "decision"), DECISIONS)
def test_three_gates_give_the_decision(
    candidate: dict[str, Any], baseline: dict[str, Any], standings: str, decision: str
) -> None:
    analysis = decided(candidate, baseline)
    assert [gate.name for gate in analysis.gates] == [
        "success_rate",
        "median_duration_seconds",
        "median_non_cache_tokens",
    ]
    assert "".join((gate.standing or "?")[0] for gate in analysis.gates) == standings
    assert [gate.holds for gate in analysis.gates] == [letter != "w" for letter in standings]
    assert analysis.decision == decision


def test_the_decision_strings_are_exact_for_any_arms() -> None:
    worse = {"success": False, "duration_seconds": 200, "input_tokens": 2000}
    runs = [run(arm="new"), run(arm="old", **worse)]
    assert twoarm.score(runs, candidate="new", baseline="old").decision == "prefer new"
    assert twoarm.score(runs, candidate="old", baseline="new").decision == "prefer new"
    assert MIXED == "mixed results - inspect paired deltas"


def test_equal_arms_are_preferred_by_the_rule_and_a_caveat_says_nothing_differs() -> None:
    analysis = decided({}, {})
    assert analysis.decision == "prefer with_skelly"
    assert analysis.caveats[0].code == "nothing_differs"
    codes = [caveat.code for caveat in decided({}, {"success": False}).caveats]
    assert "nothing_differs" not in codes


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([run()], "no run of `without_skelly`; one arm alone cannot be compared"),
        ([run(), run(arm=WITHOUT, failure="infra")], "no counted runs in `without_skelly`"),
        (both(input_tokens=None), "not measured in at least one arm: median non-cache tokens"),
        ([run(), run(arm=WITHOUT, output_tokens=None)], "median non-cache tokens"),
    ],
)
def test_without_runs_or_a_measured_gate_there_is_insufficient_data(
    runs: list[dict[str, Any]], why: str
) -> None:
    analysis = twoarm.score(runs)
    assert analysis.decision == "insufficient data"
    assert analysis.promotion.verdict == "not enough data"
    assert why in analysis.caveats[0].message


# Diagnostics -------------------------------------------------------------------------------------


def test_a_gate_that_fails_by_little_does_not_fail_by_none() -> None:
    runs = [one for repeat in range(1, 6) for one in both("t", repeat, duration_seconds=100.0)]
    for one in runs:
        one["duration_seconds"] += 0.31 * (one["arm"] == WITH)
    (said,) = twoarm.score(runs).diagnostics.explanations
    assert said.startswith("duration +0.31%; ")


def test_a_failed_gate_is_explained_by_what_moved_with_it_and_nothing_blocks() -> None:
    analysis = decided(
        {"input_tokens": 1430, "output_tokens": 11, "step_count": 14, "tool_call_count": 26},
        {"input_tokens": 1000, "output_tokens": 100, "step_count": 10, "tool_call_count": 20},
    )
    assert analysis.diagnostics.explanations == ("non-cache tokens +31%; steps +4, tool calls +6",)
    shift = next(s for s in analysis.diagnostics.shifts if s.metric == "step_count")
    assert (shift.candidate, shift.baseline, shift.shift, shift.shift_share) == (14, 10, 4, 0.4)
    assert (shift.mean_delta, shift.median_delta, shift.pairs) == (4, 4, 5)


def test_shifts_of_diagnostics_never_change_the_decision() -> None:
    analysis = decided(
        {"step_count": 900, "tool_call_count": 900, "acceptance_cmd_count": 900}, {"step_count": 1}
    )
    assert analysis.decision == "prefer with_skelly"
    assert analysis.diagnostics.explanations == ()
    assert [shift.metric for shift in analysis.diagnostics.shifts] == [
        "cache_read_tokens",
        "cache_write_tokens",
        "step_count",
        "tool_call_count",
        "acceptance_cmd_count",
    ]


# Caveats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "code", "part"),
    [
        ([*both(), run("u")], "tasks_in_one_arm", "1 task ran only in `with_skelly`"),
        ([*both(), run("u", WITHOUT)], "tasks_in_one_arm", "only in `without_skelly`"),
        ([*both(), run(repeat=2)], "unpaired_runs", "1 run has no partner"),
        ([*both(), run(repeat=2, total_cost_usd=None)], "missing_values", "cost in 1;"),
        (both(total_cost_usd=None), "never_measured", "cost, steps, tool calls"),
        (
            [*both(started_at_utc="today"), run(repeat=2, started_at_utc=None)],
            "unread_times",
            "`started_at_utc` of 2 runs cannot be read (the first is `today`), so it counts as",
        ),
        (both(colour="red"), "unknown_keys", "1 unknown key, ignored: `colour`"),
        ([*both(), run(repeat=2, failure="infra")], "infra_excluded", "1 in `with_skelly`, 0 in"),
    ],
)
def test_what_the_reader_must_know_is_said(
    runs: list[dict[str, Any]], code: str, part: str
) -> None:
    messages = [c.message for c in twoarm.score(runs).caveats if c.code == code]
    assert messages, f"no caveat {code}"
    assert part in messages[0]


@pytest.mark.parametrize("gate", GATES)
def test_one_gate_that_cannot_be_judged_leaves_no_decision(gate: GateRule) -> None:
    figures = {one.name: 1.0 for one in GATES}
    gates = judge(figures | {gate.name: None}, figures)
    assert decide(gates, Arms(candidate=WITH, baseline=WITHOUT)).kind == "insufficient"
