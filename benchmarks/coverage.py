"""How often the intervals hold the truth, who is promoted, and how often the tests cry wolf.

    make coverage                  two hours on one core; writes docs/coverage.json and the tables
    make coverage-page             the tables alone, from docs/coverage.json
    make coverage DATASETS=50      a quick look
    make coverage KINDS=promotion  only some: values, success, per solved, scores, promotion,
                                   verdicts, joint, arms drift, history, where used, families,
                                   tags, single tasks, gates, plan, plan success, plan small,
                                   plan pilots, looks again, calibrate (docs/plan.md)
    make coverage NAMES=V1,V10     only the generators with these codes

Every data set draws fresh tasks. Each interval is held against the truth it speaks of: that of the
very tasks drawn (a), or of the population they come from (b). `width` is how much wider an interval
is than the same one scaled to hold the truth 95 % of the time; `shortest` is half the length that
no method can go below (benchmarks/shortest.py). Seeds are fixed: the same call gives the same
table.
"""

import json
import math
import os
import sys
from collections.abc import Callable
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from benchmarks import first_edition
from benchmarks.alarms import CANDIDATES, GATE_SCENARIOS, candidates_cell, gates_cell, joint_cell
from benchmarks.counting import Cell, Count
from benchmarks.drift import DRIFTING, drift_cell
from benchmarks.families import FAMILIES, families_cell
from benchmarks.generators import (
    PASSES,
    VALUES,
    Truth,
    pass_population,
    population,
    sizes,
    suite,
    truth,
)
from benchmarks.history import HISTORIES, history_cell
from benchmarks.looking import (
    LOOKED,
    LOOKED_AGAIN,
    LOOKED_HERE,
    R_MAX,
    again_cell,
    looks_cell,
)
from benchmarks.per_solved import SOLVED, per_solved_cell
from benchmarks.planning import (
    CALIBRATED,
    PILOTS,
    PLANNED,
    PLANNED_SUCCESS,
    SMALL_PILOTS,
    calibrate_cell,
    pilot_cell,
    plan_cell,
    small_pilot_cell,
)
from benchmarks.scores import SCORES, scores_cell
from benchmarks.shortest import shortest
from benchmarks.singles import SINGLE, singles_cell
from benchmarks.tags import TAGGED, tags_cell
from benchmarks.used import USING, used_cell
from benchmarks.verdicts import GUARDED, PROMOTIONS, promotion_cell, runs_of, verdicts_cell
from twoarm.evidence import means
from twoarm.evidence.arm_medians import arm_medians
from twoarm.evidence.cells import Grouped, Layout, TaskRuns
from twoarm.evidence.deltas import weigh_deltas
from twoarm.evidence.interval import Frame
from twoarm.evidence.relabel import labels_within_tasks, signs_of_tasks
from twoarm.evidence.results import FEWEST_TASKS, Interval, P
from twoarm.runs.arrays import Floats, Ints
from twoarm.runs.metric import DURATION, SUCCESS

DOCS = Path(__file__).parent.parent / "docs"
KEPT = DOCS / "coverage.json"
PAGES = ("statistics.md", "coverage.md", "plan.md")
START, END = "<!-- coverage -->", "<!-- /coverage -->"
Cells = dict[str, dict[str, Cell]]
INTERVALS = (
    "ratio",
    "median",
    "arm medians",
    "success",
    "mean",
    "per solved, candidate",
    "per solved, baseline",
    "per solved, ratio",
    "score",
)
RESAMPLES = 999
NAIVE_DATASETS = 300
SHORTEST_DATASETS = 400
FRAME = Frame(level=0.95, tests=0.95, seed=1, resamples=RESAMPLES)
NO_TEST = P(these_tasks=None, tasks_like_these=None, adjusted=None)


def grouped(values: Floats, counts: Ints) -> Grouped:
    return Grouped(
        values=values,
        tasks=np.arange(len(counts)),
        starts=np.concatenate(([0], np.cumsum(counts))),
    )


def task_runs(ours: Floats, theirs: Floats, counts: Ints) -> TaskRuns:
    """Both arms in one layout, the candidate's runs of a task first."""
    layout = Layout(tasks=np.arange(counts.shape[1]), sizes=counts)
    values = np.empty(layout.rows)
    mine = layout.cell % 2 == 0
    values[mine], values[~mine] = ours, theirs
    return TaskRuns(metric=DURATION, logs=False, values=values, layout=layout)


def paired(ours: Floats, theirs: Floats, counts: Ints) -> Grouped:
    """The deltas of the runs with a partner: as many of each task as the arm with fewer has."""
    both = counts.min(axis=0)
    sides = []
    for side, arm in ((ours, 0), (theirs, 1)):
        starts = np.concatenate(([0], np.cumsum(counts[arm])[:-1]))
        rank = np.arange(len(side)) - np.repeat(starts, counts[arm])
        sides.append(side[rank < np.repeat(both, counts[arm])])
    return Grouped(
        values=sides[0] - sides[1],
        tasks=np.arange(len(both)),
        starts=np.concatenate(([0], np.cumsum(both))),
    )


def naive(pairs: Grouped, draw: np.random.Generator, count: Count, everywhere: Truth) -> None:
    """What most tools print: pairs taken as independent."""
    flat = pairs.values
    half = 1.96 * flat.std(ddof=1) / math.sqrt(len(flat))
    count.pair(
        "naive: mean (b), CLT over pairs", flat.mean() - half, flat.mean() + half, everywhere.mean
    )
    drawn = flat[draw.integers(0, len(flat), (400, len(flat)))]
    low, high = np.quantile(drawn.mean(1), (0.025, 0.975))
    count.pair("naive: mean (b), percentile bootstrap over pairs", low, high, everywhere.mean)
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    count.pair("naive: median (b), percentile bootstrap over pairs", low, high, everywhere.median)


def values_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    kind = VALUES[name]
    draw = np.random.default_rng([11, len(name), tasks, repeats])
    everywhere = population(name)
    count = Count()
    for number in range(datasets):
        found = suite(kind, tasks, draw)
        counts = sizes(found, repeats, draw)
        ours, theirs = (
            found.runs(draw, arm, np.repeat(np.arange(tasks), counts[arm])) for arm in (0, 1)
        )
        here = truth(found, counts, draw)
        raw, pairs = task_runs(ours, theirs, counts), paired(ours, theirs, counts)
        runs = raw.on_test_scale()
        delta = weigh_deltas(runs, raw, pairs, NO_TEST, FRAME, None)
        assert delta.ratio is not None
        logs = {
            scope: Interval(low=math.log(one.low), high=math.log(one.high), method="", caveats=())
            if (one := getattr(delta.ratio, scope))
            else None
            for scope in ("these_tasks", "tasks_like_these")
        }
        count.interval("ratio (a)", logs["these_tasks"], math.log(here.ratio))
        count.interval("ratio (b)", logs["tasks_like_these"], math.log(everywhere.ratio))
        count.interval("mean (a)", delta.mean.these_tasks, here.mean)
        count.interval("mean (b)", delta.mean.tasks_like_these, everywhere.mean)
        count.interval("median (a)", delta.median.these_tasks, here.median)
        count.interval("median (b)", delta.median.tasks_like_these, everywhere.median)
        count.interval("bootstrap of the mean (b)", delta.bootstrap.mean_interval, everywhere.mean)
        _arm_medians(count, ours, theirs, counts, here, everywhere)
        if tasks > 1 and kind.sizes != "equal":
            ratios = paired(np.log(ours), np.log(theirs), counts)
            totals = np.add.reduceat(ratios.values, ratios.starts[:-1])
            low, high = first_edition.ratio_over_tasks(totals, pairs.sizes)
            count.pair("first edition: ratio (b)", low, high, math.log(everywhere.ratio))
        if number < NAIVE_DATASETS and tasks * repeats > 1:
            naive(pairs, draw, count, everywhere)
        _false_alarms(name, runs, count)
    return count.cell()


def _arm_medians(
    count: Count, ours: Floats, theirs: Floats, counts: Ints, here: Truth, everywhere: Truth
) -> None:
    sides = [grouped(values, counts[arm]) for arm, values in enumerate((ours, theirs))]
    found = arm_medians(sides[0], sides[1], FRAME)
    count.interval("arm medians (a)", found.these_tasks, here.arm_medians)
    count.interval("arm medians (b)", found.tasks_like_these, everywhere.arm_medians)


def _false_alarms(name: str, runs: TaskRuns, count: Count) -> None:
    tasks = len(runs.deltas)
    if name == "S1 null":
        count.test("false alarm: labels within tasks (a)", labels_within_tasks([runs], 1).p(0))
    if name in ("S1 null", "S5 mixed effects", "S6 skewed effects") and tasks >= FEWEST_TASKS:
        count.test("false alarm: signs of tasks (b)", signs_of_tasks(runs.deltas[None], 1).p(0))


def success_cell(name: str, tasks: int, repeats: int, datasets: int) -> Cell:
    draw = np.random.default_rng([13, len(name), tasks, repeats])
    aside = np.random.default_rng([19, len(name), tasks, repeats])
    everywhere = pass_population(name)
    count, least = Count(), []
    for number in range(datasets):
        rates = PASSES[name].rates(tasks, draw)
        passed = (draw.random((2, tasks, repeats)) < rates[:, :, None]).astype(np.float64)
        runs = runs_of({SUCCESS.name: passed}, (SUCCESS,))[0]
        found = means.bounded_estimate(runs, FRAME)
        count.interval("success (a)", found.these_tasks, float((rates[0] - rates[1]).mean()))
        count.interval("success (b)", found.tasks_like_these, everywhere)
        if number < SHORTEST_DATASETS and found.these_tasks is not None:
            half = (found.these_tasks.high - found.these_tasks.low) / 2.0
            least.append(shortest(rates, repeats, half, aside))
        if tasks > 1:
            low, high = first_edition.success_over_tasks(runs.deltas, repeats)
            count.pair("first edition: success (b)", low, high, everywhere)
            half = 1.96 * runs.deltas.std(ddof=1) / math.sqrt(tasks)
            middle = float(runs.deltas.mean())
            count.pair(
                "naive: success (b), CLT over tasks", middle - half, middle + half, everywhere
            )
    return {
        **count.cell_in_points(),
        "shortest success (a)": [round(100.0 * float(np.mean(least)), 2)],
    }


Design = tuple[int, int]
DESIGNS = ((2, 5), (5, 5), (6, 5), (8, 5), (12, 5), (12, 10), (25, 5), (60, 5))


class Kind:
    """A simulation: its function, its generators, the designs it is run on, and its page."""

    def __init__(
        self,
        run: Callable[[str, int, int, int], Cell],
        names: tuple[str, ...],
        where: tuple[Design, ...],
        page: str = "coverage.md",
    ) -> None:
        self.run, self.names, self.where, self.page = run, names, where, page


KINDS = {
    "values": Kind(values_cell, tuple(VALUES), ((1, 30), *DESIGNS)),
    "success": Kind(success_cell, tuple(PASSES), (*DESIGNS, (25, 10), (60, 10))),
    "per solved": Kind(
        per_solved_cell,
        tuple(SOLVED),
        (
            *((3, 10), (5, 5), (6, 5)),
            *((tasks, repeats) for tasks in (8, 12, 25, 60) for repeats in (3, 5, 10)),
        ),
    ),
    "scores": Kind(scores_cell, tuple(SCORES), ((6, 5), (8, 3), (8, 5), (12, 5), (25, 5), (60, 5))),
    "promotion": Kind(
        promotion_cell,
        tuple(PROMOTIONS),
        ((5, 10), (6, 10), (8, 10), (12, 5), (12, 10), (25, 5), (25, 10), (60, 5), (60, 10)),
    ),
    "verdicts": Kind(verdicts_cell, tuple(GUARDED), ((12, 10), (25, 5), (25, 10), (60, 5))),
    "looks": Kind(looks_cell, tuple(LOOKED), tuple((tasks, R_MAX) for tasks in (6, 8, 12, 25, 60))),
    "looks here": Kind(looks_cell, tuple(LOOKED_HERE), ((3, R_MAX), (5, R_MAX))),
    "candidates": Kind(candidates_cell, tuple(CANDIDATES), DESIGNS[2:]),
    "joint": Kind(joint_cell, ("H three metrics",), DESIGNS[2:]),
    "arms drift": Kind(drift_cell, tuple(DRIFTING), ((5, 6), (12, 5))),
    "history": Kind(history_cell, tuple(HISTORIES), ((6, 5), (12, 5), (25, 5), (60, 3))),
    "where used": Kind(used_cell, tuple(USING), ((12, 5), (25, 5), (25, 10), (60, 5))),
    "tags": Kind(tags_cell, tuple(TAGGED), ((12, 5), (25, 5), (60, 5))),
    "single tasks": Kind(singles_cell, tuple(SINGLE), ((6, 5), (12, 5), (25, 5), (60, 5))),
    "families": Kind(
        families_cell, tuple(FAMILIES), tuple((families, 5) for families in (6, 12, 20))
    ),
    "gates": Kind(gates_cell, tuple(GATE_SCENARIOS), ((1, 10), *DESIGNS)),
    "plan": Kind(
        plan_cell,
        tuple(PLANNED),
        tuple((tasks, repeats) for tasks in (10, 12, 16, 25, 40, 60) for repeats in (5, 10)),
        "plan.md",
    ),
    "plan success": Kind(
        plan_cell,
        tuple(PLANNED_SUCCESS),
        ((8, 10), (12, 5), (12, 10), (25, 5), (25, 10), (60, 10)),
        "plan.md",
    ),
    "plan small": Kind(
        small_pilot_cell, tuple(SMALL_PILOTS), ((6, 5), (6, 10), (8, 5), (8, 10)), "plan.md"
    ),
    "plan pilots": Kind(pilot_cell, tuple(PILOTS), ((12, 5), (25, 5)), "plan.md"),
    "looks again": Kind(again_cell, tuple(LOOKED_AGAIN), ((12, 5), (25, 5)), "plan.md"),
    "calibrate": Kind(calibrate_cell, tuple(CALIBRATED), ((12, 10), (25, 10)), "plan.md"),
}


def code_of(name: str) -> str:
    """What a generator is called in the documents; single tasks are those of other generators."""
    return name.removeprefix("single tasks, ").split()[0]


def work(job: tuple[str, str, int, int, int]) -> tuple[str, str, Cell]:
    kind, name, tasks, repeats, datasets = job
    return name, f"{tasks}x{repeats}", KINDS[kind].run(name, tasks, repeats, datasets)


def main() -> int:
    if sys.argv[1:] != ["page"]:
        simulate()
    kept: Cells = json.loads(KEPT.read_text(encoding="utf-8"))["cells"]
    for name in PAGES:
        page = DOCS / name
        page.write_text(with_tables(page.read_text(encoding="utf-8"), name, kept), encoding="utf-8")
    return 0


def simulate() -> None:
    """Draws every cell that was asked for and keeps it; the others stay as they are."""
    datasets = int(os.environ.get("DATASETS") or 2_000)
    wanted = (os.environ.get("KINDS") or ",".join(KINDS)).split(",")
    words = list(filter(None, os.environ.get("NAMES", "").split(",")))
    jobs = [
        (kind, name, tasks, repeats, datasets)
        for kind in wanted
        for tasks, repeats in KINDS[kind].where
        for name in KINDS[kind].names
        if not words or code_of(name) in words
    ]
    results: Cells = {}
    if words or set(wanted) != set(KINDS):
        results = json.loads(KEPT.read_text(encoding="utf-8"))["cells"]
    with Pool(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for name, design, cell in pool.imap_unordered(work, jobs):
            results.setdefault(name, {})[design] = cell
            print(f"{name} {design}", file=sys.stderr, flush=True)
    ordered = {
        name: dict(sorted(results[name].items(), key=lambda entry: _design(entry[0])))
        for kind in KINDS.values()
        for name in kind.names
        if name in results
    }
    KEPT.write_text(
        json.dumps({"datasets": datasets, "cells": ordered}, indent=1) + "\n", encoding="utf-8"
    )


def with_tables(text: str, page: str, results: Cells) -> str:
    """The text of a page, with what the results give between its marks."""
    shown = summary(results) if page == "statistics.md" else tables(on_page(results, page))
    return f"{text.split(START)[0]}{START}\n\n{shown}\n\n{END}{text.split(END)[1]}"


def on_page(results: Cells, page: str) -> Cells:
    """The results whose tables stand on a page."""
    names = {name for kind in KINDS.values() if kind.page == page for name in kind.names}
    return {name: cells for name, cells in results.items() if name in names}


def summary(results: Cells) -> str:
    """The lowest and the highest share of each interval, over all generators from six tasks on."""
    lines = ["| interval | (a) these tasks | (b) tasks like these |", "| --- | ---: | ---: |"]
    for interval in INTERVALS:
        ranges = []
        for scope in ("(a)", "(b)"):
            shares = [
                100 * cell[row][0] / cell[row][1]
                for cells in results.values()
                for design, cell in cells.items()
                if _design(design)[0] >= FEWEST_TASKS and (row := f"{interval} {scope}") in cell
            ]
            ranges.append(f"{min(shares):.1f} to {max(shares):.1f}%")
        lines.append(f"| {interval} | {' | '.join(ranges)} |")
    return "\n".join(lines)


def _design(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x"))


def tables(results: Cells) -> str:
    """Markdown: a table per generator, a column per design, in percent, and the width."""
    parts = []
    for name, cells in results.items():
        rows = sorted(
            {row for cell in cells.values() for row in cell},
            key=lambda row: (row.startswith("naive"), row.startswith("first"), row),
        )
        lines = [f"**{name}**", "", "| | " + " | ".join(cells) + " |"]
        lines.append("| --- |" + " ---: |" * len(cells))
        for row in rows:
            shown = [_shown(cell.get(row)) for cell in cells.values()]
            lines.append(f"| {row} | " + " | ".join(shown) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _shown(entry: list[float] | None) -> str:
    if entry is None:
        return "-"
    if len(entry) == 1:
        return f"{entry[0]:.1f}"
    percent = f"{100 * entry[0] / entry[1]:.1f}"
    width = f" / {entry[2]:.2f}" if len(entry) > 2 else ""
    points = f" / {entry[3]:.1f}" if len(entry) > 3 else ""
    return f"{percent}{width}{points}"


if __name__ == "__main__":
    sys.exit(main())
