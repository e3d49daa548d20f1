"""The simulation of scores computes all data sets at once, and yet what a score gives."""

import numpy as np
import pytest

from benchmarks.scores import (
    FRAME,
    SCORES,
    expected,
    intervals,
    score_runs,
    scores_of,
    sign_tests,
    tasks_of,
)
from twoarm.evidence.means import score_estimate
from twoarm.evidence.relabel import signs_of_tasks


@pytest.mark.parametrize("name", SCORES)
def test_the_simulation_computes_what_a_score_gives(name: str) -> None:
    draw = np.random.default_rng(3)
    tasks = tasks_of(SCORES[name], 4 * 8, draw)
    scores = scores_of(SCORES[name], tasks, 3, draw).reshape(2, 4, 8, 3)
    simulated = intervals(scores)
    for number in range(4):
        score = score_estimate(score_runs(scores[:, number]), FRAME)
        for row, interval in (
            ("score (a)", score.these_tasks),
            ("score (b)", score.tasks_like_these),
        ):
            assert interval is not None
            low, high = simulated[row]
            ends = interval.low, interval.high
            assert (low[number], high[number]) == pytest.approx(ends, abs=1e-9), row


@pytest.mark.parametrize("name", SCORES)
def test_what_is_true_of_a_task_is_what_many_runs_of_it_show(name: str) -> None:
    draw = np.random.default_rng(5)
    tasks = tasks_of(SCORES[name], 5, draw)
    seen = np.nanmean(scores_of(SCORES[name], tasks, 20_000, draw), axis=2)
    assert seen == pytest.approx(expected(SCORES[name], tasks), abs=0.015)


@pytest.mark.parametrize("tasks", [8, 16])
def test_the_simulation_tests_as_a_score_does(tasks: int) -> None:
    apart = np.random.default_rng(7).normal(0.1, 0.2, (40, tasks)).round(1)
    expected_p = [signs_of_tasks(moved[None], FRAME.seed).p(0) for moved in apart]
    assert list(sign_tests(apart)) == pytest.approx(expected_p)
