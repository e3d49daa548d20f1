"""Whether all runs of a task were put to the same checks; their shares mean nothing otherwise."""

import numpy as np

from twoarm.errors import Problem
from twoarm.runs.arrays import Ints
from twoarm.runs.runs import Runs
from twoarm.text.escape import named
from twoarm.text.sentence import listed


def differing_checks(runs: Runs, rows: Ints) -> list[Problem]:
    """Each of these runs whose checks have other names than those of its task's first run.

    A run without checks differs from none.
    """
    columns = runs.checks
    if len(columns.sets) < 2:
        return []
    at = np.flatnonzero(np.isin(columns.known, rows))
    known, names_of = columns.known[at], columns.names_of[at]
    _, first, group = np.unique(runs.task[known], return_index=True, return_inverse=True)
    problems = []
    for here in np.flatnonzero(names_of != names_of[first[group]]):
        row, earlier = int(known[here]), int(known[first[group[here]]])
        theirs, ours = (listed(columns.sets[int(names_of[i])]) for i in (first[group[here]], here))
        message = (
            f"task {named(runs.tasks[int(runs.task[row])])} has {ours} here, and {theirs} at "
            f"{runs.positions.of(earlier)}; all runs of a task need the same checks"
        )
        problems.append(runs.positions.of(row).problem(message, "checks", "other checks"))
    return problems
