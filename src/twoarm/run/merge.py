"""Shards into one run folder like any other: every trial once, and nothing that does not fit."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from twoarm.errors import InputError, UsageError
from twoarm.files.safe import OpenFolder
from twoarm.files.write import Output, write
from twoarm.programs.sidecar import NAME
from twoarm.run.changes import shown
from twoarm.run.ledger import TREES, RunFolder
from twoarm.run.place import new_token
from twoarm.run.receipt import RECEIPT, REGRADED, regraded_from
from twoarm.run.report import is_collected, merged_lines
from twoarm.run.schedule import SCHEMA, Frozen
from twoarm.run.shard import Shard, sharded
from twoarm.run.tree import file_digest
from twoarm.runs.study import COLLECTED, SCHEDULE
from twoarm.text.escape import counted, named, series, visible

# What a folder of merged shards has besides.
SHARDS = "shards.json"
# How a shard may have ended to be merged: all done, or its share of the budget spent.
_ENDED = ("done", "budget")
_PIECE = 1 << 20


class MergedShards(msgspec.Struct, frozen=True, kw_only=True):
    """`shards.json`: how many shards there are, and which of them are in the folder."""

    of: int
    merged: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Those that are not."""
        return tuple(number for number in range(1, self.of + 1) if number not in self.merged)


class ShardFolder:
    """The run folder of one shard; nothing is written to it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = RunFolder(path)
        self.frozen = self.folder.frozen()
        self.machine = self.folder.machine()
        if self.machine.shard is None:
            raise UsageError(f"{visible(path)}: a whole run, not a shard; nothing is to be merged")
        if self.folder.held_by_another():
            raise UsageError(f"{visible(path)}: a run is going on there; wait for its end")
        self.shard: Shard = self.machine.shard
        self.receipt = self._receipt()
        self.runs = {run.trial.id: run for run in self.folder.runs()}

    def _receipt(self) -> dict[str, Any]:
        try:
            receipt = msgspec.json.decode(self.folder.folder.read(RECEIPT), type=dict[str, Any])
        except (FileNotFoundError, ValueError) as error:
            raise UsageError(
                f"{visible(self.path)}: {self.shard} did not come to its end; finish it with "
                f"twoarm run --resume {visible(self.path)}"
            ) from error
        return receipt

    def check(self, *, partial: bool) -> None:
        """Refuse a shard that is not whole, not finished, or has what is not its own."""
        own = {trial.id for trial in sharded(self.frozen, self.shard).trials}
        for name in sorted(self.runs.keys() - own):
            raise InputError(f"{visible(self.path)}: {visible(name)} is no trial of {self.shard}")
        attempts = list(self.folder.attempts())
        infra = [attempt for attempt in attempts if attempt.state == "infra"]
        left = own - self.runs.keys() - {attempt.trial.id for attempt in infra}
        planned = sharded(self.frozen, self.shard)
        if not is_collected(self.folder, planned, (*self.runs.values(), *infra)):
            raise UsageError(
                f"{visible(self.path)}: {COLLECTED} does not have all of its runs; let twoarm run "
                f"--resume {visible(self.path)} write it anew"
            )
        if left and self.receipt.get("end") not in _ENDED and not partial:
            raise UsageError(
                f"{visible(self.path)}: {len(left)} of {counted(len(own), 'trial')} are not done; "
                f"finish it with twoarm run --resume {visible(self.path)}, or merge what is there "
                "with --partial"
            )
        digests = self.receipt.get("run_json_sha256")
        for name, run in self.runs.items():
            self.folder.check_whole(run)
            path = os.path.join(self.folder.run_of(run.trial), NAME)
            if not isinstance(digests, dict) or file_digest(path) != digests.get(name):
                raise InputError(
                    f"{visible(path)}: not what {RECEIPT} says of it; put it back, or let twoarm "
                    f"run --resume {visible(self.path)} look at it"
                )


def open_shards(paths: Sequence[str], *, partial: bool) -> list[ShardFolder]:
    """The shards in their order; refuse whatever does not make one run."""
    shards = [ShardFolder(path) for path in paths]
    first = shards[0]
    known: dict[int, ShardFolder] = {}
    for shard in shards:
        _refuse_other(first, shard)
        earlier = known.setdefault(shard.shard.number, shard)
        if earlier is not shard:
            raise UsageError(
                f"{visible(earlier.path)} and {visible(shard.path)}: both are {shard.shard}"
            )
        shard.check(partial=partial)
    missing = [number for number in range(1, first.shard.of + 1) if number not in known]
    if missing and not partial:
        numbers = series([str(number) for number in missing])
        raise UsageError(
            f"shard {numbers} of {first.shard.of} {'is' if len(missing) == 1 else 'are'} missing; "
            "give all of them, or merge what is there with --partial"
        )
    return [known[number] for number in sorted(known)]


def _refuse_other(first: ShardFolder, other: ShardFolder) -> None:
    """Refuse a shard of another run: by the key that differs, and both values."""
    if other.shard.of != first.shard.of:
        raise UsageError(
            f"{visible(other.path)} is {other.shard}, and {visible(first.path)} is {first.shard}"
        )
    for key, ours, theirs in first.frozen.differences(other.frozen):
        raise UsageError(
            f"{visible(other.path)}: {visible(key)} is {shown(theirs)}, and {shown(ours)} in "
            f"{visible(first.path)}: these are shards of different schedules"
        )
    for key in ("isolation", "trial_usd"):
        ours, theirs = getattr(first.machine, key), getattr(other.machine, key)
        if ours != theirs:
            raise UsageError(
                f"{visible(other.path)}: {key} is {shown(theirs)}, and {shown(ours)} in "
                f"{visible(first.path)}: shards are run in the same way"
            )
    graded = [regraded_from(each.folder) for each in (first, other)]
    unlike = [told is not None and (told.schedule_sha256, told.finished) for told in graded]
    if unlike[0] != unlike[1]:
        raise UsageError(
            f"{visible(other.path)} and {visible(first.path)}: not graded by the same; grade all "
            "shards again, or merge first and grade afterwards"
        )


def merge(shards: Sequence[ShardFolder], out: str) -> MergedShards:
    """Everything of the shards in a new run folder."""
    first = shards[0]
    for shard in shards:
        if os.path.realpath(out) == os.path.realpath(shard.path):
            raise UsageError(f"--out {visible(out)}: one of the shards; name another folder")
    folder = RunFolder(out)
    machine = replace(
        first.machine,
        token=new_token(),
        jobs=max(shard.machine.jobs for shard in shards),
        budget_usd=max(shard.machine.budget_usd or 0.0 for shard in shards) or None,
        shard=None,
    )
    merged = MergedShards(of=first.shard.of, merged=tuple(shard.shard.number for shard in shards))
    frozen = first.frozen
    if frozen.schema != SCHEMA:
        raise InputError(f"{visible(first.path)}: of a layout that has no shards")
    folder.create(frozen, machine)
    try:
        for shard in shards:
            for root in ("runs", ".attempts"):
                _copy_below(shard.folder.folder, folder.folder, root)
        _merge_files(shards, folder, merged, frozen)
    finally:
        folder.release()
    return merged


def _copy_below(source: OpenFolder, target: OpenFolder, root: str) -> None:
    """The folders of a shard, arm by arm, beside those of the others."""
    with suppress(FileNotFoundError), source.within(root) as arms:
        for arm in filter(arms.is_folder, arms.names()):
            with arms.enter(arm) as here, target.within(f"{root}/{arm}", make=True) as there:
                for name in filter(here.is_folder, here.names()):
                    with here.enter(name) as run, there.made(name) as made:
                        _copy(run, made)


def _copy(source: OpenFolder, target: OpenFolder) -> None:
    """Files as they are; a link stays a link, and nothing else is a file of a run."""
    for name in source.names():
        if source.is_folder(name):
            with source.enter(name) as inner, target.made(name) as made:
                _copy(inner, made)
        elif source.is_file(name):
            mode = os.stat(name, dir_fd=source.descriptor).st_mode & 0o777
            with (
                open(source.open(name), "rb") as file,
                open(target.create(name, mode), "wb") as copied,
            ):
                while piece := file.read(_PIECE):
                    copied.write(piece)
        else:
            with suppress(OSError):
                leads = os.readlink(name, dir_fd=source.descriptor)
                os.symlink(leads, name, dir_fd=target.descriptor)


def _merge_files(
    shards: Sequence[ShardFolder], folder: RunFolder, merged: MergedShards, frozen: Frozen
) -> None:
    """What stands beside the runs: the journal by time, digests, doubts, lines and the receipt."""
    root = folder.folder
    root.write(SHARDS, msgspec.json.encode(merged) + b"\n")
    events = [event for shard in shards for event in _events(shard)]
    events.sort(key=lambda event: event.get("at", 0.0))
    root.write("journal.jsonl", b"".join(msgspec.json.encode(e) + b"\n" for e in events))
    for name in (TREES, "doubts.json"):
        tables = [table for shard in shards if (table := _table(shard.folder.folder, name))]
        if tables:
            # The first has the word: what differs is in the receipt.
            whole = {key: value for table in reversed(tables) for key, value in table.items()}
            root.write(name, msgspec.json.encode(whole, order="sorted"))
    with suppress(FileNotFoundError):
        root.write(REGRADED, shards[0].folder.folder.read(REGRADED))
    lines = merged_lines([shard.folder for shard in shards], frozen, merged.of, merged.missing)
    receipt = msgspec.json.encode(_receipt(shards, merged, folder), order="sorted")
    write(
        [
            Output(path=folder.at(name), content=[content], append=False, named=False)
            for name, content in (
                (COLLECTED, b"".join(lines)),
                (RECEIPT, msgspec.json.format(receipt, indent=1) + b"\n"),
            )
        ]
    )


def _events(shard: ShardFolder) -> Iterator[dict[str, Any]]:
    with suppress(FileNotFoundError):
        for line in shard.folder.folder.read("journal.jsonl").splitlines():
            with suppress(ValueError):
                told = msgspec.json.decode(line, type=dict[str, Any])
                yield {**told, "shard": shard.shard.number}


def _table(folder: OpenFolder, name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(folder.read(name), type=dict[str, Any])
    except (FileNotFoundError, ValueError):
        return {}


def _receipt(
    shards: Sequence[ShardFolder], merged: MergedShards, folder: RunFolder
) -> dict[str, Any]:
    """The sum of all receipts, and the digest of each."""
    told = [shard.receipt for shard in shards]
    ends = {str(each.get("end")) for each in told}
    end = "budget" if "budget" in ends else "done"
    if merged.missing or ends - set(_ENDED):
        end = "stopped"
    jobs: dict[str, int] = {}
    for each in told:
        for number, runs in each.get("runs_by_jobs", {}).items():
            jobs[number] = jobs.get(number, 0) + runs
    budget = {**told[0].get("budget", {}), "usd": folder.machine().budget_usd}
    return {
        **told[0],
        "schedule_sha256": file_digest(folder.at(SCHEDULE)),
        "budget": budget,
        "end": end,
        "runs_by_jobs": jobs,
        "trials": len(shards[0].frozen.trials),
        **{name: sum(each[name] for each in told) for name in _SUMMED},
        **{name: [entry for each in told for entry in each[name]] for name in _JOINED},
        "run_json_sha256": {
            key: value for each in told for key, value in each["run_json_sha256"].items()
        },
        "shards": {
            "of": merged.of,
            "missing": merged.missing,
            "merged": [_shard_told(shard, shards[0]) for shard in shards],
        },
    }


_SUMMED = ("done", "spent_usd", "costs_not_known")
_JOINED = ("doubtful_runs", "attempts_without_run")


def _shard_told(shard: ShardFolder, first: ShardFolder) -> dict[str, Any]:
    """What a receipt says of one shard, and where it differs from the first."""
    return {
        "shard": shard.shard.number,
        "receipt_sha256": file_digest(shard.folder.at(RECEIPT)),
        "end": shard.receipt.get("end"),
        "done": shard.receipt.get("done"),
        "agent_sha256": shard.receipt.get("agent", {}).get("sha256"),
        "other_digests": dict(_other_digests(first.receipt, shard.receipt)),
    }


def _other_digests(
    first: Mapping[str, Any], other: Mapping[str, Any]
) -> Iterator[tuple[str, str | None]]:
    ours, theirs = first.get("digests", {}), other.get("digests", {})
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            yield key, theirs.get(key)


def differing(shards: Sequence[ShardFolder]) -> Iterator[str]:
    """What was not the same on all machines, though the schedule was: each in one line."""
    first = shards[0]
    for shard in shards[1:]:
        keys = [key for key, _ in _other_digests(first.receipt, shard.receipt)]
        if keys:
            listing = series([named(key) for key in keys[:3]])
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            yield (
                f"{shard.shard}: {listing}{more} differ from {first.shard}: what its trials "
                "started from was made anew there"
            )
        programs = [each.receipt.get("agent", {}).get("sha256") for each in (first, shard)]
        if programs[0] != programs[1]:
            yield f"{shard.shard}: the agent's program is another file than that of {first.shard}"


def merged_shards(folder: RunFolder) -> MergedShards | None:
    """Which shards a folder was merged from; None if it was not."""
    try:
        return msgspec.json.decode(folder.folder.read(SHARDS), type=MergedShards)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{visible(folder.at(SHARDS))}: {visible(str(error))}") from error
