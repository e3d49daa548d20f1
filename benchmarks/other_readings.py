"""What other ways of reading the same runs would conclude, as their tools compute it.

None of this is twoarm: numpy and scipy alone, on the rows of the published table.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

Row = dict[str, str]
ARMS = {"shell": "shell_unprimed", "primed": "shell_primed", "mcp": "mcp_unprimed"}
TOKENS = ("uncached_input_tokens", "cached_read_tokens", "output_tokens")


class Change(NamedTuple):
    """A ratio of two arms, and its 95% interval."""

    estimate: float
    low: float
    high: float


def number(cell: str) -> float:
    """A cell of the table; nan where nobody measured it."""
    return float(cell) if cell else math.nan


def seconds(row: Row) -> float:
    """The wall-clock time of a run."""
    return number(row["wall_time_sec"])


def non_cache_tokens(row: Row) -> float:
    """What went in and came out without the cache."""
    return number(row["uncached_input_tokens"]) + number(row["output_tokens"])


def total_tokens(row: Row) -> float:
    """All that went in and came out."""
    return sum(number(row[name]) for name in (*TOKENS, "cache_write_tokens"))


def billed_usd(row: Row) -> float:
    """What the provider charged."""
    return number(row["billed_cost_usd"])


def pooled(rows: Iterable[Row], candidate: str, measure: Callable[[Row], float]) -> Change:
    """All runs of an arm pooled, whatever their task: Welch's t test on logarithms."""
    both = [
        [value for row in rows if row["scenario"] == arm and not math.isnan(value := measure(row))]
        for arm in (ARMS[candidate], ARMS["shell"])
    ]
    ours, theirs = (np.log(arm) for arm in both)
    ends = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    return _ratio(ours.mean() - theirs.mean(), ends.low, ends.high)


def each_pair_a_task(
    rows: Iterable[Row], candidate: str, measure: Callable[[Row], float]
) -> Change:
    """Every pair of runs as a task of its own: a t test on as many pairs as there are."""
    cells = _cells(rows, measure)
    pairs = [
        math.log(ours / theirs)
        for arms in cells.values()
        for ours, theirs in zip(arms[ARMS[candidate]], arms[ARMS["shell"]], strict=True)
        if not math.isnan(ours + theirs)
    ]
    return _over(pairs)


def over_families(rows: Iterable[Row], candidate: str, measure: Callable[[Row], float]) -> Change:
    """Tasks alike in a family, families alike: a t test on the means of the families."""
    families: dict[str, list[float]] = {}
    for (family, _), arms in _cells(rows, measure).items():
        ours, theirs = (
            float(np.nanmean(np.log(arms[arm]))) for arm in (ARMS[candidate], ARMS["shell"])
        )
        families.setdefault(family, []).append(ours - theirs)
    return _over([float(np.mean(changes)) for changes in families.values()])


def mean_tokens(rows: Sequence[Row], arm: str, *, as_zero: bool) -> float:
    """The published mean, without cache writes; with what nobody measured as zero, or left out."""
    totals = [
        sum(number(row[name] or ("0" if as_zero else "")) for name in TOKENS)
        for row in rows
        if row["scenario"] == ARMS[arm]
    ]
    return float(np.nanmean(totals))


def median_cold_usd(rows: Sequence[Row], arm: str, *, as_zero: bool) -> float:
    """The published median of the cost without a cache; likewise."""
    costs = [
        number(row["cold_equivalent_cost_usd"] or ("0" if as_zero else ""))
        for row in rows
        if row["scenario"] == ARMS[arm]
    ]
    return float(np.nanmedian(costs))


def _cells(
    rows: Iterable[Row], measure: Callable[[Row], float]
) -> dict[tuple[str, str], dict[str, list[float]]]:
    """The values of each family and agent, by arm, in the order in which they were run."""
    cells: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in sorted(rows, key=lambda row: row["ts_start"]):
        arms = cells.setdefault((row["task_id"], row["agent_id"]), {})
        arms.setdefault(row["scenario"], []).append(measure(row))
    return cells


def _over(changes: Sequence[float]) -> Change:
    mean, error = float(np.mean(changes)), float(stats.sem(changes))
    reach = float(stats.t.ppf(0.975, len(changes) - 1)) * error
    return _ratio(mean, mean - reach, mean + reach)


def _ratio(middle: float, low: float, high: float) -> Change:
    return Change(math.exp(middle), math.exp(low), math.exp(high))
