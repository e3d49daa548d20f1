"""Run files in and out: JSONL, gzip, zstd, standard input; the position of every bad line."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Protocol, TypeAlias

import msgspec

from twoarm.errors import BadRunsError, InputError, Problem, UsageError
from twoarm.quote import visible
from twoarm.record import Line, OpenLine, Run, explain, line_type, unknown_keys
from twoarm.runs import Builder, Input, Runs


class Readable(Protocol):
    """An open binary file, or anything that reads like one."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


Path: TypeAlias = str | os.PathLike[str]
# Takes a stage, how far it is, and how far it goes; None if nobody knows.
Progress: TypeAlias = Callable[[str, int, int | None], None]
Source: TypeAlias = Path | Readable | Sequence[Path | Readable] | Iterable[Mapping[str, Any] | Run]

# How many bad lines an error lists before it only counts.
LISTED = 100
# A longer line is refused, so that a file without line ends cannot fill the memory.
LONGEST_LINE = 16 * 2**20
# No more unknown keys than this are noted: some files use ids as keys.
MOST_UNKNOWN_KEYS = 100

_BLOCK = 2**18
_ITEMS = 4_096
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read(
    source: Source,
    *,
    skip_bad: bool = False,
    listed: int | None = LISTED,
    times: bool = False,
    progress: Progress | None = None,
) -> Runs:
    """All runs of a path, several paths, an open binary file, or an iterable of mappings or Runs.

    Raises BadRunsError with every bad line, unless `skip_bad` and some lines are good.
    """
    reader = _Reader(listed, times=times)
    files, items = _told_apart(source)
    if progress is not None and files:
        reader.watched = _Watched(progress, files)
    inputs = [reader.file(file) for file in files] if files else [reader.items(items)]
    if reader.problem_count and not (skip_bad and len(reader.builder)):
        raise BadRunsError(reader.problems, reader.problem_count)
    if not len(reader.builder):
        where = ", ".join(visible(given.path) for given in inputs)
        raise InputError(f"{where}: no runs; expected one JSON object per line")
    return reader.builder.finish(
        inputs=inputs,
        unknown_keys=reader.unknown,
        bad_lines=reader.bad_lines,
        problems=reader.problems,
    )


def _told_apart(source: Source) -> tuple[list[Path | Readable], Iterable[Any]]:
    """Files, or else runs in memory."""
    if isinstance(source, str | os.PathLike) or hasattr(source, "read"):
        return [source], ()  # type: ignore[list-item]
    if isinstance(source, bytes | Mapping | Run) or not isinstance(source, Iterable):
        found = type(source).__name__
        raise UsageError(f"expected a path, paths, or an iterable of runs, got one `{found}`")
    remaining = iter(source)
    head = list(islice(remaining, 1))
    if head and (isinstance(head[0], str | os.PathLike) or hasattr(head[0], "read")):
        return [*head, *remaining], ()  # type: ignore[list-item]
    return [], chain(head, remaining)


_OPEN = msgspec.json.Decoder(OpenLine)


class _Reader:
    """Decodes lines in batches; only a batch that fails is looked at line by line."""

    def __init__(self, listed: int | None, *, times: bool) -> None:
        self.builder = Builder(times=times)
        self.unknown: tuple[str, ...] = ()
        self.problems: list[Problem] = []
        self.problem_count = 0
        self.bad_lines = 0
        self.watched: _Watched | None = None
        self._listed = listed
        self._type: type[Line] = Line
        self._decode: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode

    def file(self, file: Path | Readable) -> Input:
        """Read one file to its end."""
        if isinstance(file, str | os.PathLike):
            # A path may hold bytes that are no text; they must not break an output.
            name = os.fsencode(file).decode("utf-8", "backslashreplace")
            if "\0" in name:
                raise InputError(f"{visible(name)}: cannot be read: no path holds a null character")
            try:
                with open(file, "rb") as stream:
                    return self._stream(stream, name)
            except OSError as error:
                raise InputError(f"{visible(name)}: cannot be read: {error.strerror}") from error
        return self._stream(file, str(getattr(file, "name", "<stream>")))

    def _stream(self, stream: Readable, name: str) -> Input:
        digest = _Digest()
        before = len(self.builder)
        source, line = visible(name), 1
        blocks = digest.through(stream)
        if self.watched is not None:
            blocks = self.watched.through(blocks)
        for lines in _batches(_text(blocks, source)):
            try:
                decoded = list(map(self._decode, lines))  # type: ignore[arg-type]
            except (ValueError, TypeError, RecursionError):
                for offset, text in enumerate(lines):
                    self._one(text, source, line + offset)
            else:
                self.builder.add(decoded, source, line)
            line += len(lines)
        return Input(path=name, sha256=digest.hex(), records=len(self.builder) - before)

    def _one(self, text: bytes | None, source: str, line: int) -> None:
        if text is None:
            message = f"longer than {LONGEST_LINE // 2**20} MiB; write one object per line"
            self._bad([Problem(where=f"{source}:{line}", field=None, message=message)])
            return
        if not text.strip():
            return
        try:
            decoded = self._decode(text)
        except (ValueError, RecursionError) as error:
            found, problems = _examined(text, f"{source}:{line}", error)
            if found is not None and self._learn(found):
                self._one(text, source, line)
            else:
                self._bad(problems)
        else:
            self.builder.add([decoded], source, line)

    def items(self, items: Iterable[Any]) -> Input:
        """Take runs that are in memory already."""
        numbered = enumerate(items, 1)
        while batch := list(islice(numbered, _ITEMS)):
            run: list[Line] = []
            first = batch[0][0]
            for number, item in batch:
                decoded = self._item(item, number)
                if decoded is None:
                    self.builder.add(run, "run", first)
                    run, first = [], number + 1
                else:
                    run.append(decoded)
            self.builder.add(run, "run", first)
        return Input(path="<memory>", sha256=None, records=len(self.builder))

    def _item(self, item: Any, number: int) -> Line | None:
        if isinstance(item, Run):
            said = msgspec.structs.asdict(item)
            item = {key: value for key, value in said.items() if value is not msgspec.UNSET}
        try:
            decoded = msgspec.convert(item, self._type)
            if self._type is OpenLine:
                self._note(item)
            # Python strings can hold what no file can.
            f"{decoded.task_id}{decoded.arm}{decoded.failure_reason}".encode()
            return decoded
        except (ValueError, OverflowError, RecursionError) as error:
            if isinstance(item, Mapping) and self._learn(item):
                return self._item(item, number)
            where = f"run:{number}"
            problems = explain(item, where)
            self._bad(problems or [Problem(where=where, field=None, message=visible(str(error)))])
            return None

    def _learn(self, found: Mapping[str, Any]) -> bool:
        """Whether the line had keys not seen before; from now on they are accepted."""
        if self._type is OpenLine or not self._note(found):
            return False
        told_apart = line_type(self.unknown) if len(self.unknown) < MOST_UNKNOWN_KEYS else None
        if told_apart is None:
            self._type = OpenLine
            self._decode = self._decode_open
        else:
            self._type = told_apart
            self._decode = msgspec.json.Decoder(told_apart).decode
        return True

    def _note(self, found: Mapping[str, Any]) -> bool:
        """Whether there was an unknown key to note."""
        room = MOST_UNKNOWN_KEYS - len(self.unknown)
        new = [key for key in unknown_keys(found) if key not in self.unknown][:room]
        self.unknown += tuple(new)
        return bool(new)

    def _decode_open(self, text: bytes) -> Line:
        decoded = _OPEN.decode(text)
        if len(self.unknown) < MOST_UNKNOWN_KEYS:
            self._note(msgspec.json.decode(text))
        return decoded

    def _bad(self, problems: list[Problem]) -> None:
        self.bad_lines += 1
        self.problem_count += len(problems)
        if self._listed is None:
            self.problems += problems
        else:
            self.problems += problems[: self._listed - len(self.problems)]


def _examined(
    text: bytes, where: str, error: Exception
) -> tuple[Mapping[str, Any] | None, list[Problem]]:
    """A bad line read as leniently as it can be, to name every field at fault."""
    import json

    try:
        found = json.loads(text)
    except RecursionError:
        message = "nested too deeply to be a run"
    except UnicodeDecodeError as broken:
        message = f"not UTF-8 at byte {broken.start + 1}; save the file as UTF-8"
    except json.JSONDecodeError as broken:
        message = (
            f"not one JSON object: {broken.msg[0].lower()}{broken.msg[1:]} "
            f"at column {broken.colno}; write one object per line"
        )
    except ValueError:
        message = "holds a number too large to read"
    else:
        problems = explain(found, where)
        if problems or isinstance(error, msgspec.ValidationError):
            return (found if isinstance(found, Mapping) else None), problems
        message = f"not valid JSON ({error}); write one object per line"
    return None, [Problem(where=where, field=None, message=visible(message))]


class _Watched:
    """Tells how many bytes of all files have been read, packed as they are."""

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


class _Digest:
    """The SHA-256 of what passes through; beside the decoding, once there is more than a block."""

    def __init__(self) -> None:
        self._sha256: Any = None

    def through(self, stream: Readable) -> Iterator[bytes]:
        """The blocks of a stream."""
        first = stream.read(_BLOCK)
        if isinstance(first, str):
            raise UsageError("expected an open binary file, got one of text; open it with `rb`")
        if not isinstance(first, bytes):
            raise UsageError(f"expected a stream of bytes, got `{type(first).__name__}`")
        # A stream may give less than was asked for: only nothing is its end.
        second = stream.read(_BLOCK) if first else b""
        if second:
            yield from self._beside(stream, [first, second])
        else:
            self._sha256 = _quick_sha256()(first)
            yield first

    def _beside(self, stream: Readable, blocks: list[bytes]) -> Iterator[bytes]:
        from hashlib import sha256
        from queue import Queue
        from threading import Thread

        self._sha256 = digest = sha256()
        waiting: Queue[bytes] = Queue(maxsize=8)

        def work() -> None:
            while block := waiting.get():
                digest.update(block)

        worker = Thread(target=work, daemon=True)
        worker.start()
        try:
            for block in chain(blocks, iter(lambda: stream.read(_BLOCK), b"")):
                waiting.put(block)
                yield block
        finally:
            waiting.put(b"")
            worker.join()

    def hex(self) -> str:
        """The digest, after the last block."""
        assert self._sha256 is not None
        found: str = self._sha256.hexdigest()
        return found


def _quick_sha256() -> Any:
    """The one that comes with Python: `hashlib` takes longer to load OpenSSL than to score."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    return sha256


def _text(blocks: Iterator[bytes], source: str) -> Iterator[bytes]:
    """The bytes of the lines: unpacked if packed, told by the first bytes, without a byte mark."""
    first, blocks = _headed(blocks)
    if first.startswith(_GZIP):
        first, blocks = _headed(_gunzipped(chain([first], blocks), source))
    elif first.startswith(_ZSTD):
        first, blocks = _headed(_unzstd(chain([first], blocks), source))
    if first.startswith(_UTF16_MARKS):
        raise InputError(f"{source}: UTF-16 text; save the file as UTF-8")
    return chain([first.removeprefix(_UTF8_MARK)], blocks)


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
    from backports.zstd import ZstdDecompressor, ZstdError

    unpacker = ZstdDecompressor()
    try:
        for block in blocks:
            while block or not (unpacker.eof or unpacker.needs_input):
                if unpacker.eof:
                    unpacker = ZstdDecompressor()
                text = unpacker.decompress(block, _BLOCK)
                block = unpacker.unused_data if unpacker.eof else b""
                if text:
                    yield text
    except ZstdError as error:
        raise InputError(f"{source}: damaged zstd data: {error}") from error
    if not unpacker.eof:
        raise InputError(f"{source}: zstd data ends early; the file is cut off")


def _batches(blocks: Iterator[bytes]) -> Iterator[list[bytes | None]]:
    """Whole lines, many at a time; None stands for a line that is too long."""
    pieces: list[bytes] = []
    held = 0
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            whole = b"".join((*pieces, block[: cut - 1]))
            lines: list[bytes | None] = whole.split(b"\n")  # type: ignore[assignment]
            if held > LONGEST_LINE:
                lines[0] = None
            yield lines
            pieces, held = [block[cut:]], len(block) - cut
        else:
            held += len(block)
            if held > LONGEST_LINE:
                # Keep nothing of it but the fact that it is too long.
                pieces = []
            else:
                pieces.append(block)
    if held > LONGEST_LINE:
        yield [None]
    elif held:
        yield [b"".join(pieces)]
