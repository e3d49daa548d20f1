"""The schedule: every trial in its order, frozen once; the same suite and seed, the same bytes."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from twoarm.run.suite import Suite, SuiteTask

SCHEMA = "twoarm.schedule/2"
# Before a run could grow or have several candidates: its folders are scored and shown, and not
# continued.
_OLDER = "twoarm.schedule/1"


class Trial(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One planned run."""

    task: str
    repeat: int
    arm: str

    @property
    def name(self) -> str:
        """The folder of its run, below the folder of its arm."""
        return f"{self.task}.{self.repeat}"

    @property
    def id(self) -> str:
        """What it is called everywhere."""
        return f"{self.arm}/{self.name}"


def task_keys(task: str) -> tuple[str, str, str, str]:
    """The keys of the digests of one task: its prompt, its image, the files that grade it.

    The last is of the folder of a task of Harbor.
    """
    own = f"tasks.{task}"
    return f"prompts.{task}", f"{own}.image", f"{own}.acceptance", f"{own}.harbor"


# Every arm of a task and repeat, in the order in which they start.
Block = tuple[Trial, ...]


def arrange(tasks: Sequence[str], arms: Sequence[str], repeats: int, seed: int) -> list[Block]:
    """Rounds of every task once, in random order; each task a block of all arms, side by side.

    The order in a block is random too. At every task each arm stands in each place equally often:
    no two of these counts differ by more than one, whatever the number of repeats. After as many
    repeats as there are arms, or twice as many if the number of arms is odd, each arm also follows
    each other arm equally often. Hashes and not a generator: the order is the same in every version
    of Python, and that of one task does not depend on the others.
    """
    orders = {task: _orders(task, sorted(arms), repeats, seed) for task in tasks}
    return [
        tuple(Trial(task=task, repeat=repeat, arm=arm) for arm in orders[task][repeat - 1])
        for repeat in range(1, repeats + 1)
        for task in sorted(tasks, key=lambda task: _draw(seed, "task", repeat, task))
    ]


def _orders(task: str, arms: list[str], repeats: int, seed: int) -> list[list[str]]:
    """The order of the arms in each repeat: the rows of whole squares and some of one more."""
    squares, left = divmod(repeats, len(arms))
    rows = _square(task, arms, seed, 0)[:left]
    for number in range(squares):
        # Of an odd number of arms, a square is balanced only together with its mirror image.
        square = _square(task, arms, seed, 1 + number // 2)
        rows += [row[::-1] for row in square] if number % 2 else square
    drawn = sorted(range(repeats), key=lambda repeat: _draw(seed, "arm", repeat, task))
    order_of = dict(zip(drawn, sorted(rows), strict=True))
    return [order_of[repeat] for repeat in range(repeats)]


def _square(task: str, arms: list[str], seed: int, number: int) -> list[list[str]]:
    """Every arm once in each row and each place, as E. J. Williams arranged treatments in 1949."""
    names, drawn = arms[::-1], int.from_bytes(_draw(seed, "coin", number, task), "little")
    for at in range(len(names) - 1):
        drawn, more = divmod(drawn, len(names) - at)
        names[at], names[at + more] = names[at + more], names[at]
    # 0, 1, -1, 2, -2 and so on: no two neighbors are equally far apart.
    zigzag = [(at + 1) // 2 if at % 2 else -(at // 2) for at in range(len(names))]
    return [[names[(row + step) % len(names)] for step in zigzag] for row in range(len(names))]


def _draw(seed: int, what: str, number: int, name: str) -> bytes:
    return sha256(f"{seed}\0{what}\0{number}\0{name}".encode()).digest()


class SchedulePart(msgspec.Struct, frozen=True, kw_only=True):
    """Trials that were frozen together: those that a run began with, or that it grew by."""

    number: int
    # Of its order; the first part has that of the run.
    seed: int
    # Of its trials, and of everything else that was frozen by then.
    digest: str
    # In the order in which they start.
    trials: tuple[Trial, ...]


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """What a run folder was made for; it may grow, and nothing else in it may change."""

    schema: str
    twoarm: str
    suite_id: str
    # As its file spells it, with the tasks of the other file in it.
    suite: Suite
    # What the agent says of itself; None where it says nothing.
    version: str | None
    # The commit of the workspace, or the digest of the folder that is copied.
    origin: str
    # Of everything the suite names, by the key that names it.
    digests: dict[str, str]
    candidates: tuple[str, ...]
    baseline: str
    # The commits of the arms' sources.
    sources: dict[str, str]
    seed: int
    repeats: int
    # The tasks that were asked for, by id and by tag; neither asks for all of the suite.
    only: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    # After which repeats the runs are judged, the last after all of them; None if only at the end.
    looks: tuple[int, ...] | None = None
    # What else they are judged by, as it was given.
    judging: dict[str, str | int | float] = {}
    parts: tuple[SchedulePart, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All of them, in the order in which they start."""
        return tuple(trial for part in self.parts for trial in part.trials)

    @property
    def blocks(self) -> list[Block]:
        """The trials, every arm of a task and repeat together."""
        trials, arms = self.trials, 1 + len(self.candidates)
        return [trials[at : at + arms] for at in range(0, len(trials), arms)]

    def differences(self, other: "Frozen") -> Iterator["Difference"]:
        """What differs between two schedules; what the suite spells comes first.

        A commit has the key of its ref, and a digest that of what it is of.
        """
        yield from _differences("", self.suite, other.suite)
        place = self.suite.workspace
        origin = "digests.workspace.copy" if place is not None and place.copy else "workspace.ref"
        yield from _differences(origin, self.origin, other.origin)
        for arm in sorted({*self.sources, *other.sources}):
            key = f"arms.{arm}.source.ref"
            yield from _differences(key, self.sources.get(arm), other.sources.get(arm))
        for name in self.__struct_fields__:
            if name not in ("suite", "origin", "sources"):
                yield from _differences(name, getattr(self, name), getattr(other, name))


class Difference(NamedTuple):
    """A key with dots, such as `limits.timeout_seconds`, and both values; UNSET if not there."""

    key: str
    then: object
    now: object


def _differences(key: str, then: object, now: object) -> Iterator[Difference]:
    """Down to the values: a table is compared key by key, and tasks by their ids."""
    before, after = _table(then), _table(now)
    if before is None or after is None:
        if then != now:
            yield Difference(key, then, now)
        return
    for name in dict.fromkeys((*before, *after)):
        below = f"{key}.{name}" if key else name
        yield from _differences(below, before.get(name, UNSET), after.get(name, UNSET))


def _table(value: object) -> Mapping[str, object] | None:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, tuple) and value and all(isinstance(task, SuiteTask) for task in value):
        return {task.id: task for task in value}
    return value if isinstance(value, dict) else None


def frozen_bytes(frozen: Frozen) -> bytes:
    """The file `schedule.json`."""
    text = msgspec.json.format(msgspec.json.encode(frozen, order="sorted"), indent=1)
    return text + b"\n"


def thaw(text: bytes) -> Frozen:
    """The schedule of a file; ValueError if it is none."""
    document = msgspec.json.decode(text)
    if isinstance(document, dict) and document.get("schema") == _OLDER:
        part = {"number": 1, "seed": document.get("seed"), "digest": ""}
        document["parts"] = [part | {"trials": document.get("trials")}]
        document["candidates"] = [document.pop("candidate", None)]
    return msgspec.convert(document, Frozen)
