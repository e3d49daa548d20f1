"""The HTTP status with which a provider refused a run: told by the agent's own events alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import FIXTURES, changed_lines, collection, copied, sidecar


def refused(name: str, folder: Path) -> dict[int, int]:
    with collection(name, folder) as found:
        return found.refused


def lines(*found: dict[str, Any]) -> str:
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in found)


def written(folder: Path, name: str, *found: dict[str, Any]) -> Path:
    (folder / name).write_text(lines(*found))
    sidecar(folder, ended_by="exit", agent_exit_code=1, acceptance_exit_code=1)
    return folder


THREAD = {"type": "thread.started", "thread_id": "t"}
# As each program writes it, with a status of 401.
CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": True,
    "api_error_status": 401,
    "result": "Invalid API key · Fix external API key",
}
CODEX = {
    "type": "turn.failed",
    "error": {"message": "unexpected status 401 Unauthorized: Incorrect API key provided., url: u"},
}
OPENCODE = {
    "type": "error",
    "timestamp": 1_794_815_480_443,
    "sessionID": "ses_1",
    "error": {"name": "APIError", "data": {"message": "Incorrect API key.", "statusCode": 401}},
}
INIT = {"type": "init", "timestamp": "2026-11-16T07:51:07Z", "session_id": "s", "model": "m"}
GEMINI = {
    "type": "result",
    "timestamp": "2026-11-16T07:51:07Z",
    "status": "error",
    "error": {
        "type": "unknown",
        "message": '[API Error: {"error":{"code":401,"message":"Not authenticated."}}]',
    },
}
# With which Google refuses a wrong key.
GOOGLE = json.loads(json.dumps(GEMINI))
GOOGLE["error"]["message"] = (
    '[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",'
    '"status":"INVALID_ARGUMENT"}}]'
)


@pytest.mark.parametrize(
    ("name", "output", "found"),
    [
        ("claude-code", "stream.jsonl", [CLAUDE]),
        ("codex", "events.jsonl", [THREAD, CODEX]),
        ("opencode", "events.jsonl", [OPENCODE]),
        ("gemini-cli", "stream.jsonl", [INIT, GEMINI]),
        ("gemini-cli", "stream.jsonl", [INIT, GOOGLE]),
    ],
)
def test_the_status_of_a_refusal_is_known(
    name: str, output: str, found: list[dict[str, Any]], tmp_path: Path
) -> None:
    folder = written(tmp_path, output, *found)
    assert refused(name, folder) == {401: 1}
    # While it waited, too.
    sidecar(folder, ended_by="timeout")
    assert refused(name, folder) == {401: 1}


@pytest.mark.parametrize(
    ("name", "case", "status"),
    [
        ("claude-code", "claude-code/real_killed_while_retrying_401", 401),
        ("gemini-cli", "gemini-cli/err_http401_json", 401),
        ("codex", "codex/http429", 429),
        ("opencode", "opencode/err_http429", 429),
    ],
)
def test_real_runs_tell_it(name: str, case: str, status: int) -> None:
    assert refused(name, FIXTURES / case) == {status: 1}


@pytest.mark.parametrize("case", ["codex/ok", "codex/http400ctx", "codex/conn_refused"])
def test_runs_that_were_not_refused_tell_none(case: str) -> None:
    assert refused("codex", FIXTURES / case) == {}


def test_what_a_tool_printed_is_no_refusal(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    item = {
        "type": "command_execution",
        "command": "curl",
        "aggregated_output": "unexpected status 401 Unauthorized",
        "exit_code": 1,
    }
    changed_lines(
        folder / "events.jsonl",
        lambda events: events.insert(3, {"type": "item.completed", "item": item}),
    )
    assert refused("codex", folder) == {}
