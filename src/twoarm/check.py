"""Every problem of run files, found without scoring them."""

from collections.abc import Callable

import msgspec

from twoarm.errors import BadRunsError, Problem
from twoarm.quote import visible
from twoarm.runfile import Source, read
from twoarm.runs import Runs
from twoarm.screen import find_duplicates


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Bad lines and runs given twice, and what the good lines hold."""

    problems: tuple[Problem, ...]
    run_count: int
    task_count: int
    arms: tuple[str, ...]
    unknown_keys: tuple[str, ...]


def _place(runs: Runs) -> Callable[[Problem], tuple[int, int]]:
    """What puts problems in the order of the files and their lines."""
    files = {visible(given.path): number for number, given in enumerate(runs.inputs)}

    def place(problem: Problem) -> tuple[int, int]:
        source, _, line = problem.where.rpartition(":")
        return files.get(source, 0), int(line)

    return place


def check(source: Source) -> Check:
    """Look at every line of what `score` would take."""
    try:
        runs = read(source, skip_bad=True, listed=None)
    except BadRunsError as error:
        return Check(
            problems=tuple(error.problems), run_count=0, task_count=0, arms=(), unknown_keys=()
        )
    return Check(
        problems=tuple(sorted((*runs.problems, *find_duplicates(runs)), key=_place(runs))),
        run_count=len(runs),
        task_count=len(runs.tasks),
        arms=tuple(sorted(runs.arms)),
        unknown_keys=runs.unknown_keys,
    )
