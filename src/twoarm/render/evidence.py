"""The evidence in tables: one question at a time."""

from collections.abc import Iterator

from twoarm.compare.decide import GATES, number_of_gates
from twoarm.evidence.cells import BOUNDED, MOST_ZEROS
from twoarm.evidence.results import (
    ArmsPerSolved,
    DeltaEvidence,
    Estimate,
    Evidence,
    Interval,
    Scope,
)
from twoarm.render.failures import failure_tables
from twoarm.render.scores import score_tables
from twoarm.render.tables import (
    Cell,
    Column,
    Table,
    arm_columns,
    arms,
    chance,
    deltas,
    excluded,
    gates,
    number,
    of_rows,
    shortfalls,
    words,
)
from twoarm.render.tasks import single_tasks, tag_table, tasks
from twoarm.render.tools import tool_tables
from twoarm.render.uptake import uptake_tables
from twoarm.result.analysis import Analysis
from twoarm.result.findings import difference_range, ratio_range
from twoarm.runs.metric import COST, JUDGED, SCORE, Metric
from twoarm.text.escape import counted_tasks, tasks_or_families
from twoarm.text.number_format import NOT_MEASURED, at_level, change, figure, share

OTHER: dict[Scope, Scope] = {
    "these_tasks": "tasks_like_these",
    "tasks_like_these": "these_tasks",
}
_HEADINGS = {
    "these_tasks": "These tasks: would the same tasks show it again?",
    "tasks_like_these": "Tasks like these: would other tasks of this kind show it?",
}
_NO_RATIO = f"No ratio: more than {MOST_ZEROS:.0%} of the values are zero."


def report_tables(analysis: Analysis, most: int) -> Iterator[Table]:
    """Every table of the report in reading order, lists of names cut after this many rows."""
    yield gates(analysis)
    yield deltas(analysis)
    evidence = analysis.evidence
    if evidence is not None:
        for scope in (evidence.headline, OTHER[evidence.headline]):
            yield intervals(evidence, scope)
    if evidence is not None:
        yield from tag_table(evidence, most)
    yield tasks(analysis, most)
    if evidence is not None:
        yield from single_tasks(evidence, most)
        yield from score_tables(evidence, most)
        yield repeats(analysis, evidence)
    yield arms(analysis)
    yield from failure_tables(analysis.failures)
    yield from uptake_tables(analysis.uptake, most, "" if evidence is None else level(evidence))
    yield from tool_tables(analysis.tool_use, weighed=evidence is not None)
    yield from excluded(analysis, most)
    yield from shortfalls(analysis, most)


def level(evidence: Evidence) -> str:
    """What heads a column of intervals."""
    looks = evidence.looks
    promised = evidence.level if looks is None else looks.level
    percent = at_level(promised)
    return f"{percent} interval" if looks is None else f"{percent} over all looks"


def per_solved(evidence: Evidence) -> Iterator[tuple[str, str, ArmsPerSolved]]:
    """What a solved task takes: what that is called, its unit, and both arms."""
    yield COST.label, COST.unit, evidence.per_solved.cost_usd
    yield "minutes", "rate", evidence.per_solved.duration_minutes


_ALIKE = "Means weigh every family alike, and every task inside its family."


def _each_by_itself(evidence: Evidence) -> str:
    """What a p-value is for, and what changing the signs of whole tasks, or families, assumes."""
    symmetric = (
        f" and assumes that, without a difference, {tasks_or_families(evidence.families)} would "
        "vary alike both ways"
        if evidence.headline == "tasks_like_these"
        else ""
    )
    verdict = f"the verdict also allows for looking at {number_of_gates()}"
    return f"p is for each row alone{symmetric}; {verdict}."


def intervals(evidence: Evidence, scope: Scope) -> Table:
    """All that is known for one question: a row per gate, then one per metric."""
    rows: list[tuple[Cell, ...]] = []
    # What has to be said about an interval, and of which rows.
    notes: dict[str, list[str]] = {}
    for gate in GATES:
        difference = evidence.gates[gate.name].difference
        label = f"{gate.label}, difference"
        _note(notes, label, difference, scope)
        rows.append(
            (
                words(label),
                number(change(difference.estimate, gate.metric.unit), difference.estimate),
                _interval(getattr(difference, scope), gate.metric.unit),
                number("", None),
            )
        )
    for metric in (*JUDGED, SCORE) if SCORE.name in evidence.deltas else JUDGED:
        delta = evidence.deltas[metric.name]
        if delta.ratio is None and metric not in BOUNDED and delta.pairs:
            notes.setdefault(_NO_RATIO, []).append(metric.label)
        _note(notes, metric.label, delta.ratio or delta.mean, scope)
        rows.append(_metric_row(metric, delta, scope))
    for what, _, figures in per_solved(evidence):
        label = f"{what} per solved"
        _note(notes, label, figures.ratio, scope)
        rows.append(_ratio_row(f"{label}, ratio of totals", figures.ratio, scope, number("", None)))
    tested = any(row[-1].key is not None for row in rows)
    tasks = counted_tasks(evidence.tasks, evidence.families)
    count = f" ({tasks})" if scope == "tasks_like_these" else ""
    return Table(
        name=scope.replace("_", "-"),
        heading=_HEADINGS[scope] + count,
        columns=(
            Column("candidate vs. baseline", "text"),
            Column("estimate"),
            Column(level(evidence)),
            Column("p"),
        ),
        rows=tuple(rows),
        notes=(
            *((_each_by_itself(evidence),) if tested and scope == evidence.headline else ()),
            *((_ALIKE,) if evidence.families is not None else ()),
            *(of_rows(note, labels, len(rows)) for note, labels in notes.items()),
        ),
    )


def _metric_row(metric: Metric, delta: DeltaEvidence, scope: Scope) -> tuple[Cell, ...]:
    tested = chance(getattr(delta.p, scope))
    if delta.ratio is not None:
        return _ratio_row(f"{metric.label}, ratio per task", delta.ratio, scope, tested)
    return (
        words(f"{metric.label}, mean per task"),
        number(change(delta.mean.estimate, metric.unit), delta.mean.estimate),
        _interval(getattr(delta.mean, scope), metric.unit),
        tested,
    )


def _ratio_row(label: str, ratio: Estimate, scope: Scope, tested: Cell) -> tuple[Cell, ...]:
    estimate = None if ratio.estimate is None else ratio.estimate - 1.0
    interval: Interval | None = getattr(ratio, scope)
    return (
        words(label),
        number(share(estimate), estimate),
        number(ratio_range(interval), None if interval is None else interval.low - 1.0),
        tested,
    )


def _note(notes: dict[str, list[str]], label: str, estimate: Estimate, scope: Scope) -> None:
    interval: Interval | None = getattr(estimate, scope)
    reasons = estimate.reasons(scope) if interval is None else interval.caveats
    for note in reasons:
        notes.setdefault(note, []).append(label)


def _interval(interval: Interval | None, unit: str) -> Cell:
    return number(difference_range(interval, unit), _low(interval))


def repeats(analysis: Analysis, evidence: Evidence) -> Table:
    """What several attempts give, and what a solved task takes."""
    both = evidence.repeats
    rows: list[tuple[Cell, ...]] = []
    for ours, theirs in zip(*(arm.pass_rates for arm in both), strict=False):
        if ours.k == 1:
            continue
        for label, rates in (
            (f"pass@{ours.k}, any of {ours.k} succeeds", (ours.at_least_one, theirs.at_least_one)),
            (f"pass^{ours.k}, all {ours.k} succeed", (ours.all, theirs.all)),
        ):
            rows.append((words(label), *(number(f"{rate:.1%}", rate) for rate in rates)))
    for what, unit, figures in per_solved(evidence):
        arms = figures.candidate, figures.baseline
        ranges = [getattr(arm, evidence.headline) for arm in arms]
        rows += [
            (
                words(f"{what} per solved task"),
                *(number(figure(arm.estimate, unit), arm.estimate) for arm in arms),
            ),
            (
                words(f"  {level(evidence)}"),
                *(number(_range(interval, unit), _low(interval)) for interval in ranges),
            ),
        ]
    return Table(
        name="repeats",
        heading="Repeats",
        columns=(Column("", "text"), *arm_columns(analysis)),
        rows=tuple(rows),
    )


def _range(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return NOT_MEASURED
    return f"{figure(interval.low, unit)} to {figure(interval.high, unit)}"


def _low(interval: Interval | None) -> float | None:
    return None if interval is None else interval.low
