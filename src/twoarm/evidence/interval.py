"""How ends of intervals are made and rounded, and why there may be none."""

import msgspec

from twoarm.evidence.kernel import student
from twoarm.evidence.results import (
    FEWEST_TASKS,
    Estimate,
    Interval,
    Scope,
    TestStanding,
    Withheld,
    fewest_tasks,
)
from twoarm.runs.metric import Better
from twoarm.text.escape import counted, plural

# An interval, or why there is none.
Answer = Interval | Withheld

# The smallest number of pairs about which anything can be said at 95 %.
FEWEST_PAIRS = 6


def between(*, low: float, high: float, method: str, caveats: tuple[str, ...]) -> Interval:
    """An interval whose ends are rounded to what any processor's sums agree on."""
    if not no_width(low, high):
        low, high = _rounded(low), _rounded(high)
    return Interval(low=low, high=high, method=method, caveats=caveats)


def no_width(low: float, high: float) -> bool:
    """Whether two ends are the same except for rounding: a tie, not a certainty."""
    return not _rounded(low) < _rounded(high)


def _rounded(end: float) -> float:
    return float(f"{end:.12g}")


def by_interval(limits: Interval | None, nothing: float, better: Better) -> TestStanding:
    """What an interval shows on its own; `nothing` is no difference."""
    if limits is None:
        return "no test"
    if limits.low <= nothing <= limits.high:
        return "no clear difference"
    return "better" if (limits.low > nothing) == (better is Better.HIGHER) else "worse"


def estimated(value: float | None, these_tasks: Answer, tasks_like_these: Answer) -> Estimate:
    """A figure with what the runs answer to both questions."""
    answers = these_tasks, tasks_like_these
    these, like = (answer if isinstance(answer, Interval) else None for answer in answers)
    return Estimate(
        estimate=value, these_tasks=these, tasks_like_these=like, withheld=withheld(*answers)
    )


def withheld(*answers: Answer) -> tuple[Withheld, ...]:
    """The reasons among some answers, each once."""
    return tuple(dict.fromkeys(answer for answer in answers if isinstance(answer, Withheld)))


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What every method needs to know: the level, and the random draws.

    `tests` is the level of the tests, which at a look is not that of the intervals.
    """

    level: float
    tests: float
    seed: int
    resamples: int

    @property
    def fewest_tasks(self) -> int:
        """How many tasks it takes to say anything about others without assuming a shape."""
        return fewest_tasks(self.tests)

    @property
    def fewest_runs(self) -> int:
        """How many runs it takes for their range to hold the median."""
        return fewest_tasks(self.level)

    def quantile(self, df: float) -> float:
        """How many standard errors the interval reaches to each side."""
        return student((1.0 + self.level) / 2.0, df)


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
NO_RUNS = Withheld(code="no_runs", scope=None, message="No task has this metric in both arms.")
NO_PAIRS = Withheld(code="no_pairs", scope=None, message="No pair has this metric in both arms.")
# No number is further from 1 than the exponential of this.
FURTHEST = 700.0
TOO_EXTREME = Withheld(
    code="too_extreme", scope=None, message="The ratio is too extreme for a number."
)
FLAT_BOOTSTRAP = Withheld(
    code="flat_bootstrap",
    scope="bootstrap",
    message="The bootstrap has no width: every resample has the same mean.",
)


def identical(noun: str) -> Withheld:
    """Why tasks, or families, that all show the same have no interval over others."""
    message = (
        f"No variation between {plural(noun)}: interval not estimable (replayed or cached runs?)."
    )
    return Withheld(code="identical_tasks", scope="tasks_like_these", message=message)


def few_to_resample(noun: str) -> Withheld:
    """Why so few tasks, or families, are not drawn again."""
    message = f"Fewer than {FEWEST_TASKS} {plural(noun)}: a bootstrap would be far too narrow."
    return Withheld(code="few_to_resample", scope="bootstrap", message=message)


def only_one(noun: str) -> Withheld:
    """Why one task, or one family of tasks, has no interval over others."""
    message = f"One {noun}: this says nothing about other tasks."
    return Withheld(code="one_task", scope="tasks_like_these", message=message)


def tied(scope: Scope) -> Withheld:
    """Why a difference of medians has no interval although the runs vary."""
    message = "No interval: too many values are tied around the medians."
    return Withheld(code="tied", scope=scope, message=message)


def no_interval_over(count: int, fewest: int = FEWEST_TASKS, noun: str = "task") -> Withheld:
    """Why there is no distribution-free interval over so few tasks or families."""
    message = (
        f"{counted(count, noun)}: too few for an interval over other tasks; it takes {fewest}."
    )
    return Withheld(code="too_few_tasks", scope="tasks_like_these", message=message)


def too_few_runs(count: int, fewest: int) -> Withheld:
    """Why there is no interval of an arm's median on these tasks."""
    message = f"No interval: {counted(count, 'run')} in an arm; it takes {fewest}."
    return Withheld(code="too_few_runs", scope="these_tasks", message=message)


def few_tasks(count: int, noun: str = "task") -> str:
    """The caveat of an interval over two to five tasks or families."""
    return (
        f"Only {counted(count, noun)}: the interval for other tasks assumes a normal distribution."
    )


def borrowed(single: int, tasks: int) -> tuple[str, ...]:
    """The caveat of an interval on these tasks when some of them were run once."""
    if not single:
        return ()
    return (
        f"{single} of {counted(tasks, 'task')} with a single run: their run-to-run noise is "
        "borrowed from the others.",
    )
