"""What the records themselves say about how the runs were made, as caveats."""

from collections.abc import Iterator

from twoarm import column
from twoarm.column import Floats
from twoarm.errors import Caveat
from twoarm.metric import DURATION, NON_CACHE_TOKENS
from twoarm.quote import counted, named
from twoarm.runs import Runs
from twoarm.screen import ArmRuns, Screening
from twoarm.tasks import Task

# From this share on, the runs of one arm started so much before the other's that time and arm
# cannot be told apart.
APART = 0.95
# More runs than this share at the longest duration: a time limit cut them.
CUT = 0.20
_FEWEST_CUT = 3
# A limit is told from runs that are alike by one that is shorter than this share of the longest.
SHORTER = 0.8
# So little below the longest, as a share of it, is at the limit too: stopping takes a moment.
_NEAR = 0.005


def check_design(runs: Runs, screening: Screening, tasks: tuple[Task, ...]) -> Iterator[Caveat]:
    """Everything about the design that the reader should know."""
    yield from _time_blocks(runs, screening)
    yield from _makers(runs, screening)
    yield from _unequal_repeats(tasks)
    for arm in screening.arms:
        yield from _identical_repeats(arm, len(runs.tasks))
        yield from _cut_durations(arm)


def _time_blocks(runs: Runs, screening: Screening) -> Iterator[Caveat]:
    if not len(runs.started):
        return
    starts = [
        column.ordered(column.measured(column.take(runs.started, arm.rows)))
        for arm in screening.arms
    ]
    if min(map(len, starts)) < 2:
        return
    earlier = column.share_smaller(starts[0], starts[1])
    if max(earlier, 1.0 - earlier) >= APART:
        arms = [named(arm.arm) for arm in screening.arms]
        first, second = arms if earlier >= APART else arms[::-1]
        yield Caveat(
            code="separate_time_blocks",
            message=f"the runs of {first} started before those of {second}, not among them: "
            "whatever else changed in between is part of the difference; interleave the arms",
        )


def _makers(runs: Runs, screening: Screening) -> Iterator[Caveat]:
    for what in ("model", "agent"):
        found = [
            sorted(
                {
                    name
                    for maker in runs.makers
                    if maker.arm == arm.arm and (name := getattr(maker, what)) is not None
                }
            )
            for arm in screening.arms
        ]
        for arm, names in zip(screening.arms, found, strict=True):
            if len(names) > 1:
                listed = ", ".join(map(named, names[:5]))
                yield Caveat(
                    code=f"several_{what}s",
                    message=f"{counted(len(names), what)} in {named(arm.arm)}: {listed}",
                )
        if found[0] and found[1] and found[0] != found[1]:
            ours, theirs = (", ".join(map(named, names[:5])) for names in found)
            yield Caveat(
                code=f"different_{what}s",
                message=f"the arms differ in {what}: {ours} against {theirs}; what the change "
                "does cannot be told from that",
            )


def _unequal_repeats(tasks: tuple[Task, ...]) -> Iterator[Caveat]:
    counts = [runs for task in tasks for runs in (task.candidate.runs, task.baseline.runs) if runs]
    if counts and min(counts) != max(counts):
        yield Caveat(
            code="unequal_repeats",
            message=f"unequal repeats, {min(counts)} to {max(counts)} per task and arm: tasks with "
            "more of them weigh more in every figure",
        )


def _identical_repeats(arm: ArmRuns, task_count: int) -> Iterator[Caveat]:
    bounds = column.bounds(arm.task, task_count)
    repeated = [code for code in range(task_count) if bounds[code + 1] - bounds[code] > 1]
    alike = [
        code
        for code in repeated
        if all(
            _same(arm.values[metric.name][bounds[code] : bounds[code + 1]])
            for metric in (DURATION, NON_CACHE_TOKENS)
        )
    ]
    if alike:
        yield Caveat(
            code="identical_repeats",
            message=f"repeats are identical in {len(alike)} of {counted(len(repeated), 'task')} of "
            f"{named(arm.arm)} (replayed or cached runs?): they add no information",
        )


def _same(values: Floats) -> bool:
    """Whether all that was measured is one value; what was not measured cannot differ."""
    known = column.measured(values)
    return not len(known) or column.smallest(known) == column.largest(known)


def _cut_durations(arm: ArmRuns) -> Iterator[Caveat]:
    durations = arm.values[DURATION.name]
    if not len(durations):
        return
    longest = column.largest(durations)
    at_limit = column.rows_from(durations, longest * (1.0 - _NEAR))
    if len(at_limit) < _FEWEST_CUT or len(at_limit) <= CUT * len(durations):
        return
    # A limit piles runs up: fewer than half as many lie a little below it, and some far below.
    below = len(column.rows_from(durations, longest * (1.0 - 10 * _NEAR))) - len(at_limit)
    if column.smallest(durations) > longest * SHORTER or below > len(at_limit) / 2:
        return
    # The repeats of one task that is played again are no limit.
    hit = len(column.distinct(column.take(arm.task, at_limit)))
    tasks = len(column.distinct(arm.task))
    if hit > 1 or tasks == 1:
        yield Caveat(
            code="durations_cut",
            message=f"durations are cut at the limit: {len(at_limit)} of "
            f"{counted(len(durations), 'run')} of {named(arm.arm)} took {longest:g} s or hardly "
            "less; mean and ratio understate them, the median still stands",
        )
