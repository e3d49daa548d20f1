"""The use of the change in tables."""

from collections.abc import Iterator

from twoarm.explain.uptake import ALL_RUNS, ArmUptake, RunGroup, TaskUses, Uptake
from twoarm.render.tables import Cell, Column, Table, more, number, words
from twoarm.runs.metric import DURATION, NON_CACHE_TOKENS, SUCCESS
from twoarm.text.escape import counted
from twoarm.text.number_format import NOT_MEASURED, figure
from twoarm.text.sentence import Name


def uptake_tables(uptake: Uptake | None, most: int) -> Iterator[Table]:
    """The arms, the tasks, and the runs with and without use; nothing if nobody counted."""
    if uptake is None:
        return
    yield _arms(uptake)
    yield _tasks(uptake, most)
    if uptake.split is not None:
        yield _split(uptake.split.used, uptake.split.not_used, uptake.split.not_fair)


def _arms(uptake: Uptake) -> Table:
    arms = (uptake.candidate, uptake.baseline)
    rows = (
        (words("runs that used it"), *(_share(arm.used_runs, arm.known_runs) for arm in arms)),
        (words("tasks it was used on"), *(_share(arm.tasks_used, arm.tasks) for arm in arms)),
        (words("uses"), *(_uses(arm) for arm in arms)),
        (words("uses that failed"), *(_failed(arm) for arm in arms)),
        (
            words("uses per run"),
            *(number(figure(arm.uses_per_run, "rate"), arm.uses_per_run) for arm in arms),
        ),
        (
            words("runs that do not show it"),
            *(number(f"{arm.runs - arm.known_runs:,}", arm.runs - arm.known_runs) for arm in arms),
        ),
    )
    return Table(
        name="uptake",
        heading="Use of the change",
        columns=(Column("", "text"), *(Column(Name(arm.arm)) for arm in arms)),
        rows=rows,
        notes=(ALL_RUNS,),
    )


def _uses(of: ArmUptake | TaskUses) -> Cell:
    return number(f"{of.uses:,}", of.uses) if of.known_runs else number(NOT_MEASURED, None)


def _failed(arm: ArmUptake) -> Cell:
    failed = arm.failed_uses
    return number(NOT_MEASURED if failed is None else f"{failed:,}", failed)


def _share(part: int, whole: int) -> Cell:
    if not whole:
        return number(NOT_MEASURED, None)
    return number(f"{part:,} of {whole:,} ({part / whole:.1%})", part / whole)


def _tasks(uptake: Uptake, most: int) -> Table:
    """The tasks on which the candidate used it least come first."""
    ranked = sorted(uptake.tasks, key=lambda task: (_rate(task.candidate), task.task_id))
    return Table(
        name="uptake-tasks",
        heading=f"Use of the change by task: {uptake.candidate.tasks_used:,} of "
        f"{counted(uptake.candidate.tasks, 'task')} in the candidate",
        columns=(
            Column("task", "text"),
            Column("candidate runs"),
            Column("uses"),
            Column("baseline runs"),
            Column("uses", brief=False),
        ),
        rows=tuple(
            (
                words(Name(task.task_id)),
                *(
                    cell
                    for uses in (task.candidate, task.baseline)
                    for cell in (_fraction(uses), _uses(uses))
                ),
            )
            for task in ranked[:most]
        ),
        notes=more(len(ranked), most),
    )


def _rate(uses: TaskUses) -> float:
    return uses.used_runs / uses.known_runs if uses.known_runs else -1.0


def _fraction(uses: TaskUses) -> Cell:
    if not uses.known_runs:
        return number(NOT_MEASURED, None)
    return number(f"{uses.used_runs}/{uses.known_runs}", uses.used_runs / uses.known_runs)


def _split(used: RunGroup, idle: RunGroup, why: str) -> Table:
    figures = (
        ("runs", "count", "runs"),
        ("success rate", SUCCESS.unit, "success_rate"),
        ("median duration", DURATION.unit, "median_duration_seconds"),
        ("median non-cache tokens", NON_CACHE_TOKENS.unit, "median_non_cache_tokens"),
    )
    return Table(
        name="uptake-split",
        heading="Candidate runs with and without use of the change: not a fair comparison",
        columns=(Column("", "text"), Column("used it"), Column("did not")),
        rows=tuple(
            (
                words(label),
                *(
                    number(figure(getattr(part, name), unit), getattr(part, name))
                    for part in (used, idle)
                ),
            )
            for label, unit, name in figures
        ),
        notes=(why,),
    )
