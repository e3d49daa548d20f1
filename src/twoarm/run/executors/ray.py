"""Machines of a Ray cluster: attempts on its nodes, and what has to travel there and back."""

import errno
import math
import os
import time
from collections.abc import Iterator, Sequence
from secrets import token_hex
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from msgspec.structs import replace

from twoarm.files.safe import OpenFolder
from twoarm.programs.agent import Meter, Watch
from twoarm.programs.format import Refusal
from twoarm.run.executors.cluster import Cluster, ClusterNode, LostError
from twoarm.run.executors.node import (
    BEGUN,
    DRIVER,
    OVER,
    PIECE,
    REFUSED,
    NodePlace,
    NodeRun,
    Order,
    Parcel,
)
from twoarm.run.executors.parcel import digesting, pack, unpack
from twoarm.run.jobs import Job, JobOutcome
from twoarm.run.loop import StoppedError
from twoarm.run.place import Place
from twoarm.run.prepare import Tree
from twoarm.run.sealing import Sealer
from twoarm.run.shown import lies
from twoarm.text.escape import counted, visible

# What comes back is on the disk if it is more than this.
_HELD_BYTES = 2**20
# How long attempts that were killed may take to be gone.
_PATIENCE_SECONDS = 30.0
# An attempt is killed this far past every limit that is enforced where it runs.
_SLACK_SECONDS = 400.0


class _FarWatch:
    """What a meter on a node has told last."""

    def __init__(self) -> None:
        self.told: Refusal | None = None

    def spent(self) -> float | None:
        """The node sees to that."""
        return None

    def refused(self) -> Refusal | None:
        """What the provider says there."""
        return self.told


class _Running:
    """One attempt on a node."""

    def __init__(self, attempt: str, job: Job, node: ClusterNode, handle: Any, spool: str) -> None:
        self.attempt = attempt
        self.job = job
        self.node = node
        self.handle = handle
        self.watch = _FarWatch()
        self.begun = False
        self.cancelled = False
        # When it is killed, or given up if it was; whoever waits for CPUs may wait.
        self.give_up = math.inf
        self.unanswered = False
        # Without a name, so that nobody finds it.
        self.folder: IO[bytes] = SpooledTemporaryFile(  # noqa: SIM115
            max_size=_HELD_BYTES, dir=spool
        )


class Ray:
    """Attempts on the nodes of a cluster, in slots that stay where they are."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: Sequence[ClusterNode],
        place: Place,
        run: NodeRun,
        cpus: float,
    ) -> None:
        # The node of each slot; a node may have several.
        self._nodes = tuple(nodes)
        self._cluster = cluster
        self._place = place
        self._cpus = cpus
        self._run = run
        # What travels with every attempt.
        self.always: tuple[str, ...] = ()
        self._here = NodePlace(run)
        self._parcels: dict[str, Parcel] = {}
        self._pieces: dict[str, tuple[Any, ...]] = {}
        self._running: dict[str, _Running] = {}
        # Ray takes a while to see that a node is gone; what was lost there tells at once.
        self._gone: set[str] = set()
        # The nodes whose trees were compared last time.
        self.looked_at: set[str] = set()
        # Why nodes have something left of the run, once it is closed.
        self.unswept: list[str] = []
        cluster.share(run)

    @property
    def slots(self) -> int:
        """How many trials run at a time."""
        return len(self._nodes)

    def node_of(self, slot: int) -> str | None:
        """What the node of a slot is called."""
        return self._nodes[slot].name

    def is_there(self, slot: int) -> bool:
        """Whether the node of a slot has not been lost."""
        return self._nodes[slot].name not in self._gone

    def seal(self, sealer: Sealer) -> None:
        """Attempts run in this from now on."""
        self._run = replace(self._run, sealer=sealer)
        self._cluster.share(self._run)

    # Attempts.

    def submit(
        self, attempt: str, job: Job, meter: Meter | None, limit: float | None, slot: int = 0
    ) -> Watch | None:
        """Start an attempt on the node of its slot, with what it needs and has not got there."""
        paths = [path for path in (job.tree, job.manifest, job.build, *self.always) if path]
        parcels = {path: self._parcel(path) for path in dict.fromkeys(paths)}
        # A file of HOME may be anywhere here, and comes from the private folder there.
        home = dict(job.home_files)
        for name, path in job.home_files.items():
            if not any(lies(path, above) for above in self.always):
                parcel = self._parcel(path, beside="files")
                home[name], parcels[path] = parcel.path, parcel
        env = {**job.env, "agent": {**job.env["agent"]}}
        for name in job.secrets:
            env["agent"].pop(name, None)
        order = Order(
            attempt=attempt,
            job=replace(job, home_files=home, env=env, secrets={}),
            meter=meter,
            limit=limit,
            parcels=tuple(parcels.values()),
        )
        node = self._nodes[slot]
        handle = self._cluster.start(node, self._cpus, order, job.secrets)
        running = _Running(attempt, job, node, handle, self._place.scratch.path)
        self._running[attempt] = running
        return running.watch if isinstance(meter, Watch) else None

    def _parcel(self, path: str, beside: str = "") -> Parcel:
        """A file or folder, put where every node can have it, once."""
        if path not in self._parcels:
            above, name = os.path.split(path)
            with OpenFolder(os.path.realpath(above)) as folder:
                digest, pieces = digesting(pack(folder, name), self._cluster.put)
            # The same content is there once, whatever its name.
            pieces = self._pieces.setdefault(digest, pieces)
            target = os.path.join(self._place.path, beside, digest) if beside else path
            self._parcels[path] = Parcel(path=target, digest=digest, pieces=pieces)
            if target == path:
                # This machine may be a node as well.
                self._here.note(self._parcels[path])
        return self._parcels[path]

    def cancel(self, attempt: str) -> None:
        """Kill the worker; what runs there ends with it."""
        running = self._running[attempt]
        running.cancelled = True
        self._end(running)

    def _end(self, running: _Running) -> None:
        running.give_up = time.monotonic() + _PATIENCE_SECONDS
        self._cluster.cancel(running.handle)

    def _watch(self) -> Iterator[JobOutcome]:
        """Kill attempts that do not end; those that do not end even so have lost their node."""
        now = time.monotonic()
        for running in [each for each in self._running.values() if now > each.give_up]:
            if running.cancelled or running.unanswered:
                reason = f"node {visible(running.node.name)} no longer answers"
                yield self._no_answer(running, reason, node_gone=True)
            else:
                running.unanswered = True
                self._end(running)

    def completed(self, seconds: float) -> Iterator[JobOutcome]:
        """Attempts that have ended, with their folders."""
        if why := self._cluster.lost():
            yield from self._all_lost(why)
        yield from self._ended_within(seconds)

    def _all_lost(self, why: str) -> Iterator[JobOutcome]:
        """Nothing can be done anymore but to end what still runs."""
        self._gone.update(node.name for node in self._nodes)
        cut = len(self._running)
        for attempt in [*self._running]:
            running = self._running.pop(attempt)
            running.folder.close()
            self._cluster.cancel(running.handle)
            yield self._no_answer(running, why, node_gone=True)
        cut_short = f"{counted(cut, 'attempt')} {'was' if cut == 1 else 'were'} cut short"
        raise StoppedError(
            f"{why}, and {cut_short}; start the cluster again, or go on here with --executor local"
        )

    def _ended_within(self, seconds: float) -> Iterator[JobOutcome]:
        deadline = time.monotonic() + seconds
        for outcome in self._watch():
            self._running.pop(outcome.attempt).folder.close()
            yield outcome
        while self._running:
            handles = {id(running.handle): running for running in self._running.values()}
            ready = self._cluster.ready(
                [running.handle for running in handles.values()], deadline - time.monotonic()
            )
            outcomes = [self._heard(handles[id(handle)]) for handle in ready]
            ended = [outcome for outcome in outcomes if outcome is not None]
            for outcome in ended:
                self._running.pop(outcome.attempt).folder.close()
            yield from ended
            if ended or time.monotonic() >= deadline:
                return

    def _heard(self, running: _Running) -> JobOutcome | None:
        """One thing that an attempt tells; its outcome, if that was the last."""
        try:
            told = self._cluster.take(running.handle, running.node)
        except LostError as lost:
            # It may still be there, where nobody hears it.
            self._cluster.cancel(running.handle)
            return self._no_answer(running, lost.reason, node_gone=lost.node_gone)
        if told is None:
            return self._no_answer(running, "its node told no outcome", node_gone=False)
        what, value = told
        if what == BEGUN:
            running.begun = True
            running.give_up = time.monotonic() + running.job.most_seconds + _SLACK_SECONDS
        elif what == PIECE:
            running.folder.write(value)
        elif what == OVER:
            return self._ended(running, value)
        elif what == REFUSED:
            running.watch.told = value
        return None

    def _ended(self, running: _Running, outcome: JobOutcome) -> JobOutcome:
        running.folder.seek(0)
        try:
            if running.folder.read(1):
                running.folder.seek(0)
                with OpenFolder(running.job.folder) as folder:
                    unpack(running.folder, folder, None)
        except OSError as error:
            if error.errno != errno.EBADMSG:
                raise
            return self._no_answer(running, str(error.strerror), node_gone=False)
        return replace(outcome, cancelled=outcome.cancelled or running.cancelled)

    def _no_answer(self, running: _Running, reason: str, *, node_gone: bool) -> JobOutcome:
        if node_gone:
            self._gone.add(running.node.name)
        unanswered = running.unanswered and not node_gone
        if running.cancelled:
            reason = "killed before it ended"
        elif unanswered:
            reason = f"node {visible(running.node.name)}: its worker stopped answering"
        return JobOutcome(
            attempt=running.attempt,
            complete=False,
            cancelled=running.cancelled,
            # As on one machine: an agent may have brought that about.
            died=unanswered,
            reason=reason,
            begun=running.begun,
            lost_node=running.node.name if node_gone else "",
        )

    # The nodes.

    def _left(self) -> list[ClusterNode]:
        """The nodes that are not gone, once each."""
        nodes = {node.name: node for node in self._nodes}
        return [node for name, node in sorted(nodes.items()) if name not in self._gone]

    def changed(self, trees: Sequence[Tree]) -> list[str]:
        """The files of trees on nodes that are not as they came there."""
        nodes = self._left()
        self.looked_at.clear()
        told = []
        for node, changed in zip(nodes, self._cluster.changed(nodes, tuple(trees)), strict=True):
            if isinstance(changed, LostError):
                if changed.node_gone:
                    self._gone.add(node.name)
            elif changed is not None:
                self.looked_at.add(node.name)
                told += [f"{path} on node {node.name}" for path in changed]
        return told

    def close(self) -> None:
        """End whatever still runs, and leave nothing on the nodes."""
        try:
            for attempt in self._running:
                self.cancel(attempt)
            while self._running:
                for _ in self._ended_within(1.0):
                    continue
            left = self._left()
            for node, lost in zip(left, self._cluster.sweep(left), strict=True):
                if lost is not None:
                    name = f"node {visible(node.name)}"
                    self.unswept.append(
                        f"{name} could not be cleaned up: {lost.reason.removeprefix(f'{name}: ')}; "
                        f"what the run left there in {visible(self._place.path)} stays"
                    )
        finally:
            self._here.close()
            self._cluster.close()


def marked(place: Place) -> str:
    """Leave a sign in the place of a runner that it is its own; what the sign says."""
    driver = token_hex(8)
    with place.folder as folder:
        folder.write(DRIVER, driver.encode())
    return driver
