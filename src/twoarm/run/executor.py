"""Where attempts run: this machine, or the nodes of a cluster."""

import re
from collections.abc import Iterator
from typing import Protocol

from twoarm.errors import UsageError
from twoarm.programs.agent import Meter, Watch
from twoarm.run.jobs import Job, JobOutcome
from twoarm.text.escape import named, visible

# The runner's own machine.
LOCAL = "local"
_CLUSTER = "ray"
_ADDRESS = re.compile(r"[A-Za-z0-9._-]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}")


class Executor(Protocol):
    """Takes jobs, and gives back folders."""

    @property
    def slots(self) -> int:
        """How many attempts run at a time."""
        ...

    def submit(
        self, attempt: str, job: Job, meter: Meter | None, limit: float | None, slot: int = 0
    ) -> Watch | None:
        """Start an attempt in a slot; the meter is read while it runs, and stops it above the
        limit. What it tells besides is watched by what comes back."""
        ...

    def node_of(self, slot: int) -> str | None:
        """Which machine a slot is on; None for this one."""
        ...

    def is_there(self, slot: int) -> bool:
        """Whether an attempt could run in a slot."""
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


def is_address(text: str) -> bool:
    """Whether a text is HOST:PORT."""
    return _ADDRESS.fullmatch(text) is not None


def cluster_address(text: str) -> str | None:
    """The address in a value of `--executor`: None for this machine alone, and nothing for the
    cluster that this machine is in."""
    if text == LOCAL:
        return None
    kind, colon, address = text.partition(":")
    if kind == _CLUSTER and address.startswith("//"):
        raise UsageError(
            f"--executor: {visible(text)} is an address of Ray's client, which lets agents go on "
            "for half a minute when their run is gone; start twoarm on the head or on a node of "
            "the cluster, with --executor ray"
        )
    if kind != _CLUSTER or (colon and not is_address(address)):
        raise UsageError(
            f"--executor: expected {LOCAL}, {_CLUSTER} or {_CLUSTER}:HOST:PORT, got {named(text)}"
        )
    return address
