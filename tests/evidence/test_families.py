"""Families of tasks: whatever speaks of tasks like these counts families, not tasks."""

import itertools
import math
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.conftest import WITH, WITHOUT
from tests.evidence.test_looks import runs_at
from tests.support.effect_runs import evidence, suite
from tests.support.family_runs import FAMILIES, SIZES, even, in_families
from twoarm.evidence.results import Estimate, Interval
from twoarm.runs.metric import JUDGED


def in_one_task(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each family as one task that has all of its runs as repeats."""
    merged = []
    for run in runs:
        repeat = int(run["task_id"][1:]) * 100 + run["repeat"]
        others = {key: value for key, value in run.items() if key != "family"}
        merged.append(dict(others, task_id=run["family"], repeat=repeat))
    return merged


def same(one: Interval | None, other: Interval | None) -> None:
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-9)


def by_hand(runs: list[dict[str, Any]], key: str) -> list[float]:
    """The mean log ratio of each family: runs alike in a task, tasks alike in a family."""
    logs: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in runs:
        arms = logs.setdefault((run["family"], run["task_id"]), {WITH: [], WITHOUT: []})
        arms[run["arm"]].append(math.log(run[key]))
    families: dict[str, list[float]] = {}
    for (family, _), arms in logs.items():
        delta = np.mean(arms[WITH]) - np.mean(arms[WITHOUT])
        families.setdefault(family, []).append(float(delta))
    return [float(np.mean(deltas)) for deltas in families.values()]


def test_a_family_is_as_one_task_with_all_its_runs() -> None:
    """Where tasks have as many repeats, every answer over tasks is that of merged tasks."""
    runs = even(8, 3, seed=4)
    merged = in_one_task(runs)
    ours, theirs = evidence(runs), evidence(merged)
    assert (ours.tasks, ours.families) == (24, 8)
    assert (theirs.tasks, theirs.families) == (8, None)
    for metric in JUDGED:
        one, other = ours.deltas[metric.name], theirs.deltas[metric.name]
        same(one.change.tasks_like_these, other.change.tasks_like_these)
        same(one.mean.tasks_like_these, other.mean.tasks_like_these)
        same(one.median.tasks_like_these, other.median.tasks_like_these)
        same(one.bootstrap.mean_interval, other.bootstrap.mean_interval)
        assert one.change.estimate == pytest.approx(other.change.estimate)
        assert one.p.tasks_like_these == pytest.approx(other.p.tasks_like_these)
        assert one.p.adjusted == pytest.approx(other.p.adjusted)
    for gate in ours.gates:
        same(
            ours.gates[gate].difference.tasks_like_these,
            theirs.gates[gate].difference.tasks_like_these,
        )
    for kind in ("cost_usd", "duration_minutes"):
        one_arm, other_arm = getattr(ours.per_solved, kind), getattr(theirs.per_solved, kind)
        for part in ("candidate", "baseline", "ratio"):
            same(getattr(one_arm, part).tasks_like_these, getattr(other_arm, part).tasks_like_these)
    assert ours.grade == theirs.grade


@pytest.mark.parametrize("seed", [1, 2])
def test_a_ratio_is_a_t_interval_over_family_means(seed: int) -> None:
    runs = in_families(suite(24, 3, seed=seed), FAMILIES)
    ratio = evidence(runs).deltas["duration_seconds"].ratio
    assert ratio is not None
    assert ratio.tasks_like_these is not None
    means = by_hand(runs, "duration_seconds")
    expected = stats.ttest_1samp(means, 0.0).confidence_interval(0.95)
    assert ratio.estimate == pytest.approx(math.exp(np.mean(means)))
    assert ratio.tasks_like_these.low == pytest.approx(math.exp(expected.low))
    assert ratio.tasks_like_these.high == pytest.approx(math.exp(expected.high))
    assert ratio.tasks_like_these.method == "t on family means, on logarithms"


def test_the_signs_of_whole_families_are_exchanged() -> None:
    runs = in_families(suite(24, 3, effect=0.93, seed=3), FAMILIES)
    means = by_hand(runs, "duration_seconds")
    seen = abs(sum(means)) - 1e-9
    signs = itertools.product((1.0, -1.0), repeat=len(means))
    reached = [abs(sum(map(math.prod, zip(sign, means, strict=True)))) >= seen for sign in signs]
    p = evidence(runs).deltas["duration_seconds"].p.tasks_like_these
    assert p == pytest.approx(sum(reached) / len(reached))


def test_labels_on_these_very_tasks_have_the_weights_of_the_mean() -> None:
    """Two tasks of one family and one of another, with labels exchanged in every way there is."""
    runs = in_families(suite(3, 2, seed=5, effect=0.9), [0, 0, 1])
    weights = {"t000": 0.25, "t001": 0.25, "t002": 0.5}

    def statistic(chosen: Mapping[str, tuple[int, ...]]) -> float:
        total = 0.0
        for task, weight in weights.items():
            logs = [math.log(run["duration_seconds"]) for run in runs if run["task_id"] == task]
            ours = [logs[at] for at in chosen[task]]
            total += weight * (sum(ours) - (sum(logs) - sum(ours))) / 2
        return abs(total)

    seen = {
        task: tuple(
            at
            for at, run in enumerate([run for run in runs if run["task_id"] == task])
            if run["arm"] == WITH
        )
        for task in weights
    }
    ways = [
        dict(zip(weights, way, strict=True))
        for way in itertools.product(itertools.combinations(range(4), 2), repeat=3)
    ]
    reached = [statistic(way) >= statistic(seen) - 1e-9 for way in ways]
    p = evidence(runs).deltas["duration_seconds"].p.these_tasks
    assert p == pytest.approx(sum(reached) / len(reached))


def test_on_these_very_tasks_tasks_weigh_as_in_the_mean() -> None:
    """The interval on these tasks is around the same figure, with weights from the definition."""
    runs = in_families(suite(24, 3, seed=5), FAMILIES)
    ratio = evidence(runs).deltas["duration_seconds"].ratio
    assert ratio is not None
    assert ratio.these_tasks is not None
    variance = scale = centre = 0.0
    for task, family in enumerate(FAMILIES):
        weight = 1.0 / len(SIZES) / SIZES[family]
        for arm, sign in ((WITH, 1.0), (WITHOUT, -1.0)):
            logs = [
                math.log(run["duration_seconds"])
                for run in runs
                if run["task_id"] == f"t{task:03d}" and run["arm"] == arm
            ]
            part = weight**2 * float(np.var(logs, ddof=1)) / len(logs)
            centre += sign * weight * float(np.mean(logs))
            variance, scale = variance + part, scale + part**2 / (len(logs) - 1)
    reach = stats.t.ppf(0.975, variance**2 / scale) * math.sqrt(variance)
    assert ratio.these_tasks.low == pytest.approx(math.exp(centre - reach))
    assert ratio.these_tasks.high == pytest.approx(math.exp(centre + reach))


def test_families_of_one_task_each_are_no_families() -> None:
    plain = suite(8, 3, seed=2)
    alone = in_families(plain, list(range(8)))
    assert evidence(alone) == evidence(plain)
    assert evidence(plain).families is None


def test_below_six_families_the_headline_is_these_tasks() -> None:
    found = evidence(even(5, 4, effect=0.5))
    assert (found.headline, found.families, found.grade.scope) == (
        "these_tasks",
        5,
        "these_tasks",
    )
    ratio = found.deltas["duration_seconds"].ratio
    assert ratio is not None
    assert ratio.tasks_like_these is not None
    assert ratio.tasks_like_these.caveats == (
        "Only 5 families: the interval for other tasks assumes a normal distribution.",
    )
    assert evidence(even(6, 4, effect=0.5)).headline == "tasks_like_these"


def test_one_family_says_nothing_about_other_tasks() -> None:
    mean = evidence(even(1, 8)).deltas["success"].mean
    assert mean.reasons("tasks_like_these") == ("One family: this says nothing about other tasks.",)


def test_gates_decision_and_broken_tasks_stay_by_task() -> None:
    runs = in_families(suite(24, 6, seed=7, pass_rate=0.9), FAMILIES)
    for run in runs:
        if run["task_id"] == "t000" and run["arm"] == WITH:
            run["success"] = False
    plain = [{key: run[key] for key in run if key != "family"} for run in runs]
    ours, theirs = twoarm.score(runs), twoarm.score(plain)
    assert (ours.gates, ours.decision) == (theirs.gates, theirs.decision)
    assert ours.evidence is not None
    assert theirs.evidence is not None
    one, other = ours.evidence.guard.broken, theirs.evidence.guard.broken
    assert one == other
    assert one.tasks


def test_how_many_could_break_is_asked_over_families() -> None:
    found = evidence(even(8, 3, repeats=6, pass_rate=1.0)).guard.broken
    assert found.watched == 24
    assert found.could_break == pytest.approx(1.0 - 0.05 ** (1 / 8))


# Whatever else is asked over families -------------------------------------------------------------


def test_looks_exchange_the_signs_of_families() -> None:
    """A family of copies of one task says what one task does."""
    runs = [dict(run, family=run["task_id"]) for run in runs_at(3, tasks=7)]
    copies = [dict(run, task_id=f"{run['task_id']}-{copy}") for run in runs for copy in range(3)]
    one, other = (evidence(each, looks=(3, 5)) for each in (runs, copies))
    assert other.families == 7
    assert one.looks is not None
    assert other.looks is not None
    assert (one.looks.clear, one.looks.stop) == (other.looks.clear, other.looks.stop)
    assert one.grade == other.grade


def test_several_candidates_are_tested_over_families() -> None:
    runs = even(8, 3, seed=6, effect=0.9)
    draw = random.Random(1)
    more = [
        dict(run, arm="third", duration_seconds=run["duration_seconds"] * draw.uniform(0.8, 1.1))
        for run in runs
        if run["arm"] == WITHOUT
    ]

    def adjusted(source: list[dict[str, Any]]) -> list[float | None]:
        reports = twoarm.compare_candidates(twoarm.read(source), baseline=WITHOUT).reports
        found = [report.evidence for report in reports]
        return [finding.adjusted_p for each in found if each for finding in each.grade.findings]

    assert adjusted(runs + more) == pytest.approx(adjusted(in_one_task(runs + more)))


def test_the_effect_where_it_was_used_is_over_families() -> None:
    draw = random.Random(2)
    runs = [
        dict(run, uptake_count=int(draw.random() < (0.6 if run["arm"] == WITH else 0.0)))
        for run in even(8, 3, seed=8)
    ]
    ours, theirs = (twoarm.score(each).uptake for each in (runs, in_one_task(runs)))
    assert ours is not None
    assert ours.where_used is not None
    assert theirs is not None
    assert theirs.where_used is not None
    for metric, effect in ours.where_used.items():
        same(effect.interval, theirs.where_used[metric].interval)
        assert effect.tasks == 24


def test_scores_and_checks_are_over_families() -> None:
    draw = random.Random(3)
    runs = []
    for run in even(8, 3, seed=9):
        checks = {"a": draw.random() < 0.7, "b": draw.random() < 0.4}
        runs.append(dict(run, checks=checks, score=sum(checks.values()) / 2))
    ours, theirs = evidence(runs), evidence(in_one_task(runs))
    same(ours.deltas["score"].mean.tasks_like_these, theirs.deltas["score"].mean.tasks_like_these)
    assert ours.scores is not None
    assert ours.scores.checks is not None
    assert theirs.scores is not None
    assert theirs.scores.checks is not None
    for one, other in zip(ours.scores.checks.largest, theirs.scores.checks.largest, strict=True):
        assert one.difference == pytest.approx(other.difference)
        assert one.adjusted_p == pytest.approx(other.adjusted_p)


def test_calls_of_tools_are_compared_over_families() -> None:
    draw = random.Random(4)
    runs = [
        dict(run, tool_calls={"grep": draw.randint(0, 9), "read": draw.randint(1, 5)})
        for run in even(8, 3, seed=9)
    ]
    ours, theirs = (twoarm.score(each).tool_use for each in (runs, in_one_task(runs)))
    assert ours is not None
    assert theirs is not None
    assert (ours.tasks, ours.families) == (24, 8)
    for one, other in zip(ours.largest, theirs.largest, strict=True):
        assert (one.mean_delta, one.low, one.high) == pytest.approx(
            (other.mean_delta, other.low, other.high)
        )


def test_the_decision_is_tried_on_families_drawn_again() -> None:
    """Runs of a task that are all alike: only which families are drawn matters, and every draw of
    six families is listed with its chance."""
    sizes = (5, 1, 2, 1, 3, 1)
    faster = (1.3, 0.6, 0.7, 1.1, 0.8, 0.9)
    of = [family for family, size in enumerate(sizes) for _ in range(size)]
    runs = in_families(suite(len(of), 2), of)
    for run in runs:
        task = int(run["task_id"][1:])
        factor = faster[of[task]] if run["arm"] == WITH else 1.0
        run |= {
            "success": True,
            "duration_seconds": (100.0 + task) * factor,
            "input_tokens": round((1000 + 7 * task) * factor),
            "output_tokens": 0,
        }
    expected: dict[str, float] = {}
    for drawn in itertools.combinations_with_replacement(range(6), 6):
        times = np.bincount(drawn, minlength=6)
        ways = math.factorial(6) / math.prod(map(math.factorial, times.tolist()))
        kind = decided(runs, [int(times[family]) for family in of])
        expected[kind] = expected.get(kind, 0.0) + ways / 6**6
    found = evidence(runs).stability
    assert found is not None
    assert found.method == "families and repeats resampled"
    assert found.shares.keys() <= expected.keys()
    for kind, chance in expected.items():
        assert found.shares.get(kind, 0.0) == pytest.approx(chance, abs=0.02)


def decided(runs: list[dict[str, Any]], times: list[int]) -> str:
    """What the gates say of tasks that are there so many times; every run succeeds."""
    holds = []
    for key in ("duration_seconds", "input_tokens"):
        arms = [
            [
                run[key]
                for run in runs
                if run["arm"] == arm
                for _ in range(times[int(run["task_id"][1:])])
            ]
            for arm in (WITH, WITHOUT)
        ]
        holds.append(np.median(arms[0]) <= np.median(arms[1]))
    if all(holds):
        return f"prefer {WITH}"
    return "mixed results - inspect paired deltas"


def test_families_speak_of_estimates_without_a_number_that_is_not_one() -> None:
    """A metric that some tasks lack is averaged over the tasks of a family that have it."""
    runs = in_families(suite(24, 3, seed=12), FAMILIES)
    for run in runs:
        if run["task_id"] in ("t000", "t006", "t023"):
            run["total_cost_usd"] = None
    found: Estimate | None = evidence(runs).deltas["cost_usd"].ratio
    assert found is not None
    assert found.tasks_like_these is not None
    kept = [run for run in runs if run["total_cost_usd"] is not None]
    means = by_hand(kept, "total_cost_usd")
    assert len(means) == len(SIZES) - 1
    expected = stats.ttest_1samp(means, 0.0).confidence_interval(0.95)
    assert found.tasks_like_these.low == pytest.approx(math.exp(expected.low))
