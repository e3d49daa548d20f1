"""The one test of the evidence: the signs of whole tasks, held to every pattern written out."""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import twoarm
from tests.conftest import run
from twoarm.evidence import relabel
from twoarm.evidence.results import Evidence
from twoarm.runs.arrays import Floats

WITH, WITHOUT = "with_skelly", "without_skelly"
ARMS = (WITH, WITHOUT)
GATED = ("success", "duration_seconds", "non_cache_tokens")
Runs = list[dict[str, Any]]


def weighed(runs: Runs, **options: Any) -> Evidence:
    found = twoarm.score(runs, **options).evidence
    assert found is not None
    return found


def value(one: dict[str, Any], metric: str) -> float:
    """The figure that a test looks at: a rate, or a logarithm; NaN is not measured."""
    if metric == "success":
        return float(one["success"])
    if metric == "duration_seconds":
        return math.log(one["duration_seconds"])
    if one["input_tokens"] is None:
        return math.nan
    return math.log(one["input_tokens"] + one["output_tokens"])


def drawn_runs(
    sizes: Sequence[tuple[int, int]],
    *,
    seed: int,
    effect: float = -0.35,
    unmeasured: Sequence[tuple[int, str]] = (),
    missing: float = 0.0,
) -> Runs:
    """Tasks with so many runs of each arm; tokens go with time, and may not be measured."""
    draw = random.Random(seed)
    runs = []
    for task, counts in enumerate(sizes):
        level = draw.gauss(5, 0.8)
        shift = effect + draw.gauss(0, 0.3)
        rates = draw.choice((0.3, 0.6, 0.9)), draw.choice((0.3, 0.6, 0.9))
        for arm, count, rate in zip(ARMS, counts, rates, strict=True):
            for repeat in range(1, count + 1):
                logs = level + draw.gauss(0, 0.4) + (shift if arm == WITH else 0.0)
                lacks = (task, arm) in unmeasured or draw.random() < missing
                runs.append(
                    run(
                        f"t{task:02d}",
                        arm,
                        repeat,
                        success=draw.random() < rate,
                        duration_seconds=math.exp(logs),
                        input_tokens=None
                        if lacks
                        else round(900 * math.exp(logs + draw.gauss(0, 0.3))),
                    )
                )
    return runs


def by_task(runs: Runs, metric: str) -> list[tuple[list[float], list[float]]]:
    """The values of both arms, task by task, missing ones among them."""
    names = sorted({one["task_id"] for one in runs})
    return [
        (
            [value(one, metric) for one in runs if (one["task_id"], one["arm"]) == (name, WITH)],
            [value(one, metric) for one in runs if (one["task_id"], one["arm"]) == (name, WITHOUT)],
        )
        for name in names
    ]


def difference(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Of the means of what was measured; nothing where an arm has nothing."""
    known = [[one for one in side if not math.isnan(one)] for side in (ours, theirs)]
    if not known[0] or not known[1]:
        return 0.0
    return sum(known[0]) / len(known[0]) - sum(known[1]) / len(known[1])


def step_down(
    observed: dict[str, float], drawn: dict[str, Floats], first: str | None = None
) -> dict[str, float]:
    """Westfall and Young: the largest is held against the largest of all, and so on down."""
    found, least = {}, 0.0
    left = sorted(observed, key=lambda name: -observed[name])
    if first is not None:
        least = found[first] = float((drawn[first] >= observed[first] - 1e-9).mean())
        left.remove(first)
    while left:
        largest = np.maximum.reduce([drawn[name] for name in left])
        least = max(least, float((largest >= observed[left[0]] - 1e-9).mean()))
        found[left.pop(0)] = least
    return found


# Whole tasks change sign --------------------------------------------------------------------------


def every_sign(runs: Runs) -> tuple[dict[str, float], dict[str, Floats]]:
    """The statistic of each metric as seen, and under all 2^T signs."""
    deltas = {
        metric: np.array([difference(*sides) for sides in by_task(runs, metric)])
        for metric in GATED
    }
    deltas = {metric: found for metric, found in deltas.items() if found.any()}
    tasks = len(by_task(runs, "success"))
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=tasks)))
    observed, drawn = {}, {}
    for metric, found in deltas.items():
        size = math.sqrt(sum(one**2 for one in found))
        observed[metric] = abs(sum(found)) / size
        drawn[metric] = np.abs(signs @ found) / size
    return observed, drawn


# Runs of both arms in each task, tokens that are missing, and a seed.
SIGNS = [
    ([(3, 3)] * 6, (), 1),
    ([(2, 4), (3, 3), (1, 5), (5, 1), (4, 4), (2, 2)], (), 2),
    ([(3, 3)] * 7, ((2, WITH),), 3),
    ([(3, 2), (4, 4)] * 4, ((0, WITH), (5, WITHOUT)), 4),
    ([(1, 1)] * 8, (), 5),
]


@pytest.mark.parametrize(("sizes", "unmeasured", "seed"), SIGNS)
@pytest.mark.parametrize("primary", [None, "success", "duration", "tokens"])
def test_signs_of_tasks_are_those_of_every_pattern(
    sizes: list[tuple[int, int]],
    unmeasured: tuple[tuple[int, str], ...],
    seed: int,
    primary: Any,
) -> None:
    runs = drawn_runs(sizes, seed=seed, unmeasured=unmeasured)
    found = weighed(runs, primary=primary)
    observed, drawn = every_sign(runs)
    assert set(observed) == set(GATED), "the example should test all three"
    first = {"success": GATED[0], "duration": GATED[1], "tokens": GATED[2]}.get(primary)
    adjusted = step_down(observed, drawn, first)
    for metric in GATED:
        alone = float((drawn[metric] >= observed[metric] - 1e-9).mean())
        p = found.deltas[metric].p
        assert p.tasks_like_these == pytest.approx(alone, abs=1e-12)
        assert p.adjusted == pytest.approx(adjusted[metric], abs=1e-12)
    assert [(one.metric, one.p, one.adjusted_p) for one in found.grade.findings] == [
        (name, p.tasks_like_these, p.adjusted)
        for name, p in ((metric, found.deltas[metric].p) for metric in GATED)
    ]
    assert found.grade.primary == first


def test_drawn_signs_agree_with_every_pattern() -> None:
    runs = drawn_runs([(2, 2)] * 16, seed=8, effect=-0.12)
    found = weighed(runs)
    observed, drawn = every_sign(runs)
    adjusted = step_down(observed, drawn)
    for metric in GATED:
        alone = float((drawn[metric] >= observed[metric] - 1e-9).mean())
        p = found.deltas[metric].p
        for got, exact in ((p.tasks_like_these, alone), (p.adjusted, adjusted[metric])):
            assert 0.001 < exact < 0.999, "the example should be in doubt"
            error = math.sqrt(exact * (1 - exact) / 8_192)
            assert got == pytest.approx(exact, abs=4 * error + 1 / 8_193)
            assert got != exact
    others = weighed(runs, seed=2).deltas["duration_seconds"].p
    assert others != found.deltas["duration_seconds"].p


def test_the_normal_sums_of_many_tasks_agree_with_drawn_signs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(4)
    shared = generator.normal(size=200)
    deltas = np.zeros((3, 200))
    deltas[0, generator.choice(200, 12, replace=False)] = [-0.2] * 9 + [0.4] * 3
    deltas[1] = 0.5 * shared + generator.normal(size=200) + 0.17
    deltas[2] = 0.5 * shared + generator.normal(size=200) + 0.13
    drawn = relabel.signs_of_tasks(deltas, 1)
    monkeypatch.setattr(relabel, "NORMAL_FROM", 100)
    monkeypatch.setattr(relabel, "ONE_BY_ONE", 15)
    normal = relabel.signs_of_tasks(deltas, 1)
    assert drawn.drawn.tolist() != normal.drawn.tolist()
    for first in (None, 0, 2):
        exact, near = (one.adjusted(range(3), first) for one in (drawn, normal))
        for metric in range(3):
            p = drawn.p(metric)
            assert p is not None
            assert p < 0.995, "the example should be in doubt"
            for one, other in ((p, normal.p(metric)), (exact[metric], near[metric])):
                error = math.sqrt(2 * one * (1 - one) / 8_192)
                assert other == pytest.approx(one, abs=4 * error + 0.002)


def test_success_that_differs_in_a_few_of_thousands_of_tasks_gets_no_normal_law() -> None:
    draw = random.Random(3)
    success = np.zeros(3_000)
    success[[5, 70, 800, 1_500, 2_999]] = -0.2
    duration = np.array([draw.gauss(0, 1) for _ in range(3_000)])
    tests = relabel.signs_of_tasks(np.vstack((success, duration)), 1)
    error = math.sqrt(0.0625 / 8_192)
    # A normal sum of five would give .025.
    assert tests.p(0) == pytest.approx(2 / 2**5, abs=4 * error)


def test_no_p_value_is_zero_however_many_tasks() -> None:
    deltas = np.vstack((np.full(20, -1.0), np.linspace(-1.0, 1.0, 20)))
    assert relabel.signs_of_tasks(deltas, 1).p(0) == 1 / 8_193
    many = np.vstack((np.full(2_500, -1.0), np.linspace(-1.0, 1.0, 2_500)))
    tests = relabel.signs_of_tasks(many, 1)
    assert tests.p(0) == 1 / 8_193
    assert tests.adjusted([0, 1])[0] == 1 / 8_193
    assert (tests.p(1) or 0.0) > 0.9


def test_all_signs_are_listed_up_to_fourteen_tasks() -> None:
    for tasks, listed in ((13, True), (14, True), (15, False)):
        found = relabel.signs_of_tasks(np.ones((1, tasks)), 1)
        assert (found.listed, len(found.drawn)) == (listed, min(2 ** (tasks - 1), 8_192))


def test_six_tasks_can_win_and_five_speak_for_themselves() -> None:
    def faster(tasks: int) -> Runs:
        return [
            one
            | {
                "success": True,
                "duration_seconds": 100.0 * (task + 2) * (1 if one["arm"] == WITH else 2)
                + one["repeat"],
                "input_tokens": 1_000 * (1 if one["arm"] == WITH else 2) + one["repeat"],
            }
            for task in range(tasks)
            for one in drawn_runs([(5, 5)], seed=task)
            for one in [one | {"task_id": f"t{task}"}]
        ]

    six = weighed(faster(6))
    assert (six.grade.verdict, six.grade.scope) == ("candidate better", "tasks_like_these")
    # Both ways round, of 64; Holm over three would give .094.
    assert [one.adjusted_p for one in six.grade.findings] == [None, 2 / 64, 2 / 64]
    five = weighed(faster(5))
    assert (five.grade.verdict, five.grade.scope) == ("candidate better", "these_tasks")
    assert all(delta.p.tasks_like_these is None for delta in five.deltas.values())


def test_a_metric_of_five_tasks_is_not_tested_with_the_others() -> None:
    runs = drawn_runs([(3, 3)] * 7, seed=3, unmeasured=((0, WITH), (1, WITHOUT)))
    found = weighed(runs)
    observed, drawn = every_sign(runs)
    del observed["non_cache_tokens"], drawn["non_cache_tokens"]
    adjusted = step_down(observed, drawn)
    assert found.deltas["non_cache_tokens"].p.tasks_like_these is None
    assert found.deltas["non_cache_tokens"].p.adjusted is None
    for metric in GATED[:2]:
        assert found.deltas[metric].p.adjusted == pytest.approx(adjusted[metric], abs=1e-12)
    assert [one.standing == "no test" for one in found.grade.findings] == [False, False, True]


def test_a_metric_without_any_difference_is_not_tested_nor_allowed_for() -> None:
    runs = [one | {"success": True} for one in drawn_runs([(3, 3)] * 7, seed=4)]
    found = weighed(runs)
    observed, drawn = every_sign(runs)
    assert set(observed) == set(GATED[1:])
    adjusted = step_down(observed, drawn)
    assert found.deltas["success"].p.tasks_like_these is None
    for metric in GATED[1:]:
        assert found.deltas[metric].p.adjusted == pytest.approx(adjusted[metric], abs=1e-12)


def test_more_than_a_few_zeros_are_tested_on_the_plain_scale() -> None:
    runs = drawn_runs([(3, 3)] * 6, seed=6)
    # Two of 36 are more than 5%.
    runs[0]["duration_seconds"] = runs[1]["duration_seconds"] = 0.0
    means = []
    for task in sorted({one["task_id"] for one in runs}):
        ours, theirs = (
            [r["duration_seconds"] for r in runs if (r["task_id"], r["arm"]) == (task, arm)]
            for arm in ARMS
        )
        means.append(sum(ours) / 3 - sum(theirs) / 3)
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, means, strict=True)))
        for signs in itertools.product((1, -1), repeat=6)
    ]
    expected = sum(one >= abs(sum(means)) - 1e-9 for one in sums) / 64
    report = twoarm.score(runs)
    assert report.evidence is not None
    delta = report.evidence.deltas["duration_seconds"]
    assert delta.p.tasks_like_these == pytest.approx(expected)
    assert delta.ratio is None
    said = [caveat.message for caveat in report.caveats if caveat.code == "zeros"]
    assert len(said) == 1
    assert ": duration; where a zero stands for a value" in said[0]


# Every counted run is seen ------------------------------------------------------------------------


def test_a_repeats_number_carries_no_information() -> None:
    runs = drawn_runs([(4, 4)] * 6, seed=9)
    found = weighed(runs)
    shifted = [one | {"repeat": one["repeat"] + 10 * (one["arm"] == WITHOUT)} for one in runs]
    apart = weighed(shifted)
    for metric in GATED:
        assert apart.deltas[metric].p == found.deltas[metric].p
        assert apart.deltas[metric].mean == found.deltas[metric].mean
        assert apart.deltas[metric].ratio == found.deltas[metric].ratio
        assert apart.deltas[metric].pairs == 0
        assert apart.deltas[metric].tasks == 6
    assert apart.grade == found.grade


def test_failed_runs_without_a_partner_count_against_the_candidate() -> None:
    runs = [
        run(f"t{task}", arm, repeat, duration_seconds=50.0 + task + repeat)
        for task in range(8)
        for repeat in range(1, 6)
        for arm in ARMS
    ]
    assert weighed(runs).deltas["success"].mean.estimate == 0.0
    alone = [
        run(f"t{task}", WITH, repeat, success=False, duration_seconds=50.0 + task + repeat)
        for task in range(8)
        for repeat in range(6, 11)
    ]
    found = weighed([*runs, *alone])
    assert found.deltas["success"].mean.estimate == pytest.approx(-0.5)
    assert found.deltas["success"].bootstrap.mean == 0.0
    assert found.grade.verdict == "baseline better"
    assert found.guard.success_high is not None
    assert found.guard.success_high < -0.2
