"""Several candidates against one baseline: what looking at all of them leaves of each p-value.

One sign per task across all metrics and all candidates, step-down over all of them. A baseline
that all share makes this approximate; docs/statistics.md has how often any of three equal
candidates is called different.
"""

from collections.abc import Sequence

import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES
from twoarm.compare.families import Families
from twoarm.evidence.cells import family_means, lay_out, places, task_runs
from twoarm.evidence.relabel import signs_of_tasks
from twoarm.evidence.results import fewest_tasks
from twoarm.evidence.weigh import Allowance
from twoarm.options import Options
from twoarm.runs.arrays import Floats


def allowances(comparisons: Sequence[Comparison], options: Options) -> list[Allowance]:
    """What each candidate's tests have to allow for."""
    count = len(comparisons)
    metrics = [gate.metric for gate in GATES]
    rows: list[Floats] = []
    fewest = fewest_tasks(options.level)
    for comparison in comparisons:
        layout, at = lay_out(comparison)
        if layout.families < fewest:
            rows = []
            break
        # The tasks of a file have the same codes for every candidate.
        deltas = np.full((len(metrics), len(comparison.runs.tasks)), np.nan)
        for row, metric in zip(deltas, metrics, strict=True):
            runs = task_runs(metric, comparison, layout, at).on_test_scale()
            if len(runs.independent) >= fewest:
                row[layout.tasks] = runs.deltas
        rows.append(_by_family(deltas, comparison.families))
    # Too few tasks, a metric that comes first, or looks: each gets its share of the level.
    if not rows or options.primary is not None or _looked(comparisons, options):
        return [Allowance(candidates=count)] * count
    deltas = np.concatenate(rows)
    used = ~np.isnan(deltas).all(axis=0)
    relabelled = signs_of_tasks(deltas[:, used], options.seed)
    adjusted = relabelled.adjusted(range(len(deltas)))
    return [
        Allowance(
            candidates=count,
            adjusted={
                metric.name: adjusted[column]
                for column, metric in enumerate(metrics, number * len(metrics))
                if column in adjusted
            },
        )
        for number in range(count)
    ]


def _by_family(deltas: Floats, families: Families) -> Floats:
    """A column for each family in place of its tasks."""
    family = places(families, np.arange(deltas.shape[1]))
    return deltas if family is None else family_means(deltas, family)


def _looked(comparisons: Sequence[Comparison], options: Options) -> bool:
    declared = any(comparison.runs.planned_looks for comparison in comparisons)
    return options.looks is not None or (declared and not options.ignore_looks)
