"""A process of its own on a node: it looks after the supervisors there, whatever Ray kills.

A worker of Ray that is killed takes its children with it and nobody else; an agent would go on. So
supervisors are children of a keeper that is no child of any worker. It ends with its worker: that
is the other end of the socket which it has as its only argument.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from twoarm.files.safe import OpenFolder
from twoarm.programs.agent import Meter, Watch
from twoarm.run.executors.local import Local
from twoarm.run.jobs import Job
from twoarm.run.supervisor.isolation import send
from twoarm.run.supervisor.processes import SUPERVISOR

# How often the meter is asked, and the worker listened to.
_TICK_SECONDS = 0.1
# How often a keeper that says nothing is woken.
_WATCH_SECONDS = 0.5
# What supervisors lock as long as they live, in the folder that is named.
LOCK = "lock"


class KeptAttempt(NamedTuple):
    """An attempt that a keeper looks after."""

    attempt: str
    job: Job
    meter: Meter | None
    limit: float | None
    # Where the lock is that its supervisor holds.
    place: str


class Keeper(NamedTuple):
    """A keeper, as its worker sees it."""

    talk: "Connection[Any, Any]"
    pid: int

    def answer(self, give_up: float) -> tuple[tuple[str, Any] | None, bool]:
        """What it says next; None if it has ended, and whether it had to be killed for that.

        An agent in the open may have stopped it, so it is woken again and again.
        """
        killed = False
        while not self.talk.poll(_WATCH_SECONDS):
            killed = killed or time.monotonic() > give_up
            # As long as its end of the socket is open, the number is its own.
            send(self.pid, signal.SIGKILL if killed else signal.SIGCONT)
        try:
            return self.talk.recv(), killed
        except (EOFError, ConnectionError):
            return None, killed


def start_keeper(token: str) -> Keeper:
    """A new keeper, detached from this process and its session.

    It is woken like the supervisors of the run, by `wake_supervisors`.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        # The shell ends at once, and leaves the keeper to the system.
        words = (sys.executable, "-m", __name__, str(theirs.fileno()))
        done = subprocess.run(
            ["/bin/sh", "-c", '"$@" >/dev/null & echo $!', "sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                # What the worker can import, such as the meter of an agent that is installed there.
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                SUPERVISOR: f"{token}-keeper",
            },
            cwd="/",
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            check=True,
        )
    return Keeper(Connection(ours.detach()), int(done.stdout))


def keep(talk: "Connection[Any, Any]", kept: KeptAttempt) -> None:
    """One attempt from start to end; without a worker at the other end, it is ended at once."""
    with OpenFolder(kept.place) as place:
        local = Local(1, lambda: _holding(place))
        told = None
        try:
            local.submit(kept.attempt, kept.job, kept.meter, kept.limit)
            while True:
                for outcome in local.completed(_TICK_SECONDS):
                    talk.send(("ended", outcome))
                    return
                if isinstance(kept.meter, Watch) and (refusal := kept.meter.refused()) != told:
                    told = refusal
                    talk.send(("refused", refusal))
                if talk.poll():
                    # Nothing else is ever said to it: the worker is gone.
                    talk.recv()
        finally:
            local.close()


def _holding(place: OpenFolder) -> int:
    import fcntl

    lock = place.open_own(LOCK)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def main(descriptor: int) -> None:
    """Take orders until there is nobody who could give one."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    talk: Connection[Any, Any] = Connection(descriptor)
    while True:
        try:
            kept = talk.recv()
            keep(talk, kept)
        except (EOFError, ConnectionError):
            return
        # Whatever it is, the run has to hear of it.
        except Exception as error:  # noqa: BLE001
            talk.send(("failed", f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main(int(sys.argv[1]))
