"""The schedule: every trial in its order, frozen once; the same suite and seed, the same bytes."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from twoarm.run.suite import Suite, SuiteTask

SCHEMA = "twoarm.schedule/1"


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


Block = tuple[Trial, Trial]


def arrange(tasks: Sequence[str], arms: Sequence[str], repeats: int, seed: int) -> list[Block]:
    """Rounds of every task once, in random order; each task a block of both arms, side by side.

    Which arm is first is random too, and each of them is first equally often at every task. Hashes
    and not a generator: the order is the same in every version of Python, and that of one task
    does not depend on the others.
    """
    pair = sorted(arms)
    first = {task: _first_arms(task, repeats, seed) for task in tasks}
    blocks = []
    for repeat in range(1, repeats + 1):
        for task in sorted(tasks, key=lambda task: _draw(seed, "task", repeat, task)):
            order = pair if first[task][repeat - 1] else pair[::-1]
            a, b = (Trial(task=task, repeat=repeat, arm=arm) for arm in order)
            blocks.append((a, b))
    return blocks


def _first_arms(task: str, repeats: int, seed: int) -> list[bool]:
    """Whether the first arm starts, per repeat: in half of them; a coin decides an odd one."""
    coin = _draw(seed, "coin", 0, task)[0] % 2
    chosen = sorted(range(repeats), key=lambda repeat: _draw(seed, "arm", repeat, task))
    starts = set(chosen[: (repeats + coin) // 2])
    return [repeat in starts for repeat in range(repeats)]


def _draw(seed: int, what: str, number: int, name: str) -> bytes:
    return sha256(f"{seed}\0{what}\0{number}\0{name}".encode()).digest()


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """What a run folder was made for; nothing in it may change once a trial has run."""

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
    candidate: str
    baseline: str
    # The commits of the arms' sources.
    sources: dict[str, str]
    seed: int
    repeats: int
    # In the order in which they start.
    trials: tuple[Trial, ...]

    @property
    def blocks(self) -> list[Block]:
        """The trials, two by two."""
        return list(zip(self.trials[::2], self.trials[1::2], strict=True))

    def differences(self, other: "Frozen") -> Iterator["Difference"]:
        """What differs between two schedules; what the suite spells comes first."""
        yield from _differences("", self.suite, other.suite)
        for name in self.__struct_fields__:
            if name != "suite":
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
    return msgspec.json.decode(text, type=Frozen, strict=True)
