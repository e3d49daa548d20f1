"""What the next runs should be: the design that would show a change that matters."""

import math
from collections.abc import Sequence

from twoarm.evidence.cells import TaskRuns
from twoarm.evidence.pilot import lacking, pilot_of
from twoarm.evidence.power import Aim, Design, Outlook, UnitCosts
from twoarm.evidence.results import Grade, NextRuns
from twoarm.options import Options
from twoarm.runs.metric import BY_NAME, SUCCESS, Better, Metric

# How often the change is to be seen: four times out of five.
POWER = 0.8
# New tasks have to be written: repeats may take this many times as many runs.
_REPEATS_WORTH = 1.5


def next_runs(
    runs: Sequence[TaskRuns],
    grade: Grade,
    options: Options,
    alpha: float,
    usd: float | None,
) -> NextRuns | None:
    """The design to see a change as large as the margin, of the primary or the least clear metric.

    It is made to be sure, as `twoarm plan` recommends. `usd` is what a pair costs.
    """
    metric = _metric(runs, grade)
    if metric is None:
        return None
    size = options.margin_success if metric is SUCCESS else options.margin_ratio
    detect = size if metric.better is Better.HIGHER else -size
    aim = Aim(
        change=detect if metric is SUCCESS else math.log1p(detect),
        alpha=alpha,
        power=POWER,
        first=grade.primary is not None,
    )
    outlook = Outlook(pilot=pilot_of(runs, metric).with_upper_limits(), aim=aim)
    pilot = outlook.pilot
    design = _design(outlook)
    if design is None:
        return None
    pairs = pilot.whole_tasks(_pairs(outlook, design))
    return NextRuns(
        metric=metric.name,
        detect=detect,
        power=POWER,
        tasks=pilot.whole_tasks(design.tasks),
        families=pilot.families(design.tasks),
        repeats=design.repeats,
        more_tasks=pilot.whole_tasks(design.tasks - pilot.tasks),
        more_runs=2 * pairs,
        usd=None if usd is None else pairs * usd,
    )


def _metric(runs: Sequence[TaskRuns], grade: Grade) -> Metric | None:
    """The one that was named to be tested first; or the least clear that is not a share.

    What is clear for tasks like these needs no more runs.
    """
    plannable = {measure.metric.name for measure in runs if lacking(measure) is None}
    if grade.primary is not None:
        return BY_NAME[grade.primary] if grade.primary in plannable else None
    gates = [
        finding
        for finding in grade.findings
        if finding.metric in plannable
        and finding.metric != SUCCESS.name
        and (grade.scope == "these_tasks" or finding.standing not in ("better", "worse"))
    ]
    if not gates:
        return None
    least = max(
        gates, key=lambda finding: 1.0 if finding.adjusted_p is None else finding.adjusted_p
    )
    return BY_NAME[least.metric]


def _design(outlook: Outlook) -> Design | None:
    """More repeats of these tasks where that is nearly as good; otherwise what costs least."""
    have = outlook.pilot
    enough = have.tasks >= outlook.fewest_tasks
    if enough and float(outlook.power(have.tasks, have.repeats)) >= POWER:
        return None
    cheapest = outlook.cheapest(UnitCosts(pair=1.0, task=0.0))
    repeats = outlook.repeats_for(have.tasks) if enough else None
    if repeats is None:
        return cheapest
    more = Design(tasks=have.tasks, repeats=repeats)
    if cheapest is None or _pairs(outlook, more) <= _REPEATS_WORTH * _pairs(outlook, cheapest):
        return more
    return cheapest


def _pairs(outlook: Outlook, design: Design) -> int:
    return int(outlook.pairs_to_add(design.tasks, design.repeats))
