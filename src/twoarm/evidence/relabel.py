"""The one test: what the arms' labels, exchanged at random, would have shown.

Whole tasks, or whole families of them, change sign, one sign per task for all metrics at once; or,
on these very tasks, labels are exchanged among the runs of each task, one exchange for all metrics.
The statistic of a metric is the sum of its task differences over a denominator that no relabelling
changes, so that metrics can be compared with each other: the largest of several is what a step-down
test goes by (Westfall and Young). Changing the sign of whole tasks assumes that effects are
symmetric where there is no difference.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import msgspec
import numpy as np

from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.kernel import log_choose, normal_quantile
from twoarm.evidence.resample import draws
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.metric import SUCCESS

# Up to this many relabellings are listed; if there are more, this many are drawn.
MOST_LISTED = 1 << 13
# From this many tasks or runs on, the sums are as good as normal.
NORMAL_FROM = 2_000
# If there are more tasks, this many still change sign one by one.
ONE_BY_ONE = 512
# A relabelling that repeats what was seen must count, whatever the rounding.
_SLACK = 1e-9
# What is left of rounding is no variation.
_ROUNDING = 1e-18

# Seeds apart from those of the resampled tasks.
_POOL, _PICK, _SIGN, _NORMAL, _COUNT = 101, 102, 103, 106, 107


class Relabelled(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of some metrics as seen and under relabelling, a row each.

    Where nothing varies there is no test: NaN. `fewest` is the smallest p-value there can be.
    """

    observed: Floats
    drawn: Floats
    listed: bool
    fewest: float

    def p(self, column: int) -> float | None:
        """The p-value of one metric alone."""
        return None if math.isnan(self.observed[column]) else self._reached(column, [column])

    def adjusted(self, together: Sequence[int], first: int | None = None) -> dict[int, float]:
        """The p-values of metrics tested together: any false alarm among them is as rare as of one.

        One that was named to be tested `first` is tested alone; the others only after it.
        """
        tested = [column for column in together if not math.isnan(self.observed[column])]
        adjusted: dict[int, float] = {}
        least = 0.0
        if first is not None:
            alone = self.p(first)
            # What could not be tested was not clear, and nothing comes after it.
            least = 1.0 if alone is None else alone
            if alone is not None:
                adjusted[first] = alone
        left = sorted(
            (column for column in tested if column != first),
            key=lambda column: -self.observed[column],
        )
        for rank, column in enumerate(left):
            least = max(least, self._reached(column, left[rank:]))
            adjusted[column] = least
        return adjusted

    def _reached(self, column: int, among: list[int]) -> float:
        """How often the largest of some statistics is at least what was seen of one."""
        most = self.drawn[:, among].max(axis=1)
        count = int((most >= abs(self.observed[column]) - _SLACK).sum())
        return count / len(most) if self.listed else (1 + count) / (len(most) + 1)


def signs_of_tasks(deltas: Floats, seed: int) -> Relabelled:
    """Would tasks like these show it? Differences by metric and task; NaN was not measured."""
    deltas = np.nan_to_num(deltas)
    size = np.sqrt((deltas**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = deltas / size[:, None]
    tasks = deltas.shape[1]
    if tasks > NORMAL_FROM:
        # Success may differ in few tasks, too few for a normal sum: the tasks in which most metrics
        # differ change sign one by one.
        order = np.argsort(-np.count_nonzero(deltas, axis=0), kind="stable")
        few, many = scaled[:, order[:ONE_BY_ONE]], np.nan_to_num(scaled[:, order[ONE_BY_ONE:]])
        drawn = signs(few.shape[1], seed) @ few.T + _normal(many @ many.T, seed)
        listed, fewest = False, 1 / (len(drawn) + 1)
    else:
        patterns = signs(tasks, seed)
        drawn, listed = patterns @ scaled.T, 2 ** (tasks - 1) <= MOST_LISTED
        fewest = 1 / len(patterns) if listed else 1 / (len(patterns) + 1)
    return Relabelled(
        observed=np.abs(scaled.sum(axis=1)), drawn=np.abs(drawn), listed=listed, fewest=fewest
    )


@lru_cache(maxsize=8)
def signs(tasks: int, seed: int) -> Floats:
    """Signs of tasks, a row each: all that differ but for a common sign, or as many at random."""
    if 2 ** (tasks - 1) <= MOST_LISTED:
        bits = np.arange(2 ** (tasks - 1))[:, None] >> np.arange(tasks) & 1
    else:
        bits = draws([seed, _SIGN], MOST_LISTED, tasks, 2)
    return np.where(bits == 0, 1.0, -1.0)


def _normal(covariance: Floats, seed: int) -> Floats:
    """Draws of several normals with these variances and covariances, a row each."""
    values, vectors = np.linalg.eigh(covariance)
    words = np.random.PCG64([seed, _NORMAL]).random_raw(MOST_LISTED * len(values))
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    standard = normal_quantile(uniform).reshape(MOST_LISTED, -1)
    normals: Floats = standard @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return normals


def labels_within_tasks(runs: Sequence[TaskRuns], seed: int) -> Relabelled:
    """Would these very tasks show it again? Labels are exchanged among the runs of each task."""
    layout = runs[0].layout
    size = np.array([measure.label_deviation for measure in runs])
    # One run played back is not a repeat, and neither is what never varies: no test.
    size[[measure.played_again for measure in runs] | (size == 0.0)] = np.nan
    observed = np.array(
        [abs(math.fsum(np.nan_to_num(measure.deltas) * layout.weights)) for measure in runs]
    )
    ways = float(log_choose(layout.sizes.sum(axis=0), layout.sizes[0]).sum())
    listed = ways <= math.log(MOST_LISTED) + _SLACK
    if listed or layout.rows <= 2 * NORMAL_FROM:
        pools, picks = _every_choice(layout) if listed else _some_choices(layout, seed)
        drawn = np.column_stack([_relabelled(measure, pools, picks) for measure in runs])
    else:
        drawn = _normal(_covariance(runs), seed)
        for column, measure in enumerate(runs):
            if measure.metric is SUCCESS and 0 < len(_varied(measure)) <= _FEW_VARIED:
                drawn[:, column] = _passes_exchanged(measure, seed)
    # Exchanging all labels gives the same size of a difference where the arms have as many runs.
    mirrored = 2.0 if np.array_equal(*layout.sizes) else 1.0
    return Relabelled(
        observed=observed / size,
        drawn=np.abs(drawn) / size,
        listed=listed,
        fewest=mirrored / len(drawn) if listed else 1 / (len(drawn) + 1),
    )


# Which runs of a task are called the candidate's, a row each, for tasks of each pair of sizes.
Pools = dict[tuple[int, int], Floats]


def _every_choice(layout: Layout) -> tuple[Pools, Ints]:
    """Every relabelling: each choice in every task, with each in all others."""
    pools: Pools = {}
    for ours, theirs in set(zip(*layout.sizes.tolist(), strict=True)):
        chosen = list(combinations(range(ours + theirs), ours))
        pools[ours, theirs] = np.zeros((len(chosen), ours + theirs))
        for row, places in zip(pools[ours, theirs], chosen, strict=True):
            row[list(places)] = 1.0
    counts = [len(pools[ours, theirs]) for ours, theirs in zip(*layout.sizes.tolist(), strict=True)]
    return pools, np.indices(counts).reshape(len(counts), -1)


def _some_choices(layout: Layout, seed: int) -> tuple[Pools, Ints]:
    """Random relabellings; each task picks its own from a pool that all of its sizes share."""
    pools = {
        (ours, theirs): pool_of(seed, ours, theirs)
        for ours, theirs in set(zip(*layout.sizes.tolist(), strict=True))
    }
    return pools, _picks(seed, layout.sizes.shape[1])


@lru_cache(maxsize=32)
def pool_of(seed: int, ours: int, theirs: int) -> Floats:
    """Random choices of `ours` among all runs of a task, a row each: 1 for chosen."""
    size = ours + theirs
    words = np.random.PCG64([seed, _POOL, ours, theirs]).random_raw(MOST_LISTED * size)
    order = np.argsort(words.reshape(MOST_LISTED, size), axis=1)
    return (order < ours).astype(np.float64)


@lru_cache(maxsize=4)
def _picks(seed: int, tasks: int) -> Ints:
    return draws([seed, _PICK], tasks, MOST_LISTED, MOST_LISTED)


def _relabelled(runs: TaskRuns, pools: Pools, picks: Ints) -> Floats:
    """The sum of the task differences under every relabelling; what is missing moves along."""
    layout = runs.layout
    statistic = np.zeros(picks.shape[1])
    for (ours, theirs), chosen in pools.items():
        tasks = np.flatnonzero((layout.sizes[0] == ours) & (layout.sizes[1] == theirs))
        values = runs.values[layout.starts[tasks][:, None] + np.arange(ours + theirs)]
        known = ~np.isnan(values)
        values = np.nan_to_num(values)
        won = values @ chosen.T
        counts = known @ chosen.T
        rest = known.sum(axis=1)[:, None] - counts
        with np.errstate(invalid="ignore", divide="ignore"):
            deltas = won / counts - (values.sum(axis=1)[:, None] - won) / rest
        # An arm without a value gives no difference.
        deltas[(counts == 0) | (rest == 0)] = 0.0
        for row, task in zip(deltas, tasks, strict=True):
            statistic += layout.weights[task] * row[picks[task]]
    return statistic


def _covariance(runs: Sequence[TaskRuns]) -> Floats:
    """How the sums of task differences vary, and vary together, when labels are exchanged."""
    rows = []
    for measure in runs:
        counts = measure.sizes.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            centre = (measure.sizes * np.nan_to_num(measure.means)).sum(axis=0) / counts
            scale = np.sqrt((1.0 / measure.sizes).sum(axis=0) / (counts - 1.0))
        scale *= measure.layout.weights
        task = measure.layout.task
        rows.append(
            np.where(measure.shared[task], (measure.values - centre[task]) * scale[task], 0.0)
        )
    away = np.nan_to_num(np.array(rows))
    covariance: Floats = away @ away.T
    return covariance


# Beyond this many tasks with successes and failures, their sum is normal.
_FEW_VARIED = 512


def _varied(passes: TaskRuns) -> Ints:
    """The tasks with successes and failures: in the others labels change nothing."""
    won = (passes.means * passes.sizes).sum(axis=0)
    return np.flatnonzero((won > 0.5) & (won < passes.sizes.sum(axis=0) - 0.5))


def _passes_exchanged(passes: TaskRuns, seed: int) -> Floats:
    """The sum of differences of success rates when labels are exchanged: hypergeometric in each
    task. Few failures among many runs are far from normal."""
    statistic = np.zeros(MOST_LISTED)
    for task in _varied(passes):
        ours, theirs = (int(size) for size in passes.sizes[:, task])
        won = round(float((passes.means * passes.sizes)[:, task].sum()))
        counts = np.arange(max(0, won - theirs), min(won, ours) + 1)
        logs = log_choose(ours, counts) + log_choose(theirs, won - counts)
        reached = np.cumsum(np.exp(logs - log_choose(ours + theirs, won)))
        uniform = draws([seed, _COUNT, int(task)], 1, MOST_LISTED, 1 << 31)[0] / 2.0**31
        drawn = counts[np.minimum(np.searchsorted(reached, uniform, "right"), len(counts) - 1)]
        statistic += passes.layout.weights[task] * (drawn / ours - (won - drawn) / theirs)
    return statistic


def simultaneous(deltas: Floats, level: float, seed: int) -> list[tuple[float, float] | None]:
    """An interval for the mean of each row of deltas, a column per task; None where none is known.

    All of them hold together at the level, not each by itself. The residuals of whole tasks change
    sign at random, one sign per task for all means, so that what moves together stays together.
    The largest of the studentized means is what the intervals go by: with many of them each is
    wider, and whichever looks largest is not therefore clear. With fewer tasks than can speak for
    others there is none at all, nor where nothing varies.
    """
    rows, tasks = deltas.shape
    if tasks < FEWEST_TASKS or not rows:
        return [None] * rows
    means = deltas.mean(axis=1)
    residuals = deltas - means[:, None]
    squares = (residuals**2).sum(axis=1)
    varied = squares > _ROUNDING * np.maximum(1.0, (deltas**2).sum(axis=1))
    reach = _reach(_bundled(residuals[varied]), level, seed)
    errors = np.sqrt(squares / (tasks - 1) / tasks)
    return [
        (float(mean - reach * error), float(mean + reach * error))
        if known and math.isfinite(reach)
        else None
        for mean, error, known in zip(means, errors, varied, strict=True)
    ]


def _bundled(residuals: Floats) -> Floats:
    """Many tasks change sign in bundles."""
    tasks = residuals.shape[1]
    if tasks <= ONE_BY_ONE:
        return residuals
    return np.add.reduceat(residuals, np.arange(ONE_BY_ONE) * tasks // ONE_BY_ONE, axis=1)


def _reach(residuals: Floats, level: float, seed: int) -> float:
    """How many standard errors hold the largest of the means at the level."""
    units = residuals.shape[1]
    sums = signs(units, seed) @ residuals.T
    left = np.maximum((residuals**2).sum(axis=1) - sums**2 / units, 0.0) / (units - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        studentized = np.abs(sums) / np.sqrt(units * left)
    largest = np.sort(studentized.max(axis=1, initial=0.0))
    return float(largest[math.ceil(level * len(largest)) - 1])
