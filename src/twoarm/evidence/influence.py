"""What hangs on single tasks: the decision and the means without each of them."""

import math

import numpy as np

from twoarm.compare.decide import Decision
from twoarm.evidence.cells import Pairs
from twoarm.evidence.resample import Tables
from twoarm.evidence.results import DecisionWithout, MeanWithout
from twoarm.evidence.stability import ArmSample, without_each_task
from twoarm.runs.arrays import sums

# A task that carries more than this share of the spread between tasks drives the mean.
DRIVES = 0.5
_FEWEST_TO_DRIVE = 5
# More tasks than this are not left out one by one.
MOST_LEFT_OUT = 2_000


def without_tasks(
    names: tuple[str, ...],
    decision: Decision,
    samples: tuple[ArmSample, ArmSample],
    tables: Tables,
) -> tuple[DecisionWithout, ...]:
    """The tasks without which the decision changes."""
    tasks = samples[0].tasks
    if not 2 <= len(tasks) <= MOST_LEFT_OUT:
        return ()
    return tuple(
        DecisionWithout(task_id=names[code], decision=other)
        for code, other in zip(tasks, without_each_task(samples, tables), strict=True)
        if other != decision
    )


def mean_without(pairs: Pairs, names: tuple[str, ...]) -> MeanWithout | None:
    """The mean of one metric without each task in turn, from two tasks on."""
    tasks = len(pairs.sizes)
    if tasks < 2:
        return None
    totals = sums(pairs.deltas, pairs.starts)
    total, count = math.fsum(totals), len(pairs)
    without = (total - totals) / (count - pairs.sizes)
    low, high = int(np.argmin(without)), int(np.argmax(without))
    away = (totals / pairs.sizes - total / count) ** 2
    widest = int(np.argmax(away))
    drives = tasks >= _FEWEST_TO_DRIVE and away[widest] > DRIVES * math.fsum(away)
    return MeanWithout(
        low=float(without[low]),
        low_without=names[pairs.tasks[low]],
        high=float(without[high]),
        high_without=names[pairs.tasks[high]],
        driven_by=names[pairs.tasks[widest]] if drives else None,
        mean_without_it=float(without[widest]) if drives else None,
    )
