"""The effect where the change was used: what it did to the runs that used it.

Runs that used the change are never compared with runs that did not: a run that is stuck tries
anything, so they differ in more than that. Instead the difference between the arms, in which every
run counts, is divided by how many more of the candidate's runs used the change.
"""

import math

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.evidence.cells import BOUNDED, TaskRuns, lay_out, task_runs
from twoarm.evidence.interval import (
    TOO_EXTREME,
    between,
    identical,
    no_interval_over,
    no_width,
)
from twoarm.evidence.kernel import student
from twoarm.evidence.means import PSEUDO_TASKS, finite_exp
from twoarm.evidence.results import FEWEST_TASKS, Interval, Withheld
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import COST, DURATION, NON_CACHE_TOKENS, SUCCESS

METRICS_WHERE_USED = (SUCCESS, DURATION, NON_CACHE_TOKENS, COST)
ASSUMPTION = (
    "This rests on one assumption: a change that is not used changes nothing. It does not hold for "
    "what every run has to read, such as the descriptions of tools."
)
METHODS = {"task": "Fieller on task means", "family": "Fieller on family means"}


class WhereUsed(msgspec.Struct, frozen=True, kw_only=True):
    """One metric, over the tasks in which both arms have runs with it whose uses are known.

    `used_share_difference` is how much larger the share of runs that used the change is in the
    candidate, on average over these tasks. `ratio` says whether `estimate` and `interval`, which is
    for tasks like these, are ratios; 1 is then no change.
    """

    tasks: int
    used_share_difference: float | None
    ratio: bool
    estimate: float | None
    interval: Interval | None
    withheld: Withheld | None

    @property
    def unchanged(self) -> float:
        """The value of the estimate that means no effect."""
        return 1.0 if self.ratio else 0.0


NOT_MORE_USED = Withheld(
    code="not_more_used",
    scope="tasks_like_these",
    message="The candidate does not clearly use the change more often than the baseline: there is "
    "nothing to divide the difference by.",
)
NOT_KNOWN = Withheld(
    code="use_not_known",
    scope=None,
    message="No task has runs in both arms that have this metric and show whether they used the "
    "change.",
)
BEYOND_ALL = Withheld(
    code="beyond_all",
    scope="tasks_like_these",
    message="More than all of success would have changed, so runs that did not use the change must "
    "differ, too: the assumption fails.",
)


def find_where_used(comparison: Comparison, level: float) -> dict[str, WhereUsed]:
    """The effect where the change was used on every metric that both arms have, by its name."""
    layout, rows = lay_out(comparison)
    uptake = comparison.runs.tools.uptake
    counts = np.full(layout.rows, np.nan)
    for side, (arm, at) in enumerate(zip(comparison.screening.arms, rows, strict=True)):
        if len(uptake):
            counts[layout.cell % 2 == side] = uptake[arm.rows[at]]
    used = np.where(np.isnan(counts), np.nan, counts > 0)
    effects = {}
    for metric in METRICS_WHERE_USED:
        raw = task_runs(metric, comparison, layout, rows)
        measured = ~np.isnan(raw.values) & ~np.isnan(used)
        uses = TaskRuns(metric=SUCCESS, logs=False, values=used, layout=layout).among(measured)
        effects[metric.name] = where_used(
            raw.on_test_scale().among(measured), uses.independent, level
        )
    return effects


def where_used(runs: TaskRuns, more_used: Floats, level: float) -> WhereUsed:
    """One metric, and how much larger the share of runs with a use is, family by family."""
    deltas, noun = runs.independent, runs.layout.noun
    tasks = len(deltas)
    effect = WhereUsed(
        tasks=int(runs.shared.sum()),
        used_share_difference=math.fsum(more_used) / tasks if tasks else None,
        ratio=runs.logs,
        estimate=None,
        interval=None,
        withheld=NOT_KNOWN if not tasks else None,
    )
    if 0 < tasks < FEWEST_TASKS:
        return msgspec.structs.replace(effect, withheld=no_interval_over(tasks, noun=noun))
    # Two pseudo tasks, in one of which every run that used the change passes, in the other none.
    guard = PSEUDO_TASKS / tasks**2 if tasks and runs.metric in BOUNDED else 0.0
    ends = fieller(deltas, more_used, level, guard) if tasks else None
    if ends is None:
        return msgspec.structs.replace(effect, withheld=effect.withheld or NOT_MORE_USED)
    if runs.metric in BOUNDED and (ends[0] >= 1.0 or ends[1] <= -1.0):
        return msgspec.structs.replace(effect, withheld=BEYOND_ALL)
    middle = math.fsum(deltas) / math.fsum(more_used)
    low, estimate, high = (_shown(value, runs) for value in (ends[0], middle, ends[1]))
    if no_width(low, high):
        # Of one more extreme than any number, both ends are the largest there is.
        why = identical(noun) if no_width(*ends) else TOO_EXTREME
        return msgspec.structs.replace(effect, estimate=estimate, withheld=why)
    return msgspec.structs.replace(
        effect,
        estimate=estimate,
        interval=between(low=low, high=high, method=METHODS[noun], caveats=()),
    )


def _shown(value: float, runs: TaskRuns) -> float:
    """On the scale that is reported; no success can change by more than all of it."""
    if runs.logs:
        return finite_exp(value)
    return max(-1.0, min(1.0, value)) if runs.metric in BOUNDED else value


def fieller(
    deltas: Floats, more_used: Floats, level: float, guard: float = 0.0
) -> tuple[float, float] | None:
    """Every effect for which a t test on `deltas - effect * more_used` does not reject.

    None if a t test does not find `more_used` above zero: then any effect size is consistent
    with the data. `guard` is added to the variance of the effect.
    """
    tasks = len(deltas)
    reach = student((1.0 + level) / 2.0, tasks - 1.0) ** 2
    moved, used = math.fsum(deltas) / tasks, math.fsum(more_used) / tasks
    away, apart = deltas - moved, more_used - used
    freedom = tasks * (tasks - 1)
    square = used**2 - reach * math.fsum(apart**2) / freedom
    if used <= 0.0 or square <= 0.0:
        return None
    product = moved * used - reach * math.fsum(away * apart) / freedom
    rest = moved**2 - reach * (math.fsum(away**2) / freedom + guard * used**2)
    # Never below zero but for rounding: the estimate itself is not rejected.
    root = math.sqrt(max(0.0, product**2 - square * rest))
    return (product - root) / square, (product + root) / square
