"""Codex: the events of `codex exec --json`, the rollout file of the session, or both."""

import os
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from twoarm.errors import InputError, Position, Problem
from twoarm.programs.codex.shapes import (
    CONTEXT,
    EVENT,
    LINE,
    MESSAGE,
    META,
    NOTHING,
    CodexEvent,
    CodexUsage,
    Item,
)
from twoarm.programs.failure import agent, http_status, infra, of_provider
from twoarm.programs.folder import Folder, SourceError, decoded, inside, walk
from twoarm.programs.format import Attempt, Failed, Format, Refusal, Settings
from twoarm.programs.moment import seconds
from twoarm.programs.run_folder import AgentOutput, claim, finish, output_of, without_events
from twoarm.programs.sidecar import NAME, Sidecar, read_sidecar
from twoarm.programs.tokens import Spend, outside_cache
from twoarm.programs.uptake import Call, Calls
from twoarm.programs.value import as_text
from twoarm.programs.version import check_major
from twoarm.text.escape import named

NEWEST_MAJOR = 0

# A sub-agent is a thread of its own, and nothing says whether the parent counts its tokens.
SUBAGENT = "collab_tool_call"
MCP = "mcp_tool_call"
TOOLS = frozenset({"command_execution", "file_change", MCP, SUBAGENT, "web_search"})


class _Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One turn of a rollout: the tokens of the thread before it and after it."""

    before: CodexUsage
    after: CodexUsage | None
    calls: int
    duration_seconds: float | None
    ended: str | None
    # What ended it, if that was an error.
    error: str | None = None
    waiting: str | None = None


class _Rollout(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: str
    session_id: str | None
    version: str | None
    model: str | None
    first: float | None
    last: float | None
    turns: tuple[_Turn, ...]


class Codex:
    """Run folders of Codex, with the saved events, a `rollout*.jsonl`, or both."""

    name: ClassVar[str] = "codex"
    one_run_per_folder: ClassVar[bool] = True

    def __init__(self) -> None:
        # Where each thread was met without a rollout to split its tokens by.
        self._threads: dict[str, Position] = {}

    def recognizes(self, folder: Folder) -> bool:
        """Events that start a thread, or a rollout."""
        if rollout_names(folder):
            return True
        name = output_of(folder)
        return name is not None and b'"type":"thread.started"' in folder.head(name)

    def claims(self, folder: Folder) -> Sequence[str]:
        """A run folder, by any of its files."""
        return claim(folder, rollout_names(folder))

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """The run of one folder."""
        saved = output_of(folder)
        rollouts = rollout_names(folder)
        if len(rollouts) > 1:
            raise folder.refuse(f"{len(rollouts)} rollout files; keep one run per folder")
        if saved is None and not rollouts:
            raise folder.refuse("neither events nor a rollout of Codex in it")
        sidecar = read_sidecar(folder, saved or rollouts[0])
        events = None if saved is None else _events(folder, saved)
        rollout = _rollout(folder, rollouts[0]) if rollouts else None
        if events == [] and rollout is not None:
            # What it printed is lost; what it wrote down is not.
            events = None
        if events == [] and saved is not None and sidecar.ended_by is not None:
            output = without_events(folder, sidecar, saved, self.name)
        else:
            output = _parse_output(folder, sidecar, saved or rollouts[0], events, rollout)
        if rollout is None and sidecar.resumed_from is None:
            output = self._with_own_tokens(folder, output, settings)
        yield finish(folder, sidecar, output)

    def _with_own_tokens(
        self, folder: Folder, output: AgentOutput, settings: Settings
    ) -> AgentOutput:
        """The output, unless its thread was met before: then its tokens are those of both runs."""
        where = folder.where()
        thread = output.session_id
        earlier = where if thread is None else self._threads.setdefault(thread, where)
        if thread is None or earlier == where:
            return output
        if settings.scheduled:
            caveats = (*output.caveats, "thread_repeated")
            return msgspec.structs.replace(output, spends=None, caveats=caveats)
        raise folder.refuse(
            f"thread {named(thread)} is also in {earlier}, and Codex counts the "
            f"tokens of a whole thread; name the earlier run in {NAME} as resumed_from, "
            "or add the rollout"
        )


record: type[Format] = Codex


def rollout_names(folder: Folder) -> list[str]:
    """The rollouts of a folder; more than one is refused."""
    return sorted(
        name for name in folder.names if name.startswith("rollout") and name.endswith(".jsonl")
    )


def _events(folder: Folder, name: str) -> list[CodexEvent]:
    events = list(folder.decode_lines(name, EVENT))
    if events and events[0].type != "thread.started":
        raise folder.refuse("its first line is not `thread.started` of Codex", name)
    return events


def _rollout(folder: Folder, name: str) -> _Rollout:
    """A rollout, turn by turn."""
    where = folder.where(name)
    version = session = model = None
    first = last = None
    total = NOTHING
    turns: list[_Turn] = []
    for line in folder.decode_lines(name, LINE):
        last = seconds(line.timestamp)
        first = last if first is None else first
        payload = bytes(line.payload)
        if line.type == "session_meta":
            meta = decoded(payload, META, where)
            check_major(folder, name, "Codex", meta.cli_version, NEWEST_MAJOR)
            version, session = meta.cli_version, meta.session_id or meta.id
        elif line.type == "turn_context":
            model = decoded(payload, CONTEXT, where).model or model
        elif line.type == "event_msg":
            message = decoded(payload, MESSAGE, where)
            if message.type == "task_started" or not turns:
                turns.append(
                    _Turn(before=total, after=None, calls=0, duration_seconds=None, ended=None)
                )
            if message.type == "token_count" and message.info is not None:
                total = message.info.total_token_usage
                turns[-1] = msgspec.structs.replace(
                    turns[-1], after=total, calls=turns[-1].calls + 1
                )
            elif message.type in ("task_complete", "turn_aborted"):
                took = None if message.duration_ms is None else message.duration_ms / 1000
                error = message.error.get("message") if isinstance(message.error, dict) else None
                turns[-1] = msgspec.structs.replace(
                    turns[-1],
                    duration_seconds=took,
                    ended=message.type,
                    error=None if error is None else as_text(error),
                )
            waiting = as_text(message.message) if message.type == "stream_error" else None
            if turns[-1].waiting != waiting:
                turns[-1] = msgspec.structs.replace(turns[-1], waiting=waiting)
    if version is None:
        raise folder.refuse("no `session_meta` of Codex in it", name)
    return _Rollout(
        name=name,
        session_id=session,
        version=version,
        model=model,
        first=first,
        last=last,
        turns=tuple(turns),
    )


def _parse_output(
    folder: Folder,
    sidecar: Sidecar,
    name: str,
    events: list[CodexEvent] | None,
    rollout: _Rollout | None,
) -> AgentOutput:
    where = folder.where(name)
    usage = _last_usage(events)
    turn = _turn_of(rollout, usage)
    before = NOTHING
    if turn is not None:
        usage = usage or turn.after
        before = turn.before
    elif sidecar.resumed_from is not None:
        before = _usage_of(folder, sidecar.resumed_from)
    failure = _verdict(events, turn)
    cut = _is_cut(events, turn)
    items = [
        event.item
        for event in events or ()
        if event.type == "item.completed" and event.item is not None
    ]
    tools = [item for item in items if item.type in TOOLS]
    caveats = ["spend_incomplete"] if usage is None or cut else []
    if any(tool.type == SUBAGENT for tool in tools):
        caveats.append("subagents_left_out")
    model = (rollout.model if rollout is not None else None) or sidecar.model
    thread = next((event.thread_id for event in events or () if event.thread_id), None)
    ran = any(event.type == "turn.completed" for event in events or ())
    return AgentOutput(
        name=name,
        agent="codex",
        failure=failure,
        duration_seconds=turn.duration_seconds if turn is not None else None,
        first_event=rollout.first if rollout is not None else None,
        last_event=rollout.last if rollout is not None else None,
        waiting=_waiting(events, turn),
        cut=cut,
        cost_usd=None,
        spends=None if usage is None else (spend_between(usage, before, model, where),),
        took_steps=ran or bool(tools) or bool(turn is not None and turn.calls),
        step_count=turn.calls if turn is not None else None,
        tool_call_count=len(tools) if events is not None else None,
        calls=_calls(tools) if events is not None else None,
        model=model,
        version=rollout.version if rollout is not None else None,
        session_id=thread or (rollout.session_id if rollout is not None else None),
        caveats=tuple(caveats),
    )


def _last_usage(events: list[CodexEvent] | None) -> CodexUsage | None:
    return next((event.usage for event in reversed(events or ()) if event.usage is not None), None)


def _turn_of(rollout: _Rollout | None, usage: CodexUsage | None) -> _Turn | None:
    """The turn that the events are of: the one that ends with their count, else the last."""
    if rollout is None or not rollout.turns:
        return None
    return next((turn for turn in rollout.turns if turn.after == usage), rollout.turns[-1])


def _usage_of(folder: Folder, resumed: str) -> CodexUsage:
    """The tokens that a thread had spent when it was resumed."""
    path = os.path.normpath(os.path.join(folder.path, resumed))
    try:
        inside(path, folder.root)
        outside = os.path.isabs(resumed) or not os.path.isdir(path)
    except (SourceError, ValueError):
        outside = True
    if outside or os.path.realpath(path) == os.path.realpath(folder.path):
        raise folder.refuse(
            f"resumed_from {named(resumed)} is not another run; "
            "name its folder relative to this one, inside what is collected",
            NAME,
        )
    try:
        earlier = next(iter(walk(path)))
    except InputError as error:
        raise folder.refuse(f"resumed_from: {error}", NAME) from error
    if isinstance(earlier, Folder):
        output = output_of(earlier)
        usage = None if output is None else _last_usage(_events(earlier, output))
        if usage is not None:
            return usage
    raise folder.refuse(f"no `turn.completed` in {named(resumed)}, which it resumed", NAME)


def spend_between(
    usage: CodexUsage, before: CodexUsage, model: str | None, where: Position
) -> Spend:
    """What a thread spent from one count to another."""
    now, then = (
        (
            outside_cache(
                used.input_tokens,
                used.cached_input_tokens,
                used.cache_write_input_tokens,
                where=where,
            ),
            used.output_tokens,
            used.cached_input_tokens,
            used.cache_write_input_tokens,
        )
        for used in (usage, before)
    )
    spent = [outside_cache(a, b, where=where) for a, b in zip(now, then, strict=True)]
    return Spend(
        model=model,
        input=spent[0],
        output=spent[1],
        cache_read=spent[2],
        cache_write=spent[3],
    )


class Tally:
    """What a thread has spent so far, from the lines of its rollout."""

    def __init__(self) -> None:
        self._model: str | None = None
        self.spend: Spend | None = None

    def add(self, line: bytes) -> None:
        """One more line; one that cannot be read counts nothing, and is refused at the end."""
        try:
            entry = LINE.decode(line)
            if entry.type == "turn_context":
                self._model = CONTEXT.decode(entry.payload).model or self._model
            elif entry.type == "event_msg":
                counted = MESSAGE.decode(entry.payload).info
                if counted is not None:
                    total = counted.total_token_usage
                    self.spend = spend_between(total, NOTHING, self._model, Position(""))
        except (ValueError, RecursionError, SourceError):
            return


_STATUS = re.compile(r"\bstatus:? (\d{3})\b")

# The events that end a turn; errors and warnings on the way do not.
_ENDS = ("turn.completed", "turn.failed")


def _verdict(events: list[CodexEvent] | None, turn: _Turn | None) -> Failed | None:
    """The last terminal event decides."""
    if _is_cut(events, turn):
        return agent("its turn did not end")
    if events is None:
        error = turn.error if turn is not None else None
        return None if error is None else of_provider(error, "", _status(error))
    last = next((event for event in reversed(events) if event.type in _ENDS), None)
    if last is None:
        return infra("no event: the agent never started")
    if last.type == "turn.completed":
        return None
    message = last.error.message if last.error is not None else "no message"
    return of_provider(message, "", _status(message))


def _status(message: str) -> int | None:
    """The HTTP status that an error of Codex names, as in "unexpected status 401 Unauthorized"."""
    match = _STATUS.search(message)
    return http_status(int(match[1])) if match else None


def _is_cut(events: list[CodexEvent] | None, turn: _Turn | None) -> bool:
    if events is None:
        return turn is None or turn.ended != "task_complete"
    return bool(events) and not any(event.type in _ENDS for event in events)


def _waiting(events: list[CodexEvent] | None, turn: _Turn | None) -> Refusal | None:
    """What it said of the network or the provider, if that was the last it said."""
    message = turn.waiting if turn is not None and events is None else None
    if events and events[-1].type == "error":
        message = events[-1].message or "no message"
    return None if message is None else Refusal(message=message, status=_status(message))


def _calls(tools: list[Item]) -> Calls:
    """Skills have no tool of their own here: the agent reads their files."""
    return Calls(
        made=tuple(
            Call(
                name=tool_name(item.type, item.server, item.tool), failed=_failed(item), asked=asked
            )
            for item in tools
            for asked in (_unwrapped(item.command) if isinstance(item.command, str) else None,)
        ),
        shows=("tool", "command"),
        tells_failures=True,
        hidden=any(item.type == SUBAGENT for item in tools),
    )


def tool_name(kind: str, server: object, tool: object) -> str:
    """The kind of an item; a tool of an MCP server has the name that the model knows it by."""
    return f"mcp__{server}__{tool}" if kind == MCP else kind


def _failed(item: Item) -> bool | None:
    if item.exit_code is not None:
        return item.exit_code != 0
    return None if item.status is None else item.status in ("failed", "declined")


def _unwrapped(command: str) -> str:
    """`/bin/bash -lc '...'` is how Codex runs every command."""
    import shlex

    try:
        parts = shlex.split(command)
    except ValueError:
        return command
    wrapped = len(parts) == 3 and parts[1] in ("-lc", "-c")
    return parts[2] if wrapped else command
