"""This machine: a supervisor process per attempt."""

import marshal
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

import msgspec

from twoarm.files.safe import OpenFolder
from twoarm.programs.agent import Meter, Watch
from twoarm.run.engine import Engine
from twoarm.run.jobs import Job, JobOutcome
from twoarm.run.supervisor.isolation import ATTEMPT_LABEL
from twoarm.run.supervisor.leftovers import remove_named
from twoarm.run.supervisor.main import CANCELLED, DONE, FAILED
from twoarm.run.supervisor.process_limit import clear_process_limits
from twoarm.run.supervisor.processes import SUPERVISOR, kill_marked

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The package as the supervisor sees it: its own modules, without what twoarm imports for others.
_BOOT = """\
import sys
for name in ("", "/run", "/run/supervisor", "/runs", "/files"):
    module = type(sys)("twoarm" + name.replace("/", "."))
    module.__path__ = [sys.argv[1] + name]
    sys.modules[module.__name__] = module
from twoarm.run.supervisor.process_limit import ProcessLimit
process_limit = ProcessLimit()
from twoarm.run.supervisor.main import main
main(process_limit)
"""
_COMMAND = (sys.executable, "-I", "-S", "-c", _BOOT, os.path.dirname(_HERE))
# How often each supervisor is looked after.
_WATCH_SECONDS = 0.5
# How much is kept of what a supervisor prints.
_PRINTED_BYTES = 500
# A supervisor that was told to end and has not is killed after this.
_PATIENCE_SECONDS = 30.0
# And so is one this far past every limit it enforces; what it does besides takes time, too.
_SLACK_SECONDS = 300.0


class _Running:
    """One supervisor."""

    def __init__(self, job: Job, meter: Meter | None, limit: float | None) -> None:
        self.job = job
        # The folder of the scratch, now and later.
        self.above = OpenFolder(os.path.dirname(job.scratch))
        self.meter = meter
        self.limit = limit
        self.give_up = time.monotonic() + job.most_seconds + _SLACK_SECONDS
        # Whether the runner wants no more of it, or has told it to stop the agent.
        self.cancelled = False
        self.stopped = False
        self.printed = b""


class Local:
    """Supervisors on this machine, as many as there are slots."""

    def __init__(self, slots: int, lock: "Callable[[], int] | None" = None) -> None:
        self.slots = slots
        self._lock = lock
        self._selector = selectors.DefaultSelector()
        self._running: dict[str, tuple[_Running, subprocess.Popen[bytes]]] = {}

    def node_of(self, slot: int) -> None:
        """Every slot is on this machine."""

    def is_there(self, slot: int) -> bool:
        """This machine always is."""
        return True

    def submit(
        self, attempt: str, job: Job, meter: Meter | None, limit: float | None, slot: int = 0
    ) -> Watch | None:
        """Start a supervisor and hand it its job."""
        # The supervisor holds the lock as long as it lives; the job is a file without a name,
        # since a pipe would have to wait for a reader.
        running = _Running(job, meter, limit)
        passed = [] if self._lock is None else [self._lock()]
        passed.append(_file_of(marshal.dumps(msgspec.to_builtins(job))))
        try:
            process = subprocess.Popen(
                (*_COMMAND, str(passed[-1]), str(running.above.descriptor)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # What could not be written to it must not be tried again when it is closed.
                bufsize=0,
                cwd="/",
                env={**os.environ, SUPERVISOR: job.marker},
                pass_fds=(*passed, running.above.descriptor),
                start_new_session=True,
            )
        finally:
            for descriptor in passed:
                os.close(descriptor)
        self._running[attempt] = (running, process)
        self._selector.register(_pipe(process.stdout), selectors.EVENT_READ, attempt)
        return meter if isinstance(meter, Watch) else None

    def cancel(self, attempt: str) -> None:
        """Cut the lifeline."""
        running, process = self._running[attempt]
        running.cancelled = True
        running.give_up = time.monotonic() + running.job.grace_seconds + _PATIENCE_SECONDS
        _pipe(process.stdin).close()

    def completed(self, seconds: float) -> Iterator[JobOutcome]:
        """Attempts whose supervisor has ended."""
        deadline = time.monotonic() + seconds
        while True:
            self._watch()
            left = deadline - time.monotonic()
            wait = max(0.0, min(left, _WATCH_SECONDS))
            ready = self._selector.select(wait) if self._running else []
            finished = {key.data for key, _ in ready if self._has_said_all(key.data)}
            # An agent may hold on to the pipe of a supervisor that it has killed.
            ended = [
                attempt
                for attempt, (_, process) in self._running.items()
                if attempt in finished or process.poll() is not None
            ]
            for attempt in ended:
                yield self._ended(attempt)
            if ended or left <= 0 or not self._running:
                return

    def _has_said_all(self, attempt: str) -> bool:
        """Whether a supervisor has said its last word; what it says is never waited for."""
        running, process = self._running[attempt]
        piece = os.read(_pipe(process.stdout).fileno(), _PRINTED_BYTES)
        running.printed = (running.printed + piece)[-_PRINTED_BYTES:]
        return not piece

    def _watch(self) -> None:
        """Wake supervisors that an agent stopped, read the meters, kill those that do not end."""
        for running, process in self._running.values():
            process.send_signal(signal.SIGCONT)
            if time.monotonic() > running.give_up:
                process.kill()
            if running.cancelled or running.stopped:
                continue
            if running.meter is None or running.limit is None:
                continue
            spent = running.meter.spent()
            if spent is not None and spent > running.limit:
                running.stopped = True
                # One that is gone is noticed by its end.
                with suppress(BrokenPipeError):
                    _pipe(process.stdin).write(b"budget\n")

    def _ended(self, attempt: str) -> JobOutcome:
        running, process = self._running.pop(attempt)
        output = _pipe(process.stdout)
        self._selector.unregister(output)
        reason = running.printed.decode("utf-8", "replace").strip()
        output.close()
        if not _pipe(process.stdin).closed:
            _pipe(process.stdin).close()
        code = process.wait()
        # One that fails by itself is not the agent's doing.
        died = code < 0
        unanswered = died and time.monotonic() > running.give_up
        cancelled = code == CANCELLED or running.cancelled
        if cancelled:
            reason = "killed before it ended"
        elif unanswered:
            reason = "its supervisor stopped answering"
        elif died:
            reason = "its supervisor was killed"
        elif code not in (DONE, FAILED):
            last = reason.splitlines()[-1:] or [f"exit code {code}"]
            reason = f"its supervisor failed: {last[0]}"
        if died:
            # Nobody else looks after its descendants.
            kill_marked(running.job.marker)
            _clear_containers(running.job)
            home = {"HOME": os.path.expanduser("~")}
            remove_named(running.job.engines, running.job.marker, home | running.job.env["agent"])
        clear_process_limits()
        running.above.clear(os.path.basename(running.job.scratch))
        running.above.close()
        return JobOutcome(
            attempt=attempt,
            complete=code == DONE,
            cancelled=cancelled,
            # Nobody in a sandbox can reach its supervisor.
            died=died and (unanswered or not running.job.seal.words),
            reason=reason or f"its supervisor ended with exit code {code}",
        )

    def close(self) -> None:
        """End whatever still runs."""
        for attempt, (running, _) in self._running.items():
            if not running.cancelled:
                self.cancel(attempt)
        while self._running:
            for _ in self.completed(1.0):
                continue
        self._selector.close()


def _clear_containers(job: Job) -> None:
    """Remove what an engine still runs for a supervisor that is gone."""
    if job.seal.image:
        tool = next(iter(job.seal.words.values()))[0]
        Engine(name=job.seal.isolation, path=tool).clear(f"{ATTEMPT_LABEL}={job.marker}")


def _file_of(content: bytes) -> int:
    """A file that nobody can find, from its start."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("job")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
