"""BROKEN names the task whose success fell furthest, whatever the tests say of it."""

import json
from fractions import Fraction

import pytest
from scipy import stats

import twoarm
from tests.evidence.test_guard import counts, tasks_at_random
from tests.evidence.test_relabel import weighed
from twoarm.result.findings import broken_said

# Successes of runs, the candidate's first.
Task = tuple[tuple[int, int], tuple[int, int]]
SAME: Task = ((5, 5), (5, 5))
OTHERS = "what happens to others is not known"

# What was run, and everything that BROKEN says of it.
SAID: dict[str, tuple[list[Task], str]] = {
    "one broken task": (
        [((1, 5), (5, 5)), *[SAME] * 24],
        "1 of 25 tasks: `t00`, 5 of 5 to 1 of 5",
    ),
    "a broken task that can be chance": (
        [((2, 5), (3, 5))] * 40 + [((1, 5), (5, 5))],
        "1 of 41 tasks, which can be chance: `t40`, 5 of 5 to 1 of 5",
    ),
    "several broken tasks": (
        [((1, 5), (5, 5)), ((0, 5), (5, 5)), *[SAME] * 10],
        "2 of 12 tasks: `t01`, `t00`; largest drop: `t01`, 5 of 5 to 0 of 5",
    ),
    "a broken task, and a larger drop that is not": (
        [((0, 1), (1, 1)), ((10, 40), (36, 40)), *[SAME] * 10],
        "1 of 12 tasks: `t01`; largest drop: `t00`, 1 of 1 to 0 of 1",
    ),
    "a drop that its runs allow for": (
        [((2, 5), (5, 5)), *[SAME] * 24],
        "none of 25; largest drop: `t00`, 5 of 5 to 2 of 5; up to 11% of tasks like these still "
        "could break",
    ),
    "a drop where few tasks are watched": (
        [((0, 5), (2, 5)), *[SAME] * 6],
        "none for certain; largest drop: `t00`, 2 of 5 to 0 of 5; only 6 of 7 tasks pass often "
        "enough to tell; up to 39% of tasks like these still could break",
    ),
    "a clear loss": (
        [((2, 5), (5, 5))] * 11 + [SAME],
        "none for certain; largest drop: `t00`, 5 of 5 to 2 of 5; success is lower in 11 of 12 "
        "tasks",
    ),
    "fewer than six tasks": (
        [((4, 5), (5, 5)), SAME],
        f"none of 2; largest drop: `t00`, 5 of 5 to 4 of 5; {OTHERS}",
    ),
    "one task": ([((4, 5), (5, 5))], f"not for certain: 5 of 5 to 4 of 5; {OTHERS}"),
    "one task passes often enough": (
        [SAME, ((1, 5), (2, 5)), ((2, 5), (2, 5))],
        "none for certain; largest drop: `t01`, 2 of 5 to 1 of 5; only 1 of 3 tasks passes often "
        f"enough to tell; {OTHERS}",
    ),
    "nothing passes often enough": (
        [((0, 2), (2, 2)), *[((2, 2), (2, 2))] * 7],
        "none for certain; largest drop: `t00`, 2 of 2 to 0 of 2; no task passes often enough in "
        "the baseline to tell",
    ),
    "no drop": (
        [((5, 5), (4, 5)), *[SAME] * 5],
        "none of 6 tasks got worse; up to 39% of tasks like these still could",
    ),
    "no drop where few tasks are watched": (
        [SAME, SAME, ((2, 5), (2, 5))],
        f"none of the 2 tasks that pass often enough to tell got worse; {OTHERS}",
    ),
    "no drop in one task": ([SAME], f"not this task; {OTHERS}"),
    "no drop, and one task passes often enough": (
        [SAME, ((2, 5), (2, 5))],
        "cannot tell: only one task passes often enough in the baseline",
    ),
}


@pytest.mark.parametrize("kind", SAID)
def test_every_form_of_broken_has_the_largest_drop(kind: str) -> None:
    tasks, sentence = SAID[kind]
    report = twoarm.score(counts(tasks))
    assert report.evidence is not None
    assert broken_said(report.evidence) == sentence
    screen = report.to_text()
    assert len(screen.splitlines()) <= 24
    # Whatever else is cut, the drop stands on the first screen, in one line if names are short.
    drop = report.evidence.guard.broken.largest_drop
    if drop is not None:
        line = next(line for line in screen.splitlines() if line.startswith("BROKEN"))
        assert f"{drop.passed[1]} of {drop.runs[1]} to {drop.passed[0]} of {drop.runs[0]}" in line
    assert f"BROKEN {sentence} " in " ".join(report.to_text(full=True).split())


def test_the_largest_drop_is_that_of_every_task_compared() -> None:
    several = 0
    for seed in range(60):
        tasks = tasks_at_random(seed)
        drop = weighed(counts(tasks)).guard.broken.largest_drop
        falls = [Fraction(*theirs) - Fraction(*ours) for ours, theirs in tasks]
        furthest = max(falls)
        if furthest <= 0:
            assert drop is None
            continue
        # Of equal drops, the one that chance explains least.
        chances = {
            number: stats.fisher_exact(
                [[ours[0], ours[1] - ours[0]], [theirs[0], theirs[1] - theirs[0]]],
                alternative="less",
            ).pvalue
            for number, (ours, theirs) in enumerate(tasks)
            if falls[number] == furthest
        }
        number = min(chances, key=lambda task: chances[task])
        ours, theirs = tasks[number]
        assert drop is not None
        assert drop.task_id == f"t{number:02d}"
        assert (drop.passed, drop.runs) == ((ours[0], theirs[0]), (ours[1], theirs[1]))
        several += len(chances) > 1
    assert several, "some should be equal"


def test_of_equal_drops_the_one_of_more_runs_is_named() -> None:
    tasks: list[Task] = [((4, 5), (5, 5)), ((8, 10), (10, 10)), ((3, 5), (4, 5))]
    drop = weighed(counts(tasks)).guard.broken.largest_drop
    assert drop is not None
    assert drop.task_id == "t01"


def test_the_largest_drop_is_in_the_analysis() -> None:
    def drop(tasks: list[Task]) -> object:
        analysis = json.loads(twoarm.score(counts(tasks)).to_json())
        return analysis["evidence"]["guard"]["broken"]["largest_drop"]

    assert drop([((1, 4), (5, 5)), SAME]) == {"task_id": "t00", "passed": [1, 5], "runs": [4, 5]}
    assert drop([SAME] * 2) is None
