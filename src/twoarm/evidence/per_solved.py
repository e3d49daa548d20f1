"""What a solved task takes, in dollars and minutes: all that the runs of an arm took, failed ones
included, over how many of them succeeded. Nobody gets better at it by failing fast."""

import math
from functools import cached_property

import msgspec
import numpy as np

from twoarm.compare.families import Families
from twoarm.compare.screen import ArmRuns, Screening
from twoarm.evidence.cells import Noun, gathered, places, shared_tasks
from twoarm.evidence.exclusions import p_of_losses
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
    identical,
    no_interval_over,
    no_width,
)
from twoarm.evidence.means import StandardError
from twoarm.evidence.results import (
    FEWEST_TASKS,
    ArmsPerSolved,
    Estimate,
    PerSolved,
    Scope,
    Withheld,
)
from twoarm.runs.arrays import Flags, Floats, Ints, squares, sums, total
from twoarm.runs.metric import COST, DURATION, SUCCESS, Metric
from twoarm.text.escape import counted

# With fewer solved tasks, or for these very tasks solved runs, too much hangs on each of them.
FEWEST_SOLVING = 3
# Below so many tasks of equal size, a figure over tasks is that of a single one.
FEWEST_EQUAL = 2.0
# On fewer tasks, nothing tells how far a rare run goes.
FEWEST_HERE = 3
OVER = {
    "task": "t on logarithms of totals, each task left out once",
    "family": "t on logarithms of totals, each family left out once",
}
WITHIN_TASKS = "Welch t within tasks, on logarithms of totals"
_MINUTE = 60.0
_ALL_ZERO = Withheld(
    code="all_zero", scope=None, message="No interval: it is zero in every run of an arm."
)
_ONE_LARGE = Withheld(
    code="one_large_task",
    scope="tasks_like_these",
    message="No interval over other tasks: one {} takes most of it.",
)


class Solving(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The measured runs of one arm, task by task: what each took, and whether it succeeded."""

    took: Floats
    solved: Floats
    starts: Ints
    # Of failed and of solved runs, how many were not measured.
    unmeasured: tuple[int, int] = (0, 0)
    # A number for the family of each task; None where no two tasks are of one.
    family: Ints | None = None

    @property
    def noun(self) -> Noun:
        """What is a sample of others like it."""
        return "task" if self.family is None else "family"

    @cached_property
    def by_family(self) -> "Solving":
        """The same runs with each family in place of its tasks."""
        if self.family is None:
            return self
        rows, starts = gathered(self.family, self.starts)
        return Solving(took=self.took[rows], solved=self.solved[rows], starts=starts)

    @cached_property
    def total(self) -> float:
        """All that the runs took."""
        return total(self.took)

    @cached_property
    def count(self) -> int:
        """How many of them succeeded."""
        return int(self.solved.sum())

    @property
    def figure(self) -> float:
        """What a solved task takes."""
        return self.total / self.count

    @property
    def sizes(self) -> Ints:
        """How many runs each task has."""
        return np.diff(self.starts)

    @cached_property
    def weights(self) -> Floats:
        """The share that each task has of all that was taken."""
        return sums(self.took, self.starts) / self.total

    @cached_property
    def solved_shares(self) -> Floats:
        """The share that each task has of the solved runs."""
        return sums(self.solved, self.starts) / self.count

    @property
    def without(self) -> Floats:
        """How far the logarithm of the figure moves when each task is left out."""
        moved: Floats = np.log1p(-self.weights) - np.log1p(-self.solved_shares)
        return moved

    @cached_property
    def variances(self) -> tuple[Floats, Ints]:
        """What each task that was run again adds to the variance of the logarithm if these very
        tasks are run again, and the degrees of freedom; single runs borrow from the others."""
        away = self.took / self.total - self.solved / self.count
        square, sizes = squares(away, self.starts), self.sizes
        freedom, single = int((sizes - 1).sum()), int((sizes == 1).sum())
        again = sizes > 1
        square, sizes = square[again], sizes[again]
        return square * (sizes / (sizes - 1) + single / freedom), sizes - 1

    @cached_property
    def noise(self) -> tuple[float, float]:
        """The same variance of what was taken alone: by each task's own noise, and as if all tasks
        were as noisy, in proportion. A large task may lack the rare run that small ones have."""
        sizes = self.sizes
        known = (sizes > 1) & (self.weights > 0.0)
        means = np.repeat(self.weights * (self.total / sizes), sizes)
        relative = np.divide(self.took, means, out=np.zeros(len(means)), where=means > 0.0)
        own = squares(relative, self.starts)[known] / (sizes[known] - 1)
        typical = math.fsum(own) / len(own) if len(own) else 0.0
        each = np.full(len(sizes), typical)
        each[known] = own
        parts = self.weights**2 / sizes
        return math.fsum(parts * each), math.fsum(parts) * typical


def per_solved(screening: Screening, families: Families, frame: Frame) -> PerSolved:
    """Dollars and minutes per solved task."""
    return PerSolved(
        cost_usd=_arms(COST, 1.0, screening, families, frame),
        duration_minutes=_arms(DURATION, _MINUTE, screening, families, frame),
    )


def _arms(
    metric: Metric, unit: float, screening: Screening, families: Families, frame: Frame
) -> ArmsPerSolved:
    sides = [_solving(metric, unit, arm, families, None) for arm in screening.arms]
    shared = shared_tasks(metric, screening)
    parts = [_solving(metric, unit, arm, families, shared) for arm in screening.arms]
    # Where both arms have all tasks, what was found about an arm serves the ratio as well.
    same = all(len(part.took) == len(side.took) for part, side in zip(parts, sides, strict=True))
    both = sides if same else parts
    note = f"On the {counted(len(shared), 'task')} that both arms have."
    return ArmsPerSolved(
        tasks=len(shared),
        candidate=arm_estimate(sides[0], frame),
        baseline=arm_estimate(sides[1], frame),
        ratio=ratio_estimate((both[0], both[1]), () if same else (note,), frame),
    )


def _solving(
    metric: Metric, unit: float, arm: ArmRuns, families: Families, only: Ints | None
) -> Solving:
    """The runs of an arm that have the metric, in all of its tasks or in some."""
    values, passed = arm.values[metric.name], arm.values[SUCCESS.name] == 1.0
    here: Flags = np.isin(arm.task, only) if only is not None else np.ones(len(values), dtype=bool)
    kept = here & ~np.isnan(values)
    lost = here & ~kept
    heads = np.flatnonzero(np.diff(arm.task[kept], prepend=-1))
    return Solving(
        took=values[kept] / unit,
        solved=arm.values[SUCCESS.name][kept],
        starts=np.append(heads, int(kept.sum())),
        unmeasured=(int((lost & ~passed).sum()), int((lost & passed).sum())),
        family=places(families, arm.task[kept][heads]),
    )


def arm_estimate(side: Solving, frame: Frame) -> Estimate:
    """What a solved task takes in one arm, with both intervals."""
    nothing = _no_figure(side)
    if nothing is not None:
        return estimated(None, nothing, nothing)
    if not side.total:
        return estimated(0.0, _ALL_ZERO, _ALL_ZERO)
    return estimated(side.figure, _arm_here(side, frame), _arm_over_tasks(side, frame))


def ratio_estimate(arms: tuple[Solving, Solving], notes: tuple[str, ...], frame: Frame) -> Estimate:
    """What a solved task takes in the candidate, relative to the baseline, on the same tasks."""
    ours, theirs = arms
    if not len(ours.took):
        return estimated(None, NO_RUNS, NO_RUNS)
    nothing = _no_figure(ours) or _no_figure(theirs)
    if nothing is not None:
        return estimated(None, nothing, nothing)
    if not (ours.total and theirs.total):
        return estimated(None, _ALL_ZERO, _ALL_ZERO)
    ratio = ours.figure / theirs.figure
    if not 0.0 < ratio < math.inf:
        return estimated(None, TOO_EXTREME, TOO_EXTREME)
    return estimated(ratio, _ratio_here(arms, notes, frame), _ratio_over_tasks(arms, notes, frame))


def _ratio_here(arms: tuple[Solving, Solving], notes: tuple[str, ...], frame: Frame) -> Answer:
    few = _few_runs(*arms)
    if few is not None:
        return few
    ours, theirs = arms
    error = _within(ours, theirs)
    reach = frame.quantile(error.df) * math.sqrt(error.variance)
    sizes = np.minimum(ours.sizes, theirs.sizes)
    notes += borrowed(int((sizes == 1).sum()), len(sizes))
    ratio = ours.figure / theirs.figure
    return _interval(ratio, (reach, reach), WITHIN_TASKS, notes, IDENTICAL_REPEATS)


def _ratio_over_tasks(
    arms: tuple[Solving, Solving], notes: tuple[str, ...], frame: Frame
) -> Answer:
    noun, ratio = arms[0].noun, arms[0].figure / arms[1].figure
    ours, theirs = (side.by_family for side in arms)
    few = _few_tasks(noun, ours, theirs)
    if few is not None:
        return few
    error = _left_out(ours.without - theirs.without, _equal_tasks(ours, theirs))
    reach = frame.quantile(error.df) * math.sqrt(error.variance)
    return _interval(ratio, (reach, reach), OVER[noun], notes, identical(noun))


def _arm_here(side: Solving, frame: Frame) -> Answer:
    few = _few_runs(side)
    if few is not None:
        return few
    runs, tasks = len(side.took), len(side.sizes)
    if tasks < FEWEST_HERE:
        message = f"No interval: {counted(tasks, 'task')}; it takes {FEWEST_HERE}."
        return Withheld(code="too_few_tasks", scope="these_tasks", message=message)
    error = _within(side)
    own, alike = side.noise
    reach = frame.quantile(error.df) * math.sqrt(error.variance + max(0.0, alike - own))
    # A rare long run that did not come up would make the figure higher, never lower.
    ends = reach, reach + frame.quantile(runs - tasks) ** 2 * max(own, alike)
    single = borrowed(int((side.sizes == 1).sum()), tasks)
    return _interval(side.figure, ends, WITHIN_TASKS, single, IDENTICAL_REPEATS)


def _arm_over_tasks(side: Solving, frame: Frame) -> Answer:
    noun, figure = side.noun, side.figure
    side = side.by_family
    few = _few_tasks(noun, side)
    if few is not None:
        return few
    tasks = len(side.sizes)
    error = _left_out(side.without, _equal_tasks(side))
    reach = frame.quantile(error.df) * math.sqrt(error.variance)
    # Large tasks are rare, and a sample without them looks steady: up goes further than down, as it
    # would for lognormal totals.
    spread = (tasks * math.fsum(side.weights**2) - 1.0) / (tasks - 1.0)
    ends = reach, reach + frame.quantile(tasks - 1.0) ** 2 * spread
    return _interval(figure, ends, OVER[noun], (), identical(noun))


def _no_figure(side: Solving) -> Withheld | None:
    failed, solved = side.unmeasured
    of = failed + len(side.took) - side.count, solved + side.count
    if not len(side.took):
        why = "nothing measured"
    elif not side.count:
        why = "nothing solved"
    elif failed * of[1] > solved * of[0] and p_of_losses(side.unmeasured, of) is not None:
        # What failed runs took is in the figure, or it is too low.
        why = f"{failed} of {counted(of[0], 'failed run')} not measured"
    else:
        return None
    return Withheld(code="no_figure", scope=None, message=f"No figure: {why}.")


def _few_runs(*arms: Solving) -> Withheld | None:
    """Why there is no interval on these tasks."""
    if any(side.sizes.max() == 1 for side in arms):
        return ONE_REPEAT
    return _few_solved("these_tasks", min(side.count for side in arms), "run")


def _few_tasks(noun: Noun, *arms: Solving) -> Withheld | None:
    """Why there is no interval over other tasks, from arms in which each is a family."""
    tasks = len(arms[0].sizes)
    if tasks < FEWEST_TASKS:
        return no_interval_over(tasks, noun=noun)
    fewest = min(int((side.solved_shares > 0.0).sum()) for side in arms)
    few = _few_solved("tasks_like_these", fewest, noun)
    if few is None and min(map(_equal_tasks, arms)) < FEWEST_EQUAL:
        return msgspec.structs.replace(_ONE_LARGE, message=_ONE_LARGE.message.format(noun))
    return few


def _equal_tasks(*arms: Solving) -> float:
    """How many tasks of equal size would weigh as evenly."""
    weights = sum((side.weights for side in arms), np.zeros(len(arms[0].weights))) / len(arms)
    return 1.0 / math.fsum(weights**2)


def _few_solved(scope: Scope, fewest: int, noun: str) -> Withheld | None:
    if fewest >= FEWEST_SOLVING:
        return None
    message = f"No interval: {counted(fewest, noun)} solved; it takes {FEWEST_SOLVING}."
    return Withheld(code="few_solved", scope=scope, message=message)


def _within(*arms: Solving) -> StandardError:
    """The error of the logarithm if the same tasks were run again; Satterthwaite's freedom."""
    parts, freedom = (
        np.concatenate(part) for part in zip(*(a.variances for a in arms), strict=True)
    )
    variance, scale = math.fsum(parts), math.fsum(parts**2 / freedom)
    return StandardError(variance=variance, df=max(1.0, variance**2 / scale) if scale else 1.0)


def _left_out(moved: Floats, equal_tasks: float) -> StandardError:
    """The error of a logarithm over tasks, from how far it moves without each of them."""
    tasks = len(moved)
    away = moved - moved.mean()
    variance = math.fsum(away**2) * (tasks - 1) / tasks
    return StandardError(variance=variance, df=equal_tasks - 1.0)


def _interval(
    figure: float, reaches: tuple[float, float], method: str, notes: tuple[str, ...], same: Withheld
) -> Answer:
    below, above = reaches
    if not (below < FURTHEST and above < FURTHEST):
        return TOO_EXTREME
    # Where nothing varies, there is nothing from which to go further up.
    if no_width(math.exp(-below), math.exp(below)):
        return same
    low, high = figure * math.exp(-below), figure * math.exp(above)
    if not 0.0 < low < high < math.inf:
        return TOO_EXTREME
    return between(low=low, high=high, method=method, caveats=notes)
