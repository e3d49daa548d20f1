"""What a sample of an Inspect log did."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from twoarm.errors import Position
from twoarm.programs.event import Event, asked_of, document, moment, opened, rest, text_of, took
from twoarm.programs.folder import Folder, SourceError, decoded
from twoarm.programs.inspect import record
from twoarm.programs.inspect.archive import open_archive
from twoarm.programs.tokens import Spend


class _Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    content: Any = None


class _Choice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    message: _Message = _Message()


class _Output(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    choices: list[_Choice] = []
    usage: record.InspectUsage | None = None


class _Id(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    uuid: str | None = None


_OUTPUT = msgspec.json.Decoder(_Output | None)
_ID = msgspec.json.Decoder(_Id)


def events(folder: Folder, name: str, run_id: str | None) -> Iterator[Event]:
    """The events of one sample, and what the log counts beside them."""
    for header, text, where in _samples(folder, name):
        if decoded(text, _ID, where).uuid == run_id:
            yield from _shown(decoded(text, record.SAMPLE, where), header, where)
            return
    yield Event(kind="note", text="the sample is not in the log")


def _samples(folder: Folder, name: str) -> Iterator[tuple[Mapping[str, Any], bytes, Position]]:
    """Every sample as it is written, with the header of its log."""
    if name.endswith(".eval"):
        with open_archive(folder, name) as archive:
            header = record.log_of(archive).eval
            for member in archive.samples():
                yield header, archive.read(member), archive.where(member)
        return
    log = document(folder, name, record.WHOLE)
    for sample in log.samples or ():
        yield log.eval, bytes(sample), folder.where(name)


def _shown(
    sample: record.InspectSample, header: Mapping[str, Any], where: Position
) -> Iterator[Event]:
    yield Event(kind="prompt", text=_conversation(opened(sample.input)))
    model = header.get("model")
    spends: list[Spend] = []
    for event in sample.events:
        at = moment(event.timestamp)
        if event.event == "model":
            output = decoded(bytes(event.output), _OUTPUT, where) or _Output()
            for choice in output.choices[:1]:
                text = _conversation(choice.message.content)
                seconds = took(event.timestamp, event.completed)
                yield Event(kind="message", text=text, at=at, seconds=seconds)
            # Graders are no part of the record.
            if output.usage is not None and event.model in (None, model):
                spend = _spend(output.usage, header, where)
                spends += [] if spend is None else [spend]
                yield Event(kind="spend", spend=spend)
        elif event.event == "tool":
            yield _call(event, at)
        elif event.event == "error":
            yield Event(kind="note", text=_message(event.error), at=at)
    for scorer, score in (sample.scores or {}).items():
        text = f"score of {scorer}: {text_of(score.value)} {text_of(score.explanation)}"
        yield Event(kind="note", text=text.rstrip())
    known = model if isinstance(model, str) else None
    counted, _ = record.spends_of(sample, where, header, known, [])
    yield from rest(counted or (), spends, "by the log, for the whole sample")


def _call(event: record.InspectEvent, at: float | None) -> Event:
    return Event(
        kind="call",
        tool=text_of(event.function),
        text=asked_of(event.arguments),
        result=_message(event.error) or text_of(event.result),
        failed=event.error is not None,
        at=at,
        seconds=took(event.timestamp, event.completed),
    )


def _spend(usage: record.InspectUsage, header: Mapping[str, Any], where: Position) -> Spend | None:
    """What a call of the model spent; None if it does not tell whether the cache is in it."""
    try:
        return record.spend_of(usage, where, record.version_of(header), None, [])
    except SourceError:
        return None


def _message(error: Any) -> str:
    return text_of(error.get("message")) if isinstance(error, dict) else ""


def _conversation(content: Any) -> str:
    """What is asked or said: a text, or blocks and messages of which some are texts."""
    if isinstance(content, list):
        blocks = (block for block in content if isinstance(block, dict))
        parts = (text_of(block.get("text") or block.get("content")) for block in blocks)
        return "\n".join(filter(None, parts))
    return text_of(content)
