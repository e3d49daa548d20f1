"""Runs that were stopped while the provider refused: logs tell it where the output does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import only, sidecar

INIT = {"type": "init", "timestamp": "2026-11-15T16:00:00Z", "session_id": "s", "model": "m"}
ASKED = {"type": "message", "timestamp": "2026-11-15T16:00:01Z", "role": "user", "content": "Go."}
CALLED = {
    "type": "tool_use",
    "timestamp": "2026-11-15T16:00:02Z",
    "tool_name": "run_shell_command",
    "tool_id": "t1",
    "parameters": {"command": "make"},
}
GAVE = {"type": "tool_result", "timestamp": "2026-11-15T16:00:03Z", "tool_id": "t1"}
SAID = {**ASKED, "role": "assistant", "delta": True}

# As Gemini CLI 0.61.0 writes it.
RETRIED = """\
Ripgrep is not available. Falling back to GrepTool.
Attempt 1 failed with status 503. Retrying with backoff... _ApiError: {"error":{"code":503}}
    at throwErrorIfNotOK (file:///opt/gemini-cli/bundle/gemini.js:1:1)
Attempt 2 failed with status 429. Retrying with backoff... _ApiError: {"error":{"code":429}}
    at throwErrorIfNotOK (file:///opt/gemini-cli/bundle/gemini.js:1:1)
"""

# As opencode 1.18.33 writes it.
STREAMED = "level=INFO run=9f message=stream providerID=p modelID=m small=false"
REFUSED = (
    'level=ERROR run=9f message="stream error" providerID=p modelID=m small=false '
    'error.error="AI_APICallError: Rate limit reached."'
)
STEP = {
    "type": "step_start",
    "timestamp": 1_794_758_402_000,  # 16:00:02
    "sessionID": "ses_1",
    "part": {"type": "step-start"},
}


def stopped(folder: Path, ended_by: str = "timeout", **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    sidecar(folder, ended_by=ended_by, agent_exit_code=0, acceptance_exit_code=1)
    return folder


def lines(*found: dict[str, Any]) -> str:
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in found)


@pytest.mark.parametrize("heard", [(ASKED,), (ASKED, CALLED, GAVE)])
def test_gemini_that_waits_for_a_provider_who_refuses_is_infra(
    heard: tuple[dict[str, Any], ...], tmp_path: Path
) -> None:
    folder = stopped(tmp_path, stream_jsonl=lines(INIT, *heard), stderr_log=RETRIED)
    record = only("gemini-cli", folder)
    assert record["failure"] == "infra"
    assert record["failure_reason"] == (
        "timed out while waiting for the provider: Attempt 2 failed with status 429"
    )


@pytest.mark.parametrize("heard", [(ASKED, CALLED), (ASKED, SAID)])
def test_gemini_that_was_answered_since_is_not(
    heard: tuple[dict[str, Any], ...], tmp_path: Path
) -> None:
    folder = stopped(tmp_path, stream_jsonl=lines(INIT, *heard), stderr_log=RETRIED)
    assert only("gemini-cli", folder)["failure"] == "agent"


def test_gemini_that_was_never_refused_is_not(tmp_path: Path) -> None:
    quiet = RETRIED.split("Attempt", maxsplit=1)[0]
    folder = stopped(tmp_path, stream_jsonl=lines(INIT, ASKED), stderr_log=quiet)
    assert only("gemini-cli", folder)["failure"] == "agent"


def logged(*entries: tuple[str, str]) -> str:
    return "".join(f"timestamp=2026-11-15T16:00:{at}Z {text}\n" for at, text in entries)


def test_opencode_that_waits_for_a_provider_who_refuses_is_infra(tmp_path: Path) -> None:
    log = logged(("01.5", STREAMED), ("01.6", REFUSED), ("03.0", STREAMED), ("03.1", REFUSED))
    for events in ("", lines(STEP)):
        record = only("opencode", stopped(tmp_path, events_jsonl=events, opencode_log=log))
        assert record["failure"] == "infra"
        assert record["failure_reason"] == (
            "timed out while waiting for the provider: AI_APICallError: Rate limit reached."
        )


@pytest.mark.parametrize(
    "log",
    [
        "",
        logged(("01.0", STREAMED)),
        # Its model has answered since.
        logged(("01.0", STREAMED), ("01.1", REFUSED), ("01.5", STREAMED)),
        "timestamp=once " + REFUSED + "\n",
    ],
)
def test_opencode_that_was_answered_since_is_not(log: str, tmp_path: Path) -> None:
    folder = stopped(tmp_path, events_jsonl=lines(STEP), opencode_log=log)
    assert only("opencode", folder)["failure"] == "agent"


def test_a_log_changes_no_run_that_ended_by_itself(tmp_path: Path) -> None:
    tokens = {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    part = {"type": "step-finish", "reason": "stop", "tokens": tokens, "cost": 0.5}
    ended = {**STEP, "type": "step_finish", "part": part}
    log = logged(("09.0", REFUSED))
    folder = stopped(tmp_path, "exit", events_jsonl=lines(STEP, ended), opencode_log=log)
    sidecar(folder, acceptance_exit_code=0)
    assert only("opencode", folder)["success"]
