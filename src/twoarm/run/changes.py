"""What has changed in a suite since its schedule was frozen: the key, and both values."""

from collections.abc import Iterable, Sequence

import msgspec

from twoarm.errors import InputError
from twoarm.programs.value import as_text
from twoarm.run.grader import without_acceptance
from twoarm.run.schedule import Difference, Frozen, task_keys
from twoarm.run.suite import SuiteTask
from twoarm.run.suite_file import CheckedSuite
from twoarm.text.escape import named, visible
from twoarm.text.sentence import listed

# The key of what acceptance commands of a task name in the suite.
_TASKS, _GRADERS = "digests.tasks.", ".acceptance"
_BACK = "change it back, or start over with another --out"
_REGRADED = "change it back: runs are graded again only where nothing but acceptance has changed"
# How much is shown of a value, and how much of that before the difference.
_WIDTH, _BEFORE = 60, 20


def refuse_another_suite(frozen: Frozen, checked: CheckedSuite) -> None:
    """Refuse a suite by another name, before what it has is compared."""
    if frozen.suite_id != checked.suite_id:
        _refuse([Difference("suite_id", frozen.suite_id, checked.suite_id)], _BACK)


def refuse_removed(frozen: Frozen, tasks: Iterable[SuiteTask]) -> None:
    """Refuse a suite that lacks tasks of the schedule."""
    there = {task.id for task in tasks}
    gone = [
        Difference(f"tasks.{task.id}", "there", "not there")
        for task in frozen.suite.tasks
        if task.id not in there
    ]
    _refuse(gone, _BACK)


def refuse_changes(then: Frozen, now: Frozen) -> None:
    """Refuse a suite that means another schedule; it may mean more of the same."""
    now = _without_additions(then, now)
    _refuse(list(_without_budget(then).differences(_without_budget(now))), _BACK)


def refuse_all_but_acceptance(then: Frozen, now: Frozen) -> None:
    """Refuse a suite in which anything has changed that acceptance does not use."""
    graders = {task_keys(task.id)[2] for task in then.suite.tasks}
    before, after = (
        msgspec.structs.replace(
            frozen,
            suite=without_acceptance(frozen.suite),
            digests={key: digest for key, digest in frozen.digests.items() if key not in graders},
        )
        for frozen in map(_without_budget, (then, now))
    )
    _refuse(list(before.differences(after)), _REGRADED)


def _without_additions(then: Frozen, now: Frozen) -> Frozen:
    """What is there now of what was there then."""
    known = {task.id for task in then.suite.tasks}
    new = [task.id for task in now.suite.tasks if task.id not in known]
    added = {key for task in new for key in task_keys(task)}
    tasks = tuple(task for task in now.suite.tasks if task.id in known)
    return msgspec.structs.replace(
        now,
        suite=msgspec.structs.replace(now.suite, tasks=tasks),
        digests={key: digest for key, digest in now.digests.items() if key not in added},
        repeats=then.repeats,
        only=then.only,
        tags=then.tags,
        looks=then.looks,
        judging=then.judging,
        parts=then.parts,
    )


def _without_budget(frozen: Frozen) -> Frozen:
    """What may change: one limit, and what is counted in the runs once they are there."""
    limits = msgspec.structs.replace(frozen.suite.limits, budget_usd=None)
    arms = {
        name: msgspec.structs.replace(arm, uptake=()) for name, arm in frozen.suite.arms.items()
    }
    suite = msgspec.structs.replace(frozen.suite, limits=limits, uptake=(), arms=arms)
    return msgspec.structs.replace(frozen, suite=suite)


def _refuse(differences: Sequence[Difference], way: str) -> None:
    if not differences:
        return
    key, then, now = differences[0]
    # They follow from what the suite spells.
    names = dict.fromkeys(name for name, _, _ in differences[1:] if name != key)
    others = [name for name in names if not name.startswith("digests.")]
    also = f"; {listed(others, 3)} changed as well" if others else ""
    before, after = _both(shown(then), shown(now))
    what = visible(key)
    if way == _BACK and key.rpartition(".")[2].startswith("acceptance"):
        way = f"grade the runs again with `twoarm regrade`, {_BACK}"
    if key.startswith(_TASKS) and key.endswith(_GRADERS):
        what = f"what grades task {named(key[len(_TASKS) : -len(_GRADERS)])}"
    raise InputError(
        f"{what} has changed since the schedule was frozen: {before} then, {after} now{also}; {way}"
    )


def shown(value: object) -> str:
    """A value of a schedule, in a few words."""
    if value is msgspec.UNSET:
        return "not there"
    if isinstance(value, msgspec.Struct):
        return "there"
    if value is None:
        return "not set"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else as_text(value)


def _both(then: str, now: str) -> tuple[str, str]:
    """Two values around where they differ, cut if they are long."""
    apart = (at for at, (a, b) in enumerate(zip(then, now, strict=False)) if a != b)
    start = max(0, next(apart, min(len(then), len(now))) - _BEFORE)
    if max(len(then), len(now)) <= _WIDTH:
        start = 0
    shown = []
    for text in (then, now):
        more = "..." if start + _WIDTH < len(text) else ""
        part = visible(text[start : start + _WIDTH])
        shown.append(f"{'...' if start else ''}{part}{more}")
    return shown[0], shown[1]
