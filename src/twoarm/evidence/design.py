"""What the records themselves say about how the runs were made, as caveats."""

from collections.abc import Iterator

import numpy as np

from twoarm.arrays import Flags, measured, starts_of
from twoarm.comparison import Comparison
from twoarm.errors import Caveat
from twoarm.escape import counted
from twoarm.metric import DURATION, NON_CACHE_TOKENS
from twoarm.screen import ArmRuns
from twoarm.sentence import Name, listed, say
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


def check_design(comparison: Comparison, first: str | None) -> Iterator[Caveat]:
    """Everything about the design that the reader should know."""
    yield from _time_blocks(first, comparison)
    for what in ("model", "agent"):
        yield from _makers(comparison, what)
    yield from _unequal_repeats(comparison.tasks)
    for arm in comparison.screening.arms:
        yield from _identical_repeats(arm, len(comparison.runs.tasks))
        yield from _cut_durations(arm)


def ran_first(comparison: Comparison) -> str | None:
    """The arm whose runs started before the other's, not among them; None if neither did."""
    started = comparison.runs.started
    if not len(started):
        return None
    ours, theirs = (np.sort(measured(started[arm.rows])) for arm in comparison.screening.arms)
    if min(len(ours), len(theirs)) < 2:
        return None
    # The share of pairs of one of each in which the candidate's run started first; ties half.
    before = np.searchsorted(theirs, ours) + np.searchsorted(theirs, ours, side="right")
    earlier = 1.0 - float(before.sum() / (2 * len(ours) * len(theirs)))
    if earlier >= APART:
        return comparison.arms.candidate
    return comparison.arms.baseline if 1.0 - earlier >= APART else None


def _time_blocks(first: str | None, comparison: Comparison) -> Iterator[Caveat]:
    if first is not None:
        second = next(arm for arm in comparison.arms.both if arm != first)
        yield Caveat(
            code="separate_time_blocks",
            message=say(
                "{} ran before {}, not interleaved with it: whatever else changed in between is "
                "part of the difference; interleave the arms",
                Name(first),
                Name(second),
            ),
        )


def _makers(comparison: Comparison, what: str) -> Iterator[Caveat]:
    """Whether an arm has several models or agents, and whether the arms have different ones."""
    found = []
    for arm in comparison.arms.both:
        names = {getattr(maker, what) for maker in comparison.runs.makers if maker.arm == arm}
        found.append(sorted(names - {None}))
        if len(found[-1]) > 1:
            count = counted(len(found[-1]), what)
            message = say("{} in {}: {}", count, Name(arm), listed(found[-1]))
            yield Caveat(code=f"several_{what}s", message=message)
    if found[0] and found[1] and found[0] != found[1]:
        yield Caveat(
            code=f"different_{what}s",
            message=say(
                "the arms differ in {}: {} vs. {}; the effect of the change cannot be separated "
                "from that",
                what,
                listed(found[0]),
                listed(found[1]),
            ),
        )


def _unequal_repeats(tasks: tuple[Task, ...]) -> Iterator[Caveat]:
    counts = [runs for task in tasks for runs in (task.candidate.runs, task.baseline.runs) if runs]
    if counts and min(counts) != max(counts):
        yield Caveat(
            code="unequal_repeats",
            message=say(
                "unequal repeats, {} to {} per task and arm: tasks with more repeats carry more "
                "weight",
                min(counts),
                max(counts),
            ),
        )


def _identical_repeats(arm: ArmRuns, task_count: int) -> Iterator[Caveat]:
    starts = starts_of(arm.task, task_count)
    repeated = np.diff(starts) > 1
    alike = repeated.copy()
    for metric in (DURATION, NON_CACHE_TOKENS):
        alike &= _same(arm, metric.name, task_count)
    if alike.any():
        yield Caveat(
            code="identical_repeats",
            message=say(
                "repeats are identical in {} of {} of {} (replayed or cached runs?): they add no "
                "information",
                int(alike.sum()),
                counted(int(repeated.sum()), "task"),
                Name(arm.arm),
            ),
        )


def _same(arm: ArmRuns, metric: str, task_count: int) -> Flags:
    """The tasks where all that was measured is one value; what was not measured cannot differ."""
    known = ~np.isnan(arm.values[metric])
    values, task = arm.values[metric][known], arm.task[known]
    low, high = np.full(task_count, np.inf), np.full(task_count, -np.inf)
    np.minimum.at(low, task, values)
    np.maximum.at(high, task, values)
    return low >= high


def _cut_durations(arm: ArmRuns) -> Iterator[Caveat]:
    durations = arm.values[DURATION.name]
    if not len(durations):
        return
    longest = float(durations.max())
    at_limit = durations >= longest * (1.0 - _NEAR)
    count = int(at_limit.sum())
    if count < _FEWEST_CUT or count <= CUT * len(durations):
        return
    # A limit piles runs up: fewer than half as many lie a little below it, and some far below.
    below = int((durations >= longest * (1.0 - 10 * _NEAR)).sum()) - count
    if durations.min() > longest * SHORTER or below > count / 2:
        return
    # The repeats of one task that is played again are no limit.
    if len(np.unique(arm.task[at_limit])) > 1 or len(np.unique(arm.task)) == 1:
        yield Caveat(
            code="durations_cut",
            message=say(
                "durations are cut off by a time limit: {} of {} of {} took {} s or just under; "
                "mean and ratio understate them, the median is still valid",
                count,
                counted(len(durations), "run"),
                Name(arm.arm),
                f"{longest:g}",
            ),
        )
