"""What is stopped on a node, or silent, is woken or killed, and the run goes on."""

import json
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.run.test_fleet import Cluster
from tests.support.nearby import SOLVED, NearbyRun, ended, job_in
from tests.support.suite_files import processes_with, suite_of, wait_for
from twoarm.run import fleet
from twoarm.run.executors import node, ray
from twoarm.run.executors.cluster import ClusterNode, LostError
from twoarm.run.executors.keeper import start_keeper
from twoarm.run.executors.node import BEGUN, OVER, WAITING, Worker, sweep
from twoarm.run.executors.reach import Head


@pytest.fixture
def near(tmp_path: Path) -> Iterator[NearbyRun]:
    made = NearbyRun(tmp_path, suite_of(tmp_path / "s"))
    yield made
    made.close()


# On the node.


def test_a_keeper_that_is_stopped_is_woken(near: NearbyRun, tmp_path: Path) -> None:
    """In the open an agent can do that."""
    worker = Worker(near.run)
    script = 'read -r _ _ _ parent _ < "/proc/$PPID/stat"; kill -STOP "$parent"'
    job = job_in(near, tmp_path, f"{script}; {SOLVED}")
    told = dict(worker.attempt(node.Order("it", job, None, None, ()), {}, lambda _: b""))
    assert told[OVER].complete


def test_a_keeper_that_does_not_answer_is_killed(
    near: NearbyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "_SLACK_SECONDS", -1e6)
    worker = Worker(near.run)
    job = job_in(near, tmp_path, "sleep 100")
    told = dict(worker.attempt(node.Order("it", job, None, None, ()), {}, lambda _: b""))
    outcome = told[OVER]
    assert (outcome.complete, outcome.died) == (False, True)
    assert outcome.reason == "its supervisor stopped answering"
    wait_for(lambda: not processes_with(job.marker))


def stopped_keeper(near: NearbyRun) -> int:
    """One that is stopped when its worker ends, and so cannot see that."""
    kept = start_keeper(near.run.token)
    os.kill(kept.pid, signal.SIGSTOP)
    wait_for(lambda: state_of(kept.pid) == "T")
    kept.talk.close()
    return kept.pid


def state_of(process: int) -> str:
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_whoever_is_stopped_without_a_worker_is_woken_by_the_next(
    near: NearbyRun, tmp_path: Path
) -> None:
    keeper = stopped_keeper(near)
    order = node.Order("it", job_in(near, tmp_path, SOLVED), None, None, ())
    assert dict(Worker(near.run).attempt(order, {}, lambda _: b""))[OVER].complete
    wait_for(lambda: not os.path.exists(f"/proc/{keeper}"))


def test_whoever_is_stopped_is_woken_at_the_end(near: NearbyRun) -> None:
    keeper = stopped_keeper(near)
    sweep(near.run)
    wait_for(lambda: not os.path.exists(f"/proc/{keeper}"))


# Here.


def silent() -> Iterator[Any]:
    """An attempt that begins and never tells anything else."""
    yield BEGUN, None
    yield from repeat((WAITING, None))


def test_what_does_not_end_is_killed(
    near: NearbyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on one machine: an agent may have brought that about."""
    monkeypatch.setattr(ray, "_SLACK_SECONDS", -1e6)
    near.cluster.told = {"it": silent()}
    near.executor.submit("it", job_in(near, tmp_path, SOLVED), None, None)
    assert list(near.executor.completed(0)) == []
    outcome = ended(near)
    assert (outcome.died, outcome.begun, outcome.lost_node) == (True, True, "")
    assert outcome.reason == "node n1: its worker stopped answering"
    assert near.executor.is_there(0)


@pytest.mark.parametrize("cancelled", [True, False])
def test_what_cannot_be_killed_has_lost_its_node(
    near: NearbyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    monkeypatch.setattr(ray, "_PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr(ray, "_SLACK_SECONDS", 1e6 if cancelled else -1e6)
    monkeypatch.setattr(near.cluster, "cancel", lambda handle: None)
    near.cluster.told = {"it": silent()}
    near.executor.submit("it", job_in(near, tmp_path, SOLVED), None, None)
    assert list(near.executor.completed(0)) == []
    if cancelled:
        near.executor.cancel("it")
    else:
        assert list(near.executor.completed(0)) == []
    outcome = ended(near)
    assert (outcome.cancelled, outcome.died, outcome.lost_node) == (cancelled, False, "n1")
    expected = "killed before it ended" if cancelled else "node n1 no longer answers"
    assert outcome.reason == expected
    assert not near.executor.is_there(0)


def test_whoever_waits_for_a_cpu_may_wait(
    near: NearbyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "_SLACK_SECONDS", -1e6)
    near.cluster.told = {"it": repeat((WAITING, None), 20)}
    near.executor.submit("it", job_in(near, tmp_path, SOLVED), None, None)
    assert ended(near).reason == "its node told no outcome"


def test_what_nobody_hears_any_more_is_ended(
    near: NearbyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled: list[Any] = []
    monkeypatch.setattr(near.cluster, "cancel", cancelled.append)
    near.cluster.told = {"it": [(BEGUN, None), LostError("nothing arrives", node_gone=False)]}
    near.executor.submit("it", job_in(near, tmp_path, SOLVED), None, None)
    assert ended(near).reason == "nothing arrives"
    assert cancelled


def test_a_node_that_could_not_be_cleaned_up_is_told(near: NearbyRun) -> None:
    near.cluster.unswept = {"n1": LostError("node n1: no answer", node_gone=False)}
    near.executor.close()
    (told,) = near.executor.unswept
    assert told == (
        f"node n1 could not be cleaned up: no answer; what the run left there in {near.place.path} "
        "stays"
    )


class Unswept(Cluster):
    """Something stays on a node."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.unswept = {"n2": LostError("no answer after 120 s", node_gone=False)}


def test_a_dry_run_tells_of_it_as_well(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "Cluster", Unswept)
    done = twoarm("run", str(suite_of(tmp_path / "s")), "--executor", "ray", "--dry-run")
    assert done.code == 0
    assert "warning: node n2 could not be cleaned up: no answer after 120 s; what" in done.out


# The head.


class Headless(Cluster):
    """The head is lost once some attempts have been started."""

    def lost(self) -> str:
        return "the head is gone" if len(self.orders) == 3 else ""

    def sweep(self, nodes: Sequence[ClusterNode]) -> Iterator[LostError | None]:
        assert not nodes
        return iter(())


def test_a_run_without_a_head_stops_and_goes_on(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "Cluster", Headless)
    out = tmp_path / "out"
    more = ("--no-evidence", "--display", "lines")
    suite = str(suite_of(tmp_path / "s"))
    done = twoarm("run", suite, "--executor", "ray", "--out", str(out), "--repeats", "3", *more)
    assert done.code == 2
    assert done.err.splitlines()[-2:] == [
        "twoarm: the head is gone, and 3 attempts were cut short; start the cluster again, or go "
        "on here with --executor local",
        f"twoarm: nothing is lost; continue with twoarm run --resume {out} --no-evidence",
    ]
    lost = json.loads((out / "receipt.json").read_bytes())["attempts_without_run"]
    assert [each["state"] for each in lost] == ["lost"] * 3
    again = twoarm("run", "--resume", str(out), "--executor", "local", *more)
    assert "12 of 12 trials done" in again.err


def test_a_head_is_silent_from_the_first_time_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        head = Head(f"127.0.0.1:{port}")
        assert head.silence() == 0
    now = 102.0
    assert head.silence() == 0
    now = 140.0
    assert head.silence() == 38
    with socket.create_server(("127.0.0.1", port)):
        now = 150.0
        assert head.silence() == 0
