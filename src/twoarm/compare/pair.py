"""Same task, same repeat, two arms; deltas."""

import msgspec
import numpy as np

from twoarm.compare.screen import Screening
from twoarm.runs.arrays import Floats, Ints, mean, measured, median
from twoarm.runs.metric import METRICS, SCORE


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs in order of task and repeat, and a column of deltas per metric name.

    `candidate` and `baseline` are positions in the runs of each arm.
    """

    candidate: Ints
    baseline: Ints
    task: Ints
    deltas: dict[str, Floats]
    unpaired: int

    def __len__(self) -> int:
        return len(self.task)


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """Mean and median of every delta, candidate minus baseline."""

    paired_runs: int
    unpaired_runs: int
    mean_pass_delta: float | None
    median_pass_delta: float | None
    mean_cost_delta_usd: float | None
    median_cost_delta_usd: float | None
    mean_duration_delta_seconds: float | None
    median_duration_delta_seconds: float | None
    mean_token_delta: float | None
    median_token_delta: float | None
    mean_non_cache_token_delta: float | None
    median_non_cache_token_delta: float | None
    mean_cache_read_token_delta: float | None
    median_cache_read_token_delta: float | None
    mean_cache_write_token_delta: float | None
    median_cache_write_token_delta: float | None
    mean_step_count_delta: float | None
    median_step_count_delta: float | None
    mean_tool_call_count_delta: float | None
    median_tool_call_count_delta: float | None
    mean_acceptance_cmd_count_delta: float | None
    median_acceptance_cmd_count_delta: float | None
    pairs_with: dict[str, int]


def pair(screening: Screening) -> Pairing:
    """Match the runs of the two arms by task and repeat."""
    candidate, baseline = screening.arms
    # Both are in order of their keys, and no key occurs twice.
    at = np.searchsorted(baseline.key, candidate.key)
    at[at == len(baseline)] = 0
    shared = baseline.key[at] == candidate.key if len(baseline) else np.zeros(len(at), dtype=bool)
    ours, theirs = np.flatnonzero(shared), at[shared]
    return Pairing(
        candidate=ours,
        baseline=theirs,
        task=candidate.task[ours],
        deltas={
            metric.name: candidate.values[metric.name][ours] - baseline.values[metric.name][theirs]
            for metric in (*METRICS, SCORE)
        },
        unpaired=len(candidate) + len(baseline) - 2 * len(ours),
    )


def aggregate(pairing: Pairing) -> Paired:
    """Mean and median of each delta, over the pairs that have it."""
    known = {metric: measured(pairing.deltas[metric.name]) for metric in METRICS}
    figures: dict[str, float | None] = {}
    for metric, deltas in known.items():
        figures[f"mean_{metric.delta}"] = mean(deltas)
        figures[f"median_{metric.delta}"] = median(deltas)
    return Paired(
        paired_runs=len(pairing),
        unpaired_runs=pairing.unpaired,
        pairs_with={metric.name: len(deltas) for metric, deltas in known.items()},
        **figures,
    )
