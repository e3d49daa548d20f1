"""Which keys the lines of run files have, learned as they are read, to notice a key given twice.

Keys and strings stand in quotes. Of a key that is given twice, a decoder keeps the last value: the
line has more quotes than what was decoded accounts for. Counting them costs little for a batch of
lines, and if the batch adds up, so does each of its lines: none has fewer quotes than it should.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from twoarm.record import Line, MaybeExitCode, MaybeFlag, MaybeNumber, Number, Repeat

# No more unknown keys than this are noted: some files use ids as keys.
MOST_UNKNOWN_KEYS = 100

_KNOWN = {field.name: field for field in msgspec.structs.fields(Line)}
# What stands there is never in quotes.
_UNQUOTED = (Repeat, bool, Number, MaybeNumber, MaybeFlag, MaybeExitCode)
_encode = msgspec.json.Encoder().encode


class Layout:
    """The keys that the good lines so far have: all of them, or only some."""

    def __init__(self) -> None:
        self.unknown: tuple[str, ...] = ()
        self._noted = set(_KNOWN)
        self._always: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()
        self._reader: LineReader | None = None

    def learn(self, found: Mapping[str, Any]) -> None:
        """Take note of the keys of a good line."""
        if found.keys() == self._always:
            return
        if len(self.unknown) < MOST_UNKNOWN_KEYS:
            new = [key for key in found if key not in self._noted]
            self.unknown += tuple(new[: MOST_UNKNOWN_KEYS - len(self.unknown)])
            self._noted.update(self.unknown)
        keys = self._noted.intersection(found)
        always = self._always & keys if self._always else frozenset(keys)
        if always != self._always or not keys <= self._seen:
            self._always = always
            self._seen |= keys
            self._reader = None

    def reader(self) -> "LineReader | None":
        """What decodes lines of this layout and no others; None before the first good line."""
        if self._reader is None and self._always:
            self._reader = _reader(self._always, self._seen)
        return self._reader


class LineReader(NamedTuple):
    """Decodes lines that have all of some keys, and any of some others."""

    decode: Callable[[bytes], Line]
    keys: int
    # Of a line: whatever may stand in quotes under the keys that each has.
    quoted: Callable[[Line], tuple[Any, ...]]
    # The same for each key that only some lines have: UNSET where it is missing.
    sometimes: tuple[Callable[[Line], Any], ...]

    def adds_up(self, decoded: list[Line], text: bytes) -> bool:
        """Whether the lines hold nothing but what was decoded; not if a key is repeated."""
        quotes = 2 * self.keys * len(decoded) + _quotes(list(map(self.quoted, decoded)))
        for get in self.sometimes:
            given = [value for value in map(get, decoded) if value is not UNSET]
            quotes += 2 * len(given) + _quotes(given)
        return quotes == _quotes_again(text)


def whole(found: Mapping[str, Any], text: bytes) -> bool:
    """Whether a line holds nothing but what was decoded; not if a key is repeated."""
    return _quotes(found) == _quotes_again(text)


def _quotes(found: object) -> int:
    return _encode(found).count(b'"')


def _quotes_again(text: bytes) -> int:
    """The quotes that a text would have if all of it were decoded and encoded again."""
    quotes = text.count(b'"')
    if b"\\" not in text:
        return quotes
    # The other way to write a quote, which is encoded as `\"`.
    escaped = text.count(b"\\u0022")
    if escaped and b"\\\\u0022" in text:
        # Backslashes in pairs stand for themselves.
        escaped = text.replace(b"\\\\", b"").count(b"\\u0022")
    return quotes + escaped


def _reader(always: frozenset[str], seen: frozenset[str]) -> LineReader:
    # No field can have any other name; lines with such a key are read one by one.
    named = [key for key in sorted(seen) if key.isprintable() and _plain(key)]
    attributes = {key: key if key in _KNOWN else f"unknown_{i}" for i, key in enumerate(named)}
    fields: list[Any] = []
    for key, attribute in attributes.items():
        value_type = _KNOWN[key].type if key in _KNOWN else Any
        if key in always:
            fields.append((attribute, value_type))
        else:
            unset = value_type if value_type is Any else value_type | UnsetType
            fields.append((attribute, unset, UNSET))
    made: type[Line] = msgspec.defstruct(  # type: ignore[assignment]
        "Line",
        fields,
        bases=(Line,),
        kw_only=True,
        gc=False,
        rename={attribute: key for key, attribute in attributes.items()},
    )
    quoted = [
        attribute
        for key, attribute in attributes.items()
        if key in always and not (key in _KNOWN and _KNOWN[key].type in _UNQUOTED)
    ]
    return LineReader(
        decode=msgspec.json.Decoder(made).decode,
        keys=sum(key in always for key in attributes),
        quoted=attrgetter(*quoted),
        sometimes=tuple(attrgetter(attributes[key]) for key in named if key not in always),
    )


def _plain(key: str) -> bool:
    return "\\" not in key and '"' not in key
