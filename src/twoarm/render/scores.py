"""Scores and checks in tables."""

from collections.abc import Iterator

from twoarm.evidence.results import FEWEST_TASKS, Evidence
from twoarm.evidence.score_parts import Checks, CheckShift, Scores, TaskScore
from twoarm.render.tables import Cell, Column, Role, Table, chance, more, number, words
from twoarm.render.tools import NEVER_BLOCKS
from twoarm.runs.metric import SCORE
from twoarm.text.escape import counted, tasks_or_families
from twoarm.text.number_format import change, figure
from twoarm.text.sentence import Name

_WAYS: dict[bool, tuple[str, Role]] = {True: ("higher", "good"), False: ("lower", "bad")}


def score_tables(evidence: Evidence, most: int) -> Iterator[Table]:
    """The scores by task and the checks that differ; nothing where no run has any."""
    scores = evidence.scores
    if scores is None:
        return
    if scores.by_task:
        yield _by_task(scores, most)
    if scores.checks is not None:
        yield _checks(scores.checks, evidence.families)


def _by_task(scores: Scores, most: int) -> Table:
    ours, theirs = scores.arms
    rows = sorted(scores.by_task, key=lambda task: (round(_moved(task) or 0.0, 12), task.task_id))
    return Table(
        name="scores",
        heading="Scores by task",
        columns=(
            Column("task", "text"),
            Column("candidate"),
            Column("baseline"),
            Column("difference"),
        ),
        rows=tuple(map(_task_row, rows[:most])),
        notes=(
            f"The mean of the runs that have a score: {ours.scored:,} of "
            f"{counted(ours.runs, 'run')} in the candidate, {theirs.scored:,} of {theirs.runs:,} "
            "in the baseline. No gate looks at it.",
            *more(len(rows), most),
        ),
    )


def _moved(task: TaskScore) -> float | None:
    if task.candidate is None or task.baseline is None:
        return None
    return task.candidate - task.baseline


def _task_row(task: TaskScore) -> tuple[Cell, ...]:
    return (
        words(Name(task.task_id)),
        number(figure(task.candidate, SCORE.unit), task.candidate),
        number(figure(task.baseline, SCORE.unit), task.baseline),
        number(change(_moved(task), SCORE.unit), _moved(task)),
    )


def _checks(checks: Checks, families: int | None) -> Table:
    alike = "" if families is None else ", each family weighed alike"
    notes = [
        NEVER_BLOCKS,
        f"The share of runs that pass, as the mean over the tasks that have the check{alike}. p is "
        f"for tasks like these, allows for {counted(checks.compared, 'check')} at once, and takes "
        f"{FEWEST_TASKS} {tasks_or_families(families)} or more.",
    ]
    if checks.names > len(checks.largest):
        notes.append(
            f"{len(checks.largest)} of {counted(checks.names, 'check')}: what differs clearly "
            "comes first, then the largest differences."
        )
    return Table(
        name="checks",
        heading="Checks that differ most",
        columns=(
            Column("check", "text"),
            Column("tasks"),
            Column("candidate"),
            Column("baseline"),
            Column("difference"),
            Column("p"),
            Column("", "text"),
        ),
        rows=tuple(map(_check_row, checks.largest)),
        notes=tuple(notes),
    )


def _check_row(shift: CheckShift) -> tuple[Cell, ...]:
    way, role = _WAYS[shift.difference > 0] if shift.differs else ("", None)
    return (
        words(Name(shift.check)),
        number(f"{shift.tasks:,}", shift.tasks),
        number(figure(shift.candidate, SCORE.unit), shift.candidate),
        number(figure(shift.baseline, SCORE.unit), shift.baseline),
        number(change(shift.difference, SCORE.unit), shift.difference),
        chance(shift.adjusted_p),
        Cell(way, way, role),
    )
