"""What repeats tell: pass@k and pass^k, what a solved task costs, where success is higher."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.conftest import WITH, WITHOUT, run
from tests.support.effect_runs import evidence, messages, withheld
from twoarm.evidence.repeats import pass_rates


def test_the_cost_of_a_solved_task_varies_in_tasks_run_once_too() -> None:
    costs = {"a": (1.0, 2.0, 6.0), "b": (4.0,), "c": (5.0,)}
    runs = [
        run(task, arm, repeat, total_cost_usd=cost, duration_seconds=50 + 7 * cost)
        for task, each in costs.items()
        for repeat, cost in enumerate(each, 1)
        for arm in (WITH, WITHOUT)
    ]
    found = evidence(runs).repeats[0].cost_per_solved_usd
    squares = sum((cost - 3) ** 2 for cost in costs["a"])
    variance = 3 * squares / 2 + 2 * squares / 2
    reach = stats.t(2).ppf(0.975) * math.sqrt(variance) / 18
    assert found.estimate == pytest.approx(18 / 5)
    assert found.these_tasks is not None
    assert found.these_tasks.high == pytest.approx(18 / 5 * math.exp(reach))


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


def test_the_cost_of_a_solved_task_includes_failed_spend() -> None:
    runs = [
        run(f"t{t}", arm, 1, total_cost_usd=2.0 + t, success=t % 2 == 0)
        for t in range(8)
        for arm in (WITH, WITHOUT)
    ]
    cost = evidence(runs).repeats[0].cost_per_solved_usd
    assert cost.estimate == pytest.approx(sum(2.0 + t for t in range(8)) / 4)
    assert cost.these_tasks is None
    assert cost.tasks_like_these is not None
    assert cost.estimate is not None
    assert cost.tasks_like_these.low < cost.estimate < cost.tasks_like_these.high
    none = [one | {"success": False} for one in runs]
    unsolved = evidence(none).repeats[0].cost_per_solved_usd
    assert withheld(unsolved) == [("no_figure", None)]
    assert messages(unsolved) == ["No figure: nothing solved."]


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
