"""Looks, simulated: false winners over all looks, power, and the repeats that are saved.

Planned looks, and those that nobody planned: score, make the runs that NEXT asks for, score again.
"""

import math
from functools import lru_cache

import numpy as np

from benchmarks.generators import logistic
from benchmarks.verdicts import (
    RUN_CORRELATION,
    RUN_SD,
    TASK_CORRELATION,
    Arms,
    normals,
    runs_of,
    success_shift,
    trial,
    verdict,
)
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.interval import Frame
from twoarm.evidence.looks import clear_at, exchanged_labels, flipped_tasks, level_alone, spending
from twoarm.evidence.means import ratio_estimate
from twoarm.evidence.next_runs import next_runs
from twoarm.evidence.relabel import labels_within_tasks, signs_of_tasks
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.options import Options
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import (
    COST,
    DURATION,
    JUDGED,
    NON_CACHE_TOKENS,
    SUCCESS,
    TOKENS,
    Metric,
)

R_MAX = 10
PLANS = {"looks 3, 5, 7, 10": (3, 5, 7, 10), "looks 2 to 10": tuple(range(2, 11))}
GATED = (SUCCESS, DURATION, NON_CACHE_TOKENS)
# On these very tasks, arms are the same only if no task has an effect of its own.
LOOKED_HERE = {"L0 the same in every task": Arms(success_effect=(0.0, 0.0), task_sd=0.0)}
LOOKED = {
    "L1 arms equal on average": Arms(),
    "L2 -15/-20%, mixed success": Arms(duration=math.log(0.85), tokens=math.log(0.8)),
    "L3 -20%, everything passes": Arms(duration=math.log(0.8), tokens=math.log(0.8), success=None),
}
LOOKED_AGAIN = {
    "N1 equal on average, scored again": Arms(success_effect=(success_shift(0.0), 0.5)),
}
# No more tasks than these are drawn; nobody would write them for one verdict.
MOST_TASKS = 1_000
WINNERS = ("candidate better", "baseline better")
TURNS = ("first", "second", "third")
# Where a drawn suite keeps the metrics.
_ROWS = {
    SUCCESS.name: 0,
    DURATION.name: 1,
    NON_CACHE_TOKENS.name: 2,
    TOKENS.name: 2,
    COST.name: 3,
}


def statistics(runs: list[TaskRuns], looks: tuple[int, ...]) -> list[Floats]:
    layout = runs[0].layout
    repeats = int(layout.sizes[0, 0])
    rank = np.arange(layout.rows) % repeats + 1
    block = np.searchsorted(looks, rank)
    if len(layout.tasks) >= FEWEST_TASKS:
        return flipped_tasks(
            [
                np.array([one.among(block <= look).deltas for one in runs])
                for look in range(len(looks))
            ],
            1,
        )
    return exchanged_labels(runs, block, 1)


def looks_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    """Of each plan: how often anything is clear, how often more than repeats were needed."""
    draw = np.random.default_rng([43, len(name), tasks])
    effect = (LOOKED_HERE | LOOKED)[name]
    counts: dict[str, list[float]] = {}
    for _ in range(datasets):
        runs = runs_of(trial(effect, tasks, repeats, draw).values, GATED)
        fixed = fixed_test(runs)
        _add(counts, "clear without looks, 10 repeats", fixed)
        for plan, looks in PLANS.items():
            shares = [spending(look, R_MAX, 0.95) for look in looks]
            clear = clear_at(statistics(runs, looks), shares, range(len(GATED)), None)
            _add(counts, f"{plan}: clear", bool(clear))
            stopped = min(clear.values(), default=len(looks) - 1)
            _add(counts, f"{plan}: share of repeats run", looks[stopped] / R_MAX)
            held = _held(runs[1], looks, effect.duration)
            _add(counts, f"{plan}: interval of duration holds at every look", held)
    return counts


def fixed_test(runs: list[TaskRuns]) -> bool:
    """Whether anything is clear at the end, without looks."""
    if len(runs[0].layout.tasks) >= FEWEST_TASKS:
        found = signs_of_tasks(np.array([one.deltas for one in runs]), 1)
    else:
        found = labels_within_tasks(runs, 1)
    return any(p <= 0.05 + 1e-12 for p in found.adjusted(range(len(runs))).values())


def _add(counts: dict[str, list[float]], row: str, hit: float) -> None:
    entry = counts.setdefault(row, [0.0, 0])
    entry[0] += hit
    entry[1] += 1


def _held(runs: TaskRuns, looks: tuple[int, ...], truth: float) -> bool:
    """Whether the interval of the duration holds the truth at every look."""
    rank = np.arange(runs.layout.rows) % R_MAX + 1
    many = len(runs.layout.tasks) >= FEWEST_TASKS
    for look, frame in zip(looks, _frames(looks), strict=True):
        found = ratio_estimate(runs.among(rank <= look), frame)
        assert found is not None
        ends = found.tasks_like_these if many else found.these_tasks
        assert ends is not None
        if not ends.low <= math.exp(truth) <= ends.high:
            return False
    return True


@lru_cache
def _frames(looks: tuple[int, ...]) -> list[Frame]:
    """What the intervals of each look are made with."""
    levels = [level_alone(looks[: number + 1], R_MAX, 0.95) for number in range(len(looks))]
    return [Frame(level=level, tests=0.95, seed=1, resamples=1) for level in levels]


def again_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    """False winners by each look, where the runs that NEXT asks for are made in between."""
    return looked_again(name, tasks, repeats, range(datasets))


def looked_again(name: str, tasks: int, repeats: int, numbers: range) -> dict[str, list[float]]:
    """The same for some of the data sets; each has a seed of its own."""
    due = [
        (tasks, repeats, number, _Suite(LOOKED_AGAIN[name], [61, tasks, repeats, number]))
        for number in numbers
    ]
    counts: dict[str, list[float]] = {}
    winners = 0
    for label in TURNS:
        counts[f"looked a {label} time"] = [len(due), len(numbers)]
        later = []
        # Suites of one size after the other: their tests share the signs that are drawn.
        for wide, long, number, suite in sorted(due, key=lambda entry: entry[:3]):
            runs = suite.grown(wide, long)
            grade = verdict(runs)
            winners += grade.verdict in WINNERS
            # A winner, or a trade-off, asks for no more runs.
            if grade.verdict == "no clear difference" and label != TURNS[-1]:
                wanted = next_runs(runs, grade, Options(), 0.05, None)
                if wanted is not None and wanted.tasks <= MOST_TASKS:
                    later.append((wanted.tasks, wanted.repeats, number, suite))
        due = later
        counts[f"a false winner by the {label} look"] = [winners, len(numbers)]
    return counts


class _Suite:
    """Tasks that keep what they are, and runs that are kept while more are drawn."""

    def __init__(self, arms: Arms, seed: list[int]) -> None:
        assert arms.success is not None
        draw = np.random.default_rng(seed)
        level = draw.normal(*arms.success, MOST_TASKS)
        changed = level + draw.normal(*arms.success_effect, MOST_TASKS)
        self._rates = np.array([logistic(changed), logistic(level)])
        self._effects = arms.task_sd * normals(draw, 3, (MOST_TASKS,), TASK_CORRELATION)
        self._draw, self._runs = draw, np.empty((4, 2, 0, 0))
        self._repeats = np.zeros(MOST_TASKS, dtype=np.int64)

    def grown(self, tasks: int, repeats: int) -> list[TaskRuns]:
        """The runs of so many tasks with at least so many repeats; those drawn before stay."""
        _, _, kept, made = self._runs.shape
        most = max(repeats, made)
        noise = RUN_SD * normals(self._draw, 3, (2, tasks, most), RUN_CORRELATION)
        noise[:, 0] += self._effects[:, :tasks, None]
        passed = self._draw.random((2, tasks, most)) < self._rates[:, :tasks, None]
        runs = np.array([passed.astype(np.float64), *np.exp(noise)])
        there = np.arange(made) < self._repeats[:kept, None]
        runs[:, :, :kept, :made] = np.where(there, self._runs, runs[:, :, :kept, :made])
        self._runs = runs
        self._repeats[:tasks] = np.maximum(self._repeats[:tasks], repeats)
        return [self._of(metric, runs[_ROWS[metric.name]]) for metric in JUDGED]

    def _of(self, metric: Metric, runs: Floats) -> TaskRuns:
        _, tasks, most = runs.shape
        sizes = self._repeats[:tasks]
        made = np.broadcast_to(np.arange(most) < sizes[:, None, None], (tasks, 2, most))
        layout = Layout(tasks=np.arange(tasks), sizes=np.tile(sizes, (2, 1)))
        values = np.swapaxes(runs, 0, 1)[made]
        return TaskRuns(metric=metric, logs=False, values=values, layout=layout).on_test_scale()
