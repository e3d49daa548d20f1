"""Nodes that are lost while trials run there: what is run again, where, and what it costs."""

import random
from collections import Counter

import pytest

from tests.support.loop_in_memory import Simulation, terms
from twoarm.run.attempted import Attempted
from twoarm.run.loop import ENOUGH, StoppedError

FREE = terms(budget_usd=None)


def cheap(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
    return "run", 0.1, rng.lognormvariate(0, 0.5)


def slow(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
    return "run", 0.1, 1.0


def test_every_trial_is_done_once_elsewhere() -> None:
    for seed in range(20):
        done = Simulation(FREE, cheap, slots=6, seed=seed, losses={"n1": (5.0, True)})
        assert done.end == "done"
        assert len(done.folder.published) == 60
        after = [slot for attempt, slot in done.executor.begun if attempt.endswith(".2")]
        assert len(after) == 2
        assert not {2, 3} & set(after)


def test_what_is_lost_says_where_it_was() -> None:
    done = Simulation(FREE, slow, slots=4, losses={"n1": (5.0, True)})
    lost = [each for each in done.folder.settled if each.state == "lost"]
    assert [(each.node, each.reason) for each in lost] == [("n1", "node n1 was lost")] * 2


def test_the_rest_of_a_block_is_next() -> None:
    """Nobody waits with half a block until the end."""
    done = Simulation(FREE, slow, slots=4, tasks=20, losses={"n1": (4.0, True)})
    lost = {each.trial.id for each in done.folder.settled if each.state == "lost"}
    order = [attempt for attempt, _ in done.executor.begun]
    again = [order.index(attempt) for attempt in order if attempt.endswith(".2")]
    assert {order[at].removesuffix(".2") for at in again} == lost
    assert max(again) < len(order) / 2


def test_trials_that_are_lost_together_are_one_failure() -> None:
    """So many in a row would stop the run."""
    many = 2 * ENOUGH
    losses = {f"n{node}": (3.0, True) for node in range(1, ENOUGH - 1)}
    done = Simulation(FREE, slow, slots=many, tasks=30, losses=losses, retry_seconds=60.0)
    assert done.end == "done"
    assert sum(each.state == "lost" for each in done.folder.settled) > ENOUGH


def test_nodes_that_are_lost_one_after_the_other_are_several() -> None:
    losses = {f"n{node}": (0.0, True) for node in range(ENOUGH)}
    with pytest.raises(StoppedError, match=f"{ENOUGH} attempts in a row .*: node n5 was lost"):
        Simulation(FREE, slow, slots=2 * ENOUGH + 2, tasks=30, losses=losses)


def test_without_a_node_the_run_stops_and_nothing_is_lost() -> None:
    losses = {"n0": (3.0, True), "n1": (3.0, True)}
    with pytest.raises(StoppedError, match="every node of the cluster .* was lost"):
        Simulation(FREE, slow, slots=4, losses=losses)


@pytest.mark.parametrize(("begun", "charged"), [(True, 1.5), (False, 0.0)])
def test_what_never_started_is_charged_nothing(begun: bool, charged: float) -> None:
    done = Simulation(
        terms(budget_usd=100.0, trial_usd=1.5), slow, slots=4, losses={"n1": (5.0, begun)}
    )
    lost = [each for each in done.folder.settled if each.state == "lost"]
    assert [each.charged_usd for each in lost] == [charged] * 2
    assert done.budget.spent == pytest.approx(60 * 0.1 + 2 * charged)
    assert done.budget.reserved == 0


def test_what_is_left_of_a_block_is_paid_for_once() -> None:
    """The two that were lost and the four to be made cost just what there is."""

    def whole(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return "run", 1.0, 1.0

    money = terms(budget_usd=6.0, trial_usd=1.0, overshoot=0.0)
    done = Simulation(money, whole, slots=4, tasks=1, repeats=2, losses={"n0": (0.0, True)})
    assert done.end == "done"
    assert len(done.folder.published) == 4
    assert done.budget.spent == pytest.approx(6.0)


def test_a_trial_that_loses_node_after_node_is_given_up() -> None:
    losses = {"n0": (0.0, True), "n1": (1.0, True), "n2": (2.0, True)}
    done = Simulation(FREE, slow, slots=8, tasks=1, repeats=4, arms="ab", losses=losses)
    tries = Counter(each.trial.id for each in done.folder.settled)
    assert max(tries.values()) <= 3
