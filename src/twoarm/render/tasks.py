"""Tasks in tables: both arms of each, how far a single one can tell, and their tags."""

from collections.abc import Iterator

from twoarm.compare.decide import GATES
from twoarm.compare.tasks import Task
from twoarm.evidence.results import FEWEST_TASKS, Evidence
from twoarm.evidence.single_parts import SingleChange, SingleTask
from twoarm.evidence.tag_parts import TagChange
from twoarm.render.tables import ROLES, Cell, Column, Table, more, number, words
from twoarm.result.analysis import Analysis
from twoarm.result.findings import always_said
from twoarm.runs.metric import BY_NAME, JUDGED, LABELS, SUCCESS, Metric
from twoarm.text.escape import counted, tasks_or_families
from twoarm.text.number_format import NOT_MEASURED, at_level, change, share
from twoarm.text.sentence import Name

_MARKS = {"no clear difference": "~", "no test": ""}


def tasks(analysis: Analysis, most: int) -> Table:
    """Every task in both arms; those with lower success come first."""
    clear = {
        task.task_id: task.changes[SUCCESS.name].standing
        for task in (() if analysis.evidence is None else analysis.evidence.single_tasks)
        if SUCCESS.name in task.changes
    }
    order = {"lower": 0, "higher": 1, "unchanged": 2, None: 3}
    ranked = sorted(
        analysis.tasks,
        key=lambda task: (order[task.standing], task.mean_pass_delta or 0, task.task_id),
    )
    count = {
        word: sum(task.standing == word for task in analysis.tasks)
        for word in ("higher", "lower", "unchanged")
    }
    return Table(
        name="tasks",
        heading=(
            f"Tasks by success: {count['higher']} higher, {count['lower']} lower, "
            f"{count['unchanged']} unchanged"
        ),
        columns=(
            Column("task", "text"),
            Column("standing", "text"),
            Column("candidate"),
            Column("baseline"),
            Column("gained"),
            Column("lost"),
            Column("pairs", brief=False),
            *(
                Column(f"{metric.label}, delta", brief=metric.unit == "seconds")
                for metric in JUDGED
            ),
            Column("varies in", "text", brief=False),
        ),
        rows=tuple(_task(task, clear.get(task.task_id)) for task in ranked[:most]),
        notes=(*more(len(ranked), most), *always_said(analysis.failures, len(ranked))),
    )


def _task(task: Task, clear: str | None) -> tuple[Cell, ...]:
    """Higher or lower are the counts of the runs; better or worse is what is clear."""
    standing: str | None = clear if clear in ROLES else task.standing
    passed = [
        number(f"{arm.successes}/{arm.runs}", arm.successes / arm.runs if arm.runs else None)
        for arm in (task.candidate, task.baseline)
    ]
    moved = [(metric, getattr(task, f"mean_{metric.delta}")) for metric in JUDGED]
    return (
        words(Name(task.task_id)),
        Cell(standing or "one arm only", standing, ROLES.get(standing)),
        *passed,
        number(f"{task.gained:,}", task.gained),
        number(f"{task.lost:,}", task.lost),
        number(f"{task.pairs:,}", task.pairs),
        *(number(change(value, metric.unit), value) for metric, value in moved),
        words(", ".join(LABELS[name] for name in task.high_variance)),
    )


def single_tasks(evidence: Evidence, most: int) -> Iterator[Table]:
    """What each task shows as far as one can tell; nothing where there are too few."""
    known = {name for task in evidence.single_tasks for name in task.changes}
    metrics = [metric for metric in JUDGED if metric.name in known]
    if not metrics:
        return
    gated = [gate.metric for gate in GATES if gate.metric in metrics]
    ranked = sorted(evidence.single_tasks, key=lambda task: (_success(task), task.task_id))
    yield Table(
        name="single-tasks",
        heading="Single tasks: how far one can tell",
        columns=(
            Column("task", "text"),
            *(Column(metric.label, brief=metric in gated[:2]) for metric in metrics),
            Column("clear", "text", brief=False),
        ),
        rows=tuple(_single(task, metrics) for task in ranked[:most]),
        notes=(
            "What a task shows, moved toward the mean of all tasks by how noisy it is, and in "
            f"brackets a {at_level(evidence.level)} interval for that task alone.",
            *more(len(ranked), most),
        ),
    )


def _success(task: SingleTask) -> float:
    moved = task.changes.get(SUCCESS.name)
    return 0.0 if moved is None else moved.estimate


def _single(task: SingleTask, metrics: list[Metric]) -> tuple[Cell, ...]:
    cells = [_ranged(metric, task.changes.get(metric.name)) for metric in metrics]
    clear: dict[str, list[str]] = {}
    for name, moved in task.changes.items():
        if moved.standing in ROLES:
            clear.setdefault(moved.standing, []).append(BY_NAME[name].short)
    listing = "; ".join(f"{standing}: {', '.join(names)}" for standing, names in clear.items())
    return (words(Name(task.task_id)), *cells, words(listing))


def _ranged(metric: Metric, moved: SingleChange | None) -> Cell:
    if moved is None:
        return number(NOT_MEASURED, None)
    values = (moved.estimate, moved.low, moved.high)
    middle, low, high = (_shown(metric, value, ratio=moved.ratio) for value in values)
    text = f"{middle} ({low} to {high})"
    return number(text, moved.estimate, ROLES.get(moved.standing))


def _shown(metric: Metric, value: float | None, *, ratio: bool) -> str:
    if value is None:
        return NOT_MEASURED
    return share(value - 1.0) if ratio else change(value, metric.unit).removesuffix(" points")


def tag_table(evidence: Evidence, most: int) -> Iterator[Table]:
    """The change by tag; nothing where no tag tells tasks apart."""
    tags, families = evidence.tags, evidence.families
    if tags is None:
        return
    entries = [
        (effect.tag, name, moved)
        for effect in tags.largest
        for name, moved in effect.changes.items()
    ]
    notes = [
        f"All {counted(tags.intervals, 'interval')} hold at once at {at_level(tags.level)}: each "
        f"alone is at {at_level(tags.level_of_each)}. A task may have several tags.",
        f"From {FEWEST_TASKS} {tasks_or_families(families)} on, an interval is for tasks like "
        "these with the tag; with fewer, it is for these very tasks.",
        *more(len(entries), most),
    ]
    if tags.names > len(tags.largest):
        notes.append(
            f"{len(tags.largest)} of {counted(tags.names, 'tag')}: those with the most tasks."
        )
    why = dict.fromkeys(moved.withheld for _, _, moved in entries if moved.withheld)
    yield Table(
        name="tags",
        heading="By tag of task",
        columns=(
            Column("tag", "text"),
            Column("tasks", brief=families is None),
            *((Column("families"),) if families is not None else ()),
            Column("metric", "text"),
            Column("change"),
            Column("interval, all at once"),
            Column("", "text"),
            Column("for", "text", brief=False),
        ),
        rows=tuple(_tagged(*entry) for entry in entries[:most]),
        notes=(*notes, *why),
    )


def _tagged(tag: str, name: str, moved: TagChange) -> tuple[Cell, ...]:
    metric = BY_NAME[name]
    middle, low, high = (
        _shown(metric, value, ratio=moved.ratio)
        for value in (moved.estimate, moved.low, moved.high)
    )
    unit = "" if moved.ratio else " points"
    mark = _MARKS.get(moved.standing, moved.standing)
    count = moved.families
    families = () if count is None else (number(f"{count:,}", count),)
    return (
        words(Name(tag)),
        number(f"{moved.tasks:,}", moved.tasks),
        *families,
        words(LABELS[name]),
        number(f"{middle}{unit}", moved.estimate),
        number(NOT_MEASURED if moved.low is None else f"{low} to {high}{unit}", moved.low),
        Cell(mark, moved.standing, ROLES.get(moved.standing)),
        words("tasks like these" if moved.scope == "tasks_like_these" else "these tasks"),
    )
