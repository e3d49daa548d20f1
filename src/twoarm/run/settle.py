"""What became of an attempt: `collect` reads its folder, and says whose failure it was."""

import os
import time
from collections.abc import Mapping
from itertools import chain, count
from typing import Any, Literal, NamedTuple

import msgspec

from twoarm.collect.gather import ArmPath, CollectOptions, gather
from twoarm.errors import BadRunsError, InputError
from twoarm.files.safe import OpenFolder
from twoarm.programs.command.launch import UNREAD
from twoarm.programs.command.record import USAGE, USAGE_UNREAD
from twoarm.programs.format import Refusal, Settings
from twoarm.programs.moment import utc_text
from twoarm.programs.prices import Prices
from twoarm.programs.run_folder import NO_EVENT, OUTPUTS
from twoarm.programs.sidecar import NAME
from twoarm.run.attempted import Attempted
from twoarm.run.ledger import OUTCOME, TRIAL, read_outcome
from twoarm.runs.record import Run
from twoarm.text.escape import visible

# The exit code of a process that was killed.
_KILLED = 137
# What a supervisor leaves besides files, if it was asked to.
_WORKSPACE = "workspace"
_LONGEST_NAME = 255

# Statuses with which a provider refuses a key, and charges nothing.
UNAUTHORIZED, FORBIDDEN = 401, 403

_RUN = msgspec.json.Decoder(Run)


class RunReader(msgspec.Struct, frozen=True, kw_only=True):
    """How run folders of this agent are read."""

    format: str
    prices: Mapping[str, Prices] | None
    acceptance_commands: dict[str, str]
    # By task.
    graders: Mapping[str, str]
    # By arm.
    models: dict[str, str | None]
    settings: Settings = Settings(scheduled=True)


def settle(folder: OpenFolder, attempted: Attempted, reader: RunReader) -> Attempted:
    """An attempt whose folder is complete: a run, or an infra failure."""
    facts = read_outcome(folder)
    if "tree_changed" in facts:
        changed = visible(facts["tree_changed"])
        return _ended(attempted, "lost", f"{changed} was changed in the tree", facts)
    if "not_judged" in facts:
        reason = f"acceptance could not be run: {visible(facts['not_judged'])}"
        return _ended(attempted, "lost", reason, facts)
    for name, size in facts.get("files", {}).items():
        if not folder.is_file(name) or folder.size(name) != size:
            return _ended(attempted, "lost", f"{name} is not as long as it was", facts)
    if facts.get("acceptance_exit_code") is not None or not _accepted(attempted, reader):
        facts["grader"] = reader.graders[attempted.task]
    _clear_the_way(folder)
    _put(folder, NAME, _sidecar(attempted, facts, reader))
    if "not_started" in facts:
        _say_failure(folder, "infra", f"the agent could not be run: {facts['not_started']}")
    never_ran = bool(facts["setup_exit_code"]) or "not_started" in facts
    name = UNREAD if never_ran else reader.format
    reading = _read(folder.path, attempted.arm, name, reader)
    if isinstance(reading, str):
        return _unread(folder, attempted, facts, f"its output cannot be read: {reading}")
    run = reading.run
    answered = not run.failure or bool(run.output_tokens) or bool(run.tool_call_count)
    free = never_ran or (reading.status in (UNAUTHORIZED, FORBIDDEN) and not answered)
    cost = 0.0 if free else run.total_cost_usd
    complete = cost is not None and "spend_incomplete" not in (run.tags or ())
    charged = cost if free or complete else max(cost or 0.0, attempted.reserved_usd or 0.0) or None
    infra = run.failure == "infra"
    return msgspec.structs.replace(
        attempted,
        state="infra" if infra else "run",
        reason=run.failure_reason,
        cost_usd=cost,
        charged_usd=charged,
        format=name,
        success=None if infra else run.success,
        failure=run.failure or None,
        facts={
            **facts,
            "files": _sizes(folder),
            "answered": answered and not never_ran,
            **({} if reading.status is None else {"refused": reading.status}),
            **({} if reading.unread is None else {"unread": reading.unread}),
        },
    )


def _accepted(attempted: Attempted, reader: RunReader) -> bool:
    """Whether acceptance is ours; a task of Harbor has a verifier of its own."""
    return bool(reader.acceptance_commands[attempted.task])


def regraded(
    folder: OpenFolder, run: Attempted, facts: dict[str, Any], reader: RunReader
) -> Attempted | str:
    """A run whose acceptance was run again, with all else as it was; or why it cannot be read."""
    facts = {**facts, "grader": reader.graders[run.task]}
    _put(folder, NAME, _sidecar(run, facts, reader))
    success = False
    # Output that nobody can read is a failed run, whatever it left.
    if run.format is not None:
        reading = _read(folder.path, run.arm, run.format, reader)
        if isinstance(reading, str):
            return f"its output cannot be read: {reading}"
        success = reading.run.success
    return msgspec.structs.replace(run, success=success, facts={**facts, "files": _sizes(folder)})


def _unread(
    folder: OpenFolder, attempted: Attempted, facts: dict[str, Any], reason: str
) -> Attempted:
    """Output that nobody can read stays, under another name; the run is the agent's failure."""
    for name in (*OUTPUTS, USAGE):
        if folder.look(name) is not None:
            _set_aside(folder, name)
    return _failed(folder, attempted, {**facts, "unread": reason}, reason)


def _failed(
    folder: OpenFolder, attempted: Attempted, facts: dict[str, Any], reason: str
) -> Attempted:
    """A run that is its agent's failure, and may have cost what it was allowed."""
    _say_failure(folder, "agent", reason)
    return msgspec.structs.replace(
        attempted,
        state="run",
        reason=reason,
        charged_usd=attempted.reserved_usd,
        success=False,
        failure="agent",
        facts={**facts, "files": _sizes(folder)},
    )


def _sizes(folder: OpenFolder) -> dict[str, int]:
    """The sizes of a run's files as published, except those that say so, whole or half."""
    own = (TRIAL, f"{TRIAL}.tmp", OUTCOME)
    return {
        name: folder.size(name)
        for name in folder.names()
        # No other name can be written down.
        if name not in own and name.isprintable() and folder.is_file(name)
    }


def _clear_the_way(folder: OpenFolder) -> None:
    """Folders, links and pipes are not files of a run, wherever they came from."""
    for name in folder.names():
        kept = folder.is_folder(name) if name == _WORKSPACE else folder.is_file(name)
        if not kept:
            _set_aside(folder, name)


def _set_aside(folder: OpenFolder, name: str) -> None:
    """Give whatever it is another name, under which nothing reads it."""
    for other in chain((f"unread.{name}",), (f"unread.{number}" for number in count(1))):
        if len(os.fsencode(other)) <= _LONGEST_NAME and folder.look(other) is None:
            folder.rename(name, folder, other)
            return


def _put(folder: OpenFolder, name: str, text: bytes) -> None:
    """A file of our own; a resume writes it again if it is not whole."""
    with open(folder.create(name), "wb") as file:
        file.write(text)


def supervisor_died(
    folder: OpenFolder, attempted: Attempted, reader: RunReader, seconds: float, reason: str
) -> Attempted:
    """An attempt whose supervisor was killed and whose runner was not: only an agent does that."""
    ended = time.time()
    facts = {
        "setup_exit_code": 0,
        "agent_exit_code": _KILLED,
        "ended_by": "exit",
        "duration_seconds": round(seconds, 3),
        "started_at_utc": utc_text(ended - seconds),
        "ended_at_utc": utc_text(ended),
    }
    for name in folder.names():
        if name != TRIAL:
            _set_aside(folder, name)
    _put(folder, NAME, _sidecar(attempted, facts, reader))
    return _failed(folder, msgspec.structs.replace(attempted, format=UNREAD), facts, reason)


def key_refused(attempted: Attempted, refusal: Refusal, seconds: float) -> Attempted:
    """An attempt that was ended because its provider refuses the key: it has cost nothing."""
    return msgspec.structs.replace(
        attempted,
        state="infra",
        reason=refusal.message,
        cost_usd=0.0,
        charged_usd=0.0,
        failure="infra",
        facts={"refused": refusal.status, "duration_seconds": round(seconds, 3)},
    )


def abandon(
    attempted: Attempted, reason: str, *, interrupted: bool, begun: bool = True
) -> Attempted:
    """An attempt that left no complete folder: it may have cost all that it was allowed to, if it
    was begun."""
    ended = _ended(attempted, "interrupted" if interrupted else "lost", reason, {})
    return ended if begun else msgspec.structs.replace(ended, cost_usd=0.0, charged_usd=0.0)


def _ended(attempted: Attempted, state: Any, reason: str, facts: dict[str, Any]) -> Attempted:
    return msgspec.structs.replace(
        attempted,
        state=state,
        reason=reason,
        charged_usd=attempted.reserved_usd,
        facts=facts,
    )


def _sidecar(attempted: Attempted, facts: dict[str, Any], reader: RunReader) -> bytes:
    now = utc_text(time.time())
    known = {
        "task_id": attempted.task,
        "repeat": attempted.repeat,
        "arm": attempted.arm,
        "run_id": attempted.id,
        "model": reader.models[attempted.arm],
        "acceptance_command": reader.acceptance_commands[attempted.task] or None,
        "acceptance_exit_code": facts.get("acceptance_exit_code"),
        "score": facts.get("score"),
        "checks": facts.get("checks"),
        "agent_exit_code": facts.get("agent_exit_code"),
        "arm_setup_exit_code": facts["setup_exit_code"],
        "started_at_utc": facts.get("started_at_utc", now),
        "ended_at_utc": facts.get("ended_at_utc", now),
        "ended_by": facts.get("ended_by"),
        "duration_seconds": facts.get("duration_seconds"),
        "grader": facts.get("grader"),
    }
    return msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n"


class _Reading(NamedTuple):
    """What `collect` made of a run folder."""

    run: Run
    # The status with which the provider refused, if that was the end of it.
    status: int | None
    # Why nothing is known of what the agent did; None if something is.
    unread: str | None


def _read(folder: str, arm: str, format_name: str, reader: RunReader) -> _Reading | str:
    """The record of a run folder, or why there is none."""
    options = CollectOptions(prices=reader.prices, settings=reader.settings)
    try:
        with gather(format_name, [ArmPath(arm=arm, path=folder)], options) as collection:
            unread = (
                str(caveat.message)
                for caveat in collection.caveats
                if caveat.code in (NO_EVENT, USAGE_UNREAD)
            )
            for line in collection.lines():
                return _Reading(
                    run=_RUN.decode(line),
                    status=next(iter(collection.refused), None),
                    unread=next(unread, None),
                )
    except BadRunsError as error:
        return error.problems[0].message
    except InputError as error:
        return str(error)
    return "no run in it"


def _say_failure(folder: OpenFolder, failure: Literal["agent", "infra"], reason: str) -> None:
    """Whose failure it was, where `collect` looks for it."""
    _put(folder, USAGE, msgspec.json.encode({"failure": {"failure": failure, "reason": reason}}))
