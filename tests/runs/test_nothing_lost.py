"""A line is counted or reported, never neither; a stream is read to its end, or it is an error."""

import errno
import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import twoarm
from tests.conftest import both, lines, run
from twoarm.files.zstd import zstd
from twoarm.runs import runfile
from twoarm.runs.runfile import read
from twoarm.runs.runs import Runs

GOOD = lines(both())
# More than one block, so that the line after them is read in a batch whose keys are known.
MANY = lines([one for repeat in range(1, 1_500) for one in both("t", repeat)])
LINE = json.dumps(run("bad"))


def added(*members: str) -> str:
    return LINE[:-1] + "".join(f", {member}" for member in members) + "}"


def column(line: str, part: str, nth: int = 1) -> int:
    at = -1
    for _ in range(nth):
        at = line.index(part, at + 1)
    return at + 1


def twice(line: str, first: str, again: str, key: str, nth: int = 1) -> tuple[str, str]:
    columns = f"{column(line, first)} and {column(line, again, nth)}"
    return line, f"key `{key}` given twice in one object, at columns {columns}; keep one"


TOO_LARGE = "contains a number too large for a double; write it as a string or leave it out"
# A line and what is said about it.
BAD = [
    twice(added('"repeat": 7'), '"repeat"', '"repeat"', "repeat", 2),
    twice(LINE.replace('"repeat": 1', '"repeat": 0, "repeat": 7'), '"rep', '"rep', "repeat", 2),
    twice(LINE.replace('"repeat": 1', '"repeat": 2, "repeat" : 1'), '"rep', '"rep', "repeat", 2),
    twice(added('"re\\u0070eat": 7'), '"repeat"', '"re\\', "repeat"),
    twice(added('"success"\t:false'), '"success"', '"success"', "success", 2),
    twice(added('"tags": {"a": 1, "b": {"a": 1}, "a": 2}'), '"a"', '"a"', "a", 3),
    twice(added('"tags": [{"a": 1}, {"b": 1, "\\u0062": 1}]'), '"b"', '"\\u0062"', "b"),
    twice(added('"note": 1', '"note": 1'), '"note"', '"note"', "note", 2),
    twice(added('"note": {"": 1, "": 2}'), '""', '""', "  ", 2),
    twice(added('"note": "\\u0022\\u0022"', '"repeat": 7'), '"repeat"', '"repeat"', "repeat", 2),
    twice(added('"model": "\\u0022\\u0022"', '"model": "m"'), '"model"', '"model"', "model", 2),
    twice(added('"model": "\\\\u0022"', '"model": "m"'), '"model"', '"model"', "model", 2),
    twice(added('"q\\"": 1', '"q\\u0022": 1'), '"q', '"q', 'q"', 2),
    (added('"loss": 1e999'), f"loss: {TOO_LARGE}"),
    (added('"loss": {"a": [0, -1e400]}'), f"loss: {TOO_LARGE}"),
    (added('"tags": [1e400]'), f"tags: {TOO_LARGE}"),
    (added('"a\\u001bb": 1e999'), f"a\\x1bb: {TOO_LARGE}"),
    ("\ufeff" + LINE, "starts with a byte order mark, which only a file may start with; remove it"),
    (
        LINE.replace("bad", "b\0d"),
        "not one JSON object: invalid control character at column 15; write one object per line",
    ),
    (
        added('"failure": "\\udc00\\ud800"'),
        'failure: expected "agent", "infra", "missing", "interrupted" or null, got',
    ),
]


@pytest.mark.parametrize("before", [b"", MANY], ids=["first", "later"])
@pytest.mark.parametrize(("line", "message"), BAD)
def test_what_a_decoder_would_let_pass_or_lose_is_reported(
    line: str, message: str, before: bytes
) -> None:
    text = before + GOOD.replace(b'"t"', b'"u"') + line.encode() + b"\n"
    with pytest.raises(twoarm.BadRunsError) as caught:
        read(io.BytesIO(text))
    count = text.count(b"\n")
    assert str(caught.value).startswith(f"<stream>:{count}: {message}")
    assert "\n" not in str(caught.value)
    assert len(twoarm.check(io.BytesIO(text)).problems) == 1
    kept = read(io.BytesIO(text), skip_bad=True)
    assert (len(kept), kept.bad_lines) == (count - 1, 1)


def test_keys_repeated_everywhere_are_listed_up_to_a_limit() -> None:
    members = [f'"k{i}": {{"x": 1, "x": 2}}' for i in range(50)]
    with pytest.raises(twoarm.BadRunsError) as caught:
        read(io.BytesIO(GOOD + added(*members).encode()))
    assert caught.value.count == 10


@pytest.mark.parametrize(
    "line",
    [
        added('"tags": {"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}'),
        added('"model": "a: \\"b\\": \\u0022c\\u0022: \\\\u0022 \\\\\\u0022"'),
        added('"quote \\" and \\\\": 1', '"a": "\\\\"'),
        added('"m": "repeat"', '"repeat ": 1', '"Repeat": 1'),
        added('"a": 1e-999', f'"b": {10**30}', '"c": -0.0'),
    ],
)
def test_what_only_looks_like_a_repeated_key_is_read(line: str) -> None:
    assert len(read(io.BytesIO(MANY + line.encode()))) == MANY.count(b"\n") + 1


TWO = f"{LINE} {json.dumps(run('bad', repeat=2))}"
BROKEN_OFF = LINE.replace(", ", ",\n", 1)


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        (f"{TWO}\n{BROKEN_OFF}", [1, 2, 3]),
        (f"{BROKEN_OFF}\n{TWO}\n{LINE}", [1, 2, 3]),
        (f"\n{TWO}", [2]),
        (f"{TWO}\n", [1]),
        (f"{TWO}\n \t", [1]),
        (f" \t\n{TWO} ", [2]),
        (f" \n{TWO}", [2]),
        (f"{TWO}\n \n{LINE}", [1]),
        (f"{LINE}\n\n{TWO}", [3]),
        (f"{LINE}{{\n}}\n{TWO}", [1, 2, 3]),
        (TWO.replace("} {", "}\r{") + "\n", [1]),
        (f"{TWO}\n\r\n{LINE}", [1]),
    ],
)
def test_as_many_runs_as_lines_are_not_a_run_on_each(text: str, bad: list[int]) -> None:
    assert bad_lines(GOOD.replace(b'"t"', b'"u"'), text) == bad


@pytest.mark.parametrize("broken", ['"tags":\n{"a": 1}', '"tags": {"a": 1}\n'])
def test_a_line_may_end_beside_an_object_inside_of_a_run(broken: str) -> None:
    before, tagged = (json.dumps(run(task, tags={"a": 1}, model="m")) for task in ("first", "bad"))
    line = tagged.replace('"tags": {"a": 1}', broken)
    again = tagged.replace('"repeat": 1', '"repeat": 2')
    assert bad_lines(f"{before}\n".encode(), f"{line}\n{again} {again}") == [1, 2, 3]


def bad_lines(before: bytes, text: str) -> list[int]:
    """The numbers of the bad lines of a text that is read in a batch of its own."""
    blocks = iter((before, f"{text}\n".encode(), b""))
    stream = io.BytesIO()
    stream.read = lambda size=-1: next(blocks)  # type: ignore[method-assign]
    with pytest.raises(twoarm.BadRunsError) as caught:
        read(stream)
    return [(problem.line or 0) - before.count(b"\n") for problem in caught.value.problems]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"model": 'a "quoted" \\ "name\\'},
        {"tags": {'"': ["\\", '\\"', None, 'a "b"']}, "note": '"\\'},
        {"failure": None, "note": None},
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", " \t\n", "\n  "])
def test_most_lines_are_decoded_together(
    end: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run("t", repeat=number, **changed) for number in range(1, 3_000)]
    # Some lines lack a key.
    for number, one in enumerate(runs):
        if number % 3:
            one["agent"] = "a"
    one_by_one = 0
    line = runfile._Reader._line

    def counted(*given: Any) -> Any:
        nonlocal one_by_one
        one_by_one += 1
        return line(*given)

    monkeypatch.setattr(runfile._Reader, "_line", counted)
    text = "".join(json.dumps(one) + end for one in runs)
    assert len(read(io.BytesIO(text.encode()))) == len(runs)
    assert 0 < one_by_one < len(runs) / 2


# The promise ------------------------------------------------------------------------------------


def test_a_lost_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runfile._Reader, "_bad", lambda self, problems: None)
    with pytest.raises(twoarm.TwoarmError, match="<stream>: 3 lines read but 2 accounted for"):
        read(io.BytesIO(GOOD + b"[]\n"))
    with pytest.raises(twoarm.TwoarmError, match="<memory>: 3 runs read but 2 accounted for"):
        read([*both(), run(repeat=0)])


def test_a_bad_line_without_a_problem_still_stops_the_scoring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runfile, "explain", lambda *_: [])
    with pytest.raises(twoarm.BadRunsError, match="run:3: Expected `int` >= 1"):
        read([*both(), run(repeat=0)])


OPTIONAL: dict[str, list[Any]] = {
    "step_count": [None, 3],
    "tool_call_count": [None, 4.5],
    "agent_exit_code": [None, 0, 1, 86],
    "opencode_exit_code": [None, 0, 86],
    "acceptance_exit_code": [None, 0, 99],
    "failure": [None, "agent", "infra", "missing"],
    "failure_reason": [None, "late", 'said "no"'],
    "model": [None, "m", "n:1"],
    "agent": [None, "a"],
    "started_at_utc": [None, "2026-11-01T10:00:00Z", "no time"],
    "tags": [None, {"a": {"b": "c"}}],
    "note": [None, "x"],
}


def columns(runs: Runs) -> tuple[Any, ...]:
    numbers = {name: list(map(repr, values)) for name, values in runs.numbers.items()}
    outcomes = [runs.outcomes[code] for code in runs.outcome]
    started = list(map(repr, runs.started))
    return runs.tasks, runs.arms, numbers, outcomes, runs.makers, started, set(runs.unknown_keys)


@pytest.mark.parametrize("seed", range(5))
def test_a_key_left_out_and_a_null_are_one_in_a_file_and_in_memory(seed: int) -> None:
    draw = random.Random(seed)
    made = []
    for repeat in range(1, 2_000):
        # The later a line, the more of its keys come and go.
        chosen = [key for key in OPTIONAL if draw.random() < 1 - repeat / 4_000]
        made.append(run("t", repeat=repeat, **{key: draw.choice(OPTIONAL[key]) for key in chosen}))
    assert len(lines(made)) > 2**18, "more than one block"
    in_memory = read(iter(made), times=True)
    assert columns(read(io.BytesIO(lines(made)), times=True)) == columns(in_memory)


# Streams ----------------------------------------------------------------------------------------


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.FileIO]]:
    """A pipe whose reading end does not block."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(reading, "rb", 0), open(writing, "wb", 0) as writer:
        yield reading, writer


@pytest.mark.parametrize("buffering", [-1, 0], ids=["buffered", "raw"])
@pytest.mark.parametrize("text", [GOOD, MANY], ids=["short", "long"])
def test_a_pause_of_a_pipe_that_does_not_block_is_not_its_end(
    pipe: tuple[int, io.FileIO], buffering: int, text: bytes
) -> None:
    reading, writing = pipe
    paused = threading.Event()

    class Paused:
        """The reading end, which says when it had nothing to give."""

        def __init__(self, stream: Any) -> None:
            self.stream, self.fileno = stream, stream.fileno

        def read(self, size: int, /) -> Any:
            found = self.stream.read(size)
            if found is None:
                paused.set()
            return found

    def write() -> None:
        half = len(text) // 2
        for part in (text[:half], text[half:]):
            assert paused.wait(60)
            paused.clear()
            while part:
                part = part[writing.write(part) :]
        writing.close()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with open(reading, "rb", buffering=buffering, closefd=False) as stream:
        assert len(read(Paused(stream))) == text.count(b"\n")
    writer.join()


def test_standard_input_that_does_not_block_is_read_to_its_end(pipe: tuple[int, io.FileIO]) -> None:
    reading, writing = pipe
    command = [sys.executable, "-m", "twoarm", "check", "-"]
    with subprocess.Popen(command, stdin=reading, stdout=-1, stderr=-1, text=True) as process:
        first, second = GOOD.splitlines(keepends=True)
        writing.write(first)
        # Until it has taken the first line, and so met a pause.
        while process.poll() is None and select_readable(reading):
            pass
        writing.write(second)
        writing.close()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("no problems: 2 runs")


def select_readable(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0)[0])


class Stream:
    """Gives what it is told to, one after the other; raises what is an error."""

    name = "given\n"

    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)

    def read(self, size: int, /) -> Any:
        part = self.parts.pop(0) if self.parts else b""
        if isinstance(part, BaseException):
            raise part
        return part


@pytest.mark.parametrize("parts", [(), (GOOD,), (GOOD, GOOD.replace(b'"t"', b'"u"'))])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (OSError(errno.EIO, "Input/output error"), "cannot be read: Input/output error"),
        (OSError("odd\n"), r"cannot be read: odd\n"),
        (OSError(), "cannot be read: OSError"),
        (EOFError("ended early"), "cannot be read: ended early"),
        (ValueError("read of closed file"), "cannot be read: read of closed file"),
        (None, "has nothing to read yet, and twoarm cannot wait for it; open it in blocking mode"),
        (BlockingIOError(), "has nothing to read yet, and twoarm cannot wait for it"),
    ],
)
def test_a_stream_that_fails_is_an_error_with_its_name(
    parts: tuple[bytes, ...], fault: Any, message: str
) -> None:
    with pytest.raises(twoarm.InputError) as caught:
        read(Stream(*parts, fault))
    assert str(caught.value).startswith(f"given\\n: {message}")


def test_a_stream_that_turns_to_text_is_refused() -> None:
    with pytest.raises(twoarm.UsageError, match="open it with `rb`"):
        read(Stream(GOOD, GOOD.decode()))


def test_a_fault_of_the_progress_is_not_blamed_on_the_file(tmp_path: Any) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(GOOD)

    def progress(stage: str, done: int, total: int | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        read(path, progress=progress)


def test_running_out_of_memory_is_an_error_in_one_line() -> None:
    with pytest.raises(twoarm.InputError, match="^out of memory after 2 runs; score fewer files"):
        read([Stream(GOOD), Stream(MemoryError())])


def test_without_a_thread_to_spare_the_digest_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read(io.BytesIO(MANY)).inputs

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert read(io.BytesIO(MANY)).inputs == expected


# Packed -----------------------------------------------------------------------------------------


def skippable(low: int, content: bytes = b"any") -> bytes:
    return struct.pack("<II", 0x184D2A50 + low, len(content)) + content


@pytest.mark.parametrize(
    "packed",
    [
        *(skippable(low) + zstd.compress(GOOD) for low in range(16)),
        skippable(0, b"") + skippable(1, GOOD) + zstd.compress(GOOD),
        zstd.compress(GOOD[:99]) + skippable(2) + zstd.compress(GOOD[99:]) + skippable(3),
        gzip.compress(b"") + gzip.compress(GOOD) + gzip.compress(b""),
    ],
)
@pytest.mark.parametrize("most", [1, 2**20])
def test_frames_without_text_are_passed_over(packed: bytes, most: int) -> None:
    parts = [packed[at : at + most] for at in range(0, len(packed), most)]
    assert len(read(Stream(*parts))) == 2


def test_frames_that_hold_no_text_or_end_early_are_refused() -> None:
    with pytest.raises(twoarm.InputError, match="no runs"):
        read(io.BytesIO(skippable(0)))
    with pytest.raises(twoarm.InputError, match="zstd data ends early"):
        read(io.BytesIO(skippable(0)[:-1]))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="every other test shows it there")
def test_python_3_14_brings_its_own_zstd() -> None:
    # Stands in for 3.14: `backports` is not there, `compression` is.
    program = """
import io, sys, types, zipfile
from backports import zstd
from twoarm.runs.runfile import read
sys.modules["compression"] = types.ModuleType("compression")
sys.modules["compression"].zstd = sys.modules["compression.zstd"] = zstd
sys.modules["backports"] = sys.modules["backports.zstd"] = None
sys.version_info = (3, 14, 0, "final", 0)
print(len(read(io.BytesIO(sys.stdin.buffer.read()))))
import twoarm.files.zstd
assert twoarm.files.zstd.zipfile is zipfile
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=zstd.compress(GOOD), capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (b"2\n", b"")
