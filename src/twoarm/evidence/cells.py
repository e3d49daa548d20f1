"""The pairs and runs of each metric, grouped by task."""

from functools import cached_property

import msgspec
import numpy as np

from twoarm.arrays import Floats, Ints, starts_of
from twoarm.comparison import Comparison
from twoarm.metric import SUCCESS, Metric
from twoarm.screen import ArmRuns, Screening


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
    def _task_by_value(self) -> Ints:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)[self._order]

    @cached_property
    def ordered(self) -> Floats:
        """The values of all tasks from the smallest to the largest."""
        return self.values[self._order]

    def up_to(self, points: Floats) -> Ints:
        """For each point, from the smallest on: how many values of each task are at most that."""
        found = np.empty((len(points), len(self.sizes)), dtype=np.int64)
        below, first = np.zeros(len(self.sizes), dtype=np.int64), 0
        for row, last in enumerate(np.searchsorted(self.ordered, points, side="right").tolist()):
            part = self._task_by_value[first:last]
            below = found[row] = below + np.bincount(part, minlength=len(self.sizes))
            first = last
        return found


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides of the pairs on one scale, and their difference."""

    ours: Floats
    theirs: Floats
    deltas: Floats


class Pairs(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The pairs in which both runs have the metric."""

    metric: Metric
    tasks: Ints
    starts: Ints
    ours: Floats
    theirs: Floats
    deltas: Floats

    def __len__(self) -> int:
        return len(self.deltas)

    @cached_property
    def sizes(self) -> Ints:
        """How many pairs each task has."""
        return np.diff(self.starts)

    @cached_property
    def grouped(self) -> Grouped:
        """The deltas alone."""
        return Grouped(values=self.deltas, tasks=self.tasks, starts=self.starts)

    @cached_property
    def logs(self) -> Sides | None:
        """The pairs on the scale of ratios, or None where a value is not positive."""
        if self.metric is SUCCESS or not len(self):
            return None
        if self.ours.min() <= 0 or self.theirs.min() <= 0:
            return None
        ours, theirs = np.log(self.ours), np.log(self.theirs)
        return Sides(ours=ours, theirs=theirs, deltas=ours - theirs)


def group_pairs(metric: Metric, comparison: Comparison) -> Pairs:
    """The pairs of one metric by task."""
    pairing, (ours, theirs) = comparison.pairing, comparison.screening.arms
    deltas = pairing.deltas[metric.name]
    rows = np.flatnonzero(~np.isnan(deltas))
    tasks, starts = _stretches(pairing.task[rows], len(comparison.runs.tasks))
    return Pairs(
        metric=metric,
        tasks=tasks,
        starts=starts,
        ours=ours.values[metric.name][pairing.candidate[rows]],
        theirs=theirs.values[metric.name][pairing.baseline[rows]],
        deltas=deltas[rows],
    )


def group_arm(metric: Metric, arm: ArmRuns, task_count: int, only: Ints) -> Grouped:
    """The measured runs of one arm in the tasks named, by task."""
    values = arm.values[metric.name]
    wanted = np.zeros(task_count, dtype=bool)
    wanted[only] = True
    rows = np.flatnonzero(wanted[arm.task] & ~np.isnan(values))
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
