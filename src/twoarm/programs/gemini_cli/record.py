"""Gemini CLI: the output of `gemini -p` as json or as stream-json."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from twoarm.errors import Position, Problem
from twoarm.programs.failure import agent, http_status, infra, of_provider
from twoarm.programs.folder import Folder, SourceError, decoded
from twoarm.programs.format import Attempt, Failed, Format, Refusal, Settings
from twoarm.programs.moment import between, seconds
from twoarm.programs.run_folder import AgentOutput, claim, finish, output_of, without_events
from twoarm.programs.sidecar import Sidecar, read_sidecar
from twoarm.programs.tokens import Count, Quantity, Spend, outside_cache
from twoarm.programs.uptake import KINDS, Call, Calls
from twoarm.text.escape import visible

AGENT = "gemini-cli"

# Where the error object of json output is found: the standard error of the program.
ERRORS = ("stderr.log", "stderr.txt")

# Exit codes that the program documents for ends of its own.
TURN_LIMIT = 53
BAD_INPUT = 42

# How standard error tells that the provider refused and is asked again.
_RETRIED = re.compile(rb"^(Attempt \d+ failed(?: with status (\d+))?[^.\n]*)\.", re.MULTILINE)

# How Google says that a key is wrong: with status 400, which says nothing of the kind.
_WRONG_KEY = ("API_KEY_INVALID", "API key not valid")


class _Tokens(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`prompt` includes what was cached; `candidates` leaves out `thoughts`."""

    prompt: Count
    candidates: Count
    cached: Count = 0
    thoughts: Count = 0


class _Api(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    total_requests: Count = 0


class _Model(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    tokens: _Tokens
    api: _Api = _Api()


class _Tool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    count: Count = 0


class _Tools(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    total_calls: Count = 0
    by_name: dict[str, _Tool] = {}


class _Stats(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    models: dict[str, _Model]
    tools: _Tools = _Tools()


class _Error(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    type: str = ""
    message: str = ""
    code: Any = None


class GeminiDocument(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The output in json mode."""

    session_id: str | None = None
    response: Any = None
    stats: _Stats | None = None
    error: _Error | None = None


class _Streamed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`input_tokens` includes what was cached; `output_tokens` leaves out thoughts."""

    total_tokens: Count
    input_tokens: Count
    output_tokens: Count
    cached: Count = 0


class _Totals(_Streamed, frozen=True, kw_only=True, gc=False):
    duration_ms: Quantity = 0.0
    tool_calls: Count = 0
    models: dict[str, _Streamed] = {}


class GeminiLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a stream."""

    type: str
    timestamp: datetime
    session_id: str | None = None
    model: str | None = None
    role: str | None = None
    tool_name: str | None = None
    parameters: Any = None
    status: str | None = None
    error: _Error | None = None
    stats: _Totals | None = None


class _Said(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tokens of a message in a chat file; `input` includes what was cached."""

    input: Count
    output: Count
    cached: Count = 0
    thoughts: Count = 0
    tool: Count = 0


class _Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    tokens: _Said
    model: str | None = None


DOCUMENT = msgspec.json.Decoder(GeminiDocument)
_MESSAGE = msgspec.json.Decoder(_Message)
_LINE = msgspec.json.Decoder(GeminiLine)


class GeminiCli:
    """Run folders of Gemini CLI."""

    name: ClassVar[str] = AGENT
    one_run_per_folder: ClassVar[bool] = True

    def recognizes(self, folder: Folder) -> bool:
        """The first line of a stream, or a document with a session and its statistics."""
        name = output_of(folder)
        if name is None:
            return False
        head = folder.opening(name)
        if head.startswith(b'{"type":"init","timestamp":'):
            return True
        if not head:
            return any(b"GeminiAPI" in folder.head(log) for log in ERRORS if log in folder)
        return head.startswith(b'{"session_id":') and b'"stats":{"models":' in head

    def claims(self, folder: Folder) -> Sequence[str]:
        """A run folder, by any of its files."""
        return claim(folder)

    def read(self, folder: Folder, name: str, settings: Settings) -> Iterator[Attempt | Problem]:
        """The run of one folder."""
        saved = output_of(folder)
        if saved is None:
            raise folder.refuse("no output of Gemini CLI in it")
        sidecar = read_sidecar(folder, saved)
        yield finish(folder, sidecar, _parse_output(folder, sidecar, saved))


record: type[Format] = GeminiCli


def is_streamed(folder: Folder, name: str) -> bool:
    """Whether an output is lines of stream-json, not one document."""
    return name.endswith(".jsonl") or folder.opening(name).startswith(b'{"type":')


def _parse_output(folder: Folder, sidecar: Sidecar, name: str) -> AgentOutput:
    text = b"" if is_streamed(folder, name) else folder.document(name)
    if text:
        return _parse_document(folder, name, decoded(text, DOCUMENT, folder.where(name)))
    lines = list(folder.decode_lines(name, _LINE))
    if lines:
        return _parse_stream(folder, name, lines)
    document = _document_on_stderr(folder)
    if document is not None:
        return _parse_document(folder, name, document)
    return without_events(folder, sidecar, name, AGENT)


def _parse_document(folder: Folder, name: str, document: GeminiDocument) -> AgentOutput:
    where = folder.where(name)
    if document.stats is None and document.error is None:
        raise folder.refuse("neither statistics nor an error of Gemini CLI in it", name)
    models = document.stats.models if document.stats is not None else {}
    steps = sum(used.api.total_requests for used in models.values())
    return AgentOutput(
        name=name,
        agent=AGENT,
        failure=None if document.error is None else _verdict(document.error),
        waiting=None,
        duration_seconds=None,
        first_event=None,
        last_event=None,
        cut=False,
        cost_usd=None,
        spends=document_spends(document, where) or None,
        took_steps=steps > 0,
        step_count=steps if document.stats is not None else None,
        tool_call_count=document.stats.tools.total_calls if document.stats is not None else None,
        calls=None if document.stats is None else _counted(document.stats.tools),
        model=_most_asked(models),
        version=None,
        session_id=document.session_id,
        caveats=(),
    )


def document_spends(document: GeminiDocument, where: Position) -> tuple[Spend, ...]:
    """What each model spent."""
    models = document.stats.models if document.stats is not None else {}
    return tuple(
        Spend(
            model=model,
            input=outside_cache(used.tokens.prompt, used.tokens.cached, where=where),
            output=used.tokens.candidates + used.tokens.thoughts,
            cache_read=used.tokens.cached,
            cache_write=None,
        )
        for model, used in models.items()
    )


def _counted(tools: _Tools) -> Calls | None:
    """The calls of a document, which are only counted; None if the names do not account for all."""
    made = tuple(Call(name=name, times=tool.count) for name, tool in tools.by_name.items())
    if sum(call.times for call in made) != tools.total_calls:
        return None
    return Calls(made=made, shows=("tool",), tells_failures=False)


def _document_on_stderr(folder: Folder) -> GeminiDocument | None:
    """The error object that ends the standard error of a run without output; None without it."""
    for log in ERRORS:
        if log not in folder:
            continue
        text = folder.read(log)
        start = text.rfind(b"\n{\n") + 1
        if text[start : start + 1] == b"{":
            return decoded(text[start:], DOCUMENT, folder.where(log))
    return None


def _parse_stream(folder: Folder, name: str, lines: list[GeminiLine]) -> AgentOutput:
    where = folder.where(name)
    start = next((line for line in lines if line.type == "init"), None)
    result = next((line for line in reversed(lines) if line.type == "result"), None)
    stats = result.stats if result is not None else None
    if start is None:
        raise folder.refuse("no `init` event of Gemini CLI in it", name)
    failure: Failed | None = None
    if result is None:
        failure = agent("no result was written")
    elif result.status != "success":
        failure = infra("no reason given") if result.error is None else _verdict(result.error)
    first, last = seconds(lines[0].timestamp), seconds(lines[-1].timestamp)
    took = stats.duration_ms / 1000 if stats is not None and stats.duration_ms else None
    uses = [line for line in lines if line.type == "tool_use"]
    answered = any(line.type in ("tool_use", "tool_result") for line in lines)
    return AgentOutput(
        name=name,
        agent=AGENT,
        failure=failure,
        waiting=_waiting(folder, lines[-1]),
        duration_seconds=took or between(first, last),
        first_event=first,
        last_event=last,
        cut=result is None,
        cost_usd=None,
        spends=streamed_spends(stats, start.model, where) or None,
        took_steps=answered or failure is None,
        step_count=None,
        tool_call_count=stats.tool_calls if stats is not None else len(uses),
        calls=Calls(
            made=tuple(Call(name=use.tool_name or "", asked=use.parameters) for use in uses),
            shows=KINDS,
            # The program calls every command a success, even one that it blocked.
            tells_failures=False,
        ),
        model=start.model,
        version=None,
        session_id=start.session_id,
        caveats=("spend_incomplete",) if result is None else (),
    )


def streamed_spends(stats: _Totals | None, model: str | None, where: Position) -> tuple[Spend, ...]:
    """What each model spent."""
    if stats is None:
        return ()
    return tuple(
        Spend(
            model=name or None,
            input=outside_cache(used.input_tokens, used.cached, where=where),
            # What is neither input nor output is thought.
            output=outside_cache(used.total_tokens, used.input_tokens, where=where),
            cache_read=used.cached,
            cache_write=None,
        )
        for name, used in (stats.models or {model or "": stats}).items()
    )


def _most_asked(models: dict[str, _Model]) -> str | None:
    return max(sorted(models), key=lambda name: models[name].api.total_requests, default=None)


def _waiting(folder: Folder, last: GeminiLine) -> Refusal | None:
    """What the provider last said, if an answer of the model was still to come."""
    if last.type != "tool_result" and not (last.type == "message" and last.role == "user"):
        return None
    for log in ERRORS:
        refusals = _RETRIED.findall(folder.read(log)) if log in folder else []
        if refusals:
            message, status = refusals[-1]
            text = visible(message.decode("utf-8", "replace"))
            return Refusal(message=text, status=http_status(int(status[:9] or b"0")))
    return None


def chat_spend(line: bytes, where: Position) -> dict[str, Spend]:
    """What a message of a chat file spent, by its id; nothing where a line is none."""
    try:
        message = _MESSAGE.decode(line)
        used = message.tokens
        spend = Spend(
            model=message.model,
            input=outside_cache(used.input, used.cached, where=where) + used.tool,
            output=used.output + used.thoughts,
            cache_read=used.cached,
            cache_write=None,
        )
    except (ValueError, RecursionError, SourceError):
        # Settings of the chat, or a message without tokens.
        return {}
    return {message.id: spend}


def _verdict(error: _Error) -> Failed:
    if error.code == TURN_LIMIT or "TurnLimit" in error.type:
        return agent("turn limit")
    if error.code == BAD_INPUT:
        return infra(f"input error: {error.message}")
    wrong_key = any(words in error.message for words in _WRONG_KEY)
    return of_provider(error.message or "no message", "", 401 if wrong_key else error.code)
