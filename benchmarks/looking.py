"""Planned looks, simulated: false winners over all looks, power, and the repeats that are saved."""

import math
from functools import lru_cache

import numpy as np

from benchmarks.verdicts import Arms, runs_of, trial
from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.interval import Frame
from twoarm.evidence.looks import clear_at, exchanged_labels, flipped_tasks, level_alone, spending
from twoarm.evidence.means import ratio_estimate
from twoarm.evidence.relabel import labels_within_tasks, signs_of_tasks
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS, SUCCESS

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
