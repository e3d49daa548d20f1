"""Shards into one run folder like any other: every trial once, and nothing that does not fit."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from twoarm.errors import InputError, OutputError, UsageError
from twoarm.files.copy import copy_tree
from twoarm.files.write import Output, write
from twoarm.run.changes import shown
from twoarm.run.ledger import DOUBTS, MERGING, TREES, TRIAL, UNCHECKED, RunFolder, unwritable
from twoarm.run.merged import SHARDS, FromShard, MergedShards
from twoarm.run.parts import refuse_forged
from twoarm.run.place import new_token
from twoarm.run.receipt import (
    RECEIPT,
    REGRADED,
    file_digests,
    receipt_output,
    regraded_from,
    told_by_folder,
)
from twoarm.run.report import is_collected, merged_lines, refuse_other_lines
from twoarm.run.schedule import SCHEMA, frozen_bytes
from twoarm.run.shard import Shard, sharded
from twoarm.run.tree import file_digest, lies_in
from twoarm.runs.study import COLLECTED, SCHEDULE
from twoarm.text.escape import counted, named, numbered, series, visible

# How a shard may have ended to be merged: all done, or its share of the budget spent.
_ENDED = ("done", "budget")
# Tables that are put together: of trees by task, and of doubts by trial.
_TABLES = (TREES, DOUBTS, UNCHECKED)


class _Agent(msgspec.Struct, frozen=True):
    sha256: str | None = None


class _Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge takes from the receipt of a shard; it counts the runs itself."""

    schema: str
    twoarm: str
    schedule_sha256: str
    end: str
    agent: _Agent
    digests: dict[str, str | None]
    budget: dict[str, Any]
    files_sha256: dict[str, str]


# What is the same for all shards, or that of the first.
_KEPT = ("schema", "twoarm", "agent", "digests", "isolation", "looks")


class ShardFolder:
    """The run folder of one shard; nothing is written to it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = RunFolder(path)
        self.frozen = self.folder.frozen()
        self.machine = self.folder.machine()
        if self.machine.shard is None:
            raise UsageError(
                f"{visible(path)}: a whole run, not a shard, so there is nothing to merge"
            )
        if self.folder.held_by_another():
            raise UsageError(
                f"{visible(path)}: a run is going on there; wait until it ends, or --stop it"
            )
        self.shard: Shard = self.machine.shard
        if self.frozen.schema != SCHEMA:
            raise InputError(
                f"{visible(path)}: {SCHEDULE} is from a version of twoarm that had no shards"
            )
        refuse_forged(self.frozen, self.folder.at(SCHEDULE))
        self.planned = sharded(self.frozen, self.shard)
        self.receipt, self.told = self._receipt()
        self.runs = {run.trial.id: run for run in self.folder.runs()}
        self.attempts = list(self.folder.attempts())
        self.tables = {name: self._table(name) for name in _TABLES}

    def _receipt(self) -> tuple[_Receipt, dict[str, Any]]:
        """The receipt as far as it is needed, and all of it."""
        try:
            text = self.folder.folder.read(RECEIPT)
            told = msgspec.json.decode(text, type=dict[str, Any])
            receipt = msgspec.convert(told, _Receipt)
        except FileNotFoundError as error:
            raise self._unfinished(f"ended before it wrote {RECEIPT}") from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(
                f"{visible(self.folder.at(RECEIPT))}: {visible(str(reason))}; put it back, or let "
                f"twoarm run --resume {visible(self.path)} write it again"
            ) from error
        if receipt.schedule_sha256 != file_digest(self.folder.at(SCHEDULE)):
            # It has grown since.
            raise self._unfinished(f"ended before it wrote {RECEIPT} again")
        return receipt, told

    def _unfinished(self, how: str, partial: str = "leave it out") -> UsageError:
        return UsageError(
            f"{visible(self.path)}: {self.shard} {how}; finish it with twoarm run --resume "
            f"{visible(self.path)}, or {partial} with --partial"
        )

    def _table(self, name: str) -> dict[str, str]:
        try:
            return msgspec.json.decode(self.folder.folder.read(name), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"{visible(self.folder.at(name))}: {visible(str(reason))}") from error

    def check(self, *, partial: bool) -> None:
        """Refuse a shard that is not whole, not finished, or has what is not its own."""
        own = {trial.id for trial in self.planned.trials}
        now = dict(file_digests(self.folder, self.runs.values(), self.attempts))
        then = self.receipt.files_sha256
        for made in (*self.runs.values(), *self.attempts):
            if made.trial.id not in own:
                raise InputError(
                    f"{visible(self.path)}: {visible(made.trial.id)} is not a trial of {self.shard}"
                )
        if any(path.endswith(TRIAL) for path in now.keys() - then.keys()):
            # It was resumed since.
            raise self._unfinished(f"ended before it wrote {RECEIPT} again")
        infra = [attempt for attempt in self.attempts if attempt.state == "infra"]
        left = own - self.runs.keys()
        if self.receipt.end == "done":
            # Tried as often as it may be.
            left -= {attempt.trial.id for attempt in infra}
        if left and self.receipt.end != "budget" and not partial:
            trials = f"{len(left)} of {counted(len(own), 'trial')} not done"
            raise self._unfinished(f"is not finished, with {trials}", "merge what is there")
        for path in sorted(now.keys() | then.keys()):
            if now.get(path) != then.get(path):
                raise InputError(
                    f"{visible(self.folder.at(path))}: changed since {RECEIPT} was written; put it "
                    f"back, or let twoarm run --resume {visible(self.path)} collect the runs as "
                    "they are now"
                )
        settled = (*self.runs.values(), *infra)
        if not is_collected(self.folder, self.planned, settled):
            raise UsageError(
                f"{visible(self.path)}: {COLLECTED} does not have all of its runs; let twoarm run "
                f"--resume {visible(self.path)} write it again"
            )
        refuse_other_lines(self.folder, self.shard, self.planned, settled)
        for run in self.runs.values():
            self.folder.check_whole(run)


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
        raise UsageError(
            f"{numbered('shard', missing, first.shard.of)} missing; name every shard, or "
            "merge what is there with --partial"
        )
    return [known[number] for number in sorted(known)]


def _refuse_other(first: ShardFolder, other: ShardFolder) -> None:
    """Refuse a shard of another run: by the key that differs, and both values."""
    if other.shard.of != first.shard.of:
        raise UsageError(
            f"{visible(other.path)} is {other.shard}, but {visible(first.path)} is {first.shard}"
        )
    for key, ours, theirs in first.frozen.differences(other.frozen):
        raise UsageError(
            f"{visible(other.path)}: {visible(key)} is {shown(theirs)}, but {shown(ours)} in "
            f"{visible(first.path)}: these shards have different schedules"
        )
    for key in ("isolation", "trial_usd"):
        ours, theirs = getattr(first.machine, key), getattr(other.machine, key)
        if ours != theirs:
            raise UsageError(
                f"{visible(other.path)}: {key} is {shown(theirs)}, but {shown(ours)} in "
                f"{visible(first.path)}: all shards have to be run the same way"
            )
    graded = [regraded_from(each.folder) for each in (first, other)]
    unlike = [told is not None and (told.schedule_sha256, told.finished) for told in graded]
    if unlike[0] != unlike[1]:
        raise UsageError(
            f"{visible(other.path)} and {visible(first.path)}: not graded the same way; regrade "
            "all shards, or merge first and regrade afterwards"
        )


def refuse_target(shards: Sequence[ShardFolder], out: str) -> None:
    """Refuse a folder that is a shard, is in one, or has anything in it."""
    for shard in shards:
        if lies_in(out, shard.path):
            raise UsageError(
                f"--out {visible(out)}: inside {visible(shard.path)}, and nothing is written to a "
                "shard"
            )
    folder = RunFolder(out)
    if os.path.lexists(folder.path):
        folder.refuse_half_merged()
        try:
            names = os.listdir(folder.path)
        except OSError as error:
            raise unwritable(folder.path, error) from error
        if names:
            raise UsageError(f"{visible(folder.path)} is not empty; choose another with --out")


def merge(shards: Sequence[ShardFolder], out: str) -> MergedShards:
    """Everything of the shards in a new run folder; nothing of it if anything fails."""
    refuse_target(shards, out)
    first = shards[0]
    folder = RunFolder(out)
    merged = MergedShards(
        of=first.shard.of, merged=tuple(_from_shard(shard, first) for shard in shards)
    )
    machine = replace(
        first.machine,
        token=new_token(),
        jobs=max(shard.machine.jobs for shard in shards),
        jobs_asked=max(shard.machine.jobs_asked or 0 for shard in shards) or None,
        budget_usd=max(shard.machine.budget_usd or 0.0 for shard in shards) or None,
        shard=None,
    )
    there = os.path.isdir(folder.path)
    try:
        os.makedirs(folder.path, exist_ok=True)
        # Until it is gone, nobody takes the folder for a run.
        folder.folder.write(MERGING, b"")
        folder.hold(machine.token)
        # Who looks at a folder without a schedule would not look for the mark.
        folder.change(machine)
        folder.folder.write(SCHEDULE, frozen_bytes(first.frozen))
        folder.folder.made("runs").close()
        for shard in shards:
            _copy_runs(shard, folder)
        _merge_files(shards, folder, merged)
        folder.folder.remove(MERGING)
    except BaseException as error:
        _clear(folder, made=not there)
        if isinstance(error, OSError):
            where = visible(str(error.filename or out))
            raise OutputError(f"{where}: {error.strerror}; nothing was merged") from error
        raise
    finally:
        folder.release()
    return merged


def _clear(folder: RunFolder, *, made: bool) -> None:
    """Remove what there is of a merge that has failed, its mark at the end."""
    with suppress(OSError):
        for name in sorted(folder.folder.names(), key=lambda name: name == MERGING):
            folder.folder.remove(name)
        if made:
            os.rmdir(folder.path)


def _copy_runs(shard: ShardFolder, folder: RunFolder) -> None:
    """The folders of its runs and attempts, and no others that somebody may have made."""
    paths = [f"runs/{name}" for name in shard.runs]
    paths += [f".attempts/{attempt.id}" for attempt in shard.attempts]
    for path in paths:
        with (
            shard.folder.folder.within(path) as source,
            folder.folder.within(path, make=True) as target,
        ):
            copy_tree(source, target)


def _merge_files(shards: Sequence[ShardFolder], folder: RunFolder, merged: MergedShards) -> None:
    """What stands beside the runs: the journal by time, digests, doubts, lines and the receipt."""
    root, frozen = folder.folder, shards[0].frozen
    root.write(SHARDS, msgspec.json.encode(merged) + b"\n")
    events = [event for shard in shards for event in _events(shard)]
    events.sort(key=_time)
    root.write("journal.jsonl", b"".join(msgspec.json.encode(e) + b"\n" for e in events))
    for name in _TABLES:
        # The first has the word: what differs is in the receipt.
        whole = {
            key: value for shard in reversed(shards) for key, value in shard.tables[name].items()
        }
        if whole:
            root.write(name, msgspec.json.encode(whole, order="sorted"))
    with suppress(FileNotFoundError):
        root.write(REGRADED, shards[0].folder.folder.read(REGRADED))
    lines = merged_lines([shard.folder for shard in shards], frozen, merged.of, merged.missing)
    collected = Output(
        path=folder.at(COLLECTED), content=[b"".join(lines)], append=False, named=False
    )
    write([collected])
    # With the digests of all that is there by now.
    write([receipt_output(folder, _receipt(shards, merged, folder))])


def _events(shard: ShardFolder) -> Iterator[dict[str, Any]]:
    with suppress(FileNotFoundError):
        for line in shard.folder.folder.read("journal.jsonl").splitlines():
            with suppress(ValueError):
                told = msgspec.json.decode(line, type=dict[str, Any])
                yield {**told, "shard": shard.shard.number}


def _time(event: Mapping[str, Any]) -> float:
    at = event.get("at")
    return at if isinstance(at, int | float) else 0.0


def _receipt(
    shards: Sequence[ShardFolder], merged: MergedShards, folder: RunFolder
) -> dict[str, Any]:
    """What the folder says itself, how it ended, and what was so on the first machine."""
    first = shards[0]
    ends = {shard.receipt.end for shard in shards}
    end = "budget" if "budget" in ends else "done"
    if merged.missing or ends - set(_ENDED):
        end = "stopped"
    return {
        **{key: first.told[key] for key in _KEPT if key in first.told},
        "budget": {**first.receipt.budget, "usd": folder.machine().budget_usd},
        "end": end,
        **told_by_folder(folder, first.frozen),
    }


def _from_shard(shard: ShardFolder, first: ShardFolder) -> FromShard:
    return FromShard(
        shard=shard.shard.number,
        receipt_sha256=file_digest(shard.folder.at(RECEIPT)),
        end=shard.receipt.end,
        done=len(shard.runs),
        agent_sha256=shard.receipt.agent.sha256,
        other_digests=dict(_other_digests(first.receipt.digests, shard.receipt.digests)),
    )


def _other_digests(
    ours: Mapping[str, str | None], theirs: Mapping[str, str | None]
) -> Iterator[tuple[str, str | None]]:
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            yield key, theirs.get(key)


def differing(shards: Sequence[ShardFolder]) -> Iterator[str]:
    """What was not the same on all machines, though the schedule was: each in one line."""
    first = shards[0]
    for shard in shards[1:]:
        keys = [key for key, _ in _other_digests(first.receipt.digests, shard.receipt.digests)]
        if keys:
            listing = series([named(key) for key in keys[:3]])
            more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
            yield (
                f"{shard.shard}: not the same as in {first.shard}: {listing}{more}; its machine "
                "made other files from the same suite"
            )
        if first.receipt.agent.sha256 != shard.receipt.agent.sha256:
            yield f"{shard.shard}: the agent's program is not the same file as in {first.shard}"
        budgets = [each.machine.budget_usd for each in (shard, first)]
        if budgets[0] != budgets[1]:
            theirs, ours = (
                "no budget" if usd is None else f"a budget of ${usd:g}" for usd in budgets
            )
            yield (
                f"{shard.shard} was run with {theirs}, and {first.shard} with {ours}; give every "
                "shard the same --budget, that of the whole run"
            )
