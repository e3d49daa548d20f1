"""The sidecar `run.json`: what it decides, what it must hold, and what is said if it does not."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    changed,
    changed_lines,
    collected,
    copied,
    only,
    refusal,
    sidecar,
)
from twoarm.errors import BadRunsError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return copied("opencode/ok", tmp_path)


@pytest.mark.parametrize(
    ("keys", "success", "reason"),
    [
        ({}, True, None),
        ({"acceptance_exit_code": 1}, False, None),
        ({"setup_exit_code": 3}, False, "task setup failed with exit code 3"),
        ({"arm_setup_exit_code": 4}, False, "arm setup failed with exit code 4"),
        ({"setup_exit_code": 0, "arm_setup_exit_code": 0}, True, None),
        ({"agent_exit_code": 1}, True, None),
        (
            {"agent_exit_code": 1, "acceptance_exit_code": 99},
            False,
            "agent exit code not 0 and acceptance never ran",
        ),
        ({"acceptance_exit_code": 99}, False, None),
    ],
)
def test_exit_codes_decide_nothing_but_acceptance_and_set_up(
    keys: dict[str, Any], success: bool, reason: str | None, run: Path
) -> None:
    sidecar(run, **keys)
    record = only("opencode", run)
    assert (record["success"], record.get("failure_reason")) == (success, reason)
    assert record["failure"] == ("infra" if reason else None)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"acceptance_exit_code": None}, "acceptance_exit_code is null, but the agent finished"),
        ({"task_id": ""}, "length >= 1 - at `$.task_id`"),
        ({"repeat": 0}, ">= 1 - at `$.repeat`"),
        ({"acceptance_exit_cod": 1}, "unknown field `acceptance_exit_cod`"),
        ({"started_at_utc": "yesterday"}, "$.started_at_utc"),
        ({"score": 1.5}, "<= 1.0 - at `$.score`"),
        ({"checks": {"unit": 1}}, "$.checks"),
        ({"ended_at_utc": "2026-11-15T05:00:00Z"}, "ended_at_utc is before started_at_utc"),
    ],
)
def test_a_bad_sidecar_is_named(keys: dict[str, Any], message: str, run: Path) -> None:
    sidecar(run, **keys)
    text = refusal("opencode", run)
    assert text.startswith(f"{run}/run.json: ")
    assert message in text


def test_a_missing_key_of_the_sidecar_is_named(run: Path) -> None:
    changed(run / "run.json", lambda document: document.pop("acceptance_exit_code"))
    assert "missing required field `acceptance_exit_code`" in refusal("opencode", run)


def test_a_run_folder_without_a_sidecar_is_refused(run: Path) -> None:
    (run / "run.json").unlink()
    assert f"{run}: no run.json beside events.jsonl" in refusal("opencode", run)


def test_when_every_input_is_bad_they_are_listed_even_if_they_may_be_skipped(run: Path) -> None:
    (run / "run.json").unlink()
    with pytest.raises(BadRunsError, match="no run.json beside events.jsonl"):
        collected("opencode", run, skip_bad=True)


def test_a_sidecar_without_a_run_is_refused(tmp_path: Path) -> None:
    sidecar(tmp_path)
    assert f"{tmp_path}: neither events.jsonl nor export.json of opencode" in refusal(
        "opencode", tmp_path
    )


def test_a_killed_agent_took_as_long_as_it_was_waited_for(tmp_path: Path) -> None:
    folder = copied("opencode/killed_timeout", tmp_path)
    sidecar(folder, started_at_utc=None, ended_at_utc=None)
    assert only("opencode", folder)["duration_seconds"] == 6.343


def test_without_any_clock_there_is_no_run(tmp_path: Path) -> None:
    folder = copied("codex/flaky_reconnect", tmp_path)
    sidecar(folder, started_at_utc=None, ended_at_utc=None)
    with pytest.raises(BadRunsError, match="no duration; write started_at_utc and ended_at_utc"):
        collected("codex", folder)


@pytest.mark.parametrize(
    ("name", "case", "command"),
    [
        ("opencode", "opencode/ok", 'test "$(cat hello.txt)" = "hello world"'),
        ("codex", "codex/ok", 'test "$(cat hello.txt)" = "hello world"'),
        ("claude-code", "claude-code/ok", 'test "$(cat hello.txt)" = "hello world"'),
        ("mini-swe-agent", "mini-swe-agent/ok", "grep -qx 'hello world' hello.txt"),
    ],
)
def test_the_agents_own_acceptance_commands_are_counted(
    name: str, case: str, command: str, tmp_path: Path
) -> None:
    folder = copied(case, tmp_path)
    sidecar(folder, acceptance_command=command)
    record = only(name, folder)
    assert (record["acceptance_cmd_count"], record["acceptance_first_pass"]) == (1, True)
    sidecar(folder, acceptance_command="make never")
    record = only(name, folder)
    assert record["acceptance_cmd_count"] == 0
    assert "acceptance_first_pass" not in record


def test_a_failed_first_acceptance_command_is_told(run: Path) -> None:
    def fail(events: list[Any]) -> None:
        events[5]["part"]["state"]["metadata"]["exit"] = 1

    changed_lines(run / "events.jsonl", fail)
    assert only("opencode", run)["acceptance_first_pass"] is False


@pytest.mark.parametrize("name", ["opencode", "codex", "claude-code", "mini-swe-agent"])
def test_a_sidecar_may_have_a_score_and_checks(name: str, tmp_path: Path) -> None:
    folder = copied(f"{name}/ok", tmp_path)
    sidecar(folder, score=0.5, checks={"unit": True, "lint": None})
    record = only(name, folder)
    assert (record["score"], record["checks"]) == (0.5, {"unit": True, "lint": None})
