"""What the records themselves say about how the runs were made, as caveats."""

from collections.abc import Collection, Iterator
from typing import Literal

import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import decide, figures, judge
from twoarm.compare.screen import ArmRuns
from twoarm.compare.tasks import Task, families_of
from twoarm.errors import Caveat
from twoarm.evidence.kernel import chance_of_at_least, log_choose
from twoarm.evidence.results import RunOrder
from twoarm.runs.arrays import Flags, Floats, measured, starts_of
from twoarm.runs.endings import code_of
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS
from twoarm.runs.runs import Runs
from twoarm.text.escape import counted
from twoarm.text.number_format import figure
from twoarm.text.sentence import Name, Sentence, joined, say

# From this share on, the runs of one arm started so far ahead of the other's that time and arm
# cannot be told apart.
APART = 0.95
# Fewer start times of an arm have no order.
_FEWEST_TIMED = 2
_NAMED_MAKERS = 3
# From this percentage of an arm's runs on, a time limit that stopped them matters; arms that are as
# many points apart have so many in one of them. They are compared in whole numbers.
CUT = 5
_FEWEST_CUT = 3
# With a limit, unlike where runs are merely alike, one is shorter than this share of the longest.
SHORTER = 0.8
# This little below the longest, as a share of it, is at the limit, too: stopping takes a moment.
_NEAR = 0.005


def check_design(comparison: Comparison, order: RunOrder) -> Iterator[Caveat]:
    """Everything about the design that the reader should know."""
    yield from _time_blocks(order, comparison)
    yield from _makers(comparison, "model")
    yield from _makers(comparison, "agent")
    yield from _unequal_repeats(comparison.tasks)
    for arm in comparison.screening.arms:
        yield from _identical_repeats(arm, len(comparison.runs.tasks))
    yield from _cut_durations(comparison)


def order_of_arms(comparison: Comparison) -> RunOrder:
    """Whether one arm ran before the other, in the whole file or inside the tasks."""
    started = comparison.runs.started
    if not len(started):
        return RunOrder(known=False, ran_first=None, in_blocks=0, timed=0, p=None)
    times = [started[arm.rows] for arm in comparison.screening.arms]
    count = len(comparison.runs.tasks)
    first, last = np.full((2, count), np.inf), np.full((2, count), -np.inf)
    sizes = np.zeros((2, count), dtype=np.int64)
    for side, (arm, when) in enumerate(zip(comparison.screening.arms, times, strict=True)):
        known = ~np.isnan(when)
        np.minimum.at(first[side], arm.task[known], when[known])
        np.maximum.at(last[side], arm.task[known], when[known])
        sizes[side] = np.bincount(arm.task[known], minlength=count)
    # One run of each arm has an order, but no blocks.
    timed = (sizes > 0).all(axis=0) & (sizes.sum(axis=0) > 2)
    apart = timed & ((last[0] < first[1]) | (last[1] < first[0]))
    in_blocks = int(apart.sum())
    chances = 2.0 * np.exp(-log_choose(sizes.sum(axis=0), sizes[0])[timed])
    return RunOrder(
        known=all(
            timed >= max(_FEWEST_TIMED, len(arm) / 2)
            for timed, arm in zip(sizes.sum(axis=1), comparison.screening.arms, strict=True)
        ),
        ran_first=_ran_first(times, comparison),
        in_blocks=in_blocks,
        timed=int(timed.sum()),
        p=chance_of_at_least(in_blocks, np.minimum(chances, 1.0)) if timed.any() else None,
    )


def _ran_first(times: list[Floats], comparison: Comparison) -> str | None:
    """The arm whose runs started before the other's, not among them; None if neither did."""
    ours, theirs = (np.sort(measured(starts)) for starts in times)
    if min(len(ours), len(theirs)) < _FEWEST_TIMED:
        return None
    # The share of pairs of one of each in which the candidate's run started first; ties half.
    before = np.searchsorted(theirs, ours) + np.searchsorted(theirs, ours, side="right")
    earlier = 1.0 - float(before.sum() / (2 * len(ours) * len(theirs)))
    if earlier >= APART:
        return comparison.arms.candidate
    return comparison.arms.baseline if 1.0 - earlier >= APART else None


def _time_blocks(order: RunOrder, comparison: Comparison) -> Iterator[Caveat]:
    message: Sentence | None = None
    if order.ran_first is not None:
        second = next(arm for arm in comparison.arms.both if arm != order.ran_first)
        message = say(
            "{} ran before {}, not interleaved with it: whatever else changed in between is "
            "part of the difference; interleave the arms",
            Name(order.ran_first),
            Name(second),
        )
    elif order.in_separate_blocks:
        message = say(
            "in {} of {}, every run of one arm started before the other arm's: whatever else "
            "changed in between is part of the difference; interleave the arms",
            order.in_blocks,
            counted(order.timed, "task"),
        )
    if message is not None:
        yield Caveat.of(code="separate_time_blocks", message=message)


def _makers(comparison: Comparison, what: Literal["model", "agent"]) -> Iterator[Caveat]:
    """Whether an arm has several models or agents, and whether the arms have different ones."""
    tallies = [_counts(comparison.runs, arm, what) for arm in comparison.screening.arms]
    for arm, counts in zip(comparison.arms.both, tallies, strict=True):
        if len(counts) > 1:
            count = counted(len(counts), what)
            message = say("{} in {}: {}", count, Name(arm), _numbered(counts))
            yield Caveat.of(code=f"several_{what}s", message=message)
    if tallies[0] and tallies[1] and tallies[0].keys() != tallies[1].keys():
        yield Caveat.of(
            code=f"different_{what}s",
            message=say(
                "the arms differ in {}: {} vs. {}; {}",
                what,
                _numbered(tallies[0]),
                _numbered(tallies[1]),
                _without_others(comparison, what, tallies[0].keys() & tallies[1].keys()),
            ),
        )


def _counts(runs: Runs, arm: ArmRuns, what: str) -> dict[str, int]:
    """How many runs each model or agent made, the most first."""
    totals = np.bincount(runs.maker[arm.rows], minlength=len(runs.makers)).tolist()
    counts: dict[str, int] = {}
    for maker, count in zip(runs.makers, totals, strict=True):
        name = getattr(maker, what)
        if name is not None and count:
            counts[name] = counts.get(name, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _numbered(counts: dict[str, int]) -> Sentence:
    named = [say("{} ({})", Name(name), counted(count, "run")) for name, count in counts.items()]
    more = len(named) - _NAMED_MAKERS
    first = joined(named[:_NAMED_MAKERS], ", ")
    return say("{} and {} more", first, more) if more > 0 else first


def _without_others(comparison: Comparison, what: str, both: Collection[str]) -> Sentence:
    """Which figures would change without the runs of models or agents that only one arm has."""
    if not both:
        return say("the effect of the change cannot be separated from that")
    runs = comparison.runs
    names = [getattr(maker, what) for maker in runs.makers]
    kept = np.array([name in both for name in names])
    unnamed = np.array([name is None for name in names])
    rows = [np.flatnonzero(kept[runs.maker[arm.rows]]) for arm in comparison.screening.arms]
    left = [arm.take(at) for arm, at in zip(comparison.screening.arms, rows, strict=True)]
    gates = judge(*(figures(arm.values) for arm in left))
    changed = [
        f"{gate.rule.label} {gate.both} instead of {before.both}"
        for gate, before in zip(gates, comparison.gates, strict=True)
        if gate.both != before.both
    ]
    gone = sum(map(len, comparison.screening.arms)) - sum(map(len, left))
    unknown = sum(int(unnamed[runs.maker[arm.rows]].sum()) for arm in comparison.screening.arms)
    decision = decide(gates, comparison.arms)
    same = decision == comparison.decision
    return say(
        "without the {} whose {} the other arm lacks{}, the decision {}{}",
        counted(gone - unknown, "run"),
        what,
        f" and the {unknown:,} that name none" if unknown else "",
        "is the same" if same else say("would be {}", Name(decision)),
        f" ({'; '.join(changed)})" if changed else "",
    )


def _unequal_repeats(tasks: tuple[Task, ...]) -> Iterator[Caveat]:
    counts = [runs for task in tasks for runs in (task.candidate.runs, task.baseline.runs) if runs]
    if counts and min(counts) != max(counts):
        yield Caveat.say(
            "unequal_repeats",
            "unequal repeats, {} to {} per task and arm: tasks with more repeats weigh more in "
            "the gates and paired deltas; in the evidence every {}",
            min(counts),
            max(counts),
            "task weighs alike"
            if families_of(tasks) is None
            else "family weighs alike, and so does every task inside it",
        )


def _identical_repeats(arm: ArmRuns, task_count: int) -> Iterator[Caveat]:
    starts = starts_of(arm.task, task_count)
    repeated = np.diff(starts) > 1
    alike = repeated.copy()
    for metric in (DURATION, NON_CACHE_TOKENS):
        alike &= _same(arm, metric.name, task_count)
    if alike.any():
        yield Caveat.say(
            "identical_repeats",
            "repeats are identical in {} of {} of {} (replayed or cached runs?): they add no "
            "information",
            int(alike.sum()),
            counted(int(repeated.sum()), "task"),
            Name(arm.arm),
        )


def _same(arm: ArmRuns, metric: str, task_count: int) -> Flags:
    """The tasks where all that was measured is one value; what was not measured cannot differ."""
    known = ~np.isnan(arm.values[metric])
    values, task = arm.values[metric][known], arm.task[known]
    low, high = np.full(task_count, np.inf), np.full(task_count, -np.inf)
    np.minimum.at(low, task, values)
    np.maximum.at(high, task, values)
    return low >= high


def _cut_durations(comparison: Comparison) -> Iterator[Caveat]:
    """Times at a limit are lower bounds: the more of them an arm has, the faster it looks."""
    arms = comparison.screening.arms
    cut, limits = _stopped(comparison), ""
    if not any(map(np.any, cut)):
        cut, limits = _piled_up(arms)
    counts, sizes = [int(at_limit.sum()) for at_limit in cut], [*map(len, arms)]
    if not any(
        size and 100 * count >= CUT * size for count, size in zip(counts, sizes, strict=True)
    ):
        return
    sides = [
        say("{} of {} of {}", count, counted(len(arm), "run"), Name(arm.arm))
        for count, arm in zip(counts, arms, strict=True)
    ]
    # How much larger the candidate's share is, times both numbers of runs.
    more = counts[0] * sizes[1] - counts[1] * sizes[0]
    faster = say("both arms look faster than they are")
    if 100 * abs(more) >= CUT * sizes[0] * sizes[1]:
        faster = say("{} looks faster than it is", Name(arms[int(more < 0)].arm))
    half = any(2 * count >= size for count, size in zip(counts, sizes, strict=True))
    yield Caveat.say(
        "durations_cut",
        "{} {}: how long they would have taken is not known, so in means and ratios {}{}",
        f"durations pile up at {limits}, as under a time limit, in"
        if limits
        else "a time limit stopped",
        joined(sides, ", "),
        faster,
        "" if half else "; the arm medians still hold",
    )


def _stopped(comparison: Comparison) -> list[Flags]:
    """The runs of each arm that a time limit stopped, by their own word."""
    runs = comparison.runs
    timed_out = np.array(
        [
            outcome.failure == "agent" and code_of(outcome.reason) == "timeout"
            for outcome in runs.outcomes
        ]
    )
    return [timed_out[runs.outcome[arm.rows]] for arm in comparison.screening.arms]


def _piled_up(arms: tuple[ArmRuns, ArmRuns]) -> tuple[list[Flags], str]:
    """The runs of each arm at a time limit, by their durations alone, and where that would be."""
    limits = [limit_of(arm) for arm in arms]
    cut: list[Flags] = []
    for arm, own, other in zip(arms, limits, limits[::-1], strict=True):
        durations, limit = arm.values[DURATION.name], own or other or np.inf
        at_limit: Flags = durations >= limit * (1.0 - _NEAR)
        # An arm that goes beyond the other's limit does not have it.
        beyond = (durations > limit * (1.0 + _NEAR)).any()
        cut.append(np.zeros_like(at_limit) if beyond else at_limit)
    shown = sorted(limit for limit in limits if limit is not None)
    if len(shown) == 2 and shown[0] >= shown[1] * (1.0 - _NEAR):
        del shown[0]
    return cut, " and ".join(figure(limit, DURATION.unit) for limit in shown)


def limit_of(arm: ArmRuns) -> float | None:
    """The longest duration of an arm, if so many runs took so long that a limit must be why."""
    durations = arm.values[DURATION.name]
    longest = float(durations.max(initial=0.0))
    # If no run took any time, nobody measured it.
    if longest <= 0.0:
        return None
    at_limit = durations >= longest * (1.0 - _NEAR)
    count = int(at_limit.sum())
    if count < _FEWEST_CUT or 100 * count < CUT * len(durations):
        return None
    # A limit piles runs up: fewer than half as many lie a little below it, and some far below.
    # Where durations are whole seconds, a little is at least two of them.
    step = float(np.diff(np.unique(durations)).min(initial=np.inf))
    little = max(longest * 10 * _NEAR, 2.001 * step)
    below = int((durations >= longest - little).sum()) - count
    if durations.min() > longest * SHORTER or below > count / 2:
        return None
    # One or two tasks that are played back, or always take as long, are not a limit.
    reached = np.unique(arm.task[at_limit])
    if len(np.unique(arm.task)) == 1 or len(reached) > 2:
        return longest
    partly = np.isin(arm.task[~at_limit], reached).any()
    return longest if len(reached) == 2 and partly else None
