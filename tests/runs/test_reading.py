"""Run files: what is read, what is refused, and where."""

import gzip
import hashlib
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.conftest import both, lines, run
from twoarm.errors import LISTED
from twoarm.files.zstd import zstd
from twoarm.runs import runfile
from twoarm.runs.runfile import read

GOOD = lines(both())


def problems(text: bytes, name: str = "runs.jsonl") -> list[str]:
    stream = io.BytesIO(text)
    stream.name = name
    with pytest.raises(twoarm.BadRunsError) as caught:
        read(stream)
    return str(caught.value).splitlines()


def line(**changed: Any) -> bytes:
    return lines([run(**changed)])


def with_number(field: str, literal: str) -> bytes:
    return line(**{field: 0.12321}).replace(b"0.12321", literal.encode())


# Field, what stands there, and what the error says after the field.
FIELDS = [
    ("task_id", 3, "expected a non-empty string, got 3"),
    ("task_id", "", 'expected a non-empty string, got ""'),
    ("arm", None, "expected a non-empty string, got null"),
    ("arm", ["with_skelly"], "expected a non-empty string, got an array"),
    ("repeat", 0, "expected an integer from 1 to 9007199254740991, got 0"),
    ("repeat", "1", 'expected an integer from 1 to 9007199254740991, got "1"'),
    ("repeat", True, "expected an integer from 1 to 9007199254740991, got true"),
    ("repeat", 1.5, "expected an integer from 1 to 9007199254740991, got 1.5"),
    ("success", 1, "expected true or false, got 1"),
    ("success", "yes", 'expected true or false, got "yes"'),
    ("success", None, "expected true or false, got null"),
    ("duration_seconds", None, "expected a number from 0 to 9007199254740991, got null"),
    ("duration_seconds", -0.5, "expected a number from 0 to 9007199254740991, got -0.5"),
    ("input_tokens", 2**53, "got 9007199254740992"),
    ("input_tokens", 2**53 + 1, "got 9007199254740993"),
    ("input_tokens", 10**400, "got a number too large for a double"),
    ("input_tokens", -1, "got -1"),
    ("total_cost_usd", "12", 'or null if it was not measured, got "12"'),
    ("total_cost_usd", True, "got true"),
    ("total_cost_usd", {"usd": 1}, "got an object"),
    ("step_count", False, "got false"),
    (
        "failure",
        "provider",
        'expected "agent", "infra", "missing", "interrupted" or null, got "provider"',
    ),
    ("agent_exit_code", "0", 'expected an integer or null, got "0"'),
    ("model", 4, "expected a string or null, got 4"),
]


@pytest.mark.parametrize(("field", "value", "message"), FIELDS)
def test_a_bad_field_is_named_with_its_line(field: str, value: Any, message: str) -> None:
    found = problems(GOOD + line(**{field: value}))
    assert len(found) == 1
    assert found[0].startswith(f"runs.jsonl:3: {field}: expected ")
    assert found[0].endswith(message)


@pytest.mark.parametrize(
    ("literal", "shown"), [("1e400", "too large"), ("NaN", "NaN"), ("-1e-5", "-1e-05")]
)
def test_numbers_that_are_none_are_refused_by_field(literal: str, shown: str) -> None:
    found = problems(GOOD + with_number("total_cost_usd", literal))
    assert len(found) == 1
    assert found[0].startswith("runs.jsonl:3: total_cost_usd: expected a number")
    assert shown in found[0]


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        (b"{", "not one JSON object"),
        (GOOD.split(b"\n")[0][:60], "not one JSON object"),
        (GOOD.replace(b"\n", b""), "extra data"),
        (b"[1, 2]", "expected a JSON object, got an array"),
        (b"17", "expected a JSON object, got 17"),
        (b"null", "expected a JSON object, got null"),
        (b"[" * 100_000, "nested too deeply"),
        (
            line(tags=0.12321).replace(b"0.12321", b"[" * 99_999 + b"]" * 99_999),
            "nested too deeply",
        ),
        (line(task_id="\xff").replace(b"\\u00ff", b"\xff"), "not UTF-8"),
        (line(task_id="x").replace(b'"x"', b'"\\ud800"'), "not valid JSON"),
        (line(note=0.12321).replace(b"0.12321", b"NaN"), "not valid JSON"),
        (b"task,arm,repeat", "not one JSON object"),
        (b"\x00\x01\x02", "not one JSON object"),
        (line(x=0.12321).replace(b"0.12321", b"9" * 5000), "too large to read"),
    ],
)
def test_a_line_that_is_no_record_is_refused_by_position(bad: bytes, part: str) -> None:
    found = problems(GOOD + bad.rstrip(b"\n") + b"\n" + GOOD)
    assert len(found) == 1
    assert found[0].startswith("runs.jsonl:3: ")
    assert part in found[0]


def test_a_key_that_looks_like_a_missing_one_is_named() -> None:
    found = problems(GOOD.replace(b'"success"', b'"sucess"').replace(b"duration_seconds", b"time_"))
    assert found[:2] == [
        "runs.jsonl:1: success: missing; `sucess` looks like it",
        "runs.jsonl:1: duration_seconds: missing",
    ]


def test_every_missing_key_is_named_and_null_offered_where_it_would_do() -> None:
    found = problems(b"{}\n")
    assert [text.split(": ")[1] for text in found] == list(run())
    assert found[0] == "runs.jsonl:1: task_id: missing"
    assert found[5] == "runs.jsonl:1: total_cost_usd: missing; write null if it was not measured"
    assert found[4] == "runs.jsonl:1: duration_seconds: missing"


def test_every_bad_line_is_listed_up_to_a_limit_that_is_said() -> None:
    twice = b"".join(
        line(x=1).replace(b'"x": 1', b'"k%d": 1, "k%d": 2' % (n, n)) for n in range(250)
    )
    found = problems(twice)
    assert len(found) == LISTED + 1
    assert found[99].startswith("runs.jsonl:100: ")
    assert found[-1] == "... and 150 more, not listed"


def test_a_shown_value_cannot_speak_to_the_terminal() -> None:
    found = problems(line(success="\x1b[31m\nred\u202e"))
    assert found == ['runs.jsonl:1: success: expected true or false, got "\\x1b[31m\\nred\\u202e"']


# What is read all the same -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.rstrip(b"\n"),
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD,
        b"\n\n" + GOOD.replace(b"\n", b"\n   \n\t\r\n") + b"\n",
        gzip.compress(GOOD),
        gzip.compress(GOOD[:200]) + gzip.compress(GOOD[200:]),
        zstd.compress(GOOD),
        zstd.compress(GOOD[:200]) + zstd.compress(GOOD[200:]),
        gzip.compress(b"\xef\xbb\xbf" + GOOD),
    ],
)
def test_line_ends_blank_lines_byte_marks_and_packing_do_not_matter(
    text: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "runs"
    path.write_bytes(text)
    runs = read(path)
    assert len(runs) == 2
    assert runs.tasks == ("t",)


def test_blank_lines_count_for_positions() -> None:
    assert problems(b"\n" + GOOD + b"\n\n[]\n")[0].startswith("runs.jsonl:6: ")
    many = b"\n\n".join(line(repeat=repeat).rstrip() for repeat in range(1, 5000))
    assert len(many) > 3 * 2**18, "more than one block"
    assert problems(many + b"\n[]\n")[0].startswith("runs.jsonl:9998: ")
    again = many + b"\n\n" + line(repeat=4998) + line(arm="without_skelly")
    with pytest.raises(
        twoarm.BadRunsError, match="<stream>:9999: .* already given at <stream>:9995;"
    ):
        twoarm.score(io.BytesIO(again))


def test_several_files_are_one_data_set(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    first.write_bytes(lines([run()]))
    second.write_bytes(gzip.compress(lines([run(arm="without_skelly")])))
    analysis = twoarm.score([str(first), str(second)])
    assert analysis.paired.paired_runs == 1
    assert [(i.path, i.records) for i in analysis.inputs] == [(str(first), 1), (str(second), 1)]
    with pytest.raises(twoarm.BadRunsError, match=r"a.jsonl:1: .* already given at .*a.jsonl:1"):
        twoarm.score([first, first, second])


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl.gz"
    many = [one for repeat in range(1, 20_000) for one in both(repeat=repeat, note=str(repeat**7))]
    path.write_bytes(gzip.compress(lines(many), 1))
    assert path.stat().st_size > 2 * 2**18, "more than one block"
    runs = read(path)
    assert len(runs) == len(many)
    assert runs.inputs[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_unknown_keys_are_learned_wherever_they_turn_up() -> None:
    many = [run(repeat=repeat) for repeat in range(1, 3000)]
    many[7]["colour"] = "red"
    many[2500]["step_cuont"] = {"deep": [1]}
    runs = read(io.BytesIO(lines(many)))
    assert len(runs) == len(many)
    assert runs.unknown_keys == ("colour", "step_cuont")


def test_files_with_ids_as_keys_are_read_and_only_so_many_keys_told_apart() -> None:
    many = [run(repeat=repeat, **{f"key-{repeat}": 1}) for repeat in range(1, 3000)]
    runs = read(io.BytesIO(lines(many)))
    assert len(runs) == len(many)
    assert runs.unknown_keys == tuple(f"key-{i}" for i in range(1, runfile.MOST_UNKNOWN_KEYS + 1))


def test_unknown_keys_after_one_that_no_type_can_have_are_still_noted() -> None:
    many = [run(repeat=repeat) for repeat in range(1, 3000)]
    many[7]['quote " and \\'] = "red"
    many[2500]["step_cuont"] = 3
    many[2501]["repeat"] = "bad"
    runs = read(io.BytesIO(lines(many)), skip_bad=True)
    assert (len(runs), runs.bad_lines) == (len(many) - 1, 1)
    assert runs.unknown_keys == ('quote " and \\', "step_cuont")
    assert read(iter(many), skip_bad=True).unknown_keys == runs.unknown_keys


@pytest.mark.parametrize("count", [1, 4_000])
def test_a_stream_that_gives_little_at_a_time_loses_nothing(count: int) -> None:
    text = lines([one for repeat in range(1, count + 1) for one in both("t", repeat)])

    class Slow:
        def __init__(self) -> None:
            self.stream = io.BytesIO(text)

        def read(self, size: int, /) -> bytes:
            return self.stream.read(min(size, 70_001))

    runs = read(Slow())
    assert len(runs) == 2 * count
    assert runs.inputs[0].sha256 == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("packed", [gzip.compress, zstd.compress, bytes, b"\xef\xbb\xbf".__add__])
def test_a_stream_that_gives_byte_by_byte_is_still_told_by_its_first_bytes(packed: Any) -> None:
    stream = io.BytesIO(packed(lines(both())))

    class Slowest:
        def read(self, size: int, /) -> bytes:
            return stream.read(min(size, 1))

    assert len(read(Slowest())) == 2


def test_an_open_file_of_text_is_refused() -> None:
    with pytest.raises(twoarm.UsageError, match="open it with `rb`"):
        read(io.StringIO("{}"))  # type: ignore[arg-type]


def test_mappings_and_runs_in_memory_are_checked_like_lines() -> None:
    made = [twoarm.Run(**one) for one in both()]
    assert twoarm.score(made).to_dict()["paired"] == twoarm.score(both()).to_dict()["paired"]
    assert twoarm.score(iter(both())).inputs[0].path == "<memory>"
    with pytest.raises(twoarm.BadRunsError, match="run:2: success: expected true or false, got 1"):
        twoarm.score([run(), run(repeat=2, success=1)])
    with pytest.raises(twoarm.BadRunsError, match="run:1: repeat: .* got 0"):
        twoarm.score([twoarm.Run(**run(repeat=0))])
    with pytest.raises(twoarm.BadRunsError, match="run:1: duration_seconds: .* got NaN"):
        twoarm.score([run(duration_seconds=float("nan"))])
    with pytest.raises(twoarm.BadRunsError, match="run:1: expected a JSON object, got 3"):
        twoarm.score([3])  # type: ignore[arg-type]
    with pytest.raises(twoarm.BadRunsError, match="run:1: .*key"):
        twoarm.score([{**run(), 1: 2}])
    with pytest.raises(twoarm.BadRunsError, match="run:1: .*surrogates"):
        twoarm.score([run("\ud800")])


@pytest.mark.parametrize("source", [run(), twoarm.Run(**run()), b"{}", 3])
def test_one_run_is_no_source(source: Any) -> None:
    with pytest.raises(
        twoarm.UsageError,
        match="expected a path, paths, a frame that is in memory, or an iterable of runs",
    ):
        twoarm.score(source)


# What cannot be read at all ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no runs; expected one JSON object per line"),
        (b"\n\n", "no runs"),
        (gzip.compress(GOOD)[:-10], "gzip data ends early"),
        (gzip.compress(GOOD)[:-30] + b"\x00" * 30, "damaged gzip data|ends early"),
        (zstd.compress(GOOD)[:-10], "zstd data ends early"),
        (zstd.compress(GOOD)[:40] + b"\x00" * 40, "damaged zstd data|ends early"),
        (GOOD.decode().encode("utf-16"), "UTF-16 text; save the file as UTF-8"),
    ],
)
def test_damage_is_said_with_the_path(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(content)
    with pytest.raises(twoarm.InputError, match=message) as caught:
        read(path)
    assert "runs.jsonl" in str(caught.value)


def test_a_path_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(twoarm.InputError, match="missing.jsonl: cannot be read: No such file"):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(twoarm.InputError, match="no run folder; make run records"):
        read(tmp_path)
    with pytest.raises(twoarm.InputError, match="null character"):
        read("a\0b")


def test_a_line_without_end_is_refused_and_the_rest_is_read() -> None:
    endless = b'{"task_id": "' + b"x" * (runfile.LONGEST_LINE + 2**20) + b'"}\n'
    found = problems(GOOD + endless + b"[]\n")
    assert found[0] == "runs.jsonl:3: longer than 16 MiB; write one object per line"
    assert found[1].startswith("runs.jsonl:4: ")
    stream = io.BytesIO(GOOD + endless.rstrip(b"\n"))
    assert len(read(stream, skip_bad=True)) == 2


def test_packed_zeros_do_not_fill_the_memory() -> None:
    for packed in (gzip.compress(bytes(2**28)), zstd.compress(bytes(2**28))):
        assert len(packed) < 2**20
        tracemalloc.start()
        assert "longer than 16 MiB" in problems(packed)[0]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**26


# Skipping ----------------------------------------------------------------------------------------


def test_skip_bad_scores_the_rest_and_says_how_many_lines_were_left_out() -> None:
    text = b"[]\n" + GOOD + b'{"task_id": 1}\n{"a'
    analysis = twoarm.score(io.BytesIO(text), skip_bad=True)
    assert analysis.run_count == 2
    caveat = next(c for c in analysis.caveats if c.code == "bad_lines")
    assert caveat.message.startswith("3 bad lines left out")


def test_nothing_is_scored_while_a_line_is_bad() -> None:
    with pytest.raises(twoarm.BadRunsError):
        twoarm.score(io.BytesIO(GOOD + b"[]\n"))


def test_records_stand_as_they_were_written() -> None:
    text = json.dumps(run(duration_seconds=0.1, input_tokens=2**53 - 1, output_tokens=0)).encode()
    runs = read(io.BytesIO(text))
    assert runs.numbers["duration_seconds"][0] == 0.1
    assert runs.numbers["input_tokens"][0] == 2**53 - 1
    minus_zero = text.replace(b"0.1,", b"-0.0,")
    assert str(read(io.BytesIO(minus_zero)).numbers["duration_seconds"][0]) == "0.0"
