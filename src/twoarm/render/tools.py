"""What the agent did differently, in a table."""

from collections.abc import Iterator

from twoarm.evidence.results import FEWEST_TASKS
from twoarm.explain.tools import ToolShift, ToolUse, too_few_tasks
from twoarm.render.tables import Cell, Column, Table, number, words
from twoarm.text.escape import counted, tasks_or_families
from twoarm.text.number_format import NOT_MEASURED, change, figure, share
from twoarm.text.sentence import Name

NEVER_BLOCKS = "Diagnostics: they explain a result and never block a promotion."


def tool_tables(tools: ToolUse | None, *, weighed: bool) -> Iterator[Table]:
    """The tools that differ most; nothing if no run tells its calls."""
    if tools is None:
        return
    shifts = [*tools.largest, *([tools.failed] if tools.failed is not None else [])]
    notes = [NEVER_BLOCKS]
    if not weighed:
        notes.append("No intervals without the evidence.")
    elif too_few_tasks(tools):
        units = tasks_or_families(tools.families)
        notes.append(f"No intervals: they need at least {FEWEST_TASKS} {units}.")
    else:
        alike = "" if tools.families is None else ", and every family weighs alike"
        notes.append(
            f"Changes are paired by task{alike}. The intervals are for tasks like these, and allow "
            f"for {counted(tools.compared, 'comparison')} at once."
        )
    if tools.tools > len(tools.largest):
        notes.append(f"The {len(tools.largest)} largest of {tools.tools:,} tools.")
    yield Table(
        name="tools",
        heading="What it did differently: tool calls per run",
        columns=(
            Column("tool", "text"),
            Column("candidate"),
            Column("baseline"),
            Column("paired change"),
            Column(f"{tools.level * 100:g}% interval"),
            Column("failed calls", brief=False),
        ),
        rows=tuple(map(_row, shifts)),
        notes=tuple(notes),
    )


def _row(shift: ToolShift) -> tuple[Cell, ...]:
    name = words(Name(shift.tool)) if shift.tool else words("failed calls, all tools")
    moved = change(shift.mean_delta, "rate")
    if shift.change is not None:
        moved += f" ({share(shift.change, 0)})"
    between = NOT_MEASURED
    if shift.low is not None and shift.high is not None:
        between = f"{change(shift.low, 'rate')} to {change(shift.high, 'rate')}"
    wrong = [
        NOT_MEASURED if count is None else f"{count:,}"
        for count in (shift.candidate_failed, shift.baseline_failed)
    ]
    return (
        name,
        number(figure(shift.candidate_per_run, "rate"), shift.candidate_per_run),
        number(figure(shift.baseline_per_run, "rate"), shift.baseline_per_run),
        number(moved, shift.mean_delta),
        number(between, shift.low),
        number(" vs. ".join(wrong), shift.candidate_failed),
    )
