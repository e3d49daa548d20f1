"""The bytes of run files: read, hashed, unpacked, and cut into batches of whole lines."""

import os
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from twoarm.errors import InputError, UsageError
from twoarm.runs.arrays import Ints
from twoarm.text.escape import visible


class Readable(Protocol):
    """An open binary file, or anything that reads like one."""

    def read(self, size: int, /) -> bytes | None:
        """At most `size` bytes; none at the end; None if there is nothing to read yet."""
        ...


Path: TypeAlias = str | os.PathLike[str]
# Takes a stage, how far it is, and how far it goes; None if nobody knows.
Progress: TypeAlias = Callable[[str, int, int | None], None]

# A longer line is refused, so that a file without line ends cannot fill the memory.
LONGEST_LINE = 16 * 2**20
UTF8_MARK = b"\xef\xbb\xbf"

_BLOCK = 2**18
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# The first byte of a zstd frame without text may have any lower half.
_ZSTD_SKIPPABLE = tuple(bytes([0x50 + low]) + b"\x2a\x4d\x18" for low in range(16))
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Batch(NamedTuple):
    """Whole lines, and where each but the last ends; the first may be too long to be kept."""

    text: bytes
    ends: Ints
    too_long: bool

    @property
    def size(self) -> int:
        """How many lines there are."""
        return len(self.ends) + 1

    def lines(self) -> list[bytes | None]:
        """The lines one by one; None stands for one that is too long."""
        lines = self.text.split(b"\n")
        return [None, *lines[1:]] if self.too_long else [*lines]


def blocks_of(stream: Readable, source: str) -> Iterator[bytes]:
    """The blocks of a stream to its end; a stream that pauses is waited for."""
    while True:
        try:
            block = stream.read(_BLOCK)
        except BlockingIOError:
            block = None
        except (OSError, EOFError, ValueError) as error:
            raise InputError(f"{source}: cannot be read: {_reason(error)}") from error
        if block is None:
            _wait(stream, source)
            continue
        if isinstance(block, str):
            raise UsageError(
                "expected a file open in binary mode, got a text file; open it with `rb`"
            )
        if not isinstance(block, bytes):
            raise UsageError(f"expected a stream of bytes, got `{type(block).__name__}`")
        if not block:
            return
        yield block


def _reason(error: Exception) -> str:
    return visible(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _wait(stream: Readable, source: str) -> None:
    """Wait until a stream in non-blocking mode has something to read, or ends."""
    from selectors import EVENT_READ, DefaultSelector

    fileno = getattr(stream, "fileno", None)
    try:
        if fileno is None:
            raise ValueError("no file descriptor")
        with DefaultSelector() as selector:
            selector.register(fileno(), EVENT_READ)
            selector.select()
    except (OSError, ValueError) as error:
        message = "has nothing to read yet, and twoarm cannot wait for it; open it in blocking mode"
        raise InputError(f"{source}: {message}") from error


class Watched:
    """Reports how many bytes of all files have been read, packed as they are."""

    def __init__(self, progress: Progress, files: list[Path | Readable]) -> None:
        self._progress = progress
        self._done = 0
        self._total: int | None = 0
        for file in files:
            size = _size(file)
            self._total = None if size is None or self._total is None else self._total + size

    def through(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The same blocks."""
        for block in blocks:
            self._done += len(block)
            self._progress("reading", self._done, self._total)
            yield block


def _size(file: Path | Readable) -> int | None:
    """The size of a file; None for what has no size, or does not exist."""
    if not isinstance(file, str | os.PathLike):
        return None
    try:
        return os.path.getsize(file) or None
    except (OSError, ValueError):
        return None


class Digest:
    """The SHA-256 of what passes through; beside the decoding, once there is more than a block."""

    def __init__(self) -> None:
        from hashlib import sha256

        self._sha256 = sha256()

    def through(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The same blocks."""
        first = next(blocks, b"")
        # A stream may give less than was asked for: only nothing is its end.
        second = next(blocks, b"") if first else b""
        if second:
            yield from self._beside(chain([first, second], blocks))
        else:
            self._sha256.update(first)
            yield first

    def _beside(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        from queue import Queue
        from threading import Thread

        digest = self._sha256
        waiting: Queue[bytes] = Queue(maxsize=8)

        def work() -> None:
            while block := waiting.get():
                digest.update(block)

        worker = Thread(target=work, daemon=True)
        try:
            worker.start()
        except (RuntimeError, MemoryError):
            # A machine without a thread to spare still gets its digest, only later.
            for block in blocks:
                digest.update(block)
                yield block
            return
        try:
            for block in blocks:
                waiting.put(block)
                yield block
        finally:
            waiting.put(b"")
            worker.join()

    def hex(self) -> str:
        """The digest, after the last block."""
        return self._sha256.hexdigest()


def unpacked(blocks: Iterator[bytes], source: str) -> Iterator[bytes]:
    """The text of the lines, without a byte order mark; the first bytes show how it is packed."""
    first, blocks = _headed(blocks)
    if first.startswith(_GZIP):
        first, blocks = _headed(_gunzipped(chain([first], blocks), source))
    elif first.startswith((_ZSTD, *_ZSTD_SKIPPABLE)):
        first, blocks = _headed(_unzstd(chain([first], blocks), source))
    if first.startswith(_UTF16_MARKS):
        raise InputError(f"{source}: UTF-16 text; save the file as UTF-8")
    return chain([first.removeprefix(UTF8_MARK)], blocks)


def _headed(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """A first block that holds any mark whole, and the other blocks."""
    first = b""
    for block in blocks:
        first += block
        if len(first) >= len(_ZSTD):
            break
    return first, blocks


def _gunzipped(blocks: Iterator[bytes], source: str) -> Iterator[bytes]:
    import zlib

    inflater = zlib.decompressobj(wbits=31)
    try:
        for block in blocks:
            while block:
                if inflater.eof:
                    inflater = zlib.decompressobj(wbits=31)
                text = inflater.decompress(block, _BLOCK)
                block = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
                if text:
                    yield text
    except zlib.error as error:
        raise InputError(f"{source}: damaged gzip data: {error}") from error
    if not inflater.eof:
        raise InputError(f"{source}: gzip data ends early; the file is cut off")


def _unzstd(blocks: Iterator[bytes], source: str) -> Iterator[bytes]:
    from twoarm.files.zstd import zstd

    unpacker = zstd.ZstdDecompressor()
    try:
        for block in blocks:
            while block or not (unpacker.eof or unpacker.needs_input):
                if unpacker.eof:
                    unpacker = zstd.ZstdDecompressor()
                text = unpacker.decompress(block, _BLOCK)
                block = unpacker.unused_data if unpacker.eof else b""
                if text:
                    yield text
    except zstd.ZstdError as error:
        raise InputError(f"{source}: damaged zstd data: {error}") from error
    if not unpacker.eof:
        raise InputError(f"{source}: zstd data ends early; the file is cut off")


def batches(blocks: Iterator[bytes]) -> Iterator[Batch]:
    """Whole lines, many at a time."""
    pieces: list[bytes] = []
    held = 0
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            whole = b"".join((*pieces, memoryview(block)[: cut - 1]))
            yield _batch(whole, too_long=held > LONGEST_LINE)
            pieces, held = [block[cut:]], len(block) - cut
        else:
            held += len(block)
            if held > LONGEST_LINE:
                # Keep nothing of it but the fact that it is too long.
                pieces = []
            else:
                pieces.append(block)
    if held:
        yield _batch(b"".join(pieces), too_long=held > LONGEST_LINE)


def _batch(text: bytes, *, too_long: bool) -> Batch:
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    return Batch(text, ends, too_long)
