"""Standard output and standard error: every byte is written, in UTF-8, or the exit code says so."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import both, lines, run, twoarm
from tests.files.test_files import COLLECT
from tests.support.scriptless import scriptless


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Runs that promote, with enough tasks for a report longer than a pipe takes at once."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(
        lines(
            [
                one
                for task in range(200)
                for repeat in range(1, 6)
                for one in both(f"task-{task}", repeat)
            ]
        )
    )
    return path


def started(*arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
    environment = scriptless(**options.pop("env", {}), SOURCE_DATE_EPOCH="1793520000")
    return subprocess.Popen(
        [sys.executable, "-m", "twoarm", *arguments], env=environment, **options
    )


def ended(*arguments: str, **options: Any) -> tuple[int, bytes, bytes]:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    with started(*arguments, **options) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


GATE = ("score", "--no-evidence", "--exit-code")
BUFFERED = [{}, {"PYTHONUNBUFFERED": "1"}]


@pytest.mark.parametrize("env", BUFFERED)
@pytest.mark.parametrize(
    "command",
    [["score", "RUNS", "--no-evidence", "--format", "json"], COLLECT, ["--help"], ["--version"]],
)
def test_a_pipe_that_does_not_block_gets_every_byte(
    command: list[str], env: dict[str, str], runs: Path
) -> None:
    command = [str(runs) if word == "RUNS" else word for word in command]
    code, expected, _ = ended(*command)
    assert code == 0
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    with started(*command, stdout=writing, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(writing)
        with os.fdopen(reading, "rb") as reader:
            got = reader.read()
    assert (process.returncode, len(got)) == (0, len(expected))
    assert got == expected


@pytest.mark.parametrize("env", BUFFERED)
@pytest.mark.parametrize("written", [0, 1, 2500])
def test_a_disk_that_fills_up_is_exit_code_2(
    env: dict[str, str], written: int, runs: Path, tmp_path: Path
) -> None:
    """A limit on the size of a file stands for a disk with so much room left."""
    script = (
        "import resource, signal, sys\n"
        "from twoarm.commands.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({written}, {written}))\n"
        "sys.exit(main())\n"
    )
    for command in (
        ["score", str(runs), "--no-evidence", "--exit-code", "--format", "json"],
        COLLECT,
        ["--help"],
    ):
        with open(tmp_path / "out", "wb") as out:
            process = subprocess.run(
                [sys.executable, "-c", script, *command],
                stdout=out,
                stderr=subprocess.PIPE,
                env={**os.environ, **env},
                check=False,
            )
        if command == ["--help"] and written == 2500:
            assert process.returncode == 0
            continue
        assert process.returncode == 2, command
        assert process.stderr == b"twoarm: cannot write to standard output: File too large\n"


@pytest.mark.parametrize("env", BUFFERED)
def test_a_full_device_is_exit_code_2_for_either_stream(env: dict[str, str], runs: Path) -> None:
    with open("/dev/full", "wb") as full:
        code, _, err = ended(*GATE, str(runs), stdout=full, env=env)
        assert (code, err) == (
            2,
            b"twoarm: cannot write to standard output: No space left on device\n",
        )
        assert ended("--version", stdout=full, env=env)[::2] == (code, err)
        # The verdict is told on standard error.
        code, out, _ = ended(*GATE, str(runs), stderr=full, env=env)
        assert code == 2
        assert b"PROMOTE    yes, by the gates: " in out
        assert ended("frobnicate", stderr=full, env=env)[0] == 2
        assert ended("frobnicate", stdout=full, stderr=full, env=env)[0] == 2


def broken_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("env", BUFFERED)
def test_nobody_reads_it_is_no_promotion(env: dict[str, str], runs: Path) -> None:
    gate = (*GATE, str(runs))
    for stream in ("stdout", "stderr"):
        closed = broken_pipe()
        code, _, err = ended(*gate, env=env, **{stream: closed})
        os.close(closed)
        assert code == 2, stream
        if stream == "stdout":
            assert err.splitlines()[-1] == (
                b"twoarm: nobody read all of standard output; this does not count as a promotion"
            )
    for redirection in (">&-", "2>&-", ">&- 2>&-"):
        shell = subprocess.run(
            ["sh", "-c", f'"$@" {redirection}', "sh", sys.executable, "-m", "twoarm", *gate],
            capture_output=True,
            env={**os.environ, **env},
            check=False,
        )
        assert shell.returncode == 2, redirection
        assert b"Traceback" not in shell.stderr
    # Without a gate, a reader who has seen enough is no mistake; a stream that is closed is one.
    closed = broken_pipe()
    code, _, err = ended("score", "--no-evidence", str(runs), stdout=closed, env=env)
    assert (code, err) == (0, b"")
    os.close(closed)
    shell = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "twoarm", "schema", "record"],
        capture_output=True,
        check=False,
    )
    assert shell.returncode == 2
    assert shell.stderr == b"twoarm: cannot write to standard output: it is closed\n"


LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "utf-16"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONUNBUFFERED": "1"},
]


@pytest.mark.parametrize("env", LOCALES)
def test_data_is_utf_8_whatever_the_locale(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(
        lines([run("漢字", arm, 1, model="é") for arm in ("with_naïveté", "without_naïveté")])
    )
    table = tmp_path / "t.csv"
    table.write_text("task_id,success,duration_seconds\n漢字,1,1\n", encoding="utf-8")
    for arguments in (
        *(
            ("score", "--no-evidence", str(path), "--format", name)
            for name in ("json", "html", "github", "markdown")
        ),
        ("collect", "table", "--arm", f"a={table}"),
    ):
        code, out, _ = ended(*arguments, env=env)
        assert code == 0
        assert "漢字" in out.decode("utf-8"), arguments
        if "json" in arguments:
            assert json.loads(out)["candidate"] == "with_naïveté"
    code, out, _ = ended("score", "--no-evidence", "--full", str(path), env=env)
    encoding = env.get("PYTHONIOENCODING", "ascii")
    assert code == 0
    assert "\\u6f22\\u5b57" in out.decode(encoding) or encoding == "utf-16"


def test_a_command_that_prints_in_this_process_keeps_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from twoarm.commands.cli import main

    sys.stdout.write("before\n")
    assert main(["schema", "record"]) == 0
    sys.stdout.write("after\n")
    shown = capsys.readouterr().out
    assert shown.startswith("before\n{")
    assert shown.endswith("}\nafter\n")


def test_bad_usage_shows_what_was_given_as_text() -> None:
    result = twoarm("score", "x", "--format", "a\nb\x1b[31m")
    assert result.code == 2
    assert all(line.isprintable() for line in result.err.splitlines())
