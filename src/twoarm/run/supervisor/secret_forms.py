"""The forms in which programs write a secret: quoted, escaped, coded.

Standard library only, as the supervisor that uses it.
"""

import re
from binascii import b2a_base64
from json import dumps

# Anything shorter would be found by chance.
SHORTEST = 8
WIDE = ("utf-16-le", "utf-16-be")
# Ends of lines, as they are and in strings, and strings in strings.
END = rb"(?:\n|\r\n|\\\\*+(?:r\\++)?n)"
# Backslashes of a string, of a string in it, and so on; a file may be full of them.
_SOME = rb"\\{1,16}+"
_ANY = rb"\\{0,16}+"
_NAMED = {"&": b"amp", "<": b"lt", ">": b"gt", '"': b"quot", "'": b"apos", "\xa0": b"nbsp"}
_OTHERWISE = {
    "\t": [_SOME + b"t"],
    " ": [rb"\+"],
    # Out of the quotes of a shell and into them again.
    "'": [b"'" + _SOME + b"''", b"'" + _ANY + b"\"'" + _ANY + b"\"'"],
    # What a diff puts in front of a line, and a little indentation.
    "\n": [END + rb"[ \t+\->#*/|]{0,12}?"],
    "\r": [_SOME + b"r", b""],
}


def bytes_of(text: str) -> bytes:
    """A text as programs write it; a variable may hold bytes that are not text."""
    return text.encode("utf-8", "surrogateescape")


def encoded(text: str, codec: str) -> bytes:
    """A text in UTF-16."""
    return text.encode(codec, "surrogatepass")


def core(secret: str) -> str:
    """What has to be found of a secret: whoever prints it may have trimmed it."""
    trimmed = secret.strip()
    return trimmed if len(trimmed) >= SHORTEST else secret


def quoted(secret: str) -> bytes:
    """A pattern for a secret with whatever is special in it escaped in any way, however often."""
    parts = re.findall(r"[0-9A-Za-z]+|\\+|[^0-9A-Za-z\\]", secret)
    return b"".join(
        part.encode() if part[0].isascii() and part[0].isalnum() else _special(part)
        for part in parts
    )


def _special(part: str) -> bytes:
    """A special character, or backslashes in a row."""
    times = b"{%d}" % len(part)
    ways = [b"(?i:" + way + b")" + times for way in _escapes(part[0])]
    if part[0] == "\\":
        # Each is two in a string, and so on; what follows may begin with some of its own.
        ways.insert(0, rb"\\{%d,%d}" % (len(part), 16 * len(part)))
    else:
        ways.insert(0, _ANY + re.escape(bytes_of(part)))
        ways += _OTHERWISE.get(part, [])
    return b"(?:" + b"|".join(ways) + b")"


def _escapes(char: str) -> list[bytes]:
    """A character by its number, in HTML, in URLs and in programs."""
    code, octets, wide = ord(char), bytes_of(char), encoded(char, "utf-16-be")
    units = [wide[at : at + 2].hex().encode() for at in range(0, len(wide), 2)]
    ways = [
        b"&#0*%d;" % code,
        b"&#x0*%x;" % code,
        b"".join(b"%%(?:25)*%02x" % octet for octet in octets),
        b"".join(_SOME + b"u" + unit for unit in units),
        b"".join(_SOME + b"x%02x" % octet for octet in octets),
        b"".join(_SOME + b"%03o" % octet for octet in octets),
        _SOME + rb"u\{?0*%x\}?" % code,
    ]
    if code < 256:
        ways.append(_SOME + b"x%02x" % code)
    if char in _NAMED:
        ways.append(b"&" + _NAMED[char] + b";")
    return ways


def wide(secret: str, codec: str) -> set[bytes]:
    """A secret as it stands in a text in UTF-16."""
    return {encoded(text, codec) for text in (secret, dumps(secret)[1:-1])}


def raw(secret: str) -> set[bytes]:
    """A secret as it stands in bytes that are coded as a whole."""
    unix = secret.replace("\r\n", "\n")
    texts = {secret, unix, unix.replace("\n", "\r\n")}
    texts |= {dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return {bytes_of(text) for text in texts} | {encoded(secret, codec) for codec in WIDE}


def base64(secret: str) -> set[bytes]:
    """What a secret is in base64, wherever it stands in what is coded."""
    forms = set()
    for octets in raw(secret):
        for before in range(3):
            # The neighbors share the first and the last character.
            bits = (before + len(octets)) * 8
            forms.add(b2a_base64(b"\0" * before + octets)[(before * 8 + 5) // 6 : bits // 6])
    return forms


def safe_in_urls(form: bytes) -> bytes:
    """Base64 in its other alphabet."""
    return form.replace(b"+", b"-").replace(b"/", b"_")


def hexadecimal(secret: str) -> set[bytes]:
    """The digits of bytes, of characters, and of pairs of bytes as most machines order them."""
    forms = {octets.hex() for octets in raw(secret)}
    forms.add("".join(f"{ord(c):x}" for c in secret))
    octets = bytes_of(secret)
    for first in range(2):
        pairs = (octets[at : at + 2] for at in range(first, len(octets) - 1, 2))
        forms.add("".join(pair[::-1].hex() for pair in pairs))
    return {digits.encode() for digits in forms}


def numbers(secret: str) -> set[bytes]:
    """The digits of bytes, decimal and octal, and of characters."""
    octets = bytes_of(secret)
    return {
        "".join(map(str, octets)).encode(),
        "".join(f"{c:03o}" for c in octets).encode(),
        "".join(str(ord(c)) for c in secret).encode(),
    }
