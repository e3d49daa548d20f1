"""The difference of the arm medians: both intervals, written out, and held against fresh runs."""

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from tests.grouping import grouped
from twoarm.evidence.arm_medians import arm_medians
from twoarm.evidence.interval import Frame
from twoarm.evidence.results import Estimate

FRAME = Frame(level=0.95, tests=0.95, seed=1, resamples=99)
Side = list[list[float]]


def drawn(seed: int, sizes: Sequence[int], shift: float = 0.0) -> list[list[float]]:
    draw = np.random.default_rng(seed)
    return [
        np.exp(level + shift + 0.4 * draw.normal(size=size)).tolist()
        for level, size in zip(np.linspace(2.0, 4.0, len(sizes)), sizes, strict=True)
    ]


def weighed(ours: Side, theirs: Side, frame: Frame = FRAME) -> Estimate:
    return arm_medians(grouped(ours), grouped(theirs), frame)


def ends(found: Estimate, scope: str) -> tuple[float, float]:
    interval = getattr(found, scope)
    assert interval is not None, found.withheld
    return interval.low, interval.high


# ---- the same, written out value by value ----


class Plain:
    """One arm: its median, the share below it in each task, the slope of its log quantiles, and the
    mean of the logarithms near the middle."""

    def __init__(self, side: Side) -> None:
        values = sorted(value for task in side for value in task)
        self.count = len(values)
        self.middle = statistics.median(values)
        marks = [
            [1.0 if v < self.middle else 0.5 if v == self.middle else 0.0 for v in task]
            for task in side
        ]
        self.weights = [len(task) / self.count for task in side]
        self.below = [statistics.fmean(task) for task in marks]
        free = self.count - len(side)
        spread = [sum((m - statistics.fmean(task)) ** 2 for m in task) for task in marks]
        self.share = sum(
            len(task) * (one / (len(task) - 1) if len(task) > 1 else sum(spread) / free)
            for task, one in zip(side, spread, strict=True)
        )
        self.share = max(self.share / self.count**2, 0.25 / self.count**2)
        reach = min(2 * math.sqrt(self.share), 0.5 - 0.5 / self.count)
        at = [self._quantile(values, 0.5 + way * reach) for way in (-1, 1)]
        self.slope = math.log(at[1] / at[0]) / (2 * reach)
        self.side, self.ordered = side, [math.log(value) for value in values]

    def smoothed(self, weights: Sequence[float]) -> float:
        """Of a distribution that gives each task such a weight, by its steps: the mean of its
        quantiles, weighed as the middle of as many draws as there are tasks."""
        tasks = len(self.side)
        kernel = stats.beta((tasks + 1) / 2, (tasks + 1) / 2)
        found = sorted(
            (math.log(value), weight / len(task))
            for task, weight in zip(self.side, weights, strict=True)
            for value in task
        )
        reached = np.cumsum([share for _, share in found]) / sum(weights)
        return float(np.diff(kernel.cdf(reached), prepend=0.0) @ [value for value, _ in found])

    def _quantile(self, values: list[float], share: float) -> float:
        place = share * self.count - 0.5
        low = min(max(math.floor(place), 0), self.count - 2)
        part = min(max(place - low, 0.0), 1.0)
        return values[low] + part * (values[low + 1] - values[low])


def around(ours: float, theirs: float, v1: float, v0: float, both: float, t: float) -> list[float]:
    ratio, level = v1 + v0 - 2 * both, (v1 + v0 + 2 * both) / 4
    r = (v1 - v0) / 2 / math.sqrt(ratio * level)
    difference = ours - theirs
    found = []
    for side in (-1, 1):
        moved = (
            2
            * math.sqrt(ours * theirs)
            * math.sinh((math.log(ours / theirs) + side * t * math.sqrt(ratio)) / 2)
        ) - difference
        sign = 1 if difference >= 0 else -1
        raised = difference * math.exp(side * sign * t * math.sqrt(level)) - difference
        joined = moved**2 + raised**2 + 2 * sign * r * moved * raised
        found.append(difference + side * math.sqrt(joined))
    return found


@pytest.mark.parametrize("shift", [-0.6, 0.0, 0.5])
@pytest.mark.parametrize(
    "sizes",
    [
        ([5] * 8, [5] * 8),
        ([1, 4, 7, 2, 6, 3], [3, 1, 5, 5, 2, 4]),
        ([10, 2] * 6, [10, 2] * 6),
    ],
)
def test_on_these_tasks_it_is_what_is_written_out(
    sizes: tuple[list[int], list[int]], shift: float
) -> None:
    sides = drawn(3, sizes[0], shift), drawn(4, sizes[1])
    ours, theirs = Plain(sides[0]), Plain(sides[1])
    found = weighed(*sides)
    assert found.estimate == pytest.approx(ours.middle - theirs.middle)
    v1, v0 = (one.slope**2 * one.share for one in (ours, theirs))
    tasks = len(sizes[0])
    df = (v1 + v0) ** 2 / (v1**2 / (ours.count - tasks) + v0**2 / (theirs.count - tasks))
    expected = around(ours.middle, theirs.middle, v1, v0, 0.0, stats.t.ppf(0.975, df))
    assert ends(found, "these_tasks") == pytest.approx(expected)


@pytest.mark.parametrize("shift", [-0.6, 0.0, 0.5])
@pytest.mark.parametrize(
    "sizes", [([40] * 8, [40] * 8), ([30, 60, 90] * 2, [50, 40, 30] * 2), ([80, 20] * 6,) * 2]
)
def test_over_tasks_it_is_that_of_weights_moved_a_little(
    sizes: tuple[list[int], list[int]], shift: float
) -> None:
    """How far a task pulls, by giving it a little more weight; of many runs, sums are integrals."""
    sides = drawn(3, sizes[0], shift), drawn(4, sizes[1])
    arms, tasks = [Plain(side) for side in sides], len(sizes[0])
    pulls: list[list[float]] = []
    middles: list[float] = []
    for arm in arms:
        here = arm.smoothed(arm.weights)
        middles.append(math.exp(here))
        pulls.append([])
        for task, weight in enumerate(arm.weights):
            more = [w + (1e-5 if one == task else 0.0) for one, w in enumerate(arm.weights)]
            slope = (arm.smoothed(more) - here) / 1e-5
            pulls[-1].append(weight * slope / (1 - weight))
    part = (tasks - 1) / tasks
    v1, v0 = (part * sum(pull**2 for pull in one) for one in pulls)
    both = part * sum(a * b for a, b in zip(*pulls, strict=True))
    mean = [(a + b) / 2 for a, b in zip(arms[0].weights, arms[1].weights, strict=True)]
    t = stats.t.ppf(0.975, 1 / sum(weight**2 for weight in mean) - 1)
    low, high = ends(weighed(*sides), "tasks_like_these")
    expected = around(middles[0], middles[1], v1, v0, both, t)
    assert [low, high] == pytest.approx(expected, abs=0.02 * (high - low))


# ---- held against fresh runs ----


@pytest.mark.parametrize("scope", ["these_tasks", "tasks_like_these"])
def test_an_interval_is_as_wide_as_fresh_runs_stray(scope: str) -> None:
    """Half of it, in standard errors, is what the difference strays by when all is drawn again."""
    draw = np.random.default_rng(8)
    tasks, repeats = 80, 6
    levels, effects = draw.normal(0.0, 0.6, tasks), draw.normal(-0.1, 0.3, tasks)
    seen, claimed = [], []
    for _ in range(300):
        if scope == "tasks_like_these":
            levels, effects = draw.normal(0.0, 0.6, tasks), draw.normal(-0.1, 0.3, tasks)
        noise = 0.35 * draw.normal(size=(2, tasks, repeats))
        values = np.exp(levels[:, None] + np.array([effects, 0 * effects])[:, :, None] + noise)
        found = weighed(values[0].tolist(), values[1].tolist())
        low, high = ends(found, scope)
        seen.append(found.estimate)
        claimed.append((high - low) / 2 / stats.norm.ppf(0.975))
    stray = float(np.std(np.array(seen, dtype=float)))
    assert 0.9 < float(np.mean(claimed)) / stray < 1.2


# ---- what must hold whatever the runs ----


@pytest.mark.parametrize("scope", ["these_tasks", "tasks_like_these"])
def test_other_units_and_swapped_arms_change_nothing_but_the_numbers(scope: str) -> None:
    sides = drawn(1, [5] * 7, -0.3), drawn(2, [4] * 7)
    low, high = ends(weighed(*sides), scope)
    ours, theirs = ([[1000 * value for value in task] for task in side] for side in sides)
    assert ends(weighed(ours, theirs), scope) == pytest.approx((1000 * low, 1000 * high))
    assert ends(weighed(sides[1], sides[0]), scope) == pytest.approx((-high, -low))
    wider = ends(weighed(*sides, Frame(level=0.99, tests=0.9, seed=1, resamples=9)), scope)
    assert wider[0] < low < high < wider[1]


def test_two_tasks_that_stand_apart_have_an_interval_all_the_same() -> None:
    """No task has runs on both sides of the median: it seems that the share below never strays."""
    ours = [[1.0, 1.1, 1.2, 1.3, 1.4], [9.0, 9.1, 9.2, 9.3, 9.4]]
    theirs = [[1.0, 1.2, 1.4, 1.6, 1.8], [8.0, 8.1, 8.2, 8.3, 8.4]]
    low, high = ends(weighed(ours, theirs), "these_tasks")
    assert low < 1.5 - 0.4 - 3.0
    assert high > 3.0


def test_what_was_seen_is_inside() -> None:
    """The smoothed medians may differ by less, or more, than the plain ones."""
    for seed in range(60):
        found = weighed(drawn(seed, [3] * 6), drawn(seed + 100, [3] * 6))
        low, high = ends(found, "tasks_like_these")
        assert found.estimate is not None
        assert low <= found.estimate <= high
    ours = [[1.0 + task / 100] * 2 + [9.0] * 3 for task in range(8)]
    theirs = [[1.0 + task / 100] * 3 + [9.0] * 2 for task in range(8)]
    far = weighed(ours, theirs)
    assert ends(far, "tasks_like_these")[1] == pytest.approx(far.estimate)


def test_zeros_are_weighed_without_logarithms() -> None:
    ours = [[0.0, 2.0, 3.0, 5.0], [1.0, 4.0, 6.0, 9.0]] * 4
    theirs = [[2.0, 3.0, 6.0, 7.0]] * 8
    found = weighed(ours, theirs)
    assert found.estimate == -1.0
    low, high = ends(found, "these_tasks")
    assert found.estimate == pytest.approx((low + high) / 2)
    assert found.tasks_like_these is not None
    moved = [[[value + 10.0 for value in task] for task in side] for side in (ours, theirs)]
    moved[0][0][0] = moved[0][2][0] = 0.0
    again = weighed(moved[0], moved[1])
    assert ends(again, "these_tasks") == pytest.approx((low, high))


def codes(found: Estimate) -> dict[str, str]:
    return {str(reason.scope): reason.code for reason in found.withheld}


def test_why_there_is_no_interval() -> None:
    six = drawn(5, [5] * 6)
    assert codes(weighed([task[:1] for task in six], [task[:1] for task in six])) == {
        "these_tasks": "one_repeat",
        "tasks_like_these": "tied",
    }
    other = drawn(7, [5] * 6)
    assert codes(weighed([task[:1] for task in six], [task[:1] for task in other])) == {
        "these_tasks": "one_repeat"
    }
    assert codes(weighed(six, other)) == {}
    assert codes(weighed(six[:5], six[:5])) == {"tasks_like_these": "too_few_tasks"}
    assert codes(weighed(six[:1], six[1:2])) == {
        "these_tasks": "too_few_runs",
        "tasks_like_these": "too_few_tasks",
    }
    same = [[task[0]] * 5 for task in six]
    assert codes(weighed(same, same))["these_tasks"] == "identical_repeats"
    assert weighed(same, six).these_tasks is not None
    tie = [[1.0, 2.0, 2.0, 2.0, 3.0]] * 6
    assert codes(weighed(tie, tie)) == {"these_tasks": "tied", "tasks_like_these": "tied"}
    messages = [reason.message for reason in weighed(six[:1], six[1:2]).withheld]
    assert "No interval: 5 runs in an arm; it takes 6." in messages


@pytest.mark.filterwarnings("error")
def test_values_at_both_ends_of_what_a_record_may_hold_have_a_number_or_a_reason() -> None:
    for small in (5e-324, 1e-300, 1e-12):
        side = [[small, small, 1.0, 2.0**53, 2.0**53]] * 7
        other = [[1.0, 2.0, 3.0, 4.0, small]] * 7
        for found in (weighed(side, other), weighed(other, side), weighed(side, side)):
            for scope in ("these_tasks", "tasks_like_these"):
                interval = getattr(found, scope)
                if interval is None:
                    assert found.reasons(scope)
                else:
                    assert math.isfinite(interval.low)
                    assert math.isfinite(interval.high)
                    assert interval.low < interval.high
