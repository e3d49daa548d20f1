"""How a run ended: by itself, at a limit, or by a kill; and attempts of one repeat."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import (
    FIXTURES,
    changed,
    changed_lines,
    collected,
    collection,
    copied,
    only,
    records,
    sidecar,
)
from twoarm.errors import BadRunsError

# Program, a run that passed, and a run whose last events are refusals of the provider.
PROGRAMS = [
    ("opencode", "opencode/ok", "opencode/err_http429"),
    ("claude-code", "claude-code/real_ok", "claude-code/real_killed_while_retrying_401"),
    ("codex", "codex/ok", "codex/conn_refused"),
    ("gemini-cli", "gemini-cli/ok_stream", "gemini-cli/err_conn_refused_stream"),
]


def judged(record: dict[str, Any]) -> tuple[bool, str | None, str | None]:
    return record["success"], record["failure"], record.get("failure_reason")


@pytest.mark.parametrize(("name", "case"), [one[:2] for one in PROGRAMS])
@pytest.mark.parametrize(
    ("ended_by", "failure", "reason"),
    [
        (None, None, None),
        ("exit", None, None),
        ("timeout", "agent", "hit the time limit of its runner"),
        ("budget", "agent", "hit the budget limit of its runner"),
        ("output", "agent", "hit the output limit of its runner"),
        ("memory", "agent", "hit the memory limit of its runner"),
        ("killed", "infra", "killed from outside"),
    ],
)
def test_the_runner_knows_better_than_the_output_how_a_run_ended(
    name: str,
    case: str,
    ended_by: str | None,
    failure: str | None,
    reason: str | None,
    tmp_path: Path,
) -> None:
    folder = copied(case, tmp_path)
    sidecar(folder, ended_by=ended_by, agent_exit_code=0)
    record = only(name, folder)
    assert judged(record) == (failure is None, failure, reason)
    assert ("passed_despite_failure" in record.get("tags", ())) == (failure == "agent")


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, _, case in PROGRAMS])
@pytest.mark.parametrize(
    ("ended_by", "failure", "start"),
    [
        (None, "infra", ""),
        ("exit", "infra", ""),
        ("timeout", "infra", "timed out while waiting for the provider: "),
        ("killed", "infra", "killed from outside"),
        ("budget", "agent", "hit the budget limit of its runner"),
        ("output", "agent", "hit the output limit of its runner"),
        ("memory", "agent", "hit the memory limit of its runner"),
    ],
)
def test_a_run_that_was_stopped_while_its_provider_refused_it_is_infra(
    name: str, case: str, ended_by: str | None, failure: str, start: str, tmp_path: Path
) -> None:
    folder = copied(case, tmp_path)
    sidecar(folder, ended_by=ended_by)
    record = only(name, folder)
    assert (record["success"], record["failure"]) == (False, failure)
    assert record["failure_reason"].startswith(start)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("opencode", "opencode/killed_timeout"),
        ("opencode", "opencode/err_http400ctx"),
        ("opencode", "opencode-old/err_model_not_found"),
        ("codex", "codex/http400ctx"),
        ("gemini-cli", "gemini-cli/err_http400ctx_stream"),
        ("mini-swe-agent", "mini-swe-agent/ok"),
    ],
)
def test_a_time_out_is_the_agents_unless_its_last_events_are_refusals(
    name: str, case: str, tmp_path: Path
) -> None:
    """An agent that never reaches a model because its own tool hangs must not be excluded."""
    folder = copied(case, tmp_path)
    sidecar(folder, ended_by="timeout")
    assert judged(only(name, folder)) == (False, "agent", "hit the time limit of its runner")


# Claude Code, as it really writes ----------------------------------------------------------------

STREAM = "stream.jsonl"


@pytest.fixture
def refused_stream(tmp_path: Path) -> Path:
    return copied("claude-code/real_killed_while_retrying_401", tmp_path)


def test_claude_killed_while_it_was_refused_is_infra_without_a_runner_that_tells(
    refused_stream: Path,
) -> None:
    sidecar(refused_stream, ended_by=None)
    reason = "killed while waiting for the provider: authentication_failed (401)"
    assert judged(only("claude-code", refused_stream)) == (False, "infra", reason)


WORK = {"type": "assistant", "message": {"id": "msg_1", "content": []}}
TOOL = {"type": "user", "message": {"content": []}}
NOTE = {"type": "system", "subtype": "task_notification"}
FAILED = {"type": "result", "subtype": "error_during_execution", "is_error": True}
API = {"type": "result", "subtype": "success", "is_error": True, "result": "overloaded"}
LONG = API | {"result": "Prompt is too long"}
DONE = {"type": "result", "subtype": "success", "is_error": False}


@pytest.mark.parametrize(
    ("lines", "failure"),
    [
        ([], "infra"),
        ([NOTE], "infra"),
        ([FAILED], "infra"),
        ([API], "infra"),
        ([WORK], "agent"),
        ([WORK, TOOL, NOTE], "agent"),
        ([WORK, DONE], "agent"),
        ([WORK, LONG], "agent"),
        ([WORK, API], "infra"),
    ],
)
def test_retries_of_claude_count_only_if_nothing_came_after_them(
    lines: list[Any], failure: str, refused_stream: Path
) -> None:
    changed_lines(refused_stream / STREAM, lambda found: found.extend(lines))
    sidecar(refused_stream, ended_by="timeout")
    assert only("claude-code", refused_stream)["failure"] == failure


def test_claude_says_success_when_it_is_stopped_at_its_time_out() -> None:
    record = only("claude-code", FIXTURES / "claude-code" / "real_timeout_exit0")
    assert judged(record) == (False, "agent", "hit the time limit of its runner")
    assert (record["agent_exit_code"], record["duration_seconds"]) == (0, 24.9)
    assert (record["input_tokens"], record["total_cost_usd"]) == (2500, 0.016)


# Other programs ----------------------------------------------------------------------------------


def test_codex_that_reconnected_and_went_on_was_not_refused(tmp_path: Path) -> None:
    folder = copied("codex/flaky_reconnect", tmp_path)
    changed_lines(folder / "events.jsonl", lambda lines: lines.pop())
    sidecar(folder, ended_by="timeout")
    assert only("codex", folder)["failure"] == "agent"
    sidecar(folder, ended_by=None)
    assert judged(only("codex", folder)) == (False, "agent", "killed: its turn did not end")


@pytest.mark.parametrize("keep_events", [True, False])
def test_an_opencode_export_shows_retries(keep_events: bool, tmp_path: Path) -> None:
    folder = copied("opencode/killed_timeout", tmp_path)
    if not keep_events:
        (folder / "events.jsonl").unlink()
    sidecar(folder, ended_by="timeout")
    assert only("opencode", folder)["failure"] == "agent"
    error = {"name": "APIError", "data": {"message": "overloaded"}}

    def retry(export: Any) -> None:
        export["messages"][-1]["parts"].append({"type": "retry", "attempt": 3, "error": error})

    changed(folder / "export.json", retry)
    reason = "timed out while waiting for the provider: overloaded"
    assert judged(only("opencode", folder)) == (False, "infra", reason)
    sidecar(folder, ended_by=None)
    reason = "killed while waiting for the provider: overloaded"
    assert judged(only("opencode", folder)) == (False, "infra", reason)
    changed(
        folder / "export.json",
        lambda export: export["messages"][-1]["parts"].append({"type": "text"}),
    )
    assert only("opencode", folder)["failure"] == "agent"


def test_a_program_that_exits_before_its_end_was_not_killed(tmp_path: Path) -> None:
    folder = copied("opencode/killed_timeout", tmp_path)
    sidecar(folder, ended_by="exit")
    reason = "exited early: its last step did not finish"
    assert judged(only("opencode", folder)) == (False, "agent", reason)


def test_a_set_up_that_failed_comes_before_how_the_run_ended(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    sidecar(folder, ended_by="timeout", setup_exit_code=1)
    assert judged(only("opencode", folder))[1:] == (
        "infra",
        "task setup failed with exit code 1",
    )


# The runner's clock ------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "case"), [one[:2] for one in PROGRAMS])
def test_the_clock_of_the_runner_wins(name: str, case: str, tmp_path: Path) -> None:
    folder = copied(case, tmp_path)
    sidecar(folder, duration_seconds=3.25)
    record = only(name, folder)
    assert record["duration_seconds"] == 3.25
    assert not any(tag.startswith("duration_") for tag in record.get("tags", ()))
    sidecar(folder, duration_seconds=3.25, started_at_utc=None, ended_at_utc=None)
    assert only(name, folder)["duration_seconds"] == 3.25


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"duration_seconds": -1}, "at `$.duration_seconds`"),
        ({"duration_seconds": 2**53}, "at `$.duration_seconds`"),
        ({"ended_by": "signal"}, "invalid enum value 'signal' - at `$.ended_by`"),
    ],
)
def test_a_bad_end_is_named(keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    sidecar(folder, **keys)
    with pytest.raises(BadRunsError) as caught:
        collected("opencode", folder)
    assert message in str(caught.value)


# Attempts of one repeat --------------------------------------------------------------------------


def attempts(tmp_path: Path, *given: tuple[str, str]) -> Path:
    """Runs of one repeat: of each its fixture, and the minute of the hour it started in."""
    for number, (case, minute) in enumerate(given):
        folder = copied(case, tmp_path / "runs" / f"t.1.{number}")
        start = f"2026-11-15T06:{minute}:00Z"
        sidecar(folder, task_id="t", repeat=1, run_id=str(number), model="scripted-ok")
        sidecar(folder, started_at_utc=start, ended_at_utc=None, duration_seconds=1.0)
    return tmp_path / "runs"


OK, INFRA, FAILURE = "opencode/ok", "opencode/err_http429", "opencode/permission_rejected"
SAME: dict[str, Any] = {"may_differ": ["model", "version"]}


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ([(INFRA, "01"), (OK, "02")], "01"),
        ([(OK, "02"), (INFRA, "01")], "10"),
        ([(INFRA, "01"), (INFRA, "02")], "01"),
        ([(INFRA, "03"), (INFRA, "01"), (FAILURE, "04")], "102"),
    ],
)
def test_attempts_of_one_repeat_are_accepted_if_all_but_the_last_are_infra(
    given: list[tuple[str, str]], order: str, tmp_path: Path
) -> None:
    runs = attempts(tmp_path, *given)
    with collection("opencode", runs, **SAME) as found:
        made = records(found)
        codes = [caveat.code for caveat in found.caveats]
    assert "".join(record["run_id"] for record in made) == order
    assert {record["repeat"] for record in made} == {1}
    assert "attempted_again" in codes
    out = tmp_path / "out.jsonl"
    out.write_text("".join(json.dumps(record) + "\n" for record in made))
    assert twoarm("check", str(out)).code == 0


@pytest.mark.parametrize(
    ("given", "where", "message"),
    [
        ([(OK, "01"), (OK, "02")], 1, "is already in"),
        ([(INFRA, "01"), (OK, "02"), (FAILURE, "03")], 2, "is already in"),
        ([(OK, "01"), (INFRA, "02")], 1, "is already in"),
        ([(INFRA, "03"), (OK, "02"), (INFRA, "01")], 0, "is already in"),
    ],
)
def test_a_repeat_that_was_done_is_not_attempted_again(
    given: list[tuple[str, str]], where: int, message: str, tmp_path: Path
) -> None:
    runs = attempts(tmp_path, *given)
    for skip_bad in (False, True):
        with pytest.raises(BadRunsError) as caught:
            collected("opencode", runs, skip_bad=skip_bad, **SAME)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{runs}/t.1.{where}/")
        assert caught.value.count == 1


def test_attempts_without_times_are_in_the_order_they_are_found_in(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    head = "task_id,repeat,success,duration_seconds,failure,run_id\n"
    infra, done = "t,1,false,1,infra,{}\n", "t,1,true,1,,{}\n"
    path.write_text(head + infra.format("x") + done.format("y"))
    assert [record["run_id"] for record in collected("table", path)] == ["x", "y"]
    path.write_text(head + done.format("y") + infra.format("x"))
    with pytest.raises(BadRunsError, match=r"t.csv:3: .* is already in .*t.csv:2; give each"):
        collected("table", path)


def test_attempts_are_numbered_apart_on_request(tmp_path: Path) -> None:
    runs = attempts(tmp_path, (INFRA, "01"), (OK, "02"))
    made = collected("opencode", runs, renumber=True, **SAME)
    assert [record["repeat"] for record in made] == [1, 2]
