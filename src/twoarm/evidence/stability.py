"""How the decision fares when tasks and repeats are drawn again, and what hangs on single tasks."""

import math

import msgspec
import numpy as np

from twoarm.compare.decide import GATES, Decision, Figures, decide, judge
from twoarm.compare.screen import ArmRuns, Arms
from twoarm.evidence.cells import Grouped
from twoarm.evidence.interval import Frame
from twoarm.evidence.resample import Resamples, Tables, draws
from twoarm.evidence.results import FEWEST_TASKS, DecisionWithout, MeanWithout, Stability
from twoarm.runs.arrays import Floats, Ints, starts_of, sums
from twoarm.runs.metric import SUCCESS

# Two-stage resampling is done run by run up to this many runs, and this many draws in all.
MOST_RUNS = 40_000
MOST_DRAWS = 2_000_000
FEWEST_RESAMPLES = 200

# A task that carries more than this share of the spread between tasks drives the mean.
DRIVES = 0.5
_FEWEST_TO_DRIVE = 5
# More tasks than this are not left out one by one.
MOST_LEFT_OUT = 2_000

# Of tasks, and of families.
TWO_STAGE = "tasks and repeats resampled", "families and repeats resampled"
ONE_STAGE = "tasks resampled", "families resampled"
# Rows as wide as the largest family have at most this many places for each task.
_MOST_PLACES = 8

# Resamples at a time: what they need stays in the processor's cache.
_ROWS = 128

_TASKS, _REPEATS = 104, 105


# What the gates look at in many resamples, by gate; NaN where a resample has no value.
Columns = dict[str, Floats]


class ArmSample(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one arm in the tasks that both arms have: by task, a column for each gate.

    A value not measured is NaN.
    """

    arm: str
    tasks: Ints
    starts: Ints
    values: dict[str, Floats]

    @property
    def sizes(self) -> Ints:
        """How many runs each task has."""
        return np.diff(self.starts)

    def measured(self, gate: str) -> Grouped:
        """The values of a gate that were measured; a task may be left with none."""
        known = ~np.isnan(self.values[gate])
        before = np.concatenate(([0], np.cumsum(known)))
        return Grouped(
            values=self.values[gate][known], tasks=self.tasks, starts=before[self.starts]
        )


def sample(arm: ArmRuns, task_count: int, tasks: Ints) -> ArmSample:
    """The runs of an arm in these tasks."""
    rows = np.flatnonzero(np.isin(arm.task, tasks))
    starts = starts_of(arm.task[rows], task_count)
    return ArmSample(
        arm=arm.arm,
        tasks=tasks,
        starts=np.append(starts[tasks], len(rows)),
        values={gate.name: arm.values[gate.metric.name][rows] for gate in GATES},
    )


def decision_stability(
    decision: Decision,
    samples: tuple[ArmSample, ArmSample],
    frame: Frame,
    resamples: Resamples,
    tables: Tables,
    family: Ints | None = None,
) -> Stability:
    """The shares of the decisions; they mean something from six tasks, or families of them, on."""
    tasks = len(samples[0].tasks)
    families = tasks if family is None else int(family.max()) + 1
    runs = sum(len(arm.values["success_rate"]) for arm in samples)
    if runs <= MOST_RUNS and (family is None or _fit_rows(family)):
        count = max(FEWEST_RESAMPLES, min(frame.resamples, MOST_DRAWS // runs))
        drawn = draws([frame.seed, _TASKS], count, families, families)
        if family is not None:
            drawn = _their_tasks(family)[drawn].reshape(count, -1)
        columns = [
            _two_stage(arm, drawn, [frame.seed, _REPEATS, number])
            for number, arm in enumerate(samples)
        ]
        chances = np.full(count, 1.0 / count)
        method = TWO_STAGE[family is not None]
    else:
        unit = resamples.unit if family is None else resamples.unit[family]
        columns = [_weighted(arm, resamples.weights, unit, tables) for arm in samples]
        chances = resamples.chances
        method = ONE_STAGE[family is not None]
    kinds, which = _decisions(columns, samples)
    shares = {
        str(kind): min(1.0, math.fsum(chances[np.array([other == kind for other in kinds])[which]]))
        for kind in sorted(set(kinds))
    }
    return Stability(
        decision_share=shares.get(str(decision), 0.0),
        shares=shares,
        resamples=len(chances),
        method=method,
    )


def decision_without(samples: tuple[ArmSample, ArmSample], task: int | None) -> Decision:
    """The decision without one task, or of the samples as they are."""

    def figures(arm: ArmSample) -> Figures:
        gone = slice(0, 0) if task is None else slice(arm.starts[task], arm.starts[task + 1])
        return {gate.name: gate.figure(np.delete(arm.values[gate.name], gone)) for gate in GATES}

    return decide(judge(*map(figures, samples)), _arms(samples))


def without_each_task(samples: tuple[ArmSample, ArmSample], tables: Tables) -> list[Decision]:
    """The decision without each task in turn, in order of task."""
    tasks = len(samples[0].tasks)
    if tasks < FEWEST_TASKS:
        return [decision_without(samples, task) for task in range(tasks)]
    weights = 1.0 - np.eye(tasks)
    unit = np.arange(tasks)
    columns = [_weighted(arm, weights, unit, tables) for arm in samples]
    kinds, which = _decisions(columns, samples)
    return [kinds[number] for number in which]


def _arms(samples: tuple[ArmSample, ArmSample]) -> Arms:
    return Arms(candidate=samples[0].arm, baseline=samples[1].arm)


def _weighted(arm: ArmSample, weights: Floats, unit: Ints, tables: Tables) -> Columns:
    """What the gates compare, for each row of weights of the tasks."""
    return {
        gate.name: _rates(arm, weights, unit)
        if gate.metric is SUCCESS
        else tables.table(arm.arm, arm.measured(gate.name), gate.metric, unit).medians(weights)
        for gate in GATES
    }


def _rates(arm: ArmSample, weights: Floats, unit: Ints) -> Floats:
    def totals(per_task: Floats | Ints) -> Floats:
        return weights @ np.bincount(unit, weights=per_task, minlength=weights.shape[1])

    with np.errstate(invalid="ignore", divide="ignore"):
        return totals(sums(arm.values["success_rate"], arm.starts)) / totals(arm.sizes)


def _two_stage(arm: ArmSample, drawn: Ints, seed: list[int]) -> Columns:
    """Tasks as drawn; inside each, as many runs as it has, drawn again."""
    sizes = _sizes(arm)[drawn]
    # Where the runs of each resample begin among all that are drawn.
    starts = np.concatenate(([0], np.cumsum(sizes.sum(axis=1))))
    words = draws(seed, 1, int(starts[-1]), 1 << 31)[0]
    figures: dict[str, list[Floats]] = {gate.name: [] for gate in GATES}
    for first in range(0, len(drawn), _ROWS):
        here = words[starts[first] : starts[min(first + _ROWS, len(drawn))]]
        times = _times_drawn(arm, drawn[first : first + _ROWS], here)
        for gate in GATES:
            values = arm.values[gate.name]
            figures[gate.name].append(
                times @ values / times.sum(axis=1)
                if gate.metric is SUCCESS
                else _row_medians(values, times)
            )
    return {name: np.concatenate(parts) for name, parts in figures.items()}


def _fit_rows(family: Ints) -> bool:
    """Whether no family is so large that rows of its width would mostly be empty."""
    sizes = np.bincount(family)
    return len(sizes) * int(sizes.max()) <= _MOST_PLACES * len(family)


def _their_tasks(family: Ints) -> Ints:
    """The tasks of each family, a row each, filled up with a task that has no runs."""
    sizes = np.bincount(family)
    tasks = np.full((len(sizes), int(sizes.max())), len(family))
    order = np.argsort(family, kind="stable")
    tasks[np.arange(tasks.shape[1]) < sizes[:, None]] = order
    return tasks


def _sizes(arm: ArmSample) -> Ints:
    """How many runs each task has; last, of a task that has none."""
    return np.append(arm.sizes, 0)


def _times_drawn(arm: ArmSample, drawn: Ints, words: Ints) -> Ints:
    """How often each run is in each resample, a row each; a word of 31 bits draws one run."""
    sizes = _sizes(arm)[drawn].ravel()
    runs = int(arm.starts[-1])
    # Each drawn task starts in the row of its resample, at its first run.
    begins = arm.starts[drawn] + (np.arange(len(drawn)) * runs)[:, None]
    at = np.repeat(begins.ravel(), sizes) + ((words * np.repeat(sizes, sizes)) >> 31)
    return np.bincount(at, minlength=len(drawn) * runs).reshape(len(drawn), runs)


def _row_medians(values: Floats, times: Ints) -> Floats:
    """The median of the values, each as often as a row says; NaN of a row that has none."""
    # NaN is ordered last, and left out.
    order = np.argsort(values, kind="stable")[: int((~np.isnan(values)).sum())]
    if not len(order):
        return np.full(len(times), np.nan)
    reached = np.cumsum(times[:, order], axis=1)
    size = reached[:, -1:]
    middle = [
        values[order[np.minimum((reached < rank).sum(axis=1), len(order) - 1)]]
        for rank in ((size + 1) // 2, size // 2 + 1)
    ]
    low, high = middle
    return np.where(size[:, 0] > 0, np.where(low == high, low, (low + high) / 2), np.nan)


def _decisions(
    columns: list[Columns], samples: tuple[ArmSample, ArmSample]
) -> tuple[list[Decision], Ints]:
    """The decisions that occur and which one each resample has, by the rule itself.

    Only the order of the figures matters.
    """
    signs = np.stack(
        [np.sign(columns[0][gate.name] - columns[1][gate.name]) for gate in GATES], axis=1
    )
    patterns, which = np.unique(signs, axis=0, return_inverse=True)
    even: Figures = dict.fromkeys((gate.name for gate in GATES), 0.0)
    kinds = []
    for pattern in patterns.tolist():
        known: Figures = {
            gate.name: None if sign != sign else sign
            for gate, sign in zip(GATES, pattern, strict=True)
        }
        kinds.append(decide(judge(known, even), _arms(samples)))
    return kinds, which.ravel()


def without_tasks(
    names: tuple[str, ...],
    decision: Decision,
    samples: tuple[ArmSample, ArmSample],
    tables: Tables,
) -> tuple[DecisionWithout, ...]:
    """The tasks without which the decision changes."""
    tasks = samples[0].tasks
    if not 2 <= len(tasks) <= MOST_LEFT_OUT:
        return ()
    return tuple(
        DecisionWithout(task_id=names[code], decision=other)
        for code, other in zip(tasks, without_each_task(samples, tables), strict=True)
        if other != decision
    )


def mean_without(pairs: Grouped, names: tuple[str, ...]) -> MeanWithout | None:
    """The mean of one metric without each task in turn, from two tasks on."""
    tasks = len(pairs.sizes)
    if tasks < 2:
        return None
    totals = sums(pairs.values, pairs.starts)
    total, count = math.fsum(totals), len(pairs)
    without = (total - totals) / (count - pairs.sizes)
    low, high = int(np.argmin(without)), int(np.argmax(without))
    away = (totals / pairs.sizes - total / count) ** 2
    widest = int(np.argmax(away))
    drives = tasks >= _FEWEST_TO_DRIVE and away[widest] > DRIVES * math.fsum(away)
    return MeanWithout(
        low=float(without[low]),
        low_without=names[pairs.tasks[low]],
        high=float(without[high]),
        high_without=names[pairs.tasks[high]],
        driven_by=names[pairs.tasks[widest]] if drives else None,
        mean_without_it=float(without[widest]) if drives else None,
    )
