"""Several arms in one run while the provider drifts: how often equal candidates are told apart.

The order of trials is that of `twoarm run`, one trial at a time, and the clock runs as long as the
trials take. Drift is added to the logs of time and tokens, and taken from the logit of success.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from benchmarks.counting import Cell, Count
from benchmarks.generators import RUN_SD, logistic
from benchmarks.verdicts import frame, runs_of
from twoarm.compare.decide import GATES
from twoarm.evidence.relabel import signs_of_tasks
from twoarm.evidence.results import FEWEST_TASKS
from twoarm.evidence.weigh import headline_tests
from twoarm.run.schedule import arrange
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import COST, DURATION, JUDGED, NON_CACHE_TOKENS, SUCCESS, TOKENS

Drift = Literal["no drift", "linear", "a step", "day and night", "random walk", "cold start"]
# How far it goes: to the end of the line, in one step, up and down, the sd of a walk's end, and
# for the first trial of every block.
FAR: dict[Drift, float] = {
    "no drift": 0.0,
    "linear": 1.0,
    "a step": 0.8,
    "day and night": 0.5,
    "random walk": 0.7,
    "cold start": 0.5,
}
DAYS = 3
LEVEL, TASK_SD = 5.0, 0.8
_COLUMNS = {metric.name: column for column, metric in enumerate(JUDGED)}


class Drifting(NamedTuple):
    """How many arms there are, all the same, and what happens to them meanwhile."""

    arms: int
    drift: Drift


# Seeds go by the place: what came later stands last.
_KINDS = sorted(
    (Drifting(arms, drift) for arms in (3, 4) for drift in FAR),
    key=lambda kind: kind.drift == "cold start",
)
DRIFTING = {
    f"A{number} {kind.arms} arms, {kind.drift}": kind for number, kind in enumerate(_KINDS, 1)
}


def drift_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    """How often each candidate is called different from a baseline that equals it."""
    kind = DRIFTING[name]
    draw = np.random.default_rng([83, list(DRIFTING).index(name), tasks, repeats])
    count = Count()
    for _ in range(datasets):
        values = trials_made(kind, tasks, repeats, draw)
        deltas, alone = [], []
        for candidate in range(1, kind.arms):
            runs = runs_of({metric: arms[[candidate, 0]] for metric, arms in values.items()})
            tests = headline_tests(runs, frame(), None)
            deltas += [runs[_COLUMNS[gate.metric.name]].deltas for gate in GATES]
            alone.append(min(tests.adjusted.values(), default=1.0))
            for metric in (DURATION, SUCCESS):
                p = tests.p(_COLUMNS[metric.name])
                row = f"false alarm: candidate {candidate}, {metric.label}"
                count.test(row, 1.0 if p is None else p)
            count.test(f"false alarm: candidate {candidate}, any gate, adjusted", alone[-1])
        together = min(1.0, len(alone) * min(alone))
        if tasks >= FEWEST_TASKS:
            adjusted = signs_of_tasks(np.array(deltas), 1).adjusted(range(len(deltas)))
            together = min(adjusted.values(), default=1.0)
        count.test("false alarm: any candidate and gate, adjusted", together)
    return count.cell()


def trials_made(
    kind: Drifting, tasks: int, repeats: int, draw: np.random.Generator
) -> dict[str, Floats]:
    """Every metric by arm, task and repeat, from trials that were made one after the other."""
    shape = (kind.arms, tasks, repeats)
    level = draw.normal(LEVEL, TASK_SD, tasks)
    noise = draw.normal(0.0, RUN_SD, shape)
    blocks = [
        [(int(trial.arm), int(trial.task), trial.repeat - 1) for trial in block]
        for block in arrange(
            [str(task) for task in range(tasks)],
            [str(arm) for arm in range(kind.arms)],
            repeats,
            int(draw.integers(2**31)),
        )
    ]
    order = [at for block in blocks for at in block]
    first = {block[0] for block in blocks}
    walk = np.cumsum(draw.normal(0.0, 1.0 / math.sqrt(len(order)), len(order)))
    phase = draw.random()
    # How long all of it would take without drift.
    whole = float(np.exp(level[None, :, None] + noise).sum())
    drift = np.empty(shape)
    clock = 0.0
    for number, at in enumerate(order):
        here = _drift(kind.drift, clock / whole, phase, float(walk[number]), first=at in first)
        drift[at] = FAR[kind.drift] * here
        clock += math.exp(level[at[1]] + noise[at] + drift[at])
    logs = level[None, :, None] + drift
    duration = np.exp(logs + noise)
    tokens = np.exp(logs + 0.8 * noise + 0.18 * draw.normal(size=shape))
    logit = draw.normal(1.5, 1.5, tasks)[None, :, None] - drift
    return {
        SUCCESS.name: (draw.random(shape) < logistic(logit)).astype(np.float64),
        DURATION.name: duration,
        NON_CACHE_TOKENS.name: tokens,
        TOKENS.name: tokens,
        COST.name: tokens,
    }


def _drift(kind: Drift, share: float, phase: float, walk: float, *, first: bool) -> float:
    """Where it stands when so much of the run is over, before it is scaled."""
    if kind == "linear":
        return share
    if kind == "a step":
        return float(share >= 0.5)
    if kind == "day and night":
        return math.sin(2.0 * math.pi * (DAYS * share + phase))
    if kind == "cold start":
        return float(first)
    return walk
