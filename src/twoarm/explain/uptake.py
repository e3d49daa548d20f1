"""Uptake: how many runs and tasks used the change, in both arms.

It explains, and never blocks. The figures of a report are those of all runs, used or not: that is
what anyone who adopts the change gets.
"""

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.screen import ArmRuns
from twoarm.explain.where_used import WhereUsed, find_where_used
from twoarm.runs.arrays import Floats, Ints

ALL_RUNS = (
    "All other figures count every run, whether it used the change or not: that is what anyone "
    "who adopts the change gets."
)


class ArmUptake(msgspec.Struct, frozen=True, kw_only=True):
    """The counted runs of an arm: all, those whose uses are known, and those with any.

    `failed_uses` is None where no run tells how its uses ended; `tasks` are those with a run whose
    uses are known, `tasks_used` those with a use.
    """

    arm: str
    runs: int
    known_runs: int
    used_runs: int
    used_share: float | None
    uses: int
    failed_uses: int | None
    uses_per_run: float | None
    tasks: int
    tasks_used: int
    tasks_share: float | None


class TaskUses(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one task in one arm."""

    known_runs: int
    used_runs: int
    uses: int


class TaskUptake(msgspec.Struct, frozen=True, kw_only=True):
    """One task in both arms."""

    task_id: str
    candidate: TaskUses
    baseline: TaskUses


class Uptake(msgspec.Struct, frozen=True, kw_only=True):
    """Both arms, every task, and the effect where the change was used, by metric.

    `where_used` is null without evidence.
    """

    candidate: ArmUptake
    baseline: ArmUptake
    tasks: tuple[TaskUptake, ...]
    where_used: dict[str, WhereUsed] | None


def find_uptake(comparison: Comparison, level: float | None) -> Uptake | None:
    """How often the change was used, and its effect there, with intervals of this level if any.

    None if no counted run says.
    """
    columns = comparison.runs.tools
    arms = comparison.screening.arms
    counts = [_of(columns.uptake, arm) for arm in arms]
    failed = [_of(columns.failed_uptake, arm) for arm in arms]
    if all(np.isnan(uses).all() for uses in counts):
        return None
    size = len(comparison.runs.tasks)
    ours, theirs = (_Table(arm, uses, size) for arm, uses in zip(arms, counts, strict=True))
    seen = np.flatnonzero(ours.known + theirs.known)
    return Uptake(
        candidate=ours.summary(_told(failed[0], counts[0])),
        baseline=theirs.summary(_told(failed[1], counts[1])),
        tasks=tuple(
            TaskUptake(
                task_id=comparison.runs.tasks[task],
                candidate=ours.task(task),
                baseline=theirs.task(task),
            )
            for task in seen.tolist()
        ),
        where_used=None if level is None else find_where_used(comparison, level),
    )


def _of(column: Floats, arm: ArmRuns) -> Floats:
    return column[arm.rows] if len(column) else np.full(len(arm), np.nan)


def _told(failed: Floats, counts: Floats) -> Floats:
    """Uses that failed, unless there are more than uses: such a run contradicts itself."""
    told: Floats = np.where(failed <= counts, failed, np.nan)
    return told


class _Table:
    """The uses of every task in one arm, an array each."""

    def __init__(self, arm: ArmRuns, counts: Floats, tasks: int) -> None:
        known = ~np.isnan(counts)
        self._arm = arm
        self.known: Ints = np.bincount(arm.task[known], minlength=tasks)
        self._used: Ints = np.bincount(arm.task[counts > 0], minlength=tasks)
        weights = counts[known]
        self._uses = np.bincount(arm.task[known], weights=weights, minlength=tasks)

    def summary(self, failed: Floats) -> ArmUptake:
        known, used = int(self.known.sum()), int(self._used.sum())
        uses = int(self._uses.sum())
        tasks, tasks_used = int((self.known > 0).sum()), int((self._used > 0).sum())
        return ArmUptake(
            arm=self._arm.arm,
            runs=len(self._arm),
            known_runs=known,
            used_runs=used,
            used_share=used / known if known else None,
            uses=uses,
            failed_uses=None if np.isnan(failed).all() else int(np.nansum(failed)),
            uses_per_run=uses / known if known else None,
            tasks=tasks,
            tasks_used=tasks_used,
            tasks_share=tasks_used / tasks if tasks else None,
        )

    def task(self, task: int) -> TaskUses:
        return TaskUses(
            known_runs=int(self.known[task]),
            used_runs=int(self._used[task]),
            uses=int(self._uses[task]),
        )
