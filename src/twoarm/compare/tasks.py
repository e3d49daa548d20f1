"""Each task in both arms: repeats, successes, middle values, and how much its repeats vary."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from twoarm.compare.families import Families
from twoarm.compare.pair import Pairing
from twoarm.compare.screen import ArmRuns, Screening
from twoarm.runs.arrays import Floats, Ints, medians, or_none, squares, starts_of
from twoarm.runs.metric import COST, DURATION, JUDGED, NON_CACHE_TOKENS, SUCCESS, Metric
from twoarm.runs.runs import Runs

# A task is high-variance from this standard deviation on, as a share of the mean.
HIGH_SPREAD = 0.5

_MEDIANS = (COST, DURATION, NON_CACHE_TOKENS)
_SPREAD_METRICS = (DURATION, NON_CACHE_TOKENS)


class TaskArm(msgspec.Struct, frozen=True, kw_only=True):
    """One task in one arm; `missing` counts runs without a gate's metric, where there are any."""

    runs: int
    successes: int
    median_cost_usd: float | None
    median_duration_seconds: float | None
    median_non_cache_tokens: float | None
    missing: dict[str, int]

    def repeats_with(self, metric: Metric) -> int:
        """How many of its runs have the metric."""
        return self.runs - self.missing.get(metric.name, 0)


TaskStanding = Literal["higher", "lower", "unchanged"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task in both arms, with the mean of its paired deltas.

    `standing` compares the success rates; `gained` and `lost` are the pairs in which only the
    candidate, or only the baseline, succeeded. `family` is null where none is named.
    """

    task_id: str
    task_tags: tuple[str, ...]
    family: str | None
    candidate: TaskArm
    baseline: TaskArm
    standing: TaskStanding | None
    gained: int
    lost: int
    pairs: int
    mean_pass_delta: float | None
    mean_cost_delta_usd: float | None
    mean_duration_delta_seconds: float | None
    mean_token_delta: float | None
    mean_non_cache_token_delta: float | None
    high_variance: tuple[str, ...]


def families_of(tasks: Sequence[Task]) -> int | None:
    """How many families some tasks have; None where no two are of one."""
    # A task without a name for its family is one of its own.
    count = len({(task.family, task.family is None and task.task_id) for task in tasks})
    return count if count < len(tasks) else None


def tabulate(
    runs: Runs,
    families: Families,
    screening: Screening,
    pairing: Pairing,
    gated: Sequence[Metric],
) -> tuple[Task, ...]:
    """One entry for every task with a run that counts, in order of name."""
    names, tags = runs.tasks, runs.tags_by_task
    tables = [_ArmTable(arm, len(names), gated) for arm in screening.arms]
    seen = np.flatnonzero(tables[0].runs + tables[1].runs)
    pairs = np.bincount(pairing.task, minlength=len(names)).tolist()
    flips = pairing.deltas[SUCCESS.name]
    gained, lost = (
        np.bincount(pairing.task[flips == sign], minlength=len(names)).tolist() for sign in (1, -1)
    )
    means = [
        (f"mean_{metric.delta}", _means(pairing.deltas[metric.name], pairing.task, len(names)))
        for metric in JUDGED
    ]
    varied = {
        metric.name: tables[0].varied[metric.name] | tables[1].varied[metric.name]
        for metric in (SUCCESS, *_SPREAD_METRICS)
    }
    candidates, baselines = (list(table.rows(seen)) for table in tables)
    return tuple(
        Task(
            task_id=names[code],
            task_tags=tags[code],
            family=families.names[code],
            candidate=ours,
            baseline=theirs,
            standing=_standing(ours, theirs),
            gained=gained[code],
            lost=lost[code],
            pairs=pairs[code],
            high_variance=tuple(sorted(name for name, column in varied.items() if column[code])),
            **{name: column[code] for name, column in means},
        )
        for code, ours, theirs in zip(seen.tolist(), candidates, baselines, strict=True)
    )


class _ArmTable:
    """The figures of every task in one arm, an array each."""

    def __init__(self, arm: ArmRuns, tasks: int, gated: Sequence[Metric]) -> None:
        self.starts = starts_of(arm.task, tasks)
        self.runs = np.diff(self.starts)
        success = arm.values[SUCCESS.name]
        self.successes = np.bincount(arm.task, weights=success, minlength=tasks).astype(np.int64)
        self.medians = {m.name: medians(arm.values[m.name], self.starts) for m in _MEDIANS}
        self.missing = {
            metric.name: np.bincount(arm.task[np.isnan(arm.values[metric.name])], minlength=tasks)
            for metric in gated
        }
        self.varied = {
            metric.name: _spreads(arm.values[metric.name], arm.task, tasks) >= HIGH_SPREAD
            for metric in _SPREAD_METRICS
        }
        self.varied[SUCCESS.name] = (self.successes > 0) & (self.successes < self.runs)

    def rows(self, tasks: Ints) -> Iterator[TaskArm]:
        """The figures of some tasks."""
        missing = {name: counts[tasks].tolist() for name, counts in self.missing.items()}
        middles = [or_none(self.medians[metric.name][tasks]) for metric in _MEDIANS]
        for at, (runs, successes, cost, duration, tokens) in enumerate(
            zip(self.runs[tasks].tolist(), self.successes[tasks].tolist(), *middles, strict=True)
        ):
            yield TaskArm(
                runs=runs,
                successes=successes,
                median_cost_usd=cost,
                median_duration_seconds=duration,
                median_non_cache_tokens=tokens,
                missing={name: counts[at] for name, counts in missing.items() if counts[at]},
            )


def _standing(candidate: TaskArm, baseline: TaskArm) -> TaskStanding | None:
    if not candidate.runs or not baseline.runs:
        return None
    ours = candidate.successes * baseline.runs
    theirs = baseline.successes * candidate.runs
    return "higher" if ours > theirs else "lower" if ours < theirs else "unchanged"


def _means(values: Floats, task: Ints, tasks: int) -> list[Any]:
    """The mean of what was measured in each task."""
    known = ~np.isnan(values)
    values, task = values[known], task[known]
    with np.errstate(invalid="ignore"):
        sums = np.bincount(task, weights=values, minlength=tasks)
        return or_none(sums / np.bincount(task, minlength=tasks))


def _spreads(values: Floats, task: Ints, tasks: int) -> Floats:
    """The standard deviation of each task as a share of its mean; 0 of one value or a zero mean."""
    known = ~np.isnan(values)
    values, task = values[known], task[known]
    counts = np.bincount(task, minlength=tasks)
    some = counts > 0
    starts = np.concatenate(([0], np.cumsum(counts[some])))
    spreads = np.zeros(tasks)
    within = np.zeros(tasks)
    within[some] = squares(values, starts)
    means = np.bincount(task, weights=values, minlength=tasks) / np.maximum(counts, 1)
    clear = (counts > 1) & (means != 0)
    spreads[clear] = np.sqrt(within[clear] / (counts[clear] - 1)) / means[clear]
    return spreads
