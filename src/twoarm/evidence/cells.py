"""The pairs and runs of each metric, grouped by task."""

import math
from functools import cached_property

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.screen import ArmRuns, Screening
from twoarm.runs.arrays import Flags, Floats, Ints, squares, starts_of, sums
from twoarm.runs.metric import SCORE, SUCCESS, Metric

# Up to this share of zeros, each is taken for a small value; with more there are no ratios.
MOST_ZEROS = 0.05
# What lies between 0 and 1, where all runs may well have the same value.
BOUNDED = (SUCCESS, SCORE)


class Grouped(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Values in order of task; task number i has those from `starts[i]` to `starts[i + 1]`.

    What takes long to find is found once, when it is first asked for.
    """

    values: Floats
    tasks: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def sizes(self) -> Ints:
        """How many values each task has."""
        return np.diff(self.starts)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.values, kind="stable")

    @cached_property
    def task_by_value(self) -> Ints:
        """The place of the task of each of the ordered values."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)[self._order]

    @cached_property
    def ordered(self) -> Floats:
        """The values of all tasks from the smallest to the largest."""
        return self.values[self._order]

    def up_to(self, points: Floats) -> Ints:
        """For each point, from the smallest on: how many values of each task do not exceed it."""
        counts = np.empty((len(points), len(self.sizes)), dtype=np.int64)
        below, first = np.zeros(len(self.sizes), dtype=np.int64), 0
        for row, last in enumerate(np.searchsorted(self.ordered, points, side="right").tolist()):
            part = self.task_by_value[first:last]
            below = counts[row] = below + np.bincount(part, minlength=len(self.sizes))
            first = last
        return counts


def group_pairs(metric: Metric, comparison: Comparison) -> Grouped:
    """The deltas of the pairs in which both runs have the metric, by task."""
    pairing = comparison.pairing
    deltas = pairing.deltas[metric.name]
    rows = np.flatnonzero(~np.isnan(deltas))
    tasks, starts = _stretches(pairing.task[rows], len(comparison.runs.tasks))
    return Grouped(values=deltas[rows], tasks=tasks, starts=starts)


class Layout(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Every counted run of the tasks that both arms have, task by task, the candidate's first.

    `sizes` has a row for each arm.
    """

    tasks: Ints
    sizes: Ints

    @cached_property
    def starts(self) -> Ints:
        """Where the runs of each task begin; last, where all of them end."""
        return np.concatenate(([0], np.cumsum(self.sizes.sum(axis=0))))

    @property
    def rows(self) -> int:
        """How many runs there are."""
        return int(self.starts[-1])

    @cached_property
    def task(self) -> Ints:
        """The place of each run's task among these."""
        return np.repeat(np.arange(len(self.tasks)), self.sizes.sum(axis=0))

    @cached_property
    def cell(self) -> Ints:
        """Twice the place of each run's task, and one more for the baseline."""
        return np.repeat(np.arange(2 * len(self.tasks)), self.sizes.T.ravel())


class TaskRuns(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One metric of the runs of a layout; NaN was not measured.

    Everything below has a column for each task; what has rows has one for each arm.
    """

    metric: Metric
    logs: bool
    values: Floats
    layout: Layout

    def among(self, kept: Flags) -> "TaskRuns":
        """As if only some of the runs had been measured."""
        return msgspec.structs.replace(self, values=np.where(kept, self.values, np.nan))

    def on_test_scale(self) -> "TaskRuns":
        """On the scale of ratios, unless many values are zero or the metric is bounded."""
        known = int((~np.isnan(self.values)).sum())
        if self.metric in BOUNDED or not known or sum(self.zeros) > MOST_ZEROS * known:
            return self
        return msgspec.structs.replace(self, logs=True, values=self._logarithms())

    @cached_property
    def zeros(self) -> tuple[int, int]:
        """How many values of each arm are zero, as measured."""
        zero = np.zeros(len(self.values), dtype=bool) if self.logs else self.values == 0.0
        ours = int((zero & (self.layout.cell % 2 == 0)).sum())
        return ours, int(zero.sum()) - ours

    def _logarithms(self) -> Floats:
        """Of a zero, that of half of the smallest other value of its task, whichever its arm."""
        if not any(self.zeros):
            return np.log(self.values)
        zero, task = self.values == 0.0, self.layout.task
        logs: Floats = np.log(np.where(zero, np.inf, self.values))
        smallest = np.full(len(self.layout.tasks), np.inf)
        np.fmin.at(smallest, task, logs)
        # A task with nothing but zeros has no difference, whatever stands in.
        smallest[np.isinf(smallest)] = smallest.min()
        return np.where(zero, smallest[task] - math.log(2.0), logs)

    @cached_property
    def _cells(self) -> tuple[Ints, Floats, Floats]:
        known = ~np.isnan(self.values)
        values, cell = self.values[known], self.layout.cell[known]
        heads = np.flatnonzero(np.diff(cell, prepend=-1))
        starts = np.append(heads, len(cell))
        count = 2 * len(self.layout.tasks)
        sizes = np.zeros(count, dtype=np.int64)
        means, spreads = np.full(count, np.nan), np.zeros(count)
        at = cell[heads]
        sizes[at] = np.diff(starts)
        means[at] = sums(values, starts) / sizes[at]
        spreads[at] = squares(values, starts)
        return sizes.reshape(-1, 2).T, means.reshape(-1, 2).T, spreads.reshape(-1, 2).T

    @property
    def sizes(self) -> Ints:
        """How many runs have the metric."""
        return self._cells[0]

    @property
    def means(self) -> Floats:
        """Their means; NaN where there is none."""
        return self._cells[1]

    @property
    def spreads(self) -> Floats:
        """Their squared distances from the mean, added up."""
        return self._cells[2]

    @cached_property
    def shared(self) -> Flags:
        """Whether both arms have the metric."""
        shared: Flags = np.logical_and.reduce(self.sizes > 0, axis=0)
        return shared

    @cached_property
    def deltas(self) -> Floats:
        """Candidate minus baseline; NaN where an arm has nothing."""
        deltas: Floats = self.means[0] - self.means[1]
        # Means of the same value over unequal repeats differ by rounding alone.
        deltas[np.abs(deltas) <= 1e-12 * np.abs(self.means).max(axis=0)] = 0.0
        return deltas

    @cached_property
    def played_again(self) -> bool:
        """Whether the repeats of every task are all alike: one run played back, not several."""
        if self.metric in BOUNDED or not self.sizes.size or self.sizes.max() <= 1:
            return False
        return not self.spreads.any()

    @cached_property
    def label_deviation(self) -> float:
        """How far the sum of differences strays when labels are exchanged inside tasks."""
        sizes, deltas = self.sizes[:, self.shared], self.deltas[self.shared]
        count = sizes.sum(axis=0)
        between = deltas**2 * sizes[0] * sizes[1] / count
        within = self.spreads[:, self.shared].sum(axis=0)
        variances = (within + between) / (count - 1) * (1.0 / sizes).sum(axis=0)
        return math.sqrt(math.fsum(variances))


def lay_out(comparison: Comparison) -> tuple[Layout, tuple[Ints, Ints]]:
    """The runs of the tasks that both arms have, and where each stands in its arm.

    A repeat's number carries no information, so runs without a partner are among them.
    """
    count = len(comparison.runs.tasks)
    sizes = np.array([np.bincount(arm.task, minlength=count) for arm in comparison.screening.arms])
    shared: Flags = np.logical_and.reduce(sizes > 0, axis=0)
    rows = tuple(np.flatnonzero(shared[arm.task]) for arm in comparison.screening.arms)
    layout = Layout(tasks=np.flatnonzero(shared), sizes=sizes[:, shared])
    return layout, (rows[0], rows[1])


def task_runs(
    metric: Metric, comparison: Comparison, layout: Layout, rows: tuple[Ints, Ints]
) -> TaskRuns:
    """One metric of every counted run."""
    sides = [
        arm.values[metric.name][at] for arm, at in zip(comparison.screening.arms, rows, strict=True)
    ]
    values = np.empty(layout.rows)
    ours = layout.cell % 2 == 0
    values[ours], values[~ours] = sides
    return TaskRuns(metric=metric, logs=False, values=values, layout=layout)


def group_arm(metric: Metric, arm: ArmRuns, task_count: int, only: Ints) -> Grouped:
    """The measured runs of one arm in the tasks named, by task."""
    values = arm.values[metric.name]
    rows = np.flatnonzero(np.isin(arm.task, only) & ~np.isnan(values))
    tasks, starts = _stretches(arm.task[rows], task_count)
    return Grouped(values=values[rows], tasks=tasks, starts=starts)


def shared_tasks(metric: Metric, screening: Screening) -> Ints:
    """The tasks in which both arms have the metric."""
    ours, theirs = (
        np.unique(arm.task[~np.isnan(arm.values[metric.name])]) for arm in screening.arms
    )
    return np.intersect1d(ours, theirs, assume_unique=True)


def _stretches(ordered: Ints, task_count: int) -> tuple[Ints, Ints]:
    """The tasks that occur, and where each starts."""
    starts = starts_of(ordered, task_count)
    codes = np.flatnonzero(np.diff(starts))
    return codes, np.append(starts[codes], len(ordered))
