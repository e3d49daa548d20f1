"""mini-swe-agent: `*.traj.json` trajectories, with a SWE-bench report or a sidecar for success."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from twoarm.errors import Position, Problem
from twoarm.programs.failure import agent, infra
from twoarm.programs.folder import Folder
from twoarm.programs.format import Attempt, Failed, Format, Settings
from twoarm.programs.moment import Seconds, between
from twoarm.programs.run_folder import AgentOutput, finish
from twoarm.programs.sidecar import NAME, read_sidecar
from twoarm.programs.tokens import Count, Quantity, Spend, outside_cache
from twoarm.programs.uptake import Call, Calls
from twoarm.programs.version import unsupported
from twoarm.text.escape import named

SUFFIX = ".traj.json"
TRAJECTORY_FORMATS = ("mini-swe-agent-1", "mini-swe-agent-1.1")

# Ends that are the agent's own; any other one is the name of a Python exception.
SUBMITTED = "Submitted"
AGENT_ENDS = {
    "LimitsExceeded": "step or cost limit",
    "TimeExceeded": "time limit",
    "RepeatedFormatError": "repeated format errors",
}


class _Cached(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`prompt_tokens` includes what was cached."""

    prompt_tokens: Count
    completion_tokens: Count
    prompt_tokens_details: _Cached | None = None


class _Response(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    usage: _Usage | None = None


class _Action(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    command: str | None = None
    tool_call_id: str | None = None


class _Extra(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    response: _Response | None = None
    timestamp: Seconds | None = None
    returncode: int | None = None
    actions: list[_Action] | None = None
    exit_status: Any = None


class _Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    role: str
    content: msgspec.Raw = msgspec.Raw(b"null")
    extra: _Extra = _Extra()
    tool_call_id: str | None = None


class _ModelStats(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    instance_cost: Quantity | None = None
    api_calls: Count | None = None


class _ModelConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    model_name: str | None = None


class _Config(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    model: _ModelConfig = _ModelConfig()


class _Info(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    model_stats: _ModelStats = _ModelStats()
    config: _Config = _Config()
    exit_status: str | None = None
    mini_version: str | None = None


class _Trajectory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    trajectory_format: str
    info: _Info
    messages: Sequence[_Message] = ()


class _Version(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    trajectory_format: str


TRAJECTORY = msgspec.json.Decoder(_Trajectory)
_VERSION = msgspec.json.Decoder(_Version)


class MiniSweAgent:
    """Trajectories of mini-swe-agent; the name of the file is the task."""

    name: ClassVar[str] = "mini-swe-agent"
    one_run_per_folder: ClassVar[bool] = False

    def recognizes(self, folder: Folder) -> bool:
        """A trajectory."""
        return any(name.endswith(SUFFIX) for name in folder.names)

    def claims(self, folder: Folder) -> Sequence[str]:
        """Every trajectory of the folder."""
        return sorted(name for name in folder.names if name.endswith(SUFFIX))

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """One trajectory."""
        version = folder.decode(name, _VERSION).trajectory_format
        if version not in TRAJECTORY_FORMATS:
            supported = " and ".join(TRAJECTORY_FORMATS)
            raise unsupported(folder, name, f"trajectory format {named(version)}", supported)
        document = folder.read(name)
        output = _parse_output(folder, name, folder.decode(name, TRAJECTORY))
        if NAME in folder:
            if len(self.claims(folder)) > 1:
                raise folder.refuse(
                    f"one {NAME} beside several trajectories; keep one run per folder"
                )
            yield finish(folder, read_sidecar(folder, name), output)
            return
        duration = between(output.first_event, output.last_event)
        if duration is None:
            raise folder.refuse(
                f"no times in it, so no duration; add a {NAME} with started_at_utc and "
                "ended_at_utc",
                name,
            )
        yield Attempt(
            where=folder.where(name),
            task_id=name.removesuffix(SUFFIX),
            repeat=None,
            success=None if output.failure is None else False,
            failure=output.failure,
            duration_seconds=duration,
            started=output.first_event,
            ended=output.last_event,
            cost_usd=output.cost_usd,
            spends=output.spends,
            took_steps=output.took_steps,
            document=document,
            configuration=(("model", output.model), ("version", output.version)),
            scope="",
            caveats=(*output.caveats, "duration_lower_bound"),
            step_count=output.step_count,
            tool_call_count=output.tool_call_count,
            calls=output.calls,
            model=output.model,
            agent=output.agent,
        )


record: type[Format] = MiniSweAgent


def _parse_output(folder: Folder, name: str, trajectory: _Trajectory) -> AgentOutput:
    where = folder.where(name)
    info, extras = trajectory.info, [message.extra for message in trajectory.messages]
    usages = [
        extra.response.usage
        for extra in extras
        if extra.response is not None and extra.response.usage is not None
    ]
    model = info.config.model.model_name
    times = [extra.timestamp for extra in extras if extra.timestamp is not None]
    failure = _verdict(info.exit_status)
    calls = _calls(trajectory.messages)
    return AgentOutput(
        name=name,
        agent="mini-swe-agent",
        failure=failure,
        duration_seconds=None,
        first_event=min(times, default=None),
        last_event=max(times, default=None),
        waiting=None,
        cut=not info.exit_status,
        cost_usd=info.model_stats.instance_cost,
        spends=(spend_of(usages, model, where),) if usages else None,
        took_steps=bool(info.model_stats.api_calls),
        step_count=info.model_stats.api_calls,
        tool_call_count=len(calls.made),
        calls=calls,
        model=model,
        version=info.mini_version,
        session_id=None,
        caveats=() if info.exit_status else ("spend_incomplete",),
    )


def _verdict(status: str | None) -> Failed | None:
    if status == SUBMITTED:
        return None
    if not status:
        return agent("no exit status was written")
    return agent(AGENT_ENDS[status]) if status in AGENT_ENDS else infra(status)


def spend_of(usages: list[_Usage], model: str | None, where: Position) -> Spend:
    """What calls of the model spent."""
    details = [usage.prompt_tokens_details for usage in usages]
    known = [detail.cached_tokens for detail in details if detail is not None]
    cached = sum(count or 0 for count in known)
    prompts = sum(usage.prompt_tokens for usage in usages)
    return Spend(
        model=model,
        input=outside_cache(prompts, cached, where=where),
        output=sum(usage.completion_tokens for usage in usages),
        cache_read=cached if any(count is not None for count in known) else None,
        cache_write=None,
    )


# The one tool that it has.
TOOL = "bash"


def _calls(messages: Sequence[_Message]) -> Calls:
    codes = {m.tool_call_id: m.extra.returncode for m in messages if m.tool_call_id is not None}
    made = []
    for message in messages:
        for action in message.extra.actions or ():
            code = codes.get(action.tool_call_id or "")
            failed = None if code is None else code != 0
            made.append(Call(name=TOOL, failed=failed, asked=action.command))
    return Calls(made=tuple(made), shows=("tool", "command"), tells_failures=True)
