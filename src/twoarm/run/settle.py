"""What became of an attempt: `collect` reads its folder, and says whose failure it was."""

import os
import time
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from twoarm.collect.command import USAGE
from twoarm.collect.gather import CollectOptions, Place, gather
from twoarm.collect.run_folder import OUTPUTS
from twoarm.collect.sidecar import NAME
from twoarm.errors import BadRunsError, InputError
from twoarm.record import Run
from twoarm.run.agents.command import UNREAD
from twoarm.run.ledger import OUTCOME, TRIAL, Attempted, read_outcome, write_file

# The exit code of a process that was killed.
_KILLED = 137

_RUN = msgspec.json.Decoder(Run)


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """How run folders of this agent are read."""

    format: str
    # The path of a price table.
    prices: str | None
    acceptance_commands: dict[str, str]
    # By arm.
    models: dict[str, str | None]


def settle(folder: str, attempted: Attempted, reader: Reader) -> Attempted:
    """An attempt whose folder is complete: a run, or an infra failure."""
    facts = read_outcome(folder)
    for name, size in facts.get("files", {}).items():
        if os.path.getsize(os.path.join(folder, name)) != size:
            return _ended(attempted, "lost", f"{name} is not as long as it was", facts)
    with open(os.path.join(folder, NAME), "wb") as file:
        file.write(_sidecar(attempted, facts, reader))
    if facts.get("ended_by") not in (None, "exit"):
        _without_torn_line(folder)
    if "not_started" in facts:
        _say_failure(folder, "infra", f"the agent cannot be started: {facts['not_started']}")
    never_ran = bool(facts["setup_exit_code"]) or "not_started" in facts
    name = UNREAD if never_ran else reader.format
    found = _read(folder, attempted.arm, name, reader.prices)
    if isinstance(found, str):
        _set_aside(folder, found)
        name = UNREAD
        found = _read(folder, attempted.arm, name, reader.prices)
    if isinstance(found, str):
        return _ended(attempted, "lost", found, facts)
    cost = 0.0 if never_ran else found.total_cost_usd
    complete = cost is not None and "spend_incomplete" not in (found.tags or ())
    charged = cost if complete else max(cost or 0.0, attempted.reserved_usd or 0.0) or None
    infra = found.failure == "infra"
    return msgspec.structs.replace(
        attempted,
        state="infra" if infra else "run",
        reason=found.failure_reason,
        cost_usd=cost,
        charged_usd=charged,
        format=name,
        success=None if infra else found.success,
        failure=found.failure or None,
        facts={**facts, "files": _sizes(folder)},
    )


def _sizes(folder: str) -> dict[str, int]:
    """The files of a run as they are published, but for those that say so, whole or half."""
    own = (TRIAL, f"{TRIAL}.tmp", OUTCOME)
    with os.scandir(folder) as entries:
        found = {
            entry.name: entry.stat().st_size
            for entry in entries
            if entry.is_file(follow_symlinks=False) and entry.name not in own
        }
    return dict(sorted(found.items()))


def bury(folder: str, attempted: Attempted, reader: Reader, seconds: float) -> Attempted:
    """An attempt whose supervisor was killed while the runner was not: nobody but the agent can."""
    ended = time.time()
    facts = {
        "setup_exit_code": 0,
        "agent_exit_code": _KILLED,
        "ended_by": "exit",
        "duration_seconds": round(seconds, 3),
        "started_at_utc": _utc(ended - seconds),
        "ended_at_utc": _utc(ended),
    }
    reason = "its supervisor was killed"
    for name in os.listdir(folder):
        if name != TRIAL:
            os.rename(os.path.join(folder, name), os.path.join(folder, f"unread.{name}"))
    write_file(os.path.join(folder, NAME), _sidecar(attempted, facts, reader))
    _say_failure(folder, "agent", reason)
    return msgspec.structs.replace(
        attempted,
        state="run",
        reason=reason,
        charged_usd=attempted.reserved_usd,
        format=UNREAD,
        success=False,
        failure="agent",
        facts={**facts, "files": _sizes(folder)},
    )


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def abandon(attempted: Attempted, reason: str, *, interrupted: bool) -> Attempted:
    """An attempt that left no complete folder: it may have cost what it was allowed."""
    return _ended(attempted, "interrupted" if interrupted else "lost", reason, {})


def _ended(attempted: Attempted, state: Any, reason: str, facts: dict[str, Any]) -> Attempted:
    return msgspec.structs.replace(
        attempted,
        state=state,
        reason=reason,
        charged_usd=attempted.reserved_usd,
        facts=facts,
    )


def _sidecar(attempted: Attempted, facts: dict[str, Any], reader: Reader) -> bytes:
    now = _utc(time.time())
    known = {
        "task_id": attempted.task,
        "repeat": attempted.repeat,
        "arm": attempted.arm,
        "run_id": attempted.id,
        "model": reader.models[attempted.arm],
        "acceptance_command": reader.acceptance_commands[attempted.task],
        "acceptance_exit_code": facts.get("acceptance_exit_code"),
        "agent_exit_code": facts.get("agent_exit_code"),
        "arm_setup_exit_code": facts["setup_exit_code"],
        "started_at_utc": facts.get("started_at_utc", now),
        "ended_at_utc": facts.get("ended_at_utc", now),
        "ended_by": facts.get("ended_by"),
        "duration_seconds": facts.get("duration_seconds"),
    }
    return msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n"


def _without_torn_line(folder: str) -> None:
    """An agent that was stopped may have been writing: the half line is no event."""
    for name in OUTPUTS:
        path = os.path.join(folder, name)
        if not name.endswith(".jsonl") or not os.path.exists(path):
            continue
        with open(path, "r+b") as file:
            at = file.seek(0, os.SEEK_END)
            while at > 0:
                start = max(0, at - (1 << 16))
                file.seek(start)
                found = file.read(at - start).rfind(b"\n")
                at = start
                if found >= 0:
                    at += found + 1
                    break
            file.truncate(at)


def _read(folder: str, arm: str, format_name: str, prices: str | None) -> Run | str:
    """The record of a run folder, or why there is none."""
    try:
        with gather(
            format_name, [Place(arm=arm, path=folder)], CollectOptions(prices=prices)
        ) as collection:
            for line in collection.lines():
                return _RUN.decode(line)
    except BadRunsError as error:
        return error.problems[0].message
    except InputError as error:
        return str(error)
    return "no run in it"


def _set_aside(folder: str, reason: str) -> None:
    """Output that nobody can read stays, under another name; the run is the agent's failure."""
    for name in (*OUTPUTS, USAGE):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            os.rename(path, os.path.join(folder, f"unread.{name}"))
    _say_failure(folder, "agent", f"its output cannot be read: {reason}")


def _say_failure(folder: str, failure: Literal["agent", "infra"], reason: str) -> None:
    """Whose failure it was, where `collect` looks for it."""
    said = {"failure": failure, "reason": reason}
    write_file(os.path.join(folder, USAGE), msgspec.json.encode({"failure": said}))
