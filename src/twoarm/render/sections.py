"""The parts of a report, as tables and sentences that each format only has to lay out."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from twoarm.figures import NOT_MEASURED, change, figure, share
from twoarm.metric import DURATION, METRICS, NON_CACHE_TOKENS, SUCCESS
from twoarm.quote import counted

if TYPE_CHECKING:
    from twoarm.analysis import Analysis

# How many rows a table of names shows before it only counts.
_LISTED = 20

GATES = {
    "success_rate": ("success rate", SUCCESS.unit),
    "median_duration_seconds": ("median duration", DURATION.unit),
    "median_non_cache_tokens": ("median non-cache tokens", NON_CACHE_TOKENS.unit),
}

_LABELS = {metric.name: metric.label for metric in METRICS}

_ARM_FIGURES = (
    ("runs", "count", "runs"),
    ("successes", "count", "successes"),
    ("success rate", "points", "success_rate"),
    ("total cost", "usd", "total_cost_usd"),
    ("average cost", "usd", "avg_cost_usd"),
    *(
        (f"median {metric.label}", metric.unit, metric.median)
        for metric in METRICS
        if metric.median is not None
    ),
    ("solved per dollar", "rate", "solved_per_dollar"),
)


class Name(msgspec.Struct, frozen=True):
    """A name from the records: each format has its own way to make it harmless."""

    text: str


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, the column heads, and rows of cells: first the columns of text, then figures."""

    heading: str
    text_columns: int
    head: tuple[str | Name, ...]
    rows: tuple[tuple[str | Name, ...], ...]
    notes: tuple[str, ...]


def overview(analysis: "Analysis") -> str:
    """What was read and what counts, in one line."""
    excluded = analysis.run_count - analysis.effective_run_count
    fewest = analysis.adequacy.fewest_repeats
    return (
        f"{counted(analysis.run_count, 'run')} read, {excluded:,} excluded, "
        f"{analysis.effective_run_count:,} counted: {counted(analysis.task_count, 'task')}, "
        f"at least {counted(fewest, 'repeat')} per task and arm, "
        f"{counted(analysis.paired.paired_runs, 'pair')}"
    )


def tables(analysis: "Analysis") -> Iterator[Table]:
    """Every table of the report, in reading order."""
    yield gates(analysis)
    yield deltas(analysis)
    yield arms(analysis)
    if analysis.excluded:
        yield excluded(analysis)
    if analysis.adequacy.below_minimum:
        yield shortfalls(analysis)


def gates(analysis: "Analysis") -> Table:
    """The three gates side by side."""
    rows = []
    for gate in analysis.gates:
        label, unit = GATES[gate.name]
        difference = NOT_MEASURED
        if gate.candidate is not None and gate.baseline is not None:
            moved = gate.candidate - gate.baseline
            difference = change(moved, unit)
            if unit != SUCCESS.unit and gate.baseline:
                difference += f" ({share(moved / gate.baseline)})"
        rows.append(
            (
                label,
                figure(gate.candidate, unit),
                figure(gate.baseline, unit),
                difference,
                gate.standing or NOT_MEASURED,
                {True: "holds", False: "fails", None: "not judged"}[gate.holds],
            )
        )
    return Table(
        heading="Gates",
        text_columns=1,
        head=("", Name(analysis.candidate), Name(analysis.baseline), "difference", "standing", ""),
        rows=tuple(rows),
        notes=(),
    )


def deltas(analysis: "Analysis") -> Table:
    """Mean and median of every delta."""
    return Table(
        heading="Paired deltas",
        text_columns=1,
        head=("candidate minus baseline", "pairs", "mean", "median"),
        rows=tuple(
            (
                metric.label,
                f"{analysis.paired.pairs_with[metric.name]:,}",
                change(getattr(analysis.paired, f"mean_{metric.delta}"), metric.unit),
                change(getattr(analysis.paired, f"median_{metric.delta}"), metric.unit),
            )
            for metric in METRICS
        ),
        notes=(),
    )


def arms(analysis: "Analysis") -> Table:
    """The figures of each arm."""
    return Table(
        heading="Arms",
        text_columns=1,
        head=("", Name(analysis.candidate), Name(analysis.baseline)),
        rows=tuple(
            (
                label,
                *(figure(getattr(summary, name), unit) for summary in analysis.arm_summaries),
            )
            for label, unit, name in _ARM_FIGURES
        ),
        notes=(),
    )


def excluded(analysis: "Analysis") -> Table:
    """What was read and not counted, and why."""
    groups = analysis.excluded
    return Table(
        heading="Excluded",
        text_columns=2,
        head=("reason", "arm", "runs"),
        rows=tuple(
            (Name(group.reason), Name(group.arm), f"{group.runs:,}") for group in groups[:_LISTED]
        ),
        notes=more(len(groups), _LISTED),
    )


def shortfalls(analysis: "Analysis") -> Table:
    """Every task and arm with fewer repeats than a promotion needs."""
    below = analysis.adequacy.below_minimum
    return Table(
        heading=f"Fewer than {analysis.adequacy.minimum_repeats} repeats",
        text_columns=3,
        head=("task", "arm", "metric", "repeats"),
        rows=tuple(
            (Name(entry.task_id), Name(entry.arm), _LABELS[entry.metric], str(entry.repeats))
            for entry in below[:_LISTED]
        ),
        notes=more(len(below), _LISTED),
    )


def more(count: int, listed: int) -> tuple[str, ...]:
    """What a table that shows only so many rows says of the others."""
    return (f"and {count - listed:,} more in analysis.json (--out)",) if count > listed else ()
