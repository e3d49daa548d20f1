"""Interval: a range with its method; the two questions; when there is none, and why."""

import math
from types import ModuleType
from typing import Literal

import msgspec

from twoarm.quote import counted

# The smallest number of units about which anything can be said at 95 % without assuming a shape:
# all six on one side has a chance of 2 / 2^6 = 3.1 %, all five 2 / 2^5 = 6.25 %.
SIX = 6

Scope = Literal["these_tasks", "tasks_like_these"]


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A range that should hold the true value at the level of the analysis."""

    low: float
    high: float
    method: str
    caveats: tuple[str, ...]


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


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure and what the runs can support about it; `caveats` says why an interval is null."""

    estimate: float | None
    these_tasks: Interval | None
    tasks_like_these: Interval | None
    caveats: tuple[str, ...]


class BootstrapEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate that also has the bootstrap interval of the scoring rules."""

    estimate: float | None
    these_tasks: Interval | None
    tasks_like_these: Interval | None
    bootstrap: Interval | None
    caveats: tuple[str, ...]


class Atoms(msgspec.Struct, frozen=True, kw_only=True):
    """Values and the chance of each."""

    values: list[float]
    chances: list[float]


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What every method needs to know: the level, the random draws, and the kernel.

    `small` says that the plain kernel is in use, and numpy must not be imported.
    """

    level: float
    seed: int
    resamples: int
    kernel: ModuleType
    small: bool

    @property
    def fewest_tasks(self) -> int:
        """From how many tasks on an interval over tasks can be had without assuming a shape."""
        return max(SIX, math.ceil(1.0 - math.log2(1.0 - self.level)))

    def quantile(self, df: float) -> float:
        """How many standard errors the interval reaches to each side."""
        found: float = self.kernel.student((1.0 + self.level) / 2.0, df)
        return found


ONE_TASK = "One task: this says nothing about other tasks."
ONE_REPEAT = "One repeat: run-to-run noise cannot be told from task differences."
NO_PAIRS = "No pair has this metric in both arms."
IDENTICAL_REPEATS = "Repeats are identical: they add no information."
NOTHING_TO_RESAMPLE = "One pair: nothing to resample."
FLAT_BOOTSTRAP = "The bootstrap has no width: every resample has the same mean."
TIED = "Every resample has the same difference: too many values are tied."
ONE_TASK_WEIGHS = "One task has nearly all the pairs: no interval over tasks."
TOO_EXTREME = "The ratio is too extreme to hold."
IDENTICAL_TASKS = "No variation between tasks: interval not estimable (replayed or cached runs?)."


# What tells which question a caveat with a number in it is about.
_OVER_OTHERS = "over other tasks"
_IN_AN_ARM = "in an arm"


def few_tasks(count: int) -> str:
    """The caveat of an interval over two to five tasks."""
    return (
        f"Only {counted(count, 'task')}: the interval for other tasks leans on a normal-shape "
        "assumption."
    )


def borrowed(sizes: list[int]) -> tuple[str, ...]:
    """The caveat of an interval on these tasks when some of them were run once."""
    single = sizes.count(1)
    if not single:
        return ()
    tasks = counted(len(sizes), "task")
    return (f"{single} of {tasks} with a single run: how such runs vary is taken from the others.",)


def no_interval_over(count: int, fewest: int = SIX) -> str:
    """Why there is no distribution-free interval over so few tasks."""
    return f"{counted(count, 'task')}: too few for an interval {_OVER_OTHERS} (from {fewest} on)."


def too_few_runs(count: int) -> str:
    """Why there is no interval of an arm's median on these tasks."""
    return f"No interval: {counted(count, 'run')} {_IN_AN_ARM}; it takes {SIX}."


def reasons(caveats: tuple[str, ...], scope: Scope) -> tuple[str, ...]:
    """Why there is no interval for one question: without what is said of the other alone."""
    of_these = (ONE_REPEAT, IDENTICAL_REPEATS)
    of_others = (ONE_TASK, IDENTICAL_TASKS, ONE_TASK_WEIGHS)
    kept = tuple(
        caveat
        for caveat in caveats
        if not (
            caveat in of_others or _OVER_OTHERS in caveat
            if scope == "these_tasks"
            else caveat in of_these or _IN_AN_ARM in caveat
        )
    )
    return kept or caveats
