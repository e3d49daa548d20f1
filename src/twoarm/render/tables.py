"""The tables of a report as data: each format only has to lay them out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from twoarm.compare.chosen import ChosenTasks
from twoarm.compare.decide import Gate
from twoarm.compare.tasks import families_of
from twoarm.compare.trials import Trials, lost_runs, stopped_early
from twoarm.evidence.results import Evidence, Interval
from twoarm.result.analysis import Analysis
from twoarm.result.stopping import stopped_said
from twoarm.runs.metric import COST, LABELS, METRICS, SUCCESS
from twoarm.runs.record import NOT_YET_RUN, OVER_BUDGET
from twoarm.text.escape import counted, counted_tasks, series
from twoarm.text.number_format import NOT_MEASURED, change, figure, share
from twoarm.text.sentence import Name, Sentence

# What a cell says besides its text: good or bad news, for formats that have color.
Role = Literal["good", "bad"]
ROLES: dict[str | None, Role] = {"better": "good", "worse": "bad"}

_ARM_FIGURES = (
    ("runs", "count", "runs", None),
    ("successes", "count", "successes", None),
    ("success rate", SUCCESS.unit, "success_rate", None),
    ("total cost", COST.unit, "total_cost_usd", COST),
    ("average cost", COST.unit, "avg_cost_usd", COST),
    *(
        (f"median {metric.label}", metric.unit, metric.median, metric)
        for metric in METRICS
        if metric.median is not None
    ),
    ("solved per dollar", "rate", "solved_per_dollar", None),
)

# The kinds of excluded runs that are not about a plan, what one is called, and where it is.
_LEFT_OUT = (
    ("duplicate", "duplicate", ""),
    ("other arm", "run", " in other arms"),
    ("other part", "run", " in other parts"),
    ("other task", "run", " of other tasks"),
)
_ROWS_NAMED = 3
# How a reason for a missing run may begin, in the words of the record.
_WHY_MISSING = ("lost", "interrupted", NOT_YET_RUN, OVER_BUDGET)


class Cell(msgspec.Struct, frozen=True):
    """What is shown, what it is sorted by, and whether it is good or bad news."""

    text: str | Name | Sentence
    key: float | str | None = None
    role: Role | None = None


class Column(msgspec.Struct, frozen=True):
    """A head, and whether the column holds text or numbers; `brief` ones fit a terminal."""

    head: str | Name
    kind: Literal["text", "number"] = "number"
    brief: bool = True


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, the columns, the rows, and what has to be said about them."""

    name: str
    heading: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def words(text: str | Name | Sentence) -> Cell:
    """A cell of text."""
    return Cell(text, text)


def number(text: str, value: float | None, role: Role | None = None) -> Cell:
    """A cell that is sorted as a number."""
    return Cell(text, value, role)


def chance(p: float | None) -> Cell:
    """A cell with a p-value."""
    return number(NOT_MEASURED if p is None else "<0.001" if p < 0.001 else f"{p:.3f}", p)


def arm_columns(analysis: Analysis) -> tuple[Column, Column]:
    """A column for each arm, headed by its name."""
    return Column(Name(analysis.candidate)), Column(Name(analysis.baseline))


def more(count: int, listed: int) -> tuple[str, ...]:
    """What a table that shows only this many rows says of the others."""
    return (f"and {count - listed:,} more in analysis.json (--out)",) if count > listed else ()


def of_rows(note: str, labels: list[str], rows: int) -> str:
    """A note that names the rows it is about, unless it is about all."""
    if len(labels) == rows:
        return note
    rest = len(labels) - _ROWS_NAMED
    listed = "; ".join(labels[:_ROWS_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return f"{note.removesuffix('.')} ({listed})."


def gates(analysis: Analysis) -> Table:
    """The gates side by side."""
    rows = []
    for gate in analysis.gates:
        unit = gate.rule.metric.unit
        moved, difference = None, NOT_MEASURED
        if gate.candidate is not None and gate.baseline is not None:
            moved = gate.candidate - gate.baseline
            difference = change(moved, unit)
            if unit != SUCCESS.unit and gate.baseline:
                difference += f" ({share(moved / gate.baseline)})"
        rows.append(
            (
                words(gate.rule.label),
                number(figure(gate.candidate, unit), gate.candidate),
                number(figure(gate.baseline, unit), gate.baseline),
                number(difference, moved),
                _standing(analysis, gate),
                _gate_held(gate),
            )
        )
    return Table(
        name="gates-table",
        heading="Gates",
        columns=(
            Column("", "text"),
            *arm_columns(analysis),
            Column("difference"),
            Column("standing", "text", brief=False),
            Column("gate", "text"),
        ),
        rows=tuple(rows),
        notes=("Percentages are of the baseline's figure.",),
    )


def _standing(analysis: Analysis, gate: Gate) -> Cell:
    """Better or worse where nothing of the evidence doubts it; otherwise which way it moved."""
    evidence = analysis.evidence
    if evidence is None:
        return Cell(gate.direction, gate.standing)
    if gate.standing in ("better", "worse") and not _is_clear(evidence, gate):
        return Cell(f"{gate.direction}, not clear", gate.standing)
    return Cell(gate.standing or NOT_MEASURED, gate.standing, ROLES.get(gate.standing))


def _is_clear(evidence: Evidence, gate: Gate) -> bool:
    """Whether the verdict on its metric and the interval of its difference say what it says."""
    interval: Interval | None = getattr(evidence.gates[gate.name].difference, evidence.headline)
    if interval is not None and interval.low <= 0.0 <= interval.high:
        return False
    metric = gate.rule.metric.name
    standings = {finding.metric: finding.standing for finding in evidence.grade.findings}
    return standings[metric] == gate.standing


def _gate_held(gate: Gate) -> Cell:
    if gate.holds is None:
        return words("not judged")
    return Cell("holds", "holds", "good") if gate.holds else Cell("fails", "fails", "bad")


def deltas(analysis: Analysis) -> Table:
    """Mean and median of every delta."""
    paired = analysis.paired
    rows = []
    for metric in METRICS:
        pairs = paired.pairs_with[metric.name]
        middle = [getattr(paired, f"{kind}_{metric.delta}") for kind in ("mean", "median")]
        rows.append(
            (
                words(metric.label),
                number(f"{pairs:,}", pairs),
                *(number(change(value, metric.unit), value) for value in middle),
            )
        )
    return Table(
        name="deltas",
        heading="Paired deltas",
        columns=(
            Column("candidate minus baseline", "text"),
            Column("pairs"),
            Column("mean"),
            Column("median"),
        ),
        rows=tuple(rows),
    )


def arms(analysis: Analysis) -> Table:
    """The figures of each arm."""
    ours, theirs = analysis.arm_summaries
    rows = []
    for label, unit, name, metric in _ARM_FIGURES:
        left, right = getattr(ours, name), getattr(theirs, name)
        moved = None if left is None or right is None else left - right
        absent = None
        if metric is not None:
            absent = ours.missing[metric.name] + theirs.missing[metric.name]
        rows.append(
            (
                words(label),
                number(figure(left, unit), left),
                number(figure(right, unit), right),
                number(change(moved, unit), moved),
                number(NOT_MEASURED if absent is None else f"{absent:,}", absent),
            )
        )
    return Table(
        name="arms",
        heading="Arms",
        columns=(
            Column("", "text"),
            *arm_columns(analysis),
            Column("difference"),
            Column("missing", brief=False),
        ),
        rows=tuple(rows),
    )


def excluded(analysis: Analysis, most: int) -> Iterator[Table]:
    """What was read and not counted, and why; nothing if all was."""
    groups, lost = analysis.excluded, any(arm.lost for arm in analysis.trials)
    if any(arm.at_risk for arm in analysis.trials):
        yield _trials(analysis)
    if not groups:
        return
    notes = more(len(groups), most)
    if analysis.evidence is not None:
        flips = analysis.evidence.exclusions.could_flip
        gone = lost_runs(analysis.trials) if lost else "excluded runs"
        notes += (
            f"{gone.capitalize()} could flip this decision."
            if flips
            else f"The decision would be the same if all {gone} of one arm had failed, or all had "
            "passed.",
        )
    yield Table(
        name="excluded",
        heading="Excluded runs",
        columns=(Column("reason", "text"), Column("arm", "text"), Column("runs")),
        rows=tuple(
            (
                words(Name(group.reason)),
                words(Name(group.arm)),
                number(f"{group.runs:,}", group.runs),
            )
            for group in groups[:most]
        ),
        notes=notes,
    )


def _trials(analysis: Analysis) -> Table:
    """What became of the planned runs."""
    names = ["planned", "counted", "excluded", "missing"]
    if any(arm.interrupted for arm in analysis.trials):
        names.append("interrupted")
    return Table(
        name="trials",
        heading="Planned runs",
        columns=(Column("arm", "text"), *map(Column, names)),
        rows=tuple(
            (
                words(Name(arm.arm)),
                *(number(f"{count:,}", count) for count in (getattr(arm, name) for name in names)),
            )
            for arm in analysis.trials
        ),
        notes=("Interrupted runs broke off, and were run again.",) * (len(names) == 5),
    )


def shortfalls(analysis: Analysis, most: int) -> Iterator[Table]:
    """Every task and arm with fewer repeats than a promotion needs, if there are any."""
    below = analysis.adequacy.below_minimum
    if not below:
        return
    yield Table(
        name="shortfalls",
        heading=f"Fewer than {analysis.adequacy.minimum_repeats} repeats",
        columns=(
            Column("task", "text"),
            Column("arm", "text"),
            Column("metric", "text"),
            Column("repeats"),
        ),
        rows=tuple(
            (
                words(Name(entry.task_id)),
                words(Name(entry.arm)),
                words(LABELS[entry.metric]),
                number(str(entry.repeats), entry.repeats),
            )
            for entry in below[:most]
        ),
        notes=more(len(below), most),
    )


def overview(analysis: Analysis, *, brief: bool = False) -> str:
    """What was read and what counts; `brief` is for one line of a terminal."""
    each = {run for task in analysis.tasks for run in (task.candidate.runs, task.baseline.runs)}
    fewest, most = min(each, default=0), max(each, default=0)
    repeats = counted(most, "repeat") if fewest == most else f"{fewest}-{most} repeats"
    runs = runs_counted(analysis, brief=brief)
    stopped = stopped_said(analysis.evidence)
    early = f"; {stopped}" if stopped else ""
    tasks = tasks_counted(analysis.task_count, families_of(analysis.tasks), analysis.chosen_tasks)
    return f"{tasks} x {repeats}; {runs}{_used(analysis)}{early}"


def tasks_counted(tasks: int, families: int | None, chosen: ChosenTasks | None) -> str:
    """How many tasks there are, of how many if only some were asked for, and their families."""
    if chosen is None:
        return counted_tasks(tasks, families)
    among = f"{tasks:,} of {counted(chosen.of, 'task')}"
    return among if families is None else f"{among} in {counted(families, 'family')}"


def runs_counted(analysis: Analysis, *, brief: bool = False) -> str:
    """How many runs count: of those planned, by arm, where some have no result."""
    left_out = [
        counted(count, noun) + where
        for kind, noun, where in _LEFT_OUT
        if (count := _excluded_runs(analysis, kind))
    ]
    excluded = f"{series(left_out)} excluded" if left_out else ""
    ours, theirs = analysis.trials
    broke_off = ours.interrupted + theirs.interrupted
    resumed = f"{broke_off:,} broken off and run again" if broke_off else ""
    if not (ours.lost or theirs.lost):
        infra = _excluded_runs(analysis, "infra")
        again = f"{counted(infra, 'infra failure')} run again" if infra else ""
        gone = infra + sum(_excluded_runs(analysis, kind) for kind in ("missing", "interrupted"))
        total = f"{analysis.effective_run_count:,} of "
        total += f"{counted(analysis.run_count - gone, 'run')} counted"
        return ", ".join(filter(None, (total, again, resumed, excluded)))
    planned = counted(ours.planned + theirs.planned, "planned run")
    total = f"{analysis.effective_run_count:,} of {planned} counted"
    arms = f"{total} (candidate {of_planned(ours)}, baseline {of_planned(theirs)})"
    if brief:
        shares = " vs. ".join(f"{arm.counted:,}/{arm.planned:,}" for arm in (ours, theirs))
        arms = f"{shares} planned runs"
    if brief and stopped_early(analysis.trials):
        uneven = f" ({ours.counted:,}+{theirs.counted:,})"
        arms = f"{analysis.effective_run_count:,} of {planned}"
        arms += uneven if ours.counted != theirs.counted else ""
    lost = ", ".join(why_lost(analysis.trials))
    return "; ".join(filter(None, (f"{arms}: {lost}", resumed, excluded)))


def why_lost(trials: Sequence[Trials]) -> Iterator[str]:
    """What became of planned runs without a result, in a few words."""
    excluded = sum(arm.excluded for arm in trials)
    if excluded:
        yield counted(excluded, "infra failure")
    words = Counter[str]()
    for arm in trials:
        for missing in arm.missing_reasons:
            start = missing.reason.partition(":")[0]
            words[start if start in _WHY_MISSING else "missing"] += missing.trials
    yield from (f"{count:,} {word}" for word, count in words.most_common())


def of_planned(arm: Trials) -> str:
    """How many of its planned runs count."""
    return f"{arm.counted:,} of {arm.planned:,}"


def _used(analysis: Analysis) -> str:
    """Which runs used the change, if anybody counted."""
    if analysis.uptake is None:
        return ""
    parts = [
        f"{arm.used_runs:,} of {counted(arm.known_runs, f'{role} run')}"
        for role, arm in (
            ("candidate", analysis.uptake.candidate),
            ("baseline", analysis.uptake.baseline),
        )
        if arm.known_runs
    ]
    return f"; {series(parts)} used the change; all runs count"


def _excluded_runs(analysis: Analysis, kind: str) -> int:
    return sum(group.runs for group in analysis.excluded if group.kind == kind)
