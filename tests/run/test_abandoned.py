"""Dry runs that were killed with their supervisors: the next run of anything removes what is left,
and nothing else.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.run.test_orphans import children, orphans
from tests.support.run_folders import QUICK
from tests.support.suite_files import suite_of, wait_for
from twoarm.files.safe import OpenFolder
from twoarm.run.abandoned import clear_dry_runs, note_dry_run
from twoarm.run.place import MARK, Place, choose_place

TOKEN = "0123456789ab"


class Waiting:
    """A dry run whose set-up waits for a file, and has a child in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.gate = folder, folder / "gate"
        wait = f"setsid sleep 93 & while [ ! -e {self.gate} ]; do sleep 0.1; done"
        self.suite = suite_of(folder, workspace={"setup_commands": [wait]})
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "twoarm", "run", str(self.suite), "--dry-run"],
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        wait_for(lambda: len(orphans(folder)) >= 2, 30)
        (self.supervisor,) = children(self.process.pid)

    def kill(self) -> None:
        """The runner and its supervisor at once, so that neither can do anything about it."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (self.supervisor, self.process.pid):
                os.kill(pid, number)
        self.process.wait()


@pytest.fixture
def waiting(tmp_path: Path, cache: Path) -> Iterator[Waiting]:
    made = Waiting(tmp_path)
    yield made
    made.gate.touch()
    made.process.wait()
    for pid in orphans(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("next_one", ["a dry run", "a run", "a resume"])
def test_the_next_run_removes_what_a_killed_dry_run_has_left(
    tmp_path: Path, cache: Path, waiting: Waiting, next_one: str
) -> None:
    more = ("--out", str(tmp_path / "out"), "--repeats", "1", "--only", "one", *QUICK)
    words = {
        "a dry run": (str(waiting.suite), "--dry-run"),
        "a run": (str(waiting.suite), *more),
        "a resume": ("--resume", str(tmp_path / "out"), *QUICK),
    }
    if next_one == "a resume":
        other = suite_of(tmp_path / "other")
        assert twoarm("run", str(other), *more).code == 0
    waiting.kill()
    assert len(orphans(tmp_path)) >= 2
    (left,) = cache.iterdir()
    assert json.loads((left / "dry-run").read_text())["isolation"] == "copy"
    waiting.gate.touch()
    result = twoarm("run", *words[next_one])
    assert result.code == 0, result.err
    assert "killed" not in result.err
    assert list(cache.iterdir()) == []
    assert orphans(tmp_path) == []


def test_a_dry_run_that_is_at_work_is_left_alone(cache: Path, waiting: Waiting) -> None:
    (mine,) = cache.iterdir()
    # Its supervisor holds the lock as well, and none of its steps does.
    assert holders(mine) == {waiting.process.pid, waiting.supervisor}
    for _ in range(2):
        assert clear_dry_runs({"TWOARM_CACHE": str(cache)}) == []
        assert (mine / MARK).exists()
    assert len(orphans(waiting.root)) >= 2
    waiting.gate.touch()
    assert waiting.process.wait() == 0, waiting.said.read_text()
    assert list(cache.iterdir()) == []


def holders(place: Path) -> set[int]:
    """Who has the lock of a place."""
    pids = set()
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if path.readlink() == place / MARK:
                pids.add(int(path.parts[2]))
    return pids


def cleared(cache: Path, **changed: str) -> list[str]:
    """What is said when the next run begins."""
    return clear_dry_runs({"TWOARM_CACHE": str(cache), **changed})


@contextmanager
def abandoned(cache: Path, token: str = TOKEN) -> Iterator[Place]:
    """The place of a dry run of which nobody is left when this ends."""
    place = choose_place(token, {"TWOARM_CACHE": str(cache)})
    note_dry_run(place, "copy")
    (cache / token / "trees" / "file").write_text("kept\n")
    yield place
    place.close()


def test_the_lock_is_held_until_the_last_one_lets_go(cache: Path) -> None:
    with abandoned(cache) as place:
        shared = place.share()
    assert cleared(cache) == []
    assert (cache / TOKEN / "trees" / "file").exists()
    os.close(shared)
    assert cleared(cache) == []
    assert list(cache.iterdir()) == []


def test_the_place_of_a_run_stays_for_its_resume(cache: Path) -> None:
    choose_place(TOKEN, {"TWOARM_CACHE": str(cache)}).close()
    assert cleared(cache) == []
    assert (cache / TOKEN / MARK).exists()


# What somebody may have put where the place of a dry run was, or into it.
PLANTED = {
    "a link as the folder": "mv {place} {away}; ln -s {away} {place}",
    "another name": "mv {place} {cache}/elsewhere-12",
    "the name of another": "mv {place} {cache}/ba9876543210",
    "no mark": "rm {place}/made-by-twoarm",
    "a mark of something else": "printf 'made by me..' > {place}/made-by-twoarm",
    "a large mark": "truncate -s 1M {place}/made-by-twoarm",
    "a link as the mark": "mv {place}/made-by-twoarm {away}; ln -s {away} {place}/made-by-twoarm",
    "a mark with another name": "ln {place}/made-by-twoarm {away}",
    "a link as the note": "mv {place}/dry-run {away}; ln -s {away} {place}/dry-run",
    "a pipe as the note": "rm {place}/dry-run; mkfifo {place}/dry-run",
    "a large note": "printf '%10000s' >> {place}/dry-run",
    "no note": "echo '[]' > {place}/dry-run",
    "an isolation of its own": "sed -i s/copy/sh/ {place}/dry-run",
    "another machine": "sed -i 's/machine\":\"/&x/' {place}/dry-run",
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_not_what_it_looks_like_is_left_alone(
    tmp_path: Path, cache: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with abandoned(cache):
        pass
    monkeypatch.setattr(OpenFolder, "read", read_little)
    script = PLANTED[what].format(place=cache / TOKEN, away=tmp_path / "away", cache=cache)
    subprocess.run(["sh", "-ec", script], check=True)
    before = names_below(tmp_path)
    assert any(name.endswith("trees/file") for name in before)
    assert cleared(cache) == []
    assert names_below(tmp_path) == before


def read_little(folder: OpenFolder, name: str) -> bytes:
    """A file, as long as it is none that could fill the memory."""
    assert folder.size(name) < 1000
    with open(folder.open(name), "rb") as file:
        return file.read()


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_of_another_user_is_left_alone(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with abandoned(cache):
        pass
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert cleared(cache) == []
    assert (cache / TOKEN / MARK).exists()


def test_a_cache_that_is_a_link_is_left_alone_unless_the_user_has_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    real = tmp_path / "real"
    with abandoned(real):
        pass
    named = tmp_path / "cache"
    named.mkdir()
    link = named / "twoarm"
    link.symlink_to(real)
    assert clear_dry_runs({"XDG_CACHE_HOME": str(named)}) == []
    assert (real / TOKEN).exists()
    assert cleared(link) == []
    assert not (real / TOKEN).exists()


def test_links_in_a_place_lead_nowhere(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept\n")
    with abandoned(cache) as place:
        os.symlink(tmp_path / "mine", place.trees.at("link"))
    os.rename(cache / TOKEN / "builds", tmp_path / "builds")
    (cache / TOKEN / "builds").symlink_to(tmp_path / "mine")
    cleared(cache)
    assert (tmp_path / "mine" / "file").read_text() == "kept\n"


def test_who_is_killed_while_a_place_is_removed_leaves_what_says_whose_it_is(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with abandoned(cache) as place, monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", killed)
        with pytest.raises(KeyboardInterrupt):
            place.remove()
    assert {path.name for path in (cache / TOKEN).iterdir()} >= {MARK, "dry-run"}
    assert cleared(cache) == []
    assert list(cache.iterdir()) == []


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
