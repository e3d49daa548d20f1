"""The evidence: what is printed, what is withheld, and the words."""

import itertools
import json
import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.conftest import both, run
from tests.deterministic import given, settings
from tests.test_properties import many_runs
from twoarm.evidence import stability
from twoarm.evidence.grade import Margins, margin_rule
from twoarm.evidence.repeats import pass_rates
from twoarm.evidence.results import Estimate, Evidence, Finding, Grade, Interval, Stability
from twoarm.render.summary import summarize

WITH, WITHOUT = "with_skelly", "without_skelly"


def suite(
    tasks: int,
    repeats: int,
    *,
    effect: float = 0.8,
    seed: int = 1,
    noise: float = 0.3,
    pass_rate: float = 0.8,
) -> list[dict[str, Any]]:
    """Runs with task effects and run-to-run noise; the candidate takes `effect` of the time."""
    draw = random.Random(seed)
    runs = []
    for task in range(tasks):
        size = draw.gauss(5, 0.8)
        for repeat in range(1, repeats + 1):
            for arm, factor in ((WITH, effect), (WITHOUT, 1.0)):
                seconds = factor * math.exp(size + draw.gauss(0, noise))
                runs.append(
                    run(
                        f"t{task:03d}",
                        arm,
                        repeat,
                        success=draw.random() < pass_rate,
                        duration_seconds=seconds,
                        total_cost_usd=seconds / 100 * draw.uniform(0.9, 1.1),
                        input_tokens=round(seconds * 50 * draw.uniform(0.9, 1.1)),
                        output_tokens=round(seconds * 9),
                    )
                )
    return runs


def evidence(runs: list[dict[str, Any]], **options: Any) -> Evidence:
    found = twoarm.score(runs, **options).evidence
    assert found is not None
    return found


def withheld(found: Estimate) -> list[tuple[str, str | None]]:
    return [(reason.code, reason.scope) for reason in found.withheld]


def messages(found: Estimate) -> list[str]:
    return [reason.message for reason in found.withheld]


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
    # Arm medians over six tasks would cover too little.
    gate = found.gates["median_duration_seconds"].difference
    assert (gate.tasks_like_these is not None) == (tasks >= 7)
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
    assert found.repeats[0].cost_per_solved_usd.estimate is None
    assert found.repeats[1].cost_per_solved_usd.estimate is not None


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
    assert analysis.to_markdown(interval="bootstrap")


def test_a_table_says_nothing_of_the_other_question() -> None:
    text = twoarm.score(both()).to_text(full=True)
    these, others = (text.split(head)[1].split("\n\n")[0] for head in ("These tasks", "Tasks like"))
    assert "run-to-run noise cannot be told" in these
    assert "other tasks" not in these
    assert "says nothing about other tasks" in others
    assert "run-to-run noise cannot be told" not in others


def test_many_repeats_of_few_tasks_are_not_too_many_to_count() -> None:
    assert evidence(suite(1, 600)).grade.verdict != "too few tasks"
    assert evidence(suite(5, 120)).grade.verdict != "too few tasks"


def test_estimate_interval_test_and_verdict_point_the_same_way_when_repeats_are_unequal() -> None:
    draw = random.Random(4)
    runs = [
        run(task, arm, repeat, duration_seconds=seconds * (1 + draw.random() / 100))
        for task, repeats, ours in (*((f"t{n}", 1, 80.0) for n in range(13)), ("big", 80, 150.0))
        for repeat in range(1, repeats + 1)
        for arm, seconds in ((WITH, ours), (WITHOUT, 100.0))
    ]
    report = twoarm.score(runs)
    assert report.evidence is not None
    duration = report.evidence.deltas["duration_seconds"]
    assert duration.ratio is not None
    # Over pairs the one task that was run 80 times would have made it slower.
    assert (duration.ratio.estimate or 9) < 0.9
    assert duration.bootstrap.mean is not None
    assert duration.bootstrap.mean > 30
    assert duration.ratio.tasks_like_these is not None
    assert duration.ratio.tasks_like_these.high < 1
    assert report.evidence.grade.verdict == "candidate better"
    standings = {finding.metric: finding.standing for finding in report.evidence.grade.findings}
    assert standings["duration_seconds"] == "better"
    said = [caveat.message for caveat in report.caveats if caveat.code == "weights_differ"]
    assert said == [
        "weighed task by task, as in the evidence, mean differences are not those over pairs: "
        f"duration {duration.mean.estimate:+.1f} s, not {duration.bootstrap.mean:+.1f} s"
    ]
    assert "weights_differ" not in codes(suite(7, 3))


def test_the_gates_are_weighed_on_the_tasks_that_both_arms_have() -> None:
    draw = random.Random(5)
    runs = [
        run(f"s{task}", arm, repeat, duration_seconds=seconds + draw.random())
        for task in range(8)
        for repeat in range(1, 6)
        for arm, seconds in ((WITH, 200), (WITHOUT, 100))
    ]
    runs += [
        run(f"o{t}", WITH, r, duration_seconds=10.0 + t) for t in range(20) for r in range(1, 6)
    ]
    analysis = twoarm.score(runs)
    assert analysis.decision == "prefer with_skelly"
    assert analysis.evidence is not None
    difference = analysis.evidence.gates["median_duration_seconds"].difference
    for interval in (difference.these_tasks, difference.tasks_like_these):
        assert interval is not None
        assert interval.low <= (difference.estimate or 0) <= interval.high
        assert any("the 8 tasks that both arms have" in caveat for caveat in interval.caveats)
    # What holds on those tasks is another decision: nothing can be said of this one's stability.
    assert analysis.evidence.stability is None
    assert analysis.evidence.shared_tasks == 8
    assert analysis.evidence.on_shared_tasks.kind == "mixed"
    shown = " ".join(analysis.to_text(full=True).split())
    assert "on the tasks that both arms share, the decision is different" in shown
    assert "run both arms on the same tasks" in analysis.to_github()
    assert "On the 8 tasks that both arms have; the gate compares all runs" in analysis.to_github()
    assert analysis.evidence.influence.decision_changes_without == ()
    said = [c.message for c in analysis.caveats if c.code == "unshared_tasks_decide"]
    assert said == [
        "the decision depends on tasks that only one arm has: on the 8 tasks that both share it "
        "would be `mixed results - inspect paired deltas`"
    ]


def test_one_shared_task_can_decide_otherwise() -> None:
    runs = [run("s", WITH, 1, duration_seconds=200.0), run("s", WITHOUT, 1)]
    runs += [run(f"o{n}", WITH, 1, duration_seconds=10.0) for n in range(3)]
    assert "unshared_tasks_decide" in codes(runs)


def test_a_difference_that_is_one_of_repeats_is_said_to_be_one() -> None:
    draw = random.Random(6)
    runs = [
        run(f"{kind}{t}", arm, r, success=kind == "easy", duration_seconds=100 + draw.random())
        for t in range(5)
        for kind, counts in (("easy", (9, 1)), ("hard", (1, 9)))
        for arm, count in zip((WITH, WITHOUT), counts, strict=True)
        for r in range(1, count + 1)
    ]
    interval = evidence(runs).gates["success_rate"].difference.tasks_like_these
    assert interval is not None
    assert "Run by run, as the gate counts, the difference is +80.0 points." in interval.caveats
    assert interval.low < 0 < interval.high


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
    shown = twoarm.score(suite(tasks, 6)).to_markdown(interval="bootstrap")
    assert "Fewer than 6 tasks: a bootstrap would be far too narrow." in shown


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


def test_arms_whose_repeats_never_meet_still_have_medians() -> None:
    runs = suite(10, 5)
    for one in runs:
        one["repeat"] += 5 * (one["arm"] == WITHOUT)
    found = evidence(runs)
    assert found.tasks == 10
    assert {delta.pairs for delta in found.deltas.values()} == {0}
    assert found.gates["median_duration_seconds"].difference.tasks_like_these is not None
    assert found.deltas["duration_seconds"].median.estimate is None
    assert found.deltas["duration_seconds"].bootstrap.mean is None
    assert found.stability is not None


def test_six_or_seven_tasks_are_not_enough_for_every_level() -> None:
    for level, fewest in ((0.9, 6), (0.95, 6), (0.99, 8)):
        for tasks in (6, 7, 8):
            found = evidence(suite(tasks, 5), level=level)
            median = found.deltas["duration_seconds"].median
            assert (median.tasks_like_these is not None) == (tasks >= fewest)
            difference = found.gates["median_duration_seconds"].difference
            assert (difference.tasks_like_these is not None) == (tasks >= max(fewest, 7))
            assert (found.headline == "tasks_like_these") == (tasks >= fewest)
    few = evidence(suite(6, 5), level=0.99)
    assert any("it takes 8." in one for one in messages(few.deltas["duration_seconds"].median))
    six = evidence(suite(6, 5)).gates["median_duration_seconds"].difference
    assert any("it takes 7." in message for message in messages(six))


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


def test_the_cost_of_a_solved_task_varies_in_tasks_run_once_too() -> None:
    costs = {"a": (1.0, 2.0, 6.0), "b": (4.0,), "c": (5.0,)}
    runs = [
        run(task, arm, repeat, total_cost_usd=cost, duration_seconds=50 + 7 * cost)
        for task, each in costs.items()
        for repeat, cost in enumerate(each, 1)
        for arm in (WITH, WITHOUT)
    ]
    found = evidence(runs).repeats[0].cost_per_solved_usd
    squares = sum((cost - 3) ** 2 for cost in costs["a"])
    variance = 3 * squares / 2 + 2 * squares / 2
    reach = stats.t(2).ppf(0.975) * math.sqrt(variance) / 18
    assert found.estimate == pytest.approx(18 / 5)
    assert found.these_tasks is not None
    assert found.these_tasks.high == pytest.approx(18 / 5 * math.exp(reach))


def wide(found: Evidence) -> list[float]:
    """How wide the intervals on these tasks are."""
    duration = found.deltas["duration_seconds"]
    intervals = [
        duration.mean.these_tasks,
        duration.median.these_tasks,
        duration.ratio.these_tasks if duration.ratio else None,
        found.gates["median_duration_seconds"].difference.these_tasks,
        found.deltas["success"].mean.these_tasks,
        found.repeats[0].cost_per_solved_usd.these_tasks,
    ]
    return [one.high - one.low for one in intervals if one is not None]


# Agreement ----------------------------------------------------------------------------------------


def test_the_same_input_options_and_seed_give_the_same_bytes_and_another_seed_does_not() -> None:
    runs = suite(12, 5)
    first = twoarm.score(runs, seed=5).to_json()
    assert twoarm.score(runs, seed=5).to_json() == first
    assert twoarm.score(list(reversed(runs)), seed=5).to_json() == first
    assert twoarm.score(runs, seed=6).to_json() != first
    bootstraps = [evidence(runs, seed=s).deltas["tokens"].bootstrap for s in (5, 6)]
    assert bootstraps[0] != bootstraps[1]


def test_the_bootstrap_of_few_tasks_is_that_of_every_resample() -> None:
    runs = suite(6, 2, seed=4)
    mean = evidence(runs).deltas["duration_seconds"].bootstrap.mean_interval
    assert mean is not None
    by_task: dict[str, list[float]] = {}
    for ours, theirs in zip(runs[::2], runs[1::2], strict=True):
        delta = ours["duration_seconds"] - theirs["duration_seconds"]
        by_task.setdefault(ours["task_id"], []).append(delta)
    drawn = sorted(
        sum(sum(by_task[task]) for task in tasks) / 12
        for tasks in itertools.product(by_task, repeat=6)
    )

    tail = stats.norm.cdf(-math.sqrt(6 / 5) * stats.t.ppf(0.975, 5))
    assert mean.low == pytest.approx(drawn[math.ceil(6**6 * tail - 1e-9) - 1])
    assert mean.high == pytest.approx(drawn[math.ceil(6**6 * (1 - tail) - 1e-9) - 1])


def test_the_bootstrap_is_in_the_file_and_shown_on_request() -> None:
    report = twoarm.score(suite(7, 3))
    shown = report.to_text(full=True, interval="bootstrap")
    assert "Bootstrap intervals on the paired deltas" in shown
    assert "Tasks like these" not in shown
    written = json.loads(report.to_json())["evidence"]
    for delta in written["deltas"].values():
        assert delta["bootstrap"]["mean_interval"] is not None


# Stability and influence --------------------------------------------------------------------------


def test_stability_agrees_with_plain_two_stage_resampling() -> None:
    runs = suite(8, 4, effect=0.93, seed=2)
    found = evidence(runs).stability
    assert found is not None
    assert sum(found.shares.values()) == pytest.approx(1.0)
    by: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in runs:
        by.setdefault((one["task_id"], one["arm"]), []).append(one)
    names = sorted({one["task_id"] for one in runs})
    draw, count, same = random.Random(8), 1_500, 0
    decision = twoarm.score(runs, evidence=False).decision
    for _ in range(count):
        drawn = []
        for number, task in enumerate(draw.choices(names, k=len(names))):
            for arm in (WITH, WITHOUT):
                cell = by[task, arm]
                for repeat, one in enumerate(draw.choices(cell, k=len(cell)), 1):
                    drawn.append(one | {"task_id": f"d{number}", "repeat": repeat})
        same += twoarm.score(drawn, evidence=False).decision == decision
    share = same / count
    assert found.decision_share == pytest.approx(
        share, abs=4 * math.sqrt(share * (1 - share) / count)
    )


def test_one_stage_stability_is_used_for_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stability, "MOST_RUNS", 1)
    found = evidence(suite(8, 30, effect=0.9)).stability
    assert found is not None
    assert found.method == "tasks resampled"
    assert sum(found.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("tasks", "seed"), [(7, 3), (3, 3), (2, 1)])
def test_leaving_one_task_out_is_scoring_without_it(tasks: int, seed: int) -> None:
    runs = suite(tasks, 4, effect=0.97, seed=seed)
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    expected = []
    for task in sorted({one["task_id"] for one in runs}):
        other = twoarm.score([one for one in runs if one["task_id"] != task], evidence=False)
        if other.decision != analysis.decision:
            expected.append((task, other.decision))
    found = analysis.evidence.influence.decision_changes_without
    assert [(change.task_id, change.decision) for change in found] == expected
    assert expected, "the example should have such a task"
    assert "one_task_decides" in [caveat.code for caveat in analysis.caveats]


def test_a_winner_without_evidence_is_said_to_be_one() -> None:
    def said(runs: list[dict[str, Any]]) -> list[str]:
        analysis = twoarm.score(runs)
        assert analysis.decision.startswith("prefer "), "the example should have a winner"
        return [c.message for c in analysis.caveats if c.code == "winner_without_evidence"]

    (message,) = said(suite(8, 5, effect=1.0, pass_rate=1.0, seed=103))
    assert message.startswith(
        f'the gates prefer `{WITH}`, but the evidence says "no clear difference"'
    )
    assert "one time in three" in message
    (message,) = said(suite(1, 1, effect=0.1, pass_rate=1.0))
    assert '"too few tasks"' in message
    assert said(suite(12, 5, effect=0.5, pass_rate=1.0)) == []
    worse = suite(12, 5, effect=2.0, pass_rate=1.0)
    for one in worse:
        one["success"] = one["arm"] == WITHOUT or int(one["task_id"][1:]) % 6 > 0
    assert said(worse) == []


def test_a_task_that_drives_the_mean_is_named() -> None:
    runs = suite(6, 4, effect=1.0)
    for one in runs:
        if one["task_id"] == "t002" and one["arm"] == WITH:
            one["duration_seconds"] += 5_000
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    mean = analysis.evidence.influence.means["duration_seconds"]
    assert mean.driven_by == "t002"
    assert mean.low_without == "t002"
    others = twoarm.score([one for one in runs if one["task_id"] != "t002"])
    assert mean.mean_without_it == pytest.approx(others.paired.mean_duration_delta_seconds)
    # With it and without it are the same mean, over pairs, however unequal the repeats.
    uneven = twoarm.score([one for one in runs if one["repeat"] < 4 or one["task_id"] != "t000"])
    (said,) = [c.message for c in uneven.caveats if c.message.startswith("task `t002` drives")]
    whole = uneven.paired.mean_duration_delta_seconds
    assert whole is not None
    assert f"duration {whole:+.1f} s with it" in said


def test_where_the_uncertainty_comes_from() -> None:
    steady = evidence(suite(10, 5, noise=1e-3)).variance
    assert steady is not None
    assert steady.repeats_share + steady.tasks_share == pytest.approx(1.0)
    runs = suite(10, 5, noise=0.02, seed=2)
    for one in runs:
        if one["arm"] == WITH:
            one["duration_seconds"] *= 1 + int(one["task_id"][1:]) / 5
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    assert analysis.evidence.variance is not None
    assert analysis.evidence.variance.tasks_share > 0.9
    messages = [caveat.message for caveat in analysis.caveats if caveat.code == "add_tasks"]
    assert messages == [
        "about 100% of the uncertainty about duration comes from which tasks were used: repeats "
        "narrow it down to that spread, more tasks beyond it"
    ]


# Grade, margin, gates -----------------------------------------------------------------------------


def test_the_grade_names_what_is_better_where_and_for_which_tasks() -> None:
    clear = evidence(suite(12, 5, effect=0.6))
    assert (clear.grade.verdict, clear.grade.scope) == ("candidate better", "tasks_like_these")
    worse = evidence(suite(12, 5, effect=1.7))
    assert worse.grade.verdict == "baseline better"
    same = evidence(suite(12, 5, effect=1.0))
    assert same.grade.verdict == "no clear difference"
    here = evidence(suite(3, 6, effect=0.5))
    assert (here.grade.verdict, here.grade.scope) == ("candidate better", "these_tasks")
    standings = {finding.metric: finding.standing for finding in here.grade.findings}
    assert standings["duration_seconds"] == "better"
    few = evidence(suite(1, 3, effect=0.1))
    assert few.grade.verdict == "too few tasks"


def test_better_here_and_worse_there_is_a_trade_off() -> None:
    runs = suite(12, 5, effect=0.6)
    for one in runs:
        if one["arm"] == WITH:
            one["input_tokens"] *= 4
    assert evidence(runs).grade.verdict == "trade-off"


def test_only_the_gates_are_in_the_family() -> None:
    found = evidence(suite(8, 4, effect=0.7))
    for name, delta in found.deltas.items():
        assert (delta.p.adjusted is None) == (name in ("cost_usd", "tokens"))
        assert delta.p.tasks_like_these is not None


def interval(low: float, high: float) -> Interval:
    return Interval(low=low, high=high, method="", caveats=())


def graded(*standings: Any, scope: Any = "tasks_like_these") -> Grade:
    """What the tests found of success, time and tokens."""
    names = ("success", "duration_seconds", "non_cache_tokens")
    return Grade(
        verdict="no clear difference",
        scope=scope,
        primary=None,
        findings=tuple(
            Finding(metric=name, p=None, adjusted_p=None, standing=standing)
            for name, standing in zip(names, standings, strict=False)
        ),
    )


UNCLEAR = "no clear difference"
TENTH = Margins(success=0.10, ratio=0.10)

# Intervals of success, of the ratios of time and of tokens, what the adjusted tests found of each,
# and the verdict of the margin rule.
MARGINS = [
    ((-0.05, 0.05), (0.8, 0.95), (0.9, 1.05), (UNCLEAR, "better", UNCLEAR), "candidate"),
    ((0.01, 0.05), (0.95, 1.05), (0.95, 1.05), ("better", UNCLEAR, UNCLEAR), "candidate"),
    # A gain that only its own interval shows is none after allowing for three.
    ((-0.05, 0.05), (0.8, 0.95), (0.9, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.11, 0.05), (0.8, 0.95), (0.9, 1.05), (UNCLEAR, "better", UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (0.8, 0.95), (0.9, 1.11), (UNCLEAR, "better", UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (1.05, 1.3), (0.95, 1.05), (UNCLEAR, "worse", UNCLEAR), "baseline"),
    ((-0.05, -0.01), (0.95, 1.05), (0.95, 1.05), ("worse", UNCLEAR, UNCLEAR), "baseline"),
    ((-0.05, 0.05), (1.05, 1.3), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.11), (1.05, 1.3), (0.95, 1.05), (UNCLEAR, "worse", UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (1.05, 1.3), (0.85, 1.05), (UNCLEAR, "worse", UNCLEAR), "inconclusive"),
    # Everything inside the margins: whatever the tests say, there is no difference that matters.
    ((-0.05, 0.05), (0.95, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "no difference"),
    ((-0.05, 0.05), (0.95, 1.05), (0.95, 1.05), ("no test", "no test", UNCLEAR), "no difference"),
    ((-0.05, 0.05), (0.92, 0.98), (1.02, 1.08), (UNCLEAR, "better", "worse"), "no difference"),
    # At a margin is not inside it.
    ((-0.10, 0.05), (0.95, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.10), (0.95, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (0.95, 1.10), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (1 / 1.1, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
]


@pytest.mark.parametrize(("success", "time", "tokens", "standings", "verdict"), MARGINS)
def test_the_margin_rule(
    success: tuple[float, float],
    time: tuple[float, float],
    tokens: tuple[float, float],
    standings: tuple[str, str, str],
    verdict: str,
) -> None:
    rate, *others = (
        Estimate(estimate=0.0, these_tasks=None, tasks_like_these=interval(*ends), withheld=())
        for ends in (success, time, tokens)
    )
    ratios: dict[str, Estimate | None] = dict(
        zip(("duration_seconds", "non_cache_tokens"), others, strict=True)
    )
    margin = margin_rule(rate, ratios, graded(*standings), TENTH)
    assert margin.verdict == verdict
    # A ratio of 1 is no change, as is a difference of 0.
    ends = [(one.metric, one.low, one.high) for one in margin.ranges]
    assert ends == [
        ("success", *success),
        ("duration_seconds", time[0] - 1, time[1] - 1),
        ("non_cache_tokens", tokens[0] - 1, tokens[1] - 1),
    ]
    nothing = margin_rule(rate, ratios, graded(*standings, scope="these_tasks"), TENTH)
    assert nothing.verdict == "inconclusive"
    assert [(one.low, one.high, one.beyond) for one in nothing.ranges] == [(None, None, False)] * 3
    unmeasured = margin_rule(rate, ratios | {"non_cache_tokens": None}, graded(*standings), TENTH)
    assert unmeasured.verdict == "inconclusive"
    assert unmeasured.ranges[2].low is None


@pytest.mark.parametrize(
    ("success", "time", "beyond"),
    [
        ((-0.3, -0.1), (0.9, 1.0), ["success"]),
        ((-0.3, -0.09), (0.9, 1.0), []),
        ((-0.1, 0.1), (1.2, 1.4), ["duration_seconds"]),
        ((-0.1, 0.1), (1.05, 1.4), []),
        ((-0.3, -0.2), (1.2, 1.4), ["success", "duration_seconds"]),
    ],
)
def test_beyond_a_margin_is_a_whole_interval_on_its_bad_side(
    success: tuple[float, float], time: tuple[float, float], beyond: list[str]
) -> None:
    rate, ratio = (
        Estimate(estimate=0.0, these_tasks=interval(*ends), tasks_like_these=None, withheld=())
        for ends in (success, time)
    )
    grade = graded(UNCLEAR, UNCLEAR, scope="these_tasks")
    found = margin_rule(rate, {"duration_seconds": ratio}, grade, TENTH)
    assert [one.metric for one in found.ranges if one.beyond] == beyond


@pytest.mark.parametrize("promote_by", ["gates", "evidence", "margin"])
def test_the_margin_rule_is_always_there(promote_by: Any) -> None:
    runs = suite(12, 5, effect=0.6, pass_rate=1.0)
    found = evidence(runs, promote_by=promote_by, margin_success=0.2, margin_ratio=0.3).margin
    assert (found.verdict, found.scope) == ("candidate", "tasks_like_these")
    assert (found.margin_success, found.margin_ratio) == (0.2, 0.3)
    metrics = [one.metric for one in found.ranges]
    assert metrics == ["success", "duration_seconds", "non_cache_tokens"]


def test_resamples_that_would_not_fit_into_memory_are_refused() -> None:
    runs = suite(60, 2)
    with pytest.raises(twoarm.UsageError, match="resamples: at most 559240 .* 60 tasks"):
        twoarm.score(runs, resamples=1_000_000)
    assert twoarm.score(runs, resamples=99).evidence is not None


def test_no_evidence_leaves_every_figure_as_it_is() -> None:
    runs = suite(8, 5)
    full, bare = twoarm.score(runs).to_dict(), twoarm.score(runs, evidence=False).to_dict()
    assert bare["evidence"] is None
    for key in full.keys() - {"evidence", "options", "caveats"}:
        assert full[key] == bare[key], key
    with pytest.raises(twoarm.UsageError):
        twoarm.score(runs, evidence=False, promote_by="evidence")


# Exclusions ---------------------------------------------------------------------------------------


def test_excluded_runs_that_could_flip_the_decision_are_said() -> None:
    runs = [one for repeat in range(1, 11) for one in both("t", repeat)]
    runs[1]["success"] = False
    runs += [run("t", WITH, 11, failure="infra"), run("t", WITH, 12, failure="infra")]
    analysis = twoarm.score(runs)
    assert analysis.decision == "prefer with_skelly"
    assert analysis.evidence is not None
    audit = analysis.evidence.exclusions
    assert audit.could_flip
    assert [(b.arm, b.outcome, b.decision.split()[0]) for b in audit.bounds] == [
        (WITH, "failed", "mixed"),
        (WITH, "passed", "prefer"),
    ]
    assert [(arm.excluded, arm.runs) for arm in audit.arms] == [(2, 12), (0, 10)]
    messages = [caveat.message for caveat in analysis.caveats]
    assert any("excluded runs could flip this decision" in message for message in messages)


def test_an_arm_that_loses_more_runs_is_said_by_an_exact_test() -> None:
    runs = [one for repeat in range(1, 21) for one in both("t", repeat)]
    for one in runs[:24:2]:
        one |= {"failure": "infra", "failure_reason": "timeout of the provider"}
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    assert analysis.evidence.exclusions.p is not None
    assert analysis.evidence.exclusions.p < 0.001
    assert "uneven_exclusion" in [caveat.code for caveat in analysis.caveats]
    assert evidence(both()).exclusions.p is None


# Design -------------------------------------------------------------------------------------------


def timed(runs: list[dict[str, Any]], start: dict[str, int]) -> list[dict[str, Any]]:
    clock = dict(start)
    for one in runs:
        minute = clock[one["arm"]]
        clock[one["arm"]] += 10
        one["started_at_utc"] = f"2026-11-01T{minute // 60:02d}:{minute % 60:02d}:00Z"
    return runs


def codes(runs: list[dict[str, Any]]) -> list[str]:
    return [caveat.code for caveat in twoarm.score(runs).caveats]


def test_arms_run_in_separate_time_blocks_are_said() -> None:
    assert "separate_time_blocks" in codes(timed(suite(3, 5), {WITH: 0, WITHOUT: 400}))
    assert "separate_time_blocks" in codes(timed(suite(3, 5), {WITH: 400, WITHOUT: 0}))
    assert "separate_time_blocks" not in codes(timed(suite(3, 5), {WITH: 0, WITHOUT: 5}))
    odd = suite(3, 5)
    for one in odd:
        one["started_at_utc"] = "yesterday"
    assert "separate_time_blocks" not in codes(odd)


def clocked(orders: list[str], *, start: int = 0) -> list[dict[str, Any]]:
    """Tasks whose runs start one after another, `c` the candidate's and `b` the baseline's."""
    runs, minute = [], start
    for task, order in enumerate(orders):
        for place, letter in enumerate(order):
            arm = WITH if letter == "c" else WITHOUT
            stamp = (
                f"2026-11-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00Z"
            )
            repeat = order[:place].count(letter) + 1
            runs.append(run(f"t{task:02d}", arm, repeat, started_at_utc=stamp))
            minute += 1
    return runs


# The order of starts in each task, how many ran in blocks, and whether that is more than chance.
BLOCKS: list[tuple[list[str], int, bool]] = [
    (["cccbbb", "bbbccc"] * 2, 4, True),
    (["cccbbb", "bbbccc", "cccbbb"] + ["cbcbcb"] * 12, 3, False),
    # Eight of fifteen, as a public study has it.
    (["cccbbb", "bbbccc"] * 4 + ["cbbcbc"] * 7, 8, True),
    (["cbcbcb"] * 6, 0, False),
    # One run of each has an order, but no blocks.
    (["cb", "bc"] * 10, 0, False),
    (["ccb"], 1, False),
]


@pytest.mark.parametrize(("orders", "in_blocks", "said"), BLOCKS)
def test_arms_that_ran_in_blocks_inside_tasks_are_said(
    orders: list[str], in_blocks: int, said: bool
) -> None:
    report = twoarm.score(clocked(orders))
    assert report.evidence is not None
    order = report.evidence.order
    timed = [one for one in orders if len(one) > 2]
    assert (order.ran_first, order.in_blocks, order.timed) == (None, in_blocks, len(timed))
    chances = [2 / math.comb(len(one), one.count("c")) for one in timed]
    brute = sum(
        math.prod(p if hit else 1 - p for p, hit in zip(chances, hits, strict=True))
        for hits in itertools.product((0, 1), repeat=len(timed))
        if sum(hits) >= in_blocks
    )
    assert order.p == (pytest.approx(brute) if timed else None)
    assert order.in_separate_blocks == said
    found = [c.message for c in report.caveats if c.code == "separate_time_blocks"]
    assert len(found) == said
    if said:
        assert found[0].startswith(
            f"in {in_blocks} of {len(timed)} tasks, every run of one arm started before the other"
        )
        assert "interleave the arms" in report.to_github()


def test_models_and_agents_that_differ_are_said() -> None:
    runs = suite(2, 3)
    for number, one in enumerate(runs):
        one["model"] = "m1"
        one["agent"] = "a1"
        if number == 0:
            one["model"] = "m2"
    assert {"several_models", "different_models"} <= set(codes(runs))
    assert not {"several_agents", "different_agents"} & set(codes(runs))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (lambda runs: runs[:-1], "unequal_repeats"),
        (
            lambda runs: [
                one | {"duration_seconds": min(one["duration_seconds"], 100.0)} for one in runs
            ],
            "durations_cut",
        ),
    ],
)
def test_other_faults_of_the_design_are_said(changed: Any, code: str) -> None:
    runs = suite(6, 4)
    assert code not in codes(runs)
    assert code in codes(changed(runs))


def test_a_limit_is_one_even_if_stopping_takes_a_moment() -> None:
    draw = random.Random(2)

    def runs(seconds: Any, tasks: int = 8) -> list[dict[str, Any]]:
        return [
            run(f"t{task}", arm, repeat, duration_seconds=seconds(task))
            for task in range(tasks)
            for repeat in range(1, 6)
            for arm in (WITH, WITHOUT)
        ]

    def stopped(task: int) -> float:
        return 600 + draw.random() if draw.random() < 0.4 else draw.gauss(300, 50)

    assert codes(runs(stopped)).count("durations_cut") == 2
    # Runs that take about the same time, and those of a task that is played again, are no limit.
    assert "durations_cut" not in codes(runs(lambda task: 100 + draw.random()))
    assert "durations_cut" not in codes(runs(lambda task: 100 + draw.random() if task else 10.0))
    assert "durations_cut" not in codes(runs(lambda task: 100.0 * (task + 1), tasks=3))
    assert "durations_cut" not in codes(runs(lambda task: 100.0))


def test_repeats_without_tokens_can_be_identical_too() -> None:
    runs = [one for r in range(1, 4) for one in both("t", r, input_tokens=None)]
    assert codes(runs).count("identical_repeats") == 2


def test_a_model_that_only_failed_in_infra_was_no_part_of_the_arm() -> None:
    runs = [one | {"model": "m"} for one in suite(2, 3)]
    runs.append(run("t000", WITH, 9, model="other", failure="infra"))
    assert not {"several_models", "different_models"} & set(codes(runs))


# Repeats ------------------------------------------------------------------------------------------


def test_pass_at_k_and_pass_hat_k_are_those_of_every_choice() -> None:
    passed = [[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]]
    found = pass_rates(np.array([sum(one) for one in passed]), np.array([5] * 4))
    assert [rates.k for rates in found] == [1, 2, 3, 5]
    for rates in found:
        chosen = [list(itertools.combinations(one, rates.k)) for one in passed]
        some = [sum(map(any, choices)) / len(choices) for choices in chosen]
        every = [sum(map(all, choices)) / len(choices) for choices in chosen]
        assert rates.at_least_one == pytest.approx(sum(some) / 4)
        assert rates.all == pytest.approx(sum(every) / 4)


def test_the_cost_of_a_solved_task_includes_failed_spend() -> None:
    runs = [
        run(f"t{t}", arm, 1, total_cost_usd=2.0 + t, success=t % 2 == 0)
        for t in range(8)
        for arm in (WITH, WITHOUT)
    ]
    cost = evidence(runs).repeats[0].cost_per_solved_usd
    assert cost.estimate == pytest.approx(sum(2.0 + t for t in range(8)) / 4)
    assert cost.these_tasks is None
    assert cost.tasks_like_these is not None
    assert cost.estimate is not None
    assert cost.tasks_like_these.low < cost.estimate < cost.tasks_like_these.high
    none = [one | {"success": False} for one in runs]
    unsolved = evidence(none).repeats[0].cost_per_solved_usd
    assert withheld(unsolved) == [("no_figure", None)]
    assert messages(unsolved) == ["No figure: nothing solved."]


def test_tasks_are_helped_hurt_or_unchanged_by_success() -> None:
    runs = []
    for task, ours, theirs in (("a", 3, 1), ("b", 1, 1), ("c", 0, 2)):
        for repeat in range(1, 4):
            runs.append(run(task, WITH, repeat, success=repeat <= ours))
            runs.append(run(task, WITHOUT, repeat, success=repeat <= theirs))
    runs.append(run("d"))
    found = [(t.task_id, t.standing, t.gained, t.lost) for t in twoarm.score(runs).tasks]
    assert found == [
        ("a", "helped", 2, 0),
        ("b", "unchanged", 0, 0),
        ("c", "hurt", 0, 2),
        ("d", None, 0, 0),
    ]


# Words --------------------------------------------------------------------------------------------


def test_no_clear_difference_says_what_it_could_still_be() -> None:
    report = twoarm.score(suite(12, 5, effect=1.0))
    assert report.evidence is not None
    deltas = report.evidence.deltas
    rate, duration = deltas["success"].mean.tasks_like_these, deltas["duration_seconds"].ratio
    assert rate is not None
    assert duration is not None
    assert duration.tasks_like_these is not None
    low, high = (end * 100 for end in (rate.low, rate.high))
    ends = [
        f"{(end - 1) * 100:+.1f}%"
        for end in (duration.tasks_like_these.low, duration.tasks_like_these.high)
    ]
    said = summarize(report).evidence
    assert said.startswith(
        f"no clear difference in success (could be {low:+.1f} to {high:+.1f} points), duration "
        f"({ends[0]} to {ends[1]}) or tokens ("
    )


def test_a_metric_that_was_named_first_is_said_to_be() -> None:
    runs = suite(12, 5, effect=0.6, pass_rate=1.0)
    said = summarize(twoarm.score(runs, primary="duration")).evidence
    assert said.startswith("with duration named first: faster and fewer tokens")
    report = twoarm.score(runs, primary="success")
    assert report.evidence is not None
    assert report.evidence.grade.verdict == "no clear difference"
    summary = summarize(report)
    assert summary.evidence.startswith(
        "success, named first, is not clear, so nothing else can be: no clear difference in "
    )
    notes = {amount.mark_note for amount in summary.amounts} - {""}
    assert notes == {"clear on its own, but success, named first, is not"}
    assert "named first" not in summarize(twoarm.score(runs)).evidence
    written = json.loads(report.to_json())
    assert written["options"]["primary"] == "success"
    assert written["evidence"]["grade"]["primary"] == "success"


def test_what_a_sign_flip_assumes_is_said_where_it_is_used() -> None:
    assumed = "assumes that, without a difference, tasks would vary alike both ways"
    for tasks, said in ((7, True), (4, False)):
        text = " ".join(twoarm.score(suite(tasks, 4)).to_text(full=True).split())
        assert (assumed in text) == said
        assert "p is for each row alone" in text
        assert "the verdict also allows for looking at three gates" in text


def test_the_two_questions_never_share_a_table() -> None:
    text = twoarm.score(suite(7, 4)).to_text(full=True)
    like = text.index("Tasks like these: would other tasks of this kind show it? (7 tasks)")
    these = text.index("These tasks: would the same tasks show it again?")
    assert like < these
    text = twoarm.score(suite(4, 4)).to_text(full=True)
    assert text.index("These tasks:") < text.index("Tasks like these:")
    assert "STABILITY  not available: with fewer than 6 shared tasks it would mislead" in text


@pytest.mark.parametrize(
    ("share", "word"), [(0.97, "stable"), (0.85, "fairly stable"), (0.6, "could easily change")]
)
def test_stability_is_worded_as_stability(share: float, word: str) -> None:
    analysis = twoarm.score(suite(6, 3))
    assert analysis.evidence is not None
    made = Stability(decision_share=share, shares={}, resamples=99, method="tasks resampled")
    weighed = msgspec.structs.replace(analysis.evidence, stability=made)
    said = summarize(msgspec.structs.replace(analysis, evidence=weighed)).stability
    assert said.startswith(f"{word}: the same decision in {share:.0%}")
    assert said.endswith("this is not the probability of being right")
