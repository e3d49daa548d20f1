"""Attempts on nodes: what travels, what comes back, and what becomes of what is lost."""

import hashlib
import os
import pickle
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.nearby import SOLVED, NearbyRun, ended, job_in
from tests.support.suite_files import processes_with, suite_of, wait_for
from twoarm.files.safe import OpenFolder
from twoarm.programs.format import Refusal
from twoarm.run.executors import node
from twoarm.run.executors.cluster import LostError
from twoarm.run.executors.keeper import KeptAttempt, start_keeper
from twoarm.run.executors.node import (
    BEGUN,
    OVER,
    PIECE,
    REFUSED,
    NodePlace,
    Parcel,
    Worker,
    sweep,
)
from twoarm.run.executors.parcel import digesting, pack
from twoarm.run.jobs import Job, JobOutcome
from twoarm.run.ledger import OUTCOME, read_outcome
from twoarm.run.place import MARK, new_token
from twoarm.run.prepare import Tree


@pytest.fixture
def near(tmp_path: Path) -> Iterator[NearbyRun]:
    made = NearbyRun(tmp_path, suite_of(tmp_path / "s"), ["n1", "n1", "n2"])
    yield made
    made.close()


def test_an_attempt_comes_back_as_it_was(near: NearbyRun, tmp_path: Path) -> None:
    key = "sk-secret-canary"
    job = job_in(near, tmp_path, SOLVED, secrets={"KEY": key})
    job = msgspec.structs.replace(job, env={**job.env, "agent": {**job.env["agent"], "KEY": key}})
    near.executor.submit("it", job, None, None, 1)
    outcome = ended(near)
    assert (outcome.complete, outcome.begun, outcome.lost_node) == (True, True, "")
    with OpenFolder(job.folder) as folder:
        facts = read_outcome(folder)
        assert (facts["acceptance_exit_code"], facts["ended_by"]) == (0, "exit")
        for name, size in facts["files"].items():
            assert folder.size(name) == size
    assert "told [secret KEY]" in Path(job.folder, "stdout.txt").read_text()
    assert near.place.scratch.names() == []


def test_secrets_are_beside_the_order_and_in_nothing_that_is_kept(
    near: NearbyRun, tmp_path: Path
) -> None:
    key = "sk-secret-canary"
    job = job_in(near, tmp_path, SOLVED, secrets={"KEY": key})
    job = msgspec.structs.replace(job, env={**job.env, "agent": {**job.env["agent"], "KEY": key}})
    near.executor.submit("it", job, None, None, 0)
    ((_, order, secrets),) = near.cluster.orders
    assert secrets == {"KEY": key}
    assert key.encode() not in pickle.dumps(order)
    assert not [piece for piece in near.cluster.puts if key.encode() in piece]
    assert ended(near).complete


def test_what_an_order_needs_is_put_once(near: NearbyRun, tmp_path: Path) -> None:
    """Two trees with the same content as well."""
    for number in range(3):
        near.executor.submit(f"it{number}", job_in(near, tmp_path, SOLVED), None, None, number)
        assert ended(near).complete
    puts = len(near.cluster.puts)
    assert puts == 2  # the tree and its manifest
    parcels = [order.parcels for _, order, _ in near.cluster.orders]
    assert parcels[0] == parcels[1] == parcels[2]
    # On the machine of the runner all of it is there already.
    assert not near.cluster.fetched


def test_a_file_of_home_travels_wherever_it_is(near: NearbyRun, tmp_path: Path) -> None:
    login = tmp_path / "login.json"
    login.write_text("logged in")
    script = 'cp "$HOME/.login" answer.txt && cat answer.txt'
    job = job_in(near, tmp_path, script, home_files={".login": str(login)})
    near.executor.submit("it", job, None, None)
    ((_, order, _),) = near.cluster.orders
    (path,) = order.job.home_files.values()
    assert path.startswith(f"{near.place.path}/files/")
    login.unlink()
    assert ended(near).complete
    assert Path(job.folder, "stdout.txt").read_text() == "logged in"


# Receiving.


def parcel_of(near: NearbyRun, path: Path, target: str) -> tuple[Parcel, list[bytes]]:
    with OpenFolder(str(path.parent)) as above:
        digest, pieces = digesting(pack(above, path.name), bytes)
    return Parcel(path=target, digest=digest, pieces=tuple(range(len(pieces)))), list(pieces)


@pytest.fixture
def far(near: NearbyRun, tmp_path: Path) -> Iterator[NodePlace]:
    """The place of the same run on another machine."""
    (tmp_path / "far").mkdir()
    place = NodePlace(msgspec.structs.replace(near.run, root=str(tmp_path / "far")))
    yield place
    place.close()


def test_a_parcel_arrives_once(near: NearbyRun, far: NodePlace, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("x")
    parcel, pieces = parcel_of(near, tmp_path / "tree", f"{far.path}/trees/tree0")
    asked: list[int] = []

    def fetch(number: int) -> bytes:
        asked.append(number)
        return pieces[number]

    far.receive(parcel, fetch)
    far.receive(parcel, fetch)
    assert asked == [0]
    assert Path(parcel.path, "file").read_text() == "x"
    # Killed before it was noted: nobody knows whether it is whole.
    for name in far.folder.enter("arrived").names():
        os.unlink(f"{far.path}/arrived/{name}")
    Path(parcel.path, "file").write_text("changed")
    far.receive(parcel, fetch)
    assert Path(parcel.path, "file").read_text() == "x"
    assert sorted(os.listdir(f"{far.path}/trees")) == ["tree0"]


def test_what_is_not_what_was_sent_does_not_arrive(
    near: NearbyRun, far: NodePlace, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    parcel, pieces = parcel_of(near, tmp_path / "file", f"{far.path}/files/x")
    other = parcel._replace(digest=hashlib.sha256(b"other").hexdigest())
    with pytest.raises(OSError, match="not what was sent"):
        far.receive(other, lambda number: pieces[number])
    assert os.listdir(f"{far.path}/files") == []


@pytest.mark.parametrize("target", ["/etc/x", "{0}/../elsewhere", "{0}"])
def test_a_parcel_stays_in_the_place(
    near: NearbyRun, far: NodePlace, tmp_path: Path, target: str
) -> None:
    (tmp_path / "file").write_text("x")
    parcel, pieces = parcel_of(near, tmp_path / "file", target.format(far.path))
    with pytest.raises(OSError, match="not a plain relative path"):
        far.receive(parcel, lambda number: pieces[number])


def test_a_parcel_follows_no_link(near: NearbyRun, far: NodePlace, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    Path(far.path, "trees").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("x")
    parcel, pieces = parcel_of(near, tmp_path / "file", f"{far.path}/trees/x")
    with pytest.raises(OSError, match="a link, which is not followed"):
        far.receive(parcel, lambda number: pieces[number])
    assert list((tmp_path / "real").iterdir()) == []


def test_a_folder_of_somebody_else_is_not_taken(near: NearbyRun, tmp_path: Path) -> None:
    token = new_token()
    theirs = tmp_path / "far" / token
    theirs.mkdir(parents=True)
    (theirs / MARK).write_text("another")
    run = msgspec.structs.replace(near.run, root=str(tmp_path / "far"), token=token)
    with pytest.raises(OSError, match="in use by something else"):
        NodePlace(run)
    for wrong in ("../x", "", "0123"):
        with pytest.raises(OSError, match="not a token"):
            NodePlace(msgspec.structs.replace(run, token=wrong))


def test_trees_that_came_are_compared_with_what_they_were(
    near: NearbyRun, far: NodePlace, tmp_path: Path
) -> None:
    job = job_in(near, tmp_path, SOLVED)
    trees = []
    for path in (job.tree, job.manifest):
        target = f"{far.path}/trees/{os.path.basename(path)}"
        parcel, pieces = parcel_of(near, Path(path), target)
        far.receive(parcel, pieces.__getitem__)
        trees.append(target)
    tree = Tree(path=trees[0], manifest=trees[1])
    absent = Tree(path=f"{far.path}/trees/other", manifest="")
    assert far.changed((absent,)) is None
    assert far.changed((tree, absent)) == []
    Path(tree.path, "tests", "check.sh").write_text("true\n")
    assert far.changed((tree, absent)) == [f"{tree.path}/tests/check.sh"]
    # The runner's own are looked at by the runner.
    here = NodePlace(near.run)
    Path(job.tree, "tests", "check.sh").write_text("true\n")
    assert here.changed((Tree(path=job.tree, manifest=job.manifest),)) == []
    here.close()


def test_changes_are_told_with_their_node(near: NearbyRun) -> None:
    near.cluster.changes = {"n2": ["/x/tree0/a"]}
    assert near.executor.changed([]) == ["/x/tree0/a on node n2"]
    assert near.executor.looked_at == {"n1", "n2"}
    near.cluster.gone = {"n1"}
    assert near.executor.changed([]) == ["/x/tree0/a on node n2"]
    assert near.executor.looked_at == {"n2"}
    near.cluster.changes = {"n2": None}
    assert near.executor.changed([]) == []
    assert near.executor.looked_at == set()


# Lost.


def test_a_lost_node_takes_its_slots_with_it(near: NearbyRun, tmp_path: Path) -> None:
    assert [near.executor.node_of(slot) for slot in range(3)] == ["n1", "n1", "n2"]
    lost = LostError("node n1 was lost", node_gone=True)
    near.cluster.told = {"begun": [(BEGUN, None), lost], "waiting": [lost]}
    for slot, name in enumerate(near.cluster.told):
        near.executor.submit(name, job_in(near, tmp_path, SOLVED), None, None, slot)
    outcomes: dict[str, JobOutcome] = {}
    while len(outcomes) < 2:
        outcomes |= {outcome.attempt: outcome for outcome in near.executor.completed(1)}
    assert {name: outcome.begun for name, outcome in outcomes.items()} == {
        "begun": True,
        "waiting": False,
    }
    assert {outcome.lost_node for outcome in outcomes.values()} == {"n1"}
    assert not any(outcome.complete or outcome.died for outcome in outcomes.values())
    assert [near.executor.is_there(slot) for slot in range(3)] == [False, False, True]


def test_a_lost_worker_leaves_its_node(near: NearbyRun, tmp_path: Path) -> None:
    lost = LostError("node n1: its worker was killed", node_gone=False)
    near.cluster.told = {"it": [(BEGUN, None), lost]}
    near.executor.submit("it", job_in(near, tmp_path, SOLVED), None, None)
    outcome = ended(near)
    assert (outcome.lost_node, outcome.reason) == ("", "node n1: its worker was killed")
    assert near.executor.is_there(0)


def test_what_was_cancelled_is_not_lost(near: NearbyRun, tmp_path: Path) -> None:
    near.cluster.told = {"it": [(BEGUN, None), LostError("killed", node_gone=False)]}
    near.executor.submit("it", job_in(near, tmp_path, SOLVED), None, None)
    near.executor.cancel("it")
    assert near.cluster.orders
    outcome = ended(near)
    assert (outcome.cancelled, outcome.reason) == (True, "killed before it ended")


@pytest.mark.parametrize("told", [[(BEGUN, None)], [(BEGUN, None), (PIECE, b"half")]])
def test_half_an_outcome_is_none(near: NearbyRun, tmp_path: Path, told: list[Any]) -> None:
    done = JobOutcome(attempt="it", complete=True, cancelled=False, died=False, reason="")
    damaged = [*told, (OVER, done)] if len(told) > 1 else told
    near.cluster.told = {"it": damaged}
    job = job_in(near, tmp_path, SOLVED)
    near.executor.submit("it", job, None, None)
    outcome = ended(near)
    assert not outcome.complete
    assert outcome.reason.startswith(("its node told no outcome", "a damaged parcel: "))
    assert not Path(job.folder, OUTCOME).exists()


class Watching:
    """A meter that tells of a refusal."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.refusal = refusal

    def spent(self) -> float | None:
        return None

    def refused(self) -> Refusal | None:
        return self.refusal


def test_a_refusal_is_heard_from_afar(near: NearbyRun, tmp_path: Path) -> None:
    refusal = Refusal(message="no such key", status=401)
    near.cluster.told = {"it": [(BEGUN, None), (REFUSED, refusal), LostError("x", node_gone=False)]}
    watch = near.executor.submit("it", job_in(near, tmp_path, SOLVED), Watching(), None)
    assert watch is not None
    assert watch.refused() is None
    list(near.executor.completed(0))
    list(near.executor.completed(0))
    assert watch.refused() == refusal


def test_a_meter_works_where_its_agent_does(near: NearbyRun, tmp_path: Path) -> None:
    refusal = Refusal(message="no such key", status=401)
    job = job_in(near, tmp_path, "sleep 0.5")
    worker = Worker(near.run)
    order = node.Order("it", job, Watching(refusal), None, ())
    told = [what for what, _ in worker.attempt(order, {}, lambda _: b"")]
    assert told == [BEGUN, REFUSED, PIECE, OVER]


def test_a_dear_agent_is_stopped_there(near: NearbyRun, tmp_path: Path) -> None:
    job = job_in(near, tmp_path, "echo 9 > spent; sleep 20")
    near.executor.submit("it", job, Dear(f"{job.scratch}/box/work/spent"), 1.0)
    assert ended(near).complete
    with OpenFolder(job.folder) as folder:
        assert read_outcome(folder)["ended_by"] == "budget"


class Dear:
    """A meter that reads what its agent writes."""

    def __init__(self, path: str) -> None:
        self._path = path

    def spent(self) -> float | None:
        try:
            with open(self._path) as file:
                return float(file.read() or 0)
        except OSError:
            return None


# The keeper.


def keeper_of(job: Job) -> str:
    """The parent of the supervisor of an attempt."""
    (supervisor,) = (
        line.split(":")[0] for line in processes_with(f"TWOARM_SUPERVISOR={job.marker}")
    )
    return parent_and_session(supervisor)[0]


def parent_and_session(process: str) -> tuple[str, str]:
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        parent, _, session = file.read().rpartition(")")[2].split()[1:4]
    return parent, session


def test_a_keeper_ends_with_its_worker_and_its_agents_with_it(
    near: NearbyRun, tmp_path: Path
) -> None:
    """It is no child of ours, and in no session of ours."""
    job = job_in(near, tmp_path, "echo begun > started; sleep 100")
    kept = start_keeper(near.run.token)
    kept.talk.send(KeptAttempt("it", job, None, None, near.run.path))
    wait_for(lambda: os.path.exists(f"{job.scratch}/box/work/started"))
    keeper = keeper_of(job)
    assert keeper == str(kept.pid)
    parent, session = parent_and_session(keeper)
    assert parent != str(os.getpid())
    assert session != str(os.getsid(0))
    kept.talk.close()
    wait_for(lambda: not processes_with(job.marker))
    wait_for(lambda: not os.path.exists(f"/proc/{keeper}"))
    assert not os.path.exists(job.scratch)


def test_a_keeper_that_is_killed_is_replaced(near: NearbyRun, tmp_path: Path) -> None:
    """Its agents end with it; in the open one of them may have done that."""
    worker = Worker(near.run)
    job = job_in(near, tmp_path, "echo begun > started; sleep 100")

    def kill() -> None:
        wait_for(lambda: os.path.exists(f"{job.scratch}/box/work/started"))
        os.kill(int(keeper_of(job)), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    attempt = worker.attempt(node.Order("it", job, None, None, ()), {}, lambda _: b"")
    told = dict(attempt)
    killer.join()
    assert (told[OVER].complete, told[OVER].died) == (False, True)
    wait_for(lambda: not processes_with(job.marker))
    again = job_in(near, tmp_path, SOLVED)
    told = dict(worker.attempt(node.Order("it", again, None, None, ()), {}, lambda _: b""))
    assert told[OVER].complete


def test_what_a_keeper_cannot_do_is_told(near: NearbyRun, tmp_path: Path) -> None:
    worker = Worker(near.run)
    job = msgspec.structs.replace(job_in(near, tmp_path, SOLVED), scratch="/nowhere/at/all")
    with pytest.raises(RuntimeError, match="FileNotFoundError"):
        list(worker.attempt(node.Order("it", job, None, None, ()), {}, lambda _: b""))


# Sweeping.


def test_nothing_and_nobody_is_left_on_a_node(near: NearbyRun, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    run = msgspec.structs.replace(near.run, root=str(tmp_path / "far"))
    NodePlace(run).close()
    env = {**os.environ, "TWOARM_TRIAL": f"{run.token}-12345678"}
    with subprocess.Popen(["sleep", "100"], env=env) as left:
        wait_for(lambda: processes_with(f"{run.token}-12345678"))
        sweep(run)
        assert left.wait(10) == -9
    assert os.listdir(tmp_path / "far") == []


def test_on_its_own_machine_the_runner_keeps_its_things(near: NearbyRun, tmp_path: Path) -> None:
    job = job_in(near, tmp_path, SOLVED)
    (Path(near.place.scratch.path) / "left").mkdir()
    sweep(near.run)
    assert os.path.isdir(job.tree)
    assert near.place.scratch.names() == []


def test_at_the_end_every_node_is_swept(tmp_path: Path) -> None:
    near = NearbyRun(tmp_path, suite_of(tmp_path / "s"), ["n2", "n1", "n2"])
    near.close()
    assert near.cluster.swept == ["n1", "n2"]
    assert near.cluster.closed
