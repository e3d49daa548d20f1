"""Means, ratios and success over tasks and within them: held to scipy and to plain formulas."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.conftest import run
from tests.evidence.test_relabel import ARMS, WITH, WITHOUT, Runs, by_task, drawn_runs, weighed
from twoarm.evidence.results import Interval

# Runs of both arms in each task: as many, some lost, some tasks run far more often.
SIZES = [
    [(5, 5)] * 7,
    [(5, 3), (4, 5), (2, 2), (5, 1), (3, 5), (5, 5)],
    [(20, 20), (2, 2), (3, 3), (2, 2), (2, 3), (30, 1), (2, 2), (4, 4)],
]


def logs_of(runs: Runs) -> list[tuple[list[float], list[float]]]:
    return by_task(runs, "duration_seconds")


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


@pytest.mark.parametrize("sizes", SIZES)
def test_a_ratio_over_tasks_is_the_t_interval_of_the_task_means(
    sizes: list[tuple[int, int]],
) -> None:
    runs = drawn_runs(sizes, seed=21)
    deltas = [float(np.mean(ours) - np.mean(theirs)) for ours, theirs in logs_of(runs)]
    found = weighed(runs).deltas["duration_seconds"].ratio
    assert found is not None
    assert found.estimate == pytest.approx(math.exp(np.mean(deltas)))
    expected = stats.ttest_1samp(deltas, 0).confidence_interval(0.95)
    assert ends(found.tasks_like_these) == pytest.approx(tuple(map(math.exp, expected)))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_mean_over_tasks_weighs_tasks_alike_too(sizes: list[tuple[int, int]]) -> None:
    runs = drawn_runs(sizes, seed=22)
    deltas = [
        float(np.mean(np.exp(ours)) - np.mean(np.exp(theirs))) for ours, theirs in logs_of(runs)
    ]
    found = weighed(runs, level=0.9).deltas["duration_seconds"].mean
    assert found.estimate == pytest.approx(np.mean(deltas))
    expected = stats.ttest_1samp(deltas, 0).confidence_interval(0.9)
    assert ends(found.tasks_like_these) == pytest.approx(tuple(expected))


def test_a_ratio_on_one_task_is_welchs_interval() -> None:
    runs = drawn_runs([(6, 4)], seed=23)
    ours, theirs = logs_of(runs)[0]
    found = weighed(runs).deltas["duration_seconds"].ratio
    assert found is not None
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert ends(found.these_tasks) == pytest.approx(tuple(map(math.exp, expected)))


@pytest.mark.parametrize("sizes", SIZES)
def test_a_ratio_on_these_tasks_is_welch_with_tasks_weighed_alike(
    sizes: list[tuple[int, int]],
) -> None:
    runs = drawn_runs(sizes, seed=24)
    sides = [side for task in logs_of(runs) for side in task]
    freedom = sum(len(side) - 1 for side in sides)
    squares = [float(np.var(side)) * len(side) for side in sides]
    pooled = sum(squares) / freedom
    single = sum(len(side) == 1 for side in sides)
    # Each variance is made of squares: its own over n (n - 1), and its part of the pooled one that
    # every single run borrows.
    parts = [
        (square / (len(side) - 1) / len(side) + single * square / freedom, len(side) - 1)
        for square, side in zip(squares, sides, strict=True)
        if len(side) > 1
    ]
    own = sum(np.var(side, ddof=1) / len(side) for side in sides if len(side) > 1)
    variance = (own + single * pooled) / len(sizes) ** 2
    df = sum(part for part, _ in parts) ** 2 / sum(part**2 / n for part, n in parts)
    centre = np.mean([np.mean(ours) - np.mean(theirs) for ours, theirs in logs_of(runs)])
    reach = stats.t(df).ppf(0.975) * math.sqrt(variance)
    found = weighed(runs).deltas["duration_seconds"].ratio
    assert found is not None
    low, high = math.exp(centre - reach), math.exp(centre + reach)
    assert ends(found.these_tasks) == pytest.approx((low, high))
    assert found.these_tasks is not None
    borrowed = [note for note in found.these_tasks.caveats if "borrowed" in note]
    tasks = sum(min(size) == 1 for size in sizes)
    assert bool(borrowed) == bool(tasks)
    if tasks:
        assert borrowed[0].startswith(f"{tasks} of {len(sizes)} tasks with a single run")


def guarded(
    difference: float, variance: float, count: float, pseudo: float, df: float
) -> tuple[float, float]:
    """Shrunk by count / (count + 2), with pseudo / (count + 2)^2 added to the variance; what was
    seen stays inside, and no end beyond all or nothing."""
    shrink = count / (count + 2)
    reach = stats.t(df).ppf(0.975) * math.sqrt(variance * shrink**2 + pseudo / (count + 2) ** 2)
    low, high = difference * shrink - reach, difference * shrink + reach
    return max(-1.0, min(low, difference)), min(1.0, max(high, difference))


@pytest.mark.parametrize("sizes", SIZES)
def test_success_on_these_tasks_is_guarded_by_the_harmonic_number_of_pairs(
    sizes: list[tuple[int, int]],
) -> None:
    runs = drawn_runs(sizes, seed=25)
    sides = by_task(runs, "success")
    deltas = [np.mean(ours) - np.mean(theirs) for ours, theirs in sides]
    flat = [side for task in sides for side in task]
    freedom = sum(len(side) - 1 for side in flat)
    pooled = sum(float(np.var(side)) * len(side) for side in flat) / freedom
    variance = sum(
        float(np.var(side, ddof=1)) / len(side) if len(side) > 1 else pooled for side in flat
    )
    count = sum(2 * ours * theirs / (ours + theirs) for ours, theirs in sizes)
    found = weighed(runs).deltas["success"].mean
    assert found.estimate == pytest.approx(np.mean(deltas))
    expected = guarded(float(np.mean(deltas)), variance / len(sizes) ** 2, count, 2.0, freedom)
    assert ends(found.these_tasks) == pytest.approx(expected)


@pytest.mark.parametrize("sizes", SIZES)
def test_success_over_tasks_counts_its_pseudo_observations_in_tasks(
    sizes: list[tuple[int, int]],
) -> None:
    runs = drawn_runs(sizes, seed=26)
    deltas = [float(np.mean(ours) - np.mean(theirs)) for ours, theirs in by_task(runs, "success")]
    tasks = len(deltas)
    found = weighed(runs)
    expected = guarded(
        float(np.mean(deltas)), float(np.var(deltas, ddof=1)) / tasks, tasks, 1.5, tasks - 1
    )
    assert ends(found.deltas["success"].mean.tasks_like_these) == pytest.approx(expected)
    # The gate shows the same figure: one rule, one place.
    assert ends(found.gates["success_rate"].difference.tasks_like_these) == pytest.approx(expected)


@pytest.mark.parametrize("repeats", [5, 10, 40])
def test_more_repeats_do_not_make_a_broken_task_surer_for_others(repeats: int) -> None:
    """One task of twelve is broken, all others pass: what the tasks allow for, no more."""
    runs = [
        run(f"t{task:02d}", arm, repeat, success=not (task == 0 and arm == WITH))
        for task in range(12)
        for repeat in range(1, repeats + 1)
        for arm in ARMS
    ]
    deltas = [-1.0] + [0.0] * 11
    expected = guarded(-1 / 12, float(np.var(deltas, ddof=1)) / 12, 12, 1.5, 11)
    assert ends(weighed(runs).deltas["success"].mean.tasks_like_these) == pytest.approx(expected)
    assert expected[0] < -0.25


@pytest.mark.parametrize(("ours", "theirs"), [(True, True), (False, False), (True, False)])
def test_no_failures_no_successes_and_nothing_in_common_are_no_certainty(
    ours: bool, theirs: bool
) -> None:
    runs = [
        run(f"t{task}", arm, repeat, success=ours if arm == WITH else theirs)
        for task in range(8)
        for repeat in range(1, 6)
        for arm in ARMS
    ]
    found = weighed(runs).deltas["success"].mean
    difference = float(ours) - float(theirs)
    assert ends(found.these_tasks) == pytest.approx(guarded(difference, 0.0, 40, 2.0, 64))
    assert ends(found.tasks_like_these) == pytest.approx(guarded(difference, 0.0, 8, 1.5, 7))


def test_a_value_that_is_missing_is_missing_in_its_own_metric_alone() -> None:
    runs = drawn_runs([(4, 4)] * 7, seed=27, missing=0.3)
    lost = [one for one in runs if one["input_tokens"] is None]
    assert lost, "the example should lack some"
    found = weighed(runs)
    deltas = []
    for ours, theirs in by_task(runs, "non_cache_tokens"):
        sides = [[one for one in side if not math.isnan(one)] for side in (ours, theirs)]
        if sides[0] and sides[1]:
            deltas.append(float(np.mean(sides[0]) - np.mean(sides[1])))
    ratio = found.deltas["non_cache_tokens"].ratio
    assert ratio is not None
    assert ratio.estimate == pytest.approx(math.exp(np.mean(deltas)))
    expected = stats.ttest_1samp(deltas, 0).confidence_interval(0.95)
    assert ends(ratio.tasks_like_these) == pytest.approx(tuple(map(math.exp, expected)))
    assert found.deltas["non_cache_tokens"].tasks == len(deltas)
    assert found.deltas["duration_seconds"].tasks == 7


def test_a_task_that_only_one_arm_has_is_in_no_estimate() -> None:
    runs = drawn_runs([(4, 4)] * 6, seed=28)
    alone: list[dict[str, Any]] = [
        run("alone", WITHOUT, repeat, duration_seconds=1e6 + repeat) for repeat in range(1, 5)
    ]
    with_it, without = weighed([*runs, *alone]), weighed(runs)
    for metric, delta in without.deltas.items():
        assert with_it.deltas[metric] == delta
    assert with_it.grade == without.grade
    assert with_it.tasks == 6
