"""Planned looks, simulated: false winners over all looks, power, and the repeats that are saved."""

import math

import numpy as np

from benchmarks.verdicts import Arms, runs_of, trial
from twoarm.arrays import Floats
from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.kernel import student
from twoarm.evidence.looks import clear_at, exchanged_labels, flipped_tasks, spending
from twoarm.evidence.relabel import labels_within_tasks, signs_of_tasks
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.metric import DURATION, NON_CACHE_TOKENS, SUCCESS

R_MAX = 10
PLANS = {"looks 3, 5, 7, 10": (3, 5, 7, 10), "looks 2 to 10": tuple(range(2, 11))}
GATED = (SUCCESS, DURATION, NON_CACHE_TOKENS)
# On these very tasks, arms are the same only if no task has an effect of its own.
LOOKED_HERE = {"L0 the same in every task": Arms(success_effect=(0.0, 0.0), task_sd=0.0)}
LOOKED = {
    "L1 identical arms": Arms(),
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
    truth = np.array([effect.duration, effect.tokens])
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
            if tasks >= FEWEST_TASKS:
                held = _held(runs[1:], looks, shares, truth)
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


def _held(runs: list[TaskRuns], looks: tuple[int, ...], shares: list[float], truth: Floats) -> bool:
    """Whether the interval of the duration holds the truth at every look."""
    layout = runs[0].layout
    rank = np.arange(layout.rows) % R_MAX + 1
    for look, share in zip(looks, shares, strict=True):
        deltas = runs[0].among(rank <= look).deltas
        reach = student(1.0 - share / 2.0, len(deltas) - 1)
        half = reach * float(deltas.std(ddof=1)) / math.sqrt(len(deltas))
        if abs(float(deltas.mean()) - truth[0]) > half:
            return False
    return True
