"""The schedule: the order of trials, frozen once."""

import json
from collections import Counter
from hashlib import sha256
from itertools import accumulate, pairwise

import msgspec
import pytest
from msgspec import UNSET

from twoarm.run.parts import first_part, sealed
from twoarm.run.schedule import SCHEMA, Frozen, arrange, frozen_bytes, thaw
from twoarm.run.suite import Suite, SuiteTask

TASKS = [f"t{i}" for i in range(7)]
TWO_ARMS = "2075bce4c1602f775080534ee2c174005dad16b2cb3bd570b223835822460501"


def frozen(seed: int = 1, repeats: int = 5) -> Frozen:
    return sealed(
        Frozen(
            schema=SCHEMA,
            twoarm="1",
            suite_id="s",
            suite=Suite(),
            version=None,
            origin="0" * 40,
            digests={"prompts.t0": "a"},
            candidates=("with",),
            baseline="without",
            sources={},
            seed=seed,
            repeats=repeats,
            parts=(first_part(TASKS, ("with", "without"), repeats, seed),),
        )
    )


def test_a_round_is_every_task_once_and_a_block_both_arms_side_by_side() -> None:
    blocks = arrange(TASKS, ("with", "without"), 5, 1)
    for at in range(5):
        round_of = blocks[at * 7 : at * 7 + 7]
        assert sorted(first.task for first, _ in round_of) == TASKS
        assert {first.repeat for first, _ in round_of} == {at + 1}
    for first, second in blocks:
        assert (first.task, first.repeat) == (second.task, second.repeat)
        assert {first.arm, second.arm} == {"with", "without"}


@pytest.mark.parametrize("repeats", [4, 5, 10])
def test_each_arm_is_first_equally_often_at_every_task(repeats: int) -> None:
    for seed in range(20):
        first = Counter((one.task, one.arm) for one, _ in arrange(TASKS, ("a", "b"), repeats, seed))
        for task in TASKS:
            assert abs(first[task, "a"] - first[task, "b"]) == repeats % 2


def test_after_any_trial_the_arms_differ_by_one_at_most() -> None:
    for seed in range(20):
        trials = frozen(seed).trials
        ahead = accumulate(1 if trial.arm == "with" else -1 for trial in trials)
        assert max(map(abs, ahead)) == 1


def test_rounds_differ_and_so_do_seeds() -> None:
    rounds = {
        tuple(first.task for first, _ in arrange(TASKS, ("a", "b"), 5, seed)[at * 7 : at * 7 + 7])
        for seed in range(4)
        for at in range(5)
    }
    assert len(rounds) == 20
    # The extra start of an odd number of repeats is a coin per task, not always the same arm.
    extra = [
        Counter(one.arm for one, _ in arrange(TASKS, ("a", "b"), 1, seed))["a"]
        for seed in range(20)
    ]
    assert 40 < sum(extra) < 100


def test_the_same_suite_and_seed_give_the_same_bytes() -> None:
    assert frozen_bytes(frozen()) == frozen_bytes(frozen())
    assert frozen_bytes(frozen(2)) != frozen_bytes(frozen())
    # Not of this process alone: the order of one seed, written down.
    order = [f"{one.task}{one.arm[4:5]}" for one, _ in arrange(TASKS, ("with", "without"), 1, 1)]
    assert order == ["t5", "t2o", "t4", "t1", "t6o", "t0o", "t3"]


def test_two_arms_are_in_the_order_they_always_were() -> None:
    # Of the version before runs could have more than two.
    drawn = [
        [f"{trial.task}.{trial.repeat}.{trial.arm}" for block in blocks for trial in block]
        for blocks in (
            arrange(TASKS, ("with", "without"), repeats, seed)
            for repeats in range(1, 12)
            for seed in range(20)
        )
    ]
    assert sha256(json.dumps(drawn).encode()).hexdigest() == TWO_ARMS


@pytest.mark.parametrize("arms", range(2, 7))
def test_each_arm_is_in_each_place_equally_often_at_every_task(arms: int) -> None:
    names = [f"arm{number}" for number in range(arms)]
    for repeats in range(1, 13):
        for seed in range(10):
            blocks = arrange(["a", "b"], names, repeats, seed)
            assert len(blocks) == 2 * repeats
            for task in "ab":
                rows = [[trial.arm for trial in block] for block in blocks if block[0].task == task]
                assert all(sorted(row) == names for row in rows)
                places = Counter((place, arm) for row in rows for place, arm in enumerate(row))
                counts = [places[place, arm] for place in range(arms) for arm in names]
                assert max(counts) - min(counts) <= 1
                # Who follows whom is balanced after whole squares, or pairs of them.
                if repeats % (arms if arms % 2 == 0 else 2 * arms) == 0:
                    follows = Counter(two for row in rows for two in pairwise(row))
                    assert len(follows) == arms * (arms - 1)
                    assert len(set(follows.values())) == 1


def test_every_order_of_three_arms_is_as_likely_as_any_other() -> None:
    orders = Counter(
        tuple(trial.arm for trial in arrange(["t"], ("a", "b", "c"), 4, seed)[repeat])
        for seed in range(1500)
        for repeat in range(4)
    )
    assert len(orders) == 6
    # Five standard errors of a sixth of 6,000, were they independent.
    assert all(abs(count - 1000) < 145 for count in orders.values())


def test_blocks_are_cut_where_they_were_made() -> None:
    blocks = arrange(TASKS, ("a", "b", "c"), 2, 1)
    parts = (first_part(TASKS, ("a", "b", "c"), 2, 1),)
    several = msgspec.structs.replace(frozen(), candidates=("a", "b"), baseline="c", parts=parts)
    assert several.blocks == blocks


def test_a_schedule_with_one_candidate_of_an_earlier_version_can_be_read() -> None:
    earlier = json.loads(frozen_bytes(frozen())) | {"schema": "twoarm.schedule/1"}
    earlier["candidate"] = earlier.pop("candidates")[0]
    earlier["trials"] = earlier.pop("parts")[0]["trials"]
    again = thaw(json.dumps(earlier).encode())
    assert (again.candidates, again.trials) == (frozen().candidates, frozen().trials)
    del earlier["candidate"]
    with pytest.raises(ValueError, match="candidates"):
        thaw(json.dumps(earlier).encode())


def test_a_schedule_comes_back_as_it_was() -> None:
    text = frozen_bytes(frozen())
    assert thaw(text) == frozen()
    assert frozen_bytes(thaw(text)) == text
    with pytest.raises(ValueError, match="parts"):
        thaw(json.dumps({k: v for k, v in json.loads(text).items() if k != "parts"}).encode())


def test_what_differs_between_two_schedules_is_named() -> None:
    other = msgspec.structs.replace(
        frozen(), digests={"prompts.t0": "b"}, version="2", suite=Suite(baseline="x")
    )
    assert [tuple(one) for one in frozen().differences(other)] == [
        ("baseline", None, "x"),
        ("version", None, "2"),
        ("digests.prompts.t0", "a", "b"),
    ]


def test_tasks_are_compared_by_their_ids() -> None:
    def with_tasks(*tasks: SuiteTask) -> Frozen:
        return msgspec.structs.replace(frozen(), suite=Suite(tasks=tasks))

    a, b, c = (SuiteTask(id=name, prompt=name, acceptance_command="true") for name in "abc")
    longer = msgspec.structs.replace(b, timeout_seconds=5.0)
    assert list(with_tasks(a, b).differences(with_tasks(b, a))) == []
    assert [tuple(one) for one in with_tasks(a, b).differences(with_tasks(longer, c))] == [
        ("tasks.a", a, UNSET),
        ("tasks.b.timeout_seconds", None, 5.0),
        ("tasks.c", UNSET, c),
    ]
