"""Intervals of medians by the exact law of the resampled median: no Monte Carlo, ties and all.

Tasks drawn again: task t with c of its n values at most x adds 2c - n to a sum; the lower median of
the resample is at most x when the sum over the drawn tasks is at least 0, the upper one when it is
above 0. Repeats drawn again: task t adds Binomial(n, c / n) to a count, which is held against half
of all values. Both laws are convolutions of small integer laws.
"""

import math
from collections.abc import Callable
from typing import Protocol

import msgspec

from twoarm import column
from twoarm.column import Floats
from twoarm.evidence.cells import Grouped
from twoarm.evidence.interval import (
    IDENTICAL_REPEATS,
    NO_PAIRS,
    NOTHING_TO_RESAMPLE,
    ONE_REPEAT,
    ONE_TASK,
    SIX,
    TIED,
    Atoms,
    Frame,
    Interval,
    between,
    borrowed,
    few_tasks,
    no_interval_over,
    no_width,
    too_few_runs,
)
from twoarm.evidence.resample import Resamples, task_medians
from twoarm.quote import counted

# From this many tasks on, the tail is that of all of them, not of one fewer.
MANY_TASKS = 10
# From this many pairs on the resampling law replaces order statistics.
TWENTY = 20
# Beyond these sizes a normal law, or the shared draws, are as good and far cheaper.
NORMAL_FROM = 2_000
EXACT_UP_TO = 200_000

OVER_TASKS = "expanded percentile, tasks resampled, exact"
DRAWN_TASKS = "expanded percentile, tasks resampled"
STANDARD_ERROR = "t on the exact bootstrap standard error, tasks resampled"
WITHIN_TASKS = "expanded percentile, repeats resampled in tasks, exact"
NORMAL_WITHIN = "expanded percentile, repeats resampled in tasks, normal law"
ORDER_STATISTICS = "order statistics"
ARMS_APART = "expanded percentile, arms resampled apart in tasks, exact"
ARMS_APART_NORMAL = "expanded percentile, arms resampled apart in tasks, normal law"


class Tails(msgspec.Struct, frozen=True, kw_only=True):
    """P(lower median <= x) and P(upper median <= x) of a resample."""

    lower: float
    upper: float


class Law(Protocol):
    """The law of a resampled median at any points; `fan` is how many to ask for at once."""

    fan: int

    def __call__(self, points: list[float]) -> list[Tails]:
        """The law at each point."""
        ...


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An interval, or the reason there is none."""

    interval: Interval | None
    caveats: tuple[str, ...]


def _withheld(*reasons: str) -> Answer:
    return Answer(interval=None, caveats=reasons)


def expanded_tail(frame: Frame, units: float, df: float) -> float:
    """The tail of a percentile interval, widened as Student's t would be for so few units."""
    reach = math.sqrt(units / (units - 1.0)) * frame.quantile(df)
    return 0.5 * math.erfc(reach / math.sqrt(2.0))


class OverTasks:
    """The law of the median when whole tasks are drawn again."""

    fan = 1

    def __init__(self, grouped: Grouped, frame: Frame, resamples: Resamples | None) -> None:
        self._counter = grouped.counter
        self._kernel = frame.kernel
        self._sizes = grouped.sizes
        self._largest = max(self._sizes)
        listed = len(self._sizes) * self._largest <= EXACT_UP_TO
        self._resamples = None if listed else resamples
        self.exact = self._resamples is None

    def __call__(self, points: list[float]) -> list[Tails]:
        """The law at each point."""
        return [self._at(found) for found in self._counter.up_to(points)]

    def _at(self, found: list[int]) -> Tails:
        steps = [2 * c - n for c, n in zip(found, self._sizes, strict=True)]
        if self._resamples is not None:
            sums = self._resamples.sums(steps)
            return Tails(
                lower=self._resamples.share(sums, 0.0), upper=self._resamples.share(sums, 0.5)
            )
        tasks = len(steps)
        pmf = [0.0] * (2 * self._largest + 1)
        for step in steps:
            pmf[step + self._largest] += 1.0 / tasks
        law = self._kernel.power(pmf, tasks)
        zero = self._largest * tasks
        upper = math.fsum(law[zero + 1 :])
        return Tails(lower=upper + law[zero], upper=upper)


class WithinTasks:
    """The law of the median when the repeats are drawn again inside each task."""

    def __init__(self, grouped: Grouped, frame: Frame) -> None:
        self._counter = grouped.counter
        self._kernel = frame.kernel
        self._together = _single_runs(grouped.sizes)
        self._sizes = self._strata(grouped.sizes)
        self.strata = len(self._sizes)
        total = sum(self._sizes)
        self._bounds = ((total + 1) // 2, total // 2 + 1)
        self.normal = total > NORMAL_FROM
        self.fan = 1 if self.normal or frame.small else 15

    def __call__(self, points: list[float]) -> list[Tails]:
        """The law at each point."""
        counts = list(map(self._strata, self._counter.up_to(points)))
        if self.normal:
            return [self._normal(found) for found in counts]
        tails = self._kernel.binomial_tails(self._sizes, counts, self._bounds)
        return [Tails(lower=lower, upper=upper) for lower, upper in tails]

    def _strata(self, of_tasks: list[int]) -> list[int]:
        """The figures of the tasks, those of single runs added up."""
        if not self._together:
            return of_tasks
        apart = [n for task, n in enumerate(of_tasks) if task not in self._together]
        return [*apart, sum(of_tasks[task] for task in self._together)]

    def _normal(self, found: list[int]) -> Tails:
        mean = float(sum(found))
        variance = math.fsum(c * (1.0 - c / n) for c, n in zip(found, self._sizes, strict=True))
        half, above = self._bounds
        if variance == 0.0:
            return Tails(lower=float(mean >= half), upper=float(mean >= above))
        width = math.sqrt(2.0 * variance)
        return Tails(
            lower=0.5 * math.erfc((half - 0.5 - mean) / width),
            upper=0.5 * math.erfc((above - 0.5 - mean) / width),
        )


def _single_runs(sizes: list[int]) -> set[int]:
    """The tasks with one value: drawn again alone they would not vary, so they are drawn together.

    A lone one is drawn with the smallest of the others.
    """
    single = [task for task, n in enumerate(sizes) if n == 1]
    if len(single) == 1 and len(sizes) > 1:
        others = [task for task in range(len(sizes)) if task not in single]
        single.append(min(others, key=sizes.__getitem__))
    return set(single)


def ends(law: Law, support: Floats, tail: float) -> tuple[float, float]:
    """Both ends, outward: the lower from the lower median, the upper from the upper median."""
    # A hair below the tail: a sum of chances that should equal it may fall short by rounding.
    slack = 1e-12
    # And never nothing: a tail may be smaller than any rounding.
    low = _first(support, law, lambda tails: tails.lower >= max(tail - slack, slack))
    high = _first(support, law, lambda tails: tails.upper >= 1.0 - tail - slack)
    return float(support[low]), float(support[high])


def _first(support: Floats, law: Law, reached: Callable[[Tails], bool]) -> int:
    """Where an ordered support first has a value at which the law has reached something.

    By bisection, or by looking at several points at once where that costs no more.
    """
    low, high = 0, len(support) - 1
    while low < high:
        step = max(1, (high - low) // (law.fan + 1))
        looked = list(range(low + step - 1, high, step))[: law.fan]
        for at, tails in zip(looked, law([float(support[at]) for at in looked]), strict=True):
            if reached(tails):
                high = at
                break
            low = at + 1
    return low


def these_tasks(deltas: Grouped, frame: Frame) -> Answer:
    """The median of the deltas if the same tasks were run again."""
    count = len(deltas)
    if not count:
        return _withheld(NO_PAIRS)
    if max(deltas.sizes) == 1:
        return _withheld(ONE_REPEAT)
    support = deltas.ordered
    if count < SIX:
        level = 1.0 - 2.0 ** (1 - count)
        return _withheld(
            f"No interval: {counted(count, 'pair')} (the observed range {float(support[0]):.6g} to "
            f"{float(support[-1]):.6g} holds the median {level:.4g} of the time)."
        )
    if count < TWENTY:
        rank = _order_rank(count, frame.level)
        if rank == 0:
            return _withheld(f"No interval: {counted(count, 'pair')} for a level of {frame.level}.")
        return _answer(
            float(support[rank - 1]), float(support[count - rank]), ORDER_STATISTICS, (), deltas
        )
    law = WithinTasks(deltas, frame)
    tail = expanded_tail(frame, count / law.strata, count - law.strata)
    low, high = ends(law, support, tail)
    method = NORMAL_WITHIN if count > NORMAL_FROM else WITHIN_TASKS
    return _answer(low, high, method, borrowed(deltas.sizes), deltas)


def _order_rank(count: int, level: float) -> int:
    """The largest k with P(Binomial(count, 1/2) <= k - 1) at most half of what may be missed."""
    allowed = (1.0 - level) / 2.0
    below = 0.0
    for rank in range(count // 2 + 1):
        below += math.comb(count, rank) / 2.0**count
        if below > allowed:
            return rank
    return count // 2


def tasks_like_these(deltas: Grouped, frame: Frame, resamples: Resamples | None) -> Answer:
    """The median of the deltas over other tasks of the same kind."""
    tasks = len(deltas.sizes)
    if not len(deltas):
        return _withheld(NO_PAIRS)
    if tasks == 1:
        return _withheld(ONE_TASK)
    if tasks < SIX and max(deltas.sizes) == 1:
        return _withheld(no_interval_over(tasks))
    if len(deltas) < SIX:
        return _withheld(f"No interval: {counted(len(deltas), 'pair')}; it takes {SIX}.")
    if SIX <= tasks < frame.fewest_tasks:
        return _withheld(no_interval_over(tasks, frame.fewest_tasks))
    if tasks < SIX:
        middle = column.median(deltas.values)
        assert middle is not None
        drawn = task_medians(deltas)
        centre = math.fsum(atom.median * atom.chance for atom in drawn)
        variance = math.fsum(atom.chance * (atom.median - centre) ** 2 for atom in drawn)
        reach = frame.quantile(tasks - 1) * math.sqrt(variance * tasks / (tasks - 1))
        return _answer(middle - reach, middle + reach, STANDARD_ERROR, (few_tasks(tasks),), deltas)
    return _percentile_over_tasks(deltas, frame, resamples)


def _percentile_over_tasks(deltas: Grouped, frame: Frame, resamples: Resamples | None) -> Answer:
    tasks = len(deltas.sizes)
    # One task fewer while there are few: at six, the tail of six covers 93 to 94 %.
    units = tasks - 1 if SIX <= tasks < MANY_TASKS else tasks
    tail = expanded_tail(frame, units, units - 1)
    law = OverTasks(deltas, frame, resamples)
    low, high = ends(law, deltas.ordered, tail)
    return _answer(low, high, OVER_TASKS if law.exact else DRAWN_TASKS, (), deltas)


def bootstrap(deltas: Grouped, frame: Frame, resamples: Resamples | None) -> Answer:
    """The bootstrap interval of the median: tasks drawn again, or the repeats of a single task."""
    if not len(deltas):
        return _withheld(NO_PAIRS)
    tasks = len(deltas.sizes)
    if tasks > 1:
        return _percentile_over_tasks(deltas, frame, resamples)
    if len(deltas) == 1:
        return _withheld(NOTHING_TO_RESAMPLE)
    tail = expanded_tail(frame, len(deltas), len(deltas) - 1)
    low, high = ends(WithinTasks(deltas, frame), deltas.ordered, tail)
    return _answer(
        low, high, "expanded percentile, repeats of one task resampled, exact", (), deltas
    )


def _answer(
    low: float, high: float, method: str, notes: tuple[str, ...], deltas: Grouped
) -> Answer:
    """An interval, unless it has no width: that is a tie, not a certainty."""
    if no_width(low, high):
        support = deltas.ordered
        if float(support[0]) == float(support[-1]):
            return _withheld(f"Every pair has the same delta, {low:.6g}.")
        return _withheld(f"More than half of the pairs share the value {low:.6g}.")
    return Answer(interval=between(low=low, high=high, method=method, caveats=notes), caveats=())


def arms_apart(ours: Grouped, theirs: Grouped, frame: Frame) -> Answer:
    """The difference of the two arm medians if the same tasks were run again."""
    for grouped in (ours, theirs):
        if len(grouped.values) < SIX:
            return _withheld(too_few_runs(len(grouped)))
        if max(grouped.sizes) == 1:
            return _withheld(ONE_REPEAT)
    laws = [WithinTasks(grouped, frame) for grouped in (ours, theirs)]
    strata = sum(law.strata for law in laws) / 2.0
    runs = (len(ours) + len(theirs)) / 2.0
    tail = expanded_tail(frame, runs / strata, runs - strata)
    (ours_lower, ours_upper), (theirs_lower, theirs_upper) = (
        _atoms(law, grouped) for law, grouped in zip(laws, (ours, theirs), strict=True)
    )
    low = frame.kernel.difference_quantile(ours_lower, theirs_upper, tail)
    high = frame.kernel.difference_quantile(ours_upper, theirs_lower, 1.0 - tail)
    if no_width(low, high):
        squares = (column.group_squares(g.values, g.starts) for g in (ours, theirs))
        tied = any(map(any, squares))
        return _withheld(TIED if tied else IDENTICAL_REPEATS)
    exact = len(ours.values) <= NORMAL_FROM
    method = ARMS_APART if exact else ARMS_APART_NORMAL
    notes = borrowed(list(map(min, ours.sizes, theirs.sizes)))
    return Answer(interval=between(low=low, high=high, method=method, caveats=notes), caveats=())


# Atoms of the law of one arm's median: more would change the interval by less than a rank, and
# for many runs each costs a pass over all of them.
_MOST_ATOMS = 128
_MOST_NORMAL_ATOMS = 64


def _atoms(law: WithinTasks, grouped: Grouped) -> tuple[Atoms, Atoms]:
    """The laws of the lower and the upper median, on the values that carry all but a billionth."""
    support = grouped.ordered
    first = _first(support, law, lambda tails: tails.lower >= 1e-9)
    last = _first(support, law, lambda tails: tails.upper >= 1.0 - 1e-9)
    inside = support[first : last + 1]
    most = _MOST_NORMAL_ATOMS if law.normal else _MOST_ATOMS
    step = -(-len(inside) // most)
    values = sorted({float(value) for value in inside[::step]} | {float(inside[-1])})
    tails = law(values)
    lower = _steps(values, [one.lower for one in tails])
    upper = _steps(values, [one.upper for one in tails])
    return lower, upper


def _steps(values: list[float], reached: list[float]) -> Atoms:
    below, chances = 0.0, []
    for here in reached:
        chances.append(max(0.0, here - below))
        below = max(below, here)
    return Atoms(values=values, chances=chances)
