"""A run in containers around which somebody is killed, for tests and for the benchmark of them."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import Result
from tests.support.containers import SERVICE, Podman, contained, waiting
from tests.support.random_kills import again
from tests.support.run_folders import QUICK, records, unaccounted
from tests.support.suite_files import processes_with, wait_for
from tests.support.yard import Yard

# Deaf, with a child in a session of its own.
DEAF = "trap '' TERM INT HUP\nsetsid sleep 600 &\n"


class Kills:
    """A run in containers whose first agent waits for a file."""

    def __init__(self, yard: Yard, podman: Podman) -> None:
        self.yard, self.podman = yard, podman
        self.engine = "podman"

    def suite(self, **changed: Any) -> Path:
        # HOME and the cache are in it, and so there are volumes in their place.
        agent = {"mounts": [str(self.yard.root)], "env": {"SIGN": str(self.yard.root)}}
        script = DEAF + waiting(self.yard.gate)
        return contained(self.yard.folder, script, agent=agent, **changed)

    def start(self, *more: str, **changed: Any) -> "subprocess.Popen[str]":
        """The runner, once its first agent is in its container."""
        self.yard.app()
        self.yard.gate.unlink()
        words = ("--isolation", self.engine, "--repeats", "1", "--jobs", "1", *QUICK, *more)
        process = self.yard.start("run", self.suite(**changed), "--out", self.yard.out, *words)
        wait_for(lambda: self.agents() or process.poll() is not None, 60)
        assert process.poll() is None, self.yard.ended(process, "a run").err
        return process

    def killed_in_setup(self, *more: str | Path) -> Path:
        """The suite of a run whose set-up waits in a container when everybody is killed."""
        yard = self.yard
        yard.app()
        yard.gate.unlink()
        place = {"setup_commands": [f"SIGN='{yard.root}'; {DEAF} {waiting(yard.gate, 'true')}"]}
        suite = self.suite(workspace=place)
        process = yard.start("run", suite, *more)
        wait_for(lambda: any("sleep" in line for line in self.podman.inside()), 60)
        everybody = [self.client(), self.supervisor(), process.pid]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in everybody:
                os.kill(pid, number)
        yard.ended(process, "the runner")
        assert len(self.podman.containers()) == 1
        yard.gate.touch()
        return suite

    def agents(self) -> list[str]:
        return [line for line in self.podman.inside() if "agent.sh" in line]

    def client(self) -> int:
        """The client that waits for the container."""
        mine = processes_with(str(self.yard.cache))
        (found,) = [line for line in mine if f"{self.engine}\0run\0" in line]
        return int(found.split(":")[0])

    def supervisor(self) -> int:
        pids = {
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if b"supervisor.main" in _bytes(path)
            and str(self.yard.cache).encode() in _bytes(path.parent / "environ")
        }
        (found,) = pids
        return found

    def left(self) -> list[str]:
        """Containers, and processes of this test or of its storage, but not of the engine."""
        found = processes_with(str(self.yard.root)) + processes_with(str(self.podman.folder))
        mine = [line for line in found if "\0".join(SERVICE) not in line]
        return mine + self.podman.containers()

    def resumed(self) -> Result:
        """The run goes on and ends with every trial done once."""
        self.yard.gate.touch()
        result = self.yard.resume()
        assert result.code == 0, result.err
        assert unaccounted(self.yard.out) == []
        found = records(self.yard.out)
        # What went wrong before is told, and is nobody's failure.
        assert [each["success"] for each in found if each["failure"] != "infra"] == [True] * 2
        assert again(self.yard.out) == []
        assert self.left() == []
        return result


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
