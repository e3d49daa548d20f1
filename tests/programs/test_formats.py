"""Every kind of output that the programs really wrote, and the record or the failure it gives."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    FIXTURES,
    TABLE_COLUMNS,
    changed,
    changed_lines,
    collected,
    copied,
    only,
    refused,
    set_keys,
)

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
    found = collected(
        "table",
        FIXTURES / "table",
        arm_key="variant",
        arm_map={"on": "with_x", "off": "without_x"},
        settings={"columns": TABLE_COLUMNS, "input_includes_cache": True},
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
