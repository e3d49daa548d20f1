"""`twoarm run` on a disk that is really full: small ones are mounted, which takes root."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Result, twoarm
from tests.support.run_folders import QUICK
from tests.support.suite_files import SOLVE, suite_of

ONE_BY_ONE = (*QUICK, "--jobs", "1")
# The fake agents of this file print so much, or find so much in their workspace.
PIECE = 200_000


class Disk:
    """A file system of a few megabytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def mount(self, size: int, *more: str) -> None:
        options = ",".join((*more, f"size={size}"))
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lacking = f"no file system can be mounted here: {done.stderr.strip()}"
            if os.environ.get("CI"):
                pytest.fail(lacking)
            pytest.skip(lacking)

    def grow(self, size: int) -> None:
        self.mount(size, "remount")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("twoarm.render.report.Report.to_html", lambda self, links: "")
    made = Disk(tmp_path / "disk")
    yield made
    subprocess.run(["umount", "-l", str(made.path)], capture_output=True, check=False)


def run(suite: Path, out: Path) -> Result:
    return twoarm("run", str(suite), "--out", str(out), "--repeats", "3", *ONE_BY_ONE)


def resume(out: Path) -> Result:
    return twoarm("run", "--resume", str(out), *ONE_BY_ONE)


def published(out: Path) -> dict[str, bytes]:
    """Every file of every run."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.glob("runs/*/*/*"))
        if path.is_file()
    }


def trials(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out / "runs")) for path in out.glob("runs/*/*"))


ALL = sorted(
    f"{arm}/{task}.{n}" for arm in ("with", "without") for task in ("one", "two") for n in (1, 2, 3)
)


def test_a_full_run_folder_stops_the_run_and_with_room_it_goes_on(
    tmp_path: Path, disk: Disk
) -> None:
    disk.mount(6 * PIECE)
    out = disk.path / "out"
    result = run(suite_of(tmp_path, f"head -c {PIECE} /dev/zero; {SOLVE}"), out)
    assert result.code == 2
    assert "cannot be written: No space left on device; make room, then use --resume" in result.err
    before = published(out)
    assert before
    assert trials(out) != ALL
    # Nothing to be had without room, and nothing spoiled by trying.
    assert resume(out).code == 2
    assert published(out).items() >= before.items()
    disk.grow(30 * PIECE)
    result = resume(out)
    assert result.code == 0, result.err
    assert trials(out) == ALL
    assert published(out).items() >= before.items()


def heavy(folder: Path, script: str) -> Path:
    """A suite whose workspace has some weight."""
    suite = suite_of(folder, script)
    (folder / "app" / "blob").write_bytes(os.urandom(PIECE))
    return suite


def test_a_cache_that_is_full_in_the_set_up_is_told_and_with_room_it_goes_on(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(disk.path / "cache"))
    out = tmp_path / "out"
    disk.mount(3 * PIECE)
    suite = heavy(tmp_path, SOLVE)
    for ended in (run(suite, out), resume(out)):
        assert ended.code == 2
        assert "No space left on device" in ended.err
        assert trials(out) == []
    disk.grow(30 * PIECE)
    result = resume(out)
    assert result.code == 0, result.err
    assert trials(out) == ALL


def test_a_cache_that_fills_up_while_trials_run_is_infra_and_with_room_it_goes_on(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(disk.path / "cache"))
    disk.mount(15 * PIECE)
    filler, out = disk.path / "filler", tmp_path / "out"
    # All the room that there is, the workspace's own among it: the next trial finds none.
    fill = f"[ -e {filler} ] || {{ rm -rf blob .git; cat /dev/zero > {filler} 2>/dev/null; }}"
    result = run(heavy(tmp_path, f"{SOLVE}; {fill}; true"), out)
    assert result.code == 2
    assert "6 attempts in a row failed for reasons that are not the agent's" in result.err
    assert f"cannot copy {disk.path}" in result.err
    assert "0 MB free" in result.err
    assert len(trials(out)) == 1
    before = published(out)
    filler.write_bytes(b"")
    result = resume(out)
    assert result.code == 0, result.err
    assert trials(out) == ALL
    assert published(out).items() >= before.items()


def test_a_disk_that_the_agent_filled_is_its_own_failure(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(disk.path / "cache"))
    disk.mount(15 * PIECE)
    out = tmp_path / "out"
    tasks = [
        {"id": name, "prompt": "p", "acceptance_command": "grep fixed answer.txt"}
        for name in ("one", "two")
    ]
    result = run(suite_of(tmp_path, f"cat /dev/zero > filler; {SOLVE}", tasks=tasks), out)
    assert result.code == 0, result.err
    records = [json.loads(line) for line in (out / "collected.jsonl").read_text().splitlines()]
    assert [(one["success"], one["failure"]) for one in records] == [(False, None)] * len(ALL)
    assert not list(out.glob(".attempts/*/*"))


def test_where_nothing_can_be_mounted_ci_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = subprocess.CompletedProcess[str]([], 32, "", "no")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refusal)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no file system can be mounted here: no"):
        Disk(tmp_path / "one").mount(1)
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception):
        Disk(tmp_path / "other").mount(1)
