"""The pairs and runs of each metric, grouped by task."""

from functools import cached_property
from itertools import pairwise

import msgspec

from twoarm import column
from twoarm.column import Floats, Ints
from twoarm.metric import COST, DURATION, NON_CACHE_TOKENS, SUCCESS, TOKENS, Metric
from twoarm.pair import Pairing
from twoarm.screen import ArmRuns, Screening

# The metrics that evidence is weighed for, in the order of the analysis file.
WEIGHED = (SUCCESS, COST, DURATION, TOKENS, NON_CACHE_TOKENS)


class Grouped(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Values in order of task; task number i has those from `starts[i]` to `starts[i + 1]`.

    What takes long to find is found once, when it is first asked for.
    """

    values: Floats
    tasks: list[int]
    starts: list[int]

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def sizes(self) -> list[int]:
        """How many values each task has."""
        return _lengths(self.starts)

    @cached_property
    def ordered(self) -> Floats:
        """The values of all tasks from the smallest to the largest."""
        return column.ordered(self.values)

    @cached_property
    def counter(self) -> column.Counter:
        """Counts the values of each task up to any point."""
        return column.Counter(self.values, self.starts)


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides of the pairs on one scale, and their difference."""

    ours: Floats
    theirs: Floats
    deltas: Floats


class Pairs(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The pairs in which both runs have the metric."""

    metric: Metric
    tasks: list[int]
    starts: list[int]
    ours: Floats
    theirs: Floats
    deltas: Floats

    def __len__(self) -> int:
        return len(self.deltas)

    @cached_property
    def sizes(self) -> list[int]:
        """How many pairs each task has."""
        return _lengths(self.starts)

    @property
    def grouped(self) -> Grouped:
        """The deltas alone."""
        return Grouped(values=self.deltas, tasks=self.tasks, starts=self.starts)

    @cached_property
    def logs(self) -> Sides | None:
        """The pairs on the scale of ratios, or None where a value is not positive."""
        if self.metric is SUCCESS or not len(self):
            return None
        ours, theirs = column.logarithms(self.ours), column.logarithms(self.theirs)
        if ours is None or theirs is None:
            return None
        return Sides(ours=ours, theirs=theirs, deltas=column.subtracted(ours, theirs))


def group_pairs(
    metric: Metric, screening: Screening, pairing: Pairing, task_count: int, *, small: bool
) -> Pairs:
    """The pairs of one metric by task."""
    rows = column.measured_rows(pairing.deltas[metric.name])
    codes = column.take(pairing.task, rows)
    tasks, starts = _stretches(column.bounds(codes, task_count))
    return Pairs(
        metric=metric,
        tasks=tasks,
        starts=starts,
        ours=_kept(
            screening.candidate.values[metric.name], column.take(pairing.candidate, rows), small
        ),
        theirs=_kept(
            screening.baseline.values[metric.name], column.take(pairing.baseline, rows), small
        ),
        deltas=_kept(pairing.deltas[metric.name], rows, small),
    )


def group_arm(
    metric: Metric, arm: ArmRuns, task_count: int, only: set[int], *, small: bool
) -> Grouped:
    """The measured runs of one arm in the tasks named, by task."""
    rows = column.measured_rows(arm.values[metric.name])
    codes = column.take(arm.task, rows)
    wanted = [code in only for code in range(task_count)]
    if not all(wanted):
        rows = column.take(rows, column.rows_where(codes, wanted))
        codes = column.take(arm.task, rows)
    tasks, starts = _stretches(column.bounds(codes, task_count))
    return Grouped(values=_kept(arm.values[metric.name], rows, small), tasks=tasks, starts=starts)


def measured(grouped: Grouped) -> Grouped:
    """The values that were measured; a task may be left with none."""
    rows = column.measured_rows(grouped.values)
    if len(rows) == len(grouped.values):
        return grouped
    starts = [column.position(rows, start) for start in grouped.starts]
    return Grouped(values=column.take(grouped.values, rows), tasks=grouped.tasks, starts=starts)


def shared_tasks(metric: Metric, screening: Screening) -> set[int]:
    """The tasks in which both arms have the metric."""
    found = []
    for arm in screening.arms:
        codes = column.take(arm.task, column.measured_rows(arm.values[metric.name]))
        found.append(set(column.distinct(codes)))
    return found[0] & found[1]


def _kept(values: Floats, rows: Ints, small: bool) -> Floats:
    """The values at these rows, as an array unless the plain kernel is to have them."""
    kept: Floats = column.take(values, rows)
    return kept if small else column.vector(kept)


def _lengths(starts: list[int]) -> list[int]:
    return [b - a for a, b in pairwise(starts)]


def _stretches(bounds: list[int]) -> tuple[list[int], list[int]]:
    """The codes that occur, and where each starts."""
    codes = [code for code in range(len(bounds) - 1) if bounds[code] < bounds[code + 1]]
    return codes, [bounds[code] for code in codes] + [bounds[-1]]
