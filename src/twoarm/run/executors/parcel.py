"""Files and folders as bytes, for another machine: what is in them, and when it was changed.

What comes out of a parcel stays in the folder that it is unpacked into, whatever the parcel says
and whoever has laid links there.
"""

import errno
import hashlib
import marshal
import os
import stat
import struct
from collections.abc import Callable, Iterator
from typing import IO, TypeVar

from twoarm.files.safe import OpenFolder, is_plain

# A large object of Ray, and as much as is held of a file.
PIECE_BYTES = 8 * 2**20
# Deeper than any path that a program can use.
_DEEPEST = 2_000
_HEADER_BYTES = 2**20
_LENGTH = struct.Struct("<I")
_IN, _OUT, _PLAIN, _LEADS, _LAST = range(5)
# Kind, name, permissions, time of the last change; of a file its size, of a link where it leads.
_Kept = TypeVar("_Kept")
_Header = tuple[int, bytes, int, int, int, bytes]


def pack(above: OpenFolder, name: str, *, last: str = "") -> Iterator[bytes]:
    """The file or folder at a name, in pieces; of a folder, one of its entries comes last.

    Pipes, sockets and devices stay where they are.
    """
    held = bytearray()
    for part in _parts(above, name, last):
        held += part
        if len(held) >= PIECE_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _parts(above: OpenFolder, name: str, last: str) -> Iterator[bytes]:
    status = above.look(name)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), above.at(name))
    if not stat.S_ISDIR(status.st_mode):
        yield from _single(above, name, status)
        yield _told(_LAST, "", 0, 0)
        return
    yield _told(_IN, name, status.st_mode, status.st_mtime_ns)
    # The folders that are open, and the names that are left to do in each.
    open_ones = [above.enter(name)]
    waiting = [_names(open_ones[0], last)]
    try:
        while open_ones:
            here = open_ones[-1]
            if not waiting[-1]:
                open_ones.pop().close()
                waiting.pop()
                yield _told(_OUT, "", 0, 0)
                continue
            each = waiting[-1].pop()
            status = here.look(each)
            if status is None:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield from _single(here, each, status)
            elif len(open_ones) < _DEEPEST:
                yield _told(_IN, each, status.st_mode, status.st_mtime_ns)
                open_ones.append(here.enter(each))
                waiting.append(_names(open_ones[-1], ""))
        yield _told(_LAST, "", 0, 0)
    finally:
        for folder in open_ones:
            folder.close()


def _names(folder: OpenFolder, last: str) -> list[str]:
    """What is in a folder, the first at the end."""
    return sorted(folder.names(), key=lambda name: (name == last, name), reverse=True)


def _single(folder: OpenFolder, name: str, status: os.stat_result) -> Iterator[bytes]:
    if stat.S_ISLNK(status.st_mode):
        leads = os.fsencode(os.readlink(name, dir_fd=folder.descriptor))
        yield _told(_LEADS, name, 0, status.st_mtime_ns, leads=leads)
    elif stat.S_ISREG(status.st_mode):
        with open(folder.open(name), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            yield _told(_PLAIN, name, status.st_mode, status.st_mtime_ns, size)
            while size:
                piece = file.read(min(size, PIECE_BYTES))
                # One that was cut short meanwhile has the length that was told.
                piece = piece or bytes(min(size, PIECE_BYTES))
                size -= len(piece)
                yield piece


def _told(
    kind: int, name: str, mode: int, changed: int, size: int = 0, leads: bytes = b""
) -> bytes:
    header: _Header = (kind, os.fsencode(name), stat.S_IMODE(mode), changed, size, leads)
    text = marshal.dumps(header)
    return _LENGTH.pack(len(text)) + text


def digesting(
    pieces: Iterator[bytes], keep: Callable[[bytes], _Kept]
) -> tuple[str, tuple[_Kept, ...]]:
    """The digest of a parcel, and what was kept of each of its pieces."""
    digest, kept = hashlib.sha256(), []
    for piece in pieces:
        digest.update(piece)
        kept.append(keep(piece))
    return digest.hexdigest(), tuple(kept)


class Pieces:
    """A parcel to unpack, from its pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self._at = 0
        self._hash = hashlib.sha256()

    def read(self, length: int) -> bytes:
        """So many bytes; fewer at the end."""
        parts: list[bytes] = []
        while length:
            if self._at == len(self._held):
                piece = next(self._pieces, b"")
                if not piece:
                    break
                self._hash.update(piece)
                self._held, self._at = piece, 0
            part = self._held[self._at : self._at + length]
            self._at += len(part)
            length -= len(part)
            parts.append(part)
        return b"".join(parts)

    def digest(self) -> str:
        """Of everything that was there."""
        for piece in self._pieces:
            self._hash.update(piece)
        return self._hash.hexdigest()


def unpack(file: "IO[bytes] | Pieces", above: OpenFolder, name: str | None) -> None:
    """What is in a parcel, to a name in a folder; without a name, what is in the parcel's folder.

    Nothing that is there is followed: it is replaced.
    """
    first = _entry(file)
    if first[0] != _IN:
        if name is None:
            raise _damaged("no folder in it")
        _make(file, above, name, first)
        return
    if name is None:
        _fill(file, above.dup(), None)
        return
    above.remove(name)
    os.mkdir(name, 0o700, dir_fd=above.descriptor)
    _fill(file, above.enter(name), first)


def _fill(file: "IO[bytes] | Pieces", folder: OpenFolder, top: _Header | None) -> None:
    """Everything up to the end of the first folder; permissions last, they may forbid the rest."""
    stack: list[tuple[OpenFolder, _Header | None]] = [(folder, top)]
    try:
        while stack:
            header = _entry(file)
            here = stack[-1][0]
            if header[0] == _OUT:
                _dress(*stack[-1])
                stack.pop()[0].close()
            elif header[0] == _IN:
                name = _name(header)
                here.remove(name)
                os.mkdir(name, 0o700, dir_fd=here.descriptor)
                stack.append((here.enter(name), header))
            else:
                _make(file, here, _name(header), header)
        if _entry(file)[0] != _LAST:
            raise _damaged("more than one folder")
    finally:
        for opened, _ in stack:
            opened.close()


def _dress(folder: OpenFolder, header: _Header | None) -> None:
    if header is not None:
        os.fchmod(folder.descriptor, header[2])
        os.utime(folder.descriptor, ns=(header[3], header[3]))


def _make(file: "IO[bytes] | Pieces", folder: OpenFolder, name: str, header: _Header) -> None:
    kind, _, mode, changed, size, leads = header
    if kind == _LEADS:
        folder.remove(name)
        os.symlink(leads, name, dir_fd=folder.descriptor)
        os.utime(name, ns=(changed, changed), dir_fd=folder.descriptor, follow_symlinks=False)
        return
    if kind != _PLAIN:
        raise _damaged("an entry of no kind")
    with open(folder.create(name, 0o600), "wb") as made:
        while size:
            piece = file.read(min(size, PIECE_BYTES))
            if not piece:
                raise _damaged("it ends early")
            made.write(piece)
            size -= len(piece)
        made.flush()
        os.fchmod(made.fileno(), mode & 0o777)
        os.utime(made.fileno(), ns=(changed, changed))


def _name(header: _Header) -> str:
    name = os.fsdecode(header[1])
    if not is_plain(name):
        raise _damaged("a name that leads elsewhere")
    return name


def _entry(file: "IO[bytes] | Pieces") -> _Header:
    (length,) = _LENGTH.unpack(_exactly(file, _LENGTH.size))
    if length > _HEADER_BYTES:
        raise _damaged("a name that is too long")
    try:
        kind, name, mode, changed, size, leads = marshal.loads(_exactly(file, length))
    except (ValueError, TypeError, EOFError) as error:
        raise _damaged("an entry that cannot be read") from error
    whole = all(isinstance(number, int) and number >= 0 for number in (kind, mode, size))
    if not whole or not isinstance(name, bytes) or not isinstance(leads, bytes):
        raise _damaged("an entry that is none")
    return kind, name, mode, int(changed), size, leads


def _exactly(file: "IO[bytes] | Pieces", length: int) -> bytes:
    text = file.read(length)
    if len(text) != length:
        raise _damaged("it ends early")
    return text


def _damaged(why: str) -> OSError:
    return OSError(errno.EBADMSG, f"a damaged parcel: {why}")
