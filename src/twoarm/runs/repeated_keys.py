"""Which keys the lines of run files have, learned as they are read, to notice a key given twice.

Keys and strings stand in quotes. Of a key that is given twice, a decoder keeps the last value: the
line has more quotes than what was decoded accounts for. Counting them costs little for a batch of
lines, and if the batch adds up, so does each of its lines: none has fewer quotes than it should.

A batch is decoded at once, by a decoder that takes objects wherever they begin and end. It is one
of whole lines if each line end stands between two objects, with nothing but blanks beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from twoarm.runs.arrays import Ints
from twoarm.runs.record import (
    Line,
    LineColumns,
    MaybeChecks,
    MaybeCount,
    MaybeCounts,
    MaybeExitCode,
    MaybeFlag,
    MaybeNumber,
    MaybePart,
    MaybeScore,
    MaybeTaskTags,
    NonEmptyText,
    Number,
    Repeat,
)

# No more unknown keys than this are noted: some files use ids as keys.
MOST_UNKNOWN_KEYS = 100

_KNOWN = {field.name: field for field in msgspec.structs.fields(Line)}
# What stands there is never in quotes.
_UNQUOTED = (
    *(Repeat, bool, Number, MaybeNumber, MaybeFlag, MaybeExitCode, MaybeCount),
    *(MaybeScore, MaybePart),
)
_encode = msgspec.json.Encoder().encode
_QUOTE, _OPENING, _CLOSING = b'"{}'
# What may stand beside a line end; a line with more of it is read one by one.
_BLANKS = b" \t\r"
_MOST_BLANKS = 8
_IS_BLANK = np.isin(np.arange(256), list(_BLANKS))


class SeenKeys:
    """The keys that the good lines so far have: all of them, or only some."""

    def __init__(self) -> None:
        self.unknown: tuple[str, ...] = ()
        self._noted = set(_KNOWN)
        self._always: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()
        self._reader: LineReader | None = None

    def learn(self, row: Mapping[str, Any]) -> None:
        """Take note of the keys of a good line."""
        if row.keys() == self._always:
            return
        if len(self.unknown) < MOST_UNKNOWN_KEYS:
            new = [key for key in row if key not in self._noted]
            self.unknown += tuple(new[: MOST_UNKNOWN_KEYS - len(self.unknown)])
            self._noted.update(self.unknown)
        keys = self._noted.intersection(row)
        always = self._always & keys if self._always else frozenset(keys)
        if always != self._always or not keys <= self._seen:
            self._always = always
            self._seen |= keys
            self._reader = None

    def reader(self) -> "LineReader | None":
        """What decodes lines with these keys and no others; None before the first good line."""
        if self._reader is None and self._always:
            self._reader = _reader(self._always, self._seen)
        return self._reader


class LineReader(NamedTuple):
    """Decodes lines that have all of some keys, and any of some others."""

    decode: Callable[[bytes], list[msgspec.Struct]]
    keys: tuple[str, ...]
    # How many quotes each line has at least, and under which keys there may be more.
    fewest: int
    varied: "tuple[Key, ...]"

    def decoded(self, text: bytes, ends: Ints) -> LineColumns | None:
        """A run from each line; None if some line is anything else, or has a key twice."""
        try:
            decoded = self.decode(text)
        except (ValueError, RecursionError):
            return None
        codes = np.frombuffer(text, np.uint8)
        if len(decoded) != len(ends) + 1 or not _one_by_one(text, codes, ends):
            return None
        rows = map(msgspec.structs.astuple, decoded)
        columns = dict(zip(self.keys, zip(*rows, strict=True), strict=True))
        quotes = self.fewest * len(decoded)
        quotes += sum(key.quotes(columns[key.name]) for key in self.varied)
        outside = int(np.count_nonzero(codes == _QUOTE)) - _quotes_inside(text)
        return columns if quotes == outside else None


class Key(NamedTuple):
    """A key that only some lines have, or whose values are only sometimes in quotes."""

    name: str
    type: Any
    always: bool

    def quotes(self, values: Sequence[Any]) -> int:
        """The quotes around the key and its values; UNSET is the value of a line without it."""
        if not self.always:
            values = [value for value in values if value is not UNSET]
        return 2 * len(values) + self._around(values)

    def _around(self, values: Sequence[Any]) -> int:
        if self.type in _UNQUOTED:
            return 0
        if self.type in (Any, MaybeCounts, MaybeChecks, MaybeTaskTags):
            return _quotes(_encode(values))
        # A string or null.
        return 2 * (len(values) - values.count(None))


def _one_by_one(text: bytes, codes: NDArray[np.uint8], ends: Ints) -> bool:
    """Whether a text of objects has just one on each line: no string can hold a line end."""
    if not (text.lstrip(_BLANKS).startswith(b"{") and text.rstrip(_BLANKS).endswith(b"}")):
        return False
    before, after = _beside(codes, ends, -1), _beside(codes, ends, 1)
    return bool((before == _CLOSING).all() and (after == _OPENING).all())


def _beside(codes: NDArray[np.uint8], ends: Ints, step: Literal[-1, 1]) -> NDArray[np.uint8]:
    """The first byte before or after each line end that is not blank, if it is near."""
    at = ends + step
    for _ in range(_MOST_BLANKS):
        blank = _IS_BLANK[codes[at]]
        if not blank.any():
            break
        at = at + step * blank
    return codes[at]


def whole(row: Mapping[str, Any], text: bytes) -> bool:
    """Whether a line holds nothing but what was decoded; not if a key is repeated."""
    return _quotes(_encode(row)) == _quotes(text)


def _quotes(text: bytes) -> int:
    """The quotes around keys and strings."""
    return text.count(b'"') - _quotes_inside(text)


def _quotes_inside(text: bytes) -> int:
    """The quotes that are part of a key or a string."""
    # Backslashes in pairs stand for themselves.
    return text.replace(b"\\\\", b"").count(b'\\"') if b"\\" in text else 0


def _reader(always: frozenset[str], seen: frozenset[str]) -> LineReader:
    # No field can have any other name; lines with such a key are read one by one.
    named = [key for key in sorted(seen) if key.isprintable() and _plain(key)]
    attributes = {key: key if key in _KNOWN else f"unknown_{i}" for i, key in enumerate(named)}
    fields: list[Any] = []
    fewest = 0
    varied = []
    for key, attribute in attributes.items():
        value_type = _KNOWN[key].type if key in _KNOWN else Any
        if key in always:
            fields.append((attribute, value_type))
        else:
            unset = value_type if value_type is Any else value_type | UnsetType
            fields.append((attribute, unset, UNSET))
        if key in always and value_type in (NonEmptyText, *_UNQUOTED):
            fewest += 4 if value_type is NonEmptyText else 2
        else:
            varied.append(Key(key, value_type, key in always))
    made = msgspec.defstruct(
        "Line",
        fields,
        kw_only=True,
        gc=False,
        forbid_unknown_fields=True,
        rename={attribute: key for key, attribute in attributes.items()},
    )
    decode = msgspec.json.Decoder(made).decode_lines
    return LineReader(decode=decode, keys=tuple(named), fewest=fewest, varied=tuple(varied))


def _plain(key: str) -> bool:
    return "\\" not in key and '"' not in key
