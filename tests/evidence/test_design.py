"""Faults of a design that are pointed out: exclusions, blocks of time, mixed models, limits."""

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, run
from tests.support.effect_runs import codes, evidence, suite
from twoarm.compare.screen import ArmRuns
from twoarm.evidence.design import limit_of
from twoarm.runs.metric import DURATION

# Exclusions ---------------------------------------------------------------------------------------


def test_excluded_runs_that_could_flip_the_decision_are_said() -> None:
    runs = [one for repeat in range(1, 11) for one in both("t", repeat)]
    runs[1]["success"] = False
    runs += [run("t", WITH, 11, failure="infra"), run("t", WITH, 12, failure="infra")]
    analysis = twoarm.score(runs)
    assert analysis.decision == "prefer with_skelly"
    assert analysis.evidence is not None
    audit = analysis.evidence.exclusions
    assert audit.could_flip
    assert [(b.arm, b.outcome, b.decision.split()[0]) for b in audit.bounds] == [
        (WITH, "failed", "mixed"),
        (WITH, "passed", "prefer"),
    ]
    assert [(arm.excluded, arm.runs) for arm in audit.arms] == [(2, 12), (0, 10)]
    messages = [caveat.message for caveat in analysis.caveats]
    assert (
        "excluded runs could flip this decision: it would be `mixed results - inspect paired "
        "deltas` if all excluded runs of `with_skelly` had failed"
    ) in messages


def test_an_arm_that_loses_more_runs_is_said_by_an_exact_test() -> None:
    runs = [one for repeat in range(1, 21) for one in both("t", repeat)]
    for one in runs[:24:2]:
        one |= {"failure": "infra", "failure_reason": "timeout of the provider"}
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    assert analysis.evidence.exclusions.p is not None
    assert analysis.evidence.exclusions.p < 0.001
    assert "uneven_exclusion" in [caveat.code for caveat in analysis.caveats]
    assert evidence(both()).exclusions.p is None


# Design -------------------------------------------------------------------------------------------


def timed(runs: list[dict[str, Any]], start: dict[str, int]) -> list[dict[str, Any]]:
    clock = dict(start)
    for one in runs:
        minute = clock[one["arm"]]
        clock[one["arm"]] += 10
        one["started_at_utc"] = f"2026-11-01T{minute // 60:02d}:{minute % 60:02d}:00Z"
    return runs


def test_arms_run_in_separate_time_blocks_are_said() -> None:
    assert "separate_time_blocks" in codes(timed(suite(3, 5), {WITH: 0, WITHOUT: 400}))
    assert "separate_time_blocks" in codes(timed(suite(3, 5), {WITH: 400, WITHOUT: 0}))
    assert "separate_time_blocks" not in codes(timed(suite(3, 5), {WITH: 0, WITHOUT: 5}))
    odd = suite(3, 5)
    for one in odd:
        one["started_at_utc"] = "yesterday"
    assert "separate_time_blocks" not in codes(odd)


@pytest.mark.parametrize(
    ("orders", "first"),
    [(["c"] * 9 + ["b"] * 9, WITH), (["b"] * 9 + ["c"] * 9, WITHOUT), (["c", "b"] * 9, None)],
)
def test_an_arm_that_ran_first_is_named_though_no_task_has_blocks(
    orders: list[str], first: str | None
) -> None:
    report = twoarm.score(clocked(orders))
    assert report.evidence is not None
    assert report.evidence.order.ran_first == first
    found = [c.message for c in report.caveats if c.code == "separate_time_blocks"]
    second = WITHOUT if first == WITH else WITH
    said = f"`{first}` ran before `{second}`, not interleaved with it: "
    assert [one.startswith(said) for one in found] == ([] if first is None else [True])


def clocked(orders: list[str], *, start: int = 0) -> list[dict[str, Any]]:
    """Tasks whose runs start one after another, `c` the candidate's and `b` the baseline's."""
    runs, minute = [], start
    for task, order in enumerate(orders):
        for place, letter in enumerate(order):
            arm = WITH if letter == "c" else WITHOUT
            stamp = (
                f"2026-11-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00Z"
            )
            repeat = order[:place].count(letter) + 1
            runs.append(run(f"t{task:02d}", arm, repeat, started_at_utc=stamp))
            minute += 1
    return runs


# The order of starts in each task, how many ran in blocks, and whether that is more than chance.
BLOCKS: list[tuple[list[str], int, bool]] = [
    (["cccbbb", "bbbccc"] * 2, 4, True),
    (["cccbbb", "bbbccc", "cccbbb"] + ["cbcbcb"] * 12, 3, False),
    # Eight of fifteen, as a public study has it.
    (["cccbbb", "bbbccc"] * 4 + ["cbbcbc"] * 7, 8, True),
    (["cbcbcb"] * 6, 0, False),
    # One run of each has an order, but no blocks.
    (["cb", "bc"] * 10, 0, False),
    (["ccb"], 1, False),
]


@pytest.mark.parametrize(("orders", "in_blocks", "said"), BLOCKS)
def test_arms_that_ran_in_blocks_inside_tasks_are_said(
    orders: list[str], in_blocks: int, said: bool
) -> None:
    report = twoarm.score(clocked(orders))
    assert report.evidence is not None
    order = report.evidence.order
    timed = [one for one in orders if len(one) > 2]
    assert (order.ran_first, order.in_blocks, order.timed) == (None, in_blocks, len(timed))
    chances = [2 / math.comb(len(one), one.count("c")) for one in timed]
    brute = sum(
        math.prod(p if hit else 1 - p for p, hit in zip(chances, hits, strict=True))
        for hits in itertools.product((0, 1), repeat=len(timed))
        if sum(hits) >= in_blocks
    )
    assert order.p == (pytest.approx(brute) if timed else None)
    assert order.in_separate_blocks == said
    found = [c.message for c in report.caveats if c.code == "separate_time_blocks"]
    assert len(found) == said
    if said:
        assert found[0].startswith(
            f"in {in_blocks} of {len(timed)} tasks, every run of one arm started before the other"
        )
        assert "interleave the arms" in report.to_github()


def test_runs_that_name_no_model_are_not_runs_of_another() -> None:
    runs = [entry | {"model": "m1" if entry["repeat"] == 1 else None} for entry in suite(4, 3)]
    runs[0]["model"] = "m2"
    (message,) = (c.message for c in twoarm.score(runs).caveats if c.code == "different_models")
    assert "; without the 1 run whose model the other arm lacks and the 16 that name none, " in (
        message
    )
    for entry in runs[1:]:
        entry["model"] = "m1"
    (message,) = (c.message for c in twoarm.score(runs).caveats if c.code == "different_models")
    assert "; without the 1 run whose model the other arm lacks, the decision " in message


def test_models_and_agents_that_differ_are_said() -> None:
    runs = suite(2, 3)
    for number, one in enumerate(runs):
        one["model"] = "m1"
        one["agent"] = "a1"
        if number == 0:
            one["model"] = "m2"
    assert {"several_models", "different_models"} <= set(codes(runs))
    assert not {"several_agents", "different_agents"} & set(codes(runs))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (lambda runs: runs[:-1], "unequal_repeats"),
        (
            lambda runs: [
                one | {"duration_seconds": min(one["duration_seconds"], 100.0)} for one in runs
            ],
            "durations_cut",
        ),
    ],
)
def test_other_faults_of_the_design_are_said(changed: Any, code: str) -> None:
    runs = suite(6, 4)
    assert code not in codes(runs)
    assert code in codes(changed(runs))


def cut(runs: list[dict[str, Any]]) -> list[str]:
    """What is said of a time limit."""
    return [c.message for c in twoarm.score(runs).caveats if c.code == "durations_cut"]


def lasting(
    seconds: Callable[[str, int], float], tasks: int = 8, repeats: int = 5
) -> list[dict[str, Any]]:
    """Runs that take so long, by arm and task."""
    return [
        run(f"t{task}", arm, repeat, duration_seconds=seconds(arm, task))
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm in (WITH, WITHOUT)
    ]


def test_a_limit_is_one_even_if_stopping_takes_a_moment() -> None:
    draw = random.Random(2)

    def stopped(arm: str, task: int) -> float:
        return 600 + draw.random() if draw.random() < 0.4 else draw.gauss(300, 50)

    (message,) = cut(lasting(stopped))
    # Both arms are stopped within a second of it: that is one limit.
    assert message.startswith("durations pile up at 601.0 s, as under a time limit, in ")
    # Runs that take about the same time, and those of tasks that always do, are no limit.
    assert not cut(lasting(lambda *_: 100 + draw.random()))
    assert not cut(lasting(lambda _, task: 100 + draw.random() if task else 10.0))
    assert not cut(lasting(lambda _, task: 100.0 * (task + 1), tasks=3))
    assert not cut(lasting(lambda _, task: 300 + draw.random() if task < 2 else 10.0 * task))
    assert not cut(lasting(lambda *_: 100.0))
    assert not cut(lasting(lambda *_: 0.0))
    # Where times are whole seconds, so many are alike; this limit would be 12 s.
    seconds = [8, 9, 9, 9, 10, 10, 10, 11, 11, 11, 12, 12]
    assert not cut(lasting(lambda *_: draw.choice(seconds)))


def test_ordinary_durations_hardly_ever_look_cut() -> None:
    draw = np.random.default_rng(7)
    cuts = 0
    kinds = list(itertools.product((6, 12, 25), (0.01, 0.1, 0.45), (0, 1, 3)))
    for tasks, spread, digits in kinds * 20:
        task = np.repeat(np.arange(tasks), 5)
        level = draw.normal(5.3, 0.8, tasks)[task]
        seconds = np.exp(level + spread * draw.normal(size=len(task)))
        arm = ArmRuns(
            arm="a", rows=task, task=task, key=task, values={DURATION.name: seconds.round(digits)}
        )
        cuts += limit_of(arm) is not None
    assert cuts <= len(kinds) * 20 / 100


def test_durations_that_nobody_measured_are_no_limit() -> None:
    task = np.repeat(np.arange(6), 5)
    values = {DURATION.name: np.zeros(len(task))}
    assert limit_of(ArmRuns(arm="a", rows=task, task=task, key=task, values=values)) is None


def limited(ours: int, theirs: int, **changed: Any) -> list[dict[str, Any]]:
    """Ten tasks; so many runs of each arm are at a limit of 600 s, spread over the tasks."""
    draw = random.Random(4)
    runs = []
    for arm, count in ((WITH, ours), (WITHOUT, theirs)):
        for number in range(100):
            at = number < count
            seconds = 600.0 if at else draw.uniform(100, 500)
            keys = changed if at else {}
            runs.append(
                run(f"t{number % 10}", arm, number // 10 + 1, duration_seconds=seconds, **keys)
            )
    return runs


BOTH = "both arms look faster than they are"
FASTER = "`{}` looks faster than it is".format
HOLD = "; the arm medians still hold"
STOPPED = {"failure": "agent", "failure_reason": "hit the time limit of its runner"}

# Runs of each arm at the limit, out of 100, and which arm looks faster for it.
LIMITS: list[tuple[int, int, str | None]] = [
    (4, 4, None),
    (4, 0, None),
    (5, 0, FASTER(WITH) + HOLD),
    (0, 5, FASTER(WITHOUT) + HOLD),
    (5, 1, BOTH + HOLD),
    (20, 16, BOTH + HOLD),
    (20, 15, FASTER(WITH) + HOLD),
    (49, 49, BOTH + HOLD),
    (50, 20, FASTER(WITH)),
    (60, 57, BOTH),
]


@pytest.mark.parametrize(("ours", "theirs", "effect"), LIMITS)
@pytest.mark.parametrize("known", [True, False])
def test_a_limit_is_said_with_its_direction(
    ours: int, theirs: int, effect: str | None, known: bool
) -> None:
    messages = cut(limited(ours, theirs, **(STOPPED if known else {})))
    if effect is None:
        assert messages == []
        return
    limit = "durations pile up at 600.0 s, as under a time limit, in"
    assert messages == [
        f"{'a time limit stopped' if known else limit} {ours} of 100 runs of `{WITH}`, {theirs} of "
        f"100 runs of `{WITHOUT}`: how long they would have taken is not known, so in means and "
        f"ratios {effect}"
    ]


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        ("hit the time limit of its runner", True),
        ("AgentTimeoutError", True),
        ("time limit", True),
        ("working limit reached", True),
        ("Timed out after 30 minutes", True),
        ("hit the budget limit of its runner", False),
        ("context overflow", False),
    ],
)
def test_a_run_that_says_it_was_stopped_is_believed_whatever_it_took(
    reason: str, stopped: bool
) -> None:
    runs = suite(10, 10)
    for record in runs:
        if record["arm"] == WITH and record["repeat"] == 1:
            record |= {"failure": "agent", "failure_reason": reason, "success": False}
    assert bool(cut(runs)) == stopped
    # What did not fail was not stopped.
    assert not cut([record | {"failure": None} for record in runs])


def test_an_arm_that_goes_beyond_the_limit_of_the_other_does_not_have_it() -> None:
    runs = limited(10, 10)
    longer = next(r for r in runs if r["arm"] == WITHOUT and r["duration_seconds"] < 600)
    longer["duration_seconds"] = 900.0
    (message,) = cut(runs)
    assert message.startswith("durations pile up at 600.0 s, as")
    assert f"10 of 100 runs of `{WITH}`, 0 of 100 runs of `{WITHOUT}`" in message


def test_arms_with_limits_of_their_own_have_both_named() -> None:
    runs = limited(10, 10)
    for record in runs:
        if record["arm"] == WITHOUT and record["duration_seconds"] == 600.0:
            record["duration_seconds"] = 900.0
    (message,) = cut(runs)
    assert message.startswith("durations pile up at 600.0 s and 900.0 s, as under a time limit, in")
    assert f"10 of 100 runs of `{WITH}`, 10 of 100 runs of `{WITHOUT}`" in message


def test_repeats_without_tokens_can_be_identical_too() -> None:
    runs = [one for r in range(1, 4) for one in both("t", r, input_tokens=None)]
    assert codes(runs).count("identical_repeats") == 2


def test_a_model_that_only_failed_in_infra_was_no_part_of_the_arm() -> None:
    runs = [one | {"model": "m"} for one in suite(2, 3)]
    runs.append(run("t000", WITH, 9, model="other", failure="infra"))
    assert not {"several_models", "different_models"} & set(codes(runs))
