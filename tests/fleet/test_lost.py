"""Nodes and runners that are killed while trials run: nothing twice, nothing lost, nobody left."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.test_runs import ON, lines_of
from tests.support.clusters import TestCluster
from tests.support.suite_files import suite_of, wait_for

# A length of time that nobody else sleeps for.
NAP = ("sleep", "4.0321")
TASKS = [
    {"id": name, "prompt": "Do it.", "acceptance_command": "test -f answer.txt"} for name in "abcd"
]


def napping(folder: Path) -> str:
    return str(suite_of(folder, f"{' '.join(NAP)}; echo x > answer.txt", tasks=TASKS))


def done_once(out: Path, trials: int = 8) -> list[dict[str, Any]]:
    """The attempts that gave no run, where every trial has one."""
    lines = lines_of(out)
    runs = [line for line in lines if line.get("failure") != "interrupted"]
    assert len({(line["task_id"], line["arm"], line["repeat"]) for line in runs}) == trials
    assert len(runs) == trials
    assert all(line["success"] for line in runs)
    lost: list[dict[str, Any]] = json.loads((out / "receipt.json").read_bytes())[
        "attempts_without_run"
    ]
    return lost


@pytest.mark.parametrize("how", ["kill", "kill_raylet"])
def test_a_node_is_killed(cluster: TestCluster, out: Path, how: str) -> None:
    """Nobody is left there, and its trials are run again on the other."""
    words = ("run", napping(out.parent / "s"), *ON, "--repeats", "1", "--out", str(out))
    runner = cluster.start(*words)
    wait_for(lambda: len(cluster.processes(*NAP)) == 4, 60)
    there = cluster.namespace("n2")
    agents = [
        each for each in cluster.processes(*NAP) if os.readlink(f"/proc/{each}/ns/mnt") == there
    ]
    assert len(agents) == 2
    getattr(cluster, how)("n2")
    wait_for(lambda: not any(os.path.exists(f"/proc/{each}") for each in agents), 30)
    _, told = runner.communicate(timeout=120)
    assert "8 of 8 trials done" in told
    assert "in a row" not in told
    lost = done_once(out)
    assert [each["node"] for each in lost] == ["n2", "n2"]
    assert {each["state"] for each in lost} == {"lost"}
    cluster.clear("n2")
    cluster.add("n2", cpus=2)


def test_a_runner_is_killed_and_another_goes_on(cluster: TestCluster, out: Path) -> None:
    words = ("run", napping(out.parent / "s"), *ON, "--repeats", "1", "--out", str(out))
    runner = cluster.start(*words)
    wait_for(lambda: len(cluster.processes(*NAP)) == 4, 60)
    os.kill(cluster.runner_of(out), signal.SIGKILL)
    wait_for(lambda: not cluster.processes(*NAP), 30)
    runner.communicate(timeout=30)
    again = cluster.run("run", "--resume", str(out), "--no-evidence", "--display", "lines")
    assert "8 of 8 trials done" in again.stderr
    assert {each["state"] for each in done_once(out)} == {"interrupted"}
    for name in ("n1", "n2"):
        assert list(cluster.cache_of(name).iterdir()) == []


def test_the_second_interrupt_ends_everything_at_once(cluster: TestCluster, out: Path) -> None:
    words = ("run", napping(out.parent / "s"), *ON, "--repeats", "1", "--out", str(out))
    runner = cluster.start(*words)
    wait_for(lambda: len(cluster.processes(*NAP)) == 4, 60)
    for _ in range(2):
        os.kill(cluster.runner_of(out), signal.SIGINT)
        # Two at once are one.
        wait_for(lambda: b"stop_request" in (out / "journal.jsonl").read_bytes())
    wait_for(lambda: not cluster.processes(*NAP), 30)
    _, told = runner.communicate(timeout=60)
    assert runner.returncode == 130, told
    assert list(cluster.cache_of("n1").iterdir()) == []


def test_the_first_interrupt_lets_trials_finish(cluster: TestCluster, out: Path) -> None:
    words = ("run", napping(out.parent / "s"), *ON, "--repeats", "1", "--out", str(out))
    runner = cluster.start(*words)
    wait_for(lambda: len(cluster.processes(*NAP)) == 4, 60)
    os.kill(cluster.runner_of(out), signal.SIGINT)
    _, told = runner.communicate(timeout=60)
    assert "stopped; continue with" in told
    assert sum(line["success"] for line in lines_of(out)) == 4
