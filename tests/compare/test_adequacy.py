"""When there is enough to promote: repeats, missing values, tasks of high variance."""

from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, run
from tests.support.arms_by_hand import arm_of, decided
from twoarm.compare.decide import MIXED


@pytest.mark.parametrize(
    ("repeats", "status", "verdict"),
    [
        (4, "below minimum", "not enough data"),
        (5, "minimum met", "promote"),
        (9, "minimum met", "promote"),
        (10, "preferred met", "promote"),
    ],
)
def test_five_repeats_are_needed_and_ten_preferred(repeats: int, status: str, verdict: str) -> None:
    analysis = decided({}, {"success": False}, repeats)
    assert analysis.decision == "prefer with_skelly", "a decision is printed all the same"
    assert analysis.adequacy.minimum_repeats == 5
    assert analysis.adequacy.preferred_repeats == 10
    assert analysis.adequacy.fewest_repeats == repeats
    assert analysis.adequacy.status == status
    assert analysis.promotion.verdict == verdict
    marked = any("not enough repeats to promote" in c.message for c in analysis.caveats)
    assert marked == (repeats < 5)


def test_every_task_and_arm_below_the_minimum_is_listed() -> None:
    runs = [one for repeat in range(1, 6) for one in both("full", repeat)]
    runs += [run("short", WITH, repeat) for repeat in (1, 2, 3)]
    runs += [run("short", WITHOUT, repeat) for repeat in range(1, 6)]
    runs += [run("lone", WITHOUT, repeat) for repeat in range(1, 6)]
    adequacy = twoarm.score(runs).adequacy
    listed = [
        (entry.task_id, entry.arm, entry.metric, entry.repeats) for entry in adequacy.below_minimum
    ]
    assert listed == [("lone", WITH, "success", 0), ("short", WITH, "success", 3)]
    assert adequacy.fewest_repeats == 0


def test_a_repeat_without_a_gates_metric_is_no_repeat_of_that_gate() -> None:
    runs = [one for repeat in range(1, 11) for one in both("t", repeat)]
    assert twoarm.score(runs).promotion.verdict == "promote"
    for one in [one for one in runs if one["arm"] == WITH][4:]:
        one["input_tokens"] = None
    analysis = twoarm.score(runs)
    assert analysis.decision == "prefer with_skelly"
    assert analysis.promotion.verdict == "not enough data"
    assert analysis.adequacy.fewest_repeats == 4
    (short,) = analysis.adequacy.below_minimum
    assert (short.task_id, short.arm, short.metric) == ("t", WITH, "non_cache_tokens")
    assert analysis.tasks[0].candidate.missing == {"non_cache_tokens": 6}
    said = "1 of 1 task with fewer than 5 measured repeats in an arm (the fewest: 4)"
    assert said in analysis.to_json()


def test_five_measured_repeats_are_enough() -> None:
    runs = [one for repeat in range(1, 11) for one in both("t", repeat)]
    for one in [one for one in runs if one["arm"] == WITH][5:]:
        one["output_tokens"] = None
    assert twoarm.score(runs).promotion.verdict == "promote"


def test_missing_values_that_are_lopsided_are_said_and_bound_the_gate() -> None:
    runs = [one for repeat in range(1, 21) for one in both("t", repeat)]
    for one in [one for one in runs if one["arm"] == WITH][8:]:
        one["input_tokens"] = None
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    (found,) = analysis.evidence.exclusions.missing
    assert (found.metric, found.missing, found.runs) == ("non_cache_tokens", (12, 0), (20, 20))
    # Fisher's exact test of 12 of 20 against 0 of 20, by hand: 2 * C(20, 12) / C(40, 12).
    assert found.p == pytest.approx(2 * 125970 / 5586853480, rel=1e-12)
    bounds = {(bound.arm, bound.values): bound.decision for bound in found.bounds}
    assert bounds == {(WITH, "low"): "prefer with_skelly", (WITH, "high"): MIXED}
    assert found.could_flip
    said = {caveat.code: caveat.message for caveat in analysis.caveats}
    assert "uneven_missing" in said
    assert said["missing_could_flip"].endswith(
        f"if non-cache tokens were very high in every run of `{WITH}` that lacks it"
    )


def test_a_few_values_missing_alike_bound_nothing() -> None:
    runs = [one for repeat in range(1, 21) for one in both("t", repeat)]
    for one in runs:
        if one["repeat"] == 3:
            one["input_tokens"] = None
        elif one["arm"] == WITH:
            one["input_tokens"] = 1
    analysis = twoarm.score(runs)
    assert analysis.evidence is not None
    (found,) = analysis.evidence.exclusions.missing
    assert (found.missing, found.p, found.could_flip) == ((1, 1), 1.0, False)
    codes = {caveat.code for caveat in analysis.caveats}
    assert not {"uneven_missing", "missing_could_flip"} & codes


def test_excluded_runs_are_no_repeats() -> None:
    runs = [one for repeat in range(1, 6) for one in both("t", repeat)]
    runs[0]["failure"] = "infra"
    assert twoarm.score(runs).adequacy.fewest_repeats == 4


@pytest.mark.parametrize(
    ("candidate", "baseline", "verdict"),
    [
        ({}, {}, "promote"),
        ({"success": False}, {}, "do not promote"),
        ({"success": False, "duration_seconds": 200, "input_tokens": 2000}, {}, "do not promote"),
    ],
)
def test_only_a_preferred_candidate_is_promoted(
    candidate: dict[str, Any], baseline: dict[str, Any], verdict: str
) -> None:
    assert decided(candidate, baseline).promotion.verdict == verdict


# Five repeats of one task: what varies in the candidate, and whether the task is high-variance.
VARIED = [
    ("duration_seconds", [100, 100, 100, 100, 100], []),
    ("duration_seconds", [60, 80, 100, 120, 140], []),
    ("duration_seconds", [50, 50, 50, 50, 300], ["duration_seconds"]),
    ("input_tokens", [100, 100, 100, 100, 9000], ["non_cache_tokens"]),
    ("cache_read_tokens", [100, 100, 100, 100, 9000], []),
    ("success", [True, True, True, True, False], ["success"]),
    ("success", [False, False, False, False, False], []),
]


@pytest.mark.parametrize(("field", "values", "varied"), VARIED)
@pytest.mark.parametrize("arm", [WITH, WITHOUT])
def test_a_task_is_high_variance_by_the_stated_criterion(
    field: str, values: list[Any], varied: list[str], arm: str
) -> None:
    other = WITHOUT if arm == WITH else WITH
    runs = arm_of(values, field, arm) + arm_of([True] * 5, "success", other)
    analysis = twoarm.score(runs)
    assert analysis.tasks[0].high_variance == tuple(varied)
    assert analysis.adequacy.high_variance.tasks == (("t",) if varied else ())
    advised = [c for c in analysis.caveats if c.code == "high_variance"]
    assert bool(advised) == bool(varied)
    assert all("prefer 10 repeats" in caveat.message for caveat in advised)


@pytest.mark.parametrize(("steady", "suite"), [(3, True), (4, False)])
def test_a_suite_is_high_variance_when_a_quarter_of_its_tasks_is(steady: int, suite: bool) -> None:
    runs = [one for r in range(1, 6) for t in range(steady) for one in both(f"t{t}", r)]
    runs += arm_of([True, False, True, True, True], "success")
    assert twoarm.score(runs).adequacy.high_variance.suite is suite


def test_ten_repeats_silence_the_advice() -> None:
    runs = [one for r in range(1, 11) for one in both("t", r, success=r > 1)]
    analysis = twoarm.score(runs)
    assert analysis.adequacy.high_variance.suite
    assert "high_variance" not in [caveat.code for caveat in analysis.caveats]
