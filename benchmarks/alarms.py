"""How often tests of several metrics, candidates and gates cry wolf."""

from collections import defaultdict

import numpy as np

from benchmarks.counting import Cell, Count
from benchmarks.generators import logistic
from twoarm.compare.decide import MIXED, decide, figures, judge
from twoarm.compare.screen import Arms
from twoarm.evidence.relabel import signs_of_tasks
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS, SUCCESS


def joint_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    """Three metrics without a difference: how often any of them is called clear."""
    draw = np.random.default_rng([19, tasks, repeats])
    count = Count()
    for _ in range(datasets):
        common = draw.normal(size=(2, tasks, repeats))
        shared = draw.normal(size=tasks)
        deltas = []
        for _metric in range(2):
            logs = 0.35 * (0.8 * common + 0.6 * draw.normal(size=(2, tasks, repeats)))
            effect = 0.3 * (0.8 * shared + 0.6 * draw.normal(size=tasks))
            deltas.append((logs[0] - logs[1]).mean(axis=1) + effect)
        rate = logistic(draw.normal(1.0, 2.0, tasks))[:, None]
        passed = (draw.random((2, tasks, repeats)) < rate).mean(axis=2)
        deltas.append(passed[0] - passed[1])
        tests = signs_of_tasks(np.array(deltas), 1)
        alone = [p for column in range(3) if (p := tests.p(column)) is not None]
        count.test("false alarm: any of three, unadjusted", min(alone))
        count.test("false alarm: any of three, adjusted", min(tests.adjusted(range(3)).values()))
    return count.cell()


# Three candidates and a baseline, all the same: the chance of a runaway run, and of a task in
# which an arm is slower for no reason of its own.
CANDIDATES = {"C1 three equal candidates": (0.0, 0.0), "C2 the same, skewed": (0.08, 0.10)}


def candidates_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    """How often any of three candidates is called different from a baseline that equals them."""
    runaway, slow = CANDIDATES[name]
    draw = np.random.default_rng([47, len(name), tasks, repeats])
    count = Count()
    for _ in range(datasets):
        shape = (4, 1, tasks, repeats)
        noise = 0.4 * draw.normal(size=shape) + 0.2 * draw.normal(size=(4, 2, tasks, repeats))
        noise += 1.2 * (draw.random(shape) < runaway)
        effect = 0.17 * draw.normal(size=(4, 1, tasks)) + 0.11 * draw.normal(size=(4, 2, tasks))
        effect += 0.8 * (draw.random((4, 1, tasks)) < slow)
        rate = logistic(draw.normal(1.5, 1.5, tasks))[:, None]
        passed = (draw.random((4, tasks, repeats)) < rate).mean(axis=2)
        figures = np.concatenate((noise.mean(axis=3) + effect, passed[:, None]), axis=1)
        tests = signs_of_tasks((figures[1:] - figures[0]).reshape(9, tasks), 1)
        count.test("false alarm: any of nine, adjusted", min(tests.adjusted(range(9)).values()))
        apart = (tests.adjusted(range(first, first + 3)) for first in (0, 3, 6))
        alone = min(min(one.values()) for one in apart)
        count.test("false alarm: each candidate as if it were alone", alone)
    return count.cell()


# Success of both arms in every task: always, or differing by task.
GATE_SCENARIOS = {"G1 same arms, all succeed": None, "G2 same arms, some fail": (1.0, 2.0)}


def gates_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    """What the three gates decide when the two arms are the same."""
    draw = np.random.default_rng([29, len(name), tasks, repeats])
    levels = GATE_SCENARIOS[name]
    arms = Arms(candidate="candidate", baseline="baseline")
    seen: dict[str, int] = defaultdict(int)
    shape = (2, tasks, repeats)
    for _ in range(datasets):
        size = draw.normal(0.0, 0.8, tasks)[:, None]
        runaway = draw.random(shape) < 0.08
        common = np.where(runaway, draw.normal(0.9, 0.40, shape), draw.normal(0.0, 0.30, shape))
        durations = np.exp(size + common).reshape(2, -1)
        tokens = np.exp(size + 0.8 * common + 0.18 * draw.normal(size=shape)).reshape(2, -1)
        rate = 1.0 if levels is None else logistic(draw.normal(*levels, tasks))[:, None]
        passed = (draw.random(shape) < rate).reshape(2, -1)
        ours, theirs = (
            figures(
                {
                    SUCCESS.name: passed[arm].astype(np.float64),
                    DURATION.name: durations[arm],
                    NON_CACHE_TOKENS.name: tokens[arm],
                }
            )
            for arm in (0, 1)
        )
        seen[decide(judge(ours, theirs), arms)] += 1
    return {
        decision: [seen[decision], datasets]
        for decision in ("prefer candidate", "prefer baseline", MIXED)
    }
