"""What each isolation holds an agent back from: the table of docs/run.md, cell by cell."""

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import IMAGE
from tests.support.run_folders import records
from tests.support.suite_files import SOLVE
from tests.support.yard import Yard
from twoarm.run.supervisor.process_limit import cgroups

DOCUMENT = (Path(__file__).parents[2] / "docs" / "run.md").read_text(encoding="utf-8")
ISOLATIONS = ("copy", "bwrap", "podman")
# In the open an agent is you, and may do what you may.
boxed = pytest.mark.parametrize("sealed", ["bwrap", "podman"], indirect=True)
FEW = 30


def table() -> dict[tuple[str, str], bool]:
    """Whether an agent can do something, by what and by isolation; of each cell the first word."""
    rows = re.search(r"\| an agent can \|.*?\n\n", DOCUMENT, re.DOTALL)
    assert rows is not None
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in rows[0].strip().splitlines()
    ]
    names = [name.partition(",")[0].strip("` ") for name in head[1:]]
    cells = {}
    for what, *answers in lines:
        for name, answer in zip(names, answers, strict=True):
            word = re.match(r"yes|no", answer)
            assert word is not None, answer
            cells[what, name] = word[0] == "yes"
    return cells


@pytest.fixture(params=ISOLATIONS)
def sealed(request: pytest.FixtureRequest, yard: Yard) -> "Sealed":
    if request.param == "bwrap":
        request.getfixturevalue("bubblewrap")
    if request.param == "podman":
        request.getfixturevalue("podman")
    return Sealed(yard, request.param, IMAGE if request.param == "podman" else None)


class Sealed:
    """A run with an agent that tries something."""

    def __init__(self, yard: Yard, isolation: str, image: str | None) -> None:
        self.yard = yard
        self.isolation = isolation
        # What a suite says of it; with a network there would be one to wait for.
        self.place: dict[str, Any] = {"workspace": {"copy": "app"}}
        if image is not None:
            self.place["workspace"]["image"] = image
            self.place["agent"] = {"network": "none"}

    def tries(self, script: str, **changed: Any) -> str:
        """What its agents print; the task is done in any case."""
        self.yard.app()
        suite = self.yard.suite(f"{script}\n{SOLVE}", **self.place | changed)
        result = self.yard.run(suite, "--isolation", self.isolation)
        assert result.code == 0, result.err
        assert [record["success"] for record in records(self.yard.out)] == [True, True]
        assert f'"isolation": "{self.isolation}"' in (self.yard.out / "receipt.json").read_text()
        return "".join(self.yard.kept(arm, "stdout.txt").read_text() for arm in ("with", "without"))

    def may(self, what: str) -> bool:
        return table()[what, self.isolation]


def test_the_table_has_a_cell_for_everything() -> None:
    rows = ("read the suite, and the graders in it", "read your HOME", "see your processes",
            "end the runner", "write outside of its folders", "use the network", "fill the disk",
            "start any number of processes")  # fmt: skip
    assert table().keys() == {(what, name) for what in rows for name in ISOLATIONS}


def test_the_suite_and_what_grades_it(sealed: Sealed) -> None:
    secret = sealed.yard.folder / "grade.sh"
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("# hunter2\ntest -f answer.txt\n")
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/grade.sh"}]
    script = f"cat '{secret}' '{sealed.yard.folder}/suite.json'; ls '{sealed.yard.folder}'"
    told = sealed.tries(script, tasks=tasks)
    may = sealed.may("read the suite, and the graders in it")
    assert ("hunter2" in told) is may
    assert ("suite.json" in told) is may


def test_files_of_the_user(sealed: Sealed) -> None:
    (sealed.yard.user / "diary.txt").write_text("dear diary\n")
    told = sealed.tries(f"cat '{sealed.yard.user}/diary.txt'; cat '{sealed.yard.out}/place.json'")
    assert ("dear diary" in told) is sealed.may("read your HOME")
    assert ("token" in told) is sealed.may("read your HOME")


@boxed
def test_passwords_of_the_machine(sealed: Sealed) -> None:
    told = sealed.tries("grep -c root /etc/shadow /etc/gshadow")
    assert not re.search(r":[1-9]", told)


@contextmanager
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that has nothing to do with it."""
    with subprocess.Popen(["sleep", "98765"], start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_processes_of_others(sealed: Sealed) -> None:
    with bystander() as process:
        script = f"""
cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -o '[s]leep 98765' | head -n 1
kill -TERM {process.pid}
"""
        told = sealed.tries(script)
        assert ("sleep 98765" in told) is sealed.may("see your processes")
        ended = process.poll() is not None
        assert ended is sealed.may("end the runner")


@boxed
def test_the_runner_itself(sealed: Sealed) -> None:
    yard = sealed.yard
    assert not sealed.may("end the runner")
    everybody = "for pid in /proc/[0-9]*; do kill -KILL ${pid#/proc/}; done; kill -KILL -1"
    yard.app()
    suite = yard.suite(f"{everybody}\n{SOLVE}", **sealed.place)
    assert yard.run(suite, "--isolation", sealed.isolation).code == 0
    # Whoever kills all that it sees has killed itself, and its run counts.
    assert [(record["success"], record["failure"]) for record in records(yard.out)] == [
        (False, None)
    ] * 2


def test_files_elsewhere(sealed: Sealed) -> None:
    may = sealed.may("write outside of its folders")
    places = [sealed.yard.signs]
    if not may:
        # In the open it could, and the yard would notice.
        places += [sealed.yard.user, sealed.yard.cache, sealed.yard.folder]
    sealed.tries("\n".join(f"echo x > '{place}/sign'" for place in places))
    for place in places:
        assert (place / "sign").exists() is may


@boxed
def test_settings_of_the_kernel(sealed: Sealed) -> None:
    names = "/proc/sys/kernel/core_pattern /proc/sys/vm/swappiness"
    told = sealed.tries(f'for name in {names}; do cat $name > $name && echo "wrote $name"; done')
    assert "wrote" not in told


class Listener:
    """A server on loopback that counts who comes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.came = 0
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            self.came += 1
            with caller:
                caller.recv(4096)
                caller.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello\n")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


NETWORKS = [
    *(("copy", None), ("bwrap", None), ("bwrap", "none"), ("bwrap", "host")),
    # Unless it is said, a container has that of the engine, which may be any.
    *(("podman", "none"), ("podman", "host")),
]


@pytest.mark.parametrize(("sealed", "network"), NETWORKS, indirect=["sealed"])
def test_the_network(sealed: Sealed, network: str | None) -> None:
    listener = Listener()
    try:
        url = f"127.0.0.1:{listener.port}"
        reach = f"wget -q -O - http://{url}/ || bash -c 'echo > /dev/tcp/{url.replace(':', '/')}'"
        agent = {"program": "command", "argv": ["sh", "{suite}/agent.sh"]}
        if network is not None:
            agent["network"] = network
        sealed.tries(reach, agent=agent)
        may = sealed.may("use the network") and network != "none"
        assert (listener.came > 0) is may
    finally:
        listener.close()


@pytest.mark.parametrize("network", ["none", "host"])
def test_the_open_has_no_network_of_its_own(yard: Yard, network: str) -> None:
    yard.app()
    argv = ["sh", "{suite}/agent.sh"]
    suite = yard.suite(agent={"program": "command", "argv": argv, "network": network})
    refused = yard.run(suite, "--isolation", "copy")
    assert refused.code == 2
    assert "agent.network has no effect" in refused.err


def test_room_on_the_disk(sealed: Sealed) -> None:
    told = sealed.tries("head -c 20000000 /dev/zero > big && wc -c < big; rm -f big")
    assert ("20000000" in told) is sealed.may("fill the disk")


def cgroups_v1() -> bool:
    return not os.path.exists("/sys/fs/cgroup/cgroup.controllers")


def test_processes_without_end(sealed: Sealed) -> None:
    limited = any(os.access(folder, os.W_OK) for folder in cgroups())
    if sealed.isolation != "podman" and not limited:
        assert os.geteuid() != 0
        pytest.skip("only root may limit processes here")
    if sealed.isolation == "podman" and os.geteuid() != 0 and cgroups_v1():
        suite = sealed.yard.suite(limits={"processes": FEW}, **sealed.place)
        refused = sealed.yard.run(suite)
        assert "limits.processes: podman ignores it" in refused.err
        return
    fork = f"sh -c 'i=0; while [ $i -lt {3 * FEW} ]; do sleep 3 & i=$((i+1)); done; echo all'"
    told = sealed.tries(f"{fork}; true", limits={"processes": FEW})
    assert ("all" in told) is sealed.may("start any number of processes")
