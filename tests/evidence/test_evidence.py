"""The evidence: which intervals there are, how wide they are, and why one is withheld."""

import itertools
import json
from typing import Any

import pytest

import twoarm
from tests.compare.test_properties import many_runs
from tests.conftest import WITH, WITHOUT, both, run
from tests.support.deterministic import given, settings
from tests.support.effect_runs import evidence, messages, suite, withheld
from twoarm.evidence.results import Evidence

# The rule of six ----------------------------------------------------------------------------------


ONE_REPEAT = "One repeat: run-to-run noise cannot be told from task differences."

# Tasks, repeats, headline, and which of the intervals of the mean duration there are.
SIXES = [
    (1, 5, "these_tasks", True, False),
    (2, 5, "these_tasks", True, True),
    (5, 3, "these_tasks", True, True),
    (6, 3, "tasks_like_these", True, True),
    (7, 3, "tasks_like_these", True, True),
    (12, 5, "tasks_like_these", True, True),
    (5, 1, "these_tasks", False, False),
    (6, 1, "tasks_like_these", False, True),
    (1, 1, "these_tasks", False, False),
]


@pytest.mark.parametrize(("tasks", "repeats", "headline", "these", "like"), SIXES)
def test_the_rule_of_six_decides_what_is_the_headline_and_what_is_withheld(
    tasks: int, repeats: int, headline: str, these: bool, like: bool
) -> None:
    found = evidence(suite(tasks, repeats))
    assert found.tasks == tasks
    assert found.headline == headline
    mean = found.deltas["duration_seconds"].mean
    assert (mean.these_tasks is not None, mean.tasks_like_these is not None) == (these, like)
    ratio = found.deltas["duration_seconds"].ratio
    assert ratio is not None
    assert (ratio.these_tasks is not None, ratio.tasks_like_these is not None) == (these, like)
    passed = found.deltas["success"].mean
    assert (passed.these_tasks is not None, passed.tasks_like_these is not None) == (these, like)
    assert (found.stability is not None) == (tasks >= 6)
    p = found.deltas["duration_seconds"].p
    assert (p.tasks_like_these is not None) == (tasks >= 6)
    assert p.these_tasks is not None
    gate = found.gates["median_duration_seconds"].difference
    assert (gate.tasks_like_these is not None) == (tasks >= 6)
    bootstrap = found.deltas["duration_seconds"].bootstrap
    for interval in (bootstrap.mean_interval, bootstrap.median_interval):
        assert (interval is not None) == (tasks >= 6)
    assert bool(bootstrap.withheld) == (tasks < 6)


@pytest.mark.parametrize(
    ("tasks", "repeats", "code", "scope", "words"),
    [
        (1, 5, "one_task", "tasks_like_these", "One task: this says nothing about other tasks."),
        (6, 1, "one_repeat", "these_tasks", ONE_REPEAT),
        (4, 1, "one_repeat", "these_tasks", ONE_REPEAT),
    ],
)
def test_why_an_interval_is_withheld_is_said(
    tasks: int, repeats: int, code: str, scope: Any, words: str
) -> None:
    mean = evidence(suite(tasks, repeats)).deltas["duration_seconds"].mean
    assert getattr(mean, scope) is None
    assert (code, scope) in withheld(mean)
    assert words in mean.reasons(scope)


def test_a_reason_is_given_for_every_interval_that_is_not() -> None:
    for tasks, repeats in itertools.product((1, 2, 5, 6), (1, 2, 6)):
        found = evidence(suite(tasks, repeats))
        estimates = [
            *(gate.difference for gate in found.gates.values()),
            *(one for delta in found.deltas.values() for one in (delta.mean, delta.median)),
            *(delta.ratio for delta in found.deltas.values() if delta.ratio is not None),
        ]
        for one in estimates:
            for scope in ("these_tasks", "tasks_like_these"):
                assert (getattr(one, scope) is None) == bool(one.reasons(scope)), (tasks, repeats)


def test_each_question_has_its_own_reasons_and_those_of_both() -> None:
    mean = evidence(both()).deltas["duration_seconds"].mean
    assert withheld(mean) == [
        ("one_repeat", "these_tasks"),
        ("one_task", "tasks_like_these"),
    ]
    assert mean.reasons("these_tasks") == (ONE_REPEAT,)
    assert mean.reasons("tasks_like_these") == ("One task: this says nothing about other tasks.",)
    nothing = evidence(both(output_tokens=None)).deltas["tokens"].mean
    assert withheld(nothing) == [("no_runs", None)]
    for scope in ("these_tasks", "tasks_like_these"):
        assert nothing.reasons(scope) == ("No task has this metric in both arms.",)


def test_few_tasks_are_marked_on_the_interval_itself() -> None:
    mean = evidence(suite(4, 5)).deltas["duration_seconds"].mean
    assert mean.tasks_like_these is not None
    assert mean.tasks_like_these.caveats == (
        "Only 4 tasks: the interval for other tasks assumes a normal distribution.",
        "A few large differences can make an interval of a raw mean too narrow.",
    )
    ratio = evidence(suite(4, 5)).deltas["duration_seconds"].ratio
    assert ratio is not None
    assert ratio.tasks_like_these is not None
    assert ratio.tasks_like_these.caveats == mean.tasks_like_these.caveats[:1]


@pytest.mark.parametrize(("repeats", "level"), [(3, "0.75"), (4, "0.875"), (5, "0.9375")])
def test_fewer_than_six_pairs_have_no_median_interval_but_a_range_with_its_true_level(
    repeats: int, level: str
) -> None:
    runs = []
    for repeat in range(1, repeats + 1):
        runs.append(run("t", WITH, repeat, duration_seconds=100 + repeat))
        runs.append(run("t", WITHOUT, repeat, duration_seconds=90))
    median = evidence(runs).deltas["duration_seconds"].median
    assert median.these_tasks is None
    expected = f"(the observed range 11 to {10 + repeats} holds the median {level} of the time)"
    assert ("too_few_pairs", "these_tasks") in withheld(median)
    assert any(expected in message for message in messages(median))


def test_six_to_nineteen_pairs_use_order_statistics() -> None:
    runs = []
    for repeat in range(1, 11):
        runs.append(run("t", WITH, repeat, duration_seconds=100 + repeat))
        runs.append(run("t", WITHOUT, repeat, duration_seconds=100))
    median = evidence(runs).deltas["duration_seconds"].median.these_tasks
    assert median is not None
    assert (median.low, median.high, median.method) == (2, 9, "order statistics")


# Degenerate runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("pairs", "points"), [(3, 0.785), (10, 0.2476), (50, 0.0540)])
def test_all_passes_leave_an_interval_that_rests_on_the_number_of_runs(
    pairs: int, points: float
) -> None:
    found = evidence([one for repeat in range(1, pairs + 1) for one in both("t", repeat)])
    interval = found.gates["success_rate"].difference.these_tasks
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((-points, points), abs=1e-3)


def test_all_failures_are_no_certainty_either() -> None:
    found = evidence([one for r in range(1, 6) for one in both("t", r, success=False)])
    interval = found.gates["success_rate"].difference.these_tasks
    assert interval is not None
    assert interval.low < 0 < interval.high


def test_identical_repeats_and_tasks_have_no_interval_and_say_so() -> None:
    runs = [one for t in range(7) for r in range(1, 6) for one in both(f"t{t}", r)]
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    mean = analysis.evidence.deltas["duration_seconds"].mean
    assert (mean.these_tasks, mean.tasks_like_these) == (None, None)
    assert withheld(mean) == [
        ("identical_repeats", "these_tasks"),
        ("identical_tasks", "tasks_like_these"),
    ]
    bootstrap = analysis.evidence.deltas["duration_seconds"].bootstrap
    assert (bootstrap.mean_interval, bootstrap.median_interval) == (None, None)
    assert [reason.code for reason in bootstrap.withheld] == ["flat_bootstrap", "shared_value"]
    assert "Repeats are identical: they add no information." in messages(mean)
    assert any("No variation between tasks" in message for message in messages(mean))
    median = analysis.evidence.deltas["duration_seconds"].median
    assert (median.these_tasks, median.tasks_like_these) == (None, None)
    assert "identical_repeats" in [caveat.code for caveat in analysis.caveats]


def test_ties_give_no_interval_of_no_width() -> None:
    runs = []
    for task, repeat in itertools.product(range(8), range(1, 6)):
        runs.append(run(f"t{task}", WITH, repeat, duration_seconds=30 if repeat < 5 else 33 + task))
        runs.append(run(f"t{task}", WITHOUT, repeat, duration_seconds=30))
    median = evidence(runs).deltas["duration_seconds"].median
    assert median.tasks_like_these is None
    assert ("shared_value", "tasks_like_these") in withheld(median)
    assert "More than half of the pairs share the value 0." in messages(median)


def test_costs_of_zero_have_no_ratio_and_a_missing_metric_has_nothing() -> None:
    few = suite(2, 3)
    few[0]["total_cost_usd"] = 0
    assert evidence(few).deltas["cost_usd"].ratio is None
    runs = suite(6, 3)
    for one in runs[:2]:
        one["total_cost_usd"] = 0
    for one in runs:
        one["output_tokens"] = None
    found = evidence(runs)
    assert found.deltas["cost_usd"].ratio is None
    assert found.deltas["cost_usd"].mean.tasks_like_these is not None
    tokens = found.deltas["tokens"]
    assert tokens.pairs == 0
    assert tokens.mean.estimate is None
    assert messages(tokens.mean) == ["No task has this metric in both arms."]
    assert tokens.p.these_tasks is None
    assert found.gates["median_non_cache_tokens"].difference.estimate is None


def test_a_metric_missing_in_one_arm_is_withheld() -> None:
    runs = suite(6, 3)
    for one in runs:
        if one["arm"] == WITH:
            one["total_cost_usd"] = None
    found = evidence(runs)
    assert found.deltas["cost_usd"].pairs == 0


def intervals(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        if {"low", "high", "method"} <= value.keys():
            return [value]
        return [found for inner in value.values() for found in intervals(inner)]
    if isinstance(value, list):
        return [found for inner in value for found in intervals(inner)]
    return []


@settings(max_examples=60)
@given(many_runs)
def test_any_runs_give_intervals_with_a_width_or_none_and_no_nan(
    runs: list[dict[str, Any]],
) -> None:
    analysis = twoarm.score(runs, resamples=99)
    written = json.loads(analysis.to_json())
    for interval in intervals(written["evidence"]):
        assert interval["low"] < interval["high"]
    assert analysis.to_text(full=True)
    assert analysis.to_markdown()


def test_many_repeats_of_few_tasks_are_not_too_many_to_count() -> None:
    assert evidence(suite(1, 600)).grade.verdict != "too few tasks"
    assert evidence(suite(5, 120)).grade.verdict != "too few tasks"


def test_ends_that_differ_by_rounding_are_no_interval() -> None:
    cycle = (1.1, 2.3, 3.7)
    runs = [
        run(f"t{t}", arm, r, duration_seconds=cycle[(r + (arm == WITH)) % 3] * (t + 1))
        for t in range(6)
        for r in (1, 2, 3)
        for arm in (WITH, WITHOUT)
    ]
    ratio = evidence(runs).deltas["duration_seconds"].ratio
    assert ratio is not None
    assert ratio.tasks_like_these is None
    for one in runs:
        base = 0.2 if one["repeat"] == 2 else 0.1
        one["total_cost_usd"] = base + 0.1 if one["arm"] == WITH else base
    cost = evidence(runs).deltas["cost_usd"]
    assert (cost.median.these_tasks, cost.median.tasks_like_these) == (None, None)
    assert cost.bootstrap.median_interval is None


@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_a_bootstrap_of_fewer_than_six_tasks_is_withheld(tasks: int) -> None:
    bootstrap = evidence(suite(tasks, 6)).deltas["duration_seconds"].bootstrap
    assert bootstrap.mean is not None
    assert (bootstrap.mean_interval, bootstrap.median_interval) == (None, None)
    assert [reason.message for reason in bootstrap.withheld] == [
        "Fewer than 6 tasks: a bootstrap would be far too narrow."
    ]


def test_an_interval_over_tasks_is_the_mirror_of_its_mirror() -> None:
    def bootstrap(sign: int) -> list[float]:
        runs = [
            run(f"t{t}", arm, r, duration_seconds=1000.0 + (sign * delta if arm == WITH else 0))
            for t in range(6)
            for r, delta in enumerate((-50 + t, -3, 1, 2 * t, 60 - t * t), 1)
            for arm in (WITH, WITHOUT)
        ]
        found = evidence(runs).deltas["duration_seconds"].bootstrap
        assert found.median_interval is not None
        assert found.mean_interval is not None
        return [
            found.median_interval.low,
            found.median_interval.high,
            found.mean_interval.low,
            found.mean_interval.high,
        ]

    low, high, below, above = bootstrap(1)
    assert bootstrap(-1) == pytest.approx([-high, -low, -above, -below])


def test_six_or_seven_tasks_are_not_enough_for_every_level() -> None:
    for level, fewest in ((0.9, 6), (0.95, 6), (0.99, 8)):
        for tasks in (6, 7, 8):
            found = evidence(suite(tasks, 5), level=level)
            median = found.deltas["duration_seconds"].median
            assert (median.tasks_like_these is not None) == (tasks >= fewest)
            difference = found.gates["median_duration_seconds"].difference
            assert (difference.tasks_like_these is not None) == (tasks >= fewest)
            assert (found.headline == "tasks_like_these") == (tasks >= fewest)
    few = evidence(suite(6, 5), level=0.99)
    assert any("it takes 8." in one for one in messages(few.deltas["duration_seconds"].median))
    six = few.gates["median_duration_seconds"].difference
    assert any("it takes 8." in message for message in messages(six))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_a_success_interval_holds_what_was_seen(level: float) -> None:
    runs = [one | {"success": one["arm"] == WITH} for one in suite(6, 5)]
    difference = evidence(runs, level=level).gates["success_rate"].difference
    for interval in (difference.these_tasks, difference.tasks_like_these):
        assert interval is not None
        assert interval.low <= 1.0 <= interval.high


def test_tasks_run_once_do_not_make_the_others_look_surer() -> None:
    runs = suite(20, 5, effect=1.0)
    once = [one for one in runs if one["repeat"] == 1 or int(one["task_id"][1:]) < 3]
    for whole, part in zip(wide(evidence(runs)), wide(evidence(once)), strict=True):
        assert part > whole


def wide(found: Evidence) -> list[float]:
    """How wide the intervals on these tasks are."""
    duration = found.deltas["duration_seconds"]
    intervals = [
        duration.mean.these_tasks,
        duration.median.these_tasks,
        duration.ratio.these_tasks if duration.ratio else None,
        found.gates["median_duration_seconds"].difference.these_tasks,
        found.deltas["success"].mean.these_tasks,
        found.per_solved.cost_usd.candidate.these_tasks,
        found.per_solved.cost_usd.ratio.these_tasks,
    ]
    return [one.high - one.low for one in intervals if one is not None]
