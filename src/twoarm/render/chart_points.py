"""What the charts of the page draw: points per task, per run and per start time, thinned if many.

The page computes nothing, so whatever it draws beyond the analysis file is gathered here, when a
page is asked for. Every list has a limit: ten million runs draw as many points as ten thousand.
"""

from collections.abc import Iterator
from typing import TypeVar

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.screen import ArmRuns
from twoarm.compare.tasks import Task
from twoarm.runs.arrays import Floats, at_ranks, measured, median, spaced, starts_of
from twoarm.runs.metric import COST, DURATION, NON_CACHE_TOKENS, TOKENS, Metric
from twoarm.runs.runs import Runs

# In the order of the page.
DELTAS = (DURATION, NON_CACHE_TOKENS, TOKENS, COST)
SPREADS = tuple(metric for metric in DELTAS if metric.spread)

T = TypeVar("T")

# More tasks than this are thinned, evenly by rank; the tables and the file still hold them all.
MOST_TASKS = 500
# About this many pairs are drawn per metric, and no fewer per task than both ends.
MOST_PAIRS = 1_500
FEWEST_PAIRS_PER_TASK = 2
# This many runs of an arm are drawn in a distribution.
MOST_RUNS = 200
# Up to this many runs each have a mark on the timeline; more are counted in this many stretches.
MOST_STARTS = 400
STRETCHES = 120


class TaskDeltas(msgspec.Struct, frozen=True, kw_only=True):
    """The deltas of one task: their mean, and the pairs that are drawn."""

    task_id: str
    mean: float
    pairs: int
    points: tuple[float, ...]
    # Of the pairs that are drawn.
    repeats: tuple[int, ...]


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


class RunSpread(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs of one arm spread: three quartiles, and the runs that are drawn.

    `not_positive` runs have no place on a logarithmic axis.
    """

    runs: int
    not_positive: int
    quartiles: tuple[float, float, float]
    points: tuple[float, ...]
    # Task and repeat of the runs that are drawn.
    drawn: tuple[tuple[str, int], ...]


class MetricSpread(msgspec.Struct, frozen=True, kw_only=True):
    """How one metric spreads in both arms; None for an arm with nothing to draw."""

    metric: str
    candidate: RunSpread | None
    baseline: RunSpread | None


class TaskCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one task costs in one arm, and how often it succeeds there."""

    task_id: str
    candidate: bool
    median_cost_usd: float
    success_rate: float


class RunStart(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or several that started in the same stretch of time, in seconds since 1970."""

    at: float
    until: float
    runs: int
    task_id: str | None
    repeat: int | None


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """When the runs of both arms started."""

    candidate: tuple[RunStart, ...]
    baseline: tuple[RunStart, ...]
    timed: int
    untimed: int


class ChartPoints(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the charts draw that is not in the analysis file."""

    deltas: tuple[MetricDeltas, ...]
    successes: Successes
    spreads: tuple[MetricSpread, ...]
    costs: tuple[TaskCost, ...]
    starts: Starts


def chart_points(comparison: Comparison) -> ChartPoints:
    """Gather the points of every chart."""
    ours, theirs = comparison.screening.arms
    return ChartPoints(
        deltas=tuple(_deltas(metric, comparison) for metric in DELTAS),
        successes=_successes(comparison.tasks),
        spreads=tuple(
            MetricSpread(
                metric=metric.name,
                candidate=_spread(ours, metric, comparison.runs),
                baseline=_spread(theirs, metric, comparison.runs),
            )
            for metric in SPREADS
        ),
        costs=tuple(_costs(comparison.tasks)),
        starts=_starts(comparison),
    )


def _deltas(metric: Metric, comparison: Comparison) -> MetricDeltas:
    names, pairing = comparison.runs.tasks, comparison.pairing
    ours = comparison.screening.candidate
    starts = dict(zip(names, starts_of(pairing.task, len(names)).tolist(), strict=False))
    paired = sum(bool(task.pairs) for task in comparison.tasks)
    each = max(FEWEST_PAIRS_PER_TASK, MOST_PAIRS // max(1, min(paired, MOST_TASKS)))
    tasks = []
    total = 0
    for task in comparison.tasks:
        mean = getattr(task, f"mean_{metric.delta}")
        if mean is not None:
            first = starts[task.task_id]
            deltas = pairing.deltas[metric.name][first : first + task.pairs]
            known = np.flatnonzero(~np.isnan(deltas))
            total += len(known)
            drawn = known[spaced(deltas[known], each)]
            rows = ours.rows[pairing.candidate[first + drawn]]
            tasks.append(
                TaskDeltas(
                    task_id=task.task_id,
                    mean=mean,
                    pairs=len(known),
                    points=tuple(deltas[drawn].tolist()),
                    repeats=tuple(comparison.runs.repeat[rows].tolist()),
                )
            )
    tasks.sort(key=lambda task: (task.mean, task.task_id))
    return MetricDeltas(
        metric=metric.name,
        tasks=tuple(thinned(tasks)),
        task_count=len(tasks),
        pair_count=total,
    )


def thinned(items: list[T]) -> list[T]:
    """The items in their order; if they are too many, some at even steps, with both ends."""
    if len(items) <= MOST_TASKS:
        return items
    return [items[round(i * (len(items) - 1) / (MOST_TASKS - 1))] for i in range(MOST_TASKS)]


def _successes(tasks: tuple[Task, ...]) -> Successes:
    compared = [
        TaskSuccess(
            task_id=task.task_id,
            candidate=task.candidate.successes / task.candidate.runs,
            baseline=task.baseline.successes / task.baseline.runs,
            gained=task.gained,
            lost=task.lost,
        )
        for task in tasks
        if task.candidate.runs and task.baseline.runs
    ]
    compared.sort(key=lambda task: (task.baseline - task.candidate, -task.baseline, task.task_id))
    return Successes(tasks=tuple(thinned(compared)), task_count=len(compared))


def _spread(arm: ArmRuns, metric: Metric, runs: Runs) -> RunSpread | None:
    values = arm.values[metric.name]
    known = measured(values)
    above = np.flatnonzero(values > 0)
    positive = values[above]
    if not len(positive):
        return None
    drawn = above[spaced(positive, MOST_RUNS)]
    rows = arm.rows[drawn]
    low, middle, high = at_ranks(positive, [0.25, 0.5, 0.75])
    return RunSpread(
        runs=len(known),
        not_positive=len(known) - len(positive),
        quartiles=(low, median(positive) or middle, high),
        points=tuple(values[drawn].tolist()),
        drawn=tuple(
            (runs.tasks[task], repeat)
            for task, repeat in zip(
                runs.task[rows].tolist(), runs.repeat[rows].tolist(), strict=True
            )
        ),
    )


def _costs(tasks: tuple[Task, ...]) -> Iterator[TaskCost]:
    for task in thinned(list(tasks)):
        for candidate, arm in ((True, task.candidate), (False, task.baseline)):
            if arm.median_cost_usd is not None:
                yield TaskCost(
                    task_id=task.task_id,
                    candidate=candidate,
                    median_cost_usd=arm.median_cost_usd,
                    success_rate=arm.successes / arm.runs,
                )


def _starts(comparison: Comparison) -> Starts:
    runs, arms = comparison.runs, comparison.screening.arms
    counted = sum(map(len, arms))
    if not len(runs.started):
        return Starts(candidate=(), baseline=(), timed=0, untimed=counted)
    timed = [arm.rows[~np.isnan(runs.started[arm.rows])] for arm in arms]
    times = [runs.started[rows] for rows in timed]
    total = sum(map(len, times))
    if total > MOST_STARTS:
        every = np.concatenate(times)
        first, last = float(every.min()), float(every.max())
        ours, theirs = (tuple(_stretches(starts, first, last)) for starts in times)
    else:
        ours, theirs = (
            tuple(
                RunStart(
                    at=at,
                    until=at,
                    runs=1,
                    task_id=runs.tasks[int(runs.task[row])],
                    repeat=int(runs.repeat[row]),
                )
                for at, row in sorted(zip(starts.tolist(), rows.tolist(), strict=True))
            )
            for starts, rows in zip(times, timed, strict=True)
        )
    return Starts(candidate=ours, baseline=theirs, timed=total, untimed=counted - total)


def _stretches(times: Floats, first: float, last: float) -> Iterator[RunStart]:
    wide = (last - first) / STRETCHES or 1.0
    stretch = np.minimum(STRETCHES - 1, ((times - first) / wide).astype(np.int64))
    for number, runs in enumerate(np.bincount(stretch, minlength=STRETCHES).tolist()):
        if runs:
            at = first + number * wide
            yield RunStart(at=at, until=at + wide, runs=runs, task_id=None, repeat=None)
