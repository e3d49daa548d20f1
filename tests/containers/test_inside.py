"""What a sandbox or a container is made of, as whoever is inside can tell."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.containers import IMAGE, ONE, Podman, contained
from tests.support.run_folders import records, run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.sealing import WORKSPACE_IMAGE
from twoarm.run.suite_file import read_suite

pytestmark = pytest.mark.usefixtures("cache")

# CHOWN, DAC_OVERRIDE and FOWNER: what root may do with files; nobody else may do anything.
CAPABILITIES = 0b1011 if os.geteuid() == 0 else 0
# What a program expects in /dev, and nothing of the machine.
DEVICES = {
    *("console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm"),
    *("stderr", "stdin", "stdout", "tty", "urandom", "zero"),
}
KINDS = ("ipc", "mnt", "pid", "uts")


@pytest.fixture(params=["bwrap", "podman"])
def isolation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    request.getfixturevalue("bubblewrap" if name == "bwrap" else name)
    return name


def told(folder: Path, isolation: str, script: str, **changed: Any) -> list[str]:
    """What an agent prints there, line by line; acceptance prints the same."""
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": script}]
    place: dict[str, Any] = {"workspace": {"image": IMAGE}} if isolation == "podman" else {}
    network = {"agent": {"network": "none"}} if isolation == "podman" else {}
    suite = suite_of(folder / "suite", script, tasks=tasks, **{**place, **network, **changed})
    out = folder / "out"
    result = run(suite, out, "--isolation", isolation)
    assert result.code == 0, result.err
    attempt = out / "runs" / "with" / "one.1"
    lines = (attempt / "stdout.txt").read_text().splitlines()
    assert (attempt / "acceptance.log").read_text().splitlines() == lines
    return lines


def test_nobody_in_there_may_do_more_than_change_files(tmp_path: Path, isolation: str) -> None:
    status = "grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"
    values = dict(line.split(":\t") for line in told(tmp_path, isolation, status))
    assert int(values["CapEff"], 16) == CAPABILITIES
    assert values["NoNewPrivs"] == "1"


def test_nothing_is_shared_with_the_machine_but_its_kernel(tmp_path: Path, isolation: str) -> None:
    links = " ".join(f"/proc/self/ns/{kind}" for kind in KINDS)
    script = f"for link in {links}; do ls -l $link | sed 's/.*-> //'; done | grep -v '^net'"
    # Each step has its own.
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "true"}]
    place: dict[str, Any] = {"workspace": {"image": IMAGE}} if isolation == "podman" else {}
    suite = suite_of(tmp_path / "suite", f"{script}; {SOLVE}", tasks=tasks, **place)
    out = tmp_path / "out"
    result = run(suite, out, "--isolation", isolation)
    assert result.code == 0, result.err
    theirs = (out / "runs" / "with" / "one.1" / "stdout.txt").read_text().split()
    ours = [os.readlink(f"/proc/self/ns/{kind}") for kind in KINDS]
    assert [name.split(":")[0] for name in theirs] == list(KINDS)
    assert not set(theirs) & set(ours)


def test_no_device_of_the_machine_is_there(tmp_path: Path, isolation: str) -> None:
    assert set(told(tmp_path, isolation, "ls /dev")) <= DEVICES


def test_a_container_has_no_more_of_the_processor_than_the_suite_says(
    tmp_path: Path, podman: Podman
) -> None:
    # With one tree of groups in the kernel, or with several.
    look = "cat /sys/fs/cgroup/cpu.max 2> /dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"
    (quota,) = told(tmp_path, "podman", look, limits={"cpus": 0.5})
    assert quota.split()[0] == "50000"


def test_a_container_writes_no_log_swaps_nothing_and_gets_no_image(tmp_path: Path) -> None:
    chosen = ChosenIsolation(name="podman", tool="podman", images={WORKSPACE_IMAGE: "it"})
    suite = contained(tmp_path, limits={"memory_mb": 64})
    seal = sealer_of(read_suite(str(suite)), chosen).for_agent("one", "", [])
    for words in seal.words.values():
        assert {
            ("--log-driver", "none"),
            ("--memory-swap", "64m"),
            ("--pull", "never"),
            ("--tmpfs", "/tmp"),
        } <= set(pairwise(words))


@pytest.mark.parametrize("isolation", ["copy", "podman"])
def test_acceptance_has_no_variable_of_an_agent_and_none_of_yours(
    tmp_path: Path, isolation: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    place: dict[str, Any] = {"env": {"EVERYBODYS": "4"}}
    if isolation == "podman":
        request.getfixturevalue(isolation)
        place["image"] = IMAGE
    monkeypatch.setenv("YOURS", "1")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/of-mine")
    tasks = [ONE[0] | {"acceptance_command": "env | cut -d = -f 1; env | grep -o /of-mine; true"}]
    agent = {"env": {"AGENTS": "2"}, **({"network": "none"} if isolation == "podman" else {})}
    more = {"workspace": place, "agent": agent, "arms": {"with": {"env": {"ARMS": "3"}}}}
    suite, out = suite_of(tmp_path, f"env; {SOLVE}", tasks=tasks, **more), tmp_path / "out"
    assert run(suite, out, "--isolation", isolation).code == 0
    attempt = out / "runs" / "with" / "one.1"
    assert {"AGENTS=2", "ARMS=3", "EVERYBODYS=4"} <= set(
        (attempt / "stdout.txt").read_text().split()
    )
    names = set((attempt / "acceptance.log").read_text().split())
    assert "EVERYBODYS" in names
    assert not names & {"AGENTS", "ARMS", "YOURS", "HINT", "TWOARM_USAGE"}
    assert ("/of-mine" in names) is (isolation == "copy")
    assert [record["success"] for record in records(out)] == [True, True]


def test_who_asks_for_no_network_gets_it_or_no_run(tmp_path: Path) -> None:
    """Nothing is in the open that was to be offline."""
    suite = suite_of(tmp_path, agent={"network": "none"})
    result = twoarm("run", str(suite), "--dry-run")
    assert result.code == 2
    assert "agent.network needs bubblewrap or a container, and " in result.err


def test_a_program_that_does_not_start_offline_does_not_start_at_all(
    tmp_path: Path, bubblewrap: str
) -> None:
    needed = tmp_path / "outside" / "needed"
    needed.parent.mkdir()
    needed.write_text("#!/bin/sh\n")
    needed.chmod(0o755)
    program = tmp_path / "suite" / "agent"
    suite = suite_of(tmp_path / "suite", agent={"argv": ["./agent"], "network": "none"})
    program.write_text(f"#!{needed}\n")
    program.chmod(0o755)
    result = twoarm("run", str(suite), "--dry-run")
    assert result.code == 2
    assert "which is not there inside" in result.err
