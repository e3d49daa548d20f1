"""Trials of a plan: how often the verdict's own tests are clear, on runs like the pilot's.

For what closed forms do not tell well enough: few tasks, and of success a few more.
"""

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.kernel import normal_quantile, student
from twoarm.evidence.odds import logistic, logits, odds_shift, odds_spread
from twoarm.evidence.pilot import Pilot
from twoarm.evidence.power import Design, Outlook
from twoarm.evidence.relabel import MOST_LISTED, Relabelled, labels_within_tasks, signs_of_tasks
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.metric import SUCCESS

TRIALS = 500
# From this many tasks on, closed forms do as well; for success, from the second number on.
CLOSED_FROM, SUCCESS_CLOSED_FROM = 12, 25
# Cells of the table of relabelled statistics that are held at once.
_MOST_CELLS = 1 << 22
# More runs of a task than the first are not drawn one by one; the second stands for endless.
_MANY_RUNS, ENDLESS = 64, 1_000_000


class _Seed:
    """Seeds for one batch of trials, another for each use."""

    def __init__(self, *numbers: int) -> None:
        self._numbers, self._uses = numbers, 0

    def uniform(self, *shape: int) -> Floats:
        """Numbers between 0 and 1 that every version of numpy draws alike."""
        self._uses += 1
        bits = np.random.PCG64([*self._numbers, self._uses])
        words = bits.random_raw(math.prod(shape)) >> np.uint64(11)
        numbers: Floats = (words.astype(np.float64) + 0.5) / 2.0**53
        return numbers.reshape(shape)

    def normal(self, *shape: int) -> Floats:
        """Standard normals."""
        return normal_quantile(self.uniform(*shape))


def trial_power(
    outlook: Outlook, design: Design, seed: int, *, change: float | None = None, quick: bool = False
) -> float:
    """The share of trials in which the change is clear, and in the right direction.

    `quick` holds each trial against the quantile of Student's t in place of its relabellings: good
    enough to look for a design, whose power is then computed in full.
    """
    change = outlook.aim.change if change is None else change
    pilot = _alone(outlook.pilot) if quick else outlook.pilot
    clear = 0
    for batch, count in enumerate(_batches(pilot, design, quick)):
        drawn = _Seed(seed, 200 + batch, design.tasks)
        if design.tasks < outlook.fewest_tasks:
            here = Design(tasks=pilot.whole_tasks(design.tasks), repeats=design.repeats)
            runs = _runs(pilot, here, change, drawn, count)
            ours, theirs = np.split(runs, 2, axis=3)
            deltas = (ours.mean(axis=3) - theirs.mean(axis=3))[:, pilot.at]
            relabelled = _relabelled(pilot, here, runs, seed)
        else:
            differences = _deltas(pilot, design, change, drawn, count)
            t = _students_t(differences[:, pilot.at], change)
            if quick:
                bound = student(1.0 - outlook.level / 2.0, design.tasks - 1.0)
                clear += int((t >= bound).sum())
                continue
            if design.tasks >= CLOSED_FROM:
                # What is so far from clear on its own need not be relabelled to see that.
                far = student(1.0 - 2.0 * outlook.aim.alpha, design.tasks - 1.0)
                differences = differences[t >= far]
            deltas = differences[:, pilot.at]
            relabelled = signs_of_tasks(differences.reshape(-1, design.tasks), seed)
        clear += _clear(outlook, relabelled, deltas, change)
    return clear / TRIALS


def _alone(pilot: Pilot) -> Pilot:
    """The planned metric without the others."""
    at = slice(pilot.at, pilot.at + 1)
    return msgspec.structs.replace(
        pilot,
        metrics=pilot.metrics[at],
        at=0,
        run_variance=pilot.run_variance[at],
        task_variance=pilot.task_variance[at],
        correlation=np.eye(1),
        rates=pilot.rates if pilot.metric is SUCCESS else np.empty(0),
    )


def _batches(pilot: Pilot, design: Design, quick: bool) -> Iterator[int]:
    """How many trials to make at a time."""
    cells = 2 * design.tasks * min(design.repeats, _MANY_RUNS) * _most_tasks(pilot)
    if not quick:
        cells = max(cells, len(pilot.metrics) * MOST_LISTED)
    step = max(1, _MOST_CELLS // cells)
    for start in range(0, TRIALS, step):
        yield min(step, TRIALS - start)


def _clear(outlook: Outlook, relabelled: Relabelled, deltas: Floats, change: float) -> int:
    """In how many trials the adjusted test is clear, and points the right way."""
    size, at = len(outlook.pilot.metrics), outlook.pilot.at
    right = (deltas.sum(axis=1) > 0.0) == (change > 0.0)
    clear = 0
    for trial in np.flatnonzero(right).tolist():
        together = range(trial * size, (trial + 1) * size)
        own = together[at]
        p = relabelled.adjusted(together, own if outlook.aim.first else None).get(own)
        clear += p is not None and p <= outlook.aim.alpha + 1e-12
    return clear


def _students_t(deltas: Floats, change: float) -> Floats:
    """The mean of each trial in its standard errors, positive the way of the change."""
    error = deltas.std(axis=1, ddof=1) / math.sqrt(deltas.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        t: Floats = np.nan_to_num(
            math.copysign(1.0, change) * deltas.mean(axis=1) / error, posinf=np.inf
        )
    return t


# Tasks like these ---------------------------------------------------------------------------------


def _deltas(pilot: Pilot, design: Design, change: float, drawn: _Seed, trials: int) -> Floats:
    """The task differences of every metric, of shape trial, metric, task."""
    tasks = design.tasks
    # The tasks of the pilot keep the repeats they have.
    sizes = np.full(tasks, design.repeats)
    sizes[: pilot.tasks] = max(design.repeats, pilot.repeats)
    normals = np.einsum(
        "mk,ikt->imt", _factor(pilot), drawn.normal(trials, len(pilot.metrics), tasks)
    )
    spread = np.sqrt(pilot.task_variance[:, None] + pilot.run_variance[:, None] / sizes)
    deltas: Floats = normals * spread
    deltas[:, pilot.at] += change
    for place, metric in enumerate(pilot.metrics):
        if metric is SUCCESS and len(pilot.rates):
            moved = change if place == pilot.at else 0.0
            rates = _task_rates(pilot, place, moved, drawn, trials, tasks)
            ours, theirs = (_share_passed(rate, sizes, drawn) for rate in rates)
            deltas[:, place] = np.nanmean(ours - theirs, axis=2)
    return deltas


def _most_tasks(pilot: Pilot) -> int:
    return 1 if pilot.family is None else int(np.bincount(pilot.family).max())


def _by_family(odds: Floats, pilot: Pilot) -> Floats:
    """The log odds of the tasks of each family, a row each, filled up with NaN."""
    if pilot.family is None:
        return odds[:, None]
    sizes = np.bincount(pilot.family)
    rows = np.full((len(sizes), int(sizes.max())), np.nan)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = odds[np.argsort(pilot.family, kind="stable")]
    return rows


def _factor(pilot: Pilot) -> Floats:
    values, vectors = np.linalg.eigh(pilot.correlation)
    factor: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return factor


def _task_rates(
    pilot: Pilot, place: int, change: float, drawn: _Seed, trials: int, tasks: int
) -> tuple[Floats, Floats]:
    """The success rates of drawn tasks, candidate and baseline: the odds change by task.

    Of shape trial, family, task; the odds of a family's tasks change alike.
    """
    odds = logits(pilot.rates)
    rows = _by_family(odds, pilot)
    spread = odds_spread(pilot.rates, float(pilot.task_variance[place]))
    shift = odds_shift(odds.tobytes(), change, spread)
    which = (drawn.uniform(trials, tasks) * len(rows)).astype(np.int64)
    level = rows[which]
    moved = shift + spread * drawn.normal(trials, tasks)
    return logistic(level + moved[..., None]), logistic(level)


def _share_passed(rates: Floats, sizes: Ints, drawn: _Seed) -> Floats:
    """The share of this many runs that pass; if they are endless, the rate itself."""
    most = int(sizes.max())
    if most >= ENDLESS:
        return rates
    if most > _MANY_RUNS:
        from scipy import special

        sizes = sizes[:, None]
        count = np.ceil(special.bdtrik(drawn.uniform(*rates.shape), sizes, rates))
        share: Floats = np.clip(count, 0.0, sizes) / sizes
        return share
    passed = drawn.uniform(*rates.shape, most) < rates[..., None]
    passed &= np.arange(most) < sizes[:, None, None]
    shares: Floats = np.where(np.isnan(rates), np.nan, passed.sum(axis=3) / sizes[:, None])
    return shares


# These very tasks ---------------------------------------------------------------------------------


def _runs(pilot: Pilot, design: Design, change: float, drawn: _Seed, trials: int) -> Floats:
    """Runs of shape trial, metric, task, run; in each task the candidate's come first."""
    size, tasks, repeats = len(pilot.metrics), design.tasks, design.repeats
    normals = drawn.normal(trials, size, tasks * 2 * repeats)
    runs: Floats = np.einsum("mk,ikr->imr", _factor(pilot), normals).reshape(
        trials, size, tasks, 2 * repeats
    )
    # The variance is that of two runs together: each has half of it.
    # That of a run, where a family has the mean of several.
    runs *= np.sqrt(pilot.run_variance / pilot.shrunk / 2.0)[:, None, None]
    runs[:, pilot.at, :, :repeats] += change
    for place, metric in enumerate(pilot.metrics):
        if metric is SUCCESS and len(pilot.rates):
            odds = np.resize(logits(pilot.rates), tasks)
            moved = change if place == pilot.at else 0.0
            level = odds[:, None] + np.zeros(2 * repeats)
            level[:, :repeats] += odds_shift(odds.tobytes(), moved, 0.0)
            chance = drawn.uniform(trials, tasks, 2 * repeats)
            runs[:, place] = chance < logistic(level)
    return runs


def _relabelled(pilot: Pilot, design: Design, runs: Floats, seed: int) -> Relabelled:
    """The labels of the runs exchanged inside tasks, for every metric of every trial."""
    sizes = np.full((2, design.tasks), design.repeats)
    layout = Layout(tasks=np.arange(design.tasks), sizes=sizes)
    return labels_within_tasks(
        [
            TaskRuns(metric=metric, logs=False, values=values.ravel(), layout=layout)
            for trial in runs
            for metric, values in zip(pilot.metrics, trial, strict=True)
        ],
        seed,
    )
