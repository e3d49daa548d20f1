"""What the change did to the runs that used it: against tests of another library, task by task."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twoarm as library
from tests.conftest import WITH, WITHOUT, run
from twoarm.explain.where_used import (
    ASSUMPTION,
    BEYOND_ALL,
    NOT_KNOWN,
    NOT_MORE_USED,
    WhereUsed,
    fieller,
)
from twoarm.runs.arrays import Floats

ALL, NOBODY = [1] * 4, [0] * 4


Uses = Sequence[Sequence[int | None]]


def runs(uses: Uses, baseline: Uses) -> list[dict[str, Any]]:
    """Four repeats of as many tasks; a use saves a fifth of the time, being stuck costs double."""
    made = []
    for arm, tasks in ((WITH, uses), (WITHOUT, baseline)):
        for task, counts in enumerate(tasks):
            for repeat, count in enumerate(counts, 1):
                seconds = 100.0 * (1 + task) * (1 + (task * 7 + repeat * 3 + len(arm)) % 5 / 10)
                made.append(
                    run(
                        f"t{task}",
                        arm,
                        repeat,
                        uptake_count=count,
                        duration_seconds=seconds * (0.8 if count else 1.0),
                        success=(task + repeat + len(arm)) % 4 > 0,
                    )
                )
    return made


def effects(made: list[dict[str, Any]], **options: Any) -> dict[str, WhereUsed]:
    uptake = library.score(made, **options).uptake
    assert uptake is not None
    assert uptake.where_used is not None
    return uptake.where_used


def by_task(made: list[dict[str, Any]], key: str) -> Floats:
    """The difference of the arms' means in each task, written out."""

    def value(record: dict[str, Any]) -> float:
        if key == "duration_seconds":
            return math.log(record[key])
        return float(record[key] > 0)

    tasks = sorted({record["task_id"] for record in made})
    means = [
        [
            np.mean([value(r) for r in made if r["task_id"] == task and r["arm"] == arm])
            for task in tasks
        ]
        for arm in (WITH, WITHOUT)
    ]
    return np.array(means[0]) - np.array(means[1])


SOME = [[1, 0, 1, 0], [0, 2, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [3, 1, 0, 1], [1, 0, 0, 0]]


def test_with_a_use_in_every_run_it_is_the_interval_of_all_runs() -> None:
    made = runs([ALL] * 8, [NOBODY] * 8)
    effect = effects(made)["duration_seconds"]
    assert effect.interval is not None
    deltas = by_task(made, "duration_seconds")
    low, high = stats.t.interval(0.95, 7, deltas.mean(), stats.sem(deltas))
    assert effect.estimate == pytest.approx(math.exp(deltas.mean()))
    assert (effect.interval.low, effect.interval.high) == pytest.approx(
        (math.exp(low), math.exp(high))
    )
    assert (effect.tasks, effect.used_share_difference, effect.ratio) == (8, 1.0, True)


@pytest.mark.parametrize("baseline", [[NOBODY] * 6, [[1, 0, 0, 0], *[NOBODY] * 5]])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_an_effect_is_inside_if_a_t_test_does_not_reject_it(baseline: Uses, level: float) -> None:
    made = runs(SOME * 2, [*baseline, *baseline])
    effect = effects(made, level=level)["duration_seconds"]
    assert effect.interval is not None
    deltas, used = by_task(made, "duration_seconds"), by_task(made, "uptake_count")
    assert effect.estimate == pytest.approx(math.exp(deltas.mean() / used.mean()))
    assert effect.used_share_difference == pytest.approx(used.mean())
    ends = math.log(effect.interval.low), math.log(effect.interval.high)
    for end, outward in zip(ends, (-1, 1), strict=True):
        for step, rejected in ((1e-6, True), (-1e-6, False)):
            p = stats.ttest_1samp(deltas - (end + outward * step) * used, 0.0).pvalue
            assert (p < 1 - level) == rejected


def test_any_effect_could_be_true_where_use_is_not_clearly_more() -> None:
    draw = np.random.default_rng(3)
    for _ in range(300):
        deltas, used = draw.normal(size=9), draw.normal(0.4, 0.6, 9)
        ends = fieller(deltas, used, 0.95)
        test = stats.ttest_1samp(used, 0.0)
        assert (ends is None) == (test.pvalue >= 0.05 or test.statistic < 0)


def test_no_number_is_shown_where_the_baseline_uses_it_as_often() -> None:
    report = library.score(runs(SOME * 2, SOME * 2))
    assert report.uptake is not None
    assert report.uptake.where_used is not None
    for effect in report.uptake.where_used.values():
        assert (effect.estimate, effect.interval) == (None, None)
        assert effect.withheld == NOT_MORE_USED
    text = " ".join(report.to_text(full=True, width=200).split())
    assert text.count(NOT_MORE_USED.message) == 1
    assert ASSUMPTION not in text


def test_it_takes_six_tasks() -> None:
    five = effects(runs([ALL] * 5, [NOBODY] * 5))["duration_seconds"]
    assert (five.estimate, five.interval) == (None, None)
    assert five.withheld is not None
    assert five.withheld.message.startswith("5 tasks: too few for an interval over other tasks")
    assert effects(runs([ALL] * 6, [NOBODY] * 6))["duration_seconds"].interval is not None


def test_only_runs_with_the_metric_whose_uses_are_known_count() -> None:
    made = runs(SOME * 2, [NOBODY] * 12)
    known = effects(made)
    odd = [
        run("t0", WITH, 9, uptake_count=None, duration_seconds=1e6),
        run("t0", WITHOUT, 9, uptake_count=None, duration_seconds=1e-6),
        run("t1", WITH, 9, uptake_count=0, total_cost_usd=None, duration_seconds=7.0),
    ]
    more = effects(made + odd)
    assert more["cost_usd"] == known["cost_usd"]
    assert effects(made + odd[:2]) == known
    assert more["duration_seconds"] != known["duration_seconds"]


def test_tasks_of_one_arm_are_left_out() -> None:
    made = runs(SOME * 2, [NOBODY] * 12)
    alone = [run("alone", WITH, 1, uptake_count=1), run("dark", WITHOUT, 1, uptake_count=None)]
    assert effects(made + alone) == effects(made)


def test_success_is_cut_and_never_certain() -> None:
    solved = [one | {"success": True} for one in runs(SOME * 2, [NOBODY] * 12)]
    effect = effects(solved)["success"]
    assert effect.interval is not None
    assert effect.estimate == 0.0
    assert -0.5 < effect.interval.low < -0.05
    assert 0.05 < effect.interval.high < 0.5
    # One use in four, and half of the candidate's runs pass where none of the baseline's do.
    made = [
        one | {"success": one["arm"] == WITH and one["repeat"] > 2 - int(one["task_id"][1:]) % 2}
        for one in runs([[1, 0, 0, 0], [1, 1, 1, 0]] * 4, [NOBODY] * 8)
    ]
    cut = effects(made)["success"]
    assert cut.estimate == 1.0
    assert cut.interval is not None
    assert cut.interval.low < 1.0 == cut.interval.high


@pytest.mark.parametrize("better", [WITH, WITHOUT])
def test_more_than_all_of_success_means_that_the_assumption_fails(better: str) -> None:
    """One use in four or two, and all runs of one arm pass where none of the other do."""
    made = [
        one | {"success": one["arm"] == better}
        for one in runs([[1, 0, 0, 0], [1, 1, 0, 0]] * 4, [NOBODY] * 8)
    ]
    report = library.score(made)
    effect = effects(made)["success"]
    assert (effect.estimate, effect.interval) == (None, None)
    assert effect.withheld == BEYOND_ALL
    text = " ".join(report.to_text(full=True, width=200).split())
    assert f"{BEYOND_ALL.message.removesuffix('.')} (success)." in text
    assert "too extreme" not in text


def test_runs_that_do_not_tell_what_they_used_are_the_reason_that_is_given() -> None:
    unknown = [[None] * 4] * 8
    effect = effects(runs([ALL] * 8, unknown))
    assert {each.withheld for each in effect.values()} == {NOT_KNOWN}
    text = library.score(runs([ALL] * 8, unknown)).to_text(full=True, width=200)
    assert NOT_KNOWN.message in text
    assert "No task has this metric in both arms" not in text


def test_repeats_that_are_all_alike_have_no_interval() -> None:
    made = [one | {"duration_seconds": 60.0} for one in runs([ALL] * 8, [NOBODY] * 8)]
    effect = effects(made)["duration_seconds"]
    assert (effect.estimate, effect.interval) == (1.0, None)
    assert effect.withheld is not None
    assert effect.withheld.code == "identical_tasks"


def test_every_report_has_it_with_its_assumption() -> None:
    report = library.score(runs(SOME * 2, [NOBODY] * 12))
    for shown in (report.to_text(full=True, width=200), report.to_markdown(), report.to_html()):
        text = " ".join(shown.split())
        assert "Where the change was used" in text
        assert text.count(ASSUMPTION) == 1
        assert "not a fair comparison" not in text.lower()
    kept = report.to_dict()["uptake"]["where_used"]
    assert list(kept) == ["success", "duration_seconds", "non_cache_tokens", "cost_usd"]
    assert "split" not in report.to_dict()["uptake"]


def test_without_evidence_there_is_none() -> None:
    report = library.score(runs(SOME * 2, [NOBODY] * 12), evidence=False)
    assert report.uptake is not None
    assert report.uptake.where_used is None
    assert "Where the change was used" not in report.to_text(full=True)


def test_use_that_is_clearly_rarer_divides_nothing() -> None:
    effect = effects(runs([NOBODY] * 8, [ALL] * 8))["duration_seconds"]
    assert effect.withheld == NOT_MORE_USED
    assert effect.used_share_difference == -1.0
