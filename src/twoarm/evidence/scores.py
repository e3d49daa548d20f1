"""Scores and checks: the means of each arm, and which checks differ. No gate looks at them."""

import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.evidence.cells import Layout, TaskRuns, task_runs
from twoarm.evidence.exclusions import lost_more
from twoarm.evidence.interval import Frame
from twoarm.evidence.relabel import signs_of_tasks
from twoarm.evidence.score_parts import ArmScore, Checks, CheckShift, Scores, TaskScore
from twoarm.runs.arrays import Floats, Ints, mean, or_none
from twoarm.runs.metric import SCORE

# This many of the checks that most tasks have are compared.
MOST_COMPARED = 50
# This many of those that differ most are reported.
LARGEST = 10


def has_scores(comparison: Comparison) -> bool:
    """Whether any counted run has a score."""
    return any(not np.isnan(arm.values[SCORE.name]).all() for arm in comparison.screening.arms)


def weigh_scores(
    comparison: Comparison, layout: Layout, rows: tuple[Ints, Ints], frame: Frame
) -> Scores | None:
    """The scores by arm and task, and the checks; None where no counted run has either."""
    checks = _checks(comparison, layout, rows, frame)
    if not has_scores(comparison) and checks is None:
        return None
    runs = task_runs(SCORE, comparison, layout, rows)
    ours, theirs = (
        ArmScore(
            arm=arm.arm,
            runs=len(arm),
            scored=int((~np.isnan(arm.values[SCORE.name])).sum()),
            mean=_mean(runs, means),
        )
        for arm, means in zip(comparison.screening.arms, runs.means, strict=True)
    )
    return Scores(
        tasks=int(runs.shared.sum()),
        arms=(ours, theirs),
        one_sided=lost_more(
            comparison.arms,
            SCORE.name,
            (ours.runs - ours.scored, theirs.runs - theirs.scored),
            (ours.runs, theirs.runs),
        ),
        by_task=_by_task(runs, comparison.runs.tasks),
        checks=checks,
    )


def _mean(runs: TaskRuns, means: Floats) -> float | None:
    """Over the tasks that both arms have, or over their families: as the difference is."""
    known = runs.layout.over_families(np.where(runs.shared, means, np.nan))
    return mean(known[~np.isnan(known)])


def _by_task(runs: TaskRuns, names: tuple[str, ...]) -> tuple[TaskScore, ...]:
    return tuple(
        TaskScore(task_id=names[code], candidate=ours, baseline=theirs)
        for code, ours, theirs in zip(
            runs.layout.tasks.tolist(), *map(or_none, runs.means), strict=True
        )
        if ours is not None or theirs is not None
    )


def _checks(
    comparison: Comparison, layout: Layout, rows: tuple[Ints, Ints], frame: Frame
) -> Checks | None:
    """The checks that both arms have in some task, the clearest and largest differences first."""
    if not len(comparison.runs.checks.row):
        return None
    names, check, task, shares = _shares(comparison, layout, rows)
    if not len(check):
        return None
    tasks_of = np.bincount(check, minlength=len(names))
    there = np.flatnonzero(tasks_of).tolist()
    compared = sorted(there, key=lambda code: (-tasks_of[code], names[code]))[:MOST_COMPARED]
    deltas = np.full((len(compared), len(layout.tasks)), np.nan)
    passed = np.full((len(compared), 2, len(layout.tasks)), np.nan)
    for place, code in enumerate(compared):
        at = check == code
        # Shares of unequal repeats may differ by rounding alone.
        deltas[place, task[at]] = np.round(shares[0, at] - shares[1, at], 12)
        passed[place][:, task[at]] = shares[:, at]
    deltas = layout.over_families(deltas)
    sides = [
        [float(arm[~np.isnan(arm)].mean()) for arm in layout.over_families(each)] for each in passed
    ]
    tested = deltas.copy()
    # A check of too few tasks could never be clear.
    tested[(~np.isnan(deltas)).sum(axis=1) < frame.fewest_tasks] = np.nan
    adjusted = signs_of_tasks(tested, frame.seed).adjusted(range(len(compared)))
    most = 1.0 - frame.tests + 1e-12
    shifts = [
        CheckShift(
            check=names[code],
            tasks=int(tasks_of[code]),
            candidate=ours,
            baseline=theirs,
            difference=float(np.nanmean(deltas[place])),
            adjusted_p=adjusted.get(place),
            differs=adjusted.get(place, 1.0) <= most,
        )
        for place, (code, (ours, theirs)) in enumerate(zip(compared, sides, strict=True))
    ]
    shifts.sort(key=lambda shift: (not shift.differs, -abs(shift.difference), shift.check))
    return Checks(names=len(there), compared=len(compared), largest=tuple(shifts[:LARGEST]))


def _shares(
    comparison: Comparison, layout: Layout, rows: tuple[Ints, Ints]
) -> tuple[tuple[str, ...], Ints, Ints, Floats]:
    """The names of checks; then, for each that both arms have in a task: its code, the place of the
    task, and the share that passes, a row for each arm."""
    columns = comparison.runs.checks
    cell_of = np.full(len(comparison.runs), -1)
    for side, (arm, at) in enumerate(zip(comparison.screening.arms, rows, strict=True)):
        cell_of[arm.rows[at]] = layout.cell[layout.cell % 2 == side]
    known = (cell_of[columns.row] >= 0) & ~np.isnan(columns.passed)
    cells = 2 * len(layout.tasks)
    keys, place = np.unique(
        columns.check[known] * cells + cell_of[columns.row[known]], return_inverse=True
    )
    shares = np.bincount(place, columns.passed[known], len(keys)) / np.bincount(
        place, minlength=len(keys)
    )
    # The candidate's cell of a task is even, and the baseline's follows it.
    ours = np.flatnonzero((keys[:-1] % 2 == 0) & (keys[1:] == keys[:-1] + 1))
    return (
        columns.names,
        keys[ours] // cells,
        keys[ours] % cells // 2,
        np.stack([shares[ours], shares[ours + 1]]),
    )
