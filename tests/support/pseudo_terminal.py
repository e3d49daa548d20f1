"""A terminal of the tests' own, and what a command shows on it."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest


def terminal() -> tuple[int, int]:
    """Both ends of a new one: where the tests read, and where a command writes."""
    leader, follower = pytest.importorskip("pty").openpty()
    return leader, follower


def shown_on(leader: int) -> bytes:
    """Everything that comes to a terminal until nobody holds its other end."""
    seen = b""
    try:
        while block := os.read(leader, 4096):
            seen += block
    except OSError:
        pass
    os.close(leader)
    return seen


def printed_on_terminal(arguments: Sequence[str], **environment: str) -> bytes:
    """What the command line prints if its standard output is a terminal."""
    leader, follower = terminal()
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", *arguments],
        stdout=follower,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(follower)
    seen = shown_on(leader)
    assert process.wait(60) == 0
    return seen
