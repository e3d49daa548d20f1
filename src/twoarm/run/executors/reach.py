"""What is asked of a cluster before Ray is, and beside it: its address, and whether it answers."""

import math
import os
import socket
import time

from twoarm.errors import InputError, UsageError
from twoarm.run.executor import cluster_address, is_address
from twoarm.text.escape import named

_CONNECT_SECONDS = 5.0
_ALIVE_SECONDS = 1.0
# How often the head is looked at.
_LOOK_SECONDS = 1.0


class Head:
    """The head of a cluster, and since when it has been silent."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._since: float | None = None
        self._looked = -math.inf

    def silence(self) -> float:
        """For how many seconds nobody has been listening there; looks now and then."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            host, _, port = self.address.rpartition(":")
            answered = answers(host.strip("[]"), int(port))
            self._looked = time.monotonic()
            if answered:
                self._since = None
            elif self._since is None:
                self._since = now
        return 0.0 if self._since is None else time.monotonic() - self._since


def address_of_environment() -> str:
    """The head that is set for all programs of Ray; nothing for the cluster of this machine."""
    where = os.environ.get("RAY_ADDRESS", "")
    if where in ("", "auto"):
        return ""
    if where.startswith("ray://"):
        cluster_address(where)
    if not is_address(where):
        raise UsageError(
            f"RAY_ADDRESS: expected the HOST:PORT of a head, got {named(where)}; unset it to join "
            "the cluster of this machine, or name a head: --executor ray:HOST:PORT"
        )
    return where


def check_answers(address: str, shown: str) -> None:
    """Refuse at once what would take Ray a minute to give up."""
    host, _, port = address.rpartition(":")
    if not answers(host.strip("[]"), int(port), _CONNECT_SECONDS):
        raise InputError(
            f"{shown}: nothing is listening there; name the head of a cluster, as `ray start "
            "--head` printed it"
        )


def answers(host: str, port: int, seconds: float = _ALIVE_SECONDS) -> bool:
    """Whether somebody is listening."""
    try:
        with socket.create_connection((host, port), seconds):
            return True
    except (OSError, OverflowError):
        return False


def refuses(host: str, port: int) -> bool:
    """Whether nobody is listening on a machine that is there."""
    try:
        with socket.create_connection((host, port), _ALIVE_SECONDS):
            return False
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)
