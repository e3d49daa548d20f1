"""Interval: a range with its method; the two questions; when there is none, and why."""

import math
from typing import Literal

import msgspec

from twoarm.escape import counted
from twoarm.evidence.kernel import student

# The smallest number of tasks about which anything can be said at 95 % without assuming a shape:
# all six on one side has a chance of 2 / 2^6 = 3.1 %, all five 2 / 2^5 = 6.25 %.
FEWEST_TASKS = 6
# The same, of pairs or runs.
FEWEST_PAIRS = 6

Scope = Literal["these_tasks", "tasks_like_these"]


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A range that should hold the true value at the level of the analysis."""

    low: float
    high: float
    method: str
    caveats: tuple[str, ...]


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no interval, or what limits it, for one question or (None) for both."""

    code: str
    scope: Scope | Literal["bootstrap"] | None
    message: str


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure and what the runs can support about it; `withheld` says why an interval is null."""

    estimate: float | None
    these_tasks: Interval | None
    tasks_like_these: Interval | None
    withheld: tuple[Withheld, ...]


class BootstrapEstimate(Estimate, frozen=True, kw_only=True):
    """An estimate that also has the bootstrap interval of the scoring rules."""

    bootstrap: Interval | None


def between(*, low: float, high: float, method: str, caveats: tuple[str, ...]) -> Interval:
    """An interval whose ends are rounded to what any processor's sums agree on."""
    if not no_width(low, high):
        low, high = _rounded(low), _rounded(high)
    return Interval(low=low, high=high, method=method, caveats=caveats)


def no_width(low: float, high: float) -> bool:
    """Whether two ends are one and the same but for rounding: a tie, not a certainty."""
    return not _rounded(low) < _rounded(high)


def _rounded(end: float) -> float:
    return float(f"{end:.12g}")


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What every method needs to know: the level, and the random draws."""

    level: float
    seed: int
    resamples: int

    @property
    def fewest_tasks(self) -> int:
        """From how many tasks on an interval over tasks can be had without assuming a shape."""
        return max(FEWEST_TASKS, math.ceil(1.0 - math.log2(1.0 - self.level)))

    def quantile(self, df: float) -> float:
        """How many standard errors the interval reaches to each side."""
        return student((1.0 + self.level) / 2.0, df)


def reasons(found: Estimate, scope: Scope) -> tuple[str, ...]:
    """Why there is no interval for one question."""
    return tuple(one.message for one in found.withheld if one.scope in (None, scope))


ONE_TASK = Withheld(
    code="one_task",
    scope="tasks_like_these",
    message="One task: this says nothing about other tasks.",
)
ONE_TASK_WEIGHS = Withheld(
    code="one_task_weighs",
    scope="tasks_like_these",
    message="One task has nearly all the pairs: no interval over tasks.",
)
IDENTICAL_TASKS = Withheld(
    code="identical_tasks",
    scope="tasks_like_these",
    message="No variation between tasks: interval not estimable (replayed or cached runs?).",
)
ONE_REPEAT = Withheld(
    code="one_repeat",
    scope="these_tasks",
    message="One repeat: run-to-run noise cannot be told from task differences.",
)
IDENTICAL_REPEATS = Withheld(
    code="identical_repeats",
    scope="these_tasks",
    message="Repeats are identical: they add no information.",
)
NO_PAIRS = Withheld(code="no_pairs", scope=None, message="No pair has this metric in both arms.")
TOO_EXTREME = Withheld(
    code="too_extreme", scope=None, message="The ratio is too extreme for a number."
)
NOTHING_TO_RESAMPLE = Withheld(
    code="nothing_to_resample", scope="bootstrap", message="One pair: nothing to resample."
)
FLAT_BOOTSTRAP = Withheld(
    code="flat_bootstrap",
    scope="bootstrap",
    message="The bootstrap has no width: every resample has the same mean.",
)


def tied(scope: Scope) -> Withheld:
    """Why a difference of medians has no interval although the runs vary."""
    message = "Every resample has the same difference: too many values are tied."
    return Withheld(code="tied", scope=scope, message=message)


def no_interval_over(count: int, fewest: int = FEWEST_TASKS) -> Withheld:
    """Why there is no distribution-free interval over so few tasks."""
    message = (
        f"{counted(count, 'task')}: too few for an interval over other tasks; it takes {fewest}."
    )
    return Withheld(code="too_few_tasks", scope="tasks_like_these", message=message)


def too_few_runs(count: int) -> Withheld:
    """Why there is no interval of an arm's median on these tasks."""
    message = f"No interval: {counted(count, 'run')} in an arm; it takes {FEWEST_PAIRS}."
    return Withheld(code="too_few_runs", scope="these_tasks", message=message)


def few_tasks(count: int) -> str:
    """The caveat of an interval over two to five tasks."""
    return (
        f"Only {counted(count, 'task')}: the interval for other tasks assumes a normal "
        "distribution."
    )


def borrowed(single: int, tasks: int) -> tuple[str, ...]:
    """The caveat of an interval on these tasks when some of them were run once."""
    if not single:
        return ()
    return (
        f"{single} of {counted(tasks, 'task')} with a single run: their run-to-run noise is "
        "borrowed from the others.",
    )
