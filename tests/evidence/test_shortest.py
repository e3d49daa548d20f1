"""The least length of an interval of success: by hand where nothing fails, and by its own test."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.shortest import nearest, power, shortest


@pytest.mark.parametrize(("tasks", "repeats"), [(8, 5), (12, 10)])
def test_where_nothing_fails_it_is_an_integral(tasks: int, repeats: int) -> None:
    """No failure is seen: a drop d is held with the chance 1 - .025/(1 - d)^n, down to none."""
    runs = tasks * repeats
    last = 1 - 0.025 ** (1 / runs)
    exact = last - 0.025 / (runs - 1) * ((1 - last) ** (1 - runs) - 1)
    found = shortest(np.ones((2, tasks)), repeats, 3 / runs, np.random.default_rng(1))
    assert found == pytest.approx(exact, rel=0.005)


def test_in_the_middle_it_is_that_of_a_normal_interval() -> None:
    """A difference x errors away is outside by the end between, at best with Phi(x - z), or by the
    other, if what was seen is as far away."""
    rates = np.full((2, 50), 0.5)
    error = math.sqrt(2 * 0.25 / 1000)
    found = shortest(rates, 20, 2 * error, np.random.default_rng(2))
    x = np.linspace(0, 8, 8001)
    other = np.minimum(stats.norm.cdf(-x), 0.025)
    held = (1 - stats.norm.cdf(x - 1.959964) - other).clip(0)
    normal = float(held.sum() * (x[1] - x[0]))
    assert found == pytest.approx(normal * error, rel=0.02)


def test_the_nearest_rates_have_the_difference_and_no_others_are_nearer() -> None:
    draw = np.random.default_rng(3)
    rates = draw.uniform(0.05, 0.95, (2, 6))
    wanted = np.array([-0.4, -0.1, 0.2])

    def divergence(other: np.ndarray) -> float:
        by_task = rates * np.log(rates / other) + (1 - rates) * np.log((1 - rates) / (1 - other))
        return float(by_task.sum())

    for difference, other in zip(wanted, nearest(rates, wanted), strict=True):
        assert (other[0] - other[1]).mean() == pytest.approx(difference)
        for _ in range(50):
            moved = draw.normal(0, 0.01, rates.shape)
            moved -= np.array([[0.5], [-0.5]]) * (moved[0] - moved[1]).mean()
            assert divergence(other) <= divergence((other + moved).clip(1e-6, 1 - 1e-6))


def test_the_power_is_that_of_the_best_test_written_out() -> None:
    """Ten runs at 0.9 against 0.6: the outcomes with most passes, until 2.5 % are spent."""
    passed = np.random.default_rng(4).binomial(10, 0.9, 200_000)
    ratio = passed * math.log(0.9 / 0.6) + (10 - passed) * math.log(0.1 / 0.4)
    spent, expected = 0.0, 0.0
    for count in range(10, -1, -1):
        chance = stats.binom.pmf(count, 10, 0.6)
        part = min(1.0, max(0.0, (0.025 - spent) / chance))
        expected += part * stats.binom.pmf(count, 10, 0.9)
        spent += chance
    assert power(ratio[:, None])[0] == pytest.approx(expected, abs=0.005)
