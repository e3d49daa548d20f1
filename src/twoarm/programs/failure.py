"""Failures by what a provider, a program or its runner said: the agent's own, or infra."""

from typing import Any, Literal

import msgspec

from twoarm.programs.format import Failed, Refusal
from twoarm.runs.endings import NO_REASON, overflowed
from twoarm.text.escape import shortened

_WIDTH = 200

# How a run ended, as whatever started it knows: by itself, at a limit, or by a kill from outside.
EndedBy = Literal["exit", "timeout", "budget", "output", "memory", "killed"]


class _Said(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    message: str
    code: Any = None


class _Passed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    error: _Said


def agent(reason: str) -> Failed:
    """The agent's own failure: it counts as a failed run."""
    return Failed(failure="agent", reason=shortened(reason.strip() or NO_REASON, _WIDTH))


def infra(reason: str) -> Failed:
    """A failure of provider, network, sandbox or harness: excluded and reported."""
    return Failed(failure="infra", reason=shortened(reason.strip() or NO_REASON, _WIDTH))


def _inner(message: str) -> _Said:
    """The error that a program passed on as JSON inside its message."""
    start, end = message.find("{"), message.rfind("}")
    try:
        passed = msgspec.json.decode(message[start : end + 1].encode(), type=_Passed)
    except (ValueError, RecursionError):
        return _Said(message=message)
    return passed.error


def http_status(status: object) -> int | None:
    """The HTTP status of an error, if that is what was found."""
    return status if type(status) is int and 400 <= status <= 599 else None


def of_provider(message: str, name: str = "", status: object = None) -> Failed:
    """What a provider's error means: a context overflow is the agent's, all else is infra."""
    if overflowed(message):
        return agent("context overflow")
    inner = _inner(message)
    first = inner.message.strip().split("\n", 1)[0]
    failure = infra(f"{name}: {first}" if name else first)
    known = http_status(status) or http_status(inner.code)
    return msgspec.structs.replace(failure, refused=True, status=known)


def judged(
    failure: Failed | None, *, cut: bool, waiting: Refusal | None, ended_by: EndedBy | None
) -> Failed | None:
    """The failure that an output shows, in light of how its run ended.

    An output that is `cut` has no end of its own; `waiting` is what the provider last said, if the
    last events are retries.
    """
    if waiting is None and failure is not None and failure.refused:
        waiting = Refusal(message=failure.reason, status=failure.status)
    match ended_by:
        case "timeout" if waiting is not None:
            return _refused("timed out", waiting)
        case "timeout":
            return agent("hit the time limit of its runner")
        case "budget":
            return agent("hit the budget limit of its runner")
        case "output":
            return agent("hit the output limit of its runner")
        case "memory":
            return agent("hit the memory limit of its runner")
        case "killed":
            return infra("killed from outside")
    if failure is None or not cut:
        return failure
    how = "killed" if ended_by is None else "exited early"
    if waiting is not None:
        return _refused(how, waiting)
    return msgspec.structs.replace(failure, reason=f"{how}: {failure.reason}")


def _refused(how: str, waiting: Refusal) -> Failed:
    failure = infra(f"{how} while waiting for the provider: {waiting.message}")
    return msgspec.structs.replace(failure, refused=True, status=waiting.status)
