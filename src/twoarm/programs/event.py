"""Events of a run, as programs write them down: reading them within limits, and their texts."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Literal, TypeVar

import msgspec

from twoarm.programs.folder import Folder, SourceError
from twoarm.programs.moment import seconds
from twoarm.programs.tokens import Spend
from twoarm.text.escape import visible

# A longer line is not decoded: nobody reads so long an event.
LONGEST_LINE = 8 * 2**20
# A longer document is not decoded: it would take many times its size.
LONGEST_DOCUMENT = 64 * 2**20

_NOT_SHOWN = "not shown: nested too deeply"

T = TypeVar("T")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, as a program wrote it down."""

    kind: Literal["prompt", "message", "piece", "thinking", "call", "result", "spend", "note"]
    text: str = ""
    # Of a call and its result.
    id: str | None = None
    tool: str = ""
    result: str | None = None
    failed: bool | None = None
    seconds: float | None = None
    # Seconds since 1970.
    at: float | None = None
    spend: Spend | None = None


def of_lines(
    folder: Folder,
    name: str,
    decoder: "msgspec.json.Decoder[T]",
    reader: Callable[[T], Iterable[Event]],
) -> Iterator[Event]:
    """The events of a file, line by line, so that its length does not matter."""
    try:
        for number, line in folder.lines(name):
            if len(line) > LONGEST_LINE:
                yield Event(kind="note", text=f"line {number}: {len(line):,} bytes, not shown")
            elif line.strip():
                try:
                    yield from tuple(reader(decoder.decode(line)))
                except SourceError as error:
                    yield Event(kind="note", text=f"line {number}: {error.problem.message}")
                except (ValueError, RecursionError) as error:
                    known = isinstance(error, msgspec.ValidationError)
                    why = visible(str(error)) if known else "not JSON"
                    yield Event(kind="note", text=f"line {number}: {why}, not shown")
    except SourceError as error:
        yield Event(kind="note", text=f"not read any further: {error.problem.message}")


def document(folder: Folder, name: str, decoder: "msgspec.json.Decoder[T]") -> T:
    """A JSON document that is short enough to be shown."""
    check_length(folder, name)
    return folder.decode(name, decoder)


def check_length(folder: Folder, name: str) -> None:
    """Refuse a document that is too long to be shown."""
    size = folder.size(name)
    if size > LONGEST_DOCUMENT:
        raise folder.refuse(f"{size:,} bytes, too long to be shown", name)


def opened(value: Any) -> Any:
    """A value that may not have been decoded yet."""
    try:
        return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
    except (ValueError, RecursionError):
        return _NOT_SHOWN


def text_of(value: Any) -> str:
    """A text as it is, the texts of content blocks, or anything else as JSON."""
    value = opened(value)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, dict) and "text" in part for part in value):
        return "\n".join(text_of(part["text"]) for part in value)
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (ValueError, RecursionError):
        return _NOT_SHOWN


def asked_of(given: Any) -> str:
    """The arguments of a call: a single command as it is, others as JSON."""
    given = opened(given)
    if isinstance(given, dict) and given.keys() <= {"command", "cmd", "description", "timeout"}:
        command = given.get("command", given.get("cmd"))
        if isinstance(command, str):
            return command
    return text_of(given)


def moment(at: Any) -> float | None:
    """A time as text, or in milliseconds."""
    if isinstance(at, int | float) and not isinstance(at, bool):
        return at / 1000
    try:
        return seconds(datetime.fromisoformat(at)) if isinstance(at, str) else None
    except ValueError:
        return None


def took(start: Any, end: Any) -> float | None:
    """The seconds between two times."""
    first, last = moment(start), moment(end)
    return None if first is None or last is None else max(0.0, round(last - first, 3))


def rest(counted: Iterable[Spend], shown: Iterable[Spend], why: str) -> Iterator[Event]:
    """A note of the tokens that a record counts and no event has; nothing if there are none."""
    totals, sums = _sums(counted), _sums(shown)
    left = [total - part for total, part in zip(totals, sums, strict=True)]
    if min(left) < 0:
        text = f"the record counts {sum(totals):,} tokens, the events above {sum(sums):,}: {why}"
        yield Event(kind="note", text=text)
    elif any(left):
        spend = Spend(
            model=None, input=left[0], output=left[1], cache_read=left[2], cache_write=left[3]
        )
        yield Event(kind="note", text=f"counted beside the events above: {why}", spend=spend)


def _sums(spends: Iterable[Spend]) -> list[int]:
    counts = [spend.counts for spend in spends]
    return [sum(row[at] or 0 for row in counts) for at in range(4)]
