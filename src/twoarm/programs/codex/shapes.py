"""What Codex writes: the lines of its events, and those of a rollout."""

from datetime import datetime
from typing import Any

import msgspec

from twoarm.programs.tokens import Count, Quantity


class CodexUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tokens of a thread so far; `input_tokens` includes what was cached."""

    input_tokens: Count
    output_tokens: Count
    cached_input_tokens: Count = 0
    cache_write_input_tokens: Count = 0


class Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the agent did: a command, a change, a call."""

    type: str
    command: Any = None
    exit_code: int | None = None
    status: str | None = None
    server: Any = None
    tool: Any = None


class CodexError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What went wrong."""

    message: str = ""


class CodexEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of the events."""

    type: str
    thread_id: str | None = None
    usage: CodexUsage | None = None
    error: CodexError | None = None
    message: str | None = None
    item: Item | None = None


class CodexLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a rollout."""

    timestamp: datetime
    type: str
    payload: msgspec.Raw = msgspec.Raw(b"null")


class Meta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a rollout says of its session first."""

    cli_version: str
    session_id: str | None = None
    id: str | None = None


class Context(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a turn is taken with."""

    model: str | None = None


class Counted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tokens of a thread, as a rollout counts them."""

    total_token_usage: CodexUsage


class CodexMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What happened in a turn."""

    type: str
    info: Counted | None = None
    duration_ms: Quantity | None = None
    message: Any = None
    error: Any = None


EVENT = msgspec.json.Decoder(CodexEvent)
LINE = msgspec.json.Decoder(CodexLine)
META = msgspec.json.Decoder(Meta)
CONTEXT = msgspec.json.Decoder(Context)
MESSAGE = msgspec.json.Decoder(CodexMessage)

NOTHING = CodexUsage(input_tokens=0, output_tokens=0)
