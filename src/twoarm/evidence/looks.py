"""Planned looks: stop when the answer is known, and still be wrong no more often than promised.

Exact spending of the level by relabelling. One pattern flips a task in every metric and at every
look. At the look after r of `r_max` repeats, as many patterns may have won as a spending function
allows (Lan and DeMets, of the O'Brien-Fleming type); those that win are used up. A metric is clear
when every set of metrics that holds it has been rejected. Below six tasks labels are exchanged
inside each task among the repeats added since the look before.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.errors import UsageError
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.interval import Frame
from twoarm.evidence.kernel import normal_below, normal_quantile, student
from twoarm.evidence.means import over_tasks, within_tasks
from twoarm.evidence.relabel import MOST_LISTED, pool_of, signs
from twoarm.evidence.results import fewest_tasks
from twoarm.options import Options, refused
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.record import PlannedLooks
from twoarm.text.escape import series

# More tasks than this are judged without looks.
MOST_TASKS = 2_000
# What differs by less is a tie.
_SLACK = 1e-9
# No interval is asked to miss more rarely than this.
_RAREST = 1e-9

# The statistics of each look: a row for each pattern, the first as seen, and a column per metric.
Statistics = list[Floats]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The looks that were declared, and where the runs stand: by which look each was made."""

    looks: tuple[int, ...]
    at: int
    block: Ints
    incomplete: int

    @property
    def r_max(self) -> int:
        """The planned repeats."""
        return self.looks[-1]

    @property
    def after(self) -> int:
        """The repeats that are judged now."""
        return self.looks[self.at]

    def shares(self, level: float) -> list[float]:
        """What may be spent by each look so far."""
        return [spending(look, self.r_max, level) for look in self.looks[: self.at + 1]]


def planned(
    comparison: Comparison, layout: Layout, rows: tuple[Ints, Ints], options: Options
) -> Planned | None:
    """The looks to judge by: those asked for, or those that the records declare."""
    looks = _declared(comparison.runs.planned_looks, options)
    if looks is None or not layout.rows:
        return None
    if len(layout.tasks) > MOST_TASKS:
        raise UsageError(
            f"planned looks take at most {MOST_TASKS} tasks, found {len(layout.tasks)}"
        )
    repeats = np.empty(layout.rows, dtype=np.int64)
    ours = layout.cell % 2 == 0
    sides = zip(comparison.screening.arms, rows, strict=True)
    repeats[ours], repeats[~ours] = (comparison.runs.repeat[arm.rows[at]] for arm, at in sides)
    after, number = _counted_repeats(repeats, looks)
    if after not in looks:
        raise UsageError(
            f"planned looks are after {series([str(look) for look in looks])} repeats, but the "
            f"runs have {after}: run on to a look, or see them outside the plan with --ignore-looks"
        )
    return Planned(
        looks=looks,
        at=looks.index(after),
        block=np.searchsorted(looks, number),
        incomplete=int((layout.sizes < after).any(axis=0).sum()),
    )


def _counted_repeats(repeats: Ints, looks: tuple[int, ...]) -> tuple[int, Ints]:
    """How many repeats there are, and which of them each run is, from 1 on.

    Where a whole repeat was lost, the numbers of the others still tell which look it is.
    """
    distinct, rank = np.unique(repeats, return_inverse=True)
    last = int(distinct[-1])
    if len(distinct) not in looks and last in looks:
        return last, repeats
    return len(distinct), rank.ravel() + 1


def _declared(plans: frozenset[PlannedLooks], options: Options) -> tuple[int, ...] | None:
    if options.ignore_looks:
        return None
    declared = sorted(plan.looks for plan in plans)
    if len(declared) > 1:
        raise UsageError(
            "`planned_looks`: the records declare different ones, "
            f"{series([','.join(map(str, looks)) for looks in declared])}; judge each file alone"
        )
    if options.looks is not None and declared and declared[0] != options.looks:
        raise refused(
            "looks",
            f"the records declare {','.join(map(str, declared[0]))}, and looks that are changed "
            "afterwards promise nothing; leave the option out",
        )
    return declared[0] if declared else options.looks


def look(runs: Sequence[TaskRuns], plan: Planned, frame: Frame) -> Statistics:
    """The statistics of every look so far."""
    if runs[0].layout.families < frame.fewest_tasks:
        return exchanged_labels(runs, plan.block, frame.seed)
    upto = [plan.block <= number for number in range(plan.at + 1)]
    deltas = [np.array([measure.among(kept).family_deltas for measure in runs]) for kept in upto]
    return flipped_tasks(deltas, frame.seed)


def can_be_clear(tasks: int, level: float, candidates: int) -> bool:
    """Whether any difference would be clear at the last look, with a share of the level for each
    candidate."""
    listed = 2 ** (tasks - 1)
    fit = tasks >= fewest_tasks(level) and listed <= MOST_LISTED
    return _may_win((1.0 - level) / candidates, listed if fit else MOST_LISTED + 1) > 0


def chance_at_the_end(runs: TaskRuns, plan: Planned, level: float) -> float | None:
    """The chance that a metric would be clear after all planned repeats, if what was seen so far
    is the truth; None where that cannot be told."""
    sizes, deltas = runs.sizes[:, runs.shared], runs.independent
    tasks = len(deltas)
    within = within_tasks(runs.spreads[:, runs.shared], sizes, runs.weights) if tasks else None
    if tasks < 2 or within is None:
        return None
    over = over_tasks(deltas).variance
    left = within.variance * (1.0 - plan.after / plan.r_max)
    at_end = math.sqrt(max(over - left, 0.0))
    need = student((1.0 + level) / 2.0, tasks - 1.0) * at_end
    away = abs(math.fsum(deltas) / tasks) - need
    if left <= 0.0:
        return 1.0 if away > 0 else 0.0
    return float(normal_below(np.array([away / math.sqrt(left)]))[0])


def spending(repeats: int, r_max: int, level: float) -> float:
    """The share of patterns that may have won by the look after this many repeats."""
    alpha = 1.0 - level
    end = float(normal_quantile(np.array([1.0 - alpha / 2.0]))[0])
    return float(2.0 - 2.0 * normal_below(np.array([end / math.sqrt(repeats / r_max)]))[0])


def level_alone(looks: Sequence[int], r_max: int, level: float) -> float:
    """The level of an interval at the last of some looks, so that those of all looks together hold
    the truth at `level`: it lies as far out as a walk of independent steps may have gone by then.
    """
    # The chance of each place between the bounds of the look before: at first, of the start alone.
    places, chances = np.zeros(1), np.ones(1)
    before = spent = bound = 0.0
    for look in looks:
        now, allowed = look / r_max, spending(look, r_max, level)
        step = math.sqrt(now - before)
        bound = _bound(places, chances, step, max(allowed - spent, _RAREST))
        nodes, weights = _nodes(128 if bound < 25.0 * step else 512)
        moved = bound * nodes
        steps = (moved[:, None] - places) / step
        density = np.exp(-(steps**2) / 2.0) @ chances / (step * math.sqrt(2.0 * math.pi))
        places, chances = moved, density * weights * bound
        before, spent = now, allowed
    outside = 2.0 * normal_below(np.array([-bound / math.sqrt(before)]))[0]
    return 1.0 - max(float(outside), _RAREST)


@lru_cache(maxsize=2)
def _nodes(count: int) -> tuple[Floats, Floats]:
    """Where to look at a function between -1 and 1, and what each place weighs in its integral."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def _bound(places: Floats, chances: Floats, step: float, share: float) -> float:
    """How far from the start, either way, a step from these places ends with such a chance."""
    low, high = 0.0, float(np.abs(places).max()) + 40.0 * step
    for _ in range(60):
        middle = (low + high) / 2.0
        out = normal_below((places - middle) / step) + normal_below((-places - middle) / step)
        low, high = (middle, high) if float(out @ chances) > share else (low, middle)
    return (low + high) / 2.0


def flipped_tasks(deltas: Sequence[Floats], seed: int) -> Statistics:
    """Whole tasks change sign; differences by metric and task at each look."""
    tasks = deltas[0].shape[1]
    patterns = signs(tasks, seed)
    if 2 ** (tasks - 1) > MOST_LISTED:
        patterns = np.vstack((np.ones(tasks), patterns))
    statistics = []
    for differences in deltas:
        known = np.nan_to_num(differences)
        size = np.sqrt((known**2).sum(axis=1))
        statistics.append(np.abs(patterns @ (known / np.where(size > 0, size, 1.0)[:, None]).T))
    return statistics


def exchanged_labels(runs: Sequence[TaskRuns], block: Ints, seed: int) -> Statistics:
    """Labels are exchanged inside each task among the repeats of a block, for all metrics at once.

    `block` says by which look a run was made, from 0 on.
    """
    looks = int(block.max()) + 1
    layout = runs[0].layout
    totals = np.zeros((len(runs), 2, len(layout.tasks), MOST_LISTED + 1))
    counts = np.zeros_like(totals)
    statistics: Statistics = []
    for look in range(looks):
        for task in range(len(layout.tasks)):
            stretch = np.arange(layout.starts[task], layout.starts[task + 1])
            rows = stretch[block[stretch] == look]
            chosen = _chosen(rows, layout.cell, seed + 7_919 * (look * len(layout.tasks) + task))
            for column, measure in enumerate(runs):
                values = measure.values[rows]
                known = (~np.isnan(values)).astype(np.float64)
                values = np.nan_to_num(values)
                for arm, taken in ((0, chosen), (1, 1.0 - chosen)):
                    totals[column, arm, task] += taken @ values
                    counts[column, arm, task] += taken @ known
        each = [_scaled(*sides, layout.weights) for sides in zip(totals, counts, strict=True)]
        statistics.append(np.column_stack(each))
    return statistics


def _chosen(rows: Ints, cell: Ints, seed: int) -> Floats:
    """Which of these runs are called the candidate's: as they were, then at random."""
    seen = (cell[rows] % 2 == 0).astype(np.float64)
    ours = int(seen.sum())
    pool = pool_of(seed, ours, len(rows) - ours)
    return np.vstack((seen, pool))


def _scaled(totals: Floats, counts: Floats, weights: Floats) -> Floats:
    """The sum of task differences over how far the relabelled ones stray."""
    with np.errstate(invalid="ignore", divide="ignore"):
        deltas = totals[0] / counts[0] - totals[1] / counts[1]
    deltas = np.nan_to_num(deltas, posinf=0.0, neginf=0.0)
    sums = (deltas * weights[:, None]).sum(axis=0)
    size = math.sqrt(float((sums[1:] ** 2).mean()))
    statistics: Floats = np.abs(sums) / (size or 1.0)
    return statistics


def clear_at(
    statistics: Statistics, shares: Sequence[float], columns: Sequence[int], first: int | None
) -> dict[int, int]:
    """The look at which each metric became clear, of those that did.

    One that was named to be tested `first` spends alone; the others count only after it.
    """
    clear: dict[int, int] = {}
    since = 0
    if first is not None:
        alone = won_at(statistics, shares, [first])
        if alone is None:
            return {}
        clear[first] = since = alone
        columns = [column for column in columns if column != first]
    won = {
        together: won_at(statistics, shares, list(together))
        for size in range(1, len(columns) + 1)
        for together in combinations(columns, size)
    }
    for column in columns:
        looks = [look for together, look in won.items() if column in together]
        known = [look for look in looks if look is not None]
        if len(known) == len(looks):
            clear[column] = max(since, *known)
    return clear


def won_at(statistics: Statistics, shares: Sequence[float], together: list[int]) -> int | None:
    """The look at which what was seen won, by the largest of their statistics; None if never."""
    count = len(statistics[0])
    used = np.zeros(count, dtype=bool)
    for look, (statistic, share) in enumerate(zip(statistics, shares, strict=True)):
        allowed = _may_win(share, count) - int(used.sum())
        if allowed <= 0:
            continue
        most = np.where(used, -np.inf, statistic[:, together].max(axis=1))
        left = np.sort(most[~used])[::-1]
        # Patterns that tie with the first that may not win are not spent.
        bound = left[allowed] if allowed < len(left) else -np.inf
        winners = most > max(bound, 0.0) + _SLACK
        if winners[0]:
            return look
        used |= winners
    return None


def _may_win(share: float, patterns: int) -> int:
    """How many patterns a share of them is."""
    return math.floor(share * patterns + _SLACK)
