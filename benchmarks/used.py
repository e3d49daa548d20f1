"""The effect where the change was used: whether its interval holds, however runs come to use it.

A run that is stuck takes longer, fails more often, and uses the change more often, so that runs
with and without a use differ without any effect. Tasks differ in how often they use it. What is
true is what the change does to a run that uses it; with several effects, their mean over the runs
that use it only because they are the candidate's.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import optimize

from benchmarks.counting import Cell, Count
from benchmarks.generators import logistic
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.results import Interval
from twoarm.explain.where_used import WhereUsed, where_used
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import DURATION, SUCCESS, Metric

LEVEL = 0.95
# The median of a ratio strays much further than a share of data sets, so it is of more of them.
SETS_OF_MEDIANS = 10
# Of logarithms of durations: a task, what being stuck adds, the rest; and of success: being stuck.
TASK_SD, STUCK, NOISE_SD, STUCK_FAILS = 0.8, 0.45, 0.2, 1.0
DRAWN = 200_000


class Using(NamedTuple):
    """Who uses the change, and what it does.

    `share` of the candidate's runs use it, and `contaminated` of the baseline's; `stuck` is how
    much more likely a stuck run is to, and `tasks_sd` how far tasks differ, both in logits.
    `points` is what a use adds to the chance of success, between two rates that leave room for it;
    in this share of tasks, `broken`, no run that uses it passes.
    """

    share: float
    contaminated: float = 0.0
    stuck: float = 1.0
    tasks_sd: float = 1.0
    effect: tuple[float, float] = (-0.357, 0.10)
    points: float = 0.15
    rates: tuple[float, float] = (0.30, 0.80)
    broken: float = 0.0


USING = {
    "W1 30% use it, stuck runs more": Using(0.30),
    "W2 60% use it, stuck runs more": Using(0.60),
    "W3 10% use it": Using(0.10),
    "W4 60% use it, 15% of the baseline": Using(0.60, contaminated=0.15),
    "W5 30% use it, no effect": Using(0.30, effect=(0.0, 0.10), points=0.0),
    "W6 60% use it, some tasks hardly": Using(0.60, tasks_sd=3.0),
    "W7 30% use it, whether stuck or not": Using(0.30, stuck=0.0),
    "W8 all use it": Using(1.0),
    "W9 60% use it, nearly all pass": Using(0.60, points=0.0, rates=(0.97, 1.0)),
    "W10 60% use it, it breaks 10% of tasks": Using(
        0.60, stuck=0.0, points=0.0, rates=(1.0, 1.0), broken=0.10
    ),
}


def used_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    """How often the intervals hold the truth, how far off the estimates are, and what comparing
    runs with and without a use would say."""
    kind = USING[name]
    draw = np.random.default_rng([101, list(USING).index(name), tasks, repeats])
    count = Count()
    middles: dict[str, list[float]] = {"duration": [], "naive": []}
    for number in range(datasets * SETS_OF_MEDIANS):
        drawn = runs_of_use(kind, tasks, repeats, draw)
        effect = effect_of(drawn, DURATION)
        if effect.estimate is not None:
            middles["duration"].append(float(np.log(effect.estimate)))
        used = drawn.used[0] > 0
        if used.any() and not used.all():
            logs = np.log(drawn.durations[0])
            middles["naive"].append(float(logs[used].mean() - logs[~used].mean()))
        if number < datasets:
            _intervals(count, kind, effect.interval, effect_of(drawn, SUCCESS).interval)
    return count.cell() | {
        f"median: {what}": [round(100.0 * float(np.median(values)), 1)]
        for what, values in (
            ("ratio where used", middles["duration"]),
            ("used against not used", middles["naive"]),
        )
        if values
    }


def _intervals(count: Count, kind: Using, ratio: Interval | None, success: Interval | None) -> None:
    given = count.hits["where used: ratio is given"]
    given[0] += ratio is not None
    given[1] += 1
    if ratio is not None:
        # A ratio of zero is too small for a number.
        low, high = np.log(np.maximum([ratio.low, ratio.high], 1e-300))
        count.pair("where used: ratio (b)", low, high, kind.effect[0])
        _alarm(count, kind.effect[0], "where used: ratio", low, high)
    points = kind.points - kind.broken
    count.interval("where used: success (b)", success, points)
    if success is not None:
        _alarm(count, points, "where used: success", success.low, success.high)


def _alarm(count: Count, true: float, what: str, low: float, high: float) -> None:
    if not true:
        entry = count.hits[f"false alarm: {what} (b)"]
        entry[0] += int(not low <= 0.0 <= high)
        entry[1] += 1


class Drawn(NamedTuple):
    """The runs of a data set: by arm, task and repeat."""

    used: Floats
    durations: Floats
    passed: Floats


def runs_of_use(kind: Using, tasks: int, repeats: int, draw: np.random.Generator) -> Drawn:
    """A data set."""
    shape = (2, tasks, repeats)
    stuck = draw.normal(size=shape)
    likes = draw.normal(0.0, kind.tasks_sd, (1, tasks, 1)) + kind.stuck * stuck
    chances = np.stack(
        [
            np.full(shape[1:], share)
            if share in (0.0, 1.0)
            else logistic(likes[side] + _level(share, kind.stuck, kind.tasks_sd))
            for side, share in enumerate((kind.share, kind.contaminated))
        ]
    )
    used = (draw.random(shape) < chances).astype(np.float64)
    effects = draw.normal(*kind.effect, (1, tasks, 1))
    logs = draw.normal(5.0, TASK_SD, (1, tasks, 1)) + STUCK * stuck
    logs = logs + draw.normal(0.0, NOISE_SD, shape) + effects * used
    low, high = kind.rates
    # A stuck run is at the lower end of what is possible, so that a use has room to help.
    rates = low + (high - low) * logistic(
        draw.normal(0.0, 1.0, (1, tasks, 1)) - STUCK_FAILS * stuck
    )
    rates = rates + kind.points * used
    broken = draw.random((1, tasks, 1)) < kind.broken
    passed = (draw.random(shape) < np.where(broken & (used > 0), 0.0, rates)).astype(np.float64)
    return Drawn(used=used, durations=np.exp(logs), passed=passed)


@lru_cache
def _level(share: float, stuck: float, tasks_sd: float) -> float:
    """The logit that makes this share of runs use it."""
    draw = np.random.default_rng(7)
    likes = draw.normal(0.0, tasks_sd, DRAWN) + stuck * draw.normal(size=DRAWN)
    return float(optimize.brentq(lambda level: logistic(likes + level).mean() - share, -20.0, 20.0))


def effect_of(drawn: Drawn, metric: Metric) -> WhereUsed:
    """What a report says of one metric."""
    values = drawn.passed if metric is SUCCESS else drawn.durations
    tasks, repeats = values.shape[1:]
    layout = Layout(tasks=np.arange(tasks), sizes=np.full((2, tasks), repeats))
    runs, uses = (
        TaskRuns(metric=kind, logs=False, values=table.transpose(1, 0, 2).ravel(), layout=layout)
        for kind, table in ((metric, values), (SUCCESS, drawn.used))
    )
    return where_used(runs.on_test_scale(), uses.deltas, LEVEL)
