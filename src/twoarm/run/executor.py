"""Where attempts run: this machine, or later others."""

from collections.abc import Iterator
from typing import Protocol

from twoarm.programs.agent import Meter
from twoarm.run.jobs import Job, JobOutcome


class Executor(Protocol):
    """Takes jobs, and gives back folders."""

    slots: int

    def submit(self, attempt: str, job: Job, meter: Meter | None, limit: float | None) -> None:
        """Start an attempt; the meter is read while it runs, and stops it above the limit."""
        ...

    def cancel(self, attempt: str) -> None:
        """Kill an attempt; its outcome is incomplete."""
        ...

    def completed(self, seconds: float) -> Iterator[JobOutcome]:
        """What has ended; waits so long for the first one."""
        ...

    def close(self) -> None:
        """End whatever still runs."""
        ...
