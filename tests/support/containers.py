"""Real containers: podman with a storage of its own, and an image that comes from no registry."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.suite_files import SOLVE, suite_of, wait_for

IMAGE = "localhost/twoarm-test-busybox:1"
# What serves clients of docker; it is there as long as they are.
SERVICE = ("system", "service")
_HOW = "to test containers, tools/install-podman.sh"

_CONTAINERS = """
[engine]
runtime = "runc"
volume_path = "{folder}/volumes"
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4000:4000"]
[network]
network_config_dir = "{folder}/networks"
"""
_STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{folder}/root"
rootless_storage_path = "{folder}/root"
runroot = "{folder}/run"
"""
# Runs a command for which there is another folder in the place of one.
_APART = 'mount -t tmpfs none "$0" && exec "$@"'


def need(*programs: str) -> None:
    """Without these programs CI fails, and elsewhere the test is skipped."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        message = f"no {' and no '.join(missing)}; {_HOW}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


class Podman:
    """A storage that nobody else uses, with one small image in it."""

    def __init__(self, folder: Path, driver: str) -> None:
        self.folder = folder
        texts = {"containers.conf": _CONTAINERS, "storage.conf": _STORAGE}
        for name, text in texts.items():
            (folder / name).write_text(text.replace("{driver}", driver).format(folder=folder))
        # The variables with which `podman` is this one.
        self.env = {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }
        # Also where a test takes it away from PATH.
        self._tool = shutil.which("podman") or "podman"
        self._made: list[str] = []

    def ask(self, *words: str | Path, given: bytes | None = None) -> str:
        """One command that has to succeed, and what it prints."""
        done = self._done(*words, given=given)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").strip()

    def _done(
        self, *words: str | Path, given: bytes | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [self._tool, *map(str, words)],
            input=given,
            capture_output=True,
            check=False,
            env=os.environ | self.env,
        )

    def import_busybox(self) -> None:
        """An image of one program that is everything."""
        root = self.folder / "busybox"
        (root / "bin").mkdir(parents=True)
        (root / "etc").mkdir()
        busybox = shutil.which("busybox") or "busybox"
        shutil.copy(busybox, root / "bin" / "busybox")
        for name in subprocess.check_output([busybox, "--list"], text=True).split():
            if name != "busybox":
                (root / "bin" / name).symlink_to("busybox")
        tar = subprocess.check_output(["tar", "-C", root, "-cf", "-", "."])
        self.ask("import", "-q", "-", IMAGE, given=tar)

    def image(self, name: str, *lines: str) -> str:
        """An image of the busybox and these lines of a Dockerfile; its id."""
        text = "\n".join((f"FROM {IMAGE}", *lines))
        words = ("build", "-q", "--network", "none", "-t", name, "-f", "-")
        self.ask(*words, self.folder / "busybox", given=text.encode())
        self._made.append(name)
        return self.id_of(name)

    def id_of(self, image: str = IMAGE) -> str:
        """What a schedule says of an image."""
        return self.ask("image", "inspect", "--format", "{{.Id}}", image)

    def containers(self, *more: str) -> list[str]:
        """The ids of the containers that there are."""
        return self.ask("ps", "-a", "-q", "--no-trunc", *more).split()

    def inside(self) -> list[str]:
        """The command lines of the processes in containers."""
        return [
            line
            for container in self.containers("--filter", "status=running")
            # It may have ended meanwhile.
            for line in self._done("top", container, "args").stdout.decode().splitlines()[1:]
        ]

    @contextmanager
    def served(self, unseen: Path | None = None) -> Iterator[str]:
        """What a client of docker needs to know to talk to this storage.

        What is `unseen` is another, empty folder for the engine, as on another machine.
        """
        socket = self.folder / "socket"
        address = f"unix://{socket}"
        apart = [] if unseen is None else ["unshare", "-m", "sh", "-c", _APART, str(unseen)]
        process = subprocess.Popen(
            [*apart, self._tool, *SERVICE, "--time=0", address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | self.env,
        )
        try:
            wait_for(socket.exists)
            yield address
        finally:
            self.clear()
            process.kill()
            process.wait()
            socket.unlink(missing_ok=True)

    def clear(self) -> list[str]:
        """Leave nothing but the one image; the containers that there were, and the volumes."""
        left = self.containers()
        if left:
            self.ask("rm", "-f", "-t", "0", *left)
        volumes = self.ask("volume", "ls", "-q").split()
        if volumes:
            self.ask("volume", "rm", "-f", *volumes)
        while self._made:
            self._done("rmi", "-f", self._made.pop())
        return left + volumes


@contextmanager
def a_store(driver: str = "vfs") -> Iterator[Podman]:
    """podman with a storage that is gone afterwards; `vfs` works on any file system."""
    # The path is short: sockets are below it.
    with tempfile.TemporaryDirectory(prefix="pod-", ignore_cleanup_errors=True) as folder:
        podman = Podman(Path(folder), driver)
        podman.import_busybox()
        try:
            yield podman
        finally:
            podman.clear()
            # Of `overlay`, which mounts its own folder on itself.
            mounted = podman.folder / "root" / driver
            if os.path.ismount(mounted):
                subprocess.run(["umount", mounted], check=False)
            if os.geteuid() != 0:
                # Much of it belongs to users whom podman alone can be.
                podman.ask("unshare", "rm", "-rf", podman.folder / "root")


ONE = [{"id": "one", "prompt": "Do one.", "acceptance_command": "test -f answer.txt"}]


def contained(folder: Path, script: str = SOLVE, **changed: Any) -> Path:
    """A suite of one task in the image of these tests; its agent has no network to wait for."""
    place = {"image": IMAGE} | changed.pop("workspace", {})
    agent = {"network": "none"} | changed.pop("agent", {})
    return suite_of(folder, script, workspace=place, agent=agent, **({"tasks": ONE} | changed))


def waiting(gate: Path, script: str = SOLVE) -> str:
    """An agent that waits until a file is there; what it is in has to be among its mounts."""
    return f"while [ ! -e '{gate}' ]; do sleep 0.05; done\n{script}\n"
