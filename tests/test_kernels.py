"""The numerical kernels: held to brute force, to scipy, and to each other."""

import itertools
import math
import random
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from twoarm import column
from twoarm.evidence import medians, permute, plain, stability, vector
from twoarm.evidence.cells import Grouped, Pairs
from twoarm.evidence.exclusions import fisher
from twoarm.evidence.interval import Atoms, Frame
from twoarm.evidence.means import over_tasks, within_tasks
from twoarm.evidence.resample import (
    MedianTable,
    draws,
    every_resample,
    resample_tasks,
    task_medians,
)
from twoarm.metric import DURATION, SUCCESS

KERNELS = [plain, vector]


def frame(kernel: ModuleType = vector, resamples: int = 9_999) -> Frame:
    return Frame(level=0.95, seed=1, resamples=resamples, kernel=kernel, small=kernel is plain)


def grouped(parts: list[list[float]]) -> Grouped:
    starts = [0, *itertools.accumulate(map(len, parts))]
    values = np.array([value for part in parts for value in part], dtype=float)
    return Grouped(values=values, tasks=list(range(len(parts))), starts=starts)


def pairs_of(
    ours: list[list[float]], theirs: list[list[float]], metric: object = DURATION
) -> Pairs:
    one, two = grouped(ours), grouped(theirs)
    return Pairs(
        metric=metric,  # type: ignore[arg-type]
        tasks=one.tasks,
        starts=one.starts,
        ours=one.values,
        theirs=two.values,
        deltas=one.values - two.values,  # type: ignore[operator]
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("p", [0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9995, 0.025])
@pytest.mark.parametrize("df", [1, 1.37, 2, 3.5, 5, 9, 18.2, 40, 99, 1000, 123456.7])
def test_student_quantiles_are_those_of_scipy(kernel: ModuleType, p: float, df: float) -> None:
    assert kernel.student(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_power_is_the_law_of_a_sum(kernel: ModuleType) -> None:
    pmf = [0.2, 0.0, 0.5, 0.3]
    for times in (1, 2, 3, 5):
        brute = [0.0] * (3 * times + 1)
        for drawn in itertools.product(range(4), repeat=times):
            brute[sum(drawn)] += math.prod(pmf[k] for k in drawn)
        assert kernel.power(pmf, times) == pytest.approx(brute, abs=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
def test_binomial_tails_are_those_of_the_sum_of_binomials(kernel: ModuleType) -> None:
    for sizes, rows in (
        ([2, 3, 1, 4], [[1, 2, 0, 4], [0, 0, 0, 0], [2, 3, 1, 4], [1, 1, 1, 2]]),
        ([2, 3, 4], [[0, 0, 1], [2, 3, 3], [1, 1, 2]]),
    ):
        found = kernel.binomial_tails(sizes, rows, (3, 6))
        for row, tails in zip(rows, found, strict=True):
            law = [1.0]
            for n, c in zip(sizes, row, strict=True):
                law = list(np.convolve(law, stats.binom(n, c / n).pmf(range(n + 1))))
            assert tails == pytest.approx([sum(law[3:]), sum(law[6:])], abs=1e-13)


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
            found = vector.binomial_tails(sizes.tolist(), [row.tolist() for row in rows], bounds)
            for row, tails in zip(rows, found, strict=True):
                law = np.ones(1)
                for n, c in zip(sizes, row, strict=True):
                    law = np.convolve(law, stats.binom(n, c / n).pmf(range(n + 1)))
                assert tails == pytest.approx([law[bound:].sum() for bound in bounds], abs=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_subset_sums_are_all_choices(kernel: ModuleType) -> None:
    values = [1.0, 2.5, 2.5, -4.0, 8.0, 0.25]
    for size in (1, 2, 3):
        brute = sorted(sum(chosen) for chosen in itertools.combinations(values, size))
        assert sorted(kernel.subset_sums(values, size)) == pytest.approx(brute)


@pytest.mark.parametrize("kernel", KERNELS)
def test_share_beyond_counts_every_sum(kernel: ModuleType) -> None:
    groups = [[1.0, -1.0], [0.5, -0.5, 2.0], [3.0, -3.0], [0.0, 1.0]]
    left, right = kernel.all_sums(groups[:2]), kernel.all_sums(groups[2:])
    sums = [sum(chosen) for chosen in itertools.product(*groups)]
    assert left == sorted(left)
    for bound in (0.5, 1.0, 3.5, 99.0):
        brute = sum(abs(total) >= bound for total in sums) / len(sums)
        assert kernel.share_beyond(left, right, bound) == pytest.approx(brute)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("p", [0.01, 0.2, 0.5, 0.83, 0.99])
def test_difference_quantile_is_that_of_all_differences(kernel: ModuleType, p: float) -> None:
    left = Atoms(values=[1.0, 4.0, 9.0], chances=[0.2, 0.5, 0.3])
    right = Atoms(values=[0.0, 2.0], chances=[0.6, 0.4])
    atoms = sorted(
        (a - b, pa * pb)
        for a, pa in zip(left.values, left.chances, strict=True)
        for b, pb in zip(right.values, right.chances, strict=True)
    )
    reached = list(itertools.accumulate(chance for _, chance in atoms))
    expected = next(value for (value, _), so_far in zip(atoms, reached, strict=True) if so_far >= p)
    assert kernel.difference_quantile(left, right, p) == expected


PARTS = [[1.0, 5.0, 5.0], [2.0, 7.0], [3.0, 3.0, 8.0]]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_law_over_tasks_is_that_of_every_resample(kernel: ModuleType) -> None:
    law = medians.OverTasks(grouped(PARTS), frame(kernel), None)
    for x, tails in zip(range(10), law([float(x) for x in range(10)]), strict=True):
        lower = upper = 0.0
        for drawn in itertools.product(range(3), repeat=3):
            values = sorted(value for task in drawn for value in PARTS[task])
            size = len(values)
            lower += (values[(size - 1) // 2] <= x) / 27
            upper += (values[size // 2] <= x) / 27
        assert (tails.lower, tails.upper) == pytest.approx((lower, upper), abs=1e-12)


def test_the_law_over_many_tasks_agrees_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(5)
    parts = [[draw.gauss(0, 1) for _ in range(5)] for _ in range(20)]
    exact = medians.OverTasks(grouped(parts), frame(), None)
    monkeypatch.setattr(medians, "EXACT_UP_TO", 1)
    drawn = medians.OverTasks(grouped(parts), frame(), resample_tasks(20, 1, 9_999))
    assert not drawn.exact
    for x in (-0.4, -0.1, 0.0, 0.2):
        assert drawn([x])[0].lower == pytest.approx(exact([x])[0].lower, abs=0.02)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_law_within_tasks_is_that_of_every_resample(kernel: ModuleType) -> None:
    law = medians.WithinTasks(grouped(PARTS), frame(kernel))
    laws = [list(itertools.product(part, repeat=len(part))) for part in PARTS]
    total = math.prod(map(len, laws))
    for x, tails in zip(range(10), law([float(x) for x in range(10)]), strict=True):
        lower = upper = 0
        for drawn in itertools.product(*laws):
            values = sorted(value for part in drawn for value in part)
            lower += values[(len(values) - 1) // 2] <= x
            upper += values[len(values) // 2] <= x
        assert (tails.lower, tails.upper) == pytest.approx(
            (lower / total, upper / total), abs=1e-12
        )


@pytest.mark.parametrize(
    ("parts", "drawn_as"),
    [
        ([[1, 5], [2], [3]], [[1, 5], [2, 3]]),
        ([[1, 5, 7], [2, 9], [3]], [[1, 5, 7], [2, 9, 3]]),
        ([[4], [1, 5, 7]], [[4, 1, 5, 7]]),
    ],
)
@pytest.mark.parametrize("kernel", KERNELS)
def test_tasks_with_one_value_are_drawn_together(
    kernel: ModuleType, parts: list[list[float]], drawn_as: list[list[float]]
) -> None:
    points = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 9.0]
    found = medians.WithinTasks(grouped(parts), frame(kernel))
    together = medians.WithinTasks(grouped(drawn_as), frame(kernel))
    assert found.strata == len(drawn_as)
    for one, other in zip(found(points), together(points), strict=True):
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-12)


def test_the_normal_law_within_tasks_is_near_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(6)
    parts = [[draw.gauss(task / 40, 1) for _ in range(10)] for task in range(80)]
    exact = medians.WithinTasks(grouped(parts), frame())
    monkeypatch.setattr(medians, "NORMAL_FROM", 1)
    normal = medians.WithinTasks(grouped(parts), frame())
    assert normal.normal
    points = [0.7, 0.9, 1.0, 1.1, 1.3]
    for one, two in zip(exact(points), normal(points), strict=True):
        assert two.lower == pytest.approx(one.lower, abs=2e-4)
        assert two.upper == pytest.approx(one.upper, abs=2e-4)


def test_every_resample_is_listed_with_its_chance() -> None:
    listed = {one.weights: one.chance for one in every_resample(4)}
    brute: dict[tuple[int, ...], float] = {}
    for drawn in itertools.product(range(4), repeat=4):
        weights = tuple(drawn.count(task) for task in range(4))
        brute[weights] = brute.get(weights, 0.0) + 1 / 4**4
    assert listed == pytest.approx(brute)


def test_task_medians_are_those_of_every_resample() -> None:
    found: dict[float, float] = {}
    for atom in task_medians(grouped(PARTS)):
        found[atom.median] = found.get(atom.median, 0.0) + atom.chance
    brute: dict[float, float] = {}
    for drawn in itertools.product(range(3), repeat=3):
        middle = float(np.median([value for task in drawn for value in PARTS[task]]))
        brute[middle] = brute.get(middle, 0.0) + 1 / 27
    assert found == pytest.approx(brute)


def test_the_median_table_agrees_with_the_median_of_the_drawn_values() -> None:
    generator = np.random.default_rng(3)
    for trial in range(60):
        tasks = int(generator.integers(2, 12))
        sizes = generator.integers(0 if trial % 3 else 1, 6, tasks)
        highest = 20 if trial % 2 else 10**6
        parts = [generator.integers(0, highest, n).astype(float).tolist() for n in sizes]
        if not sizes.sum():
            continue
        weights = generator.multinomial(tasks, [1 / tasks] * tasks, size=30).astype(float)
        table = MedianTable(grouped(parts), np.arange(tasks), tasks)
        for row, found in zip(weights, table.medians(weights), strict=True):
            values = [v for w, part in zip(row, parts, strict=True) for v in part * int(w)]
            if values:
                assert found == np.median(values)
            else:
                assert np.isnan(found)


def test_medians_of_drawn_runs_are_those_of_the_runs_written_out() -> None:
    generator = np.random.default_rng(5)
    for trial in range(40):
        runs = int(generator.integers(1, 30))
        values = generator.integers(0, 8 if trial % 2 else 10**6, runs).astype(float)
        values[generator.random(runs) < trial % 4 / 4] = math.nan
        times = generator.multinomial(runs, [1 / runs] * runs, size=20)
        for row, found in zip(times, stability._row_medians(values, times), strict=True):
            written_out = np.repeat(values, row)
            measured = written_out[~np.isnan(written_out)]
            if len(measured):
                assert found == np.median(measured)
            else:
                assert math.isnan(found)


def test_drawn_runs_are_of_the_drawn_tasks_and_as_many() -> None:
    parts = grouped([[1.0] * 3, [1.0] * 5, [1.0]])
    drawn = draws([1], 200, 3, 3)
    total = int(np.asarray(parts.sizes)[drawn].sum())
    times = stability._times_drawn(parts, drawn, draws([2], 1, total, 1 << 31)[0])
    for row, tasks in zip(times, drawn, strict=True):
        for task, size in enumerate(parts.sizes):
            here = row[parts.starts[task] : parts.starts[task + 1]]
            assert here.sum() == size * (tasks == task).sum()
    # Each run of a task is drawn as often as the others.
    assert times[:, :3].sum(axis=0) == pytest.approx(times[:, :3].sum() / 3, rel=0.2)
    assert times[:, 3:8].sum(axis=0) == pytest.approx(times[:, 3:8].sum() / 5, rel=0.2)


def test_bundled_tasks_keep_the_total_and_the_spread() -> None:
    resamples = resample_tasks(5_000, 1, 199)
    assert resamples.weights.shape == (199, 1_000)
    sums = resamples.sums([1.0] * 5_000)
    assert sums == pytest.approx(5_000.0)
    drawn = resamples.sums([float(task % 10) for task in range(5_000)]) / 5_000
    assert drawn.std() == pytest.approx(np.std(np.arange(10)) / math.sqrt(5_000), rel=0.25)


def test_draws_are_uniform_and_never_change() -> None:
    drawn = draws(7, 1_000, 10, 6)
    assert drawn.min() == 0
    assert drawn.max() == 5
    assert stats.chisquare(np.bincount(drawn.ravel())).pvalue > 0.001
    assert draws(1, 1, 12, 1_000).ravel().tolist() == [*draws(1, 2, 6, 1_000).ravel().tolist()]


# Means against scipy ------------------------------------------------------------------------------


def test_balanced_task_means_are_the_t_interval_of_scipy() -> None:
    draw = random.Random(1)
    parts = [[draw.gauss(3, 2) for _ in range(4)] for _ in range(7)]
    spread = over_tasks([sum(part) for part in parts], [4] * 7)
    means = [sum(part) / 4 for part in parts]
    half = vector.student(0.975, spread.df) * math.sqrt(spread.variance)
    expected = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (np.mean(means) - half, np.mean(means) + half) == pytest.approx(expected)


def test_unequal_repeats_follow_cr2_worked_by_hand() -> None:
    # Sums 6 and 2 over 3 and 1 pairs: mean 2; residuals 0 and 0.
    assert over_tasks([6.0, 2.0], [3, 1]).variance == 0.0
    # Sums 9 and 1: mean 2.5, residuals 1.5 and -1.5, 1 - h of 1/4 and 3/4: (9 + 3) / 16.
    spread = over_tasks([9.0, 1.0], [3, 1])
    assert spread.variance == pytest.approx(12 / 16)
    assert spread.df == pytest.approx(16 / 10 - 1)


def test_one_task_within_is_welch_of_scipy() -> None:
    ours, theirs = [3.0, 5.0, 9.0, 4.0], [8.0, 1.0, 7.0, 7.5]
    squares = [[float(np.var(side) * 4)] for side in (ours, theirs)]
    spread = within_tasks(squares, [[4], [4]])
    assert spread is not None
    half = vector.student(0.975, spread.df) * math.sqrt(spread.variance)
    centre = np.mean(ours) - np.mean(theirs)
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (centre - half, centre + half) == pytest.approx(expected)


def test_a_task_with_one_run_borrows_the_pooled_variance_and_no_degree_of_freedom() -> None:
    spread = within_tasks([[8.0, 0.0], [6.0, 0.0]], [[2, 1], [3, 1]])
    assert spread is not None
    weights = [5 / 7, 2 / 7]
    pooled = (8 + 6) / (1 + 2)
    assert spread.variance == pytest.approx(
        weights[0] ** 2 * (8 / 1 / 2 + 6 / 2 / 3) + weights[1] ** 2 * 2 * pooled
    )
    parts = [
        (weights[0] ** 2 / n + weights[1] ** 2 * 2 * (n - 1) / 3) * square / (n - 1)
        for square, n in ((8.0, 2), (6.0, 3))
    ]
    assert spread.df == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 + parts[1] ** 2 / 2))
    assert within_tasks([[0.0], [0.0]], [[1], [1]]) is None


# Tests against brute force ------------------------------------------------------------------------


def brute_labels(ours: list[list[float]], theirs: list[list[float]]) -> float:
    observed = abs(sum(sum(a) - sum(b) for a, b in zip(ours, theirs, strict=True)))
    choices = []
    for a, b in zip(ours, theirs, strict=True):
        values = a + b
        choices.append([2 * sum(c) - sum(values) for c in itertools.combinations(values, len(a))])
    sums = [sum(chosen) for chosen in itertools.product(*choices)]
    return sum(abs(total) >= observed - 1e-9 for total in sums) / len(sums)


OURS = [[1.0, 2.5, 3.0], [4.0, 4.5, 7.0], [2.0, 9.0, 9.5]]
THEIRS = [[2.0, 3.5, 6.0], [5.0, 4.0, 9.0], [2.5, 9.9, 12.0]]


@pytest.mark.parametrize("kernel", KERNELS)
def test_labels_within_tasks_is_exact_when_small(kernel: ModuleType) -> None:
    logs = [[[math.log(v) for v in part] for part in side] for side in (OURS, THEIRS)]
    found = permute.labels_within_tasks(pairs_of(OURS, THEIRS), frame(kernel))
    assert found == pytest.approx(brute_labels(*logs))
    passes = [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    pairs = pairs_of(*passes, metric=SUCCESS)
    assert permute.labels_within_tasks(pairs, frame(kernel)) == pytest.approx(brute_labels(*passes))


def test_one_task_of_four_repeats_can_reach_five_percent_and_three_cannot() -> None:
    for repeats, smallest in ((3, 2 / 20), (4, 2 / 70)):
        pairs = pairs_of(
            [[float(k + 1) for k in range(repeats)]], [[100.0 + k for k in range(repeats)]]
        )
        assert permute.labels_within_tasks(pairs, frame()) == pytest.approx(smallest)


def test_drawn_and_normal_labels_agree_with_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(9)
    ours = [[draw.lognormvariate(task, 0.5) for _ in range(5)] for task in range(4)]
    theirs = [[draw.lognormvariate(task + 0.25, 0.5) for _ in range(5)] for task in range(4)]
    pairs = pairs_of(ours, theirs)
    exact = permute.labels_within_tasks(pairs, frame())
    assert exact is not None
    monkeypatch.setattr(permute, "LONGEST_HALF", 1)
    drawn = permute.labels_within_tasks(pairs, frame())
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 9_999) + 1e-4)
    monkeypatch.setattr(permute, "NORMAL_FROM", 1)
    assert permute.labels_within_tasks(pairs, frame()) == pytest.approx(exact, abs=0.02)


def test_signs_of_tasks_are_exact_up_to_24_tasks() -> None:
    draw = random.Random(2)
    for tasks in (6, 9, 13):
        means = [draw.gauss(0.4, 1) for _ in range(tasks)]
        pairs = pairs_of([[math.exp(m)] for m in means], [[1.0]] * tasks)
        observed = abs(sum(means))
        sums = [
            sum(sign * mean for sign, mean in zip(signs, means, strict=True))
            for signs in itertools.product((1, -1), repeat=tasks)
        ]
        brute = sum(abs(total) >= observed - 1e-12 for total in sums) / 2**tasks
        assert permute.signs_of_tasks(pairs, frame()) == pytest.approx(brute)


def test_signs_of_many_tasks_agree_with_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    means = [draw.gauss(0.35, 1) for _ in range(20)]
    pairs = pairs_of([[math.exp(m)] for m in means], [[1.0]] * 20)
    exact = permute.signs_of_tasks(pairs, frame())
    assert exact is not None
    monkeypatch.setattr(permute, "ALL_SIGNS_UP_TO", 1)
    drawn = permute.signs_of_tasks(pairs, frame())
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 9_999) + 1e-4)
    monkeypatch.setattr(permute, "NORMAL_FROM", 1)
    assert permute.signs_of_tasks(pairs, frame()) == pytest.approx(exact, abs=0.02)


def test_five_tasks_have_no_test_over_tasks_and_no_pairs_have_none_at_all() -> None:
    assert permute.signs_of_tasks(pairs_of([[2.0]] * 5, [[1.0]] * 5), frame()) is None
    assert permute.signs_of_tasks(pairs_of([[2.0]] * 6, [[1.0]] * 6), frame()) == 2 / 64
    assert permute.labels_within_tasks(pairs_of([], []), frame()) is None
    assert permute.labels_within_tasks(pairs_of([[2.0]], [[2.0]]), frame()) == 1.0


def test_holm_worked_by_hand() -> None:
    assert permute.holm([0.01, 0.04, None, 0.03, 0.005]) == pytest.approx(
        [0.03, 0.06, None, 0.06, 0.02]
    )
    assert permute.holm([0.9, 0.8]) == [1.0, 1.0]
    assert permute.holm([None]) == [None]


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
    starts = [0, *itertools.accumulate(sizes)]
    values = generator.integers(0, 40, starts[-1]).astype(float)
    points = [-1.0, 0.0, 7.0, 20.5, 39.0, 99.0]
    expected = [
        [int((values[a:b] <= point).sum()) for a, b in itertools.pairwise(starts)]
        for point in points
    ]
    before = values.copy()
    assert column.Counter(values, starts).up_to(points) == expected
    assert column.Counter(values.tolist(), starts).up_to(points) == expected
    assert (values == before).all()
