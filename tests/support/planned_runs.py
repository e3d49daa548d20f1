"""What the tests of planned runs share: lines of runs that failed in infra, or that are missing."""

from typing import Any

from tests.conftest import WITH, run

NOT_YET = "not yet run"
LOST = "lost: the disk was full"
_NULL = (
    "total_cost_usd",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)


def missing(
    task: str = "t", arm: str = WITH, repeat: int = 1, why: str | None = NOT_YET
) -> dict[str, Any]:
    """The line of a planned run that gave none."""
    made = run(task, arm, repeat, success=False, duration_seconds=0)
    return made | dict.fromkeys(_NULL) | {"failure": "missing", "failure_reason": why}


def interrupted(task: str = "t", arm: str = WITH, repeat: int = 1) -> dict[str, Any]:
    """The line of an attempt that broke off."""
    return missing(task, arm, repeat, "its supervisor was killed") | {"failure": "interrupted"}


def infra(task: str = "t", arm: str = WITH, repeat: int = 1) -> dict[str, Any]:
    return run(task, arm, repeat, failure="infra", failure_reason="provider")
