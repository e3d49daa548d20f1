"""Lines with arbitrary edits: each is a run, blank or reported, as a strict parser of its own says.

The parser here shares nothing with the reader but Python: `json` with hooks for what it lets pass.
"""

import gzip
import io
import json
import math
from collections.abc import Callable
from random import Random
from typing import Any

from tests.conftest import run
from twoarm.errors import BadRunsError
from twoarm.files.zstd import zstd
from twoarm.runs.runfile import read

SEEDS = 150
LARGEST = 2**53 - 1

REQUIRED_NUMBERS = ("duration_seconds",)
NULLABLE_NUMBERS = (
    *("total_cost_usd", "input_tokens", "output_tokens", "cache_read_tokens"),
    *("cache_write_tokens",),
)
OPTIONAL_NUMBERS = ("step_count", "tool_call_count", "acceptance_cmd_count")
EXIT_CODES = (
    *("agent_exit_code", "acceptance_exit_code", "setup_exit_code", "arm_setup_exit_code"),
    *("opencode_exit_code",),
)
TEXTS = (
    *("failure_reason", "run_id", "model", "agent", "session_id", "started_at_utc"),
    *("ended_at_utc", "prompt_file", "acceptance_command", "workspace", "schema"),
)


class BadError(Exception):
    """Something a run file must not hold."""


def kind(line: bytes) -> str:
    """`run`, `blank` or `bad`."""
    if not line.strip():
        return "blank"
    try:
        text = line.decode("utf-8")
        found = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refused,
            parse_float=_float,
            parse_int=int,
        )
        json.dumps(found, ensure_ascii=False).encode("utf-8")
        _checked(found)
    except (BadError, ValueError, RecursionError):
        return "bad"
    return "run"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadError("a key given twice")
    return found


def _refused(literal: str) -> None:
    raise BadError(literal)


def _float(literal: str) -> float:
    found = float(literal)
    if math.isinf(found):
        raise BadError(literal)
    return found


def _checked(found: Any) -> None:
    if not isinstance(found, dict):
        raise BadError("not an object")
    for key in ("task_id", "arm"):
        _hold(isinstance(found.get(key), str) and found[key] != "")
    _hold(_whole(found.get("repeat")) and 1 <= found["repeat"] <= LARGEST)
    _hold(isinstance(found.get("success"), bool))
    for key in REQUIRED_NUMBERS:
        _hold(_amount(found.get(key)))
    for key in NULLABLE_NUMBERS:
        _hold(key in found)
    for key in (*NULLABLE_NUMBERS, *OPTIONAL_NUMBERS):
        _hold(found.get(key) is None or _amount(found[key]))
    for key in EXIT_CODES:
        value = found.get(key)
        _hold(value is None or (_whole(value) and abs(value) <= LARGEST))
    for key in TEXTS:
        _hold(found.get(key) is None or isinstance(found[key], str))
    _hold(found.get("score") is None or (_amount(found["score"]) and float(found["score"]) <= 1))
    checks = found.get("checks")
    _hold(checks is None or (isinstance(checks, dict) and len(checks) <= 50))
    for name, passed in (checks or {}).items():
        _hold(name != "" and (passed is None or isinstance(passed, bool)))
    _hold(found.get("acceptance_first_pass") in (None, True, False))
    _hold(not _number(found.get("acceptance_first_pass")))
    _hold(found.get("failure") is None or found["failure"] in ("agent", "infra", "missing"))


def _hold(what: bool) -> None:
    if not what:
        raise BadError("a field")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _amount(value: Any) -> bool:
    # Compared as the double that it becomes.
    return _number(value) and value < 10**300 and 0 <= float(value) <= LARGEST


# What lines are made of ---------------------------------------------------------------------------

LITERALS = (
    *("0", "-0", "-0.0", "1", "7", "1.0", "1E5", "1e5", "1.5", "-1", "1e999", "-1e400", "1e-400"),
    *("9007199254740991", "9007199254740992", "9007199254740993", "0.9999999999999999999"),
    *("18446744073709551616", "1" * 30, "9" * 400, "9" * 5000, "1e", "01", "+1", ".5", "1.", "--1"),
    *("NaN", "Infinity", "-Infinity", "nan", "null", "true", "false", "True", "nul", '""', '"x"'),
    *(r'"a\"b"', r'"\u0022"', r'"\\u0022"', r'"\"\": 1, \"arm\": 2"', r'"\ud800"', r'"\x41"'),
    *(r'"\ud83d\ude00"', r'"\udc00\ud800"', '"é☃😀"', '"a\tb"', r'"a\tb"', r'"\u0000"', "'x'"),
    *("[]", "{}", "[1, 2]", '{"a": 1}', '{"a": 1, "a": 2}', r'{"a": 1, "\u0061": 2}'),
    *('{"a": {"b": 1}, "b": {"b": 2}}', '[{"a": 1}, {"a": 2}]', '[{"a": [1e400]}]', "[1e400]"),
    *('{"": 1, "": 2}', '{"a" : 1, "b"\t:\t2}', "[" * 3000 + "]" * 3000, '"agent"', '"infra"'),
    *("0.5", '{"a": true, "b": null}', r'{"\"": false}', '{"a": true, "a": false}'),
    *('"2026-11-01T10:00:00Z"', r'"prose: \"a\": {\"b\": 1}, it said"'),
)
EXTRA = (
    *("step_count", "failure", "failure_reason", "model", "agent", "started_at_utc", "tags"),
    *("agent_exit_code", "opencode_exit_code", "acceptance_first_pass", "schema", "loss", "notes"),
    *("score", "score", "checks", "checks", r"sc\u006fre", r"check\u0073"),
    *("task_id", "arm", "repeat", "success", "input_tokens", r"re\u0070eat", r"tag\u0073"),
    *(r"l\u006fss", r"quote \"", r"back\\slash", "é", r"\u00e9", r"\u0000", "", "Repeat", "a:b"),
    *(r"\u0022", r"\ud800"),
)
PIECES = (
    *(b'"', b"\\", b":", b",", b"{", b"}", b"[", b"]", b"\x00", b"\r", b"\n", b"\xff", b"#", b"/"),
    *(b" ", b"\t", b"\x0b", b"\x0c", b"\xc2\xa0", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\\u0022"),
    *(b"null", b"1e999", b"-", b"0", b"e", b".", b"\xf0\x9f\x98\x80", b"\x1f\x8b", b"{}", b"\x7f"),
    b"\xef\xbb\xbf",
)

Members = list[tuple[str, str]]


def _members(draw: Random, number: int) -> Members:
    arm = draw.choice(("with_skelly", "without_skelly"))
    return [(key, json.dumps(value)) for key, value in run(f"t{number}", arm).items()]


def _written(draw: Random, members: Members) -> bytes:
    comma, colon = draw.choice(((", ", ": "), (",", ":"), (" ,\t", " : "), (", ", ":")))
    written = comma.join(f'"{key}"{colon}{value}' for key, value in members)
    return f"{{{written}}}".encode()


def _tell_more(draw: Random, members: Members) -> None:
    members.insert(draw.randrange(len(members) + 1), (draw.choice(EXTRA), draw.choice(LITERALS)))


def _say_again(draw: Random, members: Members) -> None:
    key, value = draw.choice(members)
    again = (key, draw.choice((value, draw.choice(LITERALS))))
    members.insert(draw.randrange(len(members) + 1), again)


def _say_otherwise(draw: Random, members: Members) -> None:
    at = draw.randrange(len(members))
    members[at] = (members[at][0], draw.choice(LITERALS))


def _leave_out(draw: Random, members: Members) -> None:
    if len(members) > 1:
        members.pop(draw.randrange(len(members)))


def _escape_key(draw: Random, members: Members) -> None:
    at = draw.randrange(len(members))
    key, value = members[at]
    if key and key.isascii() and "\\" not in key:
        i = draw.randrange(len(key))
        members[at] = (f"{key[:i]}\\u{ord(key[i]):04x}{key[i + 1 :]}", value)


def _shuffle(draw: Random, members: Members) -> None:
    draw.shuffle(members)


EDITS: tuple[Callable[[Random, Members], None], ...] = (
    *(_tell_more, _say_again, _say_otherwise, _leave_out, _escape_key, _shuffle),
)


def _damaged(draw: Random, line: bytes) -> bytes:
    at = draw.randrange(len(line) + 1)
    end = min(len(line), at + draw.randrange(1, 9))
    piece = draw.choice((*PIECES, bytes([draw.randrange(256)])))
    return draw.choice(
        (
            line[:at] + piece + line[at:],
            line[:at] + piece + line[end:],
            line[:at] + line[end:],
            line[:at],
            line[at:],
            line[:at] + line[at:end] * 2 + line[end:],
            piece + line,
            line + piece,
            line + line,
        )
    )


def _line(draw: Random, number: int) -> bytes:
    """A good line, a blank one, or a line with a few edits; an edit may leave it good."""
    members = _members(draw, number)
    if number and draw.random() < 0.05:
        return draw.choice((b"", b" ", b"\t\r", b"\r", b"\x0c", b"\xc2\xa0", b"\x00"))
    # The first line stays good: a file is known by its first bytes.
    if number and draw.random() < 0.6:
        for _ in range(draw.randint(1, 3)):
            draw.choice(EDITS)(draw, members)
    line = _written(draw, members)
    if number and draw.random() < 0.2:
        for _ in range(draw.randint(1, 3)):
            line = _damaged(draw, line)
    return line


class _Slow:
    """A stream that gives as little at a time as it likes, so that batches end anywhere."""

    def __init__(self, text: bytes, most: int) -> None:
        self._stream = io.BytesIO(text)
        self._most = most

    def read(self, size: int, /) -> bytes:
        return self._stream.read(min(size, self._most))


def once(seed: int) -> None:
    """One file of some 40 lines."""
    draw = Random(seed)
    made = [_line(draw, number) for number in range(draw.randint(1, 60))]
    # Many lines of one kind follow, so that the quick way is taken as well.
    made += [_written(draw, _members(draw, 0)) for _ in range(draw.choice((0, 0, 20)))]
    text = b"\n".join(made) + draw.choice((b"", b"\n", b"\r\n", b"\n\n"))
    lines = text.removesuffix(b"\n").split(b"\n")
    kinds = {number: kind(line) for number, line in enumerate(lines, 1)}
    packed = draw.choice((bytes, bytes, gzip.compress, zstd.compress))(text)
    try:
        runs = read(_Slow(packed, draw.choice((100, 2_000, 2**20))), skip_bad=True, list_all=True)
    except BadRunsError as error:
        problems, taken = error.problems, set()
    else:
        problems = list(runs.problems)
        taken = {runs.positions.of(row).line for row in range(len(runs))}
    reported = {problem.line for problem in problems}
    for number, expected in kinds.items():
        found = {(True, False): "run", (False, True): "bad", (False, False): "blank"}.get(
            (number in taken, number in reported), "both"
        )
        # A blank line and a lost one look alike from here; only the strict parser tells.
        assert found == expected, f"line {number}: {found}, not {expected}: {lines[number - 1]!r}"
    assert taken | reported <= kinds.keys()
