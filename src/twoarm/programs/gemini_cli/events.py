"""What a run of Gemini CLI did, from its output."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from twoarm.errors import Position
from twoarm.programs.event import Event, asked_of, check_length, of_lines, text_of
from twoarm.programs.folder import Folder, decoded
from twoarm.programs.gemini_cli import record
from twoarm.programs.moment import seconds
from twoarm.programs.run_folder import shown_output
from twoarm.programs.tokens import Spend, summed
from twoarm.text.escape import counted


class _Line(record.GeminiLine, frozen=True, kw_only=True, gc=False):
    content: Any = None
    delta: Any = None
    tool_id: str | None = None
    output: Any = None


_LINE = msgspec.json.Decoder(_Line)


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The events of a stream; of a document, the last words alone."""
    output = shown_output(folder)
    where = folder.where(output)
    if record.is_streamed(folder, output):
        yield from of_lines(folder, output, _LINE, partial(_streamed, where))
        return
    check_length(folder, output)
    text = folder.document(output)
    if not text:
        return
    document = decoded(text, record.DOCUMENT, where)
    yield Event(kind="message", text=text_of(document.response))
    if document.error is not None:
        yield Event(kind="note", text=document.error.message)
    yield from _spent(record.document_spends(document, where))


def _streamed(where: Position, line: _Line) -> Iterator[Event]:
    at = seconds(line.timestamp)
    if line.type == "message" and line.role == "user":
        yield Event(kind="prompt", text=text_of(line.content), at=at)
    elif line.type == "message":
        yield Event(kind="piece" if line.delta else "message", text=text_of(line.content), at=at)
    elif line.type == "tool_use":
        asked = asked_of(line.parameters)
        yield Event(kind="call", id=line.tool_id, tool=line.tool_name or "", text=asked, at=at)
    elif line.type == "tool_result":
        error = "" if line.error is None else line.error.message
        # A command is always a success to it.
        failed = True if line.status == "error" else None
        text = text_of(line.output or error)
        yield Event(kind="result", id=line.tool_id, text=text, failed=failed, at=at)
    elif line.type == "result":
        if line.status != "success":
            why = line.status if line.error is None else line.error.message
            yield Event(kind="note", text=text_of(why), at=at)
        if line.stats is not None:
            calls = counted(line.stats.tool_calls, "tool call")
            yield Event(kind="note", text=f"{calls} in all", at=at)
            yield from _spent(record.streamed_spends(line.stats, None, where))


def _spent(spends: tuple[Spend, ...]) -> Iterator[Event]:
    if spends:
        yield Event(kind="spend", spend=summed(spends))
