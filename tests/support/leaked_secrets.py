"""Secrets as they leak: how programs code and wrap a text, and what a reader gets back out of it.

The reader shares nothing with the code that redacts secrets: it decodes what can be decoded.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus, unquote_to_bytes

Coding = Callable[[str], bytes]


def _rows(raw: bytes, size: int) -> list[bytes]:
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def in_lines(coded: bytes, columns: int, end: bytes = b"\n") -> bytes:
    return b"".join(row + end for row in _rows(coded, columns))


def _spaced(row: bytes, group: int) -> str:
    return " ".join(part.hex() for part in _rows(row, group))


def _seen(row: bytes) -> str:
    return "".join(chr(c) if 32 <= c < 127 else "." for c in row)


def xxd(raw: bytes, *, width: int = 16, upper: bool = False) -> bytes:
    """As xxd prints it."""
    lines = []
    for at, row in enumerate(_rows(raw, width)):
        digits = _spaced(row, 2).ljust(width * 5 // 2 - 1)
        shown = digits.upper() if upper else digits
        lines.append(f"{at * width:08x}: {shown}  {_seen(row)}\n")
    return "".join(lines).encode()


def hexdump(raw: bytes) -> bytes:
    """As hexdump -C prints it."""
    lines = []
    for at, row in enumerate(_rows(raw, 16)):
        digits = f"{_spaced(row[:8], 1)}  {_spaced(row[8:], 1)}".ljust(48)
        lines.append(f"{at * 16:08x}  {digits}  |{_seen(row)}|\n")
    return "".join([*lines, f"{len(raw):08x}\n"]).encode()


def od(raw: bytes, *, offsets: bool) -> bytes:
    """As od -tx1 prints it."""
    rows = enumerate(_rows(raw, 16))
    lines = ((f"{at * 16:07o}" if offsets else "") + f" {_spaced(row, 1)}\n" for at, row in rows)
    return "".join(lines).encode()


def swapped(raw: bytes) -> bytes:
    """As hexdump prints it, in words of a little-endian machine."""
    lines = []
    for at, row in enumerate(_rows(raw, 16)):
        words = " ".join(pair.ljust(2, b"\0")[::-1].hex() for pair in _rows(row, 2))
        lines.append(f"{at * 16:07x} {words}\n")
    return "".join(lines).encode()


def _each(form: str, of: Callable[[str], list[int]]) -> Coding:
    return lambda text: "".join(form.format(code) for code in of(text)).encode()


def _units(text: str) -> list[int]:
    """The 16-bit units of a text, as in JSON and JavaScript."""
    raw = text.encode("utf-16-be")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]


def _octets(text: str) -> list[int]:
    return list(text.encode())


def _characters(text: str) -> list[int]:
    return list(map(ord, text))


def _table(numbers: list[int]) -> bytes:
    """As Node shows an array."""
    rows = (numbers[at : at + 12] for at in range(0, len(numbers), 12))
    return "".join("  " + ", ".join(f"{c:3d}" for c in row) + ",\n" for row in rows).encode()


CODINGS: dict[str, Coding] = {
    "as it is": str.encode,
    "in JSON": lambda text: json.dumps(text).encode(),
    "in JSON, not ASCII": lambda text: json.dumps(text, ensure_ascii=False).encode(),
    "in JSON with slashes": lambda text: json.dumps(text).replace("/", "\\/").encode(),
    "by repr": lambda text: repr(text).encode(),
    "by repr of bytes": lambda text: repr(text.encode()).encode(),
    "in HTML": lambda text: html.escape(text).encode(),
    "in a URL": lambda text: quote(text).encode(),
    "in a query": lambda text: quote_plus(text).encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()),
    "base64 in a query": lambda text: quote(base64.b64encode(text.encode()), safe="").encode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()),
    "base64 as PEM": lambda text: in_lines(base64.b64encode(text.encode()), 64, b"\r\n"),
    "base64, indented": lambda text: in_lines(base64.b64encode(text.encode()), 76, b"\n        "),
    "base64 in quotes": lambda text: in_lines(base64.b64encode(text.encode()), 76, b'",\n  "'),
    "base64 of UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")),
    "base64 of UTF-16 in lines": lambda text: base64.encodebytes(text.encode("utf-16-be")),
    "base64 in UTF-16": lambda text: base64.encodebytes(text.encode()).decode().encode("utf-16"),
    "base64 of JSON": lambda text: base64.b64encode(json.dumps(text).encode()),
    "hexadecimal": lambda text: text.encode().hex().encode(),
    "hexadecimal, capital": lambda text: text.encode().hex().upper().encode(),
    "hexadecimal with colons": lambda text: text.encode().hex(":").encode(),
    "xxd": lambda text: xxd(text.encode()),
    "xxd -u": lambda text: xxd(text.encode(), upper=True),
    "xxd -c 8": lambda text: xxd(text.encode(), width=8),
    "xxd of UTF-16": lambda text: xxd(text.encode("utf-16-le")),
    "xxd -p": lambda text: in_lines(text.encode().hex().encode(), 60),
    "xxd -i": lambda text: in_lines(_each("0x{:02x}, ", _octets)(text), 72),
    "hexdump -C": lambda text: hexdump(text.encode()),
    "hexdump": lambda text: swapped(text.encode()),
    "od -tx1": lambda text: od(text.encode(), offsets=True),
    "od -An -tx1": lambda text: od(text.encode(), offsets=False),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 LE": lambda text: text.encode("utf-16-le"),
    "UTF-16 BE": lambda text: text.encode("utf-16-be"),
    "\\u": _each("\\u{:04x}", _units),
    "\\u, capital": _each("\\u{:04X}", _units),
    "\\\\u": _each("\\\\u{:04x}", _units),
    "\\x": _each("\\x{:02x}", _octets),
    "\\\\x": _each("\\\\x{:02X}", _octets),
    "octal": _each("\\{:03o}", _octets),
    "entities": _each("&#{};", _characters),
    "hexadecimal entities": _each("&#x{:X};", _characters),
    "percent": _each("%{:02x}", _octets),
    "percent, capital": _each("%{:02X}", _octets),
    "numbers": lambda text: json.dumps(_octets(text)).encode(),
    "numbers in rows": lambda text: _table(_octets(text)),
    "numbers in lines": lambda text: json.dumps(_octets(text), indent=4).encode(),
}

Wrapping = Callable[[bytes], bytes]


def _in_front(sign: bytes) -> Wrapping:
    return lambda text: b"".join(sign + line for line in text.splitlines(keepends=True))


def _numbered(form: str) -> Wrapping:
    return lambda text: b"".join(
        form.format(number).encode() + line
        for number, line in enumerate(text.splitlines(keepends=True), 1)
    )


def string(text: bytes) -> bytes:
    """A text as a string in a line of JSON; what is not UTF-8 is lost on the way there."""
    return json.dumps({"type": "text", "text": text.decode("utf-8", "replace")}).encode() + b"\n"


WRAPPINGS: dict[str, Wrapping] = {
    "alone": lambda text: text,
    "in a text": lambda text: b"The key is:\n" + text + b"\nand that is all.\n",
    "in a string": string,
    "in a string in a string": lambda text: string(string(text)),
    "in a diff": _in_front(b"+"),
    "in a diff in a string": lambda text: string(_in_front(b"-")(text)),
    "in a mail": _in_front(b"> "),
    "in a comment": _in_front(b" * "),
    "with numbers": _numbered("{:6d}\u2192"),
    "with numbers in a string": lambda text: string(_numbered("{:6d}\t")(text)),
    "with ends of Windows": lambda text: text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
}
_WIDE = {coding for coding in CODINGS if coding.startswith("UTF-16")} | {"base64 in UTF-16"}


def wrapped(wrapping: str, coding: str, text: str) -> bytes | None:
    """A text, coded and wrapped; None where the two do not go together."""
    if coding in _WIDE and wrapping not in ("alone", "in a text"):
        # Lines and strings of bytes that are no text.
        return None
    if coding == "numbers in lines" and wrapping.startswith("with numbers"):
        # Nobody could tell one number from the other.
        return None
    return WRAPPINGS[wrapping](CODINGS[coding](text))


_ESCAPE = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|([nrt\"'\\/]))"
)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _unescaped(text: bytes) -> bytes:
    """One level of backslashes less."""

    def decoded(found: re.Match[bytes]) -> bytes:
        high, low, unit, octet, octal, name = found.groups()
        if high:
            return bytes.fromhex((high + low).decode()).decode("utf-16-be").encode()
        if unit:
            return chr(int(unit, 16)).encode("utf-8", "surrogatepass")
        if octet or octal:
            return bytes((int(octet, 16) if octet else int(octal, 8) & 255,))
        return _NAMED.get(name, name)

    return _ESCAPE.sub(decoded, text)


def _bare(text: bytes) -> bytes:
    """Lines without what stands in front of them."""
    front = rb"(?m)^(?:[ \t]*[0-9]+(?:\xe2\x86\x92|\t)|[+\-]|> | \* )"
    return re.sub(front, b"", text.replace(b"\r\n", b"\n"))


def _hexadecimal(text: bytes) -> Iterator[bytes]:
    """What is dumped, with and without offsets and characters."""
    lines = [re.sub(rb"(?:^[0-9a-fA-F]{7,8}:? )|(?:  [|>]?[^ ].{0,17}$)", b"", line)
             for line in text.splitlines()]  # fmt: skip
    dumped = b"\n".join(re.sub(rb"  [|>]?[^ ].{0,17}$", b"", line) for line in lines)
    for one in (text, dumped, re.sub(rb"(?m)^[0-9a-fA-F]{7,8}:? ", b"", text)):
        digits = b"".join(re.findall(rb"(?:0x)?((?:[0-9a-fA-F]{2})+)", one.replace(b"0x", b" ")))
        raw = bytes.fromhex(digits.decode())
        yield raw
        yield b"".join(pair[::-1] for pair in _rows(raw, 2))
        yield raw[:1] + b"".join(pair[::-1] for pair in _rows(raw[1:], 2))


def _base64(text: bytes) -> Iterator[bytes]:
    letters = re.sub(rb"[^0-9A-Za-z+/=_-]", b"", text).replace(b"-", b"+").replace(b"_", b"/")
    for run in re.findall(rb"[0-9A-Za-z+/]{10,}", letters):
        for start in range(4):
            part = run[start:]
            yield base64.b64decode(part[: len(part) // 4 * 4])
            yield base64.b64decode(part + b"A" * (-len(part) % 4))


def _utf16(text: bytes) -> Iterator[bytes]:
    for start in range(2):
        for codec in ("utf-16-le", "utf-16-be"):
            yield text[start:].decode(codec, "ignore").encode()


def _numbers(text: bytes) -> Iterator[bytes]:
    found = [int(number) for number in re.findall(rb"[0-9]+", text)]
    yield bytes(number for number in found if number < 256)


def readings(text: bytes) -> Iterator[bytes]:
    """All that a text may say."""
    outer = {text, *_utf16(text)}
    for _ in range(2):
        outer |= {_unescaped(one) for one in outer}
    outer |= {_bare(one) for one in outer}
    for one in outer:
        yield one
        flat = {one, unquote_to_bytes(one), unquote_to_bytes(one.replace(b"+", b" "))}
        flat |= {_unescaped(one), html.unescape(one.decode("utf-8", "replace")).encode()}
        yield from flat
        for coded in {one, unquote_to_bytes(one)}:
            for decoder in (_base64, _hexadecimal, _numbers):
                for raw in decoder(coded):
                    yield raw
                    yield _unescaped(raw)
                    yield from _utf16(raw)


def leaks(text: bytes, secret: str) -> bool:
    """Whether a reader gets a secret out of a text."""
    raw = secret.strip().encode()
    packed = b"".join(raw.split())
    return any(
        raw in reading or (len(packed) > 30 and packed in b"".join(reading.split()))
        for reading in readings(text)
    )
