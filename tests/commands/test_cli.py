"""The command line: options, exit codes, files, pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import both, command, lines, run, twoarm
from twoarm.options import flags_named


def test_score_prints_the_report_and_nothing_else(runs: Path) -> None:
    result = twoarm("score", str(runs))
    assert result.code == 0
    assert "DECISION   prefer with_skelly" in result.out
    assert result.err == ""


def test_score_reads_standard_input(runs: Path) -> None:
    result = command("score", "-", "--format", "json", input=runs.read_bytes())
    assert result.returncode == 0
    assert json.loads(result.stdout)["inputs"][0]["path"] == "<stdin>"
    bad = command("score", "-", input=b"[]\n")
    assert bad.returncode == 2
    assert bad.stderr.startswith(b"<stdin>:1: expected a JSON object, got an array\n")
    assert command("score", "-", "-", input=b"").returncode == 2


@pytest.mark.parametrize(
    ("candidate", "repeats", "code"),
    [
        ({}, 5, 0),
        ({"success": False}, 5, 1),
        ({"success": False, "duration_seconds": 999, "input_tokens": 9999}, 5, 1),
        ({}, 4, 3),
        ({"input_tokens": None}, 5, 3),
    ],
)
def test_gate_turns_the_promotion_into_an_exit_code(
    candidate: dict[str, Any], repeats: int, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    made = [run("t", "with_skelly", r, **candidate) for r in range(1, repeats + 1)]
    made += [run("t", "without_skelly", r) for r in range(1, repeats + 1)]
    path.write_bytes(lines(made))
    assert twoarm("score", str(path), "--exit-code").code == code
    assert twoarm("score", "--exit-code", str(path)).code == code
    assert twoarm("score", str(path)).code == 0, "without --exit-code, done is done"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["score"],
        ["score", "missing.jsonl"],
        ["score", "x.jsonl", "--format", "yaml"],
        ["score", "x.jsonl", "--nonsense"],
        ["schema", "nothing"],
        ["frobnicate"],
    ],
)
def test_bad_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = twoarm(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err


def test_bad_lines_are_listed_on_stderr_and_nothing_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(both()) + b"[]\n" + lines([run(repeat=0)]))
    result = twoarm("score", str(path))
    assert (result.code, result.out) == (2, "")
    listed = result.err.splitlines()
    assert listed[0] == f"{path}:3: expected a JSON object, got an array"
    assert listed[1].startswith(f"{path}:4: repeat: expected an integer from 1")
    assert listed[2] == "twoarm: 2 problems; nothing was scored"
    assert twoarm("score", str(path), "--skip-bad").code == 0


def test_check_says_which_times_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines([*both(), *both(repeat=2, started_at_utc="11/01/2026 8:00")]))
    checked = twoarm("check", str(path))
    assert checked.code == 0
    assert (
        "`started_at_utc` of 2 runs cannot be read (the first is `11/01/2026 8:00`)" in checked.out
    )


def test_check_lists_every_problem_on_stdout(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"[]\n" * 300)
    result = twoarm("check", str(path))
    assert result.code == 2
    assert len(result.out.splitlines()) == 300
    assert result.err == "twoarm: 300 problems\n"
    path.write_bytes(lines([*both(), run()]) + b"[]\n")
    result = twoarm("check", str(path))
    assert result.code == 2
    twice, bad = result.out.splitlines()
    assert twice.startswith(f"{path}:3: repeat: task `t`, arm `with_skelly`, repeat 1 was already")
    assert bad.startswith(f"{path}:4: expected a JSON object")
    with flags_named():
        assert [str(problem) for problem in package.check(path).problems] == [twice, bad]
    path.write_bytes(lines(both(extra=1)))
    result = twoarm("check", str(path))
    assert result.code == 0
    assert result.out.splitlines() == [
        "no problems: 2 runs, 1 task, arms `with_skelly`, `without_skelly`",
        "unknown key, ignored: `extra`",
    ]


def test_out_writes_every_file_and_says_so(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "results"
    result = twoarm("score", str(runs), "--out", str(folder))
    assert result.code == 0
    assert sorted(os.listdir(folder)) == ["analysis.json", "analysis.md", "report.html"]
    assert "DECISION" in result.out
    written_files = ", ".join(f"{folder}/{name}" for name in sorted(os.listdir(folder)))
    assert result.err == f"twoarm: wrote {written_files}\n"
    written = json.loads((folder / "analysis.json").read_text())
    assert written["schema"] == "twoarm.analysis/1"
    assert written["generated_at_utc"].endswith("Z")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "analysis.md").read_text() == twoarm(
        "score", str(runs), "--format", "markdown"
    ).out


def test_out_that_fails_leaves_the_old_files_and_no_half_ones(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    assert twoarm("score", str(runs), "--out", str(folder)).code == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = twoarm("score", str(runs), "--out", str(folder))
    assert result.code == 2
    assert result.err == (
        f"twoarm: {folder}/analysis.json: cannot be written: No space left on device\n"
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    blocked = tmp_path / "file"
    blocked.write_text("here already")
    assert twoarm("score", str(runs), "--out", str(blocked)).code == 2
    assert blocked.read_text() == "here already"


def test_an_interrupt_while_writing_leaves_no_half_file(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    assert twoarm("score", str(runs), "--out", str(tmp_path / "results")).code == 130
    assert list((tmp_path / "results").iterdir()) == []


def test_a_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", "demo", "--print"],
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_the_exit_code_is_the_gate_s_whatever_becomes_of_the_output(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    worse = {"success": False, "duration_seconds": 999, "input_tokens": 9999}
    path.write_bytes(
        lines(
            [
                one
                for repeat in range(1, 6)
                for one in (
                    run("t", "with_skelly", repeat, **worse),
                    run("t", "without_skelly", repeat),
                )
            ]
        )
    )
    reading, closed = os.pipe()
    os.close(reading)
    gate = [sys.executable, "-m", "twoarm", "score", "--exit-code", str(path)]
    try:
        broken = subprocess.run(gate, stdout=closed, stderr=subprocess.PIPE, check=False)
        assert broken.returncode == 1
        assert broken.stderr.startswith(b"twoarm: do not promote, by the gates: ")
        assert subprocess.run(gate, stdout=closed, stderr=closed, check=False).returncode == 1
        missing = [*gate[:-1], str(tmp_path / "none")]
        assert subprocess.run(missing, stdout=closed, stderr=closed, check=False).returncode == 2
    finally:
        os.close(closed)
    for streams in (">&-", "2>&-", ">&- 2>&- <&-"):
        shell = subprocess.run(
            ["sh", "-c", f'"$@" {streams}', "sh", *gate], capture_output=True, check=False
        )
        assert shell.returncode == 1, shell.stderr
        assert b"Traceback" not in shell.stderr
    with open("/dev/full", "wb") as full:
        filled = subprocess.run(gate, stdout=full, stderr=subprocess.PIPE, check=False)
    assert filled.returncode == 2
    with open("/dev/full", "wb") as full:
        helped = subprocess.run(
            [*gate[:3], "--help"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (helped.returncode, b"Traceback" in helped.stderr) == (2, False)
    assert filled.stderr == b"twoarm: cannot write to standard output: No space left on device\n"


def test_schema_prints_both_schemas() -> None:
    for name in ("record", "analysis"):
        result = twoarm("schema", name)
        assert result.code == 0
        assert json.loads(result.out)["$schema"].endswith("2020-12/schema")


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        (["--version"], {"rich", "vl_convert", "scipy"}),
        (["score", "{runs}"], {"rich", "vl_convert"}),
        (["score", "{runs}", "--no-evidence"], {"rich", "vl_convert", "scipy"}),
    ],
)
def test_what_is_not_used_is_not_imported(
    arguments: list[str], without: set[str], runs: Path
) -> None:
    given = [argument.format(runs=runs) for argument in arguments]
    script = (
        "import sys; from twoarm.commands.cli import main\n"
        f"main({given!r})\n"
        f"print(sorted({without!r} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert result.stdout.decode().splitlines()[-1] == "[]"


WITHOUT_EFFECT = [
    (["--level", "0.9", "--no-evidence"], "--level has no effect with --no-evidence"),
    (["--seed", "1", "--no-evidence"], "--seed has no effect with --no-evidence"),
    (["--resamples", "999", "--no-evidence"], "--resamples has no effect with --no-evidence"),
    (["--margin-success", "0.1", "--no-evidence"], "--margin-success has no effect with"),
    (["--margin-ratio", "0.1", "--no-evidence"], "--margin-ratio has no effect with"),
    (["--primary", "tokens", "--no-evidence"], "--primary has no effect with --no-evidence"),
    (["--guard", "none", "--no-evidence"], "--guard has no effect with --no-evidence"),
    (
        ["--promote-by", "evidence", "--guard", "none", "--allow-broken", "1"],
        "--allow-broken has no effect without --guard all",
    ),
    (["--promote-by", "evidence", "--no-evidence"], "--promote-by: "),
    (["--promote-by", "margin", "--no-evidence"], "--promote-by: "),
    *(
        (["--full", "--format", name], "--full has no effect without --format text")
        for name in ("json", "markdown", "html", "github")
    ),
]


@pytest.mark.parametrize(("given", "complaint"), WITHOUT_EFFECT)
def test_an_option_without_effect_is_an_error(
    given: list[str], complaint: str, runs: Path, tmp_path: Path
) -> None:
    for command_line in (["score", str(runs)], ["demo"]):
        result = twoarm(*command_line, *given)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"twoarm: {complaint}")
        assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    "given",
    [
        ["--level", "0.9"],
        ["--margin-success", "0.2", "--promote-by", "margin"],
        ["--margin-ratio", "0.2", "--promote-by", "margin"],
        ["--primary", "tokens"],
        ["--promote-by", "evidence", "--guard", "none"],
        ["--promote-by", "evidence", "--allow-broken", "1"],
        ["--promote-by", "gates", "--no-evidence"],
        ["--full", "--no-evidence"],
    ],
)
def test_an_option_with_an_effect_is_none(given: list[str], runs: Path) -> None:
    assert twoarm("score", str(runs), *given).code == 0


@pytest.mark.parametrize(
    "given",
    [
        ["--full"],
        ["--format", "json"],
        ["--out", "out"],
        ["--junit", "junit.xml"],
        ["--annotate"],
        ["--exit-code"],
        ["--promote-by", "gates"],
        ["--level", "0.9"],
        ["--no-evidence"],
    ],
)
def test_the_runs_of_the_example_are_printed_without_any_other_option(given: list[str]) -> None:
    result = twoarm("demo", "--print", *given)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"twoarm: {given[0]} has no effect with --print\n"


@pytest.mark.parametrize("gone", [["--gate"], ["--gate", "evidence"], ["--rule", "margin"]])
def test_what_options_were_called_before_is_bad_usage(gone: list[str], runs: Path) -> None:
    assert twoarm("score", str(runs), *gone).code == 2


def test_source_date_epoch_fixes_the_time(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = twoarm("score", str(runs), "--format", "json").out
    assert json.loads(first)["generated_at_utc"] == "2023-11-14T22:13:20Z"
    assert twoarm("score", str(runs), "--format", "json").out == first
