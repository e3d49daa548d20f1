"""The events of programs that write one document: Inspect, mini-swe-agent, Harbor, and exports."""

from collections.abc import Iterator
from typing import Any

import msgspec

from twoarm.programs.entry import Event
from twoarm.programs.folder import Folder, SourceError
from twoarm.programs.inspect.archive import open_archive
from twoarm.programs.streams import (
    asked_of,
    between,
    moment,
    opencode_part,
    outside,
    rows,
    spent,
    table,
    text_of,
)

# A longer document is not decoded: it would take many times its size.
LONGEST_DOCUMENT = 64 * 2**20


def document(folder: Folder, name: str) -> Any:
    """A JSON document, or None if it is too long or none."""
    try:
        if folder.size(name) > LONGEST_DOCUMENT:
            return None
        return msgspec.json.decode(folder.read(name))
    except (SourceError, ValueError, RecursionError):
        return None


def opencode_export(found: Any) -> Iterator[Event]:
    """The export of a session."""
    for entry in rows(table(found).get("messages")):
        info = table(entry.get("info"))
        at = moment(table(info.get("time")).get("created"))
        for part in rows(entry.get("parts")):
            if info.get("role") == "user":
                yield Event(kind="prompt", text=text_of(part.get("text")), at=at)
            else:
                yield from opencode_part(part, at)


def gemini_document(found: Any) -> Iterator[Event]:
    """The output in json mode: its last words alone."""
    yield Event(kind="message", text=text_of(table(found).get("response")))
    error = table(found).get("error")
    if error:
        yield Event(kind="note", text=text_of(error))


def inspect_sample(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """One sample of a log."""
    sample = table(_sample(folder, name, run_id))
    if not sample:
        yield Event(
            kind="note", text="the sample is not in the log, or the log is too long to show"
        )
        return
    yield Event(kind="prompt", text=_conversation(sample.get("input")))
    for event in rows(sample.get("events")):
        at = moment(event.get("timestamp"))
        if event.get("event") == "model":
            yield from _model(event, at)
        elif event.get("event") == "tool":
            error = table(event.get("error"))
            yield Event(
                kind="call",
                tool=str(event.get("function")),
                text=asked_of(event.get("arguments")),
                result=text_of(error.get("message") or event.get("result")),
                failed=bool(error),
                at=at,
                seconds=between(event.get("timestamp"), event.get("completed")),
            )
        elif event.get("event") == "error":
            yield Event(kind="note", text=text_of(table(event.get("error")).get("message")), at=at)
    for scorer, score in table(sample.get("scores")).items():
        value, why = table(score).get("value"), text_of(table(score).get("explanation"))
        yield Event(kind="note", text=f"score of {scorer}: {text_of(value)} {why}".rstrip())


def _model(event: dict[str, Any], at: float | None) -> Iterator[Event]:
    output = table(event.get("output"))
    for choice in rows(output.get("choices"))[:1]:
        said = table(choice.get("message")).get("content")
        took = between(event.get("timestamp"), event.get("completed"))
        yield Event(kind="message", text=_conversation(said), at=at, seconds=took)
    usage = table(output.get("usage"))
    if usage:
        spend = spent(
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("input_tokens_cache_read"),
            usage.get("input_tokens_cache_write"),
        )
        yield Event(kind="spend", spend=spend)


def _conversation(found: Any) -> str:
    """What is asked or said: a text, or blocks and messages of which some are texts."""
    if isinstance(found, list):
        parts = [text_of(one.get("text") or one.get("content")) for one in rows(found)]
        return "\n".join(part for part in parts if part)
    return text_of(found)


def _sample(folder: Folder, name: str, run_id: str | None) -> Any:
    try:
        if name.endswith(".eval"):
            with open_archive(folder, name) as archive:
                for member in archive.samples():
                    found = msgspec.json.decode(archive.read(member))
                    if table(found).get("uuid") == run_id:
                        return found
            return None
        samples = rows(table(document(folder, name)).get("samples"))
        return next((one for one in samples if one.get("uuid") == run_id), None)
    except (SourceError, ValueError, RecursionError):
        return None


def mini_swe_agent(found: Any) -> Iterator[Event]:
    """The messages of a trajectory."""
    for message in rows(table(found).get("messages")):
        extra, role = table(message.get("extra")), message.get("role")
        stamp = extra.get("timestamp")
        at = float(stamp) if isinstance(stamp, int | float) else None
        text = text_of(message.get("content"))
        if role == "user":
            yield Event(kind="prompt", text=text, at=at)
        elif role == "assistant":
            yield Event(kind="message", text=text, at=at)
            usage = table(table(extra.get("response")).get("usage"))
            for action in rows(extra.get("actions")):
                yield Event(
                    kind="call",
                    id=str(action.get("tool_call_id")),
                    tool="bash",
                    text=text_of(action.get("command")),
                    at=at,
                )
            if usage:
                cached = table(usage.get("prompt_tokens_details")).get("cached_tokens")
                new = outside(usage.get("prompt_tokens"), cached)
                spend = spent(new, usage.get("completion_tokens"), cached, None)
                yield Event(kind="spend", spend=spend)
        elif role == "tool":
            code = extra.get("returncode")
            yield Event(
                kind="result",
                id=str(message.get("tool_call_id")),
                text=text,
                failed=None if code is None else code != 0,
                at=at,
            )
        elif role == "exit":
            yield Event(kind="note", text=f"ended: {text_of(extra.get('exit_status'))}", at=at)


def harbor_trajectory(found: Any) -> Iterator[Event]:
    """The steps of a trajectory."""
    if found is None:
        yield Event(kind="note", text="the trajectory is too long to show, or not JSON")
    for step in rows(table(found).get("steps")):
        at, text = moment(step.get("timestamp")), text_of(step.get("message"))
        if step.get("source") == "user":
            yield Event(kind="prompt", text=text, at=at)
            continue
        yield Event(kind="thinking", text=text_of(step.get("reasoning_content")), at=at)
        yield Event(kind="message", text=text, at=at)
        for call in rows(step.get("tool_calls")):
            yield Event(
                kind="call",
                id=str(call.get("tool_call_id")),
                tool=str(call.get("function_name")),
                text=asked_of(call.get("arguments")),
                at=at,
            )
        for result in rows(table(step.get("observation")).get("results")):
            id = str(result.get("source_call_id"))
            yield Event(kind="result", id=id, text=text_of(result.get("content")))
        metrics = table(step.get("metrics"))
        if metrics:
            cached = metrics.get("cached_tokens")
            new = outside(metrics.get("prompt_tokens"), cached)
            spend = spent(new, metrics.get("completion_tokens"), cached, None)
            yield Event(kind="spend", spend=spend)
