"""How runs ended: what exit codes say, as columns, and why a run failed, as one of a few codes."""

import re
from itertools import repeat
from typing import Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from twoarm.runs.exit_codes import NEVER_RAN_EXIT_CODE
from twoarm.runs.record import PASSED_DESPITE_FAILURE, LineColumns

FailureCode = Literal[
    "acceptance",
    "timeout",
    "budget",
    "output_limit",
    "memory_limit",
    "turn_limit",
    "context",
    "crash",
    "unreadable_output",
    "refusal",
    "infra",
    "other",
    "not_given",
]
# Reasons that are as frequent are listed in this order.
FAILURE_CODES: tuple[FailureCode, ...] = get_args(FailureCode)
# What whoever started the agent has set: a run may have done its work before it met one of these.
LIMITS: frozenset[FailureCode] = frozenset(
    {"timeout", "budget", "output_limit", "memory_limit", "turn_limit"}
)

NO_REASON = "no reason given"
FAILURE_WORDS: dict[FailureCode, str] = {
    code: NO_REASON if code == "not_given" else code.replace("_", " ") for code in FAILURE_CODES
}
_BY_WORDS = {words: code for code, words in FAILURE_WORDS.items()}

# How providers and programs say that a conversation outgrew the model.
_OVERFLOW = (
    "contextoverflow",
    "contextlength",
    "contextwindow",
    "contextlimit",
    "maximumcontext",
    "promptistoolong",
    "inputistoolong",
    "inputtokencount",
    "exceedsthemaximumnumberoftokens",
)
# What reasons of each kind have in them; the first kind that fits is the one.
_PARTS: dict[FailureCode, tuple[str, ...]] = {
    "unreadable_output": ("cannotberead", "unreadable", "structuredoutput", "formaterror"),
    "context": _OVERFLOW,
    "timeout": ("timeout", "timedout", "timelimit", "workinglimit", "deadlineexceeded"),
    "budget": ("budget", "costlimit", "tokenlimit"),
    "output_limit": ("outputlimit", "outputlength", "outputtoken"),
    "memory_limit": ("memorylimit",),
    "turn_limit": ("turnlimit", "maxturns", "steplimit", "messagelimit"),
    "refusal": ("refus", "contentfilter", "contentpolicy"),
    "crash": (
        *("crash", "exitcode", "exitstatus", "exited", "killed", "aborted", "outofmemory"),
        *("noresult", "noevent", "nostep", "didnotend", "didnotfinish"),
        *("didnotanswer", "stoppedanswering"),
        "errorduringexecution",
    ),
    "acceptance": ("acceptance", "testfailed", "testsfailed"),
}
# A reason is as long as its writer likes, and says what it is at its beginning.
_READ = 500

# What an exit code says.
NOTHING_TOLD, PASSED, FAILED = range(3)
_EXITED: dict[Any, int] = {None: NOTHING_TOLD, UNSET: NOTHING_TOLD, 0: PASSED}
_ACCEPTED: dict[Any, int] = {**_EXITED, NEVER_RAN_EXIT_CODE: NOTHING_TOLD}

ExitMarks: TypeAlias = NDArray[np.uint8]


def overflowed(message: str) -> bool:
    """Whether an error says that the conversation outgrew the model."""
    return _has(_squeezed(message), _OVERFLOW)


def code_of(reason: str) -> FailureCode:
    """What kind of reason a record gives in words of its own."""
    known = _BY_WORDS.get(reason)
    if known is not None:
        return known
    squeezed = _squeezed(reason[:_READ])
    return next((code for code, parts in _PARTS.items() if _has(squeezed, parts)), "other")


def why_failed(reason: str, exited: int, accepted: int) -> FailureCode:
    """Why a run failed: as its record says, or else by what its exit codes tell."""
    code = code_of(reason or NO_REASON)
    if code not in ("other", "not_given"):
        return code
    if exited == FAILED:
        return "crash"
    return "acceptance" if accepted == FAILED else code


def _squeezed(text: str) -> str:
    """`ContextWindow`, `context_window` and `context window` are the same."""
    return re.sub(r"[\W_]+", "", text.lower())


def _has(text: str, parts: tuple[str, ...]) -> bool:
    return any(part in text for part in parts)


class Endings(msgspec.Struct, frozen=True, kw_only=True):
    """What the exit codes of each run say: of its agent, and of its acceptance command.

    A run whose tags say that it passed although its agent failed has passed acceptance.
    """

    exited: ExitMarks
    accepted: ExitMarks


class EndingBuilder:
    """Takes decoded lines a batch at a time and gives the columns at the end."""

    def __init__(self) -> None:
        self._exited = bytearray()
        self._accepted = bytearray()

    def add(self, columns: LineColumns) -> None:
        """Take note of runs that follow those before."""
        first = len(self._accepted)
        exited = _marks(columns, "agent_exit_code", _EXITED)
        if "opencode_exit_code" in columns:
            older = _marks(columns, "opencode_exit_code", _EXITED)
            exited = bytes(new or old for new, old in zip(exited, older, strict=True))
        self._exited += exited
        self._accepted += _marks(columns, "acceptance_exit_code", _ACCEPTED)
        tags = columns.get("tags", ())
        if tags.count(None) < len(tags):
            for row, codes in enumerate(tags, first):
                if isinstance(codes, list | tuple) and PASSED_DESPITE_FAILURE in codes:
                    self._accepted[row] = self._accepted[row] or PASSED

    def finish(self) -> Endings:
        """The columns of everything added."""
        return Endings(
            exited=np.frombuffer(self._exited, dtype=np.uint8),
            accepted=np.frombuffer(self._accepted, dtype=np.uint8),
        )


def _marks(columns: LineColumns, name: str, meanings: dict[Any, int]) -> bytes:
    """What each exit code says; a code without a meaning of its own is a failure."""
    codes, size = columns.get(name), len(columns["task_id"])
    if codes is None:
        return bytes(size)
    # Quick where all is well.
    if codes.count(0) == size:
        return bytes((PASSED,)) * size
    return bytes(map(meanings.get, codes, repeat(FAILED)))
