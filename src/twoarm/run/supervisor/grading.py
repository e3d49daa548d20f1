"""The acceptance commands one after another, and the score that they may have left.

Standard library only, for the supervisor.
"""

import os

from twoarm.files.safe import OpenFolder
from twoarm.run.supervisor.program import NOT_EXECUTABLE
from twoarm.run.supervisor.redact import Redactor
from twoarm.run.supervisor.scratch import SCORE, RunningAttempt
from twoarm.runs.exit_codes import NEVER_RAN_EXIT_CODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A number has no more digits than that.
_LONGEST_SCORE = 64
# No NaN, no infinity, no digits but these ten.
_OF_NUMBERS = frozenset("0123456789.eE+-")
_EXPECTED = "expected a number from 0 to 1"


def grade(attempt: RunningAttempt, redactor: Redactor) -> "dict[str, Any]":
    """Every command, even if one before it has failed; the first that fails is the exit code."""
    job = attempt.job
    ends = {}
    for name, command in job["acceptance"].items():
        if name:
            os.write(attempt.log("acceptance.log"), f"--- {name}\n".encode())
        seconds = job["acceptance_seconds"]
        ends[name] = attempt.shell(command, "acceptance", "acceptance.log", seconds)
    code, why = next((end for end in ends.values() if end[0]), (0, "exit"))
    return {
        # A record says "never ran" with this one; here acceptance did run.
        "acceptance_exit_code": 1 if code == NEVER_RAN_EXIT_CODE else code,
        "acceptance_ended_by": why,
        **_shared({name: code for name, (code, _) in ends.items()}),
        **_scored(attempt.clean_home, redactor),
    }


def not_graded(job: "dict[str, Any]", reason: str | None) -> "dict[str, Any]":
    """What is said where an agent has left no place to run the commands: all of them failed."""
    failed = dict.fromkeys(job["acceptance"], NOT_EXECUTABLE)
    return {"acceptance_exit_code": NOT_EXECUTABLE, "broken": reason, **_shared(failed)}


def _shared(codes: "dict[str, int]") -> "dict[str, Any]":
    """The checks and the share that passed; a command without a name is no check."""
    if "" in codes:
        return {}
    checks = {name: code == 0 for name, code in codes.items()}
    score = sum(checks.values()) / len(checks)
    return {"check_exit_codes": codes, "checks": checks, "score": score}


def _scored(home: "OpenFolder | None", redactor: Redactor) -> "dict[str, Any]":
    """The score that was written down, if any; one that is none is never taken for a 0."""
    if home is None or home.look(SCORE) is None:
        return {}
    try:
        with open(home.open(SCORE), "rb") as file:
            content = file.read(_LONGEST_SCORE + 1)
    except OSError as error:
        return _wrong(f"cannot be read: {error.strerror}; {_EXPECTED}")
    if len(content) > _LONGEST_SCORE:
        return _wrong(f"more than {_LONGEST_SCORE} bytes; {_EXPECTED}")
    text = content.decode("utf-8", "replace").strip()
    try:
        score = float(text) if _OF_NUMBERS.issuperset(text) else -1.0
    except ValueError:
        score = -1.0
    if 0.0 <= score <= 1.0:
        # No -0.0 anywhere.
        return {"score": score + 0.0}
    shown = redactor.text(text)
    return _wrong(f"{_EXPECTED}, got {shown!r}" if text else f"empty; {_EXPECTED}")


def _wrong(why: str) -> "dict[str, Any]":
    return {"score": None, "score_error": why}
