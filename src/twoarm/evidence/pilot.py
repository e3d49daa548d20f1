"""What the runs at hand say about those to come: how much runs and tasks vary.

Nothing here looks at the effect that the runs show: a plan made for the effect of its own pilot is
a plan for luck.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES
from twoarm.evidence.cells import MOST_ZEROS, TaskRuns
from twoarm.runs.arrays import Floats, Ints, mean, measured
from twoarm.runs.metric import COST, SUCCESS, Metric

# Fewer tasks say little about how much tasks differ, and nothing about how metrics go together.
FEW_TASKS = 10
UPPER_LIMIT = 0.80


class Pilot(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs at hand say about those to come, for the metrics that are tested together.

    `at` is the place of the planned one among them. A run variance is that of a candidate's run and
    a baseline's together, a task variance that of the true change between tasks; `seen` is that of
    the planned metric's task differences with the noise of their runs. `rates` are the success
    rates of the tasks, empty where success is not among the metrics.

    Where tasks come in families, what is said of tasks is said of families, and of the mean of
    their tasks: `tasks` is how many families there are, `each` how many tasks one has on average,
    and `shrunk` what is left of the variance of a run in the mean of a family. `family` is the
    place of the family of each task, None without families.
    """

    metrics: tuple[Metric, ...]
    at: int
    run_variance: Floats
    task_variance: Floats
    seen: float
    freedom: int
    correlation: Floats
    rates: Floats
    tasks: int
    repeats: int
    each: float = 1.0
    shrunk: float = 1.0
    family: Ints | None = None

    @property
    def metric(self) -> Metric:
        """The planned metric."""
        return self.metrics[self.at]

    def whole_tasks(self, families: int) -> int:
        """How many tasks so many families have."""
        return round(families * self.each)

    def families(self, families: int) -> int | None:
        """How many families to name beside their tasks; None where there are none."""
        return None if self.family is None else families

    def with_upper_limits(self) -> "Pilot":
        """The same with variances that the true ones exceed in one suite of five only."""
        from scipy import special

        runs, tasks = self.run_variance.copy(), self.task_variance.copy()
        noise = float(runs[self.at]) / self.repeats
        degrees = self.tasks - 1
        above = self.seen * degrees / float(special.chdtri(degrees, UPPER_LIMIT))
        tasks[self.at] = max(0.0, above - noise)
        runs[self.at] *= self.freedom / float(special.chdtri(self.freedom, UPPER_LIMIT))
        return msgspec.structs.replace(self, run_variance=runs, task_variance=tasks)


def pair_cost(comparison: Comparison) -> float | None:
    """What a run of each arm costs on average; None where an arm has no cost."""
    costs = [mean(measured(arm.values[COST.name])) for arm in comparison.screening.arms]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if len(known) == len(costs) else None


def lacking(runs: TaskRuns) -> str | None:
    """Why nothing can be planned from these runs of a metric; None if it can be."""
    label, shared = runs.metric.label, runs.shared
    sizes = runs.sizes[:, shared]
    if not shared.any():
        return f"no task has {label} in both arms"
    if not runs.logs and runs.metric is not SUCCESS:
        return (
            f"{label} is 0 in more than {MOST_ZEROS:.0%} of the runs, so there is no change in "
            "percent to plan for"
        )
    if len(runs.independent) == 1 and runs.layout.family is not None:
        return "one family says nothing about how much families differ; it takes 2, better 10"
    if int(shared.sum()) == 1:
        return "one task says nothing about how much tasks differ; it takes 2, better 10"
    if (sizes - 1).sum(axis=1).min() == 0:
        return (
            "one repeat of each task: the noise between repeats cannot be told from the "
            "difference between tasks; it takes 2, better 5"
        )
    if runs.metric is SUCCESS and not runs.spreads[:, shared].any():
        rates = runs.means[:, shared]
        if (rates == rates[0, 0]).all():
            done = "passed" if rates[0, 0] else "failed"
            return f"every run {done}, so nothing is known about how much success varies"
    if not runs.spreads[:, shared].any() and np.ptp(runs.independent) == 0.0:
        return f"{label} does not vary at all (replayed or cached runs?)"
    return None


def pilot_of(runs: Sequence[TaskRuns], metric: Metric) -> Pilot:
    """What the runs say about a metric that is not `lacking`."""
    by_name = {measure.metric.name: measure for measure in runs}
    together = [by_name[gate.metric.name] for gate in GATES]
    if metric not in [measure.metric for measure in together]:
        together = [by_name[metric.name]]
    # What never differs has no test, and takes nothing from the level of the others.
    together = [
        measure
        for measure in together
        if measure.metric is metric or np.nan_to_num(measure.deltas).any()
    ]
    at = [measure.metric for measure in together].index(metric)
    own = together[at]
    sizes, deltas = own.sizes[:, own.shared], own.independent
    family = _families(own)
    tasks = sizes.shape[1]
    passes = [measure for measure in together if measure.metric is SUCCESS]
    spread = [_variances(measure) for measure in together]
    return Pilot(
        metrics=tuple(measure.metric for measure in together),
        at=at,
        run_variance=np.array([runs for runs, _ in spread]),
        task_variance=np.array([tasks for _, tasks in spread]),
        seen=float(deltas.var(ddof=1)),
        freedom=int((sizes - 1).sum()),
        correlation=_correlation(together),
        rates=_rates(passes[0]) if passes else np.empty(0),
        tasks=len(deltas),
        repeats=max(1, round(2.0 * tasks / float((1.0 / sizes).sum()))),
        each=tasks / len(deltas),
        shrunk=_shrunk(family),
        family=_families(passes[0]) if passes else family,
    )


def _families(runs: TaskRuns) -> Ints | None:
    """The place of the family of each task that both arms have; None without families."""
    if runs.layout.family is None:
        return None
    _, place = np.unique(runs.layout.family[runs.shared], return_inverse=True)
    return place.ravel()


def _shrunk(family: Ints | None) -> float:
    """What is left of the variance of a run in the mean of the tasks of a family."""
    return 1.0 if family is None else float((1.0 / np.bincount(family)).mean())


def _variances(runs: TaskRuns) -> tuple[float, float]:
    """Between the runs of a task, and between the true changes of the tasks; or of families."""
    sizes, deltas = runs.sizes[:, runs.shared], runs.independent
    if len(deltas) < 2:
        return 0.0, 0.0
    freedom = np.maximum((sizes - 1).sum(axis=1), 1)
    within = runs.spreads[:, runs.shared].sum(axis=1) / freedom
    family = _families(runs)
    if family is None:
        each = (1.0 / sizes).mean(axis=1)
    else:
        count = np.bincount(family)
        each = ((1.0 / sizes) / count[family] ** 2).sum(axis=1) / len(count)
    noise = math.fsum(within * each)
    return math.fsum(within) * _shrunk(family), max(0.0, float(deltas.var(ddof=1)) - noise)


def _correlation(together: Sequence[TaskRuns]) -> Floats:
    """How the task differences of the metrics vary together; too few tasks cannot tell."""
    deltas = np.array([measure.family_deltas for measure in together])
    deltas = deltas[:, ~np.isnan(deltas).any(axis=0)]
    if len(together) == 1 or deltas.shape[1] < FEW_TASKS:
        return np.eye(len(together))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Floats = np.nan_to_num(np.corrcoef(deltas))
    np.fill_diagonal(correlation, 1.0)
    return correlation


def _rates(passes: TaskRuns) -> Floats:
    """The success rates of the tasks, pulled in to vary as tasks do and not as runs do."""
    sizes = passes.sizes[:, passes.shared]
    seen = passes.means[:, passes.shared].mean(axis=0)
    freedom = np.maximum((sizes - 1).sum(axis=1), 1)
    within = passes.spreads[:, passes.shared].sum(axis=1) / freedom
    noise = math.fsum(within * (1.0 / sizes).mean(axis=1)) / 4.0
    spread = float(seen.var(ddof=1)) if len(seen) > 1 else 0.0
    kept = math.sqrt(max(0.0, spread - noise) / spread) if spread > 0.0 else 0.0
    rates: Floats = seen.mean() + kept * (seen - seen.mean())
    return rates


def assumed_pilot(metric: Metric, spread: float, task_spread: float) -> Pilot:
    """No runs at all: standard deviations on logarithms, of a run and of the change in a task."""
    together = [gate.metric for gate in GATES]
    if metric not in together:
        together = [metric]
    return Pilot(
        metrics=tuple(together),
        at=together.index(metric),
        run_variance=np.full(len(together), 2.0 * spread**2),
        task_variance=np.full(len(together), task_spread**2),
        seen=task_spread**2,
        freedom=0,
        correlation=np.eye(len(together)),
        rates=np.empty(0),
        tasks=0,
        repeats=0,
    )
