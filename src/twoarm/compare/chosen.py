"""Which runs were asked for: of some parts of a run that grew, of some tasks."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from twoarm.errors import BadRunsError, Problem, Problems
from twoarm.options import Options, option, refused
from twoarm.runs.arrays import Flags
from twoarm.runs.runs import Runs
from twoarm.text.escape import named
from twoarm.text.sentence import listed

# How many tags and tasks an error lists before it only counts.
_LISTED = 20


class ChosenTasks(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks were asked for, of how many that the two arms have."""

    tasks: int
    of: int


def of_parts(runs: Runs, parts: tuple[int, ...]) -> Flags:
    """Which runs are of one of these parts."""
    known = sorted({int(part) for part in np.unique(runs.part)} - {0})
    if not known:
        raise refused("part", "no run says which part it is of; only runs of `twoarm run` do")
    for part in parts:
        if part not in known:
            listing = ", ".join(map(str, known))
            raise refused("part", f"no run of part {part}; parts found: {listing}")
    flags: Flags = np.isin(runs.part, parts)
    return flags


def of_tasks(runs: Runs, options: Options) -> Flags:
    """Which runs are of a task that was asked for: one with any of the tags, and any of the names.

    Whatever matches nothing is an error.
    """
    wanted = np.ones(len(runs.tasks), dtype=bool)
    if options.tag is not None:
        wanted &= _tagged(runs, options.tag)
    if options.task is not None:
        wanted &= _like(runs.tasks, options.task)
    if not wanted.any():
        raise refused("tag", f"no task that {option('task')} chooses has such a tag")
    return wanted[runs.task]


def _tagged(runs: Runs, tags: Sequence[str]) -> Flags:
    by_task = runs.tags_by_task
    known = sorted({tag for each in by_task for tag in each})
    if not known:
        raise refused("tag", "no record has the tags of its task, `task_tags`")
    for tag in tags:
        if tag not in known:
            raise refused("tag", f"no task has {named(tag)}; tags found: {listed(known, _LISTED)}")
    return np.array([not set(tags).isdisjoint(each) for each in by_task])


def _like(tasks: Sequence[str], patterns: Sequence[str]) -> Flags:
    wanted = np.zeros(len(tasks), dtype=bool)
    for pattern in patterns:
        matches = np.array([fnmatchcase(task, pattern) for task in tasks])
        if not matches.any():
            listing = listed(tasks, _LISTED)
            raise refused("task", f"no task is like {named(pattern)}; tasks found: {listing}")
        wanted |= matches
    return wanted


def asked_for(runs: Runs, options: Options) -> Flags:
    """Which runs were asked for."""
    wanted = np.ones(len(runs), dtype=bool)
    if options.part is not None:
        wanted &= of_parts(runs, options.part)
    if options.tag is not None or options.task is not None:
        wanted &= of_tasks(runs, options)
    return wanted


def refuse_two_tags(runs: Runs) -> None:
    """Refuse runs of one task with different tags: nobody knows which tasks a tag means."""
    problems = Problems(find_two_tags(runs))
    if problems.count:
        raise BadRunsError(problems)


def find_two_tags(runs: Runs) -> Iterator[Problem]:
    """Every run whose task has other tags in its first run that has any."""
    codes = runs.tags.codes
    if len(runs.tags.sets) < 2:
        return
    rows = np.flatnonzero(codes >= 0)
    _, first, group = np.unique(runs.task[rows], return_index=True, return_inverse=True)
    earliest = rows[first][group]
    for row, earlier in zip(rows.tolist(), earliest.tolist(), strict=True):
        if codes[row] == codes[earlier]:
            continue
        ours, theirs = (listed(runs.tags.sets[int(codes[at])]) for at in (row, earlier))
        message = (
            f"task {named(runs.tasks[int(runs.task[row])])} has {ours} here, and {theirs} at "
            f"{runs.positions.of(earlier)}; give all runs of a task the same tags"
        )
        yield runs.positions.of(row).problem(message, "task_tags", "other tags")
