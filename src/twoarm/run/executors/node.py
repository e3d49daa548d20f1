"""What is done on a node of a cluster: its place, what travels there, and one attempt at a time."""

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec

from twoarm.files.safe import OpenFolder
from twoarm.programs.agent import Meter, load_agent
from twoarm.run.engine import Engine
from twoarm.run.executors.keeper import LOCK, Keeper, KeptAttempt, start_keeper
from twoarm.run.executors.parcel import Pieces, pack, unpack
from twoarm.run.job_maker import clear_engines
from twoarm.run.jobs import Job, JobOutcome
from twoarm.run.ledger import OUTCOME
from twoarm.run.place import MARK, is_token
from twoarm.run.prepare import Tree
from twoarm.run.sealing import Sealer
from twoarm.run.supervisor.isolation import RUN_LABEL
from twoarm.run.supervisor.processes import kill_marked, wake_supervisors

# In the place of a runner, which may be on a node itself: who it is. What it has made stays there.
DRIVER = "driver"
# What has arrived in a place, and who may unpack more.
_ARRIVED, _UNPACKING = "arrived", "unpacking"
# How long supervisors whose runner is gone have to clean up.
_PATIENCE_SECONDS = 20.0
# A keeper ends its supervisors this far past every limit that they enforce, or is ended itself.
_SLACK_SECONDS = 330.0
# What a node says of an attempt, in this order; of `REFUSED` and `PIECE` there may be any number.
BEGUN, REFUSED, PIECE, OVER = "begun", "refused", "piece", "ended"
# What is said of it here, as long as the next has not arrived.
WAITING = "waiting"


class NodeRun(msgspec.Struct, frozen=True, kw_only=True):
    """What all attempts of a run on any node have in common."""

    # Where the private folder of the run is, the same on every machine.
    root: str
    token: str
    # This runner, and no other one of the same run.
    driver: str
    sealer: Sealer
    env: dict[str, str]

    @property
    def path(self) -> str:
        """The private folder."""
        return os.path.join(self.root, self.token)


class Parcel(NamedTuple):
    """A file or folder below the private folder, and where its bytes are to be had."""

    path: str
    digest: str
    pieces: tuple[Any, ...]

    @property
    def mark(self) -> str:
        """What says that it has arrived."""
        return hashlib.sha256(f"{self.path}\0{self.digest}".encode()).hexdigest()


class Order(NamedTuple):
    """One attempt for a node; the secrets travel beside it."""

    attempt: str
    job: Job
    meter: Meter | None
    limit: float | None
    parcels: tuple[Parcel, ...]


class NodePlace:
    """The private folder of a run on a node; several workers may be at it at once."""

    def __init__(self, run: NodeRun) -> None:
        if not is_token(run.token):
            raise OSError(errno.EINVAL, "not a token", run.token)
        self.path = run.path
        self._run = run
        with OpenFolder(os.path.realpath(run.root)) as root:
            self.folder = root.made(run.token)
        with self._alone():
            if not self.folder.is_file(MARK):
                os.fchmod(self.folder.descriptor, 0o700)
                self.folder.write(MARK, run.token.encode())
        if self.folder.read(MARK) != run.token.encode():
            raise OSError(errno.EEXIST, "in use by something else", self.path)
        self.scratch = self.folder.made("t")
        self._arrived = self.folder.made(_ARRIVED)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        import fcntl

        lock = self.folder.open_own(_UNPACKING)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def is_the_drivers(self) -> bool:
        """Whether the runner has its own things here."""
        driver = self._run.driver.encode()
        return self.folder.is_file(DRIVER) and self.folder.read(DRIVER) == driver

    def note(self, parcel: Parcel) -> None:
        """Remember that a parcel does not have to come: it was made here."""
        self._arrived.write(parcel.mark, b"")

    def receive(self, parcel: Parcel, fetch: Callable[[Any], bytes]) -> None:
        """All of a parcel or nothing; beside what is there, and then in its place."""
        if self._arrived.is_file(parcel.mark):
            return
        with self._alone():
            # Another worker may have been first.
            if self._arrived.is_file(parcel.mark):
                return
            inner = os.path.relpath(parcel.path, self.path)
            above, name = self.folder.parent_of(inner, make=True)
            with above:
                new = f"{name}.{token_hex(4)}.new"
                pieces = Pieces(map(fetch, parcel.pieces))
                try:
                    unpack(pieces, above, new)
                    if pieces.digest() != parcel.digest:
                        raise OSError(errno.EBADMSG, "not what was sent", parcel.path)
                    above.remove(name)
                    above.rename(new, above, name)
                finally:
                    above.clear(new)
            self._arrived.write(parcel.mark, b"")

    def changed(self, trees: tuple[Tree, ...]) -> list[str] | None:
        """What is not as it came, of the trees that came here; None if none is here."""
        if self.is_the_drivers():
            # Whose own check sees it.
            return []
        here = [tree for tree in trees if os.path.lexists(tree.path)]
        told = [
            os.path.normpath(os.path.join(tree.path, path))
            for tree in here
            for path in tree.changed()
        ]
        return told if here else None

    def close(self) -> None:
        """Give the folders back."""
        for folder in (self._arrived, self.scratch, self.folder):
            folder.close()


class Worker:
    """A process of Ray on a node, as far as a run has to do with it."""

    def __init__(self, run: NodeRun) -> None:
        self.run = run
        self.place = NodePlace(run)
        self.sealer = sealer_here(run)
        self.keeper: Keeper | None = None

    def attempt(
        self, order: Order, secrets: dict[str, str], fetch: Callable[[Any], bytes]
    ) -> Iterator[tuple[str, Any]]:
        """One attempt, and then its folder, in pieces."""
        for parcel in order.parcels:
            self.place.receive(parcel, fetch)
        # What comes after this may cost money.
        yield BEGUN, None
        scratch, name = self.place.scratch, f"{os.path.basename(order.job.scratch)}.kept"
        with scratch.made(name) as folder:
            kept = folder.path
        try:
            job = self._here(order.job, kept, secrets)
            outcome: JobOutcome | None = None
            for what, value in self._kept(order, job):
                if what == OVER:
                    outcome = value
                else:
                    yield what, value
            assert outcome is not None
            if outcome.complete or outcome.died:
                for piece in pack(scratch, name, last=OUTCOME):
                    yield PIECE, piece
            yield OVER, outcome
        finally:
            scratch.clear(name)

    def _here(self, job: Job, folder: str, secrets: dict[str, str]) -> Job:
        """A job as it is on this machine, with its secrets."""
        agent = job.env["agent"]
        return msgspec.structs.replace(
            job,
            folder=folder,
            seal=self.sealer.for_agent(job.task, job.build, job.texts, job.arm),
            env={**job.env, "agent": agent | secrets},
            secrets=secrets,
        )

    def _kept(self, order: Order, job: Job) -> Iterator[tuple[str, Any]]:
        """What the keeper says of an attempt, to its end."""
        if self.keeper is None:
            # Those of a worker that was killed cannot see that while they are stopped.
            wake_supervisors(self.run.token)
            self.keeper = start_keeper(self.run.token)
        give_up = time.monotonic() + job.most_seconds + _SLACK_SECONDS
        with suppress(ConnectionError):
            self.keeper.talk.send(
                KeptAttempt(order.attempt, job, order.meter, order.limit, self.place.path)
            )
        while True:
            told, unanswered = self.keeper.answer(give_up)
            if told is None:
                break
            what, value = told
            if what == "failed":
                raise RuntimeError(value)
            yield what, value
            if what == OVER:
                return
        # Somebody has killed it, and its supervisors have ended with it.
        self.keeper.talk.close()
        self.keeper = None
        yield (
            OVER,
            JobOutcome(
                attempt=order.attempt,
                complete=False,
                cancelled=False,
                died=unanswered or not job.seal.words,
                reason="its supervisor stopped answering"
                if unanswered
                else "its supervisor was killed",
            ),
        )


_worker: Worker | None = None


def worker_of(run: NodeRun) -> Worker:
    """This process at work for a run; a process of Ray may have worked for another before."""
    global _worker
    if _worker is None or _worker.run.driver != run.driver:
        _worker = Worker(run)
    return _worker


def sealer_here(run: NodeRun) -> Sealer:
    """What makes the seals of a run, on this machine."""
    sealer = run.sealer
    tool = sealer.tool and (shutil.which(os.path.basename(sealer.tool)) or sealer.tool)
    home = os.path.realpath(os.path.expanduser("~"))
    kept_back = (home, *sealer.kept_back[1:])
    return msgspec.structs.replace(sealer, tool=tool, kept_back=kept_back)


def sweep(run: NodeRun) -> None:
    """Leave nobody and nothing of a run on this node; what the runner has made here is its own."""
    place = NodePlace(run)
    try:
        # Whoever is stopped does not see that its worker or its runner is gone.
        wake_supervisors(run.token)
        _wait_for_supervisors(place, run.token)
        # First those who might still start a container.
        kill_marked(run.token)
        checked = run.sealer.checked
        if run.sealer.contained:
            sealer = sealer_here(run)
            Engine(name=sealer.isolation, path=sealer.tool).clear(f"{RUN_LABEL}={run.token}")
        clear_engines(checked, load_agent(checked.agent), run.env, checked.tasks[0], run.token)
        for name in place.scratch.names():
            place.scratch.clear(name)
        if not place.is_the_drivers():
            with OpenFolder(os.path.realpath(run.root)) as root:
                root.clear(run.token)
    finally:
        place.close()


def _wait_for_supervisors(place: NodePlace, token: str) -> None:
    import fcntl

    lock = place.folder.open_own(LOCK)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                wake_supervisors(token)
                time.sleep(0.02)
    finally:
        os.close(lock)
