"""The parts of a schedule: each has an order of its own, and stays what it was."""

from collections import Counter

import msgspec
import pytest

from twoarm.errors import InputError
from twoarm.run.parts import first_part, grown, refuse_forged, sealed
from twoarm.run.schedule import SCHEMA, Frozen
from twoarm.run.suite import Arm, Suite, SuiteTask

ARMS = ("with", "without")


def schedule(names: str, repeats: int, seed: int = 1) -> Frozen:
    """A schedule of tasks with names of a letter."""
    tasks = tuple(SuiteTask(id=name, prompt=name, acceptance_command="true") for name in names)
    return sealed(
        Frozen(
            schema=SCHEMA,
            twoarm="1",
            suite_id="s",
            suite=Suite(arms=dict.fromkeys(ARMS, Arm()), tasks=tasks),
            version=None,
            origin="0" * 40,
            digests={f"prompts.{name}": name for name in names},
            candidates=("with",),
            baseline="without",
            sources={},
            seed=seed,
            repeats=repeats,
            parts=(first_part(names, ARMS, repeats, seed),),
        )
    )


@pytest.mark.parametrize(("before", "after"), [(5, 10), (2, 6), (3, 4), (1, 8)])
def test_each_arm_is_first_equally_often_in_a_part_alone(before: int, after: int) -> None:
    for seed in range(20):
        part = grown(schedule("abcd", before, seed), schedule("abcdef", after, seed)).parts[1]
        first = Counter((trial.task, trial.arm) for trial in part.trials[::2])
        for task, repeats in [*dict.fromkeys("abcd", after - before).items(), ("e", after)]:
            assert abs(first[task, "with"] - first[task, "without"]) == repeats % 2
        for a, b in zip(part.trials[::2], part.trials[1::2], strict=True):
            assert (a.task, a.repeat, {a.arm, b.arm}) == (b.task, b.repeat, set(ARMS))


def test_every_part_has_an_order_of_its_own() -> None:
    orders = set()
    for seed in range(5):
        now = schedule("abcdef", 3, seed)
        for repeats in (6, 9):
            now = grown(now, schedule("abcdef", repeats, seed))
        for part in now.parts:
            orders.add(tuple((trial.task, trial.arm) for trial in part.trials))
    assert len(orders) == 15


def test_added_tasks_are_anywhere_in_a_round() -> None:
    places = Counter(
        [trial.task for trial in grown(schedule("abc", 1, seed), schedule("abcx", 2, seed))
         .parts[1].trials[:8:2]].index("x")
        for seed in range(200)
    )  # fmt: skip
    # 50 in each place; below 25 by chance in less than one of 10,000.
    assert min(places[place] for place in range(4)) > 25


def test_what_was_frozen_stays_and_has_the_digest_of_then() -> None:
    first = schedule("ab", 2)
    second = grown(first, schedule("bca", 3))
    third = grown(second, schedule("cabd", 3))
    assert third.parts[:2] == second.parts
    assert second.parts[0] == first.parts[0]
    assert [task.id for task in third.suite.tasks] == ["a", "b", "c", "d"]
    refuse_forged(third, "schedule.json")
    digests = [part.digest for part in third.parts]
    assert len({*digests, ""}) == 4


def test_what_has_all_of_it_does_not_grow() -> None:
    now = schedule("ab", 2)
    assert grown(now, now) == now


@pytest.mark.parametrize("key", ["origin", "suite_id", "digests", "twoarm", "seed"])
def test_a_digest_is_of_everything_that_was_frozen(key: str) -> None:
    now = grown(schedule("ab", 2), schedule("abc", 3))
    refuse_forged(now, "schedule.json")
    changed = {"digests": {**now.digests, "prompts.a": "x"}, "seed": 2}.get(key, "x")
    with pytest.raises(InputError, match="part 1 is not what was frozen"):
        refuse_forged(msgspec.structs.replace(now, **{key: changed}), "schedule.json")
    later = msgspec.structs.replace(now, digests={**now.digests, "prompts.c": "x"})
    with pytest.raises(InputError, match="part 2 is not what was frozen"):
        refuse_forged(later, "schedule.json")
