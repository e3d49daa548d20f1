"""What nobody foresaw ends with exit code 2 and one line; hostile settings are refused clearly."""

import io
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from tests.support.collect_fixtures import HARBOR
from twoarm.collect import spool
from twoarm.commands import score as score_command

JOB = HARBOR


def plug_in(folder: Path, text: str) -> dict[str, str]:
    """An environment in which a package gives a format, made of the text."""
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").touch()
    (folder / "mine" / "record.py").write_text(f"{text}record = Mine\n")
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[twoarm.programs]\nmine = mine\n")
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


CLASS = (
    "class Mine:\n"
    "    name = 'mine'\n"
    "    one_run_per_folder = False\n"
    "    def recognizes(self, folder): return False\n"
    "    def claims(self, folder): {claims}\n"
    "    def read(self, folder, name, settings): {read}\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.exit(0)\n",
        "import sys; sys.exit('gone')\n",
        "class Fatal(BaseException): pass\nraise Fatal('x')\n",
        CLASS.format(claims="raise RuntimeError('x\\ny')", read="return []"),
        CLASS.format(claims="return ['a']", read="raise SystemExit(0)"),
        CLASS.format(claims="return ['a']", read="raise SystemExit(1)"),
        CLASS.format(claims="return ['a']", read="return [1]"),
        CLASS.format(claims="return ['a']", read="1 / 0"),
        CLASS.format(claims="return ['a']", read="return self.read(folder, name, settings)"),
    ],
)
def test_a_plug_in_cannot_end_with_another_exit_code(text: str, tmp_path: Path) -> None:
    environment = plug_in(tmp_path, text)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a").write_text("")
    ended = subprocess.run(
        [sys.executable, "-m", "twoarm", "collect", "mine", "--arm", f"a={tmp_path / 'runs'}"],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout == b""
    assert ended.stderr.splitlines()[-1].startswith(b"twoarm: ")
    assert b"Traceback" not in ended.stderr


def test_a_bug_is_one_line_that_says_how_to_report_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(score_command, "compare", broken)
    for gate in ((), ("--exit-code",)):
        result = twoarm("demo", *gate)
        assert (result.code, result.out) == (2, "")
        assert result.err == (
            f"twoarm: a bug in twoarm {package.__version__}: ZeroDivisionError: division by zero; "
            "please report it, with the traceback that TWOARM_TRACEBACK=1 prints\n"
        )
    monkeypatch.setenv("TWOARM_TRACEBACK", "1")
    result = twoarm("demo")
    assert result.err.startswith("Traceback (most recent call last):\n")
    assert result.err.splitlines()[-1].startswith("twoarm: a bug in twoarm ")


@pytest.mark.parametrize(
    "error",
    [RecursionError("deep"), AssertionError(), OSError(5, "I/O"), UnicodeError("u"), SystemExit(0)],
)
def test_every_error_is_exit_code_2(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(score_command, "compare", broken)
    result = twoarm("demo", "--exit-code")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def large(*given: object, **named: object) -> None:
        raise MemoryError

    monkeypatch.setattr(score_command, "compare", large)
    result = twoarm("demo", "--exit-code")
    assert (result.code, result.out) == (2, "")
    assert result.err == "twoarm: out of memory; free some memory, or score fewer runs at a time\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_reading_ends_without_a_traceback(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "twoarm", "score", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        # More than a pipe holds: once all of it is taken, the program is reading.
        process.stdin.write(lines(both()) * 2000)
        process.stdin.flush()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number)
    assert (out, err) == (b"", b"")


@pytest.mark.parametrize(
    "level",
    ["0.9999999999999999", "0.99995", "1", "0", "-1", "nan", "inf", "-inf", "1e-300", "5e-324"],
)
def test_a_level_that_cannot_be_computed_is_refused(level: str) -> None:
    result = twoarm("demo", f"--level={level}")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"twoarm: --level: expected a number from 0.5 to 0.9999, got {float(level)}\n"
    )


@pytest.mark.parametrize("level", [0.5, 0.9999])
def test_the_outermost_levels_work(level: float) -> None:
    runs = [
        run(f"t{task}", arm, repeat, duration_seconds=100 + task * repeat + (arm == "with_skelly"))
        for task in range(8)
        for repeat in range(1, 6)
        for arm in ("with_skelly", "without_skelly")
    ]
    text = package.score(runs, level=level).to_text()
    assert f"{level * 100:g}% interval" in text
    assert "nan" not in text
    assert "inf " not in text


@pytest.mark.parametrize(
    "epoch", ["²", "1" + "0" * 400, "9" * 5000, "-1", "1.5", "now", " 1", "253402300800", "١"]
)
def test_a_time_that_is_none_is_refused(epoch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    result = twoarm("demo")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(
        "twoarm: SOURCE_DATE_EPOCH: expected whole seconds since 1970, at most 253402300799, got `"
    )
    assert len(result.err) < 250


def test_the_last_second_and_no_time_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "253402300799")
    assert '"generated_at_utc": "9999-12-31T23:59:59Z"' in twoarm("demo", "--format", "json").out
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "")
    assert twoarm("demo").code == 0


def test_no_room_for_what_waits_to_be_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    arguments = ("collect", "harbor", str(JOB), "--arm-key", "config.agent.kwargs.behaviour")
    maps = ("--arm-map", "solve=a", "--arm-map", "fail=b")
    result = twoarm(*arguments, *maps, "-o", str(tmp_path / "o.jsonl"))
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "twoarm: cannot store the records to sort them: No such file or directory; "
        "set TMPDIR to a folder with enough space\n"
    )
    assert not (tmp_path / "o.jsonl").exists()


def test_the_last_records_may_be_the_ones_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is buffered fails only when it has to be read again."""

    class Full(io.BytesIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool, "SpooledTemporaryFile", lambda max_size: Full())
    arguments = ("collect", "harbor", str(JOB), "--arm-key", "config.agent.kwargs.behaviour")
    result = twoarm(*arguments, "--arm-map", "solve=a", "--arm-map", "fail=b")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("twoarm: cannot store the records to sort them: No space left")


def test_a_full_temporary_folder_is_said(tmp_path: Path) -> None:
    """A limit on the size of a file stands for a folder with so much room left."""
    path = tmp_path / "t.csv"
    rows = "".join(f"task{n},1,1\n" for n in range(3000))
    path.write_text(f"task_id,success,duration_seconds\n{rows}")
    script = (
        "import resource, signal, sys\n"
        "from twoarm.commands.cli import main\n"
        "from twoarm.collect import spool\n"
        "spool.IN_MEMORY = 1000\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
        "sys.exit(main(sys.argv[2:]))\n"
    )
    for room in (10_000, 100_000, 500_000):
        ended = subprocess.run(
            [sys.executable, "-c", script, str(room), "collect", "table", "--arm", f"a={path}"],
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 2, room
        assert ended.stderr == (
            b"twoarm: cannot store the records to sort them: File too large; "
            b"set TMPDIR to a folder with enough space\n"
        )
        assert ended.stdout == b""
