"""Families: tasks that are alike, such as those of one repository.

What one task of a family shows, the others show, too: they are not as many tasks as they look.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from twoarm.errors import BadRunsError, Problem, Problems
from twoarm.options import refused
from twoarm.runs.arrays import Ints
from twoarm.runs.runs import Runs
from twoarm.text.escape import named

# What the ids of tasks that are alike often have in common stands before one of these.
PREFIX = "^(.+?)(?:/|:|__)"


class Families(msgspec.Struct, frozen=True, kw_only=True):
    """The family of each task by its code; a task that nobody put into one is one of its own.

    `of` is the code of the first task of the family, `names` that of the family, None where the
    task is alone for want of a name. `given` says that somebody spoke of families at all.
    """

    of: Ints
    names: tuple[str | None, ...]
    given: bool


def find_families(runs: Runs, regex: str | None) -> Families:
    """The families that an option makes of task ids, or else those that the records name."""
    if regex is not None:
        return _families(runs, _matched(runs, regex), given=True)
    problems = Problems(two_families(runs))
    if problems.count:
        raise BadRunsError(problems)
    columns = runs.families
    names = {
        int(task): columns.names[int(code)]
        for task, code in zip(runs.task[columns.row], columns.family, strict=True)
    }
    return _families(runs, names, given=bool(names))


def _families(runs: Runs, names: Mapping[int, str], *, given: bool) -> Families:
    first: dict[str, int] = {}
    of = np.arange(len(runs.tasks))
    for task in sorted(names):
        of[task] = first.setdefault(names[task], task)
    return Families(of=of, names=tuple(map(names.get, range(len(of)))), given=given)


def _matched(runs: Runs, regex: str) -> dict[int, str]:
    """The first group of what matches in each id; a task without one is a family of its own."""
    matches = {task: re.search(regex, name) for task, name in enumerate(runs.tasks)}
    names = {task: match[1] for task, match in matches.items() if match is not None and match[1]}
    if not names:
        raise refused(
            "family",
            f"{named(regex)} finds no family in any task_id, such as {named(runs.tasks[0])}",
        )
    return names


def two_families(runs: Runs) -> list[Problem]:
    """Every task whose runs name two families; a run that names none agrees with any."""
    columns = runs.families
    if len(columns.names) < 2:
        return []
    seen: dict[int, tuple[int, int]] = {}
    told: set[tuple[int, int]] = set()
    problems = []
    for row, task, code in zip(
        columns.row.tolist(), runs.task[columns.row].tolist(), columns.family.tolist(), strict=True
    ):
        first, earlier = seen.setdefault(task, (code, row))
        if first == code or (task, code) in told:
            continue
        told.add((task, code))
        message = (
            f"task {named(runs.tasks[task])} is of family {named(columns.names[code])} here, and "
            f"of {named(columns.names[first])} at {runs.positions.of(earlier)}; a task is of one "
            "family in all of its runs"
        )
        problems.append(runs.positions.of(row).problem(message, "family", "two families"))
    return problems


def prefixes(names: Sequence[str]) -> dict[str, int]:
    """How many tasks have each prefix, if ids look like families that nobody spoke of.

    That is, 2 prefixes up to half as many as there are tasks, each of at least two tasks, have half
    of the tasks; empty if they do not.
    """
    counts: dict[str, int] = {}
    for name in names:
        match = re.match(PREFIX, name)
        if match is not None:
            counts[match[1]] = counts.get(match[1], 0) + 1
    shared = {prefix: count for prefix, count in counts.items() if count >= 2}
    many = 2 <= len(shared) <= len(names) / 2 and 2 * sum(shared.values()) >= len(names)
    return shared if many else {}
