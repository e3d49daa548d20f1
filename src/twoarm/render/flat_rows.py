"""Tasks and pairs as flat rows with plain values, for a frame."""

from collections.abc import Iterable
from typing import Any

import msgspec

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES
from twoarm.compare.screen import ArmRuns
from twoarm.compare.tasks import Task, TaskArm
from twoarm.runs.arrays import Ints, or_none
from twoarm.runs.metric import METRICS, SUCCESS


def task_rows(tasks: Iterable[Task]) -> list[dict[str, Any]]:
    """A row per task: what it is, both arms, then the means of its deltas."""
    return [
        {
            "task_id": task.task_id,
            "standing": task.standing,
            "pairs": task.pairs,
            "gained": task.gained,
            "lost": task.lost,
            **_of_arm("candidate", task.candidate),
            **_of_arm("baseline", task.baseline),
            **{
                name: value
                for name, value in msgspec.structs.asdict(task).items()
                if name.startswith("mean_")
            },
            "high_variance": ", ".join(task.high_variance),
            "task_tags": ", ".join(task.task_tags),
            "family": task.family,
        }
        for task in tasks
    ]


def _of_arm(role: str, arm: TaskArm) -> dict[str, Any]:
    missing = {
        f"{role}_missing_{gate.metric.name}": arm.missing.get(gate.metric.name, 0)
        for gate in GATES
        if gate.metric is not SUCCESS
    }
    figures = {
        f"{role}_{name}": value
        for name, value in msgspec.structs.asdict(arm).items()
        if name != "missing"
    }
    return figures | missing


def pair_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row per pair: its task and repeat, every metric of both runs, and every delta."""
    pairing, runs = comparison.pairing, comparison.runs
    at = comparison.screening.candidate.rows[pairing.candidate]
    columns: dict[str, list[Any]] = {
        "task_id": [runs.tasks[code] for code in pairing.task.tolist()],
        "repeat": runs.repeat[at].tolist(),
    }
    for metric in METRICS:
        for role, arm, rows in (
            ("candidate", comparison.screening.candidate, pairing.candidate),
            ("baseline", comparison.screening.baseline, pairing.baseline),
        ):
            columns[f"{role}_{metric.name}"] = _values(arm, metric.name, rows)
        columns[metric.delta] = or_none(pairing.deltas[metric.name])
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(arm: ArmRuns, metric: str, rows: Ints) -> list[Any]:
    values = or_none(arm.values[metric][rows])
    return list(map(bool, values)) if metric == SUCCESS.name else values
