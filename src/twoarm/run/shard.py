"""A shard: one machine's share of a run, in whole blocks, so that each machine is its own control.

Shards and the whole run have the same schedule, byte for byte; which share a folder has is a matter
of the machine.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace

from twoarm.errors import UsageError
from twoarm.run.schedule import Block, Frozen
from twoarm.run.suite_file import CheckedSuite
from twoarm.text.escape import named

# As many machines as nobody has.
MOST_SHARDS = 10_000
_SHARD = re.compile(r"(\d{1,5})/(\d{1,5})")
# What means the same commit in every checkout of the same one.
_FIXED = re.compile(r"HEAD([~^]\d*)*|[0-9a-f]{40}|[0-9a-f]{64}")


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """Which share, from 1, and of how many."""

    number: Annotated[int, msgspec.Meta(ge=1)]
    of: Annotated[int, msgspec.Meta(ge=1, le=MOST_SHARDS)]

    def __post_init__(self) -> None:
        """Refuse what a file may say, and no command line."""
        if self.number > self.of:
            raise ValueError(f"there is no shard {self.number} of {self.of}")

    def __str__(self) -> str:
        return f"shard {self.number} of {self.of}"


def shard_of(text: str) -> Shard:
    """A share as it is given on a command line, such as 2/5."""
    match = _SHARD.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST_SHARDS:
        raise UsageError(
            f"--shard: expected a share such as 2/5, the second of five, got {named(text)}"
        )
    return Shard(number=int(match[1]), of=int(match[2]))


def dealt(blocks: Sequence[Block], shards: int) -> list[list[Block]]:
    """The blocks of each shard: even numbers, of each task, and of those with each arm first.

    Each block goes to the shard with the fewest of its task, then of its first arm, then of all.
    """
    size, larger = divmod(len(blocks), shards)
    shares: list[list[Block]] = [[] for _ in range(shards)]
    tasks: Counter[tuple[int, str]] = Counter()
    first: Counter[tuple[int, str]] = Counter()
    for block in blocks:
        # So many may have one more than the others.
        grown = sum(len(share) > size for share in shares)
        room = size + (grown < larger)
        task, arm = block[0].task, block[0].arm
        at = min(
            (at for at in range(shards) if len(shares[at]) < room),
            key=lambda at: (tasks[at, task], first[at, arm], len(shares[at]), at),
        )
        shares[at].append(block)
        tasks[at, task] += 1
        first[at, arm] += 1
    return shares


def sharded(frozen: Frozen, shard: Shard | None) -> Frozen:
    """A schedule with the trials of one shard alone; each part is dealt on its own.

    So what a run grows by leaves the earlier shares as they were.
    """
    if shard is None:
        return frozen
    arms = 1 + len(frozen.candidates)
    parts = []
    for part in frozen.parts:
        blocks = [part.trials[at : at + arms] for at in range(0, len(part.trials), arms)]
        own = dealt(blocks, shard.of)[shard.number - 1]
        parts.append(replace(part, trials=tuple(trial for block in own for trial in block)))
    return replace(frozen, parts=tuple(parts))


def share_of(budget_usd: float, frozen: Frozen, shard: Shard | None) -> float:
    """How much of a budget a shard may spend: as much of it as it has of the trials."""
    return budget_usd * len(sharded(frozen, shard).trials) / len(frozen.trials)


def refuse_moving(checked: CheckedSuite, commits: dict[str, str]) -> None:
    """Refuse a branch or a tag, which may mean another commit on another machine.

    `commits` has what each key means here.
    """
    refs = {} if checked.workspace.repo is None else {"workspace.ref": checked.workspace.ref}
    for name, arm in checked.arms.items():
        if arm.source is not None:
            refs[f"arms.{name}.source.ref"] = arm.source.ref
    for key, ref in refs.items():
        if not _FIXED.fullmatch(ref):
            raise UsageError(
                f"--shard: {key} is {named(ref)}, which may mean another commit on another "
                f'machine; write ref = "{commits[key]}"'
            )
