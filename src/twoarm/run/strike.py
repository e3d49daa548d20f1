"""Secrets struck out of everything that is kept, in whatever form they were written.

Standard library only, as the supervisor that uses it.
"""

import errno
import os
from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from typing import BinaryIO

_PIECE = 1 << 20
# An agent may leave what cannot be read, what is too deep for a path, and names that are the same
# without a secret; a full disk is not its doing.
_UNKEPT = (errno.EACCES, errno.ENAMETOOLONG, errno.EEXIST)


def forms(secret: str) -> list[bytes]:
    """A secret as it may be written: plain, escaped, encoded."""
    from json import dumps

    raw = secret.encode()
    found = {raw, raw.hex().encode(), raw.hex().upper().encode()}
    for ascii_only in (True, False):
        once = dumps(secret, ensure_ascii=ascii_only)[1:-1]
        twice = dumps(once, ensure_ascii=ascii_only)[1:-1]
        found |= {text.encode() for text in (once, twice, once.replace("/", "\\/"))}
    for kept in (b"-._~", b"-._~/"):
        for code in ("%{:02X}", "%{:02x}"):
            quoted = b"".join(
                bytes((c,))
                if (c < 128 and chr(c).isalnum()) or c in kept
                else code.format(c).encode()
                for c in raw
            )
            found |= {quoted, quoted.replace(b"%20", b"+")}
    for before in range(3):
        # In base64 the neighbours share the first and the last character.
        bits = (before + len(raw)) * 8
        inner = b2a_base64(b"\0" * before + raw)[(before * 8 + 5) // 6 : bits // 6]
        found |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    return sorted(found, key=lambda form: (-len(form), form))


def _any_of(texts: "Iterable[bytes]") -> "re.Pattern[bytes] | None":
    """What finds any of the texts, the longest first."""
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    if not ordered:
        return None
    from re import compile, escape

    return compile(b"|".join(map(escape, ordered)))


class Strike:
    """Copies with every form of every secret struck out."""

    def __init__(self, secrets: dict[str, str]) -> None:
        self._names = {form: name for name, value in secrets.items() for form in forms(value)}
        self._longest = max(map(len, self._names), default=1)
        self._pattern = _any_of(self._names)

    def _struck(self, found: "re.Match[bytes]") -> bytes:
        return b"[secret " + self._names[found[0]].encode() + b"]"

    def text(self, text: str) -> str:
        """A text without secrets."""
        if self._pattern is None:
            return text
        return self._pattern.sub(self._struck, os.fsencode(text)).decode("utf-8", "replace")

    def copy(self, source: str, target: str, most: int) -> None:
        """At most so many bytes of a file, in pieces: a secret may lie across two of them."""
        rest = b""
        with open(source, "rb") as file, open(target, "wb") as made:
            while most > 0:
                piece = file.read(min(_PIECE, most))
                most -= len(piece)
                last = not piece or most <= 0
                rest += piece
                if self._pattern is None:
                    made.write(rest)
                    rest = b""
                else:
                    rest = self._written(made, rest, last=last)
                if last:
                    return

    def _written(self, made: "BinaryIO", rest: bytes, *, last: bool) -> bytes:
        assert self._pattern is not None
        settled = len(rest) if last else len(rest) - self._longest + 1
        at = 0
        for found in self._pattern.finditer(rest):
            if found.start() >= settled:
                break
            made.write(rest[at : found.start()])
            made.write(self._struck(found))
            at = found.end()
        if at < settled:
            made.write(rest[at:settled])
            at = settled
        return rest[at:]

    def tree(self, source: str, target: str, most: int) -> None:
        """The files of a workspace, without its history and without what cannot be kept."""
        waiting = [(source, target)]
        while waiting:
            at, place = waiting.pop()
            try:
                os.mkdir(place)
                with os.scandir(at) as entries:
                    found = [entry for entry in entries if entry.name != ".git"]
            except OSError as error:
                if error.errno not in _UNKEPT:
                    raise
                continue
            for entry in found:
                below = os.path.join(place, self.text(entry.name))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, below))
                else:
                    self._kept(entry, below, most)

    def _kept(self, entry: "os.DirEntry[str]", place: str, most: int) -> None:
        try:
            if entry.is_symlink():
                os.symlink(self.text(os.readlink(entry.path)), place)
            elif entry.is_file():
                self.copy(entry.path, place, most)
        except OSError as error:
            if error.errno not in _UNKEPT:
                raise
