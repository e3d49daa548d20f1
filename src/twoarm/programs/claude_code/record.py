"""Claude Code: the output of `claude -p` as json, as stream-json, or as a verbose array."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from twoarm.errors import Position, Problem
from twoarm.programs.failure import agent, http_status, infra, of_provider
from twoarm.programs.folder import WHOLE_FILE, Folder, decoded
from twoarm.programs.format import Attempt, Failed, Format, Refusal, Settings
from twoarm.programs.run_folder import AgentOutput, claim, finish, output_of, without_events
from twoarm.programs.sidecar import read_sidecar
from twoarm.programs.tokens import Count, Quantity, Spend
from twoarm.programs.uptake import KINDS, Call, Calls, looked_into
from twoarm.programs.value import as_text

# The ways of ending that are the agent's own failure.
AGENT_ENDS = {
    "error_max_turns": "turn limit",
    "error_max_budget_usd": "budget limit",
    "error_max_structured_output_retries": "no valid structured output",
    "error_during_execution": "error during execution",
}


class ClaudeUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a message spent, or a whole run; the four counts are disjoint."""

    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = 0
    cache_creation_input_tokens: Count | None = 0


class _ModelUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count = 0
    cache_creation_input_tokens: Count = 0
    cost_usd: Quantity = msgspec.field(default=0.0, name="costUSD")


class ClaudeBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of a message: a text, a call."""

    type: str
    id: str | None = None
    name: str | None = None
    input: Any = None


class _Spoken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of the assistant."""

    id: str
    model: str | None = None
    usage: ClaudeUsage | None = None
    content: list[ClaudeBlock] = []


class _Heard(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to the assistant."""

    content: Any = None


class ClaudeLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a stream, or a result."""

    type: str
    subtype: str | None = None
    timestamp: Any = None
    session_id: str | None = None
    model: str | None = None
    message: msgspec.Raw = msgspec.Raw(b"null")
    parent_tool_use_id: str | None = None
    claude_code_version: str | None = None
    is_error: bool = False
    duration_ms: Quantity | None = None
    num_turns: Count | None = None
    result: Any = None
    stop_reason: Any = None
    total_cost_usd: Quantity | None = None
    cost_usd: Quantity | None = None
    usage: ClaudeUsage | None = None
    model_usage: dict[str, _ModelUsage] | None = msgspec.field(default=None, name="modelUsage")
    api_error_status: Any = None
    error: Any = None
    error_status: Any = None


LINE = msgspec.json.Decoder(ClaudeLine)
_ARRAY = msgspec.json.Decoder(list[ClaudeLine])
_SPOKEN = msgspec.json.Decoder(_Spoken)
_HEARD = msgspec.json.Decoder(_Heard)


class ClaudeCode:
    """Run folders of Claude Code."""

    name: ClassVar[str] = "claude-code"
    one_run_per_folder: ClassVar[bool] = True

    def recognizes(self, folder: Folder) -> bool:
        """A result, or the first line of a stream."""
        name = output_of(folder)
        if name is None:
            return False
        head = folder.opening(name).lstrip(b"[")
        if head.startswith(b'{"type":"system","subtype":"init"'):
            return True
        return head.startswith(b'{"type":"result"') and b'"subtype"' in head

    def claims(self, folder: Folder) -> Sequence[str]:
        """A run folder, by any of its files."""
        return claim(folder)

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """The run of one folder."""
        saved = output_of(folder)
        if saved is None:
            raise folder.refuse("no output of Claude Code in it")
        sidecar = read_sidecar(folder, saved)
        lines = _lines(folder, saved)
        if not lines:
            output = without_events(folder, sidecar, saved, self.name)
        elif any(line.type in ("system", "assistant", "result") for line in lines):
            output = _parse_output(folder, saved, lines)
        else:
            raise folder.refuse("neither a result nor a message of Claude Code in it", saved)
        yield finish(folder, sidecar, output)


record: type[Format] = ClaudeCode


def _lines(folder: Folder, name: str) -> list[ClaudeLine]:
    """The messages of one object, an array or a stream."""
    if folder.size(name) > WHOLE_FILE:
        where = folder.where(name)
        return [_shrunk(line, where) for line in folder.decode_lines(name, LINE)]
    if name.endswith(".jsonl"):
        return list(folder.decode_lines(name, LINE))
    return read_lines(folder, name)


def read_lines(folder: Folder, name: str) -> list[ClaudeLine]:
    """The messages of a file that may be any of the three."""
    text = folder.document(name)
    if text.startswith(b"["):
        return decoded(text, _ARRAY, folder.where(name))
    first = text.split(b"\n", 1)[0].rstrip()
    if first.endswith(b"}") or not text:
        return list(folder.decode_lines(name, LINE))
    return [decoded(text, LINE, folder.where(name))]


def _shrunk(line: ClaudeLine, where: Position) -> ClaudeLine:
    """A line without the texts of its message: a raw part would hold all of it."""
    kept: Any = None
    if line.type == "assistant":
        message = decoded(bytes(line.message), _SPOKEN, where)
        blocks = [
            block if looked_into(block.name) else msgspec.structs.replace(block, input=None)
            for block in message.content
        ]
        kept = msgspec.structs.replace(message, content=blocks)
    elif line.type == "user":
        results = _results(line, where)
        kept = {"content": [{"tool_use_id": id, "is_error": bad} for id, bad in results.items()]}
    return msgspec.structs.replace(line, message=msgspec.Raw(msgspec.json.encode(kept)))


def _parse_output(folder: Folder, name: str, lines: list[ClaudeLine]) -> AgentOutput:
    where = folder.where(name)
    spoken = [
        (line, decoded(bytes(line.message), _SPOKEN, where))
        for line in lines
        if line.type == "assistant"
    ]
    result = next((line for line in reversed(lines) if line.type == "result"), None)
    start = next((line for line in lines if line.type == "system"), None)
    # One message comes as several lines, one per block, each with the usage of all of it.
    messages = {message.id: message for _, message in spoken}
    model = _model(start, result)
    spends, caveats = _spends(result, list(messages.values()), model)
    below = any(line.parent_tool_use_id is not None for line, _ in spoken)
    if below and spends and result is not None and not result.model_usage:
        caveats.append("subagents_left_out")
    cost = duration = turns = None
    if result is not None:
        cost = result.total_cost_usd if result.total_cost_usd is not None else result.cost_usd
        duration = None if result.duration_ms is None else result.duration_ms / 1000
        turns = result.num_turns
    steps = len(messages) if spoken else turns
    calls = _calls(lines, [message for _, message in spoken], where)
    return AgentOutput(
        name=name,
        agent="claude-code",
        failure=_verdict(result),
        waiting=_waiting(lines),
        duration_seconds=duration,
        first_event=None,
        last_event=None,
        cut=result is None,
        cost_usd=cost,
        spends=tuple(spends) or None,
        took_steps=bool(steps),
        step_count=steps,
        tool_call_count=len(calls.made) if spoken else None,
        calls=calls if spoken else None,
        model=model,
        version=start.claude_code_version if start is not None else None,
        session_id=next((line.session_id for line in lines if line.session_id), None),
        caveats=tuple(caveats),
    )


def _model(start: ClaudeLine | None, result: ClaudeLine | None) -> str | None:
    """The model that the stream starts with, or else the one that cost the most."""
    if start is not None and start.model is not None:
        return start.model
    used = (result.model_usage if result is not None else None) or {}
    return max(sorted(used), key=lambda model: used[model].cost_usd, default=None)


def _spends(
    result: ClaudeLine | None, messages: list[_Spoken], model: str | None
) -> tuple[list[Spend], list[str]]:
    """What was spent, and what is wrong with it."""
    if result is None:
        used = [(message.usage, message.model) for message in messages if message.usage is not None]
        if all(name is None for _, name in used):
            used = [(usage, model) for usage, _ in used]
        return [spend_of(usage, name) for usage, name in used], ["spend_incomplete"]
    return result_spends(result, model), []


def result_spends(result: ClaudeLine, model: str | None) -> list[Spend]:
    """What a result counts in all, of every model if it tells them apart."""
    if result.model_usage:
        return [spend_of(usage, name) for name, usage in result.model_usage.items()]
    return [] if result.usage is None else [spend_of(result.usage, model)]


def _verdict(result: ClaudeLine | None) -> Failed | None:
    if result is None:
        return agent("no result was written")
    if result.stop_reason == "refusal":
        return agent("refused")
    if not result.is_error and result.subtype == "success":
        return None
    message = result.result if isinstance(result.result, str) else ""
    if result.api_error_status is not None:
        status = result.api_error_status
        return of_provider(message or "no message", f"API error {status}", status)
    if result.subtype == "success":
        # Errors of the API, quotas and missing logins come as a success with is_error.
        return of_provider(message or "no message", "API error")
    if result.subtype in AGENT_ENDS:
        return agent(AGENT_ENDS[result.subtype])
    if result.subtype is None:
        return infra("a result without a subtype")
    return agent(result.subtype)


def _waiting(lines: list[ClaudeLine]) -> Refusal | None:
    """What the provider said to the last try, unless an answer or a tool came after it."""
    for line in reversed(lines):
        if line.type in ("assistant", "user") or (line.type == "result" and not line.is_error):
            return None
        if line.subtype == "api_retry":
            return _refusal(line)
    return None


def _refusal(line: ClaudeLine) -> Refusal:
    message = f"{as_text(line.error)} ({as_text(line.error_status)})"
    return Refusal(message=message, status=http_status(line.error_status))


class Asking:
    """Whether the provider has only ever refused, from the lines of a stream so far."""

    def __init__(self) -> None:
        self._answered = False
        # What it said last; None once it has answered.
        self.refusal: Refusal | None = None

    def add(self, line: bytes) -> None:
        """One more line; one that cannot be read tells nothing, and is refused at the end."""
        try:
            message = LINE.decode(line)
        except (ValueError, RecursionError):
            return
        if message.type in ("assistant", "user"):
            self._answered = True
            self.refusal = None
        elif message.subtype == "api_retry" and not self._answered:
            self.refusal = _refusal(message)


def spend_of(used: ClaudeUsage | _ModelUsage, model: str | None) -> Spend:
    """What was spent, as one count of four."""
    return Spend(
        model=model,
        input=used.input_tokens,
        output=used.output_tokens,
        cache_read=used.cache_read_input_tokens or 0,
        cache_write=used.cache_creation_input_tokens or 0,
    )


def _calls(lines: list[ClaudeLine], spoken: list[_Spoken], where: Position) -> Calls:
    """Every call, and whether its result was an error; those of sub-agents are among them."""
    failed: dict[str, bool] = {}
    for line in lines:
        if line.type == "user":
            failed |= _results(line, where)
    # A message may come several times, and its calls with it.
    made: dict[str | None, Call] = {}
    for message in spoken:
        for block in message.content:
            if block.type == "tool_use":
                made[block.id] = Call(
                    name=block.name or "", failed=failed.get(block.id or ""), asked=block.input
                )
    return Calls(made=tuple(made.values()), shows=KINDS, tells_failures=True)


def _results(line: ClaudeLine, where: Position) -> dict[str, bool]:
    """The calls that a line has results of, and whether each is an error."""
    content = decoded(bytes(line.message), _HEARD, where).content
    return {
        block["tool_use_id"]: block.get("is_error") is True
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and isinstance(block.get("tool_use_id"), str)
    }
