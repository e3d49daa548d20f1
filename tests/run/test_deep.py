"""Trees that an agent may leave: too deep for a recursion or for a path, or odd to keep."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import QUICK
from tests.support.suite_files import SOLVE, attempt, job_of, suite_of
from twoarm.files.safe import OpenFolder
from twoarm.run.place import MARK
from twoarm.run.supervisor.main import keep_workspace
from twoarm.run.supervisor.redact import Redactor

# As deep as a path can be, so many times.
DEEP = (
    "p=$(printf 'd/%.0s' $(seq 1500)); for i in $(seq {}); do mkdir -p $p; cd $p; done; touch last"
)


@pytest.fixture
def shallow(tmp_path: Path) -> Iterator[Path]:
    """A folder that is gone afterwards, however deep: pytest could not remove it."""
    yield tmp_path
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)


@pytest.mark.parametrize(("times", "keep"), [(1, "none"), (2, "all")])
def test_a_deep_tree_is_no_trouble(
    shallow: Path, monkeypatch: pytest.MonkeyPatch, times: int, keep: str
) -> None:
    tmp_path = shallow
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("twoarm.render.report.Report.to_html", lambda self, links: "")
    suite = suite_of(tmp_path, f"{SOLVE}; {DEEP.format(times)}")
    out = tmp_path / "out"
    words = ("--out", str(out), "--repeats", "1", "--only", "one", "--keep", keep)
    result = twoarm("run", str(suite), *words, *QUICK)
    assert result.code == 0, result.err
    records = [json.loads(line) for line in (out / "collected.jsonl").read_text().splitlines()]
    assert [(one["success"], one["failure"]) for one in records] == [(True, None)] * 2
    assert not list(out.glob(".attempts/*/*"))
    assert list((tmp_path / "cache").iterdir()) == []
    for path in out.glob("runs/*/*/workspace"):
        assert (path / "answer.txt").exists()


def test_everything_of_a_tree_is_removed_and_nothing_outside(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = tmp_path / "tree"
    for name in ("a/b/c", "a/b2", "e"):
        (tree / name).mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    (tree / "a" / "b" / "link").symlink_to(kept)
    os.mkfifo(tree / "a" / "pipe")
    (tree / "a" / "b").chmod(0)
    with OpenFolder(str(tmp_path)) as folder:
        folder.remove("tree")
        assert not tree.exists()
        folder.remove("tree")
        (tmp_path / "alone").symlink_to(kept)
        folder.remove("alone")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").exists()


def test_what_cannot_be_kept_is_left_out_and_the_run_stays(tmp_path: Path) -> None:
    # Two names that are one, once the secret is out of them.
    secrets = {"OTHER": "a secret of some length"}
    script = (
        'mkdir "[secret OTHER]" "$OTHER"; touch "$OTHER/x" "[secret OTHER]/y"; touch answer.txt'
    )
    job = job_of(tmp_path, script, secrets=secrets, keep_workspace="all")
    env = {**job.env, "agent": {**job.env["agent"], **secrets}}
    ran = attempt(job_of(tmp_path, script, secrets=secrets, keep_workspace="all", env=env))
    assert ran.outcome.complete
    assert (ran.folder / "workspace" / "answer.txt").exists()
    assert (ran.folder / "workspace" / "[secret OTHER]").is_dir()


def test_a_file_that_cannot_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("source", "target", "target2"):
        (tmp_path / name).mkdir()
    for name in ("one", "two"):
        (tmp_path / "source" / name).touch()
    whole = OpenFolder.open

    def refuse(self: OpenFolder, name: str) -> int:
        if name == "one":
            raise PermissionError(13, "Permission denied", name)
        return whole(self, name)

    monkeypatch.setattr(OpenFolder, "open", refuse)
    source = OpenFolder(str(tmp_path / "source"))
    keep_workspace(source, OpenFolder(str(tmp_path / "target")), Redactor({}), 100)
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["two"]

    def full(self: Redactor, file: object, made: object, most: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Redactor, "copy", full)
    with pytest.raises(OSError, match="No space left"):
        keep_workspace(source, OpenFolder(str(tmp_path / "target2")), Redactor({}), 100)


def test_what_cannot_be_cleared_stops_no_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("twoarm.render.report.Report.to_html", lambda self, links: "")
    out = tmp_path / "out"
    suite = suite_of(tmp_path)
    assert twoarm("run", str(suite), "--out", str(out), "--repeats", "1", *QUICK).code == 0
    token = json.loads((out / "place.json").read_text())["token"]
    (tmp_path / "cache" / token / "t" / "left").mkdir(parents=True)
    (tmp_path / "cache" / token / MARK).write_text(token)
    whole = OpenFolder.remove

    def refuse(self: OpenFolder, name: str) -> None:
        if name in ("left", "t", token):
            raise PermissionError(1, "Operation not permitted", name)
        whole(self, name)

    monkeypatch.setattr(OpenFolder, "remove", refuse)
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    assert (tmp_path / "cache" / token / "t" / "left").exists()
