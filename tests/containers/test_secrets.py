"""A secret reaches the agent in its container, and nobody who asks the engine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.containers import Podman, contained, waiting
from tests.support.run_folders import QUICK, WITHOUT_PAGE
from tests.support.suite_files import SOLVE, wait_for

SECRET = "sk-5d1e7c0b9a3f"


@contextmanager
def running(folder: Path, script: str, podman: Podman) -> Iterator[None]:
    """While the agent of a run is in its container and waits."""
    gate = folder / "signs" / "gate"
    gate.parent.mkdir()
    agent = {"secrets": ["THE_KEY"], "mounts": [str(gate.parent)]}
    suite = contained(folder / "suite", waiting(gate, script), agent=agent)
    words = ("run", str(suite), "--out", str(folder / "out"), "--repeats", "1", *QUICK)
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PAGE, *words],
        env={**os.environ, "THE_KEY": SECRET, "TWOARM_CACHE": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: any("agent.sh" in line for line in podman.inside()), 60)
        yield
        gate.touch()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def command_lines() -> bytes:
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes()
        except OSError:
            continue
    return found


def test_a_secret_is_in_the_environment_of_the_agent_and_nowhere_in_the_engine(
    tmp_path: Path, podman: Podman
) -> None:
    script = f"printf %s $THE_KEY | wc -c; printf %s $THE_KEY | rev; {SOLVE}"
    with running(tmp_path, script, podman):
        (container,) = podman.containers()
        told = podman.ask("inspect", container)
        assert "twoarm.attempt" in told
        assert SECRET not in told
        assert SECRET.encode() not in command_lines()
        stored = b"".join(p.read_bytes() for p in podman.folder.rglob("*") if p.is_file())
        assert container.encode() in stored
        assert SECRET.encode() not in stored
        # Only who runs twoarm may enter the folder that it comes in.
        (file,) = (tmp_path / "cache").glob("*/*/*/own/variables-*")
        assert SECRET in file.read_text()
        assert file.parents[1].stat().st_mode & 0o077 == 0
    kept = tmp_path / "out" / "runs" / "with" / "one.1" / "stdout.txt"
    assert kept.read_text().split() == [str(len(SECRET)), SECRET[::-1]]
    assert not list((tmp_path / "cache").rglob("variables-*"))


def test_acceptance_and_set_up_have_no_secret(tmp_path: Path, podman: Podman) -> None:
    with running(tmp_path, "env > answer.txt", podman):
        pass
    diff = (tmp_path / "out" / "runs" / "with" / "one.1" / "diff.patch").read_text()
    assert "+THE_KEY=" in diff
    assert SECRET not in diff
