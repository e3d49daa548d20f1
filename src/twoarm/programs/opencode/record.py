"""opencode: run folders with the events of `run --format json` and the export of the session."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from twoarm.errors import Problem
from twoarm.programs.failure import agent, http_status, infra, of_provider
from twoarm.programs.folder import Folder
from twoarm.programs.format import Attempt, Failed, Format, Refusal, Settings
from twoarm.programs.moment import between
from twoarm.programs.opencode.log import refused_since
from twoarm.programs.opencode.shapes import (
    EVENT_LINE,
    EXPORT_FILE,
    Export,
    OpencodeError,
    OpencodeEvent,
    OpencodeMessage,
    OpencodePart,
    State,
    Tokens,
    metadata_of,
    read_events,
)
from twoarm.programs.run_folder import AgentOutput, claim, finish, without_events
from twoarm.programs.sidecar import Sidecar, read_sidecar
from twoarm.programs.tokens import Spend, model_name
from twoarm.programs.uptake import KINDS, Call, Calls
from twoarm.programs.value import as_text
from twoarm.programs.version import check_major, opencode_output_includes_reasoning
from twoarm.text.escape import named

EVENTS = "events.jsonl"
EXPORT = "export.json"

NEWEST_MAJOR = 1

# Errors that are the agent's own; every other one is of the provider or of opencode's server.
AGENT_ERRORS = {
    "ContextOverflowError": "context overflow",
    "MessageOutputLengthError": "output limit",
    "MessageAbortedError": "aborted",
}

# How a last step may end in a run that ran to its end.
ENDED = ("stop", "length")


class _Work(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One session: its steps, tools and errors in order."""

    session_id: str | None
    steps: tuple[OpencodePart, ...]
    tools: tuple[OpencodePart, ...]
    errors: tuple[OpencodeError, ...]
    # Whether a step was begun and not finished.
    unfinished: bool
    began: bool

    @property
    def shows_work(self) -> bool:
        """Whether a model was asked."""
        return self.began or bool(self.errors)


class Opencode:
    """Run folders of opencode, with `events.jsonl`, `export.json` or both."""

    name: ClassVar[str] = "opencode"
    one_run_per_folder: ClassVar[bool] = True

    def recognizes(self, folder: Folder) -> bool:
        """Events with a session of opencode, or an export."""
        if EVENTS in folder and b'"sessionID":"ses_' in folder.head(EVENTS):
            return True
        if EXPORT in folder:
            head = folder.head(EXPORT)
            return head.startswith(b'{"info":{"id":"ses_')
        return False

    def claims(self, folder: Folder) -> Sequence[str]:
        """A run folder, by any of its files."""
        return claim(folder, (EXPORT,))

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """The run of one folder."""
        if EVENTS not in folder and EXPORT not in folder:
            raise folder.refuse(f"neither {EVENTS} nor {EXPORT} of opencode in it")
        source = EVENTS if EVENTS in folder else EXPORT
        sidecar = read_sidecar(folder, source)
        export = None
        if EXPORT in folder:
            export = folder.decode(EXPORT, EXPORT_FILE)
            check_major(folder, EXPORT, "opencode", export.info.version, NEWEST_MAJOR)
        events = read_events(folder, EVENTS) if EVENTS in folder else None
        if events == [] and export is not None and _exported(export).shows_work:
            # What it printed is lost; what it wrote down is not.
            events = None
        if events == [] and sidecar.ended_by is not None:
            waiting = refused_since(folder, None)
            output = without_events(folder, sidecar, EVENTS, self.name, waiting)
        else:
            output = _parse_output(folder, sidecar, events, export)
        yield finish(folder, sidecar, output)


record: type[Format] = Opencode


def _parse_output(
    folder: Folder, sidecar: Sidecar, events: list[OpencodeEvent] | None, export: Export | None
) -> AgentOutput:
    exported = _exported(export) if export is not None else None
    work = _streamed(events) if events is not None else exported
    assert work is not None
    caveats: list[str] = []
    version = export.info.version if export is not None else None
    included = _includes_reasoning(folder, version, work)
    if export is not None:
        messages = [entry.info for entry in export.messages if entry.info.tokens is not None]
        spends = [spend_of(m.tokens, included, _model(m)) for m in messages if m.tokens is not None]
        cost = sum(message.cost for message in messages)
        if exported is not None and len(exported.steps) != len(work.steps):
            caveats.append("sources_disagree")
    else:
        spends = [spend_of(step.tokens, included, None) for step in work.steps if step.tokens]
        cost = sum(step.cost for step in work.steps)
    kin = {work.session_id} | ({export.info.id} if export is not None else set())
    asked = {session for tool in work.tools if (session := _child(tool)) is not None}
    below = children(folder, kin, asked)
    if below.missing:
        caveats.append("subagents_left_out")
    calls = _calls(work.tools)
    failure, cut = _verdict(work, sidecar)
    if cut:
        caveats.append("spend_incomplete")
    if included and cost and any(step.tokens and step.tokens.reasoning for step in work.steps):
        caveats.append("cost_charges_reasoning_twice")
    seen = events[-1].timestamp / 1000 if events else None
    first, last = _times(events, export)
    models = [_model(entry.info) for entry in export.messages] if export is not None else []
    return AgentOutput(
        name=EVENTS if events is not None else EXPORT,
        agent="opencode",
        failure=failure,
        duration_seconds=between(first, last) if export is not None else None,
        first_event=first,
        last_event=last,
        waiting=_waiting(export) or refused_since(folder, seen),
        cut=cut,
        cost_usd=round(cost + below.cost_usd, 9) if spends else None,
        spends=(*spends, *below.spends) or None,
        took_steps=bool(work.steps),
        step_count=len(work.steps),
        tool_call_count=len(calls),
        calls=Calls(
            made=calls,
            shows=KINDS,
            tells_failures=True,
            below=_calls(below.tools),
            hidden=below.missing,
        ),
        model=next(filter(None, models), None),
        version=version,
        session_id=work.session_id,
        caveats=tuple(caveats),
    )


def _times(
    events: list[OpencodeEvent] | None, export: Export | None
) -> tuple[float | None, float | None]:
    """When the run began and ended: by its export, otherwise by its events."""
    first = events[0].timestamp / 1000 if events else None
    last = events[-1].timestamp / 1000 if events else None
    if export is None:
        return first, last
    # A failing session is not marked as updated while it retries.
    done = [entry.info.time.completed for entry in export.messages]
    known = [at / 1000 for at in (*done, export.info.time.updated) if at is not None]
    return export.info.time.created / 1000, max(known, default=last)


def _streamed(events: list[OpencodeEvent]) -> _Work:
    parts = [(event.type, event.part) for event in events if event.part is not None]
    errors = [event.error for event in events if event.type == "error" and event.error is not None]
    last = next((kind for kind, _ in reversed(parts) if kind in ("step_start", "step_finish")), "")
    return _Work(
        session_id=events[0].session_id if events else None,
        steps=tuple(part for kind, part in parts if kind == "step_finish"),
        tools=tuple(part for kind, part in parts if kind == "tool_use"),
        errors=tuple(errors),
        unfinished=last == "step_start",
        began=any(kind == "step_start" for kind, _ in parts),
    )


def _exported(export: Export) -> _Work:
    parts = [part for entry in export.messages for part in entry.parts]
    errors = [entry.info.error for entry in export.messages if entry.info.error is not None]
    kinds = [part.type for part in parts if part.type in ("step-start", "step-finish")]
    return _Work(
        session_id=export.info.id,
        steps=tuple(part for part in parts if part.type == "step-finish"),
        tools=tuple(part for part in parts if part.type == "tool"),
        errors=tuple(errors),
        unfinished=bool(kinds) and kinds[-1] == "step-start",
        began="step-start" in kinds,
    )


def _verdict(work: _Work, sidecar: Sidecar) -> tuple[Failed | None, bool]:
    """How the run ended, and whether that is missing from it."""
    for error in work.errors:
        if error.name not in AGENT_ERRORS:
            return of_provider(_message(error.data), error.name, _status(error.data)), False
    if work.errors:
        return agent(AGENT_ERRORS[work.errors[-1].name]), False
    if work.unfinished:
        return agent("its last step did not finish"), True
    if not work.steps and sidecar.ended_by is not None:
        return agent("no step was taken"), True
    if not work.steps:
        return infra("no step: the agent never reached a model"), False
    reason = work.steps[-1].reason
    if reason in ENDED:
        return None, False
    if reason in ("unknown", "error"):
        return infra("the provider's answer was cut off"), False
    if reason == "content-filter":
        return agent("refused: content filter"), False
    return agent(f"stopped after a step that ended with {named(str(reason))}"), False


def _message(data: Any) -> str:
    """What an error says, wherever its object has it."""
    message = data.get("message") if isinstance(data, dict) else None
    return as_text(message) if message else "no message"


def _status(data: Any) -> int | None:
    return http_status(data.get("statusCode")) if isinstance(data, dict) else None


def _waiting(export: Export | None) -> Refusal | None:
    """What the provider said to the last try, if that is the last there is; events lack it."""
    parts = export.messages[-1].parts if export is not None and export.messages else ()
    if not parts or parts[-1].type != "retry":
        return None
    error = parts[-1].error
    data = error.get("data") if isinstance(error, dict) else None
    return Refusal(message=_message(data), status=_status(data))


def spend_of(tokens: Tokens, included: bool, model: str | None) -> Spend:
    """What a step spent; reasoning is output, whether it is included there or not."""
    return Spend(
        model=model,
        input=tokens.input,
        output=tokens.output + (0 if included else tokens.reasoning),
        cache_read=tokens.cache.read,
        cache_write=tokens.cache.write,
    )


class OpencodeStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step of a session, or all of them, as opencode counts it."""

    cost: float
    spend: Spend


def step_of(line: bytes, model: str | None) -> OpencodeStep | None:
    """The step that an event ends, of a version that counts reasoning beside output; else None."""
    try:
        part = EVENT_LINE.decode(line).part
    except (ValueError, RecursionError):
        # The run is refused when it is read; while it runs the line only counts nothing.
        return None
    if part is None or part.type != "step-finish" or part.tokens is None:
        return None
    return OpencodeStep(cost=part.cost, spend=spend_of(part.tokens, included=False, model=model))


def _model(message: OpencodeMessage) -> str | None:
    if message.model_id is not None:
        return model_name(message.provider_id, message.model_id)
    asked = message.model
    if isinstance(asked, dict) and isinstance(asked.get("modelID"), str):
        provider = asked.get("providerID")
        return model_name(provider if isinstance(provider, str) else None, asked["modelID"])
    return None


def _includes_reasoning(folder: Folder, version: str | None, work: _Work) -> bool:
    """Whether `output` includes reasoning tokens: known from the version, or from the totals."""
    known = opencode_output_includes_reasoning(version)
    if known is not None:
        return known
    steps = [step.tokens for step in work.steps if step.tokens and step.tokens.reasoning]
    for tokens in steps:
        included = total_includes_reasoning(tokens)
        if included is None:
            break
        if included:
            return True
    else:
        return False
    raise folder.refuse(
        "reasoning tokens that the output count may or may not include, depending on the version "
        f"of opencode; save `opencode export` as {EXPORT}, which names the version",
        EVENTS,
    )


def total_includes_reasoning(tokens: Tokens) -> bool | None:
    """The same of one step, by its total; None if that does not settle it."""
    outer = tokens.input + tokens.output + tokens.cache.read + tokens.cache.write
    if tokens.total not in (outer, outer + tokens.reasoning):
        return None
    return tokens.total == outer


class _Below(NamedTuple):
    """The sub-agents of a session: what they spent and called, and whether an export is missing."""

    spends: tuple[Spend, ...]
    cost_usd: float
    tools: tuple[OpencodePart, ...]
    missing: bool


def exports_below(folder: Folder) -> list[str]:
    """The exports of sub-agents."""
    return sorted(
        name
        for name in folder.names
        if name.startswith("export.") and name.endswith(".json") and name != EXPORT
    )


def children(folder: Folder, kin: set[str | None], asked: set[str]) -> _Below:
    """The sub-agents of a session, from their exports; `asked` are those that were started."""
    spends: list[Spend] = []
    tools: list[OpencodePart] = []
    cost = 0.0
    exports = [(name, folder.decode(name, EXPORT_FILE)) for name in exports_below(folder)]
    more = True
    while more:
        more = False
        for name, child in exports:
            if child.info.id in kin or child.info.parent_id not in kin:
                continue
            more = True
            kin.add(child.info.id)
            asked.discard(child.info.id)
            inner = _exported(child)
            tools += inner.tools
            check_major(folder, name, "opencode", child.info.version, NEWEST_MAJOR)
            included = bool(opencode_output_includes_reasoning(child.info.version))
            for entry in child.messages:
                if entry.info.tokens is not None:
                    spends.append(spend_of(entry.info.tokens, included, _model(entry.info)))
                    cost += entry.info.cost
            asked |= {
                below
                for tool in inner.tools
                if (below := _child(tool)) is not None and below not in kin
            }
    return _Below(tuple(spends), cost, tuple(tools), bool(asked))


def _child(tool: OpencodePart) -> str | None:
    """The session that a task tool started."""
    if tool.tool != "task" or tool.state is None:
        return None
    session = metadata_of(tool.state).session_id
    return session if isinstance(session, str) else None


def _calls(tools: Iterable[OpencodePart]) -> tuple[Call, ...]:
    """The calls that have ended."""
    return tuple(
        Call(name=tool.tool or "", failed=has_failed(tool.state), asked=tool.state.input)
        for tool in tools
        if tool.state is not None and tool.state.status in ("completed", "error")
    )


def has_failed(state: State) -> bool:
    """Whether a tool says so, or a command ended with another exit code than 0."""
    if state.status == "error":
        return True
    code = metadata_of(state).exit
    return type(code) is int and code != 0
