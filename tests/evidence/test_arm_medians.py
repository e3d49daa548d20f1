"""The difference of the arm medians: both intervals, written out, and held against fresh runs."""

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from tests.support.task_arrays import grouped
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
    """One arm: its median, how far the share below it strays inside tasks, the runs that stand so
    far away, and the mean of the logarithms near the middle."""

    def __init__(self, side: Side) -> None:
        values = sorted(value for task in side for value in task)
        self.count = len(values)
        self.middle = statistics.median(values)
        self.weights = [len(task) / self.count for task in side]
        ties = (0.0, 1.0) if values.count(self.middle) > 1 else (0.5,)
        self.runs = max(math.sqrt(max(self.strays(side, tie) for tie in ties)), 0.75)
        self.values = values
        self.side, self.ordered = side, [math.log(value) for value in values]

    def strays(self, side: Side, tie: float) -> float:
        """The variance of how many runs are below; all single runs are one more task to pool."""
        marks = [
            [1.0 if v < self.middle else tie if v == self.middle else 0.0 for v in task]
            for task in side
        ]
        alone = [task[0] for task in marks if len(task) == 1]
        pool = [task for task in marks if len(task) > 1] + ([alone] if len(alone) > 1 else [])
        spread = sum(statistics.variance(task) * (len(task) - 1) for task in pool)
        lent = spread / sum(len(task) - 1 for task in pool)
        return sum(
            len(task) * (statistics.variance(task) if len(task) > 1 else lent) for task in marks
        )

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

    def reach(self, t: float, way: int) -> float:
        """From the median to the run that stands t errors away, each less a sixth of a run."""
        place = (self.count - 1) / 2 + way * t * (self.runs - 1 / 6)
        low = min(max(math.floor(place), 0), self.count - 2)
        part = min(max(place - low, 0.0), 1.0)
        at = self.values[low] + part * (self.values[low + 1] - self.values[low])
        return abs(at - self.middle)


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
        ([4, 4, 1, 1, 1, 1], [2, 1, 1, 1, 1, 1]),
    ],
)
def test_on_these_tasks_it_is_what_is_written_out(
    sizes: tuple[list[int], list[int]], shift: float
) -> None:
    sides = drawn(3, sizes[0], shift), drawn(4, sizes[1])
    ours, theirs = Plain(sides[0]), Plain(sides[1])
    found = weighed(*sides)
    assert found.estimate == pytest.approx(ours.middle - theirs.middle)
    t = stats.t.ppf(0.975, ours.count + theirs.count - 2 * len(sizes[0]))
    low, high = ends(found, "these_tasks")
    assert found.estimate is not None
    assert found.estimate - low == pytest.approx(math.hypot(ours.reach(t, -1), theirs.reach(t, 1)))
    assert high - found.estimate == pytest.approx(math.hypot(ours.reach(t, 1), theirs.reach(t, -1)))


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


def test_the_median_of_one_task_with_two_modes_is_held_as_often_as_it_says() -> None:
    """It lies in the gap; what is seen lies in one mode or the other, and the doubt on one side."""
    draw = np.random.default_rng(21)
    held = 0
    for _ in range(1000):
        modes = np.where(draw.random((2, 100)) < 0.5, -1.0, 1.0)
        ours, theirs = 9.0 + modes + 0.2 * draw.normal(size=(2, 100))
        low, high = ends(weighed([ours.tolist()], [theirs.tolist()]), "these_tasks")
        held += low <= 0.0 <= high
    assert held >= 940 - 2 * math.sqrt(1000 * 0.94 * 0.06)


def test_a_value_that_many_runs_share_is_no_certainty() -> None:
    """Just above half of the runs have it: whether it is the median is a matter of chance."""
    draw = np.random.default_rng(5)
    held = shown = 0
    for _ in range(1000):
        ours = np.where(draw.random(20) < 0.48, 1.0, 2.0)
        found = weighed([ours.tolist()], [[1.0] * 20]).these_tasks
        if found is not None:
            shown += 1
            held += found.low <= 1.0 <= found.high
    assert shown > 900
    assert held >= 0.93 * shown


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
    # The share is taken to stray by three quarters of a run; the next runs are half a run away.
    beyond = stats.t.ppf(0.975, 16) * (0.75 - 1 / 6) - 0.5
    below, their_above = 5.2 - (1.4 - 0.1 * beyond), (8.0 + 0.1 * beyond) - 4.9
    above, their_below = (9.0 + 0.1 * beyond) - 5.2, 4.9 - (1.8 - 0.2 * beyond)
    assert low == pytest.approx(0.3 - math.hypot(below, their_above))
    assert high == pytest.approx(0.3 + math.hypot(above, their_below))


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
    # All of seven runs are on one side of the median 1.6 % of the time.
    strict = Frame(level=0.99, tests=0.99, seed=1, resamples=99)
    seven = drawn(9, [7])
    messages = [reason.message for reason in weighed(seven, seven, strict).withheld]
    assert "No interval: 7 runs in an arm; it takes 8." in messages


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
