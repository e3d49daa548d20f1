"""Whether a gain is there when only solved runs are compared: a failed run may be short."""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.means import finite_exp
from twoarm.evidence.results import SolvedRuns
from twoarm.runs.arrays import Flags, Floats

# Fewer tasks with solved runs in both arms cannot tell.
FEWEST_SOLVED = 3
# A change survives if at least this share of it is there among solved runs.
SURVIVING = 0.5
# The two changes are shown side by side if they differ by more than this share.
DIFFERING = 1.0 / 3.0


def among_solved(runs: TaskRuns, passes: TaskRuns) -> SolvedRuns:
    """One metric over all runs and over solved runs, on the tasks with such runs in both arms."""
    solved = runs.among(passes.values == 1.0)
    shared = solved.shared
    tasks = int(shared.sum())
    if not tasks:
        return SolvedRuns(
            tasks=0, all_runs=None, solved_runs=None, survives=None, differs=None, failed_runs=None
        )
    whole, kept = (_mean(runs, side.deltas, shared) for side in (runs, solved))
    # What the test sees has the tasks in it that an arm never solves.
    tested = _mean(runs, runs.deltas, runs.shared)
    way = math.copysign(1.0, tested)
    gain = max(way * whole, way * tested)
    # How far failed runs pull the means of the two arms.
    pull = math.fsum((runs.means - solved.means)[:, shared].ravel())
    enough = tasks >= FEWEST_SOLVED
    return SolvedRuns(
        tasks=tasks,
        all_runs=finite_exp(whole) if runs.logs else whole,
        solved_runs=finite_exp(kept) if runs.logs else kept,
        survives=way * kept >= SURVIVING * gain if enough else None,
        differs=abs(way * kept - gain) > DIFFERING * abs(gain) if enough else None,
        failed_runs=None if kept == whole else "short" if pull < 0.0 else "long",
    )


def _mean(runs: TaskRuns, deltas: Floats, shared: Flags) -> float:
    """The mean over tasks, or families, of the deltas of some tasks."""
    means = runs.layout.over_families(np.where(shared, deltas, np.nan))
    known = means[~np.isnan(means)]
    return math.fsum(known) / len(known)


def gain_survives(clear: Iterable[str], solved: Mapping[str, SolvedRuns | None]) -> bool | None:
    """Whether one of these metrics, which are clear, is so among solved runs.

    Success, which has no such runs to compare, always is. None where that cannot be said.
    """
    survive = [runs is None or runs.survives for runs in map(solved.__getitem__, clear)]
    if True in survive:
        return True
    return None if None in survive or not survive else False
