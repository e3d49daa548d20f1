"""What a promotion by the evidence needs besides the verdict: nobody is promoted for failing fast.

Success on these very tasks, a gain that is there among solved runs, no tasks broken beyond chance,
nothing that people pay for clearly worse, arms that ran side by side.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np

from twoarm.compare.decide import MINIMUM_REPEATS
from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.kernel import chance_of_at_least, log_choose
from twoarm.evidence.results import (
    Broken,
    BrokenTask,
    DeltaEvidence,
    Drop,
    Grade,
    Guard,
    Interval,
    Margin,
    Paid,
    RunOrder,
    Scope,
)
from twoarm.evidence.solved import gain_survives
from twoarm.options import Options
from twoarm.runs.arrays import Flags, Floats, Ints
from twoarm.runs.metric import COST, SUCCESS, TOKENS, Better, Metric

# A task is broken when it succeeds at most this share as often as in the baseline, ...
BROKEN_SHARE = 0.5
# ... with a one-sided Fisher test inside the task of at most this.
BROKEN_P = 0.05

Held = Literal[
    "not side by side",
    "never succeeds",
    "gain unchecked",
    "gain of failed runs",
    "no success",
    "success drops",
    "success may drop",
    "breaks tasks",
    "costs more",
]
# What was seen to be bad; the others are only not ruled out.
HARM: frozenset[Held] = frozenset(
    ("never succeeds", "gain of failed runs", "success drops", "breaks tasks", "costs more")
)


def watch(
    passes: TaskRuns,
    names: tuple[str, ...],
    fewest: dict[str, int],
    deltas: dict[str, DeltaEvidence],
    graded: Grade,
    level: float,
) -> Guard:
    """Everything the guard looks at; `fewest` counts measured repeats of a task in an arm."""
    here = deltas[SUCCESS.name].mean.these_tasks
    gains = (entry.metric for entry in graded.findings if entry.standing == "better")
    return Guard(
        successes=round(float(np.nansum(passes.means[0] * passes.sizes[0]))),
        gain_survives=gain_survives(gains, {name: delta.solved for name, delta in deltas.items()}),
        success_low=None if here is None else here.low,
        success_high=None if here is None else here.high,
        broken=broken_tasks(passes, names, level),
        paid=_paid(fewest, deltas, graded.scope, level),
    )


def broken_tasks(passes: TaskRuns, names: tuple[str, ...], level: float) -> Broken:
    """The tasks that the candidate broke, the clearest first."""
    sizes = passes.sizes
    won = np.rint(np.nan_to_num(passes.means) * sizes).astype(np.int64)
    broken, chances = [], np.zeros(sizes.shape[1])
    watched = np.zeros(sizes.shape[1], dtype=bool)
    for task in np.flatnonzero(won.sum(axis=0)):
        ours, theirs = int(sizes[0, task]), int(sizes[1, task])
        _, _, seen = _tables(ours, theirs, int(won[1, task]))
        # The first table: none of the candidate's runs succeeds.
        watched[task] = won[1, task] and seen[0]
        counts, p, named = _tables(ours, theirs, int(won[:, task].sum()))
        # The chance that randomly labeled runs would get this task named.
        chances[task] = math.fsum(p[named])
        at = int(won[0, task]) - int(counts[0])
        if named[at]:
            broken.append(
                BrokenTask(
                    task_id=names[passes.layout.tasks[task]],
                    candidate=float(passes.means[0, task]),
                    baseline=float(passes.means[1, task]),
                    p=min(1.0, math.fsum(p[: at + 1])),
                )
            )
    # Tasks of a family break together.
    family = passes.layout.family
    independent = int(watched.sum()) if family is None else len(np.unique(family[watched]))
    could = None if broken or not independent else 1.0 - (1.0 - level) ** (1.0 / independent)
    return Broken(
        tasks=tuple(sorted(broken, key=lambda entry: (entry.p, entry.task_id))),
        p=chance_of_at_least(len(broken), chances) if broken else None,
        watched=int(watched.sum()),
        got_worse=int((passes.deltas < 0).sum()),
        could_break=could,
        largest_drop=_largest_drop(passes, won, names),
    )


def _largest_drop(passes: TaskRuns, won: Ints, names: tuple[str, ...]) -> Drop | None:
    """The task whose success fell furthest; of several, the one that chance explains least."""
    sizes, falls = passes.sizes, np.round(passes.deltas, 12)
    furthest = falls.min(initial=0.0)
    if furthest == 0.0:
        return None

    def chance(task: int) -> float:
        counts, p, _ = _tables(int(sizes[0, task]), int(sizes[1, task]), int(won[:, task].sum()))
        return math.fsum(p[: int(won[0, task]) - int(counts[0]) + 1])

    task = min(np.flatnonzero(falls == furthest).tolist(), key=chance)
    return Drop(
        task_id=names[passes.layout.tasks[task]],
        passed=(int(won[0, task]), int(won[1, task])),
        runs=(int(sizes[0, task]), int(sizes[1, task])),
    )


@lru_cache(maxsize=4096)
def _tables(ours: int, theirs: int, won: int) -> tuple[Ints, Floats, Flags]:
    """The successes that the candidate could have out of this many, their chances if labels were
    exchanged, and whether a task is named with them."""
    counts = np.arange(max(0, won - theirs), min(won, ours) + 1, dtype=np.int64)
    logs = log_choose(ours, counts) + log_choose(theirs, won - counts)
    p: Floats = np.exp(logs - log_choose(ours + theirs, won))
    rare = np.cumsum(p) <= BROKEN_P + 1e-12
    half = counts / ours <= BROKEN_SHARE * (won - counts) / theirs
    return counts, p, rare & half


def _paid(
    fewest: dict[str, int], deltas: dict[str, DeltaEvidence], headline: Scope, level: float
) -> Paid:
    """The cost where it was measured well enough, otherwise the total tokens."""
    for metric in (COST, TOKENS):
        if fewest[metric.name] >= MINIMUM_REPEATS:
            interval: Interval | None = getattr(deltas[metric.name].change, headline)
            return Paid(
                metric=metric.name,
                ratio=deltas[metric.name].ratio is not None,
                estimate=deltas[metric.name].change.estimate,
                change=interval,
                worse=clearly_worse(metric, deltas[metric.name], headline, level),
            )
    return Paid(metric=None, ratio=False, estimate=None, change=None, worse=False)


def clearly_worse(metric: Metric, delta: DeltaEvidence, headline: Scope, level: float) -> bool:
    """Whether the whole interval of the headline question lies on the worse side.

    A change by the same share in every task has no interval, but it has a test.
    """
    interval: Interval | None = getattr(delta.change, headline)
    if interval is not None:
        low, high = interval.low, interval.high
    else:
        p: float | None = getattr(delta.p, headline)
        if p is None or p > 1.0 - level or delta.change.estimate is None:
            return False
        low = high = delta.change.estimate
    return high < delta.unchanged if metric.better is Better.HIGHER else low > delta.unchanged


def held_back(guard: Guard, order: RunOrder, options: Options) -> tuple[Held, ...]:
    """What stands against a promotion by the evidence."""
    return () if options.guard == "none" else tuple(_held_back(guard, order, options))


def held_by_margin(margin: Margin, order: RunOrder, options: Options) -> tuple[Held, ...]:
    """What stands against a promotion of the margin rule's candidate.

    A gain that only failed runs show is none, whether the guard is on or off.
    """
    apart = _apart(order) if options.guard != "none" else ()
    return (*apart, *_unsolved(margin.gain_survives))


def _held_back(guard: Guard, order: RunOrder, options: Options) -> Iterator[Held]:
    low, high = guard.success_low, guard.success_high
    yield from _apart(order)
    if not guard.successes:
        yield "never succeeds"
    else:
        yield from _unsolved(guard.gain_survives)
    if low is None or high is None:
        yield "no success"
    elif low <= -options.margin_success:
        yield "success drops" if high < 0 else "success may drop"
    broken = guard.broken
    if len(broken.tasks) > options.allow_broken and broken.beyond_chance:
        yield "breaks tasks"
    if guard.paid.worse:
        yield "costs more"


def _apart(order: RunOrder) -> Iterator[Held]:
    if order.in_separate_blocks:
        yield "not side by side"


def _unsolved(survives: bool | None) -> Iterator[Held]:
    if survives is None:
        yield "gain unchecked"
    elif not survives:
        yield "gain of failed runs"
