"""What a run of opencode did, from its events, or else from the export of its session."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from twoarm.programs.event import (
    LONGEST_DOCUMENT,
    Event,
    asked_of,
    check_length,
    document,
    moment,
    of_lines,
    text_of,
    took,
)
from twoarm.programs.folder import Folder
from twoarm.programs.opencode import record, shapes
from twoarm.programs.tokens import summed
from twoarm.programs.version import opencode_output_includes_reasoning


class _Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    start: Any = None
    end: Any = None


class _State(shapes.State, frozen=True, kw_only=True, gc=False):
    output: Any = None
    error: Any = None
    time: _Span = _Span()


class _Part(shapes.OpencodePart, frozen=True, kw_only=True, gc=False):
    text: Any = None
    state: _State | None = None
    time: _Span = _Span()


class _Event(shapes.OpencodeEvent, frozen=True, kw_only=True, gc=False):
    part: _Part | None = None


class _Entry(shapes.OpencodeEntry, frozen=True, kw_only=True, gc=False):
    parts: Sequence[_Part] = ()


class _Export(shapes.Export, frozen=True, kw_only=True, gc=False):
    messages: Sequence[_Entry]


class _Header(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    info: shapes.OpencodeSession


_EVENT = msgspec.json.Decoder(_Event)
_EXPORT = msgspec.json.Decoder(_Export)
_HEADER = msgspec.json.Decoder(_Header)


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The parts of its messages, and what its sub-agents spent."""
    reader = _Reader()
    if record.EVENTS in folder and folder.head(record.EVENTS):
        if record.EXPORT in folder and folder.size(record.EXPORT) <= LONGEST_DOCUMENT:
            reader.version = document(folder, record.EXPORT, _HEADER).info.version
        yield from of_lines(folder, record.EVENTS, _EVENT, reader.event)
    else:
        export = document(folder, record.EXPORT, _EXPORT)
        reader.version, reader.session = export.info.version, export.info.id
        for entry in export.messages:
            yield from reader.message(entry)
    for below in record.exports_below(folder):
        check_length(folder, below)
    spends = record.children(folder, {reader.session}, set()).spends
    if spends:
        yield Event(kind="note", text="its sub-agents, by their exports", spend=summed(spends))


class _Reader:
    def __init__(self) -> None:
        self.version: str | None = None
        self.session: str | None = None

    def event(self, line: _Event) -> Iterator[Event]:
        at = moment(line.timestamp)
        self.session = self.session or line.session_id
        if line.type == "error" and line.error is not None:
            text = f"{line.error.name}: {text_of(line.error.data)}"
            yield Event(kind="note", text=text, at=at)
        if line.part is not None:
            yield from self._part(line.part, at)

    def message(self, entry: _Entry) -> Iterator[Event]:
        at = moment(entry.info.time.created)
        for part in entry.parts:
            if entry.info.role == "user":
                yield Event(kind="prompt", text=text_of(part.text), at=at)
            else:
                yield from self._part(part, at)

    def _part(self, part: _Part, at: float | None) -> Iterator[Event]:
        if part.type in ("text", "reasoning"):
            yield Event(
                kind="message" if part.type == "text" else "thinking",
                text=text_of(part.text),
                at=moment(part.time.start) or at,
                seconds=took(part.time.start, part.time.end),
            )
        elif part.type == "tool" and part.state is not None:
            state = part.state
            yield Event(
                kind="call",
                tool=part.tool or "",
                text=asked_of(state.input),
                result=text_of(state.output or state.error),
                failed=record.has_failed(state),
                at=moment(state.time.start) or at,
                seconds=took(state.time.start, state.time.end),
            )
        elif part.type == "step-finish" and part.tokens is not None:
            included = opencode_output_includes_reasoning(self.version)
            if included is None:
                included = bool(record.total_includes_reasoning(part.tokens))
            yield Event(kind="spend", spend=record.spend_of(part.tokens, included, None))
