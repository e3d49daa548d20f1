"""Runs of one task that were graded in two ways: a difference between them may be the graders'."""

import numpy as np

from twoarm.compare.screen import Screening
from twoarm.errors import BadRunsError, Problem, Problems
from twoarm.runs.arrays import Ints
from twoarm.runs.runs import Runs
from twoarm.text.escape import named, shortened

# How much of a digest is enough to tell it from others.
_SHOWN = 16


def refuse_two_graders(runs: Runs, screening: Screening) -> None:
    """Refuse to compare runs of a task that were graded in two ways."""
    problems = Problems(
        find_two_graders(runs, np.concatenate([arm.rows for arm in screening.arms]))
    )
    if problems.count:
        raise BadRunsError(problems)


def find_two_graders(runs: Runs, rows: Ints) -> list[Problem]:
    """Every task with two graders among some runs; one that does not say is compared with any."""
    known = np.array([grader is not None for grader in runs.graders])
    rows = np.sort(rows[known[runs.grader[rows]]])
    pairs = runs.task[rows] * len(runs.graders) + runs.grader[rows]
    # The first run of each task and grader, in the order in which they were read.
    firsts = rows[np.sort(np.unique(pairs, return_index=True)[1])]
    seen: dict[int, int] = {}
    problems = []
    for row in map(int, firsts):
        first = seen.setdefault(int(runs.task[row]), row)
        if first == row:
            continue
        message = (
            f"task {named(runs.tasks[int(runs.task[row])])} was graded by {_digest(runs, row)} "
            f"here and by {_digest(runs, first)} at {runs.positions.of(first)}, and what differs "
            "may be the graders; grade all of its runs alike with `twoarm regrade`"
        )
        problems.append(runs.positions.of(row).problem(message, "grader", "two graders"))
    return problems


def _digest(runs: Runs, row: int) -> str:
    return named(shortened(runs.graders[int(runs.grader[row])] or "", _SHOWN))
