"""Pilots for the tests of plans and calibrations: runs drawn with a known spread."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.conftest import ARMS, run
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import SUCCESS, Metric

HOSTILE = ("<img src=x onerror=alert(1)>|`x`", "::warning::\u202e</script>")


def pilot_runs(
    tasks: int,
    repeats: int = 5,
    *,
    spread: float = 0.3,
    task_spread: float = 0.2,
    passing: float = 0.8,
    faster: float = 1.0,
    seed: int = 1,
) -> list[dict[str, Any]]:
    """Run records of both arms; `faster` is what the candidate's durations are multiplied by."""
    draw = np.random.default_rng(seed)
    effect = task_spread * draw.normal(size=(tasks, 2))
    noise = spread * draw.normal(size=(2, tasks, repeats, 2))
    passed = draw.random((2, tasks, repeats)) < passing
    made = []
    for arm, name in enumerate(ARMS):
        for task in range(tasks):
            for repeat in range(repeats):
                logs = noise[arm, task, repeat] + (effect[task] if arm == 0 else 0.0)
                made.append(
                    run(
                        f"t{task}",
                        name,
                        repeat + 1,
                        success=bool(passed[arm, task, repeat]),
                        duration_seconds=100.0 * math.exp(logs[0]) * (faster if arm == 0 else 1.0),
                        input_tokens=round(1e6 * math.exp(logs[1])),
                        output_tokens=0,
                        total_cost_usd=0.25,
                    )
                )
    return made


def hostile_pilot(tasks: int, repeats: int) -> list[dict[str, Any]]:
    """Run records whose arms have names that would like to be code."""
    names = dict(zip(ARMS, HOSTILE, strict=True))
    return [one | {"arm": names[one["arm"]]} for one in pilot_runs(tasks, repeats)]


def task_runs_of(
    metric: Metric, cells: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> TaskRuns:
    """One metric of some tasks: the candidate's values of each, and the baseline's."""
    sizes = np.array([[len(ours), len(theirs)] for ours, theirs in cells]).T
    values: Floats = np.array(
        [one for ours, theirs in cells for one in (*ours, *theirs)], dtype=float
    )
    layout = Layout(tasks=np.arange(len(cells)), sizes=sizes)
    found = TaskRuns(metric=metric, logs=False, values=values, layout=layout)
    return found if metric is SUCCESS else found.on_test_scale()
