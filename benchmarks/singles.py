"""Single tasks: whether moving what each shows toward what all show comes closer to the truth.

The generators are those of the intervals, benchmarks/generators.py, and some whose effects are
large. What is true of a task is
integrated over the quantiles of its noise. A row about tasks counts every task of every data set.
"""

from functools import lru_cache

import numpy as np

from benchmarks.counting import Cell
from benchmarks.generators import (
    PASSES,
    RUNAWAY_SD,
    VALUES,
    Passes,
    Suite,
    Values,
    sizes,
    suite,
)
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.kernel import normal_quantile
from twoarm.evidence.shrink import Shrunk
from twoarm.evidence.single_tasks import shrunk
from twoarm.runs.arrays import Flags, Floats
from twoarm.runs.metric import DURATION, SUCCESS

LEVEL = 0.95
NODES = 100
LARGE = {
    "P6 from 5 to 95% in every task": Passes(level=(-2.944, 0.0), effect=(5.889, 0.0)),
    "B50 breaks half of easy tasks": Passes(level=(5.0, 0.5), broken=0.50),
    "B100 breaks every easy task": Passes(level=(5.0, 0.5), broken=1.0),
}
# As single tasks; the rows of the intervals of these generators are under their own names.
SINGLE = {f"single tasks, {name}": name for name in (*VALUES, *PASSES, *LARGE)}


class Tally:
    """Errors and hits over all tasks of all data sets."""

    def __init__(self) -> None:
        self.errors = np.zeros(2)
        self.held = np.zeros(2, dtype=np.int64)
        self.clear = np.zeros(2, dtype=np.int64)
        self.equal = np.zeros(2, dtype=np.int64)

    def add(self, found: Shrunk, raw: Floats, true: Floats) -> None:
        self.errors += ((found.estimates - true) ** 2).sum(), ((raw - true) ** 2).sum()
        slack = 1e-9
        held = (found.low - slack <= true) & (true <= found.high + slack)
        clear = (found.low > 0.0) | (found.high < 0.0)
        wrong = clear & (np.sign(found.estimates) != np.sign(true))
        same: Flags = true == 0.0
        self.held += held.sum(), held.size
        self.clear += wrong.sum(), clear.sum()
        self.equal += (clear & same).sum(), same.sum()

    def cell(self) -> Cell:
        share = 100.0 * float(self.errors[0] / self.errors[1])
        cell: Cell = {
            "single tasks: squared error, share of the raw": [round(share, 1)],
            "single tasks: interval holds": [*self.held.tolist()],
        }
        if self.clear[1]:
            cell["single tasks: clear, but wrong"] = [*self.clear.tolist()]
        if self.equal[1]:
            cell["single tasks: equal, but clear"] = [*self.equal.tolist()]
        return cell


def singles_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    """How far off single tasks are, and how often their intervals hold."""
    own = SINGLE[name]
    draw = np.random.default_rng([83, list(SINGLE).index(name), tasks, repeats])
    tally = Tally()
    for _ in range(datasets):
        one_set = _values if own in VALUES else _passes
        runs, true = one_set(own, tasks, repeats, draw)
        found = shrunk(runs, LEVEL)
        if found is not None:
            tally.add(found, runs.deltas, true)
    return tally.cell()


def _passes(
    name: str, tasks: int, repeats: int, draw: np.random.Generator
) -> tuple[TaskRuns, Floats]:
    rates = (PASSES | LARGE)[name].rates(tasks, draw)
    passed = (draw.random((2, tasks, repeats)) < rates[:, :, None]).astype(np.float64)
    layout = Layout(tasks=np.arange(tasks), sizes=np.full((2, tasks), repeats))
    values = passed.transpose(1, 0, 2).ravel()
    return TaskRuns(metric=SUCCESS, logs=False, values=values, layout=layout), rates[0] - rates[1]


def _values(
    name: str, tasks: int, repeats: int, draw: np.random.Generator
) -> tuple[TaskRuns, Floats]:
    drawn = suite(VALUES[name], tasks, draw)
    counts = sizes(drawn, repeats, draw)
    layout = Layout(tasks=np.arange(tasks), sizes=counts)
    values = np.empty(layout.rows)
    mine = layout.cell % 2 == 0
    values[mine], values[~mine] = (
        drawn.runs(draw, arm, np.repeat(np.arange(tasks), counts[arm])) for arm in (0, 1)
    )
    runs = TaskRuns(metric=DURATION, logs=False, values=values, layout=layout)
    return runs.on_test_scale(), true_of(drawn)


def true_of(drawn: Suite) -> Floats:
    """The true difference of mean logarithms of each task."""
    ours, theirs = (_mean_log(drawn, arm) for arm in (0, 1))
    apart = ours - theirs
    # Nothing but rounding.
    apart[np.abs(apart) < 1e-12] = 0.0
    return apart


def _mean_log(drawn: Suite, arm: int) -> Floats:
    kind = drawn.kind
    level = drawn.level + (drawn.effect if arm == 0 else 0.0)
    shares, noise = _noise(kind, arm)
    spread = drawn.spread[:, None]
    mean = np.zeros(len(level))
    for (share, runaway), nodes in zip(shares, noise, strict=True):
        logs = level[:, None] + (nodes if runaway else spread * nodes)
        for fails, shift in ((False, 0.0), (True, 0.0 if kind.fails is None else kind.fails[3])):
            chance = drawn.rates[arm] if not fails else 1.0 - drawn.rates[arm]
            if chance.any():
                mean += share * chance * _capped(logs - shift, kind).mean(axis=1)
    return mean


@lru_cache
def _noise(kind: Values, arm: int) -> tuple[list[tuple[float, bool]], list[Floats]]:
    """The parts of a run's noise: their shares, whether they are runaway runs, and quantiles."""
    standard = normal_quantile((np.arange(NODES) + 0.5) / NODES)
    apart = kind.runaway[arm]
    modes = (-0.5 * kind.modes, 0.5 * kind.modes) if kind.modes else (0.0,)
    shares, nodes = [], []
    for mode in modes:
        shares.append(((1.0 - apart) / len(modes), False))
        nodes.append(kind.run_sd[arm] * standard + mode)
        if apart:
            shares.append((apart / len(modes), True))
            nodes.append(kind.runaway_shift + RUNAWAY_SD * standard + mode)
    return shares, nodes


def _capped(logs: Floats, kind: Values) -> Floats:
    if kind.cap is None:
        return logs
    capped: Floats = np.log(np.rint(np.minimum(np.exp(logs), kind.cap)).clip(1.0))
    return capped
