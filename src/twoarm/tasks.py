"""Each task in both arms: repeats, successes, middle values, and how much its repeats differ."""

from typing import Literal

import msgspec

from twoarm import column
from twoarm.metric import COST, DURATION, NON_CACHE_TOKENS, SUCCESS, TOKENS, Metric
from twoarm.pair import Pairing
from twoarm.screen import ArmRuns, Screening

# A task is high-variance from this standard deviation on, as a share of the mean.
HIGH_SPREAD = 0.5

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


Standing = Literal["helped", "hurt", "unchanged"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task in both arms, with the mean of its paired deltas.

    `standing` compares the success rates; `gained` and `lost` are the pairs in which only the
    candidate, or only the baseline, succeeded.
    """

    task_id: str
    candidate: TaskArm
    baseline: TaskArm
    standing: Standing | None
    gained: int
    lost: int
    pairs: int
    mean_pass_delta: float | None
    mean_cost_delta_usd: float | None
    mean_duration_delta_seconds: float | None
    mean_token_delta: float | None
    mean_non_cache_token_delta: float | None
    high_variance: list[str]


def tabulate(names: tuple[str, ...], screening: Screening, pairing: Pairing) -> tuple[Task, ...]:
    """One entry for every task with a run that counts, in order of name."""
    arms = screening.arms
    starts = [column.bounds(arm.task, len(names)) for arm in arms]
    pair_starts = column.bounds(pairing.task, len(names))
    tasks = []
    for code, name in enumerate(names):
        slices = [slice(bound[code], bound[code + 1]) for bound in starts]
        pairs = slice(pair_starts[code], pair_starts[code + 1])
        if all(part.start == part.stop for part in slices):
            continue
        candidate, baseline = (_task_arm(arm, part) for arm, part in zip(arms, slices, strict=True))
        tasks.append(
            Task(
                task_id=name,
                candidate=candidate,
                baseline=baseline,
                standing=_standing(candidate, baseline),
                gained=column.count_equal(pairing.deltas[SUCCESS.name][pairs], 1.0),
                lost=column.count_equal(pairing.deltas[SUCCESS.name][pairs], -1.0),
                pairs=pairs.stop - pairs.start,
                high_variance=sorted(
                    {
                        metric.name
                        for arm, part in zip(arms, slices, strict=True)
                        for metric in _high_variance(arm, part)
                    }
                ),
                **{
                    f"mean_{metric.delta}": column.mean(
                        column.measured(pairing.deltas[metric.name][pairs])
                    )
                    for metric in (SUCCESS, COST, DURATION, TOKENS, NON_CACHE_TOKENS)
                },
            )
        )
    return tuple(tasks)


def _standing(candidate: TaskArm, baseline: TaskArm) -> Standing | None:
    if not candidate.runs or not baseline.runs:
        return None
    ours = candidate.successes * baseline.runs
    theirs = baseline.successes * candidate.runs
    return "helped" if ours > theirs else "hurt" if ours < theirs else "unchanged"


def _task_arm(arm: ArmRuns, part: slice) -> TaskArm:
    runs = part.stop - part.start
    measured = {
        metric: column.measured(arm.values[metric.name][part])
        for metric in (COST, DURATION, NON_CACHE_TOKENS)
    }
    return TaskArm(
        runs=runs,
        successes=int(column.total(arm.values[SUCCESS.name][part])),
        median_cost_usd=column.median(measured[COST]),
        median_duration_seconds=column.median(measured[DURATION]),
        median_non_cache_tokens=column.median(measured[NON_CACHE_TOKENS]),
        missing={
            metric.name: runs - len(measured[metric])
            for metric in _SPREAD_METRICS
            if len(measured[metric]) < runs
        },
    )


def _high_variance(arm: ArmRuns, part: slice) -> list[Metric]:
    """The metrics in which the repeats of one task and arm differ much."""
    found = []
    passed = column.total(arm.values[SUCCESS.name][part])
    if 0 < passed < part.stop - part.start:
        found.append(SUCCESS)
    for metric in _SPREAD_METRICS:
        spread = column.spread(column.measured(arm.values[metric.name][part]))
        if spread is not None and spread >= HIGH_SPREAD:
            found.append(metric)
    return found
