"""What hangs on single tasks: the decision and the means without each of them."""

import math

import msgspec

from twoarm import column
from twoarm.evidence.cells import Pairs
from twoarm.evidence.resample import Tables
from twoarm.evidence.stability import ArmSample, without_each_task

# A task that carries more than this share of the spread between tasks drives the mean.
DRIVES = 0.5
_FEWEST_TO_DRIVE = 5
# More tasks than this are not left out one by one.
MOST_LEFT_OUT = 2_000


class MeanWithout(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a mean delta when one task is left out, and the task that drives it, if any."""

    low: float
    low_without: str
    high: float
    high_without: str
    driven_by: str | None
    mean_without_it: float | None


class DecisionWithout(msgspec.Struct, frozen=True, kw_only=True):
    """A task without which the decision is another one."""

    task_id: str
    decision: str


class Influence(msgspec.Struct, frozen=True, kw_only=True):
    """What hangs on single tasks."""

    decision_changes_without: tuple[DecisionWithout, ...]
    means: dict[str, MeanWithout]


def single_tasks(
    names: tuple[str, ...],
    means: dict[str, MeanWithout | None],
    decision: str,
    arms: tuple[ArmSample, ArmSample] | None,
    roles: tuple[str, str],
    tables: Tables,
) -> Influence:
    """The decision without each task, where the arms were resampled, and the means found so."""
    changes: list[DecisionWithout] = []
    if arms is not None and 2 <= len(arms[0].success.tasks) <= MOST_LEFT_OUT:
        others = without_each_task(arms[0], arms[1], roles, tables)
        changes = [
            DecisionWithout(task_id=names[code], decision=other)
            for code, other in zip(arms[0].success.tasks, others, strict=True)
            if other != decision
        ]
    return Influence(
        decision_changes_without=tuple(changes),
        means={name: found for name, found in means.items() if found is not None},
    )


def mean_without(pairs: Pairs, names: tuple[str, ...]) -> MeanWithout | None:
    """The mean of one metric without each task in turn, from two tasks on."""
    tasks = len(pairs.sizes)
    if tasks < 2:
        return None
    sums = column.group_totals(pairs.deltas, pairs.starts)
    total, count = math.fsum(sums), len(pairs)
    without = [(total - s) / (count - n) for s, n in zip(sums, pairs.sizes, strict=True)]
    low = min(range(tasks), key=without.__getitem__)
    high = max(range(tasks), key=without.__getitem__)
    mean = total / count
    away = [(s / n - mean) ** 2 for s, n in zip(sums, pairs.sizes, strict=True)]
    widest = max(range(tasks), key=away.__getitem__)
    drives = tasks >= _FEWEST_TO_DRIVE and away[widest] > DRIVES * math.fsum(away)
    return MeanWithout(
        low=without[low],
        low_without=names[pairs.tasks[low]],
        high=without[high],
        high_without=names[pairs.tasks[high]],
        driven_by=names[pairs.tasks[widest]] if drives else None,
        mean_without_it=without[widest] if drives else None,
    )
