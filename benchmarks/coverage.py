"""How often the intervals hold the truth, and how often the tests cry wolf, by simulation.

    make coverage                  about an hour; writes docs/coverage.json and docs/statistics.md
    make coverage DATASETS=50      a quick look
    make coverage KINDS=gates      only some: gates, means, duration, unequal, pass, holm

Every data set draws fresh tasks. log duration = task + arm * (effect + tau * u) + noise; the noise
is a mixture of two normals, the second being runaway runs. Each interval is held against the truth
it speaks of: that of the very tasks drawn (a), or of the population they come from (b). Seeds are
fixed: the same call gives the same table.
"""

import json
import math
import os
import sys
from collections import defaultdict
from functools import lru_cache
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twoarm.arrays import Floats
from twoarm.decide import MIXED, decide, figures, judge
from twoarm.evidence import means, medians, permute
from twoarm.evidence.cells import Grouped, Pairs
from twoarm.evidence.interval import FEWEST_TASKS, Frame, Interval
from twoarm.evidence.resample import MedianTable, resample_tasks
from twoarm.metric import DURATION, NON_CACHE_TOKENS, SUCCESS, Metric
from twoarm.screen import Arms

DOCS = Path(__file__).parent.parent / "docs"
START, END = "<!-- coverage -->", "<!-- /coverage -->"
RESAMPLES = 1_999
TASKS = (1, 2, 5, 6, 10, 20, 50)
REPEATS = (3, 5, 10)
# Noise drawn for the truth of a data set, per task and in all: its error is a fraction of a rank.
TRUTH_DRAWS_PER_TASK, TRUTH_DRAWS = 4_000, 60_000
NAIVE_DATASETS = 500


class Scenario(NamedTuple):
    task_sd: float
    effect: float
    tau: float
    runaway: tuple[float, float]
    runaway_shift: float
    jump: tuple[float, float] = (0.0, 0.0)


SCENARIOS = {
    "S1 null": Scenario(0.8, 0.0, 0.0, (0.08, 0.08), 0.9),
    "S2 realistic": Scenario(0.8, math.log(0.85), 0.30, (0.08, 0.08), 0.9),
    "S3 heavy": Scenario(1.2, math.log(0.85), 0.50, (0.15, 0.15), 1.2),
    "S4 lopsided": Scenario(0.8, math.log(0.85), 0.20, (0.12, 0.04), 0.9, (0.10, 1.15)),
    "S5 mixed effects": Scenario(0.8, 0.0, 0.30, (0.08, 0.08), 0.9),
}

# Unequal repeats, with the noise and the effects of another scenario.
UNEQUAL = {"U1 unequal repeats": "S2 realistic"}

# Logit of the mean pass rate, its sd over tasks, effect on the logit, sd of the effect.
PASS_SCENARIOS = {
    "P1 null": (1.0, 2.0, 0.0, 0.0),
    "P2 gain": (1.0, 2.0, 0.45, 1.0),
    "P3 ceiling": (6.0, 2.0, -0.9, 0.5),
    "P4 bimodal": (1.0, 5.0, 0.5, 2.0),
}


def noise(draw: np.random.Generator, shape: tuple[int, ...], share: float, shift: float) -> Floats:
    runaway = draw.random(shape) < share
    usual = draw.normal(0.0, 0.30, shape)
    return np.where(runaway, draw.normal(shift, 0.40, shape), usual)


def effects(draw: np.random.Generator, tasks: int, scenario: Scenario) -> Floats:
    found = scenario.effect + scenario.tau * draw.normal(size=tasks)
    jumps = draw.random(tasks) < scenario.jump[0]
    return np.where(jumps, found + scenario.jump[1], found)


def truth(level: Floats, effect: Floats, e1: Floats, e0: Floats) -> dict[str, float]:
    """What the intervals of these tasks should hold, from a large common sample of noise."""
    x1 = np.exp(level[:, None] + effect[:, None] + e1)
    x0 = np.exp(level[:, None] + e0)
    return {
        "median": float(np.median(x1 - x0)),
        "arm medians": float(np.median(x1) - np.median(x0)),
    }


@lru_cache
def population(name: str, scenario: Scenario) -> dict[str, float]:
    draw = np.random.default_rng([7, len(name)])
    tasks = 4_000_000
    level = draw.normal(5.0, scenario.task_sd, tasks)
    effect = effects(draw, tasks, scenario)
    e1 = noise(draw, (tasks,), scenario.runaway[0], scenario.runaway_shift)
    e0 = noise(draw, (tasks,), scenario.runaway[1], scenario.runaway_shift)
    x1, x0 = np.exp(level + effect + e1), np.exp(level + e0)
    return {
        "mean": float((x1 - x0).mean()),
        "ratio": float(np.exp((effect + e1 - e0).mean())),
        "median": float(np.median(x1 - x0)),
        "arm medians": float(np.median(x1) - np.median(x0)),
    }


def frame() -> Frame:
    return Frame(level=0.95, seed=1, resamples=RESAMPLES)


def grouped(values: Floats) -> Grouped:
    tasks, repeats = values.shape
    return Grouped(
        values=values.ravel(),
        tasks=np.arange(tasks),
        starts=repeats * np.arange(tasks + 1),
    )


def as_pairs(metric: Metric, x1: Floats, x0: Floats) -> Pairs:
    tasks, repeats = x1.shape
    return Pairs(
        metric=metric,
        tasks=np.arange(tasks),
        starts=repeats * np.arange(tasks + 1),
        ours=x1.ravel(),
        theirs=x0.ravel(),
        deltas=(x1 - x0).ravel(),
    )


class Count:
    """Hits and misses of intervals, and of tests."""

    def __init__(self) -> None:
        self.hits: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    def interval(self, name: str, found: Interval | None, true: float) -> None:
        if found is not None:
            self.pair(name, found.low, found.high, true)

    def pair(self, name: str, low: float, high: float, true: float) -> None:
        entry = self.hits[name]
        slack = 1e-9 * max(1.0, abs(true))
        entry[0] += int(low - slack <= true <= high + slack)
        entry[1] += 1

    def test(self, name: str, p: float | None) -> None:
        if p is not None:
            entry = self.hits[name]
            entry[0] += int(p <= 0.05)
            entry[1] += 1


def naive(deltas: Floats, draw: np.random.Generator, count: Count, true: dict[str, float]) -> None:
    """What most tools print: pairs taken as independent."""
    flat = deltas.ravel()
    drawn = flat[draw.integers(0, len(flat), (400, len(flat)))]
    low, high = np.quantile(drawn.mean(1), (0.025, 0.975))
    count.pair("naive: mean (b), percentile bootstrap over pairs", low, high, true["mean"])
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    count.pair("naive: median (b), percentile bootstrap over pairs", low, high, true["median"])


def growth(share: float, shift: float) -> float:
    """The mean of exp(noise)."""
    return (1.0 - share) * math.exp(0.30**2 / 2) + share * math.exp(shift + 0.40**2 / 2)


def means_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[int]]:
    """The closed forms: so cheap that many more data sets can be drawn, and the truth is exact."""
    scenario = SCENARIOS[name]
    draw = np.random.default_rng([23, len(name), tasks, repeats])
    everywhere = population(name, scenario)
    count, here = Count(), frame()
    share, shift = scenario.runaway, scenario.runaway_shift
    factor1, factor0 = growth(share[0], shift), growth(share[1], shift)
    shape = (tasks, repeats)
    for _number in range(5 * datasets):
        level = draw.normal(5.0, scenario.task_sd, tasks)
        effect = effects(draw, tasks, scenario)
        x1 = np.exp(level[:, None] + effect[:, None] + noise(draw, shape, share[0], shift))
        x0 = np.exp(level[:, None] + noise(draw, shape, share[1], shift))
        pairs = as_pairs(DURATION, x1, x0)
        mean, ratio = means.mean_estimate(pairs, here), means.ratio_estimate(pairs, here)
        assert ratio is not None
        true_mean = float((np.exp(level) * (np.exp(effect) * factor1 - factor0)).mean())
        true_ratio = float(np.exp((effect + (share[0] - share[1]) * shift).mean()))
        count.interval("mean (a)", mean.these_tasks, true_mean)
        count.interval("mean (b)", mean.tasks_like_these, everywhere["mean"])
        count.interval("ratio (a)", ratio.these_tasks, true_ratio)
        count.interval("ratio (b)", ratio.tasks_like_these, everywhere["ratio"])
        flat = (x1 - x0).ravel()
        half = 1.96 * flat.std(ddof=1) / math.sqrt(len(flat))
        low, high = flat.mean() - half, flat.mean() + half
        count.pair("naive: mean (b), CLT over pairs", low, high, everywhere["mean"])
    return dict(count.hits)


def duration_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[int]]:
    scenario = SCENARIOS[name]
    draw = np.random.default_rng([11, len(name), tasks, repeats])
    everywhere = population(name, scenario)
    count, here = Count(), frame()
    resamples = resample_tasks(tasks, 1, RESAMPLES) if tasks > 1 else None
    for number in range(datasets):
        level = draw.normal(5.0, scenario.task_sd, tasks)
        effect = effects(draw, tasks, scenario)
        wide = (tasks, min(TRUTH_DRAWS_PER_TASK, TRUTH_DRAWS // tasks))
        share, shift = scenario.runaway, scenario.runaway_shift
        true = truth(
            level, effect, noise(draw, wide, share[0], shift), noise(draw, wide, share[1], shift)
        )
        shape = (tasks, repeats)
        x1 = np.exp(level[:, None] + effect[:, None] + noise(draw, shape, share[0], shift))
        x0 = np.exp(level[:, None] + noise(draw, shape, share[1], shift))
        pairs = as_pairs(DURATION, x1, x0)
        deltas = pairs.grouped
        count.interval("median (a)", medians.these_tasks(deltas, here).interval, true["median"])
        like = medians.tasks_like_these(deltas, here)
        count.interval("median (b)", like.interval, everywhere["median"])
        ours, theirs = grouped(x1), grouped(x0)
        apart = medians.arms_apart(ours, theirs, here)
        count.interval("arm medians (a)", apart.interval, true["arm medians"])
        if resamples is not None and tasks >= FEWEST_TASKS:
            drawn = [
                MedianTable(side, resamples.unit, tasks).medians(resamples.weights)
                for side in (ours, theirs)
            ]
            moved = drawn[0] - drawn[1]
            low, high = resamples.percentiles(moved, 0.025)
            count.pair("arm medians (b)", low, high, everywhere["arm medians"])
        if number < NAIVE_DATASETS:
            naive(x1 - x0, draw, count, everywhere)
        if name in ("S1 null", "S5 mixed effects"):
            if name == "S1 null":
                count.test(
                    "false alarm: labels within tasks (a)", permute.labels_within_tasks(pairs, here)
                )
            count.test("false alarm: signs of tasks (b)", permute.signs_of_tasks(pairs, here))
    return dict(count.hits)


def unequal_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[int]]:
    """Each task with 1 to `repeats` pairs, as chance has it; noise and effects of S2."""
    scenario = SCENARIOS[UNEQUAL[name]]
    draw = np.random.default_rng([31, tasks, repeats])
    everywhere = population(UNEQUAL[name], scenario)
    count, here = Count(), frame()
    resamples = resample_tasks(tasks, 1, RESAMPLES) if tasks > 1 else None
    share, shift = scenario.runaway[0], scenario.runaway_shift
    drawn_for_truth = min(TRUTH_DRAWS_PER_TASK, TRUTH_DRAWS // tasks)
    # The closed forms are so cheap that they get more data sets, as in `means_cell`.
    for number in range(5 * datasets):
        sizes = draw.integers(1, repeats + 1, tasks)
        level = draw.normal(5.0, scenario.task_sd, tasks)
        effect = effects(draw, tasks, scenario)
        owner = np.repeat(np.arange(tasks), sizes)
        x1 = np.exp(level[owner] + effect[owner] + noise(draw, owner.shape, share, shift))
        x0 = np.exp(level[owner] + noise(draw, owner.shape, share, shift))
        starts = np.concatenate(([0], np.cumsum(sizes)))
        pairs = Pairs(
            metric=DURATION,
            tasks=np.arange(tasks),
            starts=starts,
            ours=x1,
            theirs=x0,
            deltas=x1 - x0,
        )
        mean, ratio = means.mean_estimate(pairs, here), means.ratio_estimate(pairs, here)
        assert ratio is not None
        # A task weighs as much as it has pairs.
        weights = sizes / sizes.sum()
        gain = np.exp(level) * growth(share, shift) * (np.exp(effect) - 1.0)
        count.interval("mean (a)", mean.these_tasks, float(weights @ gain))
        count.interval("mean (b)", mean.tasks_like_these, everywhere["mean"])
        count.interval("ratio (a)", ratio.these_tasks, float(np.exp(weights @ effect)))
        count.interval("ratio (b)", ratio.tasks_like_these, everywhere["ratio"])
        if number >= datasets:
            continue
        of = np.repeat(np.arange(tasks), sizes * max(1, drawn_for_truth // int(sizes.mean())))
        true = truth(
            level[of],
            effect[of],
            noise(draw, (len(of), 1), share, shift),
            noise(draw, (len(of), 1), share, shift),
        )
        like = medians.tasks_like_these(pairs.grouped, here)
        count.interval(
            "median (a)", medians.these_tasks(pairs.grouped, here).interval, true["median"]
        )
        count.interval("median (b)", like.interval, everywhere["median"])
        ours, theirs = (
            Grouped(values=side, tasks=np.arange(tasks), starts=starts) for side in (x1, x0)
        )
        apart = medians.arms_apart(ours, theirs, here)
        count.interval("arm medians (a)", apart.interval, true["arm medians"])
        if resamples is not None and tasks >= FEWEST_TASKS:
            drawn = [
                MedianTable(side, resamples.unit, tasks).medians(resamples.weights)
                for side in (ours, theirs)
            ]
            low, high = resamples.percentiles(drawn[0] - drawn[1], 0.025)
            count.pair("arm medians (b)", low, high, everywhere["arm medians"])
    return dict(count.hits)


def logistic(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-x))


@lru_cache
def pass_population(name: str) -> float:
    centre, sd, effect, tau = PASS_SCENARIOS[name]
    draw = np.random.default_rng([17, len(name)])
    base = draw.normal(centre, sd, 4_000_000)
    changed = base + effect + tau * draw.normal(size=len(base))
    return float((logistic(changed) - logistic(base)).mean())


def pass_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[int]]:
    centre, sd, effect, tau = PASS_SCENARIOS[name]
    draw = np.random.default_rng([13, len(name), tasks, repeats])
    everywhere = pass_population(name)
    count, here = Count(), frame()
    for number in range(datasets):
        level = draw.normal(centre, sd, tasks)
        p0 = logistic(level)
        p1 = logistic(level + effect + tau * draw.normal(size=tasks))
        s1, s0 = draw.binomial(repeats, p1), draw.binomial(repeats, p0)
        sizes = np.full(tasks, repeats)
        passes = means.Passes(
            successes=(s1.astype(np.float64), s0.astype(np.float64)), sizes=(sizes, sizes)
        )
        found = means.success_estimate(passes, float((s1 - s0).mean() / repeats), here)
        count.interval("success (a)", found.these_tasks, float((p1 - p0).mean()))
        count.interval("success (b)", found.tasks_like_these, everywhere)
        gap = (s1 - s0) / repeats
        if tasks > 1:
            half = 1.96 * gap.std(ddof=1) / math.sqrt(tasks)
            count.pair(
                "naive: success (b), CLT over tasks",
                gap.mean() - half,
                gap.mean() + half,
                everywhere,
            )
        if name == "P1 null" and tasks >= FEWEST_TASKS and number < 400:
            x1 = (np.arange(repeats) < s1[:, None]).astype(float)
            x0 = (np.arange(repeats) < s0[:, None]).astype(float)
            pairs = as_pairs(SUCCESS, x1, x0)
            count.test(
                "false alarm: success, signs of tasks (b)", permute.signs_of_tasks(pairs, here)
            )
    return dict(count.hits)


def holm_cell(_: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[int]]:
    """Any false alarm among five metrics that move together, none of them changed on average."""
    draw = np.random.default_rng([19, tasks, repeats])
    count, here = Count(), frame()
    for _number in range(datasets):
        ps: list[float | None] = []
        common = draw.normal(size=(2, tasks, repeats))
        shared = draw.normal(size=tasks)
        for _metric in range(4):
            own = draw.normal(size=(2, tasks, repeats))
            logs = 0.35 * (0.8 * common + 0.6 * own) + draw.normal(0, 0.8, tasks)[:, None]
            logs[0] += (0.3 * (0.8 * shared + 0.6 * draw.normal(size=tasks)))[:, None]
            ps.append(permute.signs_of_tasks(as_pairs(DURATION, *np.exp(logs)), here))
        rate = logistic(draw.normal(1.0, 2.0, tasks))[:, None]
        passed = (draw.random((2, tasks, repeats)) < rate).astype(float)
        ps.append(permute.signs_of_tasks(as_pairs(SUCCESS, passed[0], passed[1]), here))
        adjusted = [p for p in permute.holm(ps) if p is not None]
        if adjusted:
            count.test("false alarm: any of five, unadjusted", min(p for p in ps if p is not None))
            count.test("false alarm: any of five, Holm", min(adjusted))
    return dict(count.hits)


# Success of both arms in every task: always, or differing by task.
GATE_SCENARIOS = {"G1 same arms, all succeed": None, "G2 same arms, some fail": (1.0, 2.0)}


def gates_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[int]]:
    """What the three gates decide when the two arms are the same."""
    draw = np.random.default_rng([29, len(name), tasks, repeats])
    levels = GATE_SCENARIOS[name]
    arms = Arms(candidate="candidate", baseline="baseline")
    seen: dict[str, int] = defaultdict(int)
    shape = (2, tasks, repeats)
    for _number in range(2 * datasets):
        size = draw.normal(0.0, 0.8, tasks)[:, None]
        common = noise(draw, shape, 0.08, 0.9)
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
        decision: [seen[decision], 2 * datasets]
        for decision in ("prefer candidate", "prefer baseline", MIXED)
    }


KINDS = {
    "gates": gates_cell,
    "means": means_cell,
    "duration": duration_cell,
    "pass": pass_cell,
    "holm": holm_cell,
    "unequal": unequal_cell,
}


def work(job: tuple[str, str, int, int, int]) -> tuple[str, int, int, dict[str, list[int]]]:
    kind, name, tasks, repeats, datasets = job
    return name, tasks, repeats, KINDS[kind](name, tasks, repeats, datasets)


def main() -> int:
    datasets = int(os.environ.get("DATASETS") or 1_000)
    jobs = []
    for tasks in TASKS:
        for repeats in REPEATS:
            jobs += [("duration", name, tasks, repeats, datasets) for name in SCENARIOS]
            jobs += [("gates", name, tasks, repeats, datasets) for name in GATE_SCENARIOS]
            jobs += [("means", name, tasks, repeats, datasets) for name in SCENARIOS]
            jobs += [("pass", name, tasks, repeats, 2 * datasets) for name in PASS_SCENARIOS]
            jobs += [("unequal", name, tasks, repeats, datasets) for name in UNEQUAL]
            if tasks >= FEWEST_TASKS:
                jobs.append(("holm", "H five metrics", tasks, repeats, datasets))
    wanted = os.environ.get("KINDS")
    results: dict[str, dict[str, dict[str, list[int]]]] = {}
    if wanted:
        jobs = [job for job in jobs if job[0] in wanted.split(",")]
        results = json.loads((DOCS / "coverage.json").read_text(encoding="utf-8"))["cells"]
    with Pool(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for name, tasks, repeats, hits in pool.imap_unordered(work, jobs):
            results.setdefault(name, {}).setdefault(f"{tasks}x{repeats}", {}).update(hits)
            print(f"{name} {tasks}x{repeats}", file=sys.stderr, flush=True)
    DOCS.mkdir(exist_ok=True)
    ordered = {
        name: {
            cell: dict(sorted(hits.items()))
            for cell, hits in sorted(
                cells.items(), key=lambda cell: [int(n) for n in cell[0].split("x")]
            )
        }
        for name, cells in sorted(results.items())
    }
    (DOCS / "coverage.json").write_text(
        json.dumps({"datasets": datasets, "cells": ordered}, indent=1) + "\n", encoding="utf-8"
    )
    page = DOCS / "statistics.md"
    before, after = page.read_text(encoding="utf-8").split(START)[0], END
    after += page.read_text(encoding="utf-8").split(END)[1]
    page.write_text(f"{before}{START}\n\n{tables(ordered)}\n\n{after}", encoding="utf-8")
    return 0


def tables(results: dict[str, dict[str, dict[str, list[int]]]]) -> str:
    """Markdown: a table per scenario, percent for 3/5/10 repeats."""
    parts = []
    for name, cells in results.items():
        rows = sorted(
            {row for cell in cells.values() for row in cell},
            key=lambda r: (r.startswith("naive"), r),
        )
        lines = [f"**{name}**", "", "| | " + " | ".join(f"T={t}" for t in TASKS) + " |"]
        lines.append("| --- |" + " ---: |" * len(TASKS))
        for row in rows:
            shown = []
            for tasks in TASKS:
                values = []
                for repeats in REPEATS:
                    hits = cells.get(f"{tasks}x{repeats}", {}).get(row)
                    values.append(f"{100 * hits[0] / hits[1]:.1f}" if hits else "-")
                shown.append("-" if set(values) == {"-"} else " / ".join(values))
            lines.append(f"| {row} | " + " | ".join(shown) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
