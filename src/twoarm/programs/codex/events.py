"""What a run of Codex did, from its rollout, or else from its events, which have no times."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from twoarm.errors import Position
from twoarm.programs.codex import shapes
from twoarm.programs.codex.record import TOOLS, rollout_names, spend_between, tool_name
from twoarm.programs.event import Event, moment, of_lines, text_of, took
from twoarm.programs.folder import Folder
from twoarm.programs.run_folder import shown_output
from twoarm.programs.sidecar import NAME, read_sidecar


class _Item(shapes.Item, frozen=True, kw_only=True, gc=False):
    text: Any = None
    content: Any = None
    aggregated_output: Any = None
    arguments: Any = None
    changes: Any = None
    query: Any = None
    result: Any = None
    error: Any = None
    message: Any = None


class _Event(shapes.CodexEvent, frozen=True, kw_only=True, gc=False):
    item: _Item | None = None


class _Message(shapes.CodexMessage, frozen=True, kw_only=True, gc=False):
    item: _Item | None = None
    started_at_ms: Any = None
    completed_at_ms: Any = None


_EVENT = msgspec.json.Decoder(_Event)
_MESSAGE = msgspec.json.Decoder(_Message)
_CAPITAL = re.compile(r"([A-Z])")


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The items of the session, and its tokens as they grow."""
    rollouts = rollout_names(folder)
    if rollouts:
        reader = _Reader(folder.where(rollouts[0]))
        yield from of_lines(folder, rollouts[0], shapes.LINE, reader.rollout)
        return
    output = shown_output(folder)
    yield from of_lines(folder, output, _EVENT, _Reader(folder.where(output)).event)
    if NAME in folder and read_sidecar(folder, output).resumed_from is not None:
        yield Event(
            kind="note",
            text="the thread was resumed: Codex counts the tokens of all its runs, "
            "the record those of this run alone",
        )


class _Reader:
    def __init__(self, where: Position) -> None:
        self._where = where
        # The tokens of the thread so far.
        self._total = shapes.NOTHING

    def event(self, line: _Event) -> Iterator[Event]:
        if line.type == "item.completed" and line.item is not None:
            yield from _shown(line.item)
        elif line.type in ("error", "turn.failed"):
            message = line.message or (line.error.message if line.error is not None else "")
            yield Event(kind="note", text=message)
        elif line.usage is not None:
            yield self._spent(line.usage)

    def rollout(self, line: shapes.CodexLine) -> Iterator[Event]:
        if line.type != "event_msg":
            return
        message = _MESSAGE.decode(line.payload)
        if message.type == "task_started" and self._total != shapes.NOTHING:
            text = "another turn of the thread; the record counts the tokens of one turn alone"
            yield Event(kind="note", text=text)
        elif message.type == "item_completed" and message.item is not None:
            start, end = message.started_at_ms, message.completed_at_ms
            for event in _shown(_as_event(message.item)):
                yield msgspec.structs.replace(event, at=moment(start), seconds=took(start, end))
        elif message.type == "token_count" and message.info is not None:
            yield self._spent(message.info.total_token_usage)

    def _spent(self, total: shapes.CodexUsage) -> Event:
        before, self._total = self._total, total
        return Event(kind="spend", spend=spend_between(total, before, None, self._where))


def _as_event(item: _Item) -> _Item:
    """An item of a rollout, spelled as the events spell it."""
    command = item.command
    return msgspec.structs.replace(
        item,
        type=_CAPITAL.sub(r"_\1", item.type).lower().lstrip("_"),
        text=item.content or item.text,
        command=command[-1] if isinstance(command, list) and command else command,
    )


def _shown(item: _Item) -> Iterator[Event]:
    if item.type == "agent_message":
        yield Event(kind="message", text=text_of(item.text))
    elif item.type == "user_message":
        yield Event(kind="prompt", text=text_of(item.text))
    elif item.type == "reasoning":
        yield Event(kind="thinking", text=text_of(item.text))
    elif item.type == "command_execution":
        yield Event(
            kind="call",
            tool=item.type,
            text=text_of(item.command),
            result=text_of(item.aggregated_output),
            failed=item.exit_code != 0,
        )
    elif item.type in TOOLS:
        result = item.result.get("content") if isinstance(item.result, dict) else None
        yield Event(
            kind="call",
            tool=tool_name(item.type, item.server, item.tool),
            text=text_of(item.arguments or item.changes or item.query),
            result=text_of(item.error or result),
            failed=item.status in ("failed", "declined"),
        )
    elif item.type == "error":
        yield Event(kind="note", text=text_of(item.message))
