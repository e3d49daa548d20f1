"""What repeats tell: pass@k and pass^k, and where success is higher."""

import itertools

import numpy as np
import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, run
from twoarm.evidence.repeats import pass_rates


def test_pass_at_k_and_pass_hat_k_are_those_of_every_choice() -> None:
    passed = [[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]]
    found = pass_rates(np.array([sum(one) for one in passed]), np.array([5] * 4))
    assert [rates.k for rates in found] == [1, 2, 3, 5]
    for rates in found:
        chosen = [list(itertools.combinations(one, rates.k)) for one in passed]
        some = [sum(map(any, choices)) / len(choices) for choices in chosen]
        every = [sum(map(all, choices)) / len(choices) for choices in chosen]
        assert rates.at_least_one == pytest.approx(sum(some) / 4)
        assert rates.all == pytest.approx(sum(every) / 4)


def test_success_of_a_task_is_higher_lower_or_unchanged() -> None:
    runs = []
    for task, ours, theirs in (("a", 3, 1), ("b", 1, 1), ("c", 0, 2)):
        for repeat in range(1, 4):
            runs.append(run(task, WITH, repeat, success=repeat <= ours))
            runs.append(run(task, WITHOUT, repeat, success=repeat <= theirs))
    runs.append(run("d"))
    found = [(t.task_id, t.standing, t.gained, t.lost) for t in twoarm.score(runs).tasks]
    assert found == [
        ("a", "higher", 2, 0),
        ("b", "unchanged", 0, 0),
        ("c", "lower", 0, 2),
        ("d", None, 0, 0),
    ]
