"""What is kept of the events of a run: the first and the last, each of a limited length."""

import re
from collections import deque
from collections.abc import Iterable
from typing import Literal

import msgspec

from twoarm.programs.event import Event
from twoarm.programs.folder import Folder, SourceError
from twoarm.programs.tokens import Spend, summed
from twoarm.text.escape import html

# What a run may take on a page, in bytes of HTML: its first events and its last.
FIRST_EVENTS = 56_000
LAST_EVENTS = 14_000
# What one text of an event may take, and what stands around it.
LONGEST_TEXT = 4_000
_AROUND = 220
# Bytes that are read of each end of a file.
_END = 2**16
# Calls whose result may still come.
_MOST_OPEN = 1_000

_COLORS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """A text, or its two ends and how many characters are left out between them."""

    head: str
    tail: str = ""
    left_out: int = 0


class Entry(msgspec.Struct, kw_only=True):
    """What is shown of an event; a call has its result with it."""

    kind: Literal["message", "thinking", "call", "note"]
    text: Excerpt
    tool: str = ""
    result: Excerpt | None = None
    failed: bool | None = None
    seconds: float | None = None
    # Seconds since the first event that has a time.
    at: float | None = None
    spend: Spend | None = None


class Entries(msgspec.Struct, frozen=True, kw_only=True):
    """The first and the last entries of a run, and how many there are between them."""

    first: tuple[Entry, ...]
    left_out: int
    last: tuple[Entry, ...]
    prompt: Excerpt | None
    last_words: Excerpt | None


def tidy(text: str) -> str:
    """A text without colors, and with line ends and tabs that every reader has."""
    if "\x1b" in text:
        text = _COLORS.sub("", text)
    return text.replace("\r\n", "\n").replace("\t", "    ")


def cut(text: str, most: int = LONGEST_TEXT) -> Excerpt:
    """A text that takes no more than so many bytes of HTML; what is left out is in the middle."""
    if len(text) <= most:
        whole = tidy(text)
        if _weight(whole) <= most:
            return Excerpt(head=whole)
    head = _fitting(text[:most], most * 2 // 3)
    tail = _fitting(text[-most:][::-1], most // 3)[::-1]
    return Excerpt(
        head=tidy(head), tail=tidy(tail), left_out=max(0, len(text) - len(head) - len(tail))
    )


def ends_of(folder: Folder, name: str, most: int) -> Excerpt:
    """A file as text, or its two ends if it is long: no more than those is read."""
    try:
        size = folder.size(name)
        with folder.open(name) as stream:
            start: bytes = stream.read(2 * _END)
            end = b""
            if size > 2 * _END:
                start = start[:_END]
                stream.seek(size - _END)
                end = stream.read(_END)
    except (SourceError, OSError):
        return Excerpt(head="")
    text = cut(f"{start.decode('utf-8', 'replace')}{end.decode('utf-8', 'replace')}", most)
    gone = size - 2 * _END if end else 0
    return Excerpt(head=text.head, tail=text.tail, left_out=text.left_out + gone)


def _fitting(text: str, most: int) -> str:
    """As much of the beginning as takes so many bytes of HTML."""
    while text and (weight := _weight(tidy(text))) > most:
        text = text[: min(len(text) - 1, len(text) * most // weight)]
    return text


def _weight(text: str) -> int:
    # Line by line: a line without anything unseen in it costs little.
    lines = text.split("\n")
    return len(lines) - 1 + sum(len(html(line).encode("utf-8", "replace")) for line in lines)


class _Keeper:
    """Takes events one at a time and holds only what will be shown."""

    def __init__(self) -> None:
        self._first: list[Entry] = []
        self._last: deque[tuple[Entry, int]] = deque()
        self._room = FIRST_EVENTS
        self._tail = 0
        self._left_out = 0
        self._open: dict[str, Entry] = {}
        self._newest: Entry | None = None
        self._early: list[Spend] = []
        self._pieces: list[str] = []
        self._began: float | None = None
        self.prompt: Excerpt | None = None
        self.last_words: Excerpt | None = None

    def add(self, event: Event) -> None:
        if event.kind == "piece":
            # A message that comes in pieces; more than can be shown is not needed of it.
            if sum(map(len, self._pieces)) < 2 * LONGEST_TEXT:
                self._pieces.append(event.text[:LONGEST_TEXT])
            return
        self.flush()
        if self._began is None:
            self._began = event.at
        if event.kind == "prompt":
            self.prompt = self.prompt or cut(event.text, 2 * LONGEST_TEXT)
        elif event.kind == "result":
            self._close(event)
        elif event.kind == "spend" and event.spend is not None:
            self._spend(event.spend)
        elif event.text.strip() or event.kind == "call":
            self._keep(event)

    def flush(self) -> None:
        """A message in pieces has ended."""
        if self._pieces:
            text, self._pieces = "".join(self._pieces), []
            self.add(Event(kind="message", text=text))

    def _spend(self, spend: Spend) -> None:
        """Tokens belong to the newest entry; those that come before any wait for the first."""
        entry = self._newest
        if entry is None:
            self._early.append(spend)
        else:
            entry.spend = spend if entry.spend is None else summed((entry.spend, spend))

    def _close(self, event: Event) -> None:
        entry = self._open.pop(event.id or "", None)
        if entry is None:
            return
        entry.result = cut(event.text, LONGEST_TEXT // 2)
        entry.failed = event.failed
        at = self._since(event.at)
        if entry.at is None:
            # The time of its end is all that is told.
            entry.at = at
        elif entry.seconds is None and at is not None:
            entry.seconds = max(0.0, round(at - entry.at, 3))

    def _since(self, at: float | None) -> float | None:
        return None if at is None or self._began is None else round(at - self._began, 3)

    def _keep(self, event: Event) -> None:
        assert event.kind in ("message", "thinking", "call", "note")
        entry = Entry(
            kind=event.kind,
            text=cut(event.text),
            tool=event.tool,
            result=None if event.result is None else cut(event.result, LONGEST_TEXT // 2),
            failed=event.failed,
            seconds=event.seconds,
            at=self._since(event.at),
            spend=event.spend,
        )
        self._newest = entry
        for spend in self._early:
            self._spend(spend)
        self._early.clear()
        if event.kind == "message":
            self.last_words = entry.text
        if event.kind == "call" and event.id is not None and len(self._open) < _MOST_OPEN:
            self._open[event.id] = entry
        # A result that is still to come takes its share.
        later = LONGEST_TEXT // 2 if event.kind == "call" and event.result is None else 0
        texts = (text for text in (entry.text, entry.result) if text)
        size = _AROUND + later + sum(_weight(text.head) + _weight(text.tail) for text in texts)
        if not self._last and size <= self._room:
            self._first.append(entry)
            self._room -= size
            return
        self._last.append((entry, size))
        self._tail += size
        while self._tail > LAST_EVENTS and len(self._last) > 1:
            _, gone = self._last.popleft()
            self._tail -= gone
            self._left_out += 1

    def entries(self) -> Entries:
        self.flush()
        if self._early:
            self._keep(Event(kind="note", text="tokens alone: no event tells what for"))
        return Entries(
            first=tuple(self._first),
            left_out=self._left_out,
            last=tuple(entry for entry, _ in self._last),
            prompt=self.prompt,
            last_words=self.last_words,
        )


def keep(events: Iterable[Event]) -> Entries:
    """What is shown of the events of a run, however many there are."""
    keeper = _Keeper()
    for event in events:
        keeper.add(event)
    return keeper.entries()
