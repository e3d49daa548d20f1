"""Every scoring rule, with a row worked out by hand."""

from typing import Any

import pytest

import twoarm
from tests.conftest import both, run
from twoarm.decide import MIXED

WITH, WITHOUT = "with_skelly", "without_skelly"


def summary(runs: list[dict[str, Any]], arm: str = WITH, **options: Any) -> Any:
    analysis = twoarm.score(runs, **options)
    return next(found for found in analysis.arm_summaries if found.arm == arm)


def arm_of(values: list[Any], field: str, arm: str = WITH) -> list[dict[str, Any]]:
    return [run(arm=arm, repeat=i, **{field: value}) for i, value in enumerate(values, 1)]


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


def decided(
    candidate: dict[str, Any], baseline: dict[str, Any], repeats: int = 5
) -> twoarm.Analysis:
    runs = []
    for repeat in range(1, repeats + 1):
        runs.append(run("t", WITH, repeat, **candidate))
        runs.append(run("t", WITHOUT, repeat, **baseline))
    return twoarm.score(runs)


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


# Adequacy and promotion --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("repeats", "status", "verdict"),
    [
        (4, "below minimum", "not enough data"),
        (5, "minimum met", "promote"),
        (9, "minimum met", "promote"),
        (10, "preferred met", "promote"),
    ],
)
def test_five_repeats_are_needed_and_ten_preferred(repeats: int, status: str, verdict: str) -> None:
    analysis = decided({}, {"success": False}, repeats)
    assert analysis.decision == "prefer with_skelly", "a decision is printed all the same"
    assert analysis.adequacy.minimum_repeats == 5
    assert analysis.adequacy.preferred_repeats == 10
    assert analysis.adequacy.fewest_repeats == repeats
    assert analysis.adequacy.status == status
    assert analysis.promotion.verdict == verdict
    marked = any("not enough repeats to promote" in c.message for c in analysis.caveats)
    assert marked == (repeats < 5)


def test_every_task_and_arm_below_the_minimum_is_listed() -> None:
    runs = [one for repeat in range(1, 6) for one in both("full", repeat)]
    runs += [run("short", WITH, repeat) for repeat in (1, 2, 3)]
    runs += [run("short", WITHOUT, repeat) for repeat in range(1, 6)]
    runs += [run("lone", WITHOUT, repeat) for repeat in range(1, 6)]
    adequacy = twoarm.score(runs).adequacy
    listed = [
        (entry.task_id, entry.arm, entry.metric, entry.repeats) for entry in adequacy.below_minimum
    ]
    assert listed == [("lone", WITH, "success", 0), ("short", WITH, "success", 3)]
    assert adequacy.fewest_repeats == 0


def test_a_repeat_without_a_gates_metric_is_no_repeat_of_that_gate() -> None:
    runs = [one for repeat in range(1, 11) for one in both("t", repeat)]
    assert twoarm.score(runs).promotion.verdict == "promote"
    for one in [one for one in runs if one["arm"] == WITH][4:]:
        one["input_tokens"] = None
    analysis = twoarm.score(runs)
    assert analysis.decision == "prefer with_skelly"
    assert analysis.promotion.verdict == "not enough data"
    assert analysis.adequacy.fewest_repeats == 4
    (short,) = analysis.adequacy.below_minimum
    assert (short.task_id, short.arm, short.metric) == ("t", WITH, "non_cache_tokens")
    assert analysis.tasks[0].candidate.missing == {"non_cache_tokens": 6}
    said = "1 of 2 task-arms with fewer than 5 measured repeats (the fewest: 4)"
    assert said in analysis.to_json()


def test_five_measured_repeats_are_enough() -> None:
    runs = [one for repeat in range(1, 11) for one in both("t", repeat)]
    for one in [one for one in runs if one["arm"] == WITH][5:]:
        one["output_tokens"] = None
    assert twoarm.score(runs).promotion.verdict == "promote"


def test_missing_values_that_are_lopsided_are_said_and_bound_the_gate() -> None:
    runs = [one for repeat in range(1, 21) for one in both("t", repeat)]
    for one in [one for one in runs if one["arm"] == WITH][8:]:
        one["input_tokens"] = None
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    (found,) = analysis.evidence.exclusions.missing
    assert (found.metric, found.missing, found.runs) == ("non_cache_tokens", (12, 0), (20, 20))
    # Fisher's exact test of 12 of 20 against 0 of 20, by hand: 2 * C(20, 12) / C(40, 12).
    assert found.p == pytest.approx(2 * 125970 / 5586853480, rel=1e-12)
    bounds = {(bound.arm, bound.values): bound.decision for bound in found.bounds}
    assert bounds == {(WITH, "low"): "prefer with_skelly", (WITH, "high"): MIXED}
    assert found.could_flip
    codes = {caveat.code for caveat in analysis.caveats}
    assert {"uneven_missing", "missing_could_flip"} <= codes


def test_a_few_values_missing_alike_bound_nothing() -> None:
    runs = [one for repeat in range(1, 21) for one in both("t", repeat)]
    for one in runs:
        if one["repeat"] == 3:
            one["input_tokens"] = None
        elif one["arm"] == WITH:
            one["input_tokens"] = 1
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    (found,) = analysis.evidence.exclusions.missing
    assert (found.missing, found.p, found.could_flip) == ((1, 1), 1.0, False)
    codes = {caveat.code for caveat in analysis.caveats}
    assert not {"uneven_missing", "missing_could_flip"} & codes


def test_excluded_runs_are_no_repeats() -> None:
    runs = [one for repeat in range(1, 6) for one in both("t", repeat)]
    runs[0]["failure"] = "infra"
    assert twoarm.score(runs).adequacy.fewest_repeats == 4


@pytest.mark.parametrize(
    ("candidate", "baseline", "verdict"),
    [
        ({}, {}, "promote"),
        ({"success": False}, {}, "do not promote"),
        ({"success": False, "duration_seconds": 200, "input_tokens": 2000}, {}, "do not promote"),
    ],
)
def test_only_a_preferred_candidate_is_promoted(
    candidate: dict[str, Any], baseline: dict[str, Any], verdict: str
) -> None:
    assert decided(candidate, baseline).promotion.verdict == verdict


# Five repeats of one task: what varies in the candidate, and whether the task is high-variance.
VARIED = [
    ("duration_seconds", [100, 100, 100, 100, 100], []),
    ("duration_seconds", [60, 80, 100, 120, 140], []),
    ("duration_seconds", [50, 50, 50, 50, 300], ["duration_seconds"]),
    ("input_tokens", [100, 100, 100, 100, 9000], ["non_cache_tokens"]),
    ("cache_read_tokens", [100, 100, 100, 100, 9000], []),
    ("success", [True, True, True, True, False], ["success"]),
    ("success", [False, False, False, False, False], []),
]


@pytest.mark.parametrize(("field", "values", "varied"), VARIED)
@pytest.mark.parametrize("arm", [WITH, WITHOUT])
def test_a_task_is_high_variance_by_the_stated_criterion(
    field: str, values: list[Any], varied: list[str], arm: str
) -> None:
    other = WITHOUT if arm == WITH else WITH
    runs = arm_of(values, field, arm) + arm_of([True] * 5, "success", other)
    analysis = twoarm.score(runs)
    assert analysis.tasks[0].high_variance == tuple(varied)
    assert analysis.adequacy.high_variance.tasks == (("t",) if varied else ())
    advised = [c for c in analysis.caveats if c.code == "high_variance"]
    assert bool(advised) == bool(varied)
    assert all("prefer 10 repeats" in caveat.message for caveat in advised)


@pytest.mark.parametrize(("steady", "suite"), [(3, True), (4, False)])
def test_a_suite_is_high_variance_when_a_quarter_of_its_tasks_is(steady: int, suite: bool) -> None:
    runs = [one for r in range(1, 6) for t in range(steady) for one in both(f"t{t}", r)]
    runs += arm_of([True, False, True, True, True], "success")
    assert twoarm.score(runs).adequacy.high_variance.suite is suite


def test_ten_repeats_silence_the_advice() -> None:
    runs = [one for r in range(1, 11) for one in both("t", r, success=r > 1)]
    analysis = twoarm.score(runs)
    assert analysis.adequacy.high_variance.suite
    assert "high_variance" not in [caveat.code for caveat in analysis.caveats]


# Failures ----------------------------------------------------------------------------------------

# What a run says, and whether it counts.
FAILURES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"failure": None}, True),
    ({"failure": "agent"}, True),
    ({"failure": "infra"}, False),
    ({"agent_exit_code": 86}, False),
    ({"opencode_exit_code": 86}, False),
    ({"agent_exit_code": 0, "opencode_exit_code": 86}, True),
    ({"agent_exit_code": 1}, True),
    ({"agent_exit_code": 1, "acceptance_exit_code": 1}, True),
    ({"agent_exit_code": 1, "acceptance_exit_code": 99}, False),
    ({"opencode_exit_code": 124, "acceptance_exit_code": 99}, False),
    ({"agent_exit_code": 0, "acceptance_exit_code": 99}, True),
    ({"acceptance_exit_code": 99}, True),
    ({"failure": None, "agent_exit_code": 86}, True),
    ({"failure": "agent", "agent_exit_code": 86}, True),
    ({"failure": "agent", "agent_exit_code": 1, "acceptance_exit_code": 99}, True),
]


@pytest.mark.parametrize(("said", "counts"), FAILURES)
def test_only_infra_failures_are_excluded(said: dict[str, Any], counts: bool) -> None:
    runs = [*both(), *both(repeat=2)]
    runs[0] |= {"success": False, "duration_seconds": 9999, **said}
    analysis = twoarm.score(runs)
    assert analysis.run_count == 4
    assert analysis.effective_run_count == (4 if counts else 3)
    assert analysis.excluded_infra_failures == (0 if counts else 1)
    assert analysis.arm_summaries[0].success_rate == (0.5 if counts else 1.0)
    assert analysis.paired.paired_runs == (2 if counts else 1)
    assert sum(group.runs for group in analysis.excluded) == (0 if counts else 1)


@pytest.mark.parametrize(("said", "counts"), FAILURES)
def test_each_run_is_judged_by_itself(said: dict[str, Any], counts: bool) -> None:
    runs = [run(**said), run(repeat=2, agent_exit_code=3, acceptance_exit_code=99)]
    analysis = twoarm.score([*runs, run(arm=WITHOUT)])
    assert analysis.excluded_infra_failures == (1 if counts else 2)


def test_infra_failures_are_reported_by_reason_and_arm() -> None:
    runs = [
        *both(),
        run(repeat=2, failure="infra", failure_reason="provider"),
        run(repeat=3, failure="infra", failure_reason="provider"),
        run(repeat=4, failure="infra", failure_reason="sandbox"),
        run(arm=WITHOUT, repeat=2, failure="infra"),
        run(arm=WITHOUT, repeat=3, agent_exit_code=86),
    ]
    excluded = twoarm.score(runs).excluded
    assert {group.kind for group in excluded} == {"infra"}
    assert [(group.reason, group.arm, group.runs) for group in excluded] == [
        ("infra: provider", WITH, 2),
        ("infra: sandbox", WITH, 1),
        ("infra: agent exit code 86", WITHOUT, 1),
        ("infra: no reason given", WITHOUT, 1),
    ]


def test_an_agents_own_failure_counts_as_failed_whatever_success_says() -> None:
    runs = [*both(), run(repeat=2, failure="agent", success=True)]
    analysis = twoarm.score(runs)
    assert analysis.arm_summaries[0].successes == 1
    assert "agent_failure_with_success" in [caveat.code for caveat in analysis.caveats]


def test_a_reason_that_reads_like_another_kind_is_none() -> None:
    runs = [*both(), run(repeat=2, failure="infra", failure_reason="duplicate: another arm")]
    runs.append(run(arm="infra: provider"))
    analysis = twoarm.score(runs, candidate=WITH, baseline=WITHOUT)
    kinds = sorted((group.kind, group.arm) for group in analysis.excluded)
    assert kinds == [("infra", WITH), ("other arm", "infra: provider")]
    assert analysis.excluded_infra_failures == 1


def test_keep_infra_counts_them_as_runs() -> None:
    runs = [*both(), run(repeat=2, failure="infra", success=False)]
    analysis = twoarm.score(runs, keep_infra=True)
    assert analysis.effective_run_count == 3
    assert analysis.excluded == ()
    assert analysis.arm_summaries[0].success_rate == 0.5
    assert "infra_kept" in [caveat.code for caveat in analysis.caveats]


# Arms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "options", "roles"),
    [
        (["with_skelly", "without_skelly"], {}, ("with_skelly", "without_skelly")),
        (["without_rag", "with_rag"], {}, ("with_rag", "without_rag")),
        (["a", "b"], {"candidate": "b", "baseline": "a"}, ("b", "a")),
        (["a", "b"], {"candidate": "b"}, ("b", "a")),
        (["a", "b"], {"baseline": "b"}, ("a", "b")),
        (["a", "b", "c"], {"candidate": "c", "baseline": "a"}, ("c", "a")),
        (
            ["with_skelly", "without_skelly"],
            {"candidate": "without_skelly"},
            ("without_skelly", "with_skelly"),
        ),
        (["without_skelly"], {}, ("with_skelly", "without_skelly")),
    ],
)
def test_arms_are_named_or_told_by_their_names(
    found: list[str], options: dict[str, str], roles: tuple[str, str]
) -> None:
    analysis = twoarm.score([run(arm=arm) for arm in found], **options)  # type: ignore[arg-type]
    assert (analysis.candidate, analysis.baseline) == roles


@pytest.mark.parametrize(
    ("found", "options", "message"),
    [
        (["a", "b"], {}, "name them with `candidate=` and `baseline=`; arms found: `a`, `b`"),
        (["with_x", "without_y"], {}, "arms found: `with_x`, `without_y`"),
        (["with_x", "without_x", "c"], {}, "arms found: `c`, `with_x`, `without_x`"),
        (["a", "b", "c"], {"candidate": "a"}, "name them with `baseline=`; arms found"),
        (["a", "b"], {"candidate": "aa"}, "no runs of arm `aa`; arms found: `a`, `b`"),
        (["a", "b"], {"candidate": "a", "baseline": "a"}, "are both `a`; name two different arms"),
    ],
)
def test_arms_are_never_guessed(found: list[str], options: dict[str, str], message: str) -> None:
    with pytest.raises(twoarm.ArmsError, match=message):
        twoarm.score([run(arm=arm) for arm in found], **options)  # type: ignore[arg-type]


def test_runs_of_other_arms_are_excluded_and_said() -> None:
    analysis = twoarm.score([*both(), run(arm="third")], candidate=WITH, baseline=WITHOUT)
    assert (analysis.run_count, analysis.effective_run_count) == (3, 2)
    found = [(group.kind, group.reason, group.arm, group.runs) for group in analysis.excluded]
    assert found == [("other arm", "another arm", "third", 1)]
    (caveat,) = (caveat for caveat in analysis.caveats if caveat.code == "other_arms")
    assert caveat.message.startswith("1 run ")
    assert "`third`" in caveat.message


# Duplicates --------------------------------------------------------------------------------------


def test_a_duplicate_is_an_error_that_names_both_places() -> None:
    with pytest.raises(
        twoarm.BadRunsError, match="run:3: repeat: .* was already given at run:1"
    ) as caught:
        twoarm.score([*both(), run()])
    assert caught.value.count == 1
    assert '`duplicates="first"` or `"last"`' in str(caught.value)


@pytest.mark.parametrize(("which", "duration"), [("first", 10), ("last", 30)])
def test_duplicates_first_and_last(which: Any, duration: float) -> None:
    runs = [run(duration_seconds=seconds) for seconds in (10, 20, 30)]
    analysis = twoarm.score([*runs, run(arm=WITHOUT)], duplicates=which)
    assert analysis.arm_summaries[0].median_duration_seconds == duration
    assert [(g.kind, g.arm, g.runs) for g in analysis.excluded] == [("duplicate", WITH, 2)]
    assert "duplicates" in [caveat.code for caveat in analysis.caveats]


def test_a_run_may_be_done_again_after_an_infra_failure() -> None:
    analysis = twoarm.score([run(failure="infra"), *both()])
    assert analysis.effective_run_count == 2
    with pytest.raises(twoarm.BadRunsError):
        twoarm.score([run(failure="infra"), *both()], keep_infra=True)


# Caveats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "code", "part"),
    [
        ([*both(), run("u")], "tasks_in_one_arm", "1 task ran only in `with_skelly`"),
        ([*both(), run("u", WITHOUT)], "tasks_in_one_arm", "only in `without_skelly`"),
        ([*both(), run(repeat=2)], "unpaired_runs", "1 run without a partner"),
        ([*both(), run(repeat=2, total_cost_usd=None)], "missing_values", "cost in 1;"),
        (both(total_cost_usd=None), "never_measured", "cost, steps, tool calls"),
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
