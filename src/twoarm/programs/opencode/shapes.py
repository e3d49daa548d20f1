"""What opencode writes: the lines of its events, and the export of a session."""

from collections.abc import Sequence
from typing import Any

import msgspec

from twoarm.programs.folder import WHOLE_FILE, Folder
from twoarm.programs.moment import Milliseconds
from twoarm.programs.tokens import Count, Quantity
from twoarm.programs.uptake import looked_into


class Cache(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens that were read from the cache, or written to it."""

    read: Count = 0
    write: Count = 0


class Tokens(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a step spent; whether `output` includes reasoning depends on the version."""

    input: Count
    output: Count
    reasoning: Count = 0
    cache: Cache = Cache()
    total: Count | None = None


class State(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a call of a tool stands; what it was given and gave back may be anything."""

    status: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"null")
    metadata: msgspec.Raw = msgspec.Raw(b"null")


class Metadata(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a command ended, and the session that a task started."""

    exit: Any = None
    session_id: Any = msgspec.field(default=None, name="sessionId")


class OpencodePart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of a message: a text, a call, the end of a step."""

    type: str
    reason: str | None = None
    tokens: Tokens | None = None
    cost: Quantity = 0.0
    tool: str | None = None
    state: State | None = None
    error: Any = None


class OpencodeError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What went wrong, by name."""

    name: str
    data: Any = None


class OpencodeEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of the events."""

    type: str
    session_id: str = msgspec.field(name="sessionID")
    timestamp: Milliseconds
    part: OpencodePart | None = None
    error: OpencodeError | None = None


class Time(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When something began and ended."""

    created: Milliseconds
    updated: Milliseconds | None = None
    completed: Milliseconds | None = None


class OpencodeMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who said something, when, and what it spent."""

    role: str
    time: Time
    cost: Quantity = 0.0
    tokens: Tokens | None = None
    model_id: str | None = msgspec.field(default=None, name="modelID")
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    error: OpencodeError | None = None
    model: Any = None


class OpencodeEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message with its parts."""

    info: OpencodeMessage
    parts: Sequence[OpencodePart] = ()


class OpencodeSession(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The session of an export."""

    id: str
    version: str
    time: Time
    parent_id: str | None = msgspec.field(default=None, name="parentID")


class Export(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole session."""

    info: OpencodeSession
    messages: Sequence[OpencodeEntry]


EVENT_LINE = msgspec.json.Decoder(OpencodeEvent)
EXPORT_FILE = msgspec.json.Decoder(Export)
_METADATA = msgspec.json.Decoder(Metadata)


def read_events(folder: Folder, name: str) -> list[OpencodeEvent]:
    """The events of a run; of a long file only what is looked at is held."""
    events = folder.decode_lines(name, EVENT_LINE)
    return list(map(_shrunk, events) if folder.size(name) > WHOLE_FILE else events)


def _shrunk(event: OpencodeEvent) -> OpencodeEvent:
    """An event without what a tool was given and gave back: a raw part would hold all of it."""
    part = event.part
    if part is None or part.state is None:
        return event
    state = msgspec.structs.replace(
        part.state,
        input=msgspec.Raw(bytes(part.state.input) if looked_into(part.tool) else b"null"),
        metadata=msgspec.Raw(msgspec.json.encode(metadata_of(part.state))),
    )
    return msgspec.structs.replace(event, part=msgspec.structs.replace(part, state=state))


def metadata_of(state: State) -> Metadata:
    """What is looked at of what a tool gave back, which may be anything."""
    try:
        return _METADATA.decode(state.metadata)
    except (ValueError, RecursionError):
        return Metadata()
