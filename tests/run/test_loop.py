"""The loop: order, budget, retries and stops, without a disk and without processes."""

import random
from collections import Counter

import pytest

from tests.support.loop_in_memory import Simulation, terms
from twoarm.errors import UsageError
from twoarm.run.attempted import Attempted
from twoarm.run.budget import Budget, Terms, check_terms
from twoarm.run.loop import ENOUGH, StoppedError
from twoarm.run.loop_view import StopRequest

FREE = terms(budget_usd=None)


def cheap(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
    return "run", 0.1, rng.lognormvariate(0, 0.5)


def dear(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
    """Costs as they are: a long tail, cut where the trial is stopped."""
    cost = min(rng.lognormvariate(-1.68, 0.9), 1.5)
    return "run", cost, rng.lognormvariate(0, 0.5)


def test_every_trial_runs_once_and_slots_are_used() -> None:
    done = Simulation(FREE, cheap)
    assert done.end == "done"
    assert len(done.folder.published) == 60
    assert done.executor.most == 4


def test_the_arms_of_a_block_run_one_after_the_other_in_one_slot() -> None:
    begun = Simulation(FREE, cheap, slots=1).folder.begun
    for first, second in zip(begun[::2], begun[1::2], strict=True):
        assert (first.task, first.repeat) == (second.task, second.repeat)


def test_after_any_end_the_arms_differ_by_no_more_than_the_slots() -> None:
    for seed in range(5):
        ahead = 0
        for one in Simulation(FREE, cheap, seed=seed).folder.settled:
            ahead += 1 if one.arm == "a" else -1
            assert abs(ahead) <= 4


@pytest.mark.parametrize("slots", [1, 4, 16])
def test_a_hard_budget_is_never_exceeded(slots: int) -> None:
    for seed in range(1000):
        done = Simulation(terms(), dear, seed=seed, slots=slots, tasks=10)
        assert done.end == "budget"
        assert done.cost <= 10.0
        # All of it is used, but for what the next block might cost.
        assert done.cost > 10.0 - 2 * 1.5 - 1e-9


def test_the_overshoot_of_an_agent_is_reserved_too() -> None:
    def over(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return "run", 1.5 * 1.25, 1.0

    for slots in (1, 3, 8):
        assert Simulation(terms(overshoot=0.25), over, slots=slots).cost <= 10.0
    # Without the allowance it would not hold: the test can fail.
    assert Simulation(terms(overshoot=0.0), over, slots=8).cost > 10.0


def test_an_attempt_whose_cost_nobody_knows_counts_what_was_reserved() -> None:
    def unknown(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return "run", None, 1.0

    done = Simulation(terms(), unknown)
    assert done.end == "budget"
    assert len(done.folder.published) == 6
    assert done.budget.spent == pytest.approx(9.0)


def test_a_block_starts_only_if_both_arms_are_paid_for() -> None:
    done = Simulation(terms(budget_usd=4.4), cheap, slots=1, tasks=2, repeats=1)
    assert len(done.folder.published) == 4
    poor = Simulation(terms(budget_usd=2.9), cheap, slots=1)
    assert (poor.end, poor.folder.begun) == ("budget", [])


def test_infra_failures_cost_as_well() -> None:
    def flaky(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return ("infra" if rng.random() < 0.3 else "run"), min(rng.expovariate(2), 1.5), 1.0

    for seed in range(100):
        assert Simulation(terms(), flaky, seed=seed, slots=4, tasks=10).cost <= 10.0


def test_a_soft_budget_reserves_more_than_the_dearest_so_far() -> None:
    budget = Budget(terms(cost="told", trial_usd=0.2))
    assert budget.reservation() == 0.2
    budget.charge(0.9, 0.9)
    assert budget.reservation() == pytest.approx(1.35)
    assert budget.terms.kind == "soft"
    assert terms().kind == "hard"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (terms(cost="unknown"), "nobody knows what a trial costs"),
        (terms(trial_usd=None), "nothing says what one trial may cost"),
        (terms(trial_usd=11.0), "more than the whole budget"),
    ],
)
def test_a_budget_that_nobody_could_keep_is_refused(bad: Terms, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_terms(bad)
    check_terms(terms())
    check_terms(terms(budget_usd=None, cost="unknown", trial_usd=None))


def test_an_infra_failure_is_tried_again_and_then_left() -> None:
    def once(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        broken = attempted.task == "t0" and attempted.arm == "a"
        return ("infra" if broken else "run"), 0.1, 1.0

    done = Simulation(FREE, once, tasks=4, repeats=1, slots=1)
    attempts = Counter(one.trial.id for one in done.folder.begun)
    assert done.end == "done"
    assert attempts["a/t0.1"] == 3
    assert sum(attempts.values()) == 10
    assert done.views[-1].infra == 1
    assert done.views[-1].done == 7
    assert [one.attempt for one in done.folder.begun if one.trial.id == "a/t0.1"] == [1, 2, 3]


def test_the_agents_own_failures_are_never_tried_again() -> None:
    done = Simulation(FREE, cheap)
    assert {one.attempt for one in done.folder.begun} == {1}


def test_too_many_infra_failures_in_a_row_stop_everything() -> None:
    def down(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return "infra", 0.0, 1.0

    with pytest.raises(StoppedError, match=f"{ENOUGH} attempts in a row .* infra"):
        Simulation(FREE, down, slots=1)


def test_an_infra_failure_pauses_both_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clock = [0.0]
    monkeypatch.setattr("twoarm.run.loop.time.monotonic", lambda: clock[0])

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("twoarm.run.loop.time.sleep", sleep)

    def second(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return ("infra" if attempted.attempt == 1 and attempted.task == "t1" else "run"), 0.1, 1.0

    done = Simulation(FREE, second, tasks=3, repeats=1, slots=1, retry_seconds=30.0)
    assert done.end == "done"
    # Twice: once in each arm; the first pause is 30 s, and a success in between resets it.
    assert sum(slept) == pytest.approx(60.0)


def test_a_pause_that_ends_between_two_looks_is_no_lack_of_money(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]

    def first(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return ("infra" if attempted.attempt == 1 else "run"), 0.1, 1.0

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr("twoarm.run.loop.time.sleep", sleep)
    for hundredths in range(1, 40):

        def monotonic(step: float = hundredths / 100) -> float:
            clock[0] += step
            return clock[0]

        monkeypatch.setattr("twoarm.run.loop.time.monotonic", monotonic)
        done = Simulation(FREE, first, tasks=1, repeats=1, slots=1, retry_seconds=30.0)
        assert (done.end, len(done.folder.published)) == ("done", 2)


def test_an_attempt_whose_outcome_is_gone_is_lost_and_tried_again() -> None:
    """A disk may lose it; nothing else can."""

    def gone(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return ("gone" if attempted.task == "t0" and attempted.attempt == 1 else "run"), 0.1, 1.0

    done = Simulation(FREE, gone, tasks=2, repeats=1, slots=1)
    assert done.end == "done"
    assert [one.reason for one in done.folder.settled if one.state == "lost"] == (
        ["its outcome is gone"] * 2
    )


def test_a_request_to_finish_lets_running_trials_finish() -> None:
    def stop_request(simulation: Simulation) -> StopRequest:
        return "finish" if len(simulation.folder.published) >= 5 else "go"

    done = Simulation(FREE, cheap, stop_request=stop_request)
    assert done.end == "stopped"
    assert 5 <= len(done.folder.published) <= 9
    assert len(done.folder.begun) == len(done.folder.published)


@pytest.mark.parametrize("request_to_stop", ["finish", "ctrl_c"])
def test_a_request_to_stop_when_nothing_is_left_to_start_changes_nothing(
    request_to_stop: StopRequest,
) -> None:
    def stop_request(simulation: Simulation) -> StopRequest:
        return request_to_stop if len(simulation.folder.begun) == 60 else "go"

    done = Simulation(FREE, cheap, stop_request=stop_request)
    assert (done.end, len(done.folder.published)) == ("done", 60)
    stopped = Simulation(FREE, cheap, stop_request=lambda _: request_to_stop)
    assert (stopped.end, stopped.folder.begun) == ("stopped", [])


def test_a_request_to_kill_ends_them() -> None:
    def stop_request(simulation: Simulation) -> StopRequest:
        return "kill" if len(simulation.folder.published) >= 5 else "go"

    done = Simulation(FREE, cheap, stop_request=stop_request)
    assert done.end == "killed"
    states = Counter(one.state for one in done.folder.settled)
    assert states["interrupted"] == len(done.folder.begun) - len(done.folder.published) > 0


def test_no_effect_is_shown_while_it_runs() -> None:
    from twoarm.run.display import progress_of

    done = Simulation(terms(), cheap)
    assert (
        progress_of(done.views[-1]) == "60 of 60 trials done, $6.00 of $10.00 spent, $0.00 reserved"
    )
    for view in done.views:
        assert "a/" not in progress_of(view)
        assert "success" not in progress_of(view)
