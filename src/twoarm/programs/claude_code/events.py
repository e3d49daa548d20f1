"""What a run of Claude Code did, from its output."""

from collections.abc import Iterator
from typing import Any

import msgspec

from twoarm.errors import Position
from twoarm.programs.claude_code import record
from twoarm.programs.event import Event, asked_of, check_length, moment, of_lines, rest, text_of
from twoarm.programs.folder import Folder, decoded
from twoarm.programs.run_folder import shown_output
from twoarm.programs.tokens import Spend


class _Block(record.ClaudeBlock, frozen=True, kw_only=True, gc=False):
    text: Any = None
    thinking: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: Any = None


class _Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str | None = None
    usage: record.ClaudeUsage | None = None
    content: list[_Block] | str = []


_MESSAGE = msgspec.json.Decoder(_Message)


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The events of a stream, a verbose array, or the one of a result."""
    output = shown_output(folder)
    reader = _Reader(folder.where(output))
    document = folder.opening(output).startswith((b"[", b'{"type":"result"'))
    if output.endswith(".jsonl") or not document:
        yield from of_lines(folder, output, record.LINE, reader.read)
        return
    check_length(folder, output)
    for line in record.read_lines(folder, output):
        yield from reader.read(line)


class _Reader:
    def __init__(self, where: Position) -> None:
        self._where = where
        # What was spent so far, and the messages that are in it.
        self._spends: list[Spend] = []
        self._counted: set[str | None] = set()
        self._spoke = False

    def read(self, line: record.ClaudeLine) -> Iterator[Event]:
        at = moment(line.timestamp)
        if line.type in ("assistant", "user"):
            message = decoded(bytes(line.message), _MESSAGE, self._where)
            for block in message.content if isinstance(message.content, list) else ():
                yield from self._block(block, at)
            if message.usage is not None and message.id not in self._counted:
                self._counted.add(message.id)
                self._spends.append(record.spend_of(message.usage, None))
                yield Event(kind="spend", spend=self._spends[-1])
        elif line.subtype == "api_retry":
            yield Event(kind="note", text=f"asks again: {text_of(line.error)}", at=at)
        elif line.type == "result":
            if line.is_error:
                yield Event(kind="note", text=f"{line.subtype}: {text_of(line.result)}")
            elif not self._spoke:
                yield Event(kind="message", text=text_of(line.result))
            if counted := record.result_spends(line, None):
                why = "sub-agents, other models, and answers that were not complete when counted"
                yield from rest(counted, self._spends, why)
                self._spends = counted

    def _block(self, block: _Block, at: float | None) -> Iterator[Event]:
        if block.type == "text":
            self._spoke = True
            yield Event(kind="message", text=text_of(block.text), at=at)
        elif block.type == "thinking":
            yield Event(kind="thinking", text=text_of(block.thinking), at=at)
        elif block.type == "tool_use":
            asked = asked_of(block.input)
            yield Event(kind="call", id=block.id, tool=block.name or "", text=asked, at=at)
        elif block.type == "tool_result":
            yield Event(
                kind="result",
                id=block.tool_use_id,
                text=text_of(block.content),
                failed=block.is_error is True,
                at=at,
            )
