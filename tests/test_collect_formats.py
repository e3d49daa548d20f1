"""Every kind of output that the programs really wrote, and the record or the failure it gives."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.collecting import (
    FIXTURES,
    changed,
    changed_lines,
    collected,
    copied,
    only,
    refused,
    set_keys,
    sidecar,
)
from twoarm.errors import BadRunsError

EXPECTED = sorted(FIXTURES.rglob("expected.json"))


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: str(path.parent.relative_to(FIXTURES)))
def test_a_fixture_gives_the_records_written_beside_it(path: Path, tmp_path: Path) -> None:
    expected = json.loads(path.read_text())
    folder = path.parent
    if "beside" in expected:
        # A resumed run needs the folder that it resumed.
        for part in (".", *expected["beside"]):
            source = (folder / part).resolve()
            shutil.copytree(source, tmp_path / source.name)
        folder = tmp_path
    assert collected(expected["format"], folder, **expected["options"]) == expected["records"]


def test_every_fixture_has_its_records() -> None:
    covered = {path.parent for path in EXPECTED}
    files = [path for path in FIXTURES.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if covered.isdisjoint(path.parents)] == []


OK = [
    ("harbor", "harbor/ab-demo/hello__NWPfFvL"),
    ("opencode", "opencode/ok"),
    ("opencode", "opencode-old/ok"),
    ("claude-code", "claude-code/ok"),
    ("codex", "codex/ok"),
    ("inspect", "inspect/ok"),
    ("gemini-cli", "gemini-cli/ok_json"),
    ("gemini-cli", "gemini-cli/ok_stream"),
    ("mini-swe-agent", "mini-swe-agent/ok"),
]


@pytest.mark.parametrize(("name", "case"), OK)
def test_one_conversation_spends_the_same_through_every_format(name: str, case: str) -> None:
    record = only(name, FIXTURES / case)
    counts = [record[f"{kind}_tokens"] for kind in ("input", "output", "cache_read")]
    assert counts == [1400, 120, 2100]


def test_one_conversation_spends_the_same_through_a_table() -> None:
    columns = {
        "task_id": "case",
        "repeat": "attempt",
        "success": "passed",
        "duration_seconds": "seconds",
        "total_cost_usd": "usd",
        "input_tokens": "prompt",
        "output_tokens": "completion",
        "cache_read_tokens": "cached",
    }
    found = collected(
        "table",
        FIXTURES / "table",
        arm_key="variant",
        arm_map={"on": "with_x", "off": "without_x"},
        settings={"columns": columns, "input_includes_cache": True},
    )
    assert {(r["input_tokens"], r["output_tokens"], r["cache_read_tokens"]) for r in found} == {
        (1400, 120, 2100)
    }
    assert [(r["arm"], r["repeat"], r["success"]) for r in found] == [
        ("with_x", 1, True),
        ("with_x", 2, True),
        ("without_x", 1, True),
        ("without_x", 2, False),
    ]


# Claude Code -------------------------------------------------------------------------------------


def test_a_claude_stream_without_a_result_was_killed(tmp_path: Path) -> None:
    folder = copied("claude-code/stream", tmp_path)
    changed_lines(folder / "stream.jsonl", lambda lines: lines.pop())
    record = only("claude-code", folder)
    assert record["failure_reason"] == "killed: no result was written"
    counts = [record[f"{k}_tokens"] for k in ("input", "output", "cache_read", "cache_write")]
    assert counts == [12, 150, 30000, 2000], "each message counts once, not once per line"
    assert "spend_incomplete" in record["tags"]
    assert record["duration_seconds"] == 10


def test_claude_usage_without_models_leaves_subagents_out(tmp_path: Path) -> None:
    folder = copied("claude-code/stream", tmp_path)

    def drop_models(lines: list[Any]) -> None:
        lines[-1].pop("modelUsage")
        lines[1]["parent_tool_use_id"] = "toolu_9"

    changed_lines(folder / "stream.jsonl", drop_models)
    record = only("claude-code", folder)
    assert record["input_tokens"] == 12
    assert "subagents_left_out" in record["tags"]


@pytest.mark.parametrize(
    ("keys", "failure", "reason"),
    [
        ({"subtype": "error_max_budget_usd"}, "agent", "budget limit"),
        ({"subtype": "error_during_execution"}, "agent", "error during execution"),
        (
            {"subtype": "error_during_execution", "api_error_status": 529},
            "infra",
            "API error 529: Done.",
        ),
        ({"subtype": "error_never_heard_of"}, "agent", "error_never_heard_of"),
        ({"result": "Not logged in"}, "infra", "API error: Not logged in"),
        ({"result": "Prompt is too long"}, "agent", "context overflow"),
        ({"stop_reason": "refusal"}, "agent", "refused"),
    ],
)
def test_a_claude_result_tells_how_it_ended(
    keys: dict[str, Any], failure: str, reason: str, tmp_path: Path
) -> None:
    folder = copied("claude-code/result_success", tmp_path)
    set_keys(folder / "result.json", is_error=True, **keys)
    record = only("claude-code", folder)
    assert (record["failure"], record["failure_reason"]) == (failure, reason)


def test_the_older_name_of_a_claude_cost(tmp_path: Path) -> None:
    folder = copied("claude-code/result_success", tmp_path)
    changed(folder / "result.json", lambda d: d.update(cost_usd=d.pop("total_cost_usd")))
    assert only("claude-code", folder)["total_cost_usd"] == 0.0265


# Codex -------------------------------------------------------------------------------------------


def test_a_resumed_codex_thread_is_charged_for_its_own_part_only() -> None:
    found = collected("codex", FIXTURES / "codex", may_differ=["model"])
    resumed = next(record for record in found if record["task_id"] == "resume")
    counts = [resumed[f"{kind}_tokens"] for kind in ("input", "output", "cache_read")]
    assert counts == [200, 30, 1100]


def test_a_codex_thread_met_twice_is_refused_unless_it_says_what_it_resumed(
    tmp_path: Path,
) -> None:
    for case in ("ok", "resume"):
        folder = copied(f"codex/{case}", tmp_path)
        (folder / "rollout.jsonl").unlink(missing_ok=True)
        sidecar(folder, resumed_from=None)
    with pytest.raises(BadRunsError, match="is also in .*name the earlier run in run.json"):
        collected("codex", tmp_path)
    sidecar(tmp_path / "codex-resume", resumed_from="../codex-ok")
    assert len(collected("codex", tmp_path)) == 2


@pytest.mark.parametrize("resumed", ["../..", "nowhere", "/", "."])
def test_a_resumed_run_must_be_a_run_inside_the_folder(resumed: str, tmp_path: Path) -> None:
    folder = copied("codex/resume", tmp_path / "given")
    sidecar(folder, resumed_from=resumed)
    text = refused("codex", folder)
    assert text.startswith(f"{folder}/run.json: resumed_from `{resumed}` is not another run")


def test_a_codex_rollout_splits_its_turns(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)

    def resume(lines: list[Any]) -> None:
        usage = {"input_tokens": 4800, "cached_input_tokens": 3200, "output_tokens": 150}
        stamp = lines[-1]["timestamp"]
        for payload in (
            {"type": "task_started"},
            {"type": "token_count", "info": {"total_token_usage": usage}},
            {"type": "task_complete", "duration_ms": 90},
        ):
            lines.append({"timestamp": stamp, "type": "event_msg", "payload": payload})

    changed_lines(folder / "rollout.jsonl", resume)
    first = only("codex", folder)
    assert (first["input_tokens"], first["step_count"]) == (1400, 3)
    usage = {"input_tokens": 4800, "cached_input_tokens": 3200, "output_tokens": 150}
    changed_lines(folder / "events.jsonl", lambda events: events[-1].update(usage=usage))
    second = only("codex", folder)
    assert (second["input_tokens"], second["output_tokens"], second["step_count"]) == (200, 30, 1)
    assert second["duration_seconds"] == 0.09


def test_a_codex_rollout_alone_is_a_run(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    (folder / "events.jsonl").unlink()
    record = only("codex", folder)
    assert (record["input_tokens"], record["failure"], record["model"]) == (
        1400,
        None,
        "scripted-ok",
    )
    changed_lines(folder / "rollout.jsonl", lambda lines: lines.pop())
    assert only("codex", folder)["failure_reason"] == "killed: its turn did not end"


def test_tokens_of_a_failed_codex_turn_are_in_its_rollout(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    failed = {"type": "turn.failed", "error": {"message": "boom"}}
    changed_lines(folder / "events.jsonl", lambda events: events.__setitem__(-1, failed))
    record = only("codex", folder)
    assert (record["failure"], record["failure_reason"]) == ("infra", "boom")
    assert record["input_tokens"] == 1400


def test_a_codex_run_without_a_terminal_event_was_killed(tmp_path: Path) -> None:
    folder = copied("codex/flaky_reconnect", tmp_path)
    changed_lines(folder / "events.jsonl", lambda events: events.pop())
    record = only("codex", folder)
    assert (record["failure"], record["input_tokens"]) == ("agent", None)


def test_a_codex_subagent_is_a_caveat(tmp_path: Path) -> None:
    folder = copied("codex/ok", tmp_path)
    item = {"type": "item.completed", "item": {"type": "collab_tool_call"}}
    changed_lines(folder / "events.jsonl", lambda events: events.insert(3, item))
    record = only("codex", folder)
    assert (record["tool_call_count"], record["tags"]) == (3, ["subagents_left_out"])


def test_more_cached_than_input_tokens_are_refused(tmp_path: Path) -> None:
    folder = copied("codex/flaky_reconnect", tmp_path)
    changed_lines(
        folder / "events.jsonl", lambda events: events[-1]["usage"].update(input_tokens=2000)
    )
    assert "2,100 cached tokens, but only 2,000 input tokens" in refused("codex", folder)


# Gemini CLI --------------------------------------------------------------------------------------


def test_a_gemini_stream_without_a_result_was_killed(tmp_path: Path) -> None:
    folder = copied("gemini-cli/ok_stream", tmp_path)
    changed_lines(folder / "stdout.txt", lambda lines: lines.pop())
    record = only("gemini-cli", folder)
    assert record["failure_reason"] == "killed: no result was written"
    assert record["input_tokens"] is None


def test_a_gemini_turn_limit_is_the_agents(tmp_path: Path) -> None:
    folder = copied("gemini-cli/err_http401_json", tmp_path)
    (folder / "stderr.log").write_text(
        'x\n{\n "session_id": "s",\n "error": {"type": "FatalTurnLimitedError", "code": 53}\n}\n'
    )
    record = only("gemini-cli", folder)
    assert (record["failure"], record["failure_reason"]) == ("agent", "turn limit")


def test_gemini_never_says_whether_a_command_passed() -> None:
    record = only("gemini-cli", FIXTURES / "gemini-cli/ok_stream")
    assert record["acceptance_cmd_count"] == 1
    assert "acceptance_first_pass" not in record


# mini-swe-agent ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ("Submitted", None),
        ("LimitsExceeded", "agent"),
        ("TimeExceeded", "agent"),
        ("RepeatedFormatError", "agent"),
        ("ModuleNotFoundError", "infra"),
        ("", "agent"),
        (None, "agent"),
    ],
)
def test_a_mini_swe_agent_status_tells_how_it_ended(
    status: str | None, failure: str | None, tmp_path: Path
) -> None:
    folder = copied("mini-swe-agent/ok", tmp_path)
    changed(folder / "ok.traj.json", lambda d: d["info"].update(exit_status=status))
    assert only("mini-swe-agent", folder)["failure"] == failure


REPORT = {
    "schema_version": 2,
    "resolved_ids": ["ok"],
    # Those of which it says more are listed here as well.
    "unresolved_ids": ["bad", "unclear", "sandbox"],
    "empty_patch_ids": ["empty"],
    "ambiguous_failure_ids": ["unclear"],
    "error_ids": ["broken"],
    "incomplete_ids": ["cut"],
    "infra_failure_ids": ["sandbox"],
}


@pytest.mark.parametrize(
    ("task", "success", "failure"),
    [
        ("ok", True, None),
        ("bad", False, None),
        ("empty", False, None),
        ("unclear", False, None),
        ("broken", False, "infra"),
        ("cut", False, "infra"),
        ("sandbox", False, "infra"),
    ],
)
def test_a_swe_bench_report_tells_success(
    task: str, success: bool, failure: str | None, tmp_path: Path
) -> None:
    import json

    folder = copied("mini-swe-agent/ok", tmp_path)
    (folder / "run.json").unlink()
    (folder / "ok.traj.json").rename(folder / f"{task}.traj.json")
    report = tmp_path / "report.json"
    report.write_text(json.dumps(REPORT))
    record = only("mini-swe-agent", folder, reports={"a": str(report)})
    assert (record["task_id"], record["success"], record["failure"]) == (task, success, failure)
    assert record["duration_seconds"] == pytest.approx(0.108679)
    report.write_text(
        json.dumps({task: {"resolved": success, "infra_failure": failure == "infra"}})
    )
    record = only("mini-swe-agent", folder, reports={"a": str(report)})
    assert (record["success"], record["failure"]) == (success, failure)


def test_without_a_report_success_is_not_known(tmp_path: Path) -> None:
    folder = copied("mini-swe-agent/ok", tmp_path)
    (folder / "run.json").unlink()
    assert 'success is unknown; give `reports={"a": FILE}`' in refused("mini-swe-agent", folder)
    report = tmp_path / "report.json"
    report.write_text('{"resolved_ids": []}')
    text = refused("mini-swe-agent", folder, reports={"a": str(report)})
    assert "task `ok` is not in the report of arm `a`" in text


# Tables ------------------------------------------------------------------------------------------

ROWS = (
    "task_id,success,duration_seconds,input_tokens,output_tokens,reasoning_tokens,failure\n"
    "a,yes,1.5,10,5,2,\n"
    "b,0,2,,,,infra\n"
)


def test_a_csv_row_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ROWS)
    first, second = collected("table", tmp_path)
    assert (first["success"], first["input_tokens"], first["output_tokens"]) == (True, 10, 7)
    assert (second["success"], second["input_tokens"], second["failure"]) == (False, None, "infra")


def test_jsonl_and_parquet_give_the_records_of_the_csv(tmp_path: Path) -> None:
    import json

    import pyarrow
    from pyarrow import parquet

    rows: list[dict[str, Any]] = [
        {
            "task_id": "a",
            "success": True,
            "duration_seconds": 1.5,
            "input_tokens": 10,
            "output_tokens": 5,
            "reasoning_tokens": 2,
            "failure": None,
        },
        {
            "task_id": "b",
            "success": False,
            "duration_seconds": 2.0,
            "input_tokens": None,
            "output_tokens": None,
            "reasoning_tokens": None,
            "failure": "infra",
        },
    ]
    (tmp_path / "t.csv").write_text(ROWS)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    csv, jsonl, columns = (
        collected("table", tmp_path / f"t.{kind}") for kind in ("csv", "jsonl", "parquet")
    )
    assert csv == jsonl == columns


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(Exception, match=r"Parquet needs pyarrow; install `twoarm\[parquet\]`"):
        collected("table", tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",1,1,1,1", "no task_id; column `task_id` is empty"),
        ("t,,1,1,1", "no success; column `success` is empty"),
        ("t,1,,1,1", "no duration; column `duration_seconds` is empty"),
        ("t,maybe,1,1,1", "success: expected true or false, 1 or 0, yes or no, got `maybe`"),
        ("t,1,soon,1,1", "duration_seconds: expected a number, got `soon`"),
        ("t,1,-1,1,1", "duration_seconds: expected a number from 0 to"),
        ("t,1,nan,1,1", "duration_seconds: expected a number from 0 to"),
        ("t,1,1,1.5,1", "input_tokens: expected a whole number, got `1.5`"),
        ("t,1,1,1", "4 cells in a table of 5 columns"),
        ("t,1,1,2100,1", None),
    ],
)
def test_a_bad_cell_is_named_with_its_line(row: str, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"task_id,success,duration_seconds,input_tokens,output_tokens\n{row}\n")
    if message is None:
        assert only("table", path)["input_tokens"] == 2100
        return
    text = refused("table", path)
    assert text.startswith(f"{path}:2: ")
    assert message in text


@pytest.mark.parametrize(
    ("failure", "tags"), [("agent", ["passed_despite_failure"]), ("infra", None)]
)
def test_a_failure_overrides_the_success_of_a_row(
    failure: str, tags: list[str] | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"task_id,success,duration_seconds,failure\nt,1,1,{failure}\n")
    record = only("table", path)
    assert (record["success"], record["failure"], record.get("tags")) == (False, failure, tags)


def test_both_times_of_a_row_are_a_duration(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "task_id,success,started_at_utc,ended_at_utc\n"
        "t,1,2026-11-15T06:00:00.1Z,2026-11-15T08:00:10.4+02:00\n"
    )
    assert only("table", path)["duration_seconds"] == 10.3


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ROWS)
    with pytest.raises(BadRunsError, match="no column `missing` for task_id"):
        collected("table", tmp_path, settings={"columns": {"task_id": "missing"}})
    with pytest.raises(Exception, match="`columns=`: no such field `nonsense`"):
        collected("table", tmp_path, settings={"columns": {"nonsense": "x"}})


def test_columns_inside_objects_are_found_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"test": {"name": "t", "ok": true}, "latency": 3, "kind": {"arm": "b"}}\n'
    )
    columns = {"task_id": "test.name", "success": "test.ok", "duration_seconds": "latency"}
    record = only(
        "table",
        tmp_path,
        arm_key="kind.arm",
        arm_map={"b": "with_x"},
        settings={"columns": columns},
    )
    assert (record["task_id"], record["arm"], record["success"]) == ("t", "with_x", True)
