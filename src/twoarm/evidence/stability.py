"""How the decision fares when tasks and repeats are drawn again, or one task is left out."""

import math
from typing import TYPE_CHECKING

import msgspec

from twoarm import column
from twoarm.decide import decide, judge
from twoarm.evidence.cells import Grouped, measured
from twoarm.evidence.interval import SIX, Frame
from twoarm.evidence.resample import Resamples, Tables, draws
from twoarm.metric import DURATION, NON_CACHE_TOKENS, SUCCESS
from twoarm.screen import ArmRuns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats2 = NDArray[np.float64]

# Two-stage resampling is done run by run up to so many runs, and so many draws in all.
MOST_RUNS = 40_000
MOST_DRAWS = 2_000_000
FEWEST_RESAMPLES = 200

TWO_STAGE = "tasks and repeats resampled"
ONE_STAGE = "tasks resampled"

# Resamples at a time: what they need stays in the processor's cache.
_ROWS = 128

_TASKS, _REPEATS = 104, 105


class Stability(msgspec.Struct, frozen=True, kw_only=True):
    """The share of resamples with each decision: stability, not the probability of being right."""

    decision_share: float
    shares: dict[str, float]
    resamples: int
    method: str


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What the gates look at, for a resample."""

    success_rate: float | None
    median_duration_seconds: float | None
    median_non_cache_tokens: float | None


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """What the gates look at, for many resamples; NaN where a resample has no value."""

    success_rate: "Floats2"
    duration: "Floats2"
    tokens: "Floats2"


class ArmSample(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one arm in the tasks that both arms have, by task."""

    arm: str
    success: Grouped
    duration: Grouped
    tokens: Grouped


def sample(arm: ArmRuns, task_count: int, tasks: set[int]) -> ArmSample:
    """The runs of an arm in these tasks; a value not measured stays NaN."""
    rows = column.rows_where(arm.task, [code in tasks for code in range(task_count)])
    codes = column.take(arm.task, rows)
    bounds = column.bounds(codes, task_count)
    kept = sorted(tasks)
    starts = [bounds[code] for code in kept] + [bounds[-1]]
    return ArmSample(
        arm=arm.arm,
        **{
            name: Grouped(
                values=column.take(arm.values[metric.name], rows), tasks=kept, starts=starts
            )
            for name, metric in (
                ("success", SUCCESS),
                ("duration", DURATION),
                ("tokens", NON_CACHE_TOKENS),
            )
        },
    )


def decision_stability(
    decision: str,
    ours: ArmSample,
    theirs: ArmSample,
    names: tuple[str, str],
    frame: Frame,
    resamples: Resamples,
    tables: Tables,
) -> Stability:
    """The shares of the decisions; they mean something from six tasks on."""
    import numpy as np

    tasks = len(ours.success.sizes)
    runs = sum(ours.success.sizes) + sum(theirs.success.sizes)
    if runs <= MOST_RUNS:
        count = max(FEWEST_RESAMPLES, min(frame.resamples, MOST_DRAWS // runs))
        drawn = draws([frame.seed, _TASKS], count, tasks, tasks)
        candidate = _two_stage(ours, drawn, [frame.seed, _REPEATS, 0])
        baseline = _two_stage(theirs, drawn, [frame.seed, _REPEATS, 1])
        chances = np.full(count, 1.0 / count)
        method = TWO_STAGE
    else:
        candidate, baseline = (
            Columns(
                success_rate=_rates(arm, resamples.weights, resamples.unit),
                duration=tables.drawn(arm.arm, measured(arm.duration), DURATION, resamples),
                tokens=tables.drawn(arm.arm, measured(arm.tokens), NON_CACHE_TOKENS, resamples),
            )
            for arm in (ours, theirs)
        )
        chances = resamples.chances
        method = ONE_STAGE
    decisions = _decisions(candidate, baseline, names)
    shares: dict[str, float] = {}
    for found in sorted(set(decisions)):
        shares[found] = min(1.0, math.fsum(chances[[one == found for one in decisions]]))
    return Stability(
        decision_share=shares.get(decision, 0.0),
        shares=shares,
        resamples=len(chances),
        method=method,
    )


def decision_without(
    ours: ArmSample, theirs: ArmSample, names: tuple[str, str], task: int | None
) -> str:
    """The decision without one task, or of the sample as it is."""

    def figures(arm: ArmSample) -> Figures:
        first, last = (0, 0) if task is None else arm.success.starts[task : task + 2]
        success = column.outside(arm.success.values, first, last)
        return Figures(
            success_rate=column.mean(success),
            median_duration_seconds=column.median(
                column.measured(column.outside(arm.duration.values, first, last))
            ),
            median_non_cache_tokens=column.median(
                column.measured(column.outside(arm.tokens.values, first, last))
            ),
        )

    return decide(judge(figures(ours), figures(theirs)), *names)


def without_each_task(
    ours: ArmSample, theirs: ArmSample, names: tuple[str, str], tables: Tables
) -> list[str]:
    """The decision without each task in turn, in order of task."""
    tasks = len(ours.success.sizes)
    if tasks < SIX:
        return [decision_without(ours, theirs, names, task) for task in range(tasks)]
    import numpy as np

    weights = 1.0 - np.eye(tasks)
    unit = np.arange(tasks)
    candidate, baseline = (
        Columns(
            success_rate=_rates(arm, weights, unit),
            duration=tables.table(arm.arm, measured(arm.duration), DURATION, unit).medians(weights),
            tokens=tables.table(arm.arm, measured(arm.tokens), NON_CACHE_TOKENS, unit).medians(
                weights
            ),
        )
        for arm in (ours, theirs)
    )
    return _decisions(candidate, baseline, names)


def _rates(arm: ArmSample, weights: "Floats2", unit: "NDArray[np.int64]") -> "Floats2":
    import numpy as np

    def totals(per_task: list[float]) -> "Floats2":
        return weights @ np.bincount(unit, weights=per_task, minlength=weights.shape[1])

    runs = totals([float(size) for size in arm.success.sizes])
    passed = totals(column.group_totals(arm.success.values, arm.success.starts))
    with np.errstate(invalid="ignore", divide="ignore"):
        return passed / runs


def _two_stage(arm: ArmSample, drawn: "NDArray[np.int64]", seed: list[int]) -> Columns:
    """Tasks as drawn; inside each, as many runs as it has, drawn again."""
    import numpy as np

    success, duration, tokens = (
        np.asarray(grouped.values) for grouped in (arm.success, arm.duration, arm.tokens)
    )
    sizes = np.asarray(arm.success.sizes)[drawn]
    # Where the runs of each resample begin among all that are drawn.
    starts = np.concatenate(([0], np.cumsum(sizes.sum(axis=1))))
    words = draws(seed, 1, int(starts[-1]), 1 << 31)[0]
    rates, durations, token_medians = [], [], []
    for first in range(0, len(drawn), _ROWS):
        part = slice(first, first + _ROWS)
        here = words[starts[first] : starts[min(first + _ROWS, len(drawn))]]
        times = _times_drawn(arm.success, drawn[part], here)
        rates.append(times @ success / times.sum(axis=1))
        durations.append(_row_medians(duration, times))
        token_medians.append(_row_medians(tokens, times))
    return Columns(
        success_rate=np.concatenate(rates),
        duration=np.concatenate(durations),
        tokens=np.concatenate(token_medians),
    )


def _times_drawn(
    grouped: Grouped, drawn: "NDArray[np.int64]", words: "NDArray[np.int64]"
) -> "NDArray[np.int64]":
    """How often each run is in each resample, a row each; a word of 31 bits draws one run."""
    import numpy as np

    sizes = np.asarray(grouped.sizes)[drawn].ravel()
    runs = len(grouped)
    # Each drawn task starts in the row of its resample, at its first run.
    begins = np.asarray(grouped.starts[:-1])[drawn] + (np.arange(len(drawn)) * runs)[:, None]
    at = np.repeat(begins.ravel(), sizes) + ((words * np.repeat(sizes, sizes)) >> 31)
    return np.bincount(at, minlength=len(drawn) * runs).reshape(len(drawn), runs)


def _row_medians(values: "Floats2", times: "NDArray[np.int64]") -> "Floats2":
    """The median of the values, each as often as a row says; NaN of a row that has none."""
    import numpy as np

    # NaN is ordered last, and left out.
    order = np.argsort(values, kind="stable")[: int((~np.isnan(values)).sum())]
    if not len(order):
        return np.full(len(times), np.nan)
    reached = np.cumsum(times[:, order], axis=1)
    size = reached[:, -1:]
    middle = [
        values[order[np.minimum((reached < rank).sum(axis=1), len(order) - 1)]]
        for rank in ((size + 1) // 2, size // 2 + 1)
    ]
    low, high = middle
    return np.where(size[:, 0] > 0, np.where(low == high, low, (low + high) / 2), np.nan)


def _decisions(candidate: Columns, baseline: Columns, names: tuple[str, str]) -> list[str]:
    """The decision of each resample, by the rule itself: only the order of the figures matters."""
    import numpy as np

    orders = [
        np.sign(getattr(candidate, name) - getattr(baseline, name))
        for name in ("success_rate", "duration", "tokens")
    ]
    known: dict[tuple[str, ...], str] = {}
    decisions = []
    for signs in zip(*(order.tolist() for order in orders), strict=True):
        key = tuple(map(str, signs))
        if key not in known:
            success, duration, tokens = (None if sign != sign else sign for sign in signs)
            even = Figures(success_rate=0, median_duration_seconds=0, median_non_cache_tokens=0)
            ours = Figures(
                success_rate=success,
                median_duration_seconds=duration,
                median_non_cache_tokens=tokens,
            )
            known[key] = decide(judge(ours, even), *names)
        decisions.append(known[key])
    return decisions
