"""The sidecar `run.json`: what an agent program cannot know about its own run."""

from datetime import datetime
from typing import Any

import msgspec

from twoarm.programs.failure import EndedBy
from twoarm.programs.folder import Folder
from twoarm.runs.record import (
    MaybeChecks,
    MaybeExitCode,
    MaybeNumber,
    MaybeScore,
    NonEmptyText,
    Repeat,
)

NAME = "run.json"


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of an agent program, as reported by whatever started it."""

    task_id: NonEmptyText
    repeat: Repeat | None
    acceptance_exit_code: MaybeExitCode
    started_at_utc: datetime | None
    ended_at_utc: datetime | None
    acceptance_command: str | None = None
    setup_exit_code: MaybeExitCode = None
    arm_setup_exit_code: MaybeExitCode = None
    agent_exit_code: MaybeExitCode = None
    ended_by: EndedBy | None = None
    duration_seconds: MaybeNumber = None
    score: MaybeScore = None
    checks: MaybeChecks = None
    arm: str | None = None
    model: str | None = None
    run_id: str | None = None
    resumed_from: str | None = None
    grader: str | None = None


_DECODER = msgspec.json.Decoder(Sidecar)

_MEANINGS = {
    "task_id": "what the agent was asked to do",
    "repeat": "which attempt at the task, from 1; null to number by start time",
    "acceptance_exit_code": "exit code of the acceptance command: 0 is success; "
    "null if it never ran",
    "started_at_utc": "when the agent was started; null if not known",
    "ended_at_utc": "when the agent ended; null if not known",
    "acceptance_command": "the command, to count how often the agent ran it itself",
    "setup_exit_code": "exit code of the task's setup; not 0 makes the run an infra failure",
    "arm_setup_exit_code": "exit code of the arm's setup; not 0 makes the run an infra failure",
    "agent_exit_code": "exit code of the agent; kept, never used to judge the run",
    "ended_by": "how the run ended: `exit`, by itself; `timeout`, `budget`, `output`, `memory`, at "
    "a limit of its runner, an agent failure whatever the output says, except a timeout while the "
    "provider refuses it; `killed`, from outside and not for anything the agent did, an infra "
    "failure; null if not known",
    "duration_seconds": "how long the agent ran by the clock of its runner, "
    "which wins over its own",
    "score": "how much of the task was done, from 0 to 1; null if nobody says",
    "checks": "what each check of acceptance found, by its name: true, false, or null if not "
    "known; the same names in every run of a task",
    "arm": "what --arm-key arm looks at",
    "model": "the model, where the agent's output does not name it",
    "run_id": "any name for the run",
    "resumed_from": "codex: the folder of the run that was resumed, "
    "relative to this one; its tokens are subtracted",
    "grader": "the digest of what acceptance used; runs of one task with two of them are not "
    "compared",
}


def read_sidecar(folder: Folder, beside: str) -> Sidecar:
    """The sidecar of a run folder."""
    if NAME not in folder:
        raise folder.refuse(
            f"no {NAME} beside {beside}; an agent does not know whether it succeeded, "
            f"see `twoarm schema sidecar`"
        )
    sidecar = folder.decode(NAME, _DECODER)
    # Whoever is stopped may be writing.
    folder.lenient |= sidecar.ended_by not in (None, "exit")
    return sidecar


def sidecar_schema() -> dict[str, Any]:
    """The JSON Schema of `run.json`, made from the type that decodes it."""
    definitions = msgspec.json.schema_components([Sidecar], ref_template="#/$defs/{name}")[1]
    body: dict[str, Any] = definitions["Sidecar"]
    body.pop("title")
    body.pop("description")
    for name, meaning in _MEANINGS.items():
        body["properties"][name]["description"] = meaning
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "sidecar.schema.json",
        "title": "twoarm sidecar",
        "description": "What an agent program cannot know about its own run: "
        "one file run.json per run folder.",
        **body,
    }
