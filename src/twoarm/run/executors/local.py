"""This machine: a supervisor process per attempt."""

import marshal
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

import msgspec

from twoarm.run.agent import Meter
from twoarm.run.order import Order, Outcome
from twoarm.run.processes import clear_herds, kill_marked
from twoarm.run.remove import clear

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The package as the supervisor sees it: its own modules, without what twoarm imports for others.
_BOOT = """\
import sys
for name, path in (("twoarm", sys.argv[1]), ("twoarm.run", sys.argv[2])):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [path]
from twoarm.run.supervisor import main
main()
"""
_COMMAND = (sys.executable, "-I", "-S", "-c", _BOOT, os.path.dirname(_HERE), _HERE)
_METER_SECONDS = 0.5
# A supervisor that was told to end and does not is ended.
_PATIENCE_SECONDS = 60.0
# The exit codes of a supervisor: done, told to end, could not write.
_DONE, _CANCELLED, _FAILED = 0, 75, 74


class _Running:
    """One supervisor."""

    def __init__(self, order: Order, meter: Meter | None, limit: float | None) -> None:
        self.order = order
        self.meter = meter
        self.limit = limit
        self.give_up: float | None = None
        self.stopped = False


class Local:
    """Supervisors on this machine, as many as there are slots."""

    def __init__(self, slots: int, lock: "Callable[[], int] | None" = None) -> None:
        self.slots = slots
        self._lock = lock
        self._selector = selectors.DefaultSelector()
        self._running: dict[str, tuple[_Running, subprocess.Popen[bytes]]] = {}

    def submit(self, attempt: str, order: Order, meter: Meter | None, limit: float | None) -> None:
        """Start a supervisor and hand it its order."""
        held = None if self._lock is None else self._lock()
        try:
            process = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                pass_fds=() if held is None else (held,),
                start_new_session=True,
            )
        finally:
            # The supervisor holds it now, for as long as it lives.
            if held is not None:
                os.close(held)
        self._running[attempt] = (_Running(order, meter, limit), process)
        self._selector.register(_pipe(process.stdout), selectors.EVENT_READ, attempt)
        text = marshal.dumps(msgspec.to_builtins(order))
        _tell(process, b"%08d%s" % (len(text), text))

    def cancel(self, attempt: str) -> None:
        """Cut the lifeline."""
        running, process = self._running[attempt]
        running.give_up = time.monotonic() + running.order.grace_seconds + _PATIENCE_SECONDS
        _pipe(process.stdin).close()

    def completed(self, seconds: float) -> Iterator[Outcome]:
        """Attempts whose supervisor has ended."""
        deadline = time.monotonic() + seconds
        while True:
            self._watch()
            left = deadline - time.monotonic()
            wait = min(left, _METER_SECONDS) if self._watching() else left
            ready = self._selector.select(max(0.0, wait)) if self._running else []
            for key, _ in ready:
                yield self._ended(key.data)
            if ready or left <= 0 or not self._running:
                return

    def _watching(self) -> bool:
        return any(one.meter or one.give_up for one, _ in self._running.values())

    def _watch(self) -> None:
        """Read the meters, and lose patience with supervisors that do not end."""
        for running, process in self._running.values():
            if running.give_up is not None:
                if time.monotonic() > running.give_up:
                    process.kill()
                continue
            if running.meter is None or running.limit is None or running.stopped:
                continue
            spent = running.meter.spent()
            if spent is not None and spent > running.limit:
                running.stopped = True
                _tell(process, b"budget\n")

    def _ended(self, attempt: str) -> Outcome:
        running, process = self._running.pop(attempt)
        output = _pipe(process.stdout)
        self._selector.unregister(output)
        said = output.read().decode("utf-8", "replace").strip()
        output.close()
        if not _pipe(process.stdin).closed:
            _pipe(process.stdin).close()
        code = process.wait()
        died = code not in (_DONE, _CANCELLED, _FAILED)
        cancelled = code == _CANCELLED or running.give_up is not None
        if cancelled:
            said = "killed before it ended"
        if died:
            # Its descendants have no other keeper.
            while kill_marked(running.order.marker):
                time.sleep(0.002)
            clear_herds()
            clear(running.order.scratch)
        return Outcome(
            attempt=attempt,
            complete=code == _DONE,
            cancelled=cancelled,
            died=died,
            reason=said[-500:] or f"its supervisor ended with exit code {code}",
        )

    def close(self) -> None:
        """End whatever still runs."""
        for attempt, (running, _) in self._running.items():
            if running.give_up is None:
                self.cancel(attempt)
        while self._running:
            for _ in self.completed(1.0):
                continue
        self._selector.close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _tell(process: "subprocess.Popen[bytes]", text: bytes) -> None:
    """Write on the lifeline; a supervisor that is gone is noticed by its end."""
    pipe = _pipe(process.stdin)
    try:
        pipe.write(text)
        pipe.flush()
    except BrokenPipeError:
        return
