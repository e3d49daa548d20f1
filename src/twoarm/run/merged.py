"""What a folder of merged shards knows of them: how many there are, and where its runs are from."""

from typing import Annotated, Any

import msgspec

from twoarm.errors import InputError
from twoarm.run.ledger import RunFolder
from twoarm.run.schedule import Frozen, Trial
from twoarm.run.shard import MOST_SHARDS, Shard, sharded
from twoarm.text.escape import visible

# What a folder of merged shards has besides.
SHARDS = "shards.json"


class FromShard(msgspec.Struct, frozen=True, kw_only=True):
    """One shard: the digest of its receipt, and where it differs from the first."""

    shard: int
    receipt_sha256: str
    end: str
    done: int
    agent_sha256: str | None
    other_digests: dict[str, str | None]


class MergedShards(msgspec.Struct, frozen=True, kw_only=True):
    """`shards.json`: how many shards there are, and those that are in the folder."""

    of: Annotated[int, msgspec.Meta(ge=1, le=MOST_SHARDS)]
    merged: tuple[FromShard, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Those that are not."""
        merged = {each.shard for each in self.merged}
        return tuple(number for number in range(1, self.of + 1) if number not in merged)

    def still_missing(self, frozen: Frozen, settled: set[Trial]) -> tuple[int, ...]:
        """Those whose trials were not run here since, either."""
        return tuple(
            number
            for number in self.missing
            if not settled.issuperset(sharded(frozen, Shard(number=number, of=self.of)).trials)
        )


def merged_shards(folder: RunFolder) -> MergedShards | None:
    """Which shards a folder was merged from; None if it was not."""
    try:
        return msgspec.json.decode(folder.folder.read(SHARDS), type=MergedShards)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{visible(folder.at(SHARDS))}: {visible(str(error))}") from error


def shards_told(folder: RunFolder) -> dict[str, Any]:
    """What a receipt says of them."""
    merged = merged_shards(folder)
    if merged is None:
        return {}
    return {"shards": {"of": merged.of, "missing": merged.missing, "merged": merged.merged}}
