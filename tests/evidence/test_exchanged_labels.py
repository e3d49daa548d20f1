"""The test on these very tasks: labels exchanged inside of them, held to every exchange."""

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

from tests.conftest import both, run
from tests.evidence.test_relabel import (
    ARMS,
    GATED,
    WITH,
    WITHOUT,
    Runs,
    by_task,
    difference,
    drawn_runs,
    step_down,
    weighed,
)
from twoarm.evidence import relabel
from twoarm.runs.arrays import Floats


def every_label(runs: Runs) -> tuple[dict[str, float], dict[str, Floats], dict[str, float]]:
    """The statistic of each metric as seen and under every exchange, and its deviation.

    One exchange is for all metrics at once, so the places of the runs are chosen, not values.
    """
    tasks = {metric: by_task(runs, metric) for metric in GATED}
    choices = [
        list(itertools.combinations(range(len(ours) + len(theirs)), len(ours)))
        for ours, theirs in tasks["success"]
    ]
    observed, drawn, deviation = {}, {}, {}
    for metric, sides in tasks.items():
        per_task = []
        for (ours, theirs), ways in zip(sides, choices, strict=True):
            values = [*ours, *theirs]
            per_task.append(
                np.array(
                    [
                        difference(
                            [values[at] for at in chosen],
                            [one for at, one in enumerate(values) if at not in chosen],
                        )
                        for chosen in ways
                    ]
                )
            )
        sums = np.zeros(1)
        for found in per_task:
            sums = (sums[:, None] + found).ravel()
        deviation[metric] = math.sqrt(sum(pooled_variance(*side) for side in sides))
        if deviation[metric]:
            total = sum(difference(*side) for side in sides)
            observed[metric] = abs(total) / deviation[metric]
            drawn[metric] = np.abs(sums) / deviation[metric]
    return observed, drawn, deviation


def pooled_variance(ours: list[float], theirs: list[float]) -> float:
    """Of a difference of means when labels are exchanged: the variance of all runs of the task
    over both numbers of runs."""
    known = [[one for one in side if not math.isnan(one)] for side in (ours, theirs)]
    if not known[0] or not known[1]:
        return 0.0
    return float(np.var([*known[0], *known[1]], ddof=1)) * sum(1 / len(side) for side in known)


LABELS: list[tuple[list[tuple[int, int]], float, int]] = [
    ([(4, 4)], 0.0, 1),
    ([(3, 3), (3, 3)], 0.0, 2),
    ([(3, 2), (2, 3), (4, 1)], 0.0, 3),
    ([(2, 5), (3, 3)], 0.25, 4),
    ([(2, 2), (2, 2), (1, 2), (3, 1), (2, 1)], 0.2, 5),
    ([(5, 2), (1, 1)], 0.3, 7),
]


@pytest.mark.parametrize(("sizes", "missing", "seed"), LABELS)
@pytest.mark.parametrize("primary", [None, "tokens"])
def test_labels_within_tasks_are_those_of_every_exchange(
    sizes: list[tuple[int, int]], missing: float, seed: int, primary: Any
) -> None:
    runs = drawn_runs(sizes, seed=seed, missing=missing)
    assert bool(missing) == any(one["input_tokens"] is None for one in runs)
    found = weighed(runs, primary=primary)
    observed, drawn, deviation = every_label(runs)
    first = "non_cache_tokens" if primary else None
    adjusted = step_down(observed, drawn, first)
    for metric in GATED:
        p = found.deltas[metric].p
        assert p.tasks_like_these is None
        if metric not in observed:
            assert (p.these_tasks, p.adjusted) == (None, None)
            continue
        alone = float((drawn[metric] >= observed[metric] - 1e-9).mean())
        assert p.these_tasks == pytest.approx(alone, abs=1e-12)
        assert p.adjusted == pytest.approx(adjusted[metric], abs=1e-12)
    if not missing:
        # The pooled variance is that of all exchanges, so no exchange changes it.
        for metric in observed:
            spread = float(np.sqrt((drawn[metric] ** 2).mean())) * deviation[metric]
            assert spread == pytest.approx(deviation[metric])


def test_drawn_and_normal_labels_agree_with_every_exchange(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = drawn_runs([(4, 4)] * 3, seed=11, effect=-0.2)
    observed, drawn, _ = every_label(runs)
    assert len(drawn["success"]) == 70**3
    adjusted = step_down(observed, drawn)
    for normal in (False, True):
        if normal:
            monkeypatch.setattr(relabel, "NORMAL_FROM", 1)
        found = weighed(runs)
        for metric in GATED:
            alone = float((drawn[metric] >= observed[metric] - 1e-9).mean())
            p = found.deltas[metric].p
            for got, exact in ((p.these_tasks, alone), (p.adjusted, adjusted[metric])):
                assert 0.005 < exact < 0.995, "the example should be in doubt"
                error = math.sqrt(exact * (1 - exact) / 8_192)
                assert got == pytest.approx(exact, abs=4 * error + (0.03 if normal else 1e-3))


def test_one_task_of_four_repeats_can_be_clear_and_three_cannot() -> None:
    for repeats, smallest in ((3, 2 / 20), (4, 2 / 70)):
        runs = [
            run("t", arm, repeat, duration_seconds=repeat + (100.0 if arm == WITH else 0.0))
            for repeat in range(1, repeats + 1)
            for arm in ARMS
        ]
        found = weighed(runs)
        assert found.deltas["duration_seconds"].p.these_tasks == pytest.approx(smallest)
        assert (found.grade.verdict == "too few tasks") == (repeats == 3)


def test_runs_that_were_played_again_give_no_test_on_these_tasks() -> None:
    runs = [
        run(f"t{task}", arm, repeat, duration_seconds=90.0 if arm == WITH else 100.0)
        for task in range(2)
        for repeat in range(1, 6)
        for arm in ARMS
    ]
    found = weighed(runs)
    assert found.deltas["duration_seconds"].p.these_tasks is None
    assert found.deltas["duration_seconds"].p.adjusted is None
    assert found.grade.verdict == "no clear difference"
    runs[0]["duration_seconds"] = 91.0
    # Two of 252^2 exchanges, of which 8,192 are drawn.
    assert weighed(runs).deltas["duration_seconds"].p.these_tasks == 1 / 8_193


def test_a_few_failures_among_thousands_of_runs_get_no_normal_law() -> None:
    draw = random.Random(7)
    runs = [
        run(
            f"t{task:03d}",
            arm,
            repeat,
            success=not (arm == WITHOUT and task < 5 and repeat == 1),
            duration_seconds=100 + draw.random(),
        )
        for task in range(300)
        for repeat in range(1, 11)
        for arm in ARMS
    ]
    p = weighed(runs).deltas["success"].p
    # Five failures, one in each of five tasks: all in one arm by chance, either way.
    for found in (p.tasks_like_these, p.these_tasks):
        assert found == pytest.approx(2 / 2**5, abs=4 * math.sqrt(0.0625 / 8_192))


def test_no_shared_task_has_no_test() -> None:
    runs = [run("a", WITH), run("b", WITHOUT)]
    found = weighed(runs)
    assert found.tasks == 0
    assert found.grade.verdict == "too few tasks"
    assert all(delta.p.these_tasks is None for delta in found.deltas.values())


def test_many_equal_runs_are_no_sign_of_too_few() -> None:
    for tasks in (1, 5, 12):
        runs = [one for t in range(tasks) for r in range(1, 7) for one in both(f"t{t}", r)]
        found = weighed(runs)
        assert {one.standing for one in found.grade.findings} == {"no test"}
        assert found.grade.verdict == "no clear difference"
