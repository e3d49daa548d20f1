"""Folders of other programs: what may be read in them, and the limits that keep reading safe."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from twoarm.errors import InputError, Position, Problem
from twoarm.text.escape import visible

# One JSON document is read whole; a longer one is refused.
LARGEST_DOCUMENT = 2**30
# A longer line is refused, so that a file without line ends cannot fill the memory.
LONGEST_LINE = 64 * 2**20
# JSONL up to this size is decoded in one go; a larger file line by line.
WHOLE_FILE = 8 * 2**20
# What a packed file may unpack to: so many times its size, but at least this much.
LARGEST_RATIO = 500
LEAST_UNPACKED = 256 * 2**20
# No program nests its results deeper than this.
DEEPEST = 32

_HEAD = 4096
# Where a document or a stream of events begins, after whatever was printed before it.
_OPENING = re.compile(rb'^[ \t]*(?:\[\s*)?\{\s*"', re.MULTILINE)
# What no program prints but as an event; objects that people print have no quotes there.
_EVENT = re.compile(rb'\s*\{\s*"')

T = TypeVar("T")


class SourceError(InputError):
    """A file or folder that gives no run, with its position and the reason."""

    def __init__(
        self, where: Position, message: str, field: str | None = None, mistake: str | None = None
    ) -> None:
        self.problem = Position(visible(where.source), where.line).problem(message, field, mistake)
        super().__init__(str(self.problem))


def shown(path: str) -> str:
    """A path as text: bytes that are no text become escapes."""
    if path.isascii() and path.isprintable():
        return path
    return visible(os.fsencode(path).decode("utf-8", "backslashreplace"))


class Folder:
    """One folder and its entries; nothing outside `root` is read through it."""

    __slots__ = (
        "_held",
        "_held_name",
        "below",
        "lenient",
        "names",
        "path",
        "root",
        "skipped",
    )

    def __init__(self, path: str, names: "dict[str, os.DirEntry[str] | None]", root: str) -> None:
        self.path = path
        self.names = names
        # Whether the folders in it are still to be walked.
        self.below = True
        self.root = root
        # Whether half an event is skipped like any other noise. It is refused where nobody knows
        # that the run was stopped: then the file may have been damaged.
        self.lenient = False
        # How many lines were skipped because they are no events.
        self.skipped = 0
        self._held_name = ""
        self._held = b""

    def where(self, name: str = "", line: int | None = None) -> Position:
        """The folder, a file in it, or a line of that file."""
        return Position(shown(self._path(name) if name else self.path), line)

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def holds(self, name: str) -> bool:
        """Whether there is such a file, in the folder itself or one below."""
        return name.split("/", 1)[0] in self.names and os.path.lexists(self._path(name))

    def refuse(self, message: str, name: str = "") -> SourceError:
        """The error that names this folder, or a file in it."""
        return SourceError(self.where(name), message)

    def read(self, name: str) -> bytes:
        """A whole file, no larger than `LARGEST_DOCUMENT`; the last one read is held."""
        if name != self._held_name:
            self._held = self._read(name)
            self._held_name = name
        return self._held

    def head(self, name: str) -> bytes:
        """The first bytes of a file, without spaces, to recognize the program that wrote it."""
        return b"".join(self._start(name).split())

    def _start(self, name: str) -> bytes:
        if name == self._held_name:
            return self._held[:_HEAD]
        with self.open(name) as stream:
            return self._piece(stream.read, _HEAD, name)

    def opening(self, name: str) -> bytes:
        """Its head from the first object on, without what was printed before that."""
        start = self._start(name)
        opening = _OPENING.search(start)
        return b"".join(start[opening.start() if opening else 0 :].split())

    def document(self, name: str) -> bytes:
        """A whole file from its first object on; the lines before that are counted as skipped.

        Nothing if there is none.
        """
        text = self.read(name)
        opening = _OPENING.search(text)
        if opening is None:
            return b""
        self.skipped += sum(bool(line.strip()) for line in text[: opening.start()].split(b"\n"))
        return text[opening.start() :].lstrip()

    def decode(self, name: str, decoder: "msgspec.json.Decoder[T]") -> T:
        """A JSON document as its type; every way in which it is not one is named."""
        return decoded(self.read(name), decoder, self.where(name))

    def decode_if_there(self, name: str, decoder: "msgspec.json.Decoder[T]") -> T | None:
        """A JSON document one folder below, or None if there is none."""
        if not self.holds(name):
            return None
        text = self._read(name)
        return decoded(text, decoder, self.where(name))

    def decode_lines(self, name: str, decoder: "msgspec.json.Decoder[T]") -> Iterator[T]:
        """The objects of a JSONL file, in order; of a long file, one is held at a time.

        Lines that are no events are skipped and counted.
        """
        if self.size(name) > WHOLE_FILE:
            yield from self._events(name, self.lines(name), decoder)
            return
        text = self.read(name)
        try:
            yield from decoder.decode_lines(text)
        except (ValueError, RecursionError):
            # Decoded once more line by line, for the position.
            yield from self._events(name, enumerate(text.split(b"\n"), 1), decoder)

    def _events(
        self, name: str, lines: Iterable[tuple[int, bytes]], decoder: "msgspec.json.Decoder[T]"
    ) -> Iterator[T]:
        for number, line in lines:
            if not line.strip():
                continue
            try:
                value = decoder.decode(line)
            except (ValueError, RecursionError):
                if not self._is_noise(line):
                    decoded(line, decoder, self.where(name, number))
                self.skipped += 1
            else:
                yield value

    def _is_noise(self, line: bytes) -> bool:
        """Whether a line is no event: what is printed beside them, and half of one, if lenient."""
        if not line.lstrip().startswith(b"{"):
            return True
        try:
            msgspec.json.decode(line)
        except RecursionError:
            return False
        except ValueError:
            return self.lenient or not _EVENT.match(line)
        return False

    def size(self, name: str) -> int:
        """The bytes of a file."""
        self._guard(name)
        try:
            return os.stat(self._path(name)).st_size
        except (OSError, ValueError) as error:
            raise self._unread(name, error) from error

    def most_unpacked(self, name: str) -> int:
        """How many bytes a packed file may unpack to."""
        return max(LEAST_UNPACKED, LARGEST_RATIO * self.size(name))

    def lines(self, name: str) -> Iterator[tuple[int, bytes]]:
        """The lines of a file with their numbers, none of them endless."""
        number = 0
        with self.open(name, buffered=True) as stream:
            while line := self._piece(stream.readline, LONGEST_LINE + 1, name):
                number += 1
                if len(line) > LONGEST_LINE:
                    message = (
                        f"a line longer than {LONGEST_LINE // 2**20} MiB; "
                        "no event of a run is that long"
                    )
                    raise SourceError(self.where(name, number), message)
                yield number, line.rstrip(b"\r\n")

    def _read(self, name: str) -> bytes:
        self._guard(name)
        try:
            # Without the layers of `open`, which would take as long as the reading itself.
            descriptor = os.open(self._path(name), os.O_RDONLY | getattr(os, "O_BINARY", 0))
            try:
                size = os.fstat(descriptor).st_size
                if size > LARGEST_DOCUMENT:
                    most = f"one JSON document may have {LARGEST_DOCUMENT:,}"
                    raise self.refuse(f"{size:,} bytes; {most}", name)
                text = os.read(descriptor, size)
                while len(text) < size and (piece := os.read(descriptor, size - len(text))):
                    text += piece
                return text
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise self._unread(name, error) from error

    def open(self, name: str, *, buffered: bool = False) -> Any:
        """A file that is read in pieces."""
        self._guard(name)
        try:
            path = self._path(name)
            return open(path, "rb") if buffered else open(path, "rb", buffering=0)
        except (OSError, ValueError) as error:
            raise self._unread(name, error) from error

    def _piece(self, read: Callable[[int], bytes], size: int, name: str) -> bytes:
        try:
            return read(size)
        except OSError as error:
            raise self._unread(name, error) from error

    def _unread(self, name: str, error: Exception) -> SourceError:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return self.refuse(f"cannot be read: {reason}", name)

    def _guard(self, name: str) -> None:
        """Refuse what is no plain file, and a link that leaves the folder that was given."""
        first, _, rest = name.partition("/")
        entry = self.names.get(first)
        if entry is None:
            return
        if entry.is_symlink() or (rest and os.path.islink(self._path(name))):
            inside(self._path(name), self.root)
        try:
            plain = os.path.isfile(self._path(name)) if rest else entry.is_file()
        except OSError as error:
            raise self._unread(name, error) from error
        if not plain:
            raise self.refuse("not a plain file", name)


def inside(path: str, root: str) -> None:
    """Refuse a path that leads out of the real path `root`."""
    real = os.path.realpath(path)
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        raise SourceError(
            Position(shown(path)), "a symbolic link that leaves the folder; copy what it points to"
        )


def decoded(text: bytes, decoder: "msgspec.json.Decoder[T]", where: Position) -> T:
    """JSON as its type, or an error that says what was found at which path."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise SourceError(where, _lowered(error)) from error
    except RecursionError as error:
        raise SourceError(where, "nested too deeply") from error
    except ValueError as error:
        if not text.strip():
            raise SourceError(where, "empty; expected JSON") from error
        raise SourceError(where, f"not JSON: {_lowered(error)}") from error


def _lowered(error: Exception) -> str:
    """What a decoder said, as the middle of a sentence."""
    message = visible(str(error))
    starts_with_a_word = message[1:2].islower()
    return f"{message[0].lower()}{message[1:]}" if starts_with_a_word else message


def walk(path: str) -> Iterator[Folder | Problem]:
    """The folders under a path, in order of their names; or a file, as a folder of its own.

    Hidden folders are left out. Links to folders are not followed: one that stays inside is met at
    its own place, one that leaves is a problem.
    """
    if "\0" in path:
        raise InputError(f"{shown(path)}: cannot be read: no path holds a null character")
    if os.path.isfile(path):
        parent, name = os.path.split(path)
        root = os.path.realpath(path)
        folder = Folder(parent, {name: None}, root)
        folder.below = False
        yield folder
        return
    root = os.path.realpath(path)
    waiting: list[tuple[str, int]] = [(path, 0)]
    while waiting:
        at, depth = waiting.pop()
        if depth > DEEPEST:
            yield Position(shown(at)).problem(f"more than {DEEPEST} folders deep")
            continue
        try:
            with os.scandir(at) as entries:
                names: dict[str, os.DirEntry[str] | None] = {entry.name: entry for entry in entries}
        except OSError as error:
            if at == path:
                reason = error.strerror
                raise InputError(f"{shown(path)}: cannot be read: {reason}") from error
            yield Position(shown(at)).problem(f"cannot be read: {error.strerror}")
            continue
        folder = Folder(at, names, root)
        yield folder
        if not folder.below:
            continue
        for name in sorted(names, reverse=True):
            entry = names[name]
            if entry is None or name.startswith(".") or not _is_folder(entry):
                continue
            if entry.is_symlink():
                try:
                    inside(entry.path, root)
                except SourceError as error:
                    yield error.problem
                continue
            waiting.append((entry.path, depth + 1))


def only_file(path: str, expected: str) -> tuple[Folder, str]:
    """The one file that a path names, and its folder; `expected` says what it should be."""
    folder = next(iter(walk(path)))
    if not isinstance(folder, Folder) or folder.below:
        raise InputError(f"{shown(path)}: not a file; expected {expected}")
    return folder, next(iter(folder.names))


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
