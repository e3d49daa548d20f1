"""What opencode writes: the lines of its events, and the export of a session."""

from collections.abc import Sequence
from typing import Any

import msgspec

from twoarm.programs.folder import WHOLE_FILE, Folder
from twoarm.programs.moment import Milliseconds
from twoarm.programs.tokens import Cost, Count
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


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of a message: a text, a call, the end of a step."""

    type: str
    reason: str | None = None
    tokens: Tokens | None = None
    cost: Cost = 0.0
    tool: str | None = None
    state: State | None = None
    error: Any = None


class Error(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What went wrong, by name."""

    name: str
    data: Any = None


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of the events."""

    type: str
    session_id: str = msgspec.field(name="sessionID")
    timestamp: Milliseconds
    part: Part | None = None
    error: Error | None = None


class Time(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When something began and ended."""

    created: Milliseconds
    updated: Milliseconds | None = None
    completed: Milliseconds | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who said something, when, and what it spent."""

    role: str
    time: Time
    cost: Cost = 0.0
    tokens: Tokens | None = None
    model_id: str | None = msgspec.field(default=None, name="modelID")
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    error: Error | None = None
    model: Any = None


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message with its parts."""

    info: Message
    parts: Sequence[Part] = ()


class Session(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The session of an export."""

    id: str
    version: str
    time: Time
    parent_id: str | None = msgspec.field(default=None, name="parentID")


class Export(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole session."""

    info: Session
    messages: Sequence[Entry]


EVENT_LINE = msgspec.json.Decoder(Event)
EXPORT_FILE = msgspec.json.Decoder(Export)


def read_events(folder: Folder, name: str) -> list[Event]:
    """The events of a run; of a long file only what is looked at is held."""
    found = folder.decode_lines(name, EVENT_LINE)
    return list(map(_shrunk, found) if folder.size(name) > WHOLE_FILE else found)


def _shrunk(event: Event) -> Event:
    """An event without what a tool was given and gave back: a raw part would hold all of it."""
    part = event.part
    if part is None or part.state is None:
        return event
    metadata = opened(part.state.metadata)
    known = {key: metadata[key] for key in ("exit", "sessionId") if key in metadata}
    state = msgspec.structs.replace(
        part.state,
        input=msgspec.Raw(bytes(part.state.input) if looked_into(part.tool) else b"null"),
        metadata=msgspec.Raw(msgspec.json.encode(known)),
    )
    return msgspec.structs.replace(event, part=msgspec.structs.replace(part, state=state))


def opened(raw: msgspec.Raw) -> dict[str, Any]:
    """What a tool was given or gave back, if it is an object."""
    try:
        found = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        # What a tool was given or gave back is anything.
        return {}
    return found if isinstance(found, dict) else {}
