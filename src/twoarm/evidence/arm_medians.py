"""The difference that each gate looks at, mostly of the two arm medians.

It has a closed form: no resampling and no random numbers.

On these tasks, how far the share of runs below a median strays from a half is a mean over tasks,
whose error is known; the runs that stand so far from the middle are the ends of that median. Over
tasks, where the middle itself moves from task to task, medians are smoothed: the values around the
middle are averaged, and how far each task pulls that average is known exactly.
"""

import math
from functools import cached_property

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import Gate
from twoarm.evidence.cells import Grouped, Noun, group_arm, shared_tasks
from twoarm.evidence.interval import (
    FURTHEST,
    IDENTICAL_REPEATS,
    ONE_REPEAT,
    TOO_EXTREME,
    Answer,
    Frame,
    between,
    borrowed,
    estimated,
    no_interval_over,
    no_width,
    tied,
    too_few_runs,
)
from twoarm.evidence.results import Estimate, GateEvidence, Interval, Withheld
from twoarm.runs.arrays import Floats, median, squares
from twoarm.runs.metric import SUCCESS
from twoarm.text.escape import counted
from twoarm.text.number_format import change

THESE_TASKS = "ordered runs, joined in quadrature"
OVER = {"task": "smoothed medians, t over tasks", "family": "smoothed medians, t over families"}
# The share below a median is never known better than to this many runs: where no task has runs on
# both sides of it, its error within tasks would be zero.
_LEAST_RUNS = 0.75
# This many runs fewer than the error are enough: a median that is too high has a run far below it,
# too, so both are seldom outside (docs/statistics.md).
_INWARD = 1.0 / 6.0
# From so far apart on, unequal repeats are a large part of a difference of success rates.
_FAR_APART = 0.01


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """Of two medians, or of their logarithms: the variance of their difference, that of their
    mean, the covariance of the two, and the degrees of freedom."""

    apart: float
    level: float
    together: float
    df: float


class ArmMedian(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One arm's median, and what its error is made of."""

    grouped: Grouped
    middle: float
    logs: bool

    @cached_property
    def weights(self) -> Floats:
        """The share of the runs that each task has."""
        return self.grouped.sizes / len(self.grouped)

    @cached_property
    def freedom(self) -> int:
        """The degrees of freedom of the noise inside tasks."""
        return len(self.grouped) - len(self.grouped.sizes)

    @property
    def _error(self) -> float:
        """How many runs the number below would stray by if the same tasks were run again.

        A run that equals the median counts half; several may be below it or not, whichever strays
        more.
        """
        values = self.grouped.values
        below, equal = (values < self.middle).astype(np.float64), values == self.middle
        parts = (0.5,) if equal.sum() <= 1 else (0.0, 1.0)
        strays = max(self._variance(below + part * equal) for part in parts)
        return max(math.sqrt(strays), _LEAST_RUNS)

    def _variance(self, marks: Floats) -> float:
        """The variance, inside tasks, of how much these runs count.

        A task with a single run borrows the pooled variance of the others. All single runs are one
        more task in that pool: the others may stand too far from the median to vary.
        """
        sizes = self.grouped.sizes
        apart = squares(marks, self.grouped.starts)
        alone = marks[np.repeat(sizes == 1, sizes)]
        pooled, freedom = float(apart.sum()), self.freedom
        if len(alone) > 1:
            pooled += float(alone.var()) * len(alone)
            freedom += len(alone) - 1
        lent = pooled / freedom
        each = np.where(sizes > 1, apart / np.maximum(sizes - 1, 1), lent)
        return math.fsum(each * sizes)

    def reaches(self, errors: float) -> tuple[float, float]:
        """How far below and above the median the runs are that stand this many errors away."""
        count = len(self.grouped)
        share = min(errors * (self._error - _INWARD) / count, 0.5 - 0.5 / count)
        shares = (np.arange(count) + 0.5) / count
        low, high = np.interp([0.5 - share, 0.5 + share], shares, self.grouped.ordered).tolist()
        return self.middle - low, high - self.middle

    @cached_property
    def _ordered(self) -> Floats:
        ordered = self.grouped.ordered
        return np.log(ordered) if self.logs else ordered

    def _near(self, shares: Floats) -> Floats:
        """What a value at each share weighs in the smoothed median, not yet adding up to 1.

        As in the mean of the middle value of as many draws as there are tasks.
        """
        tasks = len(self.grouped.sizes)
        return np.exp((tasks - 1) / 2.0 * np.log(4.0 * shares * (1.0 - shares)))

    @cached_property
    def smoothed(self) -> float:
        """The mean of the values, or of their logarithms, that are near the middle."""
        count = len(self.grouped)
        near = self._near((np.arange(count) + 0.5) / count)
        return float((near * self._ordered).sum() / near.sum())

    @cached_property
    def pulls(self) -> Floats:
        """How much leaving each task out would move the smoothed median."""
        count = len(self.grouped)
        below = np.arange(1, count) / count
        near = self._near(below)
        steps = np.diff(self._ordered) * near * (count / near.sum())
        # A run adds to all shares from its own place on; this many steps lie above each run.
        above = np.append(np.cumsum(steps[::-1])[::-1], 0.0)
        each = (below * steps).sum() - above
        tasks = len(self.grouped.sizes)
        pull = np.bincount(self.grouped.task_by_value, weights=each, minlength=tasks) / count
        return pull / (1.0 - self.weights)


def arm_medians(ours: Grouped, theirs: Grouped, frame: Frame) -> Estimate:
    """The difference of the arm medians, with both intervals."""
    middles = median(ours.values), median(theirs.values)
    assert middles[0] is not None
    assert middles[1] is not None
    logs = min(float(side.ordered[0]) for side in (ours, theirs)) > 0.0
    arms = (
        ArmMedian(grouped=ours, middle=middles[0], logs=logs),
        ArmMedian(grouped=theirs, middle=middles[1], logs=logs),
    )
    over = arms
    if ours.family is not None:
        over = (
            ArmMedian(grouped=ours.by_family, middle=middles[0], logs=logs),
            ArmMedian(grouped=theirs.by_family, middle=middles[1], logs=logs),
        )
    seen = middles[0] - middles[1]
    return estimated(seen, _these_tasks(arms, frame), _tasks_like_these(over, ours.noun, frame))


def _these_tasks(arms: tuple[ArmMedian, ArmMedian], frame: Frame) -> Answer:
    sides = [arm.grouped for arm in arms]
    for side in sides:
        if len(side) < frame.fewest_runs:
            return too_few_runs(len(side), frame.fewest_runs)
        if side.sizes.max() == 1:
            return ONE_REPEAT
    if not any(squares(side.values, side.starts).any() for side in sides):
        return IDENTICAL_REPEATS
    ours, theirs = arms
    errors = frame.quantile(ours.freedom + theirs.freedom)
    (below, above), (their_below, their_above) = ours.reaches(errors), theirs.reaches(errors)
    seen = ours.middle - theirs.middle
    ends = seen - math.hypot(below, their_above), seen + math.hypot(above, their_below)
    single = int((np.minimum(sides[0].sizes, sides[1].sizes) == 1).sum())
    notes = borrowed(single, len(sides[0].sizes))
    return _interval(ends, THESE_TASKS, notes) or tied("these_tasks")


def _tasks_like_these(arms: tuple[ArmMedian, ArmMedian], noun: Noun, frame: Frame) -> Answer:
    """Every task, or family, left out once: those with more runs than others pull more, and leave
    fewer."""
    tasks = len(arms[0].weights)
    if tasks < frame.fewest_tasks:
        return no_interval_over(tasks, frame.fewest_tasks, noun)
    ours, theirs = (arm.pulls * math.sqrt((tasks - 1) / tasks) for arm in arms)
    apart, level = ours - theirs, (ours + theirs) / 2.0
    weights = (arms[0].weights + arms[1].weights) / 2.0
    errors = Errors(
        apart=math.fsum(apart**2),
        level=math.fsum(level**2),
        together=math.fsum(apart * level),
        df=max(1.0, 1.0 / math.fsum(weights**2) - 1.0),
    )
    logs = arms[0].logs
    middles = [math.exp(arm.smoothed) if logs else arm.smoothed for arm in arms]
    ends = _ends(middles[0], middles[1], logs, errors, frame)
    if ends is not None and not no_width(*ends):
        # The plain medians may lie outside a narrow interval around the smoothed ones.
        seen = arms[0].middle - arms[1].middle
        ends = min(ends[0], seen), max(ends[1], seen)
    return _interval(ends, OVER[noun], ()) or tied("tasks_like_these")


def _interval(
    ends: tuple[float, float] | None, method: str, notes: tuple[str, ...]
) -> Answer | None:
    if ends is None:
        return TOO_EXTREME
    if no_width(*ends):
        return None
    return between(low=ends[0], high=ends[1], method=method, caveats=notes)


def _ends(
    ours: float, theirs: float, logs: bool, errors: Errors, frame: Frame
) -> tuple[float, float] | None:
    """Both ends of the difference of two medians; None if they are too far out for a number."""
    reach = frame.quantile(errors.df)
    by_ratio, by_level = reach * math.sqrt(errors.apart), reach * math.sqrt(errors.level)
    if not logs:
        return ours - theirs - by_ratio, ours - theirs + by_ratio
    # The difference follows from the ratio of the medians and from their level. Each alone moves it
    # by so much; the two are joined by how far they go together.
    product = math.sqrt(errors.apart) * math.sqrt(errors.level)
    together = errors.together / product if product else 0.0
    ratio, height = math.log(ours) - math.log(theirs), 2.0 * math.sqrt(ours) * math.sqrt(theirs)
    if abs(ratio) + by_ratio > FURTHEST or by_level > FURTHEST:
        return None
    difference = ours - theirs
    # A higher level takes a difference further from zero, up or down.
    outward = 1.0 if difference >= 0 else -1.0
    ends = []
    for side in (-1.0, 1.0):
        moved = height * math.sinh((ratio + side * by_ratio) / 2.0) - difference
        raised = difference * math.expm1(side * outward * by_level)
        bound = max(-1.0, min(1.0, outward * together))
        far = math.hypot(moved + bound * raised, math.sqrt(1.0 - bound * bound) * raised)
        ends.append(difference + side * far)
    return (ends[0], ends[1]) if all(map(math.isfinite, ends)) else None


def weigh_gate(gate: Gate, comparison: Comparison, success: Estimate, frame: Frame) -> GateEvidence:
    """One gate; the difference of success is that of the tasks."""
    if gate.candidate is None or gate.baseline is None:
        return _nothing(None, "not_measured", "Not measured in at least one arm.")
    metric, screening = gate.rule.metric, comparison.screening
    shared = shared_tasks(metric, screening)
    if not len(shared):
        message = "No task has runs in both arms."
        return _nothing(gate.candidate - gate.baseline, "no_shared_task", message)
    ours, theirs = (group_arm(metric, arm, comparison.families, shared) for arm in screening.arms)
    if metric is SUCCESS:
        return GateEvidence(difference=_success(ours, theirs, success))
    difference = arm_medians(ours, theirs, frame)
    if difference.estimate != gate.candidate - gate.baseline:
        tasks = counted(len(shared), "task")
        note = f"On the {tasks} that both arms have; the gate compares all runs."
        difference = _with_note(difference, "shared_tasks_only", note)
    return GateEvidence(difference=difference)


def _nothing(estimate: float | None, code: str, message: str) -> GateEvidence:
    reason = Withheld(code=code, scope=None, message=message)
    return GateEvidence(difference=estimated(estimate, reason, reason))


def _with_note(difference: Estimate, code: str, note: str) -> Estimate:
    def noted(interval: Interval | None) -> Interval | None:
        if interval is None:
            return None
        return msgspec.structs.replace(interval, caveats=(*interval.caveats, note))

    return msgspec.structs.replace(
        difference,
        these_tasks=noted(difference.these_tasks),
        tasks_like_these=noted(difference.tasks_like_these),
        withheld=(*difference.withheld, Withheld(code=code, scope=None, message=note)),
    )


def _success(ours: Grouped, theirs: Grouped, difference: Estimate) -> Estimate:
    """Every task weighs alike in the evidence, every run in the gate."""
    assert difference.estimate is not None
    gate = float(ours.values.mean() - theirs.values.mean())
    if abs(difference.estimate - gate) < _FAR_APART:
        return difference
    note = f"Run by run, as the gate counts, the difference is {change(gate, SUCCESS.unit)}."
    return _with_note(difference, "unequal_repeats", note)
