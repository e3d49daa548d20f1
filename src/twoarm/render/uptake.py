"""The use of the change in tables."""

from collections.abc import Iterator, Mapping

from twoarm.explain.uptake import ALL_RUNS, ArmUptake, TaskUses, Uptake
from twoarm.explain.where_used import ASSUMPTION, METRICS_WHERE_USED, WhereUsed
from twoarm.render.tables import Cell, Column, Table, more, number, of_rows, words
from twoarm.result.findings import difference_range, ratio_range
from twoarm.text.escape import counted
from twoarm.text.number_format import NOT_MEASURED, change, figure, share
from twoarm.text.sentence import Name


def uptake_tables(uptake: Uptake | None, most: int, level: str) -> Iterator[Table]:
    """The arms, the effect where it was used, and the tasks; nothing if nobody counted."""
    if uptake is None:
        return
    yield _arms(uptake)
    if uptake.where_used is not None:
        yield _where_used(uptake.where_used, level)
    yield _tasks(uptake, most)


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


def _where_used(effects: Mapping[str, WhereUsed], level: str) -> Table:
    """A row per metric; what has no number says why below."""
    notes: dict[str, list[str]] = {}
    rows = []
    for metric in METRICS_WHERE_USED:
        effect = effects[metric.name]
        if effect.withheld is not None:
            notes.setdefault(effect.withheld.message, []).append(metric.label)
        moved = None if effect.estimate is None else effect.estimate - effect.unchanged
        if effect.ratio:
            shown, ends = share(moved), ratio_range(effect.interval)
        else:
            shown, ends = change(moved, metric.unit), difference_range(effect.interval, metric.unit)
        low = None if effect.interval is None else effect.interval.low - effect.unchanged
        rows.append(
            (
                words(metric.label),
                number(shown, moved),
                number(ends, low),
                number(f"{effect.tasks:,}", effect.tasks),
            )
        )
    return Table(
        name="where-used",
        heading="Where the change was used: what it did to the runs that used it",
        columns=(
            Column("candidate vs. baseline", "text"),
            Column("estimate"),
            Column(level),
            Column("tasks", brief=False),
        ),
        rows=tuple(rows),
        notes=(
            *(of_rows(note, labels, len(rows)) for note, labels in notes.items()),
            *(
                (ASSUMPTION,)
                if any(effect.estimate is not None for effect in effects.values())
                else ()
            ),
        ),
    )
