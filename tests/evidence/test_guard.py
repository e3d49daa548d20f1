"""The guard: nobody is promoted for failing fast, for breaking tasks, or for costing more."""

import itertools
import math
import random
from typing import Any

import msgspec
import pytest
from scipy import stats

import twoarm
from tests.conftest import run
from tests.evidence.test_relabel import ARMS, WITH, WITHOUT, Runs, weighed
from twoarm.evidence.results import Broken, BrokenTask, Evidence, Guard, Interval, Paid
from twoarm.options import Options
from twoarm.render.report import Report
from twoarm.result.promote import Promotion, promote

YES, NO, NOT_YET = "promote", "do not promote", "not enough data"


def counts(passes: list[tuple[tuple[int, int], tuple[int, int]]]) -> Runs:
    """Tasks with so many successes of so many runs, the candidate's first."""
    return [
        run(f"t{task:02d}", arm, repeat, success=repeat <= won)
        for task, sides in enumerate(passes)
        for arm, (won, of) in zip(ARMS, sides, strict=True)
        for repeat in range(1, of + 1)
    ]


# Broken tasks -------------------------------------------------------------------------------------


def named(ours: tuple[int, int], theirs: tuple[int, int]) -> float | None:
    """The one-sided Fisher p-value of a task that is named as broken."""
    p = stats.fisher_exact(
        [[ours[0], ours[1] - ours[0]], [theirs[0], theirs[1] - theirs[0]]], alternative="less"
    ).pvalue
    half = ours[0] / ours[1] <= theirs[0] / theirs[1] / 2
    return float(p) if half and p <= 0.05 + 1e-12 and theirs[0] else None


def chance_of_naming(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """If the labels of the task's runs were exchanged at random."""
    won, (n, m) = ours[0] + theirs[0], (ours[1], theirs[1])
    law = stats.hypergeom(n + m, won, n)
    return math.fsum(
        float(law.pmf(k))
        for k in range(max(0, won - m), min(won, n) + 1)
        if named((k, n), (won - k, m)) is not None
    )


def tasks_at_random(seed: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    draw = random.Random(seed)
    found = []
    for _ in range(draw.randint(2, 9)):
        n, m = draw.randint(1, 14), draw.randint(1, 14)
        hurt = draw.random() < 0.4
        found.append(
            (
                (draw.randint(0, n // 4 if hurt else n), n),
                (draw.randint(m - m // 4 if hurt else 0, m), m),
            )
        )
    return found


def test_broken_tasks_are_those_of_fishers_test_and_their_number_that_of_every_outcome() -> None:
    broken = several = 0
    for seed in range(60):
        tasks = tasks_at_random(seed)
        found = weighed(counts(tasks)).guard.broken
        expected = {f"t{at:02d}": p for at, one in enumerate(tasks) if (p := named(*one))}
        assert {one.task_id: one.p for one in found.tasks} == pytest.approx(expected)
        assert [one.p for one in found.tasks] == sorted(one.p for one in found.tasks)
        for one in found.tasks:
            ours, theirs = tasks[int(one.task_id[1:])]
            assert one.candidate == pytest.approx(ours[0] / ours[1])
            assert one.baseline == pytest.approx(theirs[0] / theirs[1])
        if not expected:
            assert found.p is None
            continue
        chances = [chance_of_naming(*one) for one in tasks]
        brute = sum(
            math.prod(p if hit else 1 - p for p, hit in zip(chances, hits, strict=True))
            for hits in itertools.product((0, 1), repeat=len(tasks))
            if sum(hits) >= len(expected)
        )
        assert found.p == pytest.approx(brute, abs=1e-9)
        broken, several = broken + 1, several + (len(expected) > 1)
    assert broken > 10, "the examples should have broken tasks"
    assert several, "and several in one"


@pytest.mark.parametrize(
    ("ours", "theirs", "p"),
    [
        # Five of five against none: 1 in 252. Against one: 5 in 210; against two: 10 in 120, which
        # is too often.
        ((0, 5), (5, 5), 1 / 252),
        ((1, 5), (5, 5), 5 / 210),
        ((2, 5), (5, 5), None),
        # Three of three against none: 1 in 20, just rare enough. Two of two: 1 in 6.
        ((0, 3), (3, 3), 1 / 20),
        ((0, 2), (2, 2), None),
        # A clear drop to more than half is not broken.
        ((20, 40), (40, 40), math.comb(40, 20) / math.comb(80, 20)),
        ((21, 40), (40, 40), None),
    ],
)
def test_a_broken_task_worked_by_hand(
    ours: tuple[int, int], theirs: tuple[int, int], p: float | None
) -> None:
    broken = weighed(counts([(ours, theirs)])).guard.broken.tasks
    assert [task.p for task in broken] == ([] if p is None else [pytest.approx(p)])


def test_many_tasks_that_seem_broken_by_chance_are_named_and_block_nothing() -> None:
    """One of two hundred tasks seems broken: that happens."""
    tasks = [((5, 10), (5, 10))] * 200 + [((1, 10), (8, 10))]
    report = twoarm.score(counts(tasks))
    assert report.evidence is not None
    broken = report.evidence.guard.broken
    assert [one.task_id for one in broken.tasks] == ["t200"]
    chances = [chance_of_naming(*one) for one in tasks]
    assert broken.p is not None
    assert broken.p == pytest.approx(1 - math.prod(1 - p for p in chances))
    assert broken.p > 0.05
    assert "broken_tasks" not in [caveat.code for caveat in report.caveats]
    text = "BROKEN 1 of 201 tasks, which can be chance: `t200`, 8 of 10 to 1 of 10"
    assert text in " ".join(report.to_text().split())


def test_tasks_broken_beyond_chance_are_a_caveat() -> None:
    report = twoarm.score(counts([((5, 5), (5, 5))] * 24 + [((1, 5), (5, 5))]))
    (said,) = [caveat.message for caveat in report.caveats if caveat.code == "broken_tasks"]
    assert said == "1 task succeeds at most half as often with the candidate: `t24` (100% to 20%)"


# The three clauses --------------------------------------------------------------------------------


def guard_of(
    *,
    success: tuple[float, float] | None = (-0.02, 0.02),
    broken: tuple[int, float] | None = None,
    paid: Paid | None = None,
    survives: bool | None = True,
) -> Guard:
    """Nothing to hold against the candidate but what is given."""
    tasks = tuple(
        BrokenTask(task_id=f"b{at}", candidate=0.0, baseline=1.0, p=0.001)
        for at in range(broken[0] if broken else 0)
    )
    return Guard(
        successes=50,
        gain_survives=survives,
        success_low=success[0] if success else None,
        success_high=success[1] if success else None,
        broken=Broken(
            tasks=tasks,
            p=broken[1] if broken else None,
            watched=12,
            got_worse=len(tasks),
            could_break=None,
            largest_drop=None,
        ),
        paid=paid or cost(0.9, 0.99, worse=False),
    )


def cost(low: float, high: float, *, worse: bool, metric: str | None = "cost_usd") -> Paid:
    change = None if metric is None else Interval(low=low, high=high, method="", caveats=())
    return Paid(metric=metric, ratio=True, estimate=1.2, change=change, worse=worse)


def fast(tasks: int = 12, repeats: int = 5, **changed: Any) -> Runs:
    """A candidate that takes about half the time and tokens, costs less, and always succeeds."""
    draw = random.Random(5)
    return [
        run(
            f"t{task:02d}",
            arm,
            repeat,
            duration_seconds=factor * (100.0 + 9 * task + draw.random()),
            input_tokens=round(factor * (1_000 + 7 * task + 9 * draw.random())),
            cache_read_tokens=round(factor * (5_000 + 9 * draw.random())),
            total_cost_usd=factor * (1.0 + draw.random() / 10),
            **changed,
        )
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm, factor in ((WITH, 0.5), (WITHOUT, 1.0))
    ]


@pytest.fixture(scope="module")
def clear() -> Report:
    """A candidate that is better by every way to look at it."""
    return twoarm.score(fast(25))


def promoted(report: Report, found: Guard, /, **options: Any) -> Promotion:
    assert report.evidence is not None
    evidence: Evidence = msgspec.structs.replace(report.evidence, guard=found)
    return promote(report.comparison, evidence, Options(promote_by="evidence", **options))


BETTER = "faster and fewer tokens for tasks like these"
AT_MOST = "on these very tasks success could drop by at most 2.0 points"
GUARD_OFF = (
    "the guard is off: success, solved runs, broken tasks, cost and the order of runs were not "
    "checked"
)

CLAUSES: list[tuple[dict[str, Any], dict[str, Any], str, list[str]]] = [
    ({}, {}, YES, [AT_MOST]),
    # Success on these tasks.
    ({"success": (-0.0944, 0.05)}, {}, YES, [AT_MOST.replace("2.0", "9.4")]),
    ({"success": (0.0, 0.05)}, {}, YES, []),
    (
        {"success": (-0.17, 0.05)},
        {},
        NOT_YET,
        ["a drop of up to 17.0 points of success on these very tasks is not ruled out"],
    ),
    (
        {"success": (-0.10, 0.05)},
        {},
        NOT_YET,
        ["a drop of up to 10.0 points of success on these very tasks is not ruled out"],
    ),
    ({"success": (-0.17, 0.05)}, {"margin_success": 0.2}, YES, [AT_MOST.replace("2.0", "17.0")]),
    (
        {"success": (-0.05, 0.05)},
        {"margin_success": 0.04},
        NOT_YET,
        ["a drop of up to 5.0 points of success on these very tasks is not ruled out"],
    ),
    (
        {"success": (-0.17, -0.01)},
        {},
        NO,
        ["success on these very tasks drops by 1.0 to 17.0 points"],
    ),
    # Certain, but inside the margin: it may be promoted, and is said.
    (
        {"success": (-0.08, -0.01)},
        {},
        YES,
        ["success on these very tasks drops, but within the margin: by 1.0 to 8.0 points"],
    ),
    (
        {"success": None},
        {},
        NOT_YET,
        ["no interval of success on these very tasks: repeats are missing"],
    ),
    # Broken tasks, beyond chance.
    ({"broken": (1, 0.05)}, {}, NO, ["it breaks 1 task: `b0`"]),
    ({"broken": (1, 0.051)}, {}, YES, [AT_MOST]),
    ({"broken": (2, 0.001)}, {}, NO, ["it breaks 2 tasks: `b0`, `b1`"]),
    ({"broken": (2, 0.001)}, {"allow_broken": 1}, NO, ["it breaks 2 tasks: `b0`, `b1`"]),
    ({"broken": (2, 0.001)}, {"allow_broken": 2}, YES, [AT_MOST]),
    # What people pay for.
    ({"paid": cost(1.02, 1.4, worse=True)}, {}, NO, ["more expensive: +2.0% to +40.0%"]),
    ({"paid": cost(0.99, 1.4, worse=False)}, {}, YES, [AT_MOST]),
    (
        {"paid": cost(1.5, 1.7, worse=True, metric="tokens")},
        {},
        NO,
        ["more total tokens: +50.0% to +70.0%"],
    ),
    (
        {"paid": cost(0.0, 0.0, worse=False, metric=None)},
        {},
        YES,
        [AT_MOST, "cost and total tokens were not measured well enough to be checked"],
    ),
    # Harm that was seen outweighs what is not known; everything is said.
    (
        {"success": (-0.17, 0.05), "broken": (1, 0.001), "paid": cost(1.02, 1.4, worse=True)},
        {},
        NO,
        [
            "a drop of up to 17.0 points of success on these very tasks is not ruled out",
            "it breaks 1 task: `b0`",
            "more expensive: +2.0% to +40.0%",
        ],
    ),
    (
        {"success": (-0.17, -0.05), "broken": (1, 0.001), "paid": cost(1.02, 1.4, worse=True)},
        {"guard": "none"},
        YES,
        [GUARD_OFF],
    ),
]


@pytest.mark.parametrize(("guard", "options", "verdict", "reasons"), CLAUSES)
def test_the_guard(
    clear: Report, guard: dict[str, Any], options: dict[str, Any], verdict: str, reasons: list[str]
) -> None:
    found = promoted(clear, guard_of(**guard), **options)
    assert found.verdict == verdict
    # What stands against it comes first.
    expected = [BETTER, *reasons] if verdict == YES else [*reasons, f"otherwise {BETTER}"]
    assert list(found.reasons) == expected


@pytest.mark.parametrize("by", ["gates", "margin"])
def test_the_guard_is_for_promotions_by_the_evidence(clear: Report, by: Any) -> None:
    assert clear.evidence is not None
    guard = guard_of(success=(-0.5, -0.3), broken=(3, 0.0001), paid=cost(2.0, 3.0, worse=True))
    evidence = msgspec.structs.replace(clear.evidence, guard=guard)
    assert promote(clear.comparison, evidence, Options(promote_by=by)).verdict == YES


# From runs ----------------------------------------------------------------------------------------


def verdict_of(runs: Runs, **options: Any) -> tuple[str, tuple[str, ...]]:
    found = twoarm.score(runs, promote_by="evidence", **options).promotion
    # How far success may have dropped is always told.
    said = tuple(str(reason) for reason in found.reasons if "could drop by at most" not in reason)
    return found.verdict, said[1:] if found.verdict == YES else said[:-1]


def test_a_candidate_that_is_better_and_breaks_nothing_is_promoted() -> None:
    assert verdict_of(fast()) == (YES, ())


def failing(runs: Runs, lost: dict[str, int]) -> Runs:
    """So many of the candidate's runs of some tasks fail."""
    return [
        one | {"success": not (one["arm"] == WITH and one["repeat"] <= lost.get(one["task_id"], 0))}
        for one in runs
    ]


def test_a_candidate_that_never_succeeds_is_not_promoted_for_being_fast() -> None:
    runs = [one | {"success": False} for one in fast(12, 5)]
    assert weighed(runs).grade.verdict == "candidate better"
    verdict, reasons = verdict_of(runs)
    assert verdict == NO
    assert "no run of it succeeded" in reasons
    # With one that did, nobody can tell whether solved runs are faster.
    assert verdict_of([*runs[1:], runs[0] | {"success": True}])[0] == NOT_YET
    assert verdict_of(runs, guard="none")[0] == YES


def test_a_candidate_that_may_fail_more_is_not_promoted_for_being_fast() -> None:
    runs = failing(fast(12, 5), {"t00": 1, "t01": 1, "t02": 1, "t03": 1})
    found = weighed(runs)
    assert found.grade.verdict == "candidate better"
    low = found.guard.success_low
    assert low is not None
    assert low < -0.10
    assert verdict_of(runs) == (
        NOT_YET,
        (
            "success was 6.7 points lower, and a drop of up to "
            f"{-low * 100:.1f} points of success on these very tasks is not ruled out",
        ),
    )
    assert verdict_of(runs, margin_success=0.2)[0] == YES
    assert verdict_of(runs, guard="none") == (
        YES,
        (GUARD_OFF,),
    )


def test_a_candidate_that_breaks_a_task_is_not_promoted_for_being_fast() -> None:
    runs = failing(fast(25, 10), {"t07": 10})
    assert weighed(runs).grade.verdict == "candidate better"
    assert verdict_of(runs) == (NO, ("it breaks 1 task: `t07`",))
    verdict, reasons = verdict_of(runs, allow_broken=1)
    assert verdict == YES
    assert reasons[0].startswith("success on these very tasks drops, but within the margin: by ")


@pytest.mark.parametrize("by", ["gates", "evidence", "margin"])
@pytest.mark.parametrize("factor", [1.4, 3.0])
def test_a_candidate_that_costs_more_is_not_promoted_by_the_evidence(
    by: Any, factor: float
) -> None:
    runs = [
        one | {"total_cost_usd": one["total_cost_usd"] * (2 * factor if one["arm"] == WITH else 1)}
        for one in fast(25)
    ]
    report = twoarm.score(runs, promote_by=by)
    assert report.promotion.verdict == (NO if by == "evidence" else YES)
    # Whatever the promotion goes by, it is said.
    (said,) = [caveat.message for caveat in report.caveats if caveat.code == "ungated_worse"]
    assert said.startswith("no gate looks at cost, and it is worse: +")
    assert "no gate looks at cost, and it is worse" in " ".join(report.to_github().split())
    if by == "evidence":
        assert report.promotion.reasons[0].startswith("more expensive: +")


def test_a_cost_that_is_higher_by_the_same_share_in_every_task_is_worse() -> None:
    """Nothing varies between tasks, so there is no interval; there is a test."""
    runs = [one | {"total_cost_usd": 1.5 if one["arm"] == WITH else 1.0} for one in fast()]
    report = twoarm.score(runs, promote_by="evidence")
    assert report.evidence is not None
    assert report.evidence.guard.paid.change is None
    assert report.evidence.guard.paid.worse
    assert report.promotion.verdict == NO
    assert report.promotion.reasons[0] == "more expensive: +50.0%"
    (said,) = [caveat.message for caveat in report.caveats if caveat.code == "ungated_worse"]
    assert said == "no gate looks at cost, and it is worse: +50.0%"
    assert verdict_of([one | {"total_cost_usd": 1.0} for one in fast()]) == (YES, ())


@pytest.mark.parametrize(
    ("costs", "reads", "metric"),
    [(5, 5, "cost_usd"), (4, 5, "tokens"), (0, 5, "tokens"), (4, 4, None)],
)
def test_total_tokens_stand_in_for_a_cost_that_was_not_measured_often_enough(
    costs: int, reads: int, metric: str | None
) -> None:
    runs = fast()
    for one in runs:
        one["cache_read_tokens"] *= 9 if one["arm"] == WITH else 1
        if one["task_id"] == "t03" and one["arm"] == WITHOUT:
            if one["repeat"] > costs:
                one["total_cost_usd"] = None
            if one["repeat"] > reads:
                one["cache_read_tokens"] = None
    paid = weighed(runs).guard.paid
    assert (paid.metric, paid.worse) == (metric, metric == "tokens")
    verdict, reasons = verdict_of(runs)
    assert verdict == (NO if metric == "tokens" else YES)
    if metric is None:
        assert reasons == ("cost and total tokens were not measured well enough to be checked",)
    else:
        assert len(reasons) == (metric == "tokens")


def test_one_repeat_of_success_is_no_proof_of_it() -> None:
    # Enough repeats are asked for first.
    assert twoarm.score(fast(12, 1), promote_by="evidence").promotion.verdict == NOT_YET
    assert weighed(fast(12, 1)).guard.success_low is None
