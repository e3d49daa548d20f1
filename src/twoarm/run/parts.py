"""The parts of a schedule: what a run began with, and what it grew by."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from twoarm.errors import InputError
from twoarm.run.schedule import Frozen, SchedulePart, Trial, arrange, task_keys
from twoarm.text.escape import counted, visible


def first_part(tasks: Sequence[str], arms: Sequence[str], repeats: int, seed: int) -> SchedulePart:
    """Every task with all its repeats; the digest comes when the schedule is sealed."""
    return _part(1, dict.fromkeys(tasks, 0), arms, repeats, seed)


def sealed(frozen: Frozen) -> Frozen:
    """The schedule with the digest of its last part."""
    *before, last = frozen.parts
    digest = _digest(frozen, last.number)
    return replace(frozen, parts=(*before, replace(last, digest=digest)))


def sealed_anew(frozen: Frozen) -> Frozen:
    """The schedule of a new folder, with the digests of all its parts."""
    whole = replace(frozen, parts=())
    for part in frozen.parts:
        whole = sealed(replace(whole, parts=(*whole.parts, part)))
    return whole


def grown(then: Frozen, now: Frozen) -> Frozen:
    """An earlier schedule with one more part, of what it lacks; as it was if it lacks nothing.

    A task that was added gets all its repeats. The order is drawn anew: each arm of a task is first
    equally often in the part alone, too.
    """
    known = {task.id for task in then.suite.tasks}
    added = tuple(task for task in now.suite.tasks if task.id not in known)
    tasks = (*then.suite.tasks, *added)
    made = {task.id: then.repeats if task.id in known else 0 for task in tasks}
    number = len(then.parts) + 1
    part = _part(number, made, tuple(then.suite.arms), now.repeats, then.seed)
    if not part.trials:
        return then
    return sealed(
        replace(
            then,
            suite=replace(then.suite, tasks=tasks),
            digests=now.digests,
            repeats=now.repeats,
            parts=(*then.parts, part),
        )
    )


def growth_in_words(then: Frozen, now: Frozen) -> str:
    """What a schedule has grown by."""
    before, tasks = len(then.suite.tasks), len(now.suite.tasks)
    words = [f"{counted(tasks - before, 'task')} added"] if tasks > before else []
    if now.repeats > then.repeats:
        more = counted(now.repeats - then.repeats, "more repeat")
        words.append(f"{more} of {counted(before, 'task')}")
    trials = counted(len(now.trials) - len(then.trials), "more trial")
    return f"{', '.join(words)}: {trials}"


def refuse_forged(frozen: Frozen, path: str) -> None:
    """Refuse a schedule with a part that is not what was frozen."""
    tasks = {task.id for task in frozen.suite.tasks}
    made: dict[str, int] = {}
    for number, part in enumerate(frozen.parts, 1):
        last: dict[str, int] = {}
        for trial in part.trials:
            last[trial.task] = max(trial.repeat, last.get(trial.task, 0))
        wanted = {task: made.get(task, 0) for task in tasks & last.keys()}
        repeats = max(last.values(), default=0)
        again = _part(number, wanted, tuple(frozen.suite.arms), repeats, frozen.seed)
        if part != replace(again, digest=_digest(frozen, number)):
            raise InputError(
                f"{visible(path)}: part {number} is not what was frozen; the file was changed, so "
                "put it back, or start over with another --out"
            )
        made |= last


def _part(
    number: int, made: Mapping[str, int], arms: Sequence[str], repeats: int, seed: int
) -> SchedulePart:
    """The trials that tasks lack, some of whose repeats are there: rounds, as in any schedule."""
    own = seed if number == 1 else _derived(seed, f"part {number}")
    starts = sorted(set(made.values()))
    rounds: dict[int, list[tuple[Trial, ...]]] = {}
    for start in starts:
        tasks = [task for task, repeat in made.items() if repeat == start]
        for block in arrange(tasks, arms, repeats - start, own):
            moved = tuple(replace(trial, repeat=trial.repeat + start) for trial in block)
            rounds.setdefault(block[0].repeat, []).append(moved)
    if len(starts) > 1:
        # In each round the tasks that were added are among the others.
        for at, blocks in rounds.items():
            places = {block: _derived(own, f"round {at} {block[0].task}") for block in blocks}
            blocks.sort(key=places.__getitem__)
    trials = tuple(trial for at in sorted(rounds) for block in rounds[at] for trial in block)
    return SchedulePart(number=number, seed=own, digest="", trials=trials)


def _derived(seed: int, what: str) -> int:
    """Another seed, always the same one."""
    return int.from_bytes(sha256(f"{seed}\0{what}".encode()).digest()[:7])


def _digest(frozen: Frozen, number: int) -> str:
    """Of a part and all that was frozen by then: the earlier parts, and what the trials are of."""
    *before, part = frozen.parts[:number]
    trials = [trial for each in (*before, part) for trial in each.trials]
    known = {trial.task for trial in trials}
    tasks = {task.id: task for task in frozen.suite.tasks}
    later = {key for task in tasks.keys() - known for key in task_keys(task)}
    then = replace(
        frozen,
        suite=replace(
            frozen.suite, tasks=tuple(tasks[name] for name in sorted(tasks.keys() & known))
        ),
        digests={key: digest for key, digest in frozen.digests.items() if key not in later},
        repeats=max((trial.repeat for trial in trials), default=0),
        parts=(*before, replace(part, digest="")),
    )
    return sha256(msgspec.json.encode(then, order="sorted")).hexdigest()
