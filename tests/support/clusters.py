"""A cluster of Ray that nobody else can reach: a head and nodes in namespaces of their own.

They have a network of their own, in which there is nothing but themselves, and processes of their
own, so that none is left behind. Every node has a cache of its own at the same path: what is in it
has travelled.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.conftest import REAL_PATH

ROOT = Path(__file__).parent.parent.parent
# Made by `make fleet`.
ENVIRONMENT = ROOT / ".venv-ray"
HEAD = "127.0.0.1:6399"
_START_SECONDS = 120.0
# The first process inside: it makes the network work, and reaps what others leave behind.
_FIRST = """
import fcntl, os, socket, struct, time
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))
print("up", flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.05)
"""


def need_ray() -> None:
    """Ray for these tests; without it CI fails, and elsewhere the test is skipped."""
    message = ""
    if not (ENVIRONMENT / "bin" / "ray").exists():
        message = "no Ray; to test runs on a cluster, `make fleet` (500 MB)"
    elif shutil.which("unshare") is None or shutil.which("nsenter") is None:
        message = "no unshare or nsenter; to test runs on a cluster, install util-linux"
    if message and os.environ.get("CI"):
        pytest.fail(message)
    if message:
        pytest.skip(message)


class TestCluster:
    """Its head, its nodes, and a way to run commands among them."""

    __test__ = False

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        # Variables of all of them, besides the usual ones.
        self._env = env
        self.cache = folder / "cache"
        self.home = folder / "home"
        # What all of them have on PATH, besides what the machine has.
        self.bin = folder / "bin"
        self.path = os.pathsep.join((str(ENVIRONMENT / "bin"), str(self.bin), REAL_PATH))
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        # What Ray keeps, at a path that is short enough for sockets.
        self.kept = Path(tempfile.mkdtemp(prefix="twoarm-ray-"))
        for made in (self.cache, self.home, self.bin):
            made.mkdir()
        own = [] if os.geteuid() == 0 else ["--map-root-user"]
        words = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._holder = subprocess.Popen(
            ["unshare", *own, *words, str(ENVIRONMENT / "bin" / "python"), "-c", _FIRST],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self._first = children.read_text().split()[0]
        self._namespace = os.readlink(f"/proc/{self._first}/ns/pid")
        self._ray("head", "--head", "--port=6399", "--num-cpus=0", "--include-dashboard=false")
        self._wait_for("head")

    # Commands.

    def inside(self, *words: str) -> list[str]:
        """A command, as it is started among the nodes."""
        return ["nsenter", "-t", self._first, "--net", "--mount", "--pid", "--", *words]

    def env(self, **more: str) -> dict[str, str]:
        """The variables of everything there."""
        plain = {"PATH": self.path, "HOME": str(self.home), "LANG": "C.UTF-8"}
        quiet = {"RAY_USAGE_STATS_ENABLED": "0"}
        return {**plain, **quiet, "TWOARM_CACHE": str(self.cache), **self._env, **more}

    def start(self, *words: str, **env: str) -> "subprocess.Popen[str]":
        """Start twoarm among the nodes."""
        return subprocess.Popen(
            self.inside("twoarm", *words),
            env=self.env(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run twoarm among the nodes, to its end."""
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def runner_of(self, out: Path) -> int:
        """The process that works on a run folder, by its number outside."""
        owner = (out / "lock").read_text().strip()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                told = (folder / "status").read_text().splitlines()
                numbers = next(line for line in told if line.startswith("NSpid:")).split()[1:]
                same = os.readlink(folder / "ns" / "pid") == self._namespace
                if same and numbers[-1] == owner:
                    return int(folder.name)
        raise AssertionError(f"nobody works on {out}")

    def processes(self, *words: str) -> list[int]:
        """Processes whose command line is just this, by their numbers outside."""
        wanted = b"".join(word.encode() + b"\0" for word in words)
        return _processes(lambda line: line == wanted)

    def keepers(self) -> list[int]:
        """What looks after the agents on all nodes."""
        return [
            number
            for number in _processes(lambda line: b"\0twoarm.run.executors.keeper\0" in line)
            if os.readlink(f"/proc/{number}/ns/pid") == self._namespace
        ]

    # Nodes.

    def add(
        self, *names: str, cpus: float = 1, without: Path | None = None, env: Mapping[str, str] = {}
    ) -> None:
        """Nodes with a cache of their own; `without` is a folder that they see empty."""
        for name in names:
            # One after the other: two that start at once on one machine are in each other's way.
            self._add(name, cpus, without, env)
            self._wait_for(name)

    def _add(self, name: str, cpus: float, without: Path | None, env: Mapping[str, str]) -> None:
        own = self.folder / f"cache-{name}"
        own.mkdir(exist_ok=True)
        mounts = f"mount --bind '{own}' '{self.cache}'"
        if without is not None:
            mounts += f" && mount -t tmpfs none '{without}'"
        mounts = f'{mounts} && exec "$@"'
        address = (f"--address={HEAD}", f"--num-cpus={cpus}")
        self._ray(name, *address, before=["unshare", "--mount", "sh", "-c", mounts, "sh"], **env)

    def cache_of(self, name: str) -> Path:
        """The cache of a node."""
        return self.folder / f"cache-{name}"

    def _ray(self, name: str, *words: str, before: list[str] | None = None, **env: str) -> None:
        log = self.folder / f"{name}.log"
        common = ["--node-ip-address=127.0.0.1", f"--node-name={name}", "--disable-usage-stats"]
        common += ["--object-store-memory=100000000", "--block"]
        if "--head" in words:
            common += [f"--temp-dir={self.kept}"]
        with log.open("wb") as file:
            self._nodes[name] = subprocess.Popen(
                self.inside(*(before or []), "ray", "start", *words, *common),
                env=self.env(**env),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_for(self, name: str) -> None:
        log = self.folder / f"{name}.log"
        deadline = time.monotonic() + _START_SECONDS
        while b"Ray runtime started" not in log.read_bytes():
            assert self._nodes[name].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        """A node is gone: all of Ray on it at once, as far as it is in one group."""
        process = self._nodes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_raylet(self, name: str) -> None:
        """What holds a node together is gone, and nothing else."""
        self._kill(name, b"/raylet\0")
        self._nodes.pop(name).wait()

    def kill_gcs(self, name: str) -> None:
        """What holds the cluster together is gone, and nothing else of the head."""
        # It would notice, and end the rest.
        self._kill(name, b"/bin/ray\0start\0", signal.SIGSTOP)
        self._kill(name, b"/gcs_server\0")

    def _kill(self, name: str, program: bytes, number: int = signal.SIGKILL) -> None:
        for process in _processes(lambda line: program in line):
            if os.getpgid(process) == self._nodes[name].pid:
                os.kill(process, number)

    def clear(self, name: str) -> None:
        """Remove what a node that was killed has left in its cache."""
        shutil.rmtree(self.cache_of(name))

    def namespace(self, name: str) -> str:
        """What the processes of a node have in common, and nobody else."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                own = os.getpgid(int(folder.name)) == self._nodes[name].pid
                if own and b"/raylet\0" in (folder / "cmdline").read_bytes():
                    return os.readlink(folder / "ns" / "mnt")
        raise AssertionError(name)

    def close(self) -> None:
        """End everything in it."""
        self._holder.kill()
        self._holder.wait()
        self._holder.stdout.close()  # type: ignore[union-attr]
        for process in self._nodes.values():
            # `nsenter` is stopped with what it has started, and stays so.
            process.kill()
            process.wait()
        shutil.rmtree(self.kept, ignore_errors=True)


def _processes(wanted: Callable[[bytes], bool]) -> list[int]:
    numbers = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted((folder / "cmdline").read_bytes()):
                numbers.append(int(folder.name))
    return numbers


@contextlib.contextmanager
def a_cluster(folder: Path, **env: str) -> Iterator[TestCluster]:
    """A cluster with a head and no nodes, which is gone afterwards."""
    need_ray()
    cluster = TestCluster(folder, **env)
    try:
        yield cluster
    finally:
        cluster.close()
