"""Each arm on its own."""

import math

import msgspec
import numpy as np

from twoarm.compare.screen import ArmRuns
from twoarm.runs.arrays import measured, median, total
from twoarm.runs.metric import COST, METRICS, SUCCESS


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one arm, each over the runs that have it; `missing` counts the others."""

    arm: str
    runs: int
    successes: int
    success_rate: float | None
    total_cost_usd: float | None
    avg_cost_usd: float | None
    median_cost_usd: float | None
    median_duration_seconds: float | None
    median_total_tokens: float | None
    median_non_cache_tokens: float | None
    median_cache_read_tokens: float | None
    median_cache_write_tokens: float | None
    median_step_count: float | None
    median_tool_call_count: float | None
    median_acceptance_cmd_count: float | None
    solved_per_dollar: float | None
    missing: dict[str, int]


def summarize(arm: ArmRuns) -> ArmSummary:
    """Counts, rates, sums and medians of the runs that count."""
    success = arm.values[SUCCESS.name]
    successes = int(success.sum())
    with_cost = ~np.isnan(arm.values[COST.name])
    costs = arm.values[COST.name][with_cost]
    total_cost = total(costs) if len(costs) else None
    solved = float(success[with_cost].sum())
    known = {metric.name: measured(arm.values[metric.name]) for metric in METRICS}
    return ArmSummary(
        arm=arm.arm,
        runs=len(arm),
        successes=successes,
        success_rate=successes / len(arm) if len(arm) else None,
        total_cost_usd=total_cost,
        avg_cost_usd=total_cost / len(costs) if total_cost is not None else None,
        solved_per_dollar=_finite(solved / total_cost) if total_cost else None,
        missing={name: len(arm) - len(values) for name, values in known.items()},
        **{
            metric.median: median(known[metric.name])
            for metric in METRICS
            if metric.median is not None
        },
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
