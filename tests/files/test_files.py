"""The files that commands write: through links and devices, never over an input or by halves."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import HARBOR, copied

NAMES = ["analysis.json", "analysis.md", "report.html"]
JOB = str(HARBOR)
COLLECT = (
    *("collect", "harbor", JOB, "--arm-key", "config.agent.kwargs.behaviour"),
    *("--arm-map", "solve=with_x", "--arm-map", "fail=without_x"),
)


@pytest.fixture(autouse=True)
def same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def held(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, whatever it is called."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def through_fifo(path: Path, *arguments: str) -> tuple[int, bytes]:
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    code = twoarm(*arguments).code
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        # Replaced by a file: let the reader go.
        return code, b"replaced"
    reader.join(60)
    return code, got[0]


def test_a_device_is_written_through_and_stays_a_device(runs: Path, tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError:
        pytest.skip("making a device takes root")
    assert twoarm(*COLLECT, "-o", str(device)).code == 0
    assert twoarm("score", str(runs), "--junit", str(device)).code == 0
    out = tmp_path / "out"
    out.mkdir()
    os.mknod(out / "report.html", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    assert twoarm("score", str(runs), "--out", str(out)).code == 0
    assert stat.S_ISCHR(os.stat(device).st_mode)
    # Nobody has named this one.
    assert stat.S_ISREG(os.stat(out / "report.html").st_mode)
    full = tmp_path / "full"
    os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    result = twoarm(*COLLECT, "-o", str(full))
    assert result.code == 2
    assert result.err.splitlines() == [
        f"twoarm: {full}: cannot be written: No space left on device"
    ]


def test_a_fifo_gets_every_byte(runs: Path, tmp_path: Path) -> None:
    expected = twoarm(*COLLECT).out.encode()
    code, got = through_fifo(tmp_path / "fifo", *COLLECT, "-o", str(tmp_path / "fifo"))
    assert (code, got) == (0, expected)
    plain = tmp_path / "junit.xml"
    assert twoarm("score", str(runs), "--junit", str(plain)).code == 0
    code, got = through_fifo(
        tmp_path / "pipe", "score", str(runs), "--junit", str(tmp_path / "pipe")
    )
    assert (code, got) == (0, plain.read_bytes())


def test_standard_output_may_be_named_as_a_file(tmp_path: Path) -> None:
    expected = twoarm(*COLLECT).out.encode()
    command = [sys.executable, "-m", "twoarm", *COLLECT, "-o", "/proc/self/fd/1"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == expected


def test_links_are_followed_and_stay(runs: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "old.jsonl").write_text("old\n")
    link = tmp_path / "link.jsonl"
    link.symlink_to("real/old.jsonl")
    dangling = tmp_path / "dangling.xml"
    dangling.symlink_to(real / "new.xml")
    assert twoarm(*COLLECT, "-o", str(link)).code == 0
    assert twoarm("score", str(runs), "--junit", str(dangling)).code == 0
    assert link.is_symlink()
    assert dangling.is_symlink()
    # The files of a run are named relative to where the records really are.
    here, there = (
        [
            (one, (root / one.pop("run_path")).resolve())
            for one in map(json.loads, text.splitlines())
        ]
        for root, text in (
            (real, (real / "old.jsonl").read_text()),
            (Path.cwd(), twoarm(*COLLECT).out),
        )
    )
    assert here == there
    assert (real / "new.xml").read_text().startswith("<?xml")
    assert sorted(os.listdir(real)) == ["new.xml", "old.jsonl"]
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert twoarm(*COLLECT, "-o", str(loop)).code == 2
    assert loop.is_symlink()


def test_a_link_at_a_name_of_ours_is_replaced_and_not_followed(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "folder").mkdir()
    for name, target in zip(NAMES, ("precious", "nowhere", "folder"), strict=True):
        (out / name).symlink_to(tmp_path / target)
    assert twoarm("score", str(runs), "--out", str(out)).code == 0
    for name in NAMES:
        assert stat.S_ISREG(os.lstat(out / name).st_mode)
    assert (tmp_path / "precious").read_text() == "precious"
    assert list((tmp_path / "folder").iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


def test_files_have_the_mode_of_what_they_replace_or_of_the_umask(
    runs: Path, tmp_path: Path
) -> None:
    before = os.umask(0o027)
    try:
        out = tmp_path / "out"
        out.mkdir()
        (out / "analysis.md").write_text("old")
        (out / "analysis.md").chmod(0o604)
        assert twoarm("score", str(runs), "--out", str(out)).code == 0
        assert twoarm(*COLLECT, "-o", str(out / "collected.jsonl")).code == 0
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()}
    assert modes == {
        "analysis.json": 0o640,
        "analysis.md": 0o604,
        "report.html": 0o640,
        "collected.jsonl": 0o640,
    }


def spellings(path: Path) -> list[str]:
    """The same file under other names."""
    hard, soft = path.with_name(f"hard-{path.name}"), path.with_name(f"soft-{path.name}")
    os.link(path, hard)
    soft.symlink_to(path.name)
    return [str(path), str(hard), str(soft), f"{path.parent}/./{path.name}", os.path.relpath(path)]


def test_an_output_that_is_an_input_is_refused_and_nothing_is_touched(
    runs: Path, tmp_path: Path
) -> None:
    text = runs.read_bytes()
    out = tmp_path / "out"
    out.mkdir()
    for number, name in enumerate(spellings(runs)):
        result = twoarm("score", str(runs), "--junit", name)
        assert result.code == 2, name
        assert "is also an input" in result.err
        link = out / NAMES[number % 3]
        link.symlink_to(os.path.abspath(name))
        result = twoarm("score", str(runs), "--out", str(out))
        assert (result.code, "is also an input" in result.err) == (2, True), name
        link.unlink()
    assert runs.read_bytes() == text
    assert held(out) == {}
    with open(runs, "ab") as appended:
        command = [sys.executable, "-m", "twoarm", "score", str(runs)]
        ended = subprocess.run(command, stdout=appended, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, b"is also an input" in ended.stderr) == (2, True)
    with open(runs, "rb") as given:
        command = [sys.executable, "-m", "twoarm", "score", "-", "--junit", str(runs)]
        ended = subprocess.run(command, stdin=given, capture_output=True, check=False)
    assert (ended.returncode, b"is also an input" in ended.stderr) == (2, True)
    assert runs.read_bytes() == text


def test_collect_does_not_write_over_what_it_reads(tmp_path: Path) -> None:
    table = tmp_path / "t" / "t.csv"
    table.parent.mkdir()
    table.write_text("task_id,success,duration_seconds\na,1,1\n")
    prices = tmp_path / "prices.toml"
    prices.write_text("")
    text = table.read_bytes()
    for name in spellings(table):
        for given in (table, table.parent):
            result = twoarm("collect", "table", "--arm", f"a={given}", "-o", name)
            assert (result.code, "is also an input" in result.err) == (2, True), name
    arm = ("collect", "table", "--arm", f"a={table}")
    result = twoarm(*arm, "--prices", str(prices), "-o", str(prices))
    assert (result.code, "is also an input" in result.err) == (2, True)
    assert table.read_bytes() == text
    for other in table.parent.glob("*-t.csv"):
        other.unlink()
    # A file beside the inputs that the format does not read is no input, the second time either.
    beside = ("collect", "table", "--arm", f"a={table.parent}", "-o", f"{table.parent}/all.txt")
    assert [twoarm(*beside).code for _ in range(2)] == [0, 0]
    # A run of an agent is its whole folder.
    run = copied("opencode/ok", tmp_path)
    before = (run / "run.json").read_bytes()
    result = twoarm("collect", "auto", "--arm", f"a={tmp_path}", "-o", str(run / "run.json"))
    assert (result.code, "is also an input" in result.err) == (2, True)
    assert (run / "run.json").read_bytes() == before


def test_two_outputs_of_one_name_are_refused(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    result = twoarm("score", str(runs), "--out", str(out), "--junit", f"{out}/../out/analysis.md")
    assert (result.code, "are the same file" in result.err) == (2, True), result.err
    assert not out.exists()
    out.mkdir()
    (out / "analysis.json").write_text("old")
    os.link(out / "analysis.json", tmp_path / "hard")
    result = twoarm("score", str(runs), "--out", str(out), "--junit", str(tmp_path / "hard"))
    assert (result.code, "are the same file" in result.err) == (2, True), result.err
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(out / "report.html"))
    result = twoarm("score", str(runs), "--out", str(out))
    assert (result.code, "are the same file" in result.err) == (2, True), result.err
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(runs))
    result = twoarm("score", str(runs), "--out", str(out))
    assert (result.code, "is also an input" in result.err) == (2, True), result.err
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    with open(tmp_path / "report", "wb") as report:
        command = [sys.executable, "-m", "twoarm", "score", str(runs), "--junit", report.name]
        ended = subprocess.run(command, stdout=report, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, b"are the same file" in ended.stderr) == (2, True)
    assert held(out) == {"analysis.json": b"old"}
    # What takes everything and keeps nothing may be named as often as one likes.
    assert twoarm("score", str(runs), "--out", str(out), "--junit", os.devnull).code == 0


def test_refused_before_anything_is_read(runs: Path, tmp_path: Path) -> None:
    runs.write_text("no run at all\n")
    result = twoarm("score", str(runs), "--junit", str(runs))
    assert result.err.splitlines() == [
        f"twoarm: {runs}: --junit is also an input; choose another name"
    ]


@pytest.mark.parametrize("fails_at", range(4))
def test_a_write_that_fails_leaves_every_file_as_it_was(
    fails_at: int, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "analysis.json").write_text("old json")
    (folder / "report.html").write_text("old page")
    before = held(folder)
    failing(monkeypatch, "fsync", fails_at)
    result = twoarm("score", str(runs), "--out", str(folder), "--junit", str(tmp_path / "j.xml"))
    assert result.code == 2
    assert "cannot be written: Input/output error" in result.err
    assert "in place" not in result.err
    assert held(folder) == before
    assert not (tmp_path / "j.xml").exists()


@pytest.mark.parametrize("fails_at", range(4))
def test_a_rename_that_fails_says_which_files_are_in_place(
    fails_at: int, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    paths = [*(folder / name for name in NAMES), folder / "j.xml"]
    folder.mkdir()
    for path in paths:
        path.write_text("old")
    failing(monkeypatch, "replace", fails_at)
    result = twoarm("score", str(runs), "--out", str(folder), "--junit", str(paths[3]))
    placed = [path for path in paths if path.read_text() != "old"]
    assert result.code == 2
    assert len(placed) == fails_at
    _, _, named = result.err.strip().partition("; already in place: ")
    assert sorted(filter(None, named.split(", "))) == sorted(map(str, placed))
    assert "cannot be written: Input/output error" in result.err
    assert sorted(os.listdir(folder)) == sorted(path.name for path in paths)


def failing(monkeypatch: pytest.MonkeyPatch, name: str, at: int) -> None:
    """Make one call of a function of `os` fail, and no other."""
    real = getattr(os, name)
    calls = 0

    def call(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise OSError(5, "Input/output error")
        return real(*arguments)

    monkeypatch.setattr(os, name, call)


def test_a_target_that_cannot_be_replaced_leaves_the_others(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    (folder / "report.html" / "taken").mkdir(parents=True)
    (folder / "analysis.json").write_text("old json")
    result = twoarm("score", str(runs), "--out", str(folder))
    assert result.code == 2
    assert f"{folder}/report.html: cannot be written: Is a directory" in result.err
    assert sorted(os.listdir(folder)) == ["analysis.json", "report.html"]
    assert (folder / "analysis.json").read_text() == "old json"


def test_a_step_summary_that_fails_leaves_everything_as_it_was(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "analysis.json").write_text("old json")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    assert twoarm("score", str(runs), "--out", str(folder)).code == 2
    assert held(folder) == {"analysis.json": b"old json"}


def test_temporary_names_cannot_be_foreseen_or_followed(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links lie in wait under every name that a process id would give."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    out = tmp_path / "out"
    out.mkdir()
    for name in ("collected.jsonl", *NAMES):
        (out / f".{name}.{os.getpid()}.tmp").symlink_to(victim)
    before = sorted(os.listdir(out))
    seen: list[str] = []
    real = os.fsync

    def looked(descriptor: int) -> None:
        seen.extend(set(os.listdir(out)) - set(before))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", looked)
    for _ in range(2):
        assert twoarm("score", str(runs), "--out", str(out)).code == 0
        assert twoarm(*COLLECT, "-o", str(out / "collected.jsonl")).code == 0
    assert victim.read_text() == "untouched"
    temporary = {name for name in seen if name.endswith(".tmp")}
    assert len(temporary) == 8, "two runs, four files, no name twice"
    assert set(os.listdir(out)) - set(before) == {"collected.jsonl", *NAMES}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_writing_leaves_no_temporary_file(
    number: signal.Signals, tmp_path: Path
) -> None:
    """The records come slowly, so that the signal finds half of them written."""
    path = tmp_path / "out" / "collected.jsonl"
    path.parent.mkdir()
    path.write_text("old\n")
    script = (
        "import sys, time\n"
        "from twoarm.collect import gather\n"
        "from twoarm.commands.cli import main\n"
        "real = gather.Collection.lines\n"
        "def slowly(self):\n"
        "    for line in real(self):\n"
        "        yield line\n"
        "        print('wrote', flush=True)\n"
        "        time.sleep(20)\n"
        "gather.Collection.lines = slowly\n"
        f"sys.exit(main({[*COLLECT, '-o', str(path)]!r}))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Under `nohup`, or in the background of a script, it would be ignored.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"wrote\n"
        process.send_signal(number)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number)
    assert b"Traceback" not in complaint
    assert held(path.parent) == {"collected.jsonl": b"old\n"}


def test_a_signal_between_two_renames_waits_for_the_last(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert twoarm("score", str(runs), "--out", str(out)).code == 0
    expected = held(out)
    for path in out.iterdir():
        path.write_text("old")
    real = os.replace
    sent = False

    def replace(*arguments: str) -> None:
        nonlocal sent
        real(*arguments)
        if not sent:
            sent = True
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)

    monkeypatch.setattr(os, "replace", replace)
    # In the background of a script it would be ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert twoarm("score", str(runs), "--out", str(out)).code == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert held(out) == expected
