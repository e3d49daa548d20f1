"""Intervals at planned looks: all of them together hold the truth as often as is promised."""

import math

import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.evidence.test_looks import LOOKS, runs_at
from twoarm.evidence.looks import level_alone, spending


def test_the_bounds_of_three_looks_are_those_of_a_normal_distribution_in_space() -> None:
    times = np.array(LOOKS) / 10
    together = np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times))
    bounds = [stats.norm.ppf((1 + level_alone(LOOKS[:last], 10, 0.95)) / 2) for last in (1, 2, 3)]
    for last in (1, 2, 3):
        inside = stats.multivariate_normal(cov=together[:last, :last]).cdf(
            np.array(bounds[:last]), lower_limit=-np.array(bounds[:last])
        )
        assert 1 - inside == pytest.approx(spending(LOOKS[last - 1], 10, 0.95), abs=2e-5)


@pytest.mark.parametrize("looks", [(3, 5, 10), tuple(range(2, 11)), (1, 9, 10), (10,)])
def test_so_many_walks_leave_their_bounds_as_may(looks: tuple[int, ...]) -> None:
    draw = np.random.default_rng(3)
    steps = draw.normal(size=(200_000, 10)).cumsum(axis=1)
    at = np.array(looks)
    bounds = [
        stats.norm.ppf((1 + level_alone(looks[: k + 1], 10, 0.95)) / 2) for k in range(len(looks))
    ]
    gone = np.abs(steps[:, at - 1]) / np.sqrt(at) > np.array(bounds)
    for last in range(len(looks)):
        share = gone[:, : last + 1].any(axis=1).mean()
        spent = spending(looks[last], 10, 0.95)
        assert abs(share - spent) <= 4 * math.sqrt(spent * (1 - spent) / 200_000) + 1e-6


def test_one_look_is_no_look_and_a_look_long_before_the_end_has_a_number() -> None:
    assert level_alone((10,), 10, 0.9) == pytest.approx(0.9)
    assert 0.999999 < level_alone((1,), 1000, 0.95) < 1.0
    levels = [level_alone(tuple(range(1, last + 1)), 200, 0.95) for last in (1, 100, 200)]
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] > 0.95


def test_a_report_at_a_look_says_what_its_intervals_promise() -> None:
    early = twoarm.score(runs_at(3, faster=0.4), looks=LOOKS)
    last = twoarm.score(runs_at(10, faster=0.4), looks=LOOKS)
    alone = twoarm.score(runs_at(10, faster=0.4))
    for report in (early, last):
        assert "95% over all looks" in report.to_text()
        assert "95% over all looks" in report.to_text(full=True)
        assert "95% over all looks" in report.to_html()
        assert "95% interval" not in report.to_text(full=True)
    assert "over all looks" not in alone.to_text(full=True)
    assert last.evidence is not None
    assert alone.evidence is not None
    assert last.evidence.looks is not None
    assert last.evidence.looks.level == 0.95
    assert last.evidence.level == pytest.approx(level_alone(LOOKS, 10, 0.95))
    assert 0.95 < last.evidence.level < 0.97
    ratios = [one.deltas["duration_seconds"].ratio for one in (last.evidence, alone.evidence)]
    ours, theirs = (one.tasks_like_these for one in ratios if one is not None)
    assert ours is not None
    assert theirs is not None
    assert ours.low < theirs.low < theirs.high < ours.high
