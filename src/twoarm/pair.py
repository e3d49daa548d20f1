"""Same task, same repeat, two arms; deltas."""

import msgspec

from twoarm import column
from twoarm.column import Floats, Ints
from twoarm.metric import METRICS
from twoarm.screen import ArmRuns, Screening


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
    both = column.match(candidate.key, baseline.key)
    return Pairing(
        candidate=both.left,
        baseline=both.right,
        task=column.take(candidate.task, both.left),
        deltas={
            metric.name: column.subtracted(
                column.take(candidate.values[metric.name], both.left),
                column.take(baseline.values[metric.name], both.right),
            )
            for metric in METRICS
        },
        unpaired=len(candidate) + len(baseline) - 2 * len(both.left),
    )


def paired_arms(screening: Screening, pairing: Pairing) -> tuple[ArmRuns, ArmRuns]:
    """Both arms without the runs that have no partner in the other."""
    return (
        _only(screening.candidate, pairing.candidate),
        _only(screening.baseline, pairing.baseline),
    )


def _only(arm: ArmRuns, at: Ints) -> ArmRuns:
    return ArmRuns(
        arm=arm.arm,
        rows=column.take(arm.rows, at),
        task=column.take(arm.task, at),
        key=column.take(arm.key, at),
        values={name: column.take(values, at) for name, values in arm.values.items()},
    )


def aggregate(pairing: Pairing) -> Paired:
    """Mean and median of each delta, over the pairs that have it."""
    measured = {metric: column.measured(pairing.deltas[metric.name]) for metric in METRICS}
    figures: dict[str, float | None] = {}
    for metric, deltas in measured.items():
        figures[f"mean_{metric.delta}"] = column.mean(deltas)
        figures[f"median_{metric.delta}"] = column.median(deltas)
    return Paired(
        paired_runs=len(pairing),
        unpaired_runs=pairing.unpaired,
        pairs_with={metric.name: len(deltas) for metric, deltas in measured.items()},
        **figures,
    )
