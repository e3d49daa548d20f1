"""Run folders of agent programs: the saved output of one run, with the sidecar beside it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from twoarm.programs.failure import agent, infra, judged
from twoarm.programs.folder import Folder
from twoarm.programs.format import Attempt, Failed, Refusal
from twoarm.programs.moment import between, seconds
from twoarm.programs.sidecar import NAME, Sidecar
from twoarm.programs.tokens import Spend
from twoarm.programs.uptake import Calls
from twoarm.runs.exit_codes import NEVER_RAN, never_ran

# The names under which the standard output of an agent may be saved.
OUTPUTS = ("events.jsonl", "stream.jsonl", "result.json", "stdout.json", "stdout.txt")
# The tag of a run whose output shows nothing of it.
NO_EVENT = "no_event"


class AgentOutput(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the output of an agent says about its run."""

    name: str
    agent: str
    failure: Failed | None
    # What the provider last said, if the last events are retries; None if not, or not shown.
    waiting: Refusal | None
    # The agent's own time; None where only the sidecar's clock is left.
    duration_seconds: float | None
    # The times of the first and the last event, for a run that nobody timed.
    first_event: float | None
    last_event: float | None
    # Whether the output has no end of its own.
    cut: bool
    cost_usd: float | None
    spends: tuple[Spend, ...] | None
    took_steps: bool
    step_count: int | None
    tool_call_count: int | None
    # None where the output does not show which tools were called.
    calls: Calls | None
    model: str | None
    version: str | None
    session_id: str | None
    caveats: tuple[str, ...]
    # What a caveat is about, by its code.
    about: Mapping[str, Sequence[str]] = {}


def output_of(folder: Folder) -> str | None:
    """The saved output of the agent; two of them are one too many."""
    outputs = [name for name in OUTPUTS if name in folder]
    if len(outputs) > 1:
        listing = " and ".join(outputs)
        raise folder.refuse(f"{listing} in one folder; keep the output of one run per folder")
    return outputs[0] if outputs else None


def shown_output(folder: Folder) -> str:
    """The saved output of the agent, which a run page cannot do without."""
    name = output_of(folder)
    if name is None:
        raise folder.refuse("the program left no output")
    return name


def claim(folder: Folder, others: Iterable[str] = ()) -> Sequence[str]:
    """The file that makes a folder a run folder."""
    for name in (*OUTPUTS, *others, NAME):
        if name in folder:
            return (name,)
    return ()


def without_events(
    folder: Folder, sidecar: Sidecar, name: str, program: str, waiting: Refusal | None = None
) -> AgentOutput:
    """The output of a program that ended before its first event.

    Refused where nobody says how it ended, and where it ended well and printed something else.
    """
    code = sidecar.agent_exit_code
    well = sidecar.ended_by == "exit" and not code and folder.skipped
    if sidecar.ended_by is None or well:
        raise folder.refuse(f"no event of {program} in it", name)
    ended = f" (exit code {code})" if code else ""
    return AgentOutput(
        name=name,
        agent=program,
        failure=agent(f"no event was printed{ended}"),
        waiting=waiting,
        duration_seconds=None,
        first_event=None,
        last_event=None,
        cut=True,
        cost_usd=None,
        spends=None,
        took_steps=False,
        step_count=None,
        tool_call_count=None,
        calls=None,
        model=None,
        version=None,
        session_id=None,
        caveats=(NO_EVENT,),
    )


def finish(folder: Folder, sidecar: Sidecar, output: AgentOutput) -> Attempt:
    """What the output says and what the sidecar adds, as one attempt."""
    started, ended = seconds(sidecar.started_at_utc), seconds(sidecar.ended_at_utc)
    caveats = [*output.caveats, *(["noise_in_output"] if folder.skipped else [])]
    duration = _duration(folder, sidecar, output, caveats)
    failure = _failure(sidecar, output)
    if failure is None and sidecar.acceptance_exit_code is None:
        raise folder.refuse(
            "acceptance_exit_code is null, but the agent finished; "
            "write the exit code of the acceptance command",
            NAME,
        )
    count, first_pass = _acceptance(sidecar.acceptance_command, output.calls)
    return Attempt(
        where=folder.where(output.name),
        task_id=sidecar.task_id,
        repeat=sidecar.repeat,
        success=sidecar.acceptance_exit_code == 0,
        failure=failure,
        duration_seconds=duration,
        started=started if started is not None else output.first_event,
        ended=ended if ended is not None else output.last_event,
        cost_usd=output.cost_usd,
        spends=output.spends,
        took_steps=output.took_steps,
        document=folder.read(NAME),
        configuration=_configuration(sidecar, output),
        scope="",
        caveats=tuple(caveats),
        step_count=output.step_count,
        tool_call_count=output.tool_call_count,
        calls=output.calls,
        acceptance_cmd_count=count,
        acceptance_first_pass=first_pass,
        agent_exit_code=sidecar.agent_exit_code,
        acceptance_exit_code=sidecar.acceptance_exit_code,
        setup_exit_code=sidecar.setup_exit_code,
        arm_setup_exit_code=sidecar.arm_setup_exit_code,
        score=sidecar.score,
        checks=sidecar.checks,
        run_id=sidecar.run_id,
        model=output.model or sidecar.model,
        agent=output.agent,
        session_id=output.session_id,
        acceptance_command=sidecar.acceptance_command,
        grader=sidecar.grader,
        skipped_lines=folder.skipped,
        about=output.about,
    )


def _configuration(sidecar: Sidecar, output: AgentOutput) -> tuple[tuple[str, Any], ...]:
    return (("model", output.model or sidecar.model), ("version", output.version))


def _duration(folder: Folder, sidecar: Sidecar, output: AgentOutput, caveats: list[str]) -> float:
    """The runner's clock, else the agent's own, else the time between the events."""
    started, ended = seconds(sidecar.started_at_utc), seconds(sidecar.ended_at_utc)
    wall = between(started, ended)
    if started is not None and ended is not None and wall is None:
        raise folder.refuse("ended_at_utc is before started_at_utc", NAME)
    if sidecar.duration_seconds is not None:
        return sidecar.duration_seconds
    duration = output.duration_seconds
    if output.cut and duration is not None and wall is not None:
        # What a killed agent last wrote says nothing about how long it was waited for.
        duration = max(duration, wall)
    if duration is None and wall is not None:
        duration = wall
        caveats.append("duration_wall_clock")
    if duration is None:
        duration = between(output.first_event, output.last_event)
        caveats.append("duration_lower_bound")
    if duration is None:
        raise folder.refuse("no duration; write started_at_utc and ended_at_utc", NAME)
    return duration


def _failure(sidecar: Sidecar, output: AgentOutput) -> Failed | None:
    """A run that was never set up is infra, whatever its output says."""
    if sidecar.setup_exit_code:
        return infra(f"task setup failed with exit code {sidecar.setup_exit_code}")
    if sidecar.arm_setup_exit_code:
        return infra(f"arm setup failed with exit code {sidecar.arm_setup_exit_code}")
    failure = judged(
        output.failure, cut=output.cut, waiting=output.waiting, ended_by=sidecar.ended_by
    )
    if failure is None and never_ran(sidecar.agent_exit_code, sidecar.acceptance_exit_code):
        return infra(NEVER_RAN)
    return failure


def _acceptance(wanted: str | None, calls: Calls | None) -> tuple[int | None, bool | None]:
    if wanted is None or calls is None or "command" not in calls.shows:
        return None, None
    ran = [call for call in calls.made if (call.command or "").strip() == wanted.strip()]
    if not ran or ran[0].failed is None:
        return len(ran), None
    return len(ran), not ran[0].failed
