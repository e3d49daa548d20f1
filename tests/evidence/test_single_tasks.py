"""Single tasks, against integrals and sums that are written out."""

import math
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import twoarm
from tests.conftest import ARMS, WITH, both, run
from twoarm.evidence import shrink
from twoarm.evidence.shrink import Noise, noise_of, shrunk_means, shrunk_rates
from twoarm.evidence.single_parts import SingleTask
from twoarm.evidence.single_tasks import _rounded
from twoarm.runs.arrays import Floats

DELTAS = np.array([-0.9, -0.3, -0.25, 0.05, 0.1, 0.4, 0.0])
VARIANCE = np.array([0.04, 0.10, 0.02, 0.05, 0.20, 0.06, 0.03])


def integrated(deltas: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of each task's change: every mean of all tasks is as likely as any other,
    and so is every variance between them up to that of three deviations of what is seen."""

    def given(between: float) -> tuple[float, Floats, Floats]:
        weight = 1.0 / (variance + between)
        centre = (weight * deltas).sum() / weight.sum()
        # How likely the differences are, with the mean of all tasks integrated out.
        fit = math.prod(stats.norm.pdf(deltas, centre, np.sqrt(variance + between)))
        fit *= math.sqrt(2 * math.pi / weight.sum())
        kept = between / (variance + between)
        middle = kept * deltas + (1 - kept) * centre
        second = variance * kept + (1 - kept) ** 2 / weight.sum() + middle**2
        return fit, middle, second

    most = 9.0 * deltas.var()
    total = integrate.quad(lambda at: given(at)[0], 0, most)[0]

    def moment(which: int, task: int) -> float:
        def weighed(between: float) -> float:
            fit, *moments = given(between)
            return float(fit * moments[which][task])

        return float(integrate.quad(weighed, 0, most)[0] / total)

    first, second = (
        np.array([moment(which, task) for task in range(len(deltas))]) for which in (0, 1)
    )
    return first, np.sqrt(second - first**2)


def test_differences_are_moved_as_the_integral_says() -> None:
    noise = Noise(variance=VARIANCE, freedom=np.full(7, 8.0))
    moved = shrunk_means(DELTAS, noise, 0.9)
    means, deviations = integrated(DELTAS, VARIANCE)
    np.testing.assert_allclose(moved.estimates, means, atol=2e-3)
    reach = stats.t.ppf(0.95, 8) * deviations
    np.testing.assert_allclose(moved.low, means - reach, atol=4e-3)
    np.testing.assert_allclose(moved.high, means + reach, atol=4e-3)


def test_the_noisier_a_task_the_further_it_is_moved() -> None:
    deltas = np.array([0.5, 0.5, -0.5, -0.5, 0.1, -0.1])
    noise = Noise(variance=np.array([0.01, 0.5, 0.1, 0.1, 0.1, 0.1]), freedom=np.full(6, 8.0))
    moved = shrunk_means(deltas, noise, 0.95)
    assert 0.4 < moved.estimates[0] < 0.5
    assert moved.estimates[1] < 0.25
    assert moved.high[1] - moved.low[1] > moved.high[0] - moved.low[0]


def test_tasks_that_all_show_the_same_stay_where_they_are() -> None:
    noise = Noise(variance=np.full(6, 0.1), freedom=np.full(6, 8.0))
    moved = shrunk_means(np.full(6, 0.3), noise, 0.95)
    np.testing.assert_allclose(moved.estimates, 0.3)
    assert (moved.low < 0.3).all()
    assert (moved.high > 0.3).all()


def test_noise_is_pooled_where_tasks_are_alike_in_it() -> None:
    # Four runs of each task in both arms, with variances 1 and 3.
    noise = noise_of(np.array([[3.0] * 3, [9.0] * 3]), np.full((2, 3), 4))
    assert noise is not None
    np.testing.assert_allclose(noise.variance, (1 + 3) / 4)
    assert np.isinf(noise.freedom).all()


def test_noise_of_one_task_borrows_from_all_where_they_differ() -> None:
    squares = np.array([3.0, 3.0, 3.0, 3.0, 3.0, 300.0])
    sizes = np.full((2, 6), 4)
    noise = noise_of(np.array([squares, squares]), sizes)
    assert noise is not None
    own, pooled = squares / 3, squares.sum() / 18
    cv = (((own / pooled - 1) ** 2).mean() - 2 / 3) / (1 + 2 / 3)
    lent = 4 + 2 / cv
    np.testing.assert_allclose(noise.variance, 2 * (3 * own + lent * pooled) / (3 + lent) / 4)
    np.testing.assert_allclose(noise.freedom, 3 + lent)


def test_a_single_run_has_the_noise_of_the_others_and_none_without_them() -> None:
    sizes = np.array([[1, 3, 3], [3, 3, 3]])
    noise = noise_of(np.array([[0.0, 2.0, 2.0], [2.0, 2.0, 2.0]]), sizes)
    assert noise is not None
    np.testing.assert_allclose(noise.variance, [1 + 1 / 3, 2 / 3, 2 / 3])
    assert noise_of(np.zeros((2, 3)), np.ones((2, 3), dtype=np.int64)) is None


def summed(passed: list[tuple[int, int]], size: int) -> list[float]:
    """The mean difference of each task, every way in which tasks may differ summed by hand."""
    levels = np.arange(-7.0, 7.01, 0.25)
    changes = np.arange(-14.0, 14.01, 0.25)

    @cache
    def chance(count: int, odds: float) -> float:
        return float(stats.binom.pmf(count, size, special.expit(odds)))

    # Every level and change, then an arm that never or always passes: the odds of both arms.
    count = len(changes)
    cells = [
        (i, j, c + e / 2, c - e / 2) for i, c in enumerate(levels) for j, e in enumerate(changes)
    ]
    for (i, c), (at, end) in product(enumerate(levels), enumerate((-math.inf, math.inf))):
        cells += [(i, count + at, end, c), (i, count + 2 + at, c, end)]
    likely = np.zeros((len(passed), len(levels), len(changes) + 4))
    delta = np.zeros(likely.shape[1:])
    for i, j, ours, theirs in cells:
        delta[i, j] = special.expit(ours) - special.expit(theirs)
        for t, (a, b) in enumerate(passed):
            likely[t, i, j] = chance(a, ours) * chance(b, theirs)
    deviations = [0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0]
    gaps = np.gradient(deviations)
    # For any reason in some tasks, or for one of four in half of them.
    ends = [([share / 4] * 4, 1.0) for share in (0.0, 0.05, 0.15, 0.3)]
    ends += [([0.5 * (kind == only) for kind in range(4)], 0.25) for only in range(4)]
    ways, weights = [], []
    for middle in np.arange(-14.0, 14.01, 1.0):
        for deviation, gap in zip(deviations, gaps, strict=True):
            for always, prior in ends:
                way = stats.norm.pdf(changes, middle, deviation)
                ways.append([*((1 - sum(always)) * way / way.sum()), *always])
                weights.append(gap * deviation * prior / (1 + middle**2))
    mean, deviation = 0.0, 3.5
    on_average = np.average(ways, axis=0, weights=weights)
    for _ in range(30):
        own = stats.norm.pdf(levels, mean, deviation)
        own /= own.sum()
        of_task = np.array([own * (task @ on_average) for task in likely])
        of_task /= of_task.sum(axis=1)[:, None]
        share_of = of_task.mean(axis=0)
        mean = float((share_of * levels).sum())
        deviation = max(1.0, math.sqrt((share_of * (levels - mean) ** 2).sum()))
    totals = np.zeros(len(passed))
    moved = np.zeros(len(passed))
    for way, weight in zip(ways, weights, strict=True):
        joint = [task * own[:, None] * np.array(way) for task in likely]
        fits = [float(each.sum()) for each in joint]
        for t, each in enumerate(joint):
            # This way is as likely as all tasks together make it.
            totals[t] += weight * math.prod(fits)
            moved[t] += weight * math.prod(fits) * float((each * delta).sum()) / fits[t]
    return [float(value) for value in moved / totals]


def test_rates_are_moved_as_the_sum_says() -> None:
    passed = [(5, 5), (5, 5), (0, 5), (3, 1), (4, 2), (2, 2), (5, 3)]
    counts = np.array(passed).T
    moved = shrunk_rates(counts, np.full((2, 7), 5), 0.95)
    np.testing.assert_allclose(moved.estimates, summed(passed, 5), rtol=1e-6)


@pytest.mark.parametrize("tasks", [6, 60])
def test_a_change_that_is_large_in_every_task_stays_large(tasks: int) -> None:
    passed = np.array([[5] * tasks, [0] * tasks])
    moved = shrunk_rates(passed, np.full((2, tasks), 5), 0.95)
    assert (moved.estimates > 0.95).all()
    assert (moved.high > 0.995).all()
    # As far as the runs of all of them can tell.
    assert (moved.low > 1.0 - 1.0 / math.sqrt(5 * tasks)).all()


def test_half_of_the_tasks_may_break_and_the_others_stay_as_they_are() -> None:
    passed = np.array([[0] * 6 + [5] * 6, [5] * 12])
    moved = shrunk_rates(passed, np.full((2, 12), 5), 0.95)
    assert (moved.estimates[:6] < -0.98).all()
    np.testing.assert_allclose(moved.estimates[6:], 0.0, atol=0.005)
    assert (moved.high[6:] - moved.low[6:] < 0.2).all()


def test_the_ends_of_a_rate_have_as_much_on_either_side() -> None:
    """Wider levels hold what narrower ones do, and half of the level is the middle."""
    passed, sizes = np.array([[5, 4, 3, 5, 2, 1], [3, 4, 1, 5, 2, 4]]), np.full((2, 6), 5)
    narrow, wide = (shrunk_rates(passed, sizes, level) for level in (0.5, 0.95))
    assert (wide.low < narrow.low).all()
    assert (wide.high > narrow.high).all()
    assert (narrow.low <= narrow.estimates).all()
    assert (wide.low >= -1.0).all()
    assert (wide.high <= 1.0).all()


def test_exchanging_the_arms_turns_every_rate_around() -> None:
    draw = np.random.default_rng(3)
    passed, sizes = draw.integers(0, 6, (2, 12)), np.full((2, 12), 5)
    ours, theirs = (shrunk_rates(rows, sizes, 0.95) for rows in (passed, passed[::-1]))
    np.testing.assert_allclose(ours.estimates, -theirs.estimates, atol=1e-9)
    np.testing.assert_allclose(ours.low, -theirs.high, atol=2e-2)


def test_many_runs_are_taken_for_64_of_each_arm() -> None:
    sizes = np.full((2, 6), 6_400)
    passed = np.array([[3_200, 6_400, 640, 5_000, 100, 6_300], [1_600, 6_400, 64, 5_000, 200, 0]])
    moved = shrunk_rates(passed, sizes, 0.95)
    fewer = shrunk_rates(passed // 100, sizes // 100, 0.95)
    np.testing.assert_allclose(moved.estimates, fewer.estimates, atol=2e-2)
    assert np.abs(moved.estimates - (passed[0] - passed[1]) / 6_400).max() < 0.05


def test_more_tasks_than_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(4)
    passed, sizes = draw.integers(0, 6, (2, 30)), np.full((2, 30), 5)
    whole = shrunk_rates(passed, sizes, 0.95)
    monkeypatch.setattr(shrink, "_TOGETHER", 7)
    parts = shrunk_rates(passed, sizes, 0.95)
    np.testing.assert_allclose(whole.estimates, parts.estimates, atol=1e-12)
    np.testing.assert_allclose(whole.high, parts.high, atol=1e-12)


# In a report -----------------------------------------------------------------------------------


def made(tasks: int = 8, repeats: int = 5, broken: int = 1) -> list[dict[str, Any]]:
    """The candidate is a fifth faster everywhere, and never solves the first task."""
    draw = Random(1)
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            success=not (task < broken and arm == WITH),
            duration_seconds=100.0 * (0.8 if arm == WITH else 1.0) * draw.lognormvariate(0, 0.1),
        )
        for task in range(tasks)
        for arm in ARMS
        for repeat in range(1, repeats + 1)
    ]


def singles(runs: list[dict[str, Any]], **options: Any) -> dict[str, SingleTask]:
    evidence = twoarm.score(runs, resamples=99, **options).evidence
    assert evidence is not None
    return {task.task_id: task for task in evidence.single_tasks}


def test_a_task_is_better_or_worse_only_if_that_is_clear() -> None:
    tasks = singles(made())
    assert tasks["t0"].changes["success"].standing == "worse"
    assert tasks["t1"].changes["success"].standing == "no clear difference"
    for task in tasks.values():
        moved = task.changes["duration_seconds"]
        assert moved.ratio
        assert (moved.standing == "better") == (moved.high < 1.0)
        assert moved.low < moved.estimate < moved.high
    report = twoarm.score(made(), resamples=99).to_text(full=True)
    rows = [line.split() for line in report.splitlines() if line.startswith("  t")]
    assert ["t0", "worse"] in [row[:2] for row in rows]


def test_one_run_makes_a_task_higher_and_not_better() -> None:
    runs = made(broken=0)
    runs[0]["success"] = False
    report = twoarm.score(runs, resamples=99)
    assert report.tasks[0].standing == "lower"
    (row,) = [
        line
        for line in report.to_text(full=True).splitlines()
        if line.split()[:2] == ["t0", "lower"]
    ]
    assert "4/5" in row


def test_few_tasks_and_single_runs_tell_nothing_about_one_of_them() -> None:
    assert not singles(made(tasks=5))
    once = singles(made(repeats=1))
    assert set(once["t0"].changes) == {"success"}
    assert "Single tasks" not in twoarm.score(made(tasks=5), resamples=99).to_text(full=True)


def test_what_is_played_back_or_does_not_vary_tells_nothing() -> None:
    same = [
        record for task in range(8) for repeat in range(1, 6) for record in both(f"t{task}", repeat)
    ]
    assert {*singles(same)["t0"].changes} == {"success"}
    # Nor does what varies only in a task that one arm has no cost of.
    for record in same[:10]:
        record["total_cost_usd"] = record["repeat"] * 0.1 if record["arm"] == WITH else None
    assert {*singles(same)["t1"].changes} == {"success"}


def test_the_most_extreme_ratios_are_numbers() -> None:
    runs = made()
    for record in runs:
        place = int(record["task_id"][1:])
        record["duration_seconds"] *= 10.0 ** (
            (place - 4) * 3 * (-1 if record["arm"] == WITH else 1)
        )
        record["duration_seconds"] = min(record["duration_seconds"], 9e15)
    for task in singles(runs).values():
        moved = task.changes["duration_seconds"]
        assert 0.0 <= moved.low <= moved.estimate <= moved.high < 1e305


def test_figures_have_nine_digits() -> None:
    values = np.array([[1.23456789012, -0.000123456789012, 0.0, 1e-300, 987654321.9, 3e15]])
    rounded = [[1.23456789, -0.000123456789, 0.0, 0.0, 987654322.0, 3e15]]
    assert _rounded(values).tolist() == rounded


def test_the_level_is_that_of_the_report() -> None:
    wide, narrow = (singles(made(), level=level)["t2"].changes for level in (0.99, 0.8))
    for name in ("success", "duration_seconds"):
        assert wide[name].low < narrow[name].low
        assert wide[name].high > narrow[name].high


def test_the_table_and_the_page_are_sorted_by_what_is_left() -> None:
    report = twoarm.score(made(), resamples=99)
    text = report.to_markdown()
    table = text[text.index("### Single tasks") :].split("\n### ")[0]
    names = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `t")]
    evidence = report.evidence
    assert evidence is not None
    estimates = {t.task_id: t.changes["success"].estimate for t in evidence.single_tasks}
    assert names == sorted(names, key=lambda name: (estimates[name], name))
    assert "`t0` | -" in table
    assert "worse: success" in table
    assert "0 of 8 tasks clearly better, 1 clearly worse; from -" in report.to_html()
