"""A gain must be there among solved runs: nobody is promoted because failed runs are short."""

import math
import random
from statistics import fmean
from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, run
from tests.evidence.test_grade import TENTH, UNCLEAR, graded, interval
from tests.support.advice import advised
from tests.support.effect_runs import evidence
from twoarm.evidence.grade import margin_rule
from twoarm.evidence.harm import HARM
from twoarm.evidence.results import Estimate, SolvedRuns
from twoarm.evidence.solved import gain_survives
from twoarm.render.summary import summarize

Records = list[dict[str, Any]]
YES, NO, NOT_YET = "promote", "do not promote", "not enough data"
DEAD = {"success": False, "duration_seconds": 1.0, "input_tokens": 15, "output_tokens": 5}


def usual(draw: random.Random, task: int, arm: str, repeat: int, **changed: Any) -> dict[str, Any]:
    """A run that hardly differs from others of its task, and cost as much."""
    values = {
        "duration_seconds": 100 + 9 * task + draw.random(),
        "input_tokens": 9_000 + 50 * task + draw.randrange(50),
        "started_at_utc": f"2026-11-{repeat:02d}T{task % 20:02d}:{arm == WITH:d}0:00Z",
    }
    return run(f"t{task:02d}", arm, repeat, **values | changed)


def dying(tasks: int = 40, repeats: int = 10) -> Records:
    """Equal arms but for a run in every other task that dies at once; the baseline fails as often,
    and takes its time for it."""
    draw = random.Random(3)
    runs = []
    for task in range(tasks):
        for repeat in range(1, repeats + 1):
            for arm in (WITH, WITHOUT) if draw.random() < 0.5 else (WITHOUT, WITH):
                fails = repeat == 1 and (task % 2 == 0) == (arm == WITH)
                changed = DEAD if fails and arm == WITH else {"success": not fails}
                runs.append(usual(draw, task, arm, repeat, **changed))
    return runs


def slow_failures() -> Records:
    """Equal arms, but the baseline takes ten times as long to fail."""
    return [
        entry
        | (
            {"duration_seconds": 1_000.0, "input_tokens": 90_000}
            if entry["arm"] == WITHOUT and not entry["success"]
            else {"duration_seconds": 100.0 + int(entry["task_id"][1:]), "input_tokens": 9_000}
            if not entry["success"]
            else {}
        )
        for entry in dying()
    ]


# The rule -----------------------------------------------------------------------------------------


def by_hand(runs: Records, metric: str, *, logs: bool) -> tuple[int, float, float, float]:
    """From the definition: tasks, and the mean difference over all runs, over solved ones, and over
    all runs of all tasks."""
    every, kept, tested = [], [], []
    for task in sorted({entry["task_id"] for entry in runs}):
        sides: dict[bool, list[float]] = {}
        for solved in (False, True):
            means = []
            for arm in (WITH, WITHOUT):
                values = [
                    math.log(entry[metric]) if logs else entry[metric]
                    for entry in runs
                    if entry["task_id"] == task
                    and entry["arm"] == arm
                    and entry[metric] is not None
                    and (entry["success"] or not solved)
                ]
                means.append(fmean(values) if values else math.nan)
            sides[solved] = means
        if not any(map(math.isnan, sides[False])):
            tested.append(sides[False][0] - sides[False][1])
        if not any(map(math.isnan, sides[True])):
            every.append(sides[False][0] - sides[False][1])
            kept.append(sides[True][0] - sides[True][1])
    return len(every), fmean(every or [0.0]), fmean(kept or [0.0]), fmean(tested or [0.0])


def at_random(seed: int, *, zero: bool) -> Records:
    draw = random.Random(seed)
    rates = [draw.random() for _ in range(9)]
    faster = draw.choice((0.5, 0.8, 1.0))
    runs = []
    for task, rate in enumerate(rates):
        for repeat in range(1, draw.randint(2, 5)):
            for arm in (WITH, WITHOUT):
                passed = draw.random() < rate
                short = draw.choice((0.01, 1.0)) if arm == WITH and not passed else 1.0
                seconds = draw.uniform(50, 200) * short * (faster if arm == WITH else 1.0)
                cost = None if draw.random() < 0.2 else seconds / 100
                runs.append(
                    run(
                        f"t{task}",
                        arm,
                        repeat,
                        success=passed,
                        duration_seconds=seconds,
                        total_cost_usd=cost,
                    )
                )
    if zero:
        # So many that there is no ratio.
        for entry in runs[:: len(runs) // 5]:
            entry |= {"duration_seconds": 0.0, "total_cost_usd": 0.0}
    return runs


@pytest.mark.parametrize("zero", [False, True])
def test_all_runs_and_solved_runs_are_compared_on_the_same_tasks(zero: bool) -> None:
    survive = set()
    for seed in range(40):
        runs = at_random(seed, zero=zero)
        deltas = evidence(runs, resamples=100).deltas
        for name, key in (("duration_seconds",) * 2, ("cost_usd", "total_cost_usd")):
            solved = deltas[name].solved
            assert solved is not None
            logs = deltas[name].ratio is not None
            tasks, every, kept, tested = by_hand(runs, key, logs=logs)
            assert solved.tasks == tasks
            if not tasks:
                assert (solved.all_runs, solved.solved_runs, solved.survives) == (None,) * 3
                continue
            scale = math.exp if logs else float
            assert solved.all_runs == pytest.approx(scale(every))
            assert solved.solved_runs == pytest.approx(scale(kept))
            change = deltas[name].change
            assert change.estimate is not None
            faster = change.estimate < deltas[name].unchanged
            if tasks < 3:
                assert (solved.survives, solved.differs) == (None, None)
            elif faster:
                gain = min(every, tested)
                assert solved.survives == (kept < 0 and kept <= gain / 2)
                assert solved.differs == (abs(kept - gain) > abs(gain) / 3)
                survive.add(solved.survives)
    assert survive == {True, False}
    assert evidence(dying(), resamples=100).deltas["success"].solved is None


@pytest.mark.parametrize(
    ("among", "survives", "differs"),
    [(-0.4, True, False), (-0.201, True, True), (-0.199, False, True), (0.1, False, True)],
)
def test_half_of_a_gain_survives_and_less_does_not(
    among: float, survives: bool, differs: bool
) -> None:
    """Eight tasks: one failed run in the candidate makes the gain -0.4 over all runs."""
    failed = (-0.4 - among * 4 / 5) * 5
    runs = []
    for task in range(8):
        for repeat in range(1, 6):
            shift = failed if repeat == 1 else among
            size = 100 * 1.01**task
            runs.append(run(f"t{task}", WITHOUT, repeat, duration_seconds=size))
            runs.append(
                run(
                    f"t{task}",
                    WITH,
                    repeat,
                    success=repeat > 1,
                    duration_seconds=size * math.exp(shift),
                )
            )
    solved = evidence(runs, resamples=100).deltas["duration_seconds"].solved
    assert solved is not None
    assert solved.all_runs == pytest.approx(math.exp(-0.4))
    assert (solved.survives, solved.differs) == (survives, differs)
    assert solved.failed_runs == (None if among == -0.4 else "short")


def test_a_gain_in_tasks_that_nobody_solves_does_not_survive() -> None:
    """Where runs are solved the candidate is slower: by exp(0.4), and by exp(0.1) if solved."""
    runs = []
    for task in range(10):
        for repeat in range(1, 6):
            solved = task < 4
            shift = (1.6 if repeat == 1 else 0.1) if solved else -3.0
            runs.append(run(f"t{task}", WITHOUT, repeat, success=solved))
            runs.append(
                run(
                    f"t{task}",
                    WITH,
                    repeat,
                    success=solved and repeat > 1,
                    duration_seconds=100 * math.exp(shift),
                )
            )
    deltas = evidence(runs, resamples=100).deltas["duration_seconds"]
    assert deltas.change.estimate is not None
    assert deltas.change.estimate < 1.0
    assert deltas.solved is not None
    assert deltas.solved.all_runs == pytest.approx(math.exp(0.4))
    assert deltas.solved.solved_runs == pytest.approx(math.exp(0.1))
    assert (deltas.solved.tasks, deltas.solved.survives) == (4, False)


def solved_runs(survives: bool | None) -> SolvedRuns:
    return SolvedRuns(
        tasks=9, all_runs=0.8, solved_runs=0.9, survives=survives, differs=True, failed_runs="short"
    )


@pytest.mark.parametrize(
    ("time", "tokens", "clear", "expected"),
    [
        (True, False, ("time", "tokens"), True),
        (None, True, ("time", "tokens"), True),
        (False, False, ("time", "tokens"), False),
        (False, None, ("time", "tokens"), None),
        (False, True, ("time",), False),
        (False, False, ("success", "time"), True),
        (True, True, (), None),
    ],
)
def test_success_or_one_gain_that_survives_is_enough(
    time: bool | None, tokens: bool | None, clear: tuple[str, ...], expected: bool | None
) -> None:
    solved = {"success": None, "time": solved_runs(time), "tokens": solved_runs(tokens)}
    assert gain_survives(clear, solved) is expected


# Intervals of success, time and tokens, what the tests found, which gain survives; and whether the
# winner's does.
BY_MARGIN: list[tuple[Any, Any, Any, tuple[str, str, str], tuple[bool, bool], bool | None]] = [
    ((-0.05, 0.05), (0.8, 0.9), (0.9, 1.0), (UNCLEAR, "better", UNCLEAR), (True, False), True),
    ((-0.05, 0.05), (0.8, 0.9), (0.9, 1.0), (UNCLEAR, "better", UNCLEAR), (False, True), False),
    # A range wholly below zero is a gain, whatever the test says; and so is what the test says.
    ((-0.05, 0.05), (0.8, 0.9), (0.9, 0.99), (UNCLEAR, "better", UNCLEAR), (False, True), True),
    ((-0.05, 0.05), (0.8, 1.01), (0.9, 1.0), (UNCLEAR, "better", UNCLEAR), (True, False), True),
    ((0.01, 0.05), (0.8, 0.9), (0.9, 1.0), (UNCLEAR, "better", UNCLEAR), (False, False), True),
    ((0.0, 0.05), (0.8, 0.9), (0.9, 1.0), (UNCLEAR, "better", UNCLEAR), (False, False), False),
    # The mirror image, where the baseline wins.
    ((-0.05, 0.05), (1.1, 1.3), (1.0, 1.1), (UNCLEAR, "worse", UNCLEAR), (True, False), True),
    ((-0.05, 0.05), (1.1, 1.3), (1.0, 1.1), (UNCLEAR, "worse", UNCLEAR), (False, True), False),
    ((-0.05, -0.01), (1.1, 1.3), (1.0, 1.1), (UNCLEAR, "worse", UNCLEAR), (False, False), True),
    # Nobody wins.
    ((-0.05, 0.05), (0.8, 0.9), (0.9, 1.0), (UNCLEAR, UNCLEAR, UNCLEAR), (True, True), None),
]


@pytest.mark.parametrize(
    ("success", "time", "tokens", "standings", "survive", "expected"), BY_MARGIN
)
def test_the_winner_of_the_margin_rule_gains_among_solved_runs(
    success: tuple[float, float],
    time: tuple[float, float],
    tokens: tuple[float, float],
    standings: tuple[str, str, str],
    survive: tuple[bool, bool],
    expected: bool | None,
) -> None:
    rate, *ratios = (
        Estimate(estimate=0.0, these_tasks=None, tasks_like_these=interval(*ends), withheld=())
        for ends in (success, time, tokens)
    )
    names = ("duration_seconds", "non_cache_tokens")
    solved = {"success": None} | dict(zip(names, map(solved_runs, survive), strict=True))
    margin = margin_rule(
        rate, dict(zip(names, ratios, strict=True)), solved, graded(*standings), TENTH
    )
    assert margin.gain_survives is expected


# From runs ----------------------------------------------------------------------------------------


def promotion(runs: Records, by: Any = "evidence", **options: Any) -> tuple[str, str]:
    decided = twoarm.score(runs, promote_by=by, resamples=100, **options).promotion
    return decided.verdict, str(decided.reasons[0])


GONE = "most of the gain is gone among solved runs: duration 0.0%, tokens 0.0%"


@pytest.mark.parametrize("by", ["evidence", "margin"])
def test_dying_at_once_is_no_gain(by: Any) -> None:
    report = twoarm.score(dying(), promote_by=by, resamples=100)
    assert report.evidence is not None
    assert report.evidence.grade.verdict == "candidate better"
    assert report.evidence.margin.verdict == "candidate"
    assert report.promotion.verdict == NO
    assert report.promotion.reasons[0] == GONE
    assert str(report.promotion.reasons[1]).startswith("otherwise ")
    summary = summarize(report)
    assert summary.evidence.startswith("faster and fewer tokens, because failed runs are short; ")
    assert [amount.notes for amount in summary.amounts][:2] == ["", "solved runs: duration 0.0%"]
    shown = report.to_markdown() if by == "evidence" else report.to_html()
    assert "solved runs: duration 0.0%" in shown
    assert advised(report)[0] == (
        "look at the failed runs of `with_skelly`: they are short, and most of the gain comes "
        "from that"
    )
    assert "(1) totals, not a gate  solved runs: duration 0.0%, tokens 0.0%\n" in report.to_text()
    assert "candidate  baseline" in report.to_text()
    assert len(report.to_text().splitlines()) <= 24
    solved = report.to_dict()["evidence"]["deltas"]["duration_seconds"]["solved"]
    assert (solved["tasks"], solved["survives"], solved["failed_runs"]) == (40, False, "short")


def test_the_guard_can_be_switched_off_and_the_margin_rule_cannot() -> None:
    assert promotion(dying(), guard="none")[0] == YES
    assert promotion(dying(), "margin", guard="none") == (NO, GONE)
    assert promotion(dying(), "gates")[0] == promotion(slow_failures(), "gates")[0]


def test_failures_that_take_long_in_the_baseline_are_no_gain_and_are_said() -> None:
    report = twoarm.score(slow_failures(), promote_by="evidence", resamples=100)
    assert report.promotion.verdict == NO
    assert summarize(report).evidence.startswith(
        "faster and fewer tokens, because the baseline's failed runs are long; "
    )
    assert advised(report)[0].startswith("look at the failed runs of `without_skelly`: they are lo")


def faster(runs: Records, factor: float, *keys: str) -> Records:
    """Some figures of the candidate's solved runs are smaller."""
    return [
        entry | ({key: entry[key] * factor for key in keys} if entry["arm"] == WITH else {})
        for entry in runs
    ]


def test_one_gain_that_survives_is_enough() -> None:
    report = twoarm.score(
        faster(dying(), 0.6, "duration_seconds"), promote_by="evidence", resamples=100
    )
    assert report.promotion.verdict == YES
    assert summarize(report).evidence.startswith(
        "faster; fewer tokens, because failed runs are short; "
    )
    assert promotion(faster(dying(), 0.6, "duration_seconds"), "margin")[0] == YES


def test_higher_success_needs_no_faster_solved_runs() -> None:
    runs = [
        entry | {"success": entry["success"] and (entry["arm"] == WITH or entry["repeat"] > 6)}
        for entry in slow_failures()
    ]
    assert promotion(runs)[0] == YES
    assert evidence(runs, resamples=100).guard.gain_survives is True


@pytest.mark.parametrize(("solved", "verdict"), [(2, NOT_YET), (3, YES)])
@pytest.mark.parametrize("by", ["evidence", "margin"])
def test_fewer_than_three_tasks_with_solved_runs_cannot_tell(
    by: Any, solved: int, verdict: str
) -> None:
    runs = [
        entry | {"success": int(entry["task_id"][1:]) < solved}
        for entry in faster(dying(), 0.6, "duration_seconds", "input_tokens")
    ]
    report = twoarm.score(runs, promote_by=by, resamples=100)
    assert report.promotion.verdict == verdict
    if verdict == NOT_YET:
        assert report.promotion.reasons[0] == (
            "the gain cannot be checked among solved runs: fewer than 3 tasks have some in both "
            "arms"
        )
        assert advised(report)[0].startswith("add tasks that both arms solve: with fewer than 3, ")
        assert report.evidence is not None
        assert report.evidence.guard.gain_survives is None


@pytest.mark.parametrize("by", ["evidence", "margin"])
def test_giving_up_sooner_where_nobody_succeeds_is_no_gain(by: Any) -> None:
    runs = []
    for entry in dying():
        solved = int(entry["task_id"][1:]) < 10
        gives_up = DEAD if entry["arm"] == WITH and not solved else {}
        runs.append(entry | gives_up | {"success": solved})
    report = twoarm.score(runs, promote_by=by, resamples=100)
    assert report.promotion.verdict == NO
    assert report.evidence is not None
    among = report.evidence.deltas["duration_seconds"].solved
    assert among is not None
    assert (among.tasks, among.survives, among.differs) == (10, False, True)
    assert among.solved_runs == among.all_runs
    assert summarize(report).evidence == (
        "faster and fewer tokens, because failed runs are short; no difference at all in success"
    )


def test_a_gain_that_is_gone_was_seen_and_one_that_cannot_be_checked_was_not() -> None:
    assert "gain of failed runs" in HARM
    assert "gain unchecked" not in HARM
    assert "not side by side" not in HARM


def test_nobody_stops_at_a_look_for_dying_at_once() -> None:
    clear = twoarm.look(dying(), looks=(10, 20), resamples=100)
    assert clear.clear
    assert clear.stop is None
    assert (
        twoarm.look(dying(), looks=(10, 20), guard="none", resamples=100).stop == "candidate better"
    )


def test_each_of_several_candidates_has_to_gain_among_solved_runs() -> None:
    honest = [
        entry | {"arm": "honest"}
        for entry in faster(dying(), 0.6, "duration_seconds")
        if entry["arm"] == WITH
    ]
    reports = twoarm.compare_candidates(
        twoarm.read([*dying(), *honest]), baseline=WITHOUT, promote_by="evidence", resamples=100
    )
    assert reports[WITH].promotion.verdict == NO
    assert reports["honest"].promotion.verdict == YES
