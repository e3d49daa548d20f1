"""What the charts of the page draw: points per task, per run and per start time, thinned if many.

The page computes nothing, so whatever it draws beyond the analysis file is gathered here. Every
list has a limit: ten million runs draw as many points as ten thousand.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from twoarm import column
from twoarm.column import Floats
from twoarm.metric import COST, DURATION, NON_CACHE_TOKENS, TOKENS, Metric
from twoarm.pair import Pairing
from twoarm.runs import Runs
from twoarm.screen import Screening
from twoarm.tasks import Task

DELTAS = (DURATION, NON_CACHE_TOKENS, TOKENS, COST)
SPREADS = (DURATION, NON_CACHE_TOKENS, COST)

# More tasks than this are thinned, evenly by rank; the tables and the file still hold them all.
MOST_TASKS = 500
# About so many pairs are drawn per metric, and no fewer per task than both ends.
MOST_PAIRS = 1_500
FEWEST_PAIRS_PER_TASK = 2
# So many runs of an arm are drawn in a distribution.
MOST_RUNS = 200
# Up to so many runs each have a mark on the timeline; more are counted in so many stretches.
MOST_STARTS = 400
STRETCHES = 120


class TaskDeltas(msgspec.Struct, frozen=True, kw_only=True):
    """The deltas of one task: their mean, and the pairs that are drawn."""

    task_id: str
    mean: float
    pairs: int
    points: tuple[float, ...]


class MetricDeltas(msgspec.Struct, frozen=True, kw_only=True):
    """The deltas of one metric, the tasks in order of their mean."""

    metric: str
    tasks: tuple[TaskDeltas, ...]
    task_count: int
    pair_count: int


class TaskSuccess(msgspec.Struct, frozen=True, kw_only=True):
    """The success rates of one task in both arms, and how many pairs flipped each way."""

    task_id: str
    candidate: float
    baseline: float
    gained: int
    lost: int


class Successes(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks with runs in both arms, in order of the difference."""

    tasks: tuple[TaskSuccess, ...]
    task_count: int


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs of one arm spread: three quartiles, and the runs that are drawn.

    `not_positive` runs have no place on a logarithmic axis.
    """

    runs: int
    not_positive: int
    quartiles: tuple[float, float, float]
    points: tuple[float, ...]


class MetricSpread(msgspec.Struct, frozen=True, kw_only=True):
    """How one metric spreads in both arms; None for an arm with nothing to draw."""

    metric: str
    candidate: Spread | None
    baseline: Spread | None


class TaskCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one task costs in one arm, and how often it succeeds there."""

    task_id: str
    candidate: bool
    median_cost_usd: float
    success_rate: float


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or several that started in the same stretch of time, in seconds since 1970."""

    at: float
    until: float
    runs: int
    task_id: str | None


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """When the runs of both arms started."""

    candidate: tuple[Start, ...]
    baseline: tuple[Start, ...]
    timed: int
    untimed: int


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the charts draw that is not in the analysis file."""

    deltas: tuple[MetricDeltas, ...]
    successes: Successes
    spreads: tuple[MetricSpread, ...]
    costs: tuple[TaskCost, ...]
    starts: Starts


def draw(runs: Runs, screening: Screening, pairing: Pairing, tasks: tuple[Task, ...]) -> Drawing:
    """Gather the points of every chart."""
    bounds = column.bounds(pairing.task, len(runs.tasks))
    pairs = {
        name: slice(a, b)
        for name, (a, b) in zip(runs.tasks, pairwise(bounds), strict=True)
        if a < b
    }
    return Drawing(
        deltas=tuple(_deltas(metric, pairing, pairs, tasks) for metric in DELTAS),
        successes=_successes(tasks),
        spreads=tuple(
            MetricSpread(
                metric=metric.name,
                candidate=_spread(screening.candidate.values[metric.name]),
                baseline=_spread(screening.baseline.values[metric.name]),
            )
            for metric in SPREADS
        ),
        costs=tuple(_costs(tasks)),
        starts=_starts(runs, screening),
    )


def _deltas(
    metric: Metric, pairing: Pairing, pairs: dict[str, slice], tasks: tuple[Task, ...]
) -> MetricDeltas:
    found = []
    total = 0
    each = max(FEWEST_PAIRS_PER_TASK, MOST_PAIRS // max(1, min(len(pairs), MOST_TASKS)))
    for task in tasks:
        mean = getattr(task, f"mean_{metric.delta}")
        if mean is not None:
            deltas = column.measured(pairing.deltas[metric.name][pairs[task.task_id]])
            total += len(deltas)
            points = tuple(column.spaced(deltas, each))
            found.append(
                TaskDeltas(task_id=task.task_id, mean=mean, pairs=len(deltas), points=points)
            )
    found.sort(key=lambda task: (task.mean, task.task_id))
    return MetricDeltas(
        metric=metric.name,
        tasks=tuple(column.thinned(found, MOST_TASKS)),
        task_count=len(found),
        pair_count=total,
    )


def _successes(tasks: tuple[Task, ...]) -> Successes:
    found = []
    for task in tasks:
        if task.candidate.runs and task.baseline.runs:
            found.append(
                TaskSuccess(
                    task_id=task.task_id,
                    candidate=task.candidate.successes / task.candidate.runs,
                    baseline=task.baseline.successes / task.baseline.runs,
                    gained=task.gained,
                    lost=task.lost,
                )
            )
    found.sort(key=lambda task: (task.baseline - task.candidate, -task.baseline, task.task_id))
    return Successes(tasks=tuple(column.thinned(found, MOST_TASKS)), task_count=len(found))


def _spread(values: Floats) -> Spread | None:
    measured = column.measured(values)
    positive = column.above_zero(measured)
    if not len(positive):
        return None
    low, middle, high = column.at_ranks(positive, [0.25, 0.5, 0.75])
    return Spread(
        runs=len(measured),
        not_positive=len(measured) - len(positive),
        quartiles=(low, column.median(positive) or middle, high),
        points=tuple(column.spaced(positive, MOST_RUNS)),
    )


def _costs(tasks: tuple[Task, ...]) -> Iterator[TaskCost]:
    for task in column.thinned(list(tasks), MOST_TASKS):
        for candidate, arm in ((True, task.candidate), (False, task.baseline)):
            if arm.median_cost_usd is not None:
                yield TaskCost(
                    task_id=task.task_id,
                    candidate=candidate,
                    median_cost_usd=arm.median_cost_usd,
                    success_rate=arm.successes / arm.runs,
                )


def _starts(runs: Runs, screening: Screening) -> Starts:
    counted = len(screening.candidate) + len(screening.baseline)
    if not len(runs.started):
        return Starts(candidate=(), baseline=(), timed=0, untimed=counted)
    timed = [
        column.take(arm.rows, column.measured_rows(column.take(runs.started, arm.rows)))
        for arm in screening.arms
    ]
    times = [column.take(runs.started, rows) for rows in timed]
    total = len(times[0]) + len(times[1])
    if total > MOST_STARTS:
        first = min(column.smallest(one) for one in times if len(one))
        last = max(column.largest(one) for one in times if len(one))
        ours, theirs = (tuple(_stretches(one, first, last)) for one in times)
    else:
        ours, theirs = (
            tuple(
                Start(at=at, until=at, runs=1, task_id=runs.tasks[int(runs.task[row])])
                for at, row in sorted(
                    (float(at), int(row)) for at, row in zip(one, rows, strict=True)
                )
            )
            for one, rows in zip(times, timed, strict=True)
        )
    return Starts(candidate=ours, baseline=theirs, timed=total, untimed=counted - total)


def _stretches(times: Floats, first: float, last: float) -> Iterator[Start]:
    wide = (last - first) / STRETCHES or 1.0
    for number, runs in enumerate(column.histogram(times, first, wide, STRETCHES)):
        if runs:
            at = first + number * wide
            yield Start(at=at, until=at + wide, runs=runs, task_id=None)
