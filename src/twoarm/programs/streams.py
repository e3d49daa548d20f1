"""The events of programs that write a line for each: Claude Code, opencode, Codex, Gemini CLI."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from twoarm.programs.codex.record import tool_name
from twoarm.programs.entry import Event
from twoarm.programs.folder import Folder, SourceError
from twoarm.programs.moment import seconds
from twoarm.programs.tokens import Spend
from twoarm.text.escape import counted

# A longer line is not decoded: nobody reads so long an event.
LONGEST_LINE = 8 * 2**20

Reader = Callable[[dict[str, Any]], Iterator[Event]]


def of_lines(folder: Folder, name: str, reader: Reader) -> Iterator[Event]:
    """The events of a file, line by line, so that its length does not matter."""
    try:
        for number, line in folder.lines(name):
            if len(line) > LONGEST_LINE:
                yield Event(kind="note", text=f"line {number}: {len(line):,} bytes, not shown")
                continue
            try:
                found = msgspec.json.decode(line) if line.strip() else None
            except (ValueError, RecursionError):
                yield Event(kind="note", text=f"line {number}: not JSON, not shown")
                continue
            if isinstance(found, dict):
                yield from reader(found)
            elif isinstance(found, list):
                # A verbose array.
                for one in found:
                    if isinstance(one, dict):
                        yield from reader(one)
    except SourceError as error:
        yield Event(kind="note", text=f"not read any further: {error.problem.message}")


def table(found: Any) -> dict[str, Any]:
    """An object, or an empty one in the place of anything else."""
    return found if isinstance(found, dict) else {}


def rows(found: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def text_of(found: Any) -> str:
    """A text as it is, the texts of content blocks, or anything else as JSON."""
    if isinstance(found, str):
        return found
    if found is None:
        return ""
    if isinstance(found, list) and all(isinstance(one, dict) and "text" in one for one in found):
        return "\n".join(text_of(one["text"]) for one in found)
    try:
        return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
    except (ValueError, RecursionError):
        return "not shown: nested too deeply"


def asked_of(found: Any) -> str:
    """The arguments of a call: a single text as it is, others as JSON."""
    given = table(found)
    command = given.get("command", given.get("cmd"))
    if isinstance(command, str) and set(given) <= {"command", "cmd", "description", "timeout"}:
        return command
    return text_of(found)


def moment(found: Any) -> float | None:
    """A time as text, or in milliseconds."""
    if isinstance(found, int | float) and not isinstance(found, bool):
        return found / 1000
    try:
        return seconds(datetime.fromisoformat(found)) if isinstance(found, str) else None
    except ValueError:
        return None


def between(start: Any, end: Any) -> float | None:
    """The seconds between two times."""
    first, last = moment(start), moment(end)
    return None if first is None or last is None else max(0.0, round(last - first, 3))


def count(found: Any) -> int | None:
    """A whole number, or nothing."""
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def outside(whole: Any, cached: Any) -> int | None:
    """The part of the input that was not cached, where the whole includes it."""
    found = count(whole)
    return None if found is None else max(0, found - (count(cached) or 0))


def spent(new: Any, output: Any, read: Any, written: Any) -> Spend:
    """Four counts of tokens, whatever is in their place."""
    return Spend(
        model=None,
        input=count(new),
        output=count(output),
        cache_read=count(read),
        cache_write=count(written),
    )


class ClaudeCode:
    """Lines of stream-json."""

    def __init__(self) -> None:
        self._spent: str | None = None
        self._said = False

    def __call__(self, line: dict[str, Any]) -> Iterator[Event]:
        """The events of one line."""
        message = table(line.get("message"))
        at = moment(line.get("timestamp"))
        if line.get("type") == "assistant":
            for block in rows(message.get("content")):
                yield from self._block(block, at)
            usage, id = table(message.get("usage")), str(message.get("id"))
            if usage and id != self._spent:
                self._spent = id
                spend = spent(
                    usage.get("input_tokens"),
                    usage.get("output_tokens"),
                    usage.get("cache_read_input_tokens"),
                    usage.get("cache_creation_input_tokens"),
                )
                yield Event(kind="spend", spend=spend)
        elif line.get("type") == "user":
            for block in rows(message.get("content")):
                if block.get("type") == "tool_result":
                    yield Event(
                        kind="result",
                        id=str(block.get("tool_use_id")),
                        text=text_of(block.get("content")),
                        failed=block.get("is_error") is True,
                        at=at,
                    )
        elif line.get("subtype") == "api_retry":
            yield Event(kind="note", text=f"asks again: {text_of(line.get('error'))}", at=at)
        elif line.get("type") == "result" and not line.get("is_error"):
            if not self._said:
                yield Event(kind="message", text=text_of(line.get("result")))
        elif line.get("type") == "result":
            yield Event(kind="note", text=f"{line.get('subtype')}: {text_of(line.get('result'))}")

    def _block(self, block: dict[str, Any], at: float | None) -> Iterator[Event]:
        kind = block.get("type")
        if kind == "text":
            self._said = True
            yield Event(kind="message", text=text_of(block.get("text")), at=at)
        elif kind == "thinking":
            yield Event(kind="thinking", text=text_of(block.get("thinking")), at=at)
        elif kind == "tool_use":
            yield Event(
                kind="call",
                id=str(block.get("id")),
                tool=str(block.get("name")),
                text=asked_of(block.get("input")),
                at=at,
            )


def opencode(line: dict[str, Any]) -> Iterator[Event]:
    """Lines of `run --format json`."""
    part, at = table(line.get("part")), moment(line.get("timestamp"))
    if line.get("type") == "error":
        error = table(line.get("error"))
        yield Event(kind="note", text=f"{error.get('name')}: {text_of(error.get('data'))}", at=at)
    yield from opencode_part(part, at)


def opencode_part(part: dict[str, Any], at: float | None) -> Iterator[Event]:
    """A part of a message, which events and exports share."""
    kind, time = part.get("type"), table(part.get("time"))
    if kind in ("text", "reasoning"):
        shown = "message" if kind == "text" else "thinking"
        yield Event(
            kind=shown,  # type: ignore[arg-type]
            text=text_of(part.get("text")),
            at=moment(time.get("start")) or at,
            seconds=between(time.get("start"), time.get("end")),
        )
    elif kind == "tool":
        state = table(part.get("state"))
        time = table(state.get("time"))
        code = table(state.get("metadata")).get("exit")
        yield Event(
            kind="call",
            tool=str(part.get("tool")),
            text=asked_of(state.get("input")),
            result=text_of(state.get("output") or state.get("error")),
            failed=state.get("status") == "error" or bool(count(code)),
            at=moment(time.get("start")) or at,
            seconds=between(time.get("start"), time.get("end")),
        )
    elif kind == "step-finish":
        tokens = table(part.get("tokens"))
        cache = table(tokens.get("cache"))
        spend = spent(
            tokens.get("input"), tokens.get("output"), cache.get("read"), cache.get("write")
        )
        yield Event(kind="spend", spend=spend)


def codex(line: dict[str, Any]) -> Iterator[Event]:
    """Lines of `exec --json`, which have no times."""
    kind, item = line.get("type"), table(line.get("item"))
    if kind == "item.completed":
        yield from _codex_item(item)
    elif kind in ("error", "turn.failed"):
        said = line.get("message") or table(line.get("error")).get("message")
        yield Event(kind="note", text=text_of(said))
    elif kind == "turn.completed":
        usage = table(line.get("usage"))
        cached = usage.get("cached_input_tokens")
        new = outside(usage.get("input_tokens"), cached)
        spend = spent(new, usage.get("output_tokens"), cached, None)
        yield Event(kind="spend", spend=spend)


def codex_rollout(line: dict[str, Any]) -> Iterator[Event]:
    """Lines of a rollout: the same items, with their times, and the tokens of every turn."""
    payload = table(line.get("payload"))
    if payload.get("type") == "item_completed":
        item = table(payload.get("item"))
        start, end = payload.get("started_at_ms"), payload.get("completed_at_ms")
        command = item.get("command")
        kind = _CAPITAL.sub(r"_\1", str(item.get("type"))).lower().lstrip("_")
        same = {"type": kind, "text": text_of(item.get("content") or item.get("text"))}
        if isinstance(command, list) and command:
            same["command"] = text_of(command[-1])
        for event in _codex_item(item | same):
            yield msgspec.structs.replace(event, at=moment(start), seconds=between(start, end))
    elif payload.get("type") == "token_count":
        usage = table(table(payload.get("info")).get("last_token_usage"))
        cached = usage.get("cached_input_tokens")
        new = outside(usage.get("input_tokens"), cached)
        yield Event(kind="spend", spend=spent(new, usage.get("output_tokens"), cached, None))


_CAPITAL = re.compile(r"([A-Z])")


def _codex_item(item: dict[str, Any]) -> Iterator[Event]:
    kind = str(item.get("type"))
    if kind == "agent_message":
        yield Event(kind="message", text=text_of(item.get("text")))
    elif kind == "user_message":
        yield Event(kind="prompt", text=text_of(item.get("text")))
    elif kind == "reasoning":
        yield Event(kind="thinking", text=text_of(item.get("text")))
    elif kind == "command_execution":
        yield Event(
            kind="call",
            tool=kind,
            text=text_of(item.get("command")),
            result=text_of(item.get("aggregated_output")),
            failed=item.get("exit_code") != 0,
        )
    elif kind in ("mcp_tool_call", "file_change", "web_search", "collab_tool_call"):
        asked = item.get("arguments") or item.get("changes") or item.get("query")
        result = item.get("error") or table(item.get("result")).get("content") or ""
        yield Event(
            kind="call",
            tool=tool_name(kind, item.get("server"), item.get("tool")),
            text=text_of(asked),
            result=text_of(result),
            failed=item.get("status") in ("failed", "declined"),
        )
    elif kind == "error":
        yield Event(kind="note", text=text_of(item.get("message")))


def gemini_cli(line: dict[str, Any]) -> Iterator[Event]:
    """Lines of stream-json."""
    kind, at = line.get("type"), moment(line.get("timestamp"))
    if kind == "message" and line.get("role") == "user":
        yield Event(kind="prompt", text=text_of(line.get("content")), at=at)
    elif kind == "message":
        shown = "piece" if line.get("delta") else "message"
        yield Event(kind=shown, text=text_of(line.get("content")), at=at)  # type: ignore[arg-type]
    elif kind == "tool_use":
        yield Event(
            kind="call",
            id=str(line.get("tool_id")),
            tool=str(line.get("tool_name")),
            text=asked_of(line.get("parameters")),
            at=at,
        )
    elif kind == "tool_result":
        yield Event(
            kind="result",
            id=str(line.get("tool_id")),
            text=text_of(line.get("output") or line.get("error")),
            # A command is always a success to it.
            failed=True if line.get("status") == "error" else None,
            at=at,
        )
    elif kind == "result":
        stats = table(line.get("stats"))
        if line.get("status") != "success":
            yield Event(kind="note", text=text_of(line.get("error") or line.get("status")), at=at)
        calls = count(stats.get("tool_calls"))
        if calls is not None:
            yield Event(kind="note", text=f"{counted(calls, 'tool call')} in all", at=at)
        spend = spent(stats.get("input"), stats.get("output_tokens"), stats.get("cached"), None)
        yield Event(kind="spend", spend=spend)
