"""Every problem in run files, found without scoring them."""

from typing import Never

import msgspec
import numpy as np

from twoarm.compare.chosen import find_two_tags
from twoarm.compare.families import two_families
from twoarm.compare.graders import find_two_graders
from twoarm.compare.same_checks import differing_checks
from twoarm.compare.screen import find_duplicates
from twoarm.compare.trials import left_out
from twoarm.errors import BadRunsError, Problem
from twoarm.options import refuse_unknown
from twoarm.runs.runfile import Source, read
from twoarm.runs.runs import UnreadTimes
from twoarm.text.escape import visible


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Bad lines, runs given twice, tasks graded in two ways, by other checks, with other tags or of
    two families, and what the good lines hold, missing runs among them.
    """

    problems: tuple[Problem, ...]
    run_count: int
    missing_count: int
    task_count: int
    arms: tuple[str, ...]
    unknown_keys: tuple[str, ...]
    unread_times: UnreadTimes | None = None


def check(source: Source, **unknown: Never) -> Check:
    """Look at every line of what `score` would take."""
    refuse_unknown(unknown, ())
    try:
        runs = read(source, skip_bad=True, list_all=True, times=True)
    except BadRunsError as error:
        return Check(
            problems=tuple(error.problems),
            run_count=0,
            missing_count=0,
            task_count=0,
            arms=(),
            unknown_keys=(),
        )
    files = {visible(given.path): number for number, given in enumerate(runs.inputs)}
    missing = left_out(runs, keep_infra=True)[runs.outcome]
    counted = np.flatnonzero(~left_out(runs, keep_infra=False)[runs.outcome])
    differing = differing_checks(runs, np.flatnonzero(~missing))
    graders = find_two_graders(runs, counted)
    problems = (
        *(*runs.problems, *find_duplicates(runs), *graders, *differing),
        *(*find_two_tags(runs), *two_families(runs)),
    )
    return Check(
        problems=tuple(
            sorted(problems, key=lambda problem: (files.get(problem.source, 0), problem.line or 0))
        ),
        run_count=len(runs),
        missing_count=int(missing.sum()),
        task_count=len(runs.tasks),
        arms=tuple(sorted(runs.arms)),
        unknown_keys=runs.unknown_keys,
        unread_times=runs.unread_times,
    )
