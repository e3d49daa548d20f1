"""The pages of a Parquet file: what each unpacks to, by its own header and not by the footer.

A header is a struct in Thrift's compact protocol: per field a byte with the step from the last
field's number and the type, then the value; a zero byte ends it.
"""

from collections.abc import Iterator
from typing import Any

# Types of the protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_WHOLE = (4, 5, 6)

# The fields of a page's header that are read: the bytes of the page unpacked, and packed.
_UNPACKED, _PACKED = 2, 3

# Statistics may stand in a header; this is as much of it as pyarrow reads.
_LONGEST_HEADER = 16 * 2**20
_DEEPEST = 16


def unpacked_sizes(stream: Any, start: int, end: int) -> Iterator[int]:
    """What the pages between two places unpack to; raises ValueError where there is no page."""
    while start < end:
        header, length = _header(stream, start)
        unpacked, packed = header.get(_UNPACKED, -1), header.get(_PACKED, -1)
        if unpacked < 0 or packed < 0:
            raise ValueError("a page without a size")
        yield unpacked
        start += length + packed


def _header(stream: Any, start: int) -> tuple[dict[int, int], int]:
    """The whole numbers of a header by field, and its length."""
    room = 2**10
    while True:
        stream.seek(start)
        reader = _Reader(stream.read(room))
        try:
            return reader.struct(0), reader.at
        except IndexError:
            if room >= _LONGEST_HEADER or len(reader.text) < room:
                raise ValueError("the header of a page is cut off") from None
            room *= 8


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def struct(self, depth: int) -> dict[int, int]:
        found: dict[int, int] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number()
            value = self._value(head & 15, depth)
            if value is not None:
                found[field] = value
        return found

    def _value(self, kind: int, depth: int) -> int | None:
        """A whole number; of every other type only the end is found."""
        if depth > _DEEPEST:
            raise ValueError("the header of a page is nested too deeply")
        if kind in _WHOLE:
            return self._number()
        if kind == _BYTE:
            self._skip(1)
        elif kind == _DOUBLE:
            self._skip(8)
        elif kind == _BINARY:
            self._skip(self._varint())
        elif kind in (_LIST, _SET):
            head = self._byte()
            size = self._varint() if head >> 4 == 15 else head >> 4
            for _ in range(size):
                self._element(head & 15, depth)
        elif kind == _MAP:
            size = self._varint()
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._element(kinds >> 4, depth)
                self._element(kinds & 15, depth)
        elif kind == _STRUCT:
            self.struct(depth + 1)
        elif kind not in (_TRUE, _FALSE):
            raise ValueError("the header of a page is damaged")
        return None

    def _element(self, kind: int, depth: int) -> None:
        # Inside a list a truth value has a byte of its own.
        self._value(_BYTE if kind in (_TRUE, _FALSE) else kind, depth + 1)

    def _byte(self) -> int:
        self.at += 1
        return self.text[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.text):
            raise IndexError

    def _varint(self) -> int:
        found = shift = 0
        while shift < 70:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
        raise ValueError("the header of a page is damaged")

    def _number(self) -> int:
        found = self._varint()
        return found >> 1 if not found & 1 else -(found >> 1) - 1
