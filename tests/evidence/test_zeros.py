"""A few zeros: each is half of the smallest other value of its task, and there is a ratio."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import twoarm
from tests.evidence.test_relabel import ARMS, WITH, WITHOUT, Runs, drawn_runs, weighed
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.runs.metric import DURATION, SUCCESS


def on_test_scale(cells: list[tuple[list[float], list[float]]]) -> TaskRuns:
    """Tasks with the values of the candidate and of the baseline."""
    layout = Layout(
        tasks=np.arange(len(cells)),
        sizes=np.array([[len(side) for side in sides] for sides in zip(*cells, strict=True)]),
    )
    values = np.array([value for sides in cells for side in sides for value in side])
    return TaskRuns(metric=DURATION, logs=False, values=values, layout=layout).on_test_scale()


# Enough other values that a zero or two are a few.
REST: list[tuple[list[float], list[float]]] = [([1.0] * 10, [1.0] * 10)] * 2


@pytest.mark.parametrize(
    ("task", "ours", "theirs"),
    [
        # The smallest is 4, whichever arm has it: a zero is 2.
        (([0.0, 8.0], [4.0, 16.0]), 4.0, 8.0),
        (([4.0, 16.0], [0.0, 8.0]), 8.0, 4.0),
        # Two zeros of a task are the same.
        (([0.0, 8.0], [0.0, 32.0]), math.sqrt(4.0 * 8.0), math.sqrt(4.0 * 32.0)),
        # What was not measured is neither.
        (([0.0, 8.0], [4.0, math.nan]), 4.0, 4.0),
        # The smallest number there is has a half, too.
        (([0.0], [5e-324]), 5e-324, 5e-324),
    ],
)
def test_a_zero_is_half_of_the_smallest_other_value_of_its_task(
    task: tuple[list[float], list[float]], ours: float, theirs: float
) -> None:
    runs = on_test_scale([task, *REST])
    assert runs.logs
    tiny = ours == theirs == 5e-324
    assert runs.means[0, 0] == pytest.approx(math.log(ours) - (math.log(2.0) if tiny else 0.0))
    assert runs.means[1, 0] == pytest.approx(math.log(theirs))
    assert runs.deltas[1:].tolist() == [0.0, 0.0]


def test_a_task_of_nothing_but_zeros_has_no_difference() -> None:
    runs = on_test_scale([([0.0], [0.0]), *REST])
    assert runs.logs
    assert runs.deltas.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("zeros", "others", "unmeasured", "few"),
    [(1, 19, 0, True), (2, 37, 0, False), (2, 38, 0, True), (7, 133, 0, True), (1, 18, 9, False)],
)
def test_a_few_are_at_most_five_percent_of_what_was_measured(
    zeros: int, others: int, unmeasured: int, few: bool
) -> None:
    values = [0.0] * zeros + [3.0] * others + [math.nan] * unmeasured
    runs = on_test_scale([(values, [])])
    assert runs.logs == few


def test_success_is_never_a_ratio() -> None:
    layout = Layout(tasks=np.arange(1), sizes=np.array([[20], [20]]))
    values = np.array([0.0] + [1.0] * 39)
    assert (
        not TaskRuns(metric=SUCCESS, logs=False, values=values, layout=layout).on_test_scale().logs
    )


def with_a_zero(arm: str = WITH) -> Runs:
    runs = drawn_runs([(3, 3)] * 6, seed=6)
    next(record for record in runs if record["arm"] == arm)["duration_seconds"] = 0.0
    return runs


def test_ratio_and_test_are_those_of_every_sign_with_the_zero_filled_in() -> None:
    runs = with_a_zero()
    deltas = []
    for task in sorted({record["task_id"] for record in runs}):
        ours, theirs = (
            [r["duration_seconds"] for r in runs if (r["task_id"], r["arm"]) == (task, arm)]
            for arm in ARMS
        )
        smallest = min(value for value in (*ours, *theirs) if value > 0)
        logs = [[math.log(value or smallest / 2) for value in side] for side in (ours, theirs)]
        deltas.append(sum(logs[0]) / 3 - sum(logs[1]) / 3)
    sums = [
        abs(sum(sign * delta for sign, delta in zip(signs, deltas, strict=True)))
        for signs in itertools.product((1, -1), repeat=6)
    ]
    duration = weighed(runs).deltas["duration_seconds"]
    assert duration.zeros == (1, 0)
    assert duration.ratio is not None
    assert duration.ratio.estimate == pytest.approx(math.exp(sum(deltas) / 6))
    expected = sum(size >= abs(sum(deltas)) - 1e-9 for size in sums) / 64
    assert duration.p.tasks_like_these == pytest.approx(expected)
    # The mean of plain values takes a zero for what it is.
    whole = [[r["duration_seconds"] for r in runs if r["arm"] == arm] for arm in ARMS]
    assert duration.mean.estimate == pytest.approx((sum(whole[0]) - sum(whole[1])) / 18)


def test_exchanged_arms_turn_the_ratio_around() -> None:
    runs = with_a_zero()
    other = {WITH: WITHOUT, WITHOUT: WITH}
    here = weighed(runs).deltas["duration_seconds"]
    there = weighed([r | {"arm": other[r["arm"]]} for r in runs]).deltas["duration_seconds"]
    assert here.ratio is not None
    assert there.ratio is not None
    assert (here.zeros, there.zeros) == ((1, 0), (0, 1))
    assert here.ratio.estimate == pytest.approx(1 / (there.ratio.estimate or 0.0))
    assert here.p.tasks_like_these == there.p.tasks_like_these


@pytest.mark.parametrize("arm", ARMS)
def test_a_zero_is_a_caveat_that_says_whose_it_is(arm: str) -> None:
    report = twoarm.score(with_a_zero(arm))
    (message,) = [caveat.message for caveat in report.caveats if caveat.code == "zeros"]
    whose = "(candidate 1, baseline 0)" if arm == WITH else "(candidate 0, baseline 1)"
    assert message.startswith(f"a few values are zero: duration in 1 run {whose}; ratios and tests")


def test_margins_looks_plans_and_calibration_go_on_with_a_zero() -> None:
    runs: list[dict[str, Any]] = drawn_runs([(6, 6)] * 8, seed=3)
    runs[0]["duration_seconds"] = 0.0
    report = twoarm.score(runs, promote_by="margin")
    assert report.evidence is not None
    ranges = {limits.metric: limits for limits in report.evidence.margin.ranges}
    assert ranges["duration_seconds"].low is not None
    looked = twoarm.score(runs, looks=(6, 10)).evidence
    assert looked is not None
    assert looked.deltas["duration_seconds"].ratio is not None
    assert twoarm.plan(runs, detect="-20%").options
    floor = twoarm.calibrate(
        [record for record in runs if record["arm"] == WITH], trials=50
    ).noise_floor
    assert "duration_seconds" in floor
