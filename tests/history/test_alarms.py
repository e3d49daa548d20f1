"""Alarms over a history, against another computation of the same test, and rows worked by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.history import HISTORIES, results_of
from twoarm.history.alarms import FEWEST_RESULTS, EffectShift, shifts
from twoarm.runs.arrays import Floats


def p_by_hand(before: Floats, after: Floats) -> float:
    """Welch's t for the mean over tasks of the differences between two sides, task by task."""
    differences, variances, weights = [], [], []
    for task in range(before.shape[1]):
        left = before[~np.isnan(before[:, task]), task]
        right = after[~np.isnan(after[:, task]), task]
        free = len(left) + len(right) - 2
        if not len(left) or not len(right) or free < 1:
            continue
        pooled = (((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()) / free
        variance = pooled * (1 / len(left) + 1 / len(right))
        differences.append(right.mean() - left.mean())
        variances.append(variance)
        weights.append(variance**2 / free)
    if len(differences) < 6 or not sum(variances):
        return 1.0
    count = len(differences)
    t = np.mean(differences) / math.sqrt(sum(variances) / count**2)
    return float(2 * stats.t.sf(abs(t), sum(variances) ** 2 / sum(weights)))


def first_by_hand(effects: Floats, alpha: float) -> tuple[int, int, float] | None:
    for results in range(FEWEST_RESULTS, len(effects) + 1):
        chances = [p_by_hand(effects[:at], effects[at:results]) for at in range(1, results)]
        if min(chances) * (results - 1) < alpha / (results * (results - 1)):
            left = [spread(effects[:at], effects[at:results]) for at in range(1, results)]
            return int(np.argmin(left)) + 1, results - 1, min(chances) * (results - 1)
    return None


def spread(before: Floats, after: Floats) -> float:
    """What a place leaves unexplained, of the tasks that both sides have; of others all of it."""
    total = 0.0
    for task in range(before.shape[1]):
        sides = [side[~np.isnan(side[:, task]), task] for side in (before, after)]
        if not all(map(len, sides)) or sum(map(len, sides)) < 3:
            sides = [np.concatenate(sides)]
        total += sum(((side - side.mean()) ** 2).sum() for side in sides if len(side))
    return total


@pytest.mark.parametrize("seed", range(30))
def test_the_first_alarm_is_that_of_another_computation(seed: int) -> None:
    draw = np.random.default_rng(seed)
    results, tasks = int(draw.integers(3, 16)), int(draw.integers(6, 14))
    effects = draw.normal(0, 0.3, (results, tasks)) + draw.normal(0, 0.2, tasks)
    effects[int(draw.integers(1, results)) :] += draw.choice([0.0, 0.4, 0.8])
    effects[draw.random(effects.shape) < 0.1] = np.nan
    expected, found = first_by_hand(effects, 0.05), shifts(effects, 0.05)
    assert bool(found) is (expected is not None)
    if expected is not None:
        assert (found[0].since, found[0].seen) == expected[:2]
        assert found[0].p == pytest.approx(expected[2], rel=1e-6)


def test_some_of_these_histories_raise_an_alarm_and_some_do_not() -> None:
    # Otherwise the test above would say little.
    seen = []
    for seed in range(30):
        draw = np.random.default_rng(seed)
        results, tasks = int(draw.integers(3, 16)), int(draw.integers(6, 14))
        effects = draw.normal(0, 0.3, (results, tasks)) + draw.normal(0, 0.2, tasks)
        effects[int(draw.integers(1, results)) :] += draw.choice([0.0, 0.4, 0.8])
        seen.append(bool(shifts(effects, 0.05)))
    assert 5 < sum(seen) < 25


def steps(*levels: float, each: int = 6, tasks: int = 8, noise: float = 0.01) -> Floats:
    """A history whose effect stays at a level for some results, then at the next."""
    draw = np.random.default_rng(5)
    level = np.repeat(levels, each)[:, None]
    made: Floats = level + draw.normal(0, 0.1, tasks) + draw.normal(0, noise, (len(level), tasks))
    return made


def test_every_change_is_named_with_its_place_and_what_was_before_and_after() -> None:
    first, second = shifts(steps(-0.2, 0.1, 0.5), 0.05)
    assert (first.since, second.since) == (6, 12)
    assert first.seen <= 8
    assert second.seen <= 14
    own = steps(0.0).mean()
    assert first.before - own == pytest.approx(-0.2, abs=0.02)
    assert first.after == second.before
    assert first.after - own == pytest.approx(0.1, abs=0.02)
    assert second.after - own == pytest.approx(0.5, abs=0.02)


def test_nothing_changes_in_a_history_that_stays_as_it_is() -> None:
    assert shifts(steps(0.3, each=20), 0.05) == []


def test_what_never_varies_is_no_alarm() -> None:
    effects = np.zeros((10, 8))
    assert shifts(effects, 0.05) == []
    # One run of one task that fails for once, where nothing ever failed, is none either.
    effects[9, 3] = -0.2
    assert shifts(effects, 0.05) == []


def test_a_candidate_that_breaks_altogether_is_found_in_its_place() -> None:
    effects = np.zeros((10, 8))
    effects[5:] = -1.0
    (shift,) = shifts(effects, 0.05)
    assert (shift.since, shift.before, shift.after) == (5, 0.0, -1.0)


@pytest.mark.parametrize(("results", "tasks"), [(2, 20), (1, 20), (0, 20), (12, 5)])
def test_too_few_results_or_tasks_raise_no_alarm(results: int, tasks: int) -> None:
    effects = steps(0.0, 5.0, each=max(results, 2) // 2, tasks=tasks)[:results]
    assert shifts(effects.reshape(results, tasks), 0.05) == []


def test_a_task_that_only_one_side_has_does_not_count() -> None:
    effects = steps(0.0, 0.0, tasks=8)
    later = np.full((len(effects), 3), np.nan)
    later[6:] = 9.0 + np.random.default_rng(1).normal(0, 0.01, (6, 3))
    assert shifts(np.hstack([effects, later]), 0.05) == []


def test_the_error_is_spent_over_all_places_and_results() -> None:
    spent = sum(
        (results - 1) * (0.05 / (results * (results - 1)) / (results - 1))
        for results in range(2, 100_000)
    )
    assert spent == pytest.approx(0.05, abs=1e-5)


def test_an_alarm_depends_on_the_past_alone() -> None:
    effects = steps(0.0, 0.4, each=8)
    (whole,) = shifts(effects, 0.05)
    for results in range(len(effects) + 1):
        found: list[EffectShift] = shifts(effects[:results], 0.05)
        assert bool(found) is (results > whole.seen)


def test_days_that_shift_both_arms_are_no_change() -> None:
    draw = np.random.default_rng(3)
    kind = HISTORIES["T1 no change"]
    alarms = [any(shifts(each, 0.05 / 3) for each in results_of(kind, 12, 5, draw).values())
              for _ in range(100)]  # fmt: skip
    assert sum(alarms) <= 6
