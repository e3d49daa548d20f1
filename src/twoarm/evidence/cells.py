"""The pairs and runs of each metric, grouped by task, and tasks by family."""

import math
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.families import Families
from twoarm.compare.screen import ArmRuns, Screening
from twoarm.runs.arrays import Flags, Floats, Ints, squares, starts_of, sums
from twoarm.runs.metric import SCORE, SUCCESS, Metric

# Up to this share of zeros, each is taken for a small value; with more there are no ratios.
MOST_ZEROS = 0.05
# What lies between 0 and 1, where all runs may well have the same value.
BOUNDED = (SUCCESS, SCORE)


Noun = Literal["task", "family"]


class Grouped(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Values in order of task; task number i has those from `starts[i]` to `starts[i + 1]`.

    `family` is a number for the family of each; None where no two tasks are of one. What takes
    long to find is found once, when it is first asked for.
    """

    values: Floats
    tasks: Ints
    starts: Ints
    family: Ints | None = None

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def sizes(self) -> Ints:
        """How many values each task has."""
        return np.diff(self.starts)

    @property
    def noun(self) -> Noun:
        """What is a sample of others like it."""
        return "task" if self.family is None else "family"

    @cached_property
    def by_family(self) -> "Grouped":
        """The same values with each family in place of its tasks."""
        if self.family is None:
            return self
        rows, starts = gathered(self.family, self.starts)
        return Grouped(values=self.values[rows], tasks=np.unique(self.family), starts=starts)

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
    return _grouped(deltas[rows], pairing.task[rows], comparison.families)


class Layout(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Every counted run of the tasks that both arms have, task by task, the candidate's first.

    `sizes` has a row for each arm; `family` is the place of each task's family among those that
    there are, None where no two tasks are of one.
    """

    tasks: Ints
    sizes: Ints
    family: Ints | None = None

    @property
    def noun(self) -> Noun:
        """What is a sample of others like it."""
        return "task" if self.family is None else "family"

    @property
    def families(self) -> int:
        """How many there are; a task that nobody put into one is one of its own."""
        return len(self.tasks) if self.family is None else int(self.family.max()) + 1

    @cached_property
    def weights(self) -> Floats:
        """What each task weighs if families weigh alike, and tasks alike inside them; 1 on
        average."""
        count = len(self.tasks)
        if self.family is None:
            return np.ones(count)
        weights: Floats = count / self.families / np.bincount(self.family)[self.family]
        return weights

    def over_families(self, per_task: Floats) -> Floats:
        """The mean of a figure over the tasks of each family that have it; NaN where none has."""
        return per_task if self.family is None else family_means(per_task, self.family)

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
    def family_deltas(self) -> Floats:
        """The mean of the deltas of each family's tasks, a column for each family."""
        return self.layout.over_families(self.deltas)

    @property
    def independent(self) -> Floats:
        """The deltas, known in both arms, of families: a sample of others like them."""
        deltas = self.family_deltas
        known: Floats = deltas[~np.isnan(deltas)]
        return known

    @property
    def weights(self) -> Floats:
        """What each task that both arms have weighs in the mean of these; they add up to 1."""
        family = self.layout.family
        count = int(self.shared.sum())
        if family is None:
            return np.full(count, 1.0 / max(count, 1))
        family = family[self.shared]
        sizes = np.bincount(family)
        weights: Floats = 1.0 / (np.count_nonzero(sizes) * sizes[family])
        return weights

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
        variances *= self.layout.weights[self.shared] ** 2
        return math.sqrt(math.fsum(variances))


def lay_out(comparison: Comparison) -> tuple[Layout, tuple[Ints, Ints]]:
    """The runs of the tasks that both arms have, and where each stands in its arm.

    A repeat's number carries no information, so runs without a partner are among them.
    """
    count = len(comparison.runs.tasks)
    sizes = np.array([np.bincount(arm.task, minlength=count) for arm in comparison.screening.arms])
    shared: Flags = np.logical_and.reduce(sizes > 0, axis=0)
    rows = tuple(np.flatnonzero(shared[arm.task]) for arm in comparison.screening.arms)
    tasks = np.flatnonzero(shared)
    layout = Layout(tasks=tasks, sizes=sizes[:, shared], family=places(comparison.families, tasks))
    return layout, (rows[0], rows[1])


def places(families: Families, tasks: Ints) -> Ints | None:
    """The place of each task's family among theirs; None where no two of them are of one."""
    codes, place = np.unique(families.of[tasks], return_inverse=True)
    return None if len(codes) == len(tasks) else place.ravel()


def gathered(family: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """The rows of tasks, family by family, and where each family starts."""
    sizes = np.diff(starts)
    rows = np.argsort(np.repeat(family, sizes), kind="stable")
    _, place = np.unique(family, return_inverse=True)
    counts = np.bincount(place.ravel(), weights=sizes).astype(np.int64)
    return rows, np.concatenate(([0], np.cumsum(counts)))


def family_means(per_task: Floats, family: Ints) -> Floats:
    """The mean over the tasks of each family, in each row, of those that are not NaN."""
    rows = per_task.reshape(-1, len(family))
    count = int(family.max()) + 1
    means = np.full((len(rows), count), np.nan)
    for row, mean in zip(rows, means, strict=True):
        known = ~np.isnan(row)
        of, values = family[known], row[known]
        with np.errstate(invalid="ignore"):
            mean[:] = np.bincount(of, values, count) / np.bincount(of, minlength=count)
        # What adds up to nothing but for rounding is nothing.
        mean[np.abs(mean) <= 1e-12 * np.bincount(of, np.abs(values), count)] = 0.0
    return means.reshape(*per_task.shape[:-1], count)


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


def group_arm(metric: Metric, arm: ArmRuns, families: Families, only: Ints) -> Grouped:
    """The measured runs of one arm in the tasks named, by task."""
    values = arm.values[metric.name]
    rows = np.flatnonzero(np.isin(arm.task, only) & ~np.isnan(values))
    return _grouped(values[rows], arm.task[rows], families)


def shared_tasks(metric: Metric, screening: Screening) -> Ints:
    """The tasks in which both arms have the metric."""
    ours, theirs = (
        np.unique(arm.task[~np.isnan(arm.values[metric.name])]) for arm in screening.arms
    )
    return np.intersect1d(ours, theirs, assume_unique=True)


def _grouped(values: Floats, task: Ints, families: Families) -> Grouped:
    """Values in order of task, and the tasks that occur."""
    starts = starts_of(task, len(families.of))
    tasks = np.flatnonzero(np.diff(starts))
    return Grouped(
        values=values,
        tasks=tasks,
        starts=np.append(starts[tasks], len(task)),
        family=places(families, tasks),
    )
