"""Histories of twenty results: how often there is an alarm, with and without a change.

Tasks keep their level, their rate and their own effect; days shift both arms alike. An alarm is one
of `twoarm log show`: over the three gates' metrics together, after every result.
"""

from typing import Literal, NamedTuple

import numpy as np

from benchmarks.counting import Cell
from benchmarks.generators import logistic
from twoarm.compare.decide import GATES
from twoarm.history.alarms import shifts
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS, SUCCESS

RESULTS, STEP_AT = 20, 10
ALPHA = 0.05
TASK_SD, OWN_SD, DAY_SD, NOISE_SD = 0.8, 0.10, 0.20, 0.45
# How far off the place of a change may be found.
NEAR = 3

Noise = Literal["normal", "heavy tails", "outliers"]


class Remembered(NamedTuple):
    """What a history is made of: its noise, and what changes half-way."""

    noise: Noise = "normal"
    # The mean of the logits of success.
    passes: float = 1.5
    step: float = 0.0
    points: float = 0.0


HISTORIES = {
    "T1 no change": Remembered(),
    "T2 no change, heavy tails": Remembered("heavy tails"),
    "T3 no change, outliers": Remembered("outliers"),
    "T4 no change, nearly all pass": Remembered(passes=4.0),
    "T5 a step of 0.3 in the log ratio": Remembered(step=0.3),
    "T6 a step of 0.3, heavy tails": Remembered("heavy tails", step=0.3),
    "T7 a step of 20 points of success": Remembered(passes=0.5, points=-0.2),
}


def history_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    """How often there is an alarm at all, and how often one near the place of the change."""
    kind = HISTORIES[name]
    draw = np.random.default_rng([97, list(HISTORIES).index(name), tasks, repeats])
    moved = SUCCESS.name if kind.points else DURATION.name
    rows: Cell = {"alarm: any gate": [0, 0]}
    if kind.step or kind.points:
        rows |= {"found": [0, 0]}
    for _ in range(datasets):
        seen = {
            metric: shifts(effects, ALPHA / len(GATES))
            for metric, effects in results_of(kind, tasks, repeats, draw).items()
        }
        rows["alarm: any gate"][0] += any(seen.values())
        rows["alarm: any gate"][1] += 1
        if "found" in rows:
            places = [shift.since for shift in seen[moved]]
            rows["found"][0] += any(abs(place - STEP_AT) <= NEAR for place in places)
            rows["found"][1] += 1
    return rows


def results_of(
    kind: Remembered, tasks: int, repeats: int, draw: np.random.Generator
) -> dict[str, Floats]:
    """The effect of each result on each task, by metric: what `twoarm log add` keeps."""
    shape = (RESULTS, 2, tasks, repeats)
    after = np.arange(RESULTS)[:, None, None] >= STEP_AT
    own = draw.normal(0.0, OWN_SD, tasks)[None, :, None] + kind.step * after
    logs = draw.normal(5.0, TASK_SD, tasks)[None, None, :, None] + draw.normal(
        0.0, DAY_SD, (RESULTS, 1, 1, 1)
    )
    noise = _noise(kind.noise, shape, draw)
    duration = logs + noise
    tokens = logs + 0.8 * noise + 0.18 * draw.normal(size=shape)
    for metric in (duration, tokens):
        metric[:, 0] += own
    rates = logistic(draw.normal(kind.passes, 1.5, tasks))[None, None, :, None]
    rates = np.broadcast_to(rates, (RESULTS, 2, tasks, 1)).copy()
    rates[:, 0] = np.clip(rates[:, 0] + kind.points * after, 0.0, 1.0)
    passed = (draw.random(shape) < rates).astype(np.float64)
    values = {SUCCESS.name: passed, DURATION.name: duration, NON_CACHE_TOKENS.name: tokens}
    return {
        name: made[:, 0].mean(axis=-1) - made[:, 1].mean(axis=-1) for name, made in values.items()
    }


def _noise(kind: Noise, shape: tuple[int, ...], draw: np.random.Generator) -> Floats:
    if kind == "heavy tails":
        heavy: Floats = NOISE_SD * draw.standard_t(3, shape) / np.sqrt(3.0)
        return heavy
    noise: Floats = draw.normal(0.0, NOISE_SD, shape)
    if kind == "outliers":
        noise += (draw.random(shape) < 0.03) * draw.normal(2.0, 0.3, shape)
    return noise
