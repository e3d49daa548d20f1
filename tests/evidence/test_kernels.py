"""The distributions behind the intervals: held to brute force and to scipy."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy import stats

from tests.support.task_arrays import PARTS, floats, grouped, ints
from twoarm.evidence import kernel, medians
from twoarm.evidence.cells import Grouped
from twoarm.evidence.exclusions import fisher
from twoarm.evidence.means import over_tasks, within_tasks
from twoarm.runs.arrays import Floats, Ints

# Distributions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9995, 0.025])
@pytest.mark.parametrize("df", [1, 1.37, 2, 3.5, 5, 9, 18.2, 40, 99, 1000, 123456.7])
def test_student_quantiles_are_those_of_scipy(p: float, df: float) -> None:
    assert kernel.student(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-12)


def test_student_and_normal_tails_are_the_textbook_ones() -> None:
    for df, quantile in ((1, 12.7062), (5, 2.5706), (11, 2.2010), (30, 2.0423)):
        assert kernel.student(0.975, df) == pytest.approx(quantile, abs=5e-5)
    below = kernel.normal_below(floats([-math.inf, -1.959964, 0.0, 1.644854, math.inf]))
    assert below.tolist() == pytest.approx([0.0, 0.025, 0.5, 0.95, 1.0], abs=1e-7)


def test_the_logarithm_of_choices_is_that_of_their_number() -> None:
    for n in (1, 2, 7, 60, 1_000):
        k = np.arange(n + 1)
        brute = [math.log(math.comb(n, one)) for one in range(n + 1)]
        assert kernel.log_choose(n, k).tolist() == pytest.approx(brute, abs=1e-9)


def test_the_sum_of_draws_has_the_distribution_of_every_outcome() -> None:
    pmf = [0.2, 0.0, 0.5, 0.3]
    for times in (1, 2, 3, 5):
        brute = [0.0] * (3 * times + 1)
        for drawn in itertools.product(range(4), repeat=times):
            brute[sum(drawn)] += math.prod(pmf[k] for k in drawn)
        assert kernel.sum_of_draws(floats(pmf), times) == pytest.approx(brute, abs=1e-14)


def test_binomial_tails_are_those_of_the_sum_of_binomials() -> None:
    for sizes, rows in (
        ([2, 3, 1, 4], [[1, 2, 0, 4], [0, 0, 0, 0], [2, 3, 1, 4], [1, 1, 1, 2]]),
        ([2, 3, 4], [[0, 0, 1], [2, 3, 3], [1, 1, 2]]),
    ):
        found = kernel.binomial_tails(ints(sizes), np.array(rows), (3, 6))
        for row, tails in zip(rows, found, strict=True):
            chances = [1.0]
            for n, c in zip(sizes, row, strict=True):
                chances = list(np.convolve(chances, stats.binom(n, c / n).pmf(range(n + 1))))
            assert tails == pytest.approx([sum(chances[3:]), sum(chances[6:])], abs=1e-13)


def test_binomial_tails_of_many_tasks_are_those_of_the_convolution() -> None:
    generator = np.random.default_rng(4)
    for repeats in (2, 5, 10, 31):
        sizes = generator.integers(1, repeats + 1, 60)
        total = int(sizes.sum())
        bounds = (total + 1) // 2, total // 2 + 1
        # Rows that vary, whose waves die out, and rows that hardly do.
        varied = [generator.integers(0, sizes + 1) for _ in range(20)]
        still = [np.zeros(60, dtype=int), sizes, np.where(np.arange(60) < 1, 1, 0)]
        for rows in (varied, still):
            found = kernel.binomial_tails(sizes, np.array(rows), bounds)
            for row, tails in zip(rows, found, strict=True):
                chances = np.ones(1)
                for n, c in zip(sizes, row, strict=True):
                    chances = np.convolve(chances, stats.binom(n, c / n).pmf(range(n + 1)))
                expected = [chances[bound:].sum() for bound in bounds]
                assert tails == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("chances", [[0.3], [0.01, 0.02, 0.5], [0.0, 1.0, 0.2, 0.2, 0.9], [0.0]])
def test_the_chance_of_at_least_so_many_is_that_of_every_outcome(chances: list[float]) -> None:
    for count in range(len(chances) + 2):
        brute = sum(
            math.prod(p if hit else 1 - p for p, hit in zip(chances, hits, strict=True))
            for hits in itertools.product((0, 1), repeat=len(chances))
            if sum(hits) >= count
        )
        assert kernel.chance_of_at_least(count, floats(chances)) == pytest.approx(brute, abs=1e-12)


def test_the_distribution_over_tasks_is_that_of_every_resample() -> None:
    found = medians.OverTasks(grouped(PARTS)).at(np.arange(10.0))
    for x, tails in enumerate(found):
        lower = upper = 0.0
        for drawn in itertools.product(range(3), repeat=3):
            values = sorted(value for task in drawn for value in PARTS[task])
            size = len(values)
            lower += (values[(size - 1) // 2] <= x) / 27
            upper += (values[size // 2] <= x) / 27
        assert tails == pytest.approx((lower, upper), abs=1e-12)


# Tasks, the sizes that they have in turn, and how much they differ beside their repeats.
MANY_TASKS = [
    (500, [10], 1.0),
    (501, [10], 1.0),
    (500, [5], 1.0),
    (501, [5], 1.0),
    (501, [1], 1.0),
    (600, [3, 4, 5], 1.0),
    (501, [9, 10], 5.0),
    (500, [10], 0.0),
    (500, [10], 20.0),
    (501, [5], 20.0),
]


@pytest.mark.parametrize(("tasks", "sizes", "apart"), MANY_TASKS)
def test_the_normal_distribution_over_many_tasks_is_near_the_exact_one(
    tasks: int, sizes: list[int], apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_near(monkeypatch, many_tasks(tasks, sizes, apart, 1.0), 1e-4)


@pytest.mark.parametrize(("tasks", "size"), [(500, 10), (501, 10), (500, 5), (501, 5), (501, 9)])
def test_tasks_that_stand_apart_leave_the_normal_distribution_near_the_exact_one(
    tasks: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All repeats of a task are alike, so that the sums of steps lie far apart.
    assert_near(monkeypatch, many_tasks(tasks, [size], 1.0, 0.0), 1e-4)
    # Nearly alike: the task that a point lies in is the only one with another step. Intervals end
    # in the tails.
    assert_near(monkeypatch, many_tasks(tasks, [size], 1e9, 1.0), 2e-3, TAILS)


def many_tasks(tasks: int, sizes: list[int], apart: float, noise: float) -> list[list[float]]:
    draw = random.Random(5)
    centres = [draw.gauss(0, apart) for _ in range(tasks)]
    return [
        [centre + noise * draw.lognormvariate(0, 1) for _ in range(sizes[task % len(sizes)])]
        for task, centre in enumerate(centres)
    ]


TAILS = (0.002, 0.01, 0.02, 0.03, 0.97, 0.98, 0.99)


def assert_near(
    patch: pytest.MonkeyPatch,
    parts: list[list[float]],
    tolerance: float,
    chances: tuple[float, ...] = (*TAILS, 0.1, 0.3, 0.5, 0.8),
) -> None:
    normal = medians.OverTasks(grouped(parts))
    with patch.context() as longer:
        longer.setattr(medians, "NORMAL_TASKS", 10**9)
        exact = medians.OverTasks(grouped(parts))
    assert (normal.exact, exact.exact) == (False, True)
    ordered = exact.at(grouped(parts).ordered)[:, 0]
    at = [int(np.searchsorted(ordered, chance)) for chance in sorted(chances)]
    points = grouped(parts).ordered[at]
    for one, two in zip(exact.at(points), normal.at(points), strict=True):
        assert two == pytest.approx(one, abs=tolerance)
    assert normal.at(points).tolist() == exact.nearly(points).tolist()


@pytest.mark.parametrize("tail", [1e-30, 0.001, 0.025, 0.25])
def test_both_ends_are_the_first_values_that_reach_their_chance(tail: float) -> None:
    draw = random.Random(8)
    for trial in range(30):
        highest = 5 if trial % 2 else 1_000
        shift = trial % 3 * 300
        parts = [
            [float(draw.randint(0, highest) + task * shift) for _ in range(draw.randint(1, 6))]
            for task in range(draw.randint(2, 30))
        ]
        found = grouped(parts)
        for distribution in (medians.OverTasks(found), medians.WithinTasks(found)):
            tails = distribution.at(np.unique(found.ordered))
            values = np.unique(found.ordered).tolist()
            slack = 1e-12
            low = next(
                x
                for x, (lower, _) in zip(values, tails, strict=True)
                if lower >= max(tail - slack, slack)
            )
            high = next(
                x for x, (_, upper) in zip(values, tails, strict=True) if upper >= 1 - tail - slack
            )
            assert medians.ends(distribution, found.ordered, tail) == (low, high)


def test_the_distribution_within_tasks_is_that_of_every_resample() -> None:
    found = medians.WithinTasks(grouped(PARTS)).at(np.arange(10.0))
    ways = [list(itertools.product(part, repeat=len(part))) for part in PARTS]
    total = math.prod(map(len, ways))
    for x, tails in enumerate(found):
        lower = upper = 0
        for drawn in itertools.product(*ways):
            values = sorted(value for part in drawn for value in part)
            lower += values[(len(values) - 1) // 2] <= x
            upper += values[len(values) // 2] <= x
        assert tails == pytest.approx((lower / total, upper / total), abs=1e-12)


@pytest.mark.parametrize(
    ("parts", "drawn_as"),
    [
        ([[1, 5], [2], [3]], [[1, 5], [2, 3]]),
        ([[1, 5, 7], [2, 9], [3]], [[1, 5, 7], [2, 9, 3]]),
        ([[4], [1, 5, 7]], [[4, 1, 5, 7]]),
    ],
)
def test_tasks_with_one_value_are_drawn_together(
    parts: list[list[float]], drawn_as: list[list[float]]
) -> None:
    points = floats([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 9.0])
    found, expected = medians.WithinTasks(grouped(parts)), medians.WithinTasks(grouped(drawn_as))
    assert found.strata == len(drawn_as)
    for one, other in zip(found.at(points), expected.at(points), strict=True):
        assert one == pytest.approx(other, abs=1e-12)


def test_the_normal_distribution_within_tasks_is_near_the_exact_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(6)
    parts = [[draw.gauss(task / 40, 1) for _ in range(10)] for task in range(80)]
    exact = medians.WithinTasks(grouped(parts))
    monkeypatch.setattr(medians, "NORMAL_FROM", 1)
    normal = medians.WithinTasks(grouped(parts))
    assert (exact.normal, normal.normal) == (False, True)
    points = floats([0.7, 0.9, 1.0, 1.1, 1.3])
    for one, two in zip(exact.at(points), normal.at(points), strict=True):
        assert two == pytest.approx(one, abs=2e-4)


# Means against scipy ------------------------------------------------------------------------------


def spread_of(*arms: list[list[float]]) -> tuple[Floats, Ints]:
    """Squared distances from the mean and numbers of runs, a row for each arm."""
    spreads = [[float(np.var(part)) * len(part) for part in arm] for arm in arms]
    return np.array(spreads), np.array([[len(part) for part in arm] for arm in arms])


def test_the_error_over_tasks_is_that_of_a_t_interval() -> None:
    draw = random.Random(1)
    deltas = [draw.gauss(3, 2) for _ in range(7)]
    error = over_tasks(floats(deltas))
    half = kernel.student(0.975, error.df) * math.sqrt(error.variance)
    expected = stats.ttest_1samp(deltas, 0).confidence_interval(0.95)
    assert (np.mean(deltas) - half, np.mean(deltas) + half) == pytest.approx(expected)


def test_one_task_within_is_welch_of_scipy() -> None:
    ours, theirs = [3.0, 5.0, 9.0, 4.0], [8.0, 1.0, 7.0, 7.5, 2.0]
    error = within_tasks(*spread_of([ours], [theirs]), floats([1.0]))
    assert error is not None
    half = kernel.student(0.975, error.df) * math.sqrt(error.variance)
    centre = np.mean(ours) - np.mean(theirs)
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (centre - half, centre + half) == pytest.approx(expected)


def test_tasks_weigh_alike_in_the_error_within_them() -> None:
    ours, theirs = [[3.0, 5.0, 9.0], [4.0, 4.5]], [[8.0, 1.0], [7.0, 7.5, 2.0, 3.0, 3.5]]
    error = within_tasks(*spread_of(ours, theirs), floats([0.5, 0.5]))
    assert error is not None
    parts = [(np.var(part, ddof=1) / len(part), len(part) - 1) for part in (*ours, *theirs)]
    assert error.variance == pytest.approx(sum(part for part, _ in parts) / 4)
    satterthwaite = sum(part for part, _ in parts) ** 2 / sum(part**2 / df for part, df in parts)
    assert error.df == pytest.approx(satterthwaite)


def test_a_task_with_one_run_borrows_the_pooled_variance_and_no_degree_of_freedom() -> None:
    sizes = np.array([[2, 1], [3, 1]])
    error = within_tasks(np.array([[8.0, 0.0], [6.0, 0.0]]), sizes, floats([0.5, 0.5]))
    assert error is not None
    pooled = (8 + 6) / (1 + 2)
    # Each of the two tasks weighs a half.
    assert error.variance == pytest.approx((8 / 1 / 2 + 6 / 2 / 3 + 2 * pooled) / 4)
    parts = [(1 / n + 2 * (n - 1) / 3) / 4 * square / (n - 1) for square, n in ((8.0, 2), (6.0, 3))]
    assert error.df == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 + parts[1] ** 2 / 2))
    assert within_tasks(np.zeros((2, 1)), np.ones((2, 1), dtype=int), np.ones(1)) is None


# Other tests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "n", "b", "m"),
    [(0, 10, 0, 10), (5, 10, 0, 10), (1, 120, 0, 120), (7, 60, 2, 50), (3, 5000, 20, 6000)],
)
def test_fisher_is_that_of_scipy(a: int, n: int, b: int, m: int) -> None:
    expected = stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue
    assert fisher(a, n, b, m) == pytest.approx(expected, rel=1e-5)


def test_order_statistics_ranks_are_the_textbook_ones() -> None:
    ranks = [medians._order_rank(n, 0.95) for n in range(6, 15)]
    assert ranks == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    for n, rank in zip(range(6, 15), ranks, strict=True):
        assert stats.binom(n, 0.5).cdf(rank - 1) <= 0.025 < stats.binom(n, 0.5).cdf(rank)


@pytest.mark.parametrize("sizes", [[200, 90, 64], [3, 1, 5], [70, 70]])
def test_counts_up_to_a_point_are_those_of_a_pass_over_all_values(sizes: list[int]) -> None:
    generator = np.random.default_rng(4)
    starts = ints([0, *itertools.accumulate(sizes)])
    values = generator.integers(0, 40, starts[-1]).astype(float)
    points = floats([-1.0, 0.0, 7.0, 20.5, 39.0, 99.0])
    expected = [
        [int((values[a:b] <= point).sum()) for a, b in itertools.pairwise(starts)]
        for point in points
    ]
    before = values.copy()
    found = Grouped(values=values, tasks=np.arange(len(sizes)), starts=starts)
    assert found.up_to(points).tolist() == expected
    assert (values == before).all()
