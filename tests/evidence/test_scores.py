"""Scores and checks: worked by hand, against brute force, and withheld."""

import itertools
import math
import random
from typing import Any

import pytest
from scipy import stats

import twoarm
from tests.conftest import WITH, WITHOUT, run
from tests.support.effect_runs import codes, evidence, withheld
from twoarm.evidence.results import Evidence, Interval
from twoarm.evidence.score_parts import Checks, Scores

Cells = list[list[float | None]]


def records(ours: Cells, theirs: Cells, **changed: Any) -> list[dict[str, Any]]:
    """Runs of both arms from the scores of each task."""
    return [
        run(f"t{task:02d}", arm, repeat, score=score, **changed)
        for arm, cells in ((WITH, ours), (WITHOUT, theirs))
        for task, cell in enumerate(cells)
        for repeat, score in enumerate(cell, 1)
    ]


def scores_of(weighed: Evidence) -> Scores:
    assert weighed.scores is not None
    return weighed.scores


def known(cell: list[float | None]) -> list[float]:
    return [score for score in cell if score is not None]


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def ends(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


# Eight tasks; of some runs nobody knows the score, and the last task has none in the baseline.
OURS: Cells = [
    [1.0, 0.8, None],
    [0.5, 0.75, 1.0],
    [1.0, 1.0, 1.0],
    [0.0, 0.2, None],
    [0.6, 0.6, 0.9],
    [1.0, None, None],
    [0.25, 0.5, 0.75],
    [0.4, 0.4, 0.4],
    [1.0, 1.0, 0.0],
]
THEIRS: Cells = [
    [0.6, 0.8, 1.0],
    [0.5, 0.5, 0.25],
    [1.0, 1.0, 0.9],
    [0.0, 0.0, 0.4],
    [0.6, None, 0.3],
    [0.2, 0.4, 0.6],
    [0.5, 0.5, 0.5],
    [0.4, 0.2, 0.0],
    [None, None, None],
]
SHARED = range(8)
MOVED = [mean(known(OURS[task])) - mean(known(THEIRS[task])) for task in SHARED]


def test_the_mean_score_is_over_tasks_and_a_null_is_no_zero() -> None:
    weighed = evidence(records(OURS, THEIRS))
    scores = scores_of(weighed)
    ours, theirs = scores.arms
    assert (scores.tasks, ours.runs, ours.scored, theirs.scored) == (8, 27, 23, 23)
    assert ours.mean == pytest.approx(mean([mean(known(OURS[task])) for task in SHARED]))
    assert theirs.mean == pytest.approx(mean([mean(known(THEIRS[task])) for task in SHARED]))
    assert weighed.deltas["score"].mean.estimate == pytest.approx(mean(MOVED))
    assert scores.by_task[5].candidate == 1.0
    assert scores.by_task[5].baseline == pytest.approx(0.4)
    assert (scores.by_task[8].task_id, scores.by_task[8].baseline) == ("t08", None)


def test_missing_values_read_as_zero_leave_scores_alone() -> None:
    kept, zeros = (
        evidence(records(OURS, THEIRS), missing=missing).deltas["score"].mean
        for missing in ("keep", "zero")
    )
    assert kept == zeros


def test_the_interval_over_tasks_is_worked_by_hand() -> None:
    weighed = evidence(records(OURS, THEIRS))
    middle = mean(MOVED)
    variance = math.fsum((moved - middle) ** 2 for moved in MOVED) / (8 * 7)
    # One task more that is fixed and one that is broken.
    shrink = 8 / 10
    reach = stats.t.ppf(0.975, 7) * math.sqrt(variance * shrink**2 + 1.5 / 100)
    low, high = ends(weighed.deltas["score"].mean.tasks_like_these)
    assert (low, high) == pytest.approx((middle * shrink - reach, middle * shrink + reach))


def test_the_interval_on_these_tasks_is_worked_by_hand() -> None:
    weighed = evidence(records(OURS, THEIRS))
    cells = [known(arm[task]) for arm in (OURS, THEIRS) for task in SHARED]
    squares = [math.fsum((score - mean(cell)) ** 2 for score in cell) for cell in cells]
    freedom = sum(len(cell) - 1 for cell in cells)
    pooled = math.fsum(squares) / freedom
    variance = math.fsum(
        (square / (len(cell) - 1) if len(cell) > 1 else pooled) / len(cell) / 64
        for cell, square in zip(cells, squares, strict=True)
    )
    pairs = math.fsum(
        2 / (1 / len(known(OURS[task])) + 1 / len(known(THEIRS[task]))) for task in SHARED
    )
    shrink = pairs / (pairs + 2)
    middle = mean(MOVED) * shrink
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(variance * shrink**2 + 2 / (pairs + 2) ** 2)
    low, high = ends(weighed.deltas["score"].mean.these_tasks)
    assert (low, high) == pytest.approx((middle - reach, middle + reach))


def test_the_test_over_tasks_is_that_of_every_sign() -> None:
    weighed = evidence(records(OURS, THEIRS))
    seen = abs(math.fsum(MOVED))
    reached = [
        abs(math.fsum(sign * moved for sign, moved in zip(signs, MOVED, strict=True)))
        >= seen - 1e-9
        for signs in itertools.product((1, -1), repeat=8)
    ]
    assert weighed.deltas["score"].p.tasks_like_these == pytest.approx(sum(reached) / 256)
    assert weighed.deltas["score"].p.adjusted is None


def test_five_tasks_say_nothing_about_the_scores_of_others() -> None:
    few = evidence(records(OURS[:5], THEIRS[:5])).deltas["score"].mean
    assert few.these_tasks is not None
    assert few.tasks_like_these is None
    assert withheld(few) == [("too_few_tasks", "tasks_like_these")]
    assert evidence(records(OURS[:6], THEIRS[:6])).deltas["score"].mean.tasks_like_these is not None


def test_scores_that_never_vary_still_have_an_interval() -> None:
    perfect: Cells = [[1.0, 1.0, 1.0]] * 8
    score = evidence(records(perfect, perfect)).deltas["score"].mean
    for interval in (score.these_tasks, score.tasks_like_these):
        low, high = ends(interval)
        assert low < 0.0 < high


def test_a_score_never_goes_onto_the_scale_of_ratios() -> None:
    score = evidence(records([[0.5, 0.6]] * 8, [[0.4, 0.7]] * 8)).deltas["score"]
    assert (score.ratio, score.solved) == (None, None)


def test_without_scores_nothing_is_said_of_them() -> None:
    report = twoarm.score(records([[None, None]] * 8, [[None, None]] * 8))
    assert report.evidence is not None
    assert report.evidence.scores is None
    assert "score" not in report.evidence.deltas
    assert "mean score" not in report.to_text(full=True)


def test_scores_that_one_arm_lacks_are_a_caveat_and_withhold_nothing() -> None:
    ours: Cells = [[1.0, None, None, None, None]] * 8
    theirs: Cells = [[0.5, 0.6, 0.4, 0.6, 0.5]] * 8
    uneven = records(ours, theirs)
    lost = scores_of(evidence(uneven)).one_sided
    assert lost is not None
    assert (lost.arm, lost.lost, lost.of) == (WITH, (32, 0), (40, 40))
    assert "uneven_scores" in codes(uneven)
    assert not twoarm.score(uneven).promotion.withheld
    assert "uneven_scores" not in codes(records(OURS, THEIRS))


def test_scores_that_are_missing_are_counted() -> None:
    some = twoarm.score(records([[0.0, None, None]] * 2, [[0.5, 0.6, None]] * 2))
    (told,) = [str(each.message) for each in some.caveats if each.code == "missing_scores"]
    assert told == (
        f"the score is missing in 4 of 6 runs of `{WITH}` and 2 of 6 runs of `{WITHOUT}`: "
        "the mean score leaves them out"
    )
    assert "missing_scores" not in codes(records([[0.0, 0.5]] * 2, [[0.5, 0.6]] * 2))
    assert "missing_scores" not in codes(records([[None, None]] * 2, [[None, None]] * 2))


# Named first --------------------------------------------------------------------------------------


def graded(
    ours: float, theirs: float, *, faster: bool = True, repeats: int = 3
) -> list[dict[str, Any]]:
    """Ten tasks with a score for each arm; the candidate may take half of the time."""
    draw = random.Random(5)
    return [
        run(
            f"t{task:02d}",
            arm,
            repeat,
            score=score + draw.uniform(-0.05, 0.05),
            duration_seconds=100 * (0.5 if faster and arm == WITH else 1) * draw.uniform(0.9, 1.1),
        )
        for task in range(10)
        for repeat in range(1, repeats + 1)
        for arm, score in ((WITH, ours), (WITHOUT, theirs))
    ]


def standing(weighed: Evidence) -> str | None:
    return None if weighed.grade.first is None else weighed.grade.first.standing


def test_a_better_score_alone_makes_no_candidate_better() -> None:
    weighed = evidence(graded(0.9, 0.5, faster=False), primary="score")
    assert standing(weighed) == "better"
    assert weighed.grade.verdict == "no clear difference"
    assert not {finding.metric for finding in weighed.grade.findings} & {"score"}


def test_the_gates_are_tested_after_a_score_that_was_named_first() -> None:
    named, unnamed = (evidence(graded(0.9, 0.5), primary=primary) for primary in ("score", None))
    assert standing(named) == "better"
    assert named.grade.verdict == unnamed.grade.verdict == "candidate better"
    assert standing(unnamed) is None
    assert named.deltas["score"].p.adjusted == named.deltas["score"].p.tasks_like_these


def test_nothing_is_clear_after_a_score_that_is_not() -> None:
    report = twoarm.score(graded(0.5, 0.5), primary="score")
    assert report.evidence is not None
    assert report.evidence.grade.verdict == "no clear difference"
    assert "score, named first, is not clear, so nothing else can be" in report.to_text(full=True)


def test_a_worse_score_that_was_named_first_stands_against_the_candidate() -> None:
    report = twoarm.score(graded(0.5, 0.9, repeats=5), primary="score", promote_by="evidence")
    assert report.evidence is not None
    assert report.evidence.grade.verdict == "trade-off"
    assert report.promotion.verdict == "do not promote"
    assert "better in one gate but with a lower score" in "; ".join(report.promotion.reasons)
    slow = evidence(graded(0.5, 0.9, faster=False), primary="score")
    assert slow.grade.verdict == "baseline better"
    assert evidence(graded(0.5, 0.9)).grade.verdict == "candidate better"


def test_a_score_that_nobody_has_cannot_be_tested_first() -> None:
    runs = [{**entry, "score": None} for entry in graded(0.5, 0.5)]
    report = twoarm.score(runs, primary="score")
    assert report.evidence is not None
    assert standing(report.evidence) == "no test"
    assert report.evidence.grade.verdict == "no clear difference"
    assert "score, named first, cannot be tested" in report.to_text(full=True)


def test_a_score_is_named_first_at_a_look_too() -> None:
    looked = evidence(graded(0.9, 0.5, faster=False), primary="score", looks=(3, 5))
    assert looked.looks is not None
    assert "score" in looked.looks.clear
    assert looked.grade.verdict == "no clear difference"
    faster = evidence(graded(0.9, 0.5), primary="score", looks=(3, 5))
    assert faster.looks is not None
    assert set(faster.looks.clear) >= {"score", "duration_seconds"}
    unclear = evidence(graded(0.5, 0.5), primary="score", looks=(3, 5))
    assert unclear.looks is not None
    assert not unclear.looks.clear


def test_a_clear_score_does_not_keep_hopeless_gates_running() -> None:
    looked = evidence(graded(0.9, 0.5, faster=False, repeats=5), primary="score", looks=(5, 6))
    assert looked.looks is not None
    assert looked.looks.stop == "futility"


# Checks -------------------------------------------------------------------------------------------


def checked(tasks: int, **chances: tuple[float, float]) -> list[dict[str, Any]]:
    """Four runs of each task and arm; each check passes with its chance in each arm."""
    draw = random.Random(11)
    runs = []
    for task in range(tasks):
        for repeat in range(1, 5):
            for side, arm in enumerate((WITH, WITHOUT)):
                passed = {name: draw.random() < both[side] for name, both in chances.items()}
                runs.append(run(f"t{task:02d}", arm, repeat, checks=passed))
    return runs


def checks_of(runs: list[dict[str, Any]]) -> Checks:
    checks = scores_of(evidence(runs)).checks
    assert checks is not None
    return checks


def passes(runs: list[dict[str, Any]], name: str) -> dict[str, list[float]]:
    """The share that passes in each task, by arm; brute force."""
    tasks = sorted({entry["task_id"] for entry in runs})
    return {
        arm: [
            mean(
                [
                    float(entry["checks"][name])
                    for entry in runs
                    if (entry["task_id"], entry["arm"]) == (task, arm)
                ]
            )
            for task in tasks
        ]
        for arm in (WITH, WITHOUT)
    }


def stepped_down(rows: dict[str, list[float]]) -> dict[str, float]:
    """Westfall and Young's p-values by listing every change of signs."""

    def statistic(moved: list[float], signs: tuple[int, ...]) -> float:
        size = math.sqrt(math.fsum(delta**2 for delta in moved))
        return abs(math.fsum(s * delta for s, delta in zip(signs, moved, strict=True))) / size

    count = len(next(iter(rows.values())))
    every = list(itertools.product((1, -1), repeat=count))
    seen = {name: statistic(moved, (1,) * count) for name, moved in rows.items()}
    left, least, p = sorted(seen, key=lambda name: -seen[name]), 0.0, {}
    while left:
        name = left[0]
        reached = sum(
            max(statistic(rows[other], signs) for other in left) >= seen[name] - 1e-9
            for signs in every
        )
        least = p[name] = max(least, reached / len(every))
        left = left[1:]
    return p


def test_checks_are_paired_by_task_and_tested_together() -> None:
    runs = checked(8, unit=(0.9, 0.2), lint=(0.6, 0.6), types=(0.5, 0.5))
    shifts = {shift.check: shift for shift in checks_of(runs).largest}
    rows = {}
    for name in shifts:
        shares = passes(runs, name)
        rows[name] = [a - b for a, b in zip(shares[WITH], shares[WITHOUT], strict=True)]
        assert shifts[name].candidate == pytest.approx(mean(shares[WITH]))
        assert shifts[name].baseline == pytest.approx(mean(shares[WITHOUT]))
        assert shifts[name].difference == pytest.approx(mean(rows[name]))
    for name, p in stepped_down(rows).items():
        assert shifts[name].adjusted_p == pytest.approx(p), name
    assert [shift.differs for shift in shifts.values()] == [True, False, False]
    assert next(iter(shifts)) == "unit"


def test_a_check_of_few_tasks_is_not_tested() -> None:
    runs = checked(8, unit=(1.0, 0.0))
    for entry in runs:
        if entry["task_id"] < "t05":
            entry["checks"] |= {"lint": entry["arm"] == WITH}
    # What differs clearly comes first.
    unit, lint = checks_of(runs).largest
    assert (lint.tasks, lint.difference, lint.adjusted_p, lint.differs) == (5, 1.0, None, False)
    assert (unit.tasks, unit.differs) == (8, True)
    assert checks_of(checked(5, unit=(1.0, 0.0))).largest[0].adjusted_p is None


def test_a_check_that_nobody_knows_is_no_failure() -> None:
    runs = checked(8, unit=(1.0, 1.0))
    for entry in runs:
        if entry["repeat"] > 2 and entry["arm"] == WITH:
            entry["checks"] = {"unit": None}
    (unit,) = checks_of(runs).largest
    assert (unit.candidate, unit.difference) == (1.0, 0.0)


@pytest.mark.parametrize("lacking", [WITH, WITHOUT])
def test_a_check_that_one_arm_lacks_is_not_compared(lacking: str) -> None:
    runs = checked(8, unit=(1.0, 1.0))
    for entry in runs:
        if entry["arm"] == lacking:
            entry["checks"] = None
    assert evidence(runs).scores is None


def test_at_most_ten_checks_are_listed_and_fifty_compared() -> None:
    runs = checked(7, **{f"c{number:02d}": (0.5, 0.5) for number in range(50)})
    for entry in runs:
        if entry["task_id"] == "t06":
            # However far they are apart: few tasks have them.
            entry["checks"] = {f"d{number:02d}": entry["arm"] == WITH for number in range(10)}
    checks = checks_of(runs)
    assert (checks.names, checks.compared, len(checks.largest)) == (60, 50, 10)
    sizes = [abs(shift.difference) for shift in checks.largest]
    assert sizes == sorted(sizes, reverse=True)
    assert {shift.tasks for shift in checks.largest} == {6}
    assert "10 of 60 checks" in twoarm.score(runs).to_text(full=True)


def test_names_of_checks_are_hostile() -> None:
    runs = checked(8, unit=(1.0, 0.0))
    evil = "a|b\n\x1b[31m<script>x</script>"
    for entry in runs:
        entry["checks"] = {evil: entry["checks"]["unit"]}
    report = twoarm.score(runs)
    text = report.to_text(full=True)
    assert "\x1b[31m" not in text
    assert "<script>x" not in report.to_html()
    row = next(line for line in report.to_markdown().splitlines() if "script" in line)
    assert row.replace("\\|", "").count("|") == 8
