"""Intervals of means, ratios and success: closed forms, no random numbers.

Every counted run is seen, paired or not, and every task weighs alike; of families of tasks every
family does, and inside it every task.
"""

import math

import msgspec
import numpy as np

from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.interval import (
    FURTHEST,
    IDENTICAL_REPEATS,
    NO_RUNS,
    ONE_REPEAT,
    TOO_EXTREME,
    Answer,
    Frame,
    between,
    borrowed,
    estimated,
    few_tasks,
    identical,
    no_interval_over,
    no_width,
    only_one,
)
from twoarm.evidence.kernel import student
from twoarm.evidence.results import FEWEST_TASKS, Estimate, Interval
from twoarm.runs.arrays import Floats, Ints

OVER = {"task": "t on task means", "family": "t on family means"}
WITHIN_TASKS = "Welch t within tasks"
PASS_OVER = {noun: f"guarded {method}" for noun, method in OVER.items()}
PASS_WITHIN_TASKS = "guarded Welch t within tasks"
# What the two pseudo tasks, one fixed and one broken, add to the variance. The smallest number that
# covers changes of whole tasks; 1.25 covers 93 %, 2 is wider than needed (docs/statistics.md).
PSEUDO_TASKS = 1.5
# A kind of task this rare may be missing, unless there are so many tasks that it is unlikely.
RARE, UNLIKELY = 0.10, 0.01
LOPSIDED = "A few large differences can make an interval of a raw mean too narrow."


class StandardError(msgspec.Struct, frozen=True, kw_only=True):
    """A squared standard error and its degrees of freedom."""

    variance: float
    df: float


def over_tasks(deltas: Floats) -> StandardError:
    """The error of the mean over tasks, or families, when these are a sample; two or more."""
    tasks = len(deltas)
    away = deltas - math.fsum(deltas) / tasks
    return StandardError(variance=math.fsum(away**2) / (tasks * (tasks - 1)), df=tasks - 1.0)


def within_tasks(spreads: Floats, sizes: Ints, weights: Floats) -> StandardError | None:
    """The error of the mean over tasks when only the repeats are a sample.

    A row for each arm; `weights` add up to 1. A task with a single run borrows the pooled variance
    of the others; the degrees of freedom are those of the variances it is made of.
    """
    square, n = spreads.ravel(), sizes.ravel()
    freedom = int((n - 1).sum())
    if not freedom:
        return None
    weight = np.tile(weights, 2) ** 2
    lent = float(weight[n == 1].sum()) / freedom
    square, n, weight = square[n > 1], n[n > 1], weight[n > 1]
    parts = weight * (square / (n - 1) / n) + lent * square
    variance, scale = math.fsum(parts), math.fsum(parts**2 / (n - 1))
    return StandardError(variance=variance, df=max(1.0, variance**2 / scale) if scale else 1.0)


def mean_estimate(runs: TaskRuns, frame: Frame) -> Estimate:
    """The mean over tasks of the differences inside each, with both intervals."""
    deltas, noun = runs.independent, runs.layout.noun
    if not len(deltas):
        return estimated(None, NO_RUNS, NO_RUNS)
    centre = math.fsum(deltas) / len(deltas)
    sizes, count = runs.sizes[:, runs.shared], len(deltas)
    most = int(sizes.max())
    these: Answer
    like: Answer
    if most == 1:
        these = ONE_REPEAT
    else:
        error = within_tasks(runs.spreads[:, runs.shared], sizes, runs.weights)
        if error is None or error.variance == 0.0:
            these = IDENTICAL_REPEATS
        else:
            notes = borrowed(int((sizes.min(axis=0) == 1).sum()), sizes.shape[1])
            these = _around(centre, error, WITHIN_TASKS, notes, frame)
    if count == 1:
        like = only_one(noun)
    elif count >= FEWEST_TASKS or most > 1:
        error = over_tasks(deltas)
        size = float(np.abs(runs.means[:, runs.shared]).max())
        if math.sqrt(error.variance) <= 1e-12 * size:
            like = identical(noun)
        else:
            few = (few_tasks(count, noun),) if count < FEWEST_TASKS else ()
            notes = few or _unseen(count, noun) if runs.logs else (*few, LOPSIDED)
            like = _around(centre, error, OVER[noun], notes, frame)
    else:
        like = no_interval_over(count, noun=noun)
    return estimated(centre, these, like)


def _unseen(count: int, noun: str) -> tuple[str, ...]:
    """What an interval over so few tasks cannot show, and nothing in them would reveal."""
    none = (1.0 - RARE) ** count
    if none < UNLIKELY:
        return ()
    return (
        f"If one {noun} in ten reacts very differently, these {count} may hold none of them (a "
        f"chance of {none:.0%}): the interval is then too narrow.",
    )


def ratio_estimate(runs: TaskRuns, frame: Frame) -> Estimate | None:
    """The ratio of geometric means, candidate to baseline; None off the scale of ratios."""
    if not runs.logs:
        return None
    on_logs = mean_estimate(runs, frame)
    if on_logs.estimate is None:
        return None
    these, like = _exp_interval(on_logs.these_tasks), _exp_interval(on_logs.tasks_like_these)
    lost = (on_logs.these_tasks and not these) or (on_logs.tasks_like_these and not like)
    return Estimate(
        estimate=finite_exp(on_logs.estimate),
        these_tasks=these,
        tasks_like_these=like,
        withheld=(*on_logs.withheld, TOO_EXTREME) if lost else on_logs.withheld,
    )


def _around(
    centre: float, error: StandardError, method: str, caveats: tuple[str, ...], frame: Frame
) -> Interval:
    reach = frame.quantile(error.df) * math.sqrt(error.variance)
    return between(low=centre - reach, high=centre + reach, method=method, caveats=caveats)


def finite_exp(value: float) -> float:
    """The exponential, or the largest that is shown."""
    # The largest double stands in for what is larger: no infinity in any output.
    return math.exp(min(value, FURTHEST))


def _exp_interval(interval: Interval | None) -> Interval | None:
    if interval is None or no_width(finite_exp(interval.low), finite_exp(interval.high)):
        return None
    return between(
        low=finite_exp(interval.low),
        high=finite_exp(interval.high),
        method=f"{interval.method}, on logarithms",
        caveats=interval.caveats,
    )


def bounded_estimate(runs: TaskRuns, frame: Frame) -> Estimate:
    """The mean over tasks of a difference of success rates or scores, guarded by pseudo
    observations.

    Without them an arm without failures would have an interval of no width.
    """
    deltas, sizes = runs.independent, runs.sizes[:, runs.shared]
    count, noun, weights = len(deltas), runs.layout.noun, runs.weights
    if not count:
        return estimated(None, NO_RUNS, NO_RUNS)
    difference = math.fsum(deltas) / count
    these: Answer
    like: Answer
    repeats = int(sizes.max())
    if repeats == 1:
        these = ONE_REPEAT
    else:
        error = within_tasks(runs.spreads[:, runs.shared], sizes, weights)
        # Where tasks weigh differently, they are worth fewer that weigh alike.
        even = 1.0
        if runs.layout.family is not None:
            even = 1.0 / (sizes.shape[1] * float((weights**2).sum()))
        # The df of the pooled variance: with no variation at all there is nothing to weigh it by.
        df = max(1.0, even * float((sizes - 1).sum()))
        error = StandardError(variance=error.variance if error else 0.0, df=df)
        pairs = even * float((2.0 * sizes[0] * sizes[1] / sizes.sum(axis=0)).sum())
        notes = borrowed(int((sizes.min(axis=0) == 1).sum()), sizes.shape[1])
        these = _guarded(difference, error, pairs, 2.0, frame, PASS_WITHIN_TASKS, notes)
    if count == 1:
        like = only_one(noun)
    elif count >= FEWEST_TASKS or repeats > 1:
        notes = (few_tasks(count, noun),) if count < FEWEST_TASKS else ()
        like = _guarded(
            difference, over_tasks(deltas), count, PSEUDO_TASKS, frame, PASS_OVER[noun], notes
        )
    else:
        like = no_interval_over(count, noun=noun)
    return estimated(difference, these, like)


def score_estimate(runs: TaskRuns, frame: Frame) -> Estimate:
    """The mean over tasks of the difference of mean scores; over other tasks, from six on."""
    estimate = bounded_estimate(runs, frame)
    count = len(runs.independent)
    if estimate.tasks_like_these is None or count >= FEWEST_TASKS:
        return estimate
    withheld = (*estimate.withheld, no_interval_over(count, noun=runs.layout.noun))
    return msgspec.structs.replace(estimate, tasks_like_these=None, withheld=withheld)


def tasks_within(margin: float, level: float) -> int:
    """How many tasks it takes for success over tasks to lie inside a margin, if no task changes."""

    def reach(tasks: int) -> float:
        return student((1.0 + level) / 2.0, tasks - 1.0) * math.sqrt(PSEUDO_TASKS) / (tasks + 2.0)

    high = FEWEST_TASKS
    while reach(high) >= margin:
        high *= 2
    low = FEWEST_TASKS
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if reach(middle) >= margin else (low, middle)
    return low


def _guarded(
    difference: float,
    error: StandardError,
    count: float,
    pseudo: float,
    frame: Frame,
    method: str,
    notes: tuple[str, ...],
) -> Interval:
    """Around a difference shrunk by two observations, one each way, which add to its variance."""
    shrink = count / (count + 2.0)
    variance = error.variance * shrink**2 + pseudo / (count + 2.0) ** 2
    reach = frame.quantile(error.df) * math.sqrt(variance)
    centre = difference * shrink
    # The shrunk centre may leave what was seen outside a narrow interval.
    low, high = min(centre - reach, difference), max(centre + reach, difference)
    return between(low=max(-1.0, low), high=min(1.0, high), method=method, caveats=notes)
