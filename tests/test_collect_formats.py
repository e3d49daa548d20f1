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
    sidecar,
)
from twoarm.errors import BadRunsError

EXPECTED = sorted(FIXTURES.rglob("expected.json"))

FIELDS = (
    "success",
    "failure",
    "failure_reason",
    "duration_seconds",
    "total_cost_usd",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "step_count",
    "tool_call_count",
)


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


def refused(name: str, folder: Path, **options: Any) -> str:
    """What is said about the one input of a folder that gives no run."""
    with pytest.raises(BadRunsError) as caught:
        collected(name, folder, **options)
    assert caught.value.count == 1
    text = str(caught.value)
    assert text.startswith(str(folder))
    return text


# Harbor ------------------------------------------------------------------------------------------


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    return copied("harbor/ab-demo/hello__NWPfFvL", tmp_path)


def set_keys(path: Path, **keys: Any) -> None:
    changed(path, lambda document: document.update(keys))


@pytest.mark.parametrize(
    ("exception", "failure"),
    [
        ("AgentTimeoutError", "agent"),
        ("ContextWindowExceededError", "agent"),
        ("ContextLengthExceededError", "agent"),
        ("OutputTokenExceededError", "agent"),
        ("OutputLengthExceededError", "agent"),
        ("AgentSafetyRefusalError", "agent"),
        ("ContentPolicyViolationError", "agent"),
        ("ApiRateLimitError", "infra"),
        ("AuthenticationError", "infra"),
        ("VerifierTimeoutError", "infra"),
        ("RewardFileNotFoundError", "infra"),
        ("NonZeroAgentExitCodeError", "infra"),
        ("CancelledError", "infra"),
        ("NeverHeardOfError", "infra"),
    ],
)
def test_harbor_exceptions_are_the_agents_own_or_infra(
    trial: Path, exception: str, failure: str
) -> None:
    set_keys(trial / "result.json", exception_info={"exception_type": exception})
    record = only("harbor", trial)
    assert (record["failure"], record["failure_reason"]) == (failure, exception)
    assert record["success"] is False
    assert ("passed_despite_failure" in record.get("tags", [])) is (failure == "agent")


def test_a_harbor_trial_whose_setup_failed_has_neither_result_nor_reward(trial: Path) -> None:
    set_keys(
        trial / "result.json",
        agent_result=None,
        verifier_result=None,
        agent_execution=None,
        exception_info={"exception_type": "AgentSetupError"},
    )
    record = only("harbor", trial)
    assert (record["failure"], record["input_tokens"]) == ("infra", None)
    assert record["duration_seconds"] == 0.029423
    assert "duration_whole_trial" in record["tags"]


def test_a_harbor_trial_without_a_reward_is_infra(trial: Path) -> None:
    set_keys(trial / "result.json", verifier_result=None)
    assert only("harbor", trial)["failure_reason"] == "no reward: the verifier did not run"


@pytest.mark.parametrize(
    ("rewards", "settings", "success"),
    [
        ({"reward": 1.0}, {}, True),
        ({"reward": 0.9}, {}, False),
        ({"reward": 0.9}, {"threshold": 0.5}, True),
        ({"tests": 1.0}, {}, True),
        ({"tests": 1.0, "style": 0.0}, {"scorer": "style"}, False),
        ({"tests": 1.0, "reward": 0.0}, {}, False),
        ({"tests": 1.0, "reward": 0.0}, {"scorer": "tests"}, True),
    ],
)
def test_a_harbor_reward_is_compared_with_the_threshold(
    trial: Path, rewards: dict[str, float], settings: dict[str, Any], success: bool
) -> None:
    set_keys(trial / "result.json", verifier_result={"rewards": rewards})
    assert only("harbor", trial, settings=settings)["success"] is success


def test_a_partial_harbor_reward_is_said(trial: Path) -> None:
    set_keys(trial / "result.json", verifier_result={"rewards": {"reward": 0.5}})
    assert only("harbor", trial)["tags"] == ["partial_reward"]


def test_several_harbor_rewards_must_be_chosen_from(trial: Path) -> None:
    set_keys(trial / "result.json", verifier_result={"rewards": {"a": 1, "b": 0}})
    assert "rewards `a`, `b`; choose one with --scorer" in refused("harbor", trial)


def test_the_steps_of_a_harbor_trial_are_added_up(trial: Path) -> None:
    phase = {"started_at": "2026-11-15T06:21:16Z", "finished_at": "2026-11-15T06:21:18.5Z"}
    step = {
        "agent_result": {
            "n_input_tokens": 3500,
            "n_cache_tokens": 2100,
            "n_output_tokens": 120,
            "cost_usd": 0.5,
        },
        "verifier_result": {"rewards": {"reward": 1.0}},
        "agent_execution": phase,
    }
    set_keys(
        trial / "result.json",
        agent_result=None,
        verifier_result=None,
        agent_execution=None,
        step_results=[step, step | {"verifier_result": {"rewards": {"reward": 0.0}}}],
    )
    record = only("harbor", trial)
    assert (record["input_tokens"], record["output_tokens"]) == (2800, 240)
    assert (record["duration_seconds"], record["total_cost_usd"]) == (5, 1)
    assert record["success"] is False, "the least of its steps"
    changed(trial / "result.json", lambda d: d["step_results"].pop())
    assert only("harbor", trial)["success"] is True


def trajectory(folder: Path, **extra: int) -> None:
    import json

    (folder / "agent").mkdir(exist_ok=True)
    steps = [
        {"source": "user"},
        {"tool_calls": [{}, {}], "metrics": {"extra": extra}},
        {"tool_calls": [{}], "metrics": {"extra": None}},
    ]
    document = {"session_id": "s", "steps": steps, "final_metrics": {"total_steps": 3}}
    (folder / "agent" / "trajectory.json").write_text(json.dumps(document))


def test_a_harbor_trajectory_gives_steps_tools_and_session(trial: Path) -> None:
    trajectory(trial)
    record = only("harbor", trial)
    assert (record["step_count"], record["tool_call_count"], record["session_id"]) == (3, 3, "s")


def test_what_claude_writes_to_the_cache_is_split_from_harbors_input(trial: Path) -> None:
    changed(trial / "result.json", lambda d: d["agent_info"].update(name="claude-code"))
    assert only("harbor", trial)["tags"] == ["cache_write_inside_input"]
    trajectory(trial, cache_creation_input_tokens=300)
    record = only("harbor", trial)
    assert (record["input_tokens"], record["cache_write_tokens"]) == (1100, 300)


def test_what_opencode_counts_beside_its_output_is_added_from_harbors_trajectory(
    trial: Path,
) -> None:
    told = {"name": "opencode", "version": "1.18.33"}
    changed(trial / "result.json", lambda d: d["agent_info"].update(told))
    assert only("harbor", trial)["tags"] == ["reasoning_left_out"]
    trajectory(trial, reasoning_tokens=10, cache_write_tokens=7)
    record = only("harbor", trial)
    assert (record["output_tokens"], record["cache_write_tokens"]) == (130, 7)
    assert record["input_tokens"] == 1400
    changed(trial / "result.json", lambda d: d["agent_info"].update(version="1.3.15"))
    assert only("harbor", trial)["output_tokens"] == 120


def test_zero_usage_of_a_harbor_trial_is_not_known(trial: Path) -> None:
    zeros = {"n_input_tokens": 0, "n_cache_tokens": 0, "n_output_tokens": 0, "cost_usd": None}
    set_keys(trial / "result.json", agent_result=zeros)
    record = only("harbor", trial)
    assert (record["input_tokens"], record["output_tokens"]) == (None, None)
    assert record["tags"] == ["usage_unknown"]


def test_an_unfinished_harbor_trial_is_listed(trial: Path) -> None:
    (trial / "result.json").unlink()
    assert refused("harbor", trial) == f"{trial}: no result.json; the trial did not finish"


def test_a_job_is_not_a_trial() -> None:
    found = collected(
        "harbor",
        FIXTURES / "harbor",
        arm_key="config.agent.kwargs.behaviour",
        arm_map={"solve": "with_x", "fail": "without_x"},
    )
    rows = [(r["task_id"], r["arm"], r["repeat"], r["success"]) for r in found]
    assert rows == [
        ("hello", "with_x", 1, True),
        ("hello", "with_x", 2, True),
        ("hello", "without_x", 1, False),
        ("hello", "without_x", 2, False),
        ("hello2", "with_x", 1, True),
        ("hello2", "with_x", 2, True),
        ("hello2", "without_x", 1, False),
        ("hello2", "without_x", 2, False),
    ]
    assert found[0]["started_at_utc"] < found[1]["started_at_utc"]


# opencode ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["events.jsonl", "export.json"])
@pytest.mark.parametrize("case", ["ok", "killed_timeout", "length", "permission_rejected"])
def test_opencode_events_and_export_tell_the_same(kept: str, case: str, tmp_path: Path) -> None:
    both = only("opencode", FIXTURES / "opencode" / case)
    folder = copied(f"opencode/{case}", tmp_path)
    for name in {"events.jsonl", "export.json"} - {kept}:
        (folder / name).unlink()
    alone = only("opencode", folder)
    fields = [f for f in FIELDS if f != "duration_seconds"]
    assert [alone.get(field) for field in fields] == [both.get(field) for field in fields]
    if kept == "events.jsonl":
        assert "duration_wall_clock" in alone["tags"]


@pytest.mark.parametrize(
    ("version", "included"),
    [
        ("1.1.53", True),
        ("1.3.10-beta", True),
        ("1.3.15", True),
        ("1.3.16", False),
        ("1.18.33", False),
    ],
)
def test_opencode_counts_reasoning_inside_or_beside_its_output(
    version: str, included: bool, tmp_path: Path, trial: Path
) -> None:
    folder = copied("opencode/ok", tmp_path)
    changed(folder / "export.json", lambda d: d["info"].update(version=version))
    assert only("opencode", folder)["output_tokens"] == (110 if included else 120)
    info = {"name": "opencode", "version": version}
    changed(trial / "result.json", lambda d: d["agent_info"].update(info))
    trajectory(trial, reasoning_tokens=10)
    assert only("harbor", trial)["output_tokens"] == (120 if included else 130)


def test_opencode_events_alone_tell_the_meaning_of_output_by_their_totals(tmp_path: Path) -> None:
    folder = copied("opencode-old/ok", tmp_path)
    (folder / "export.json").unlink()
    assert "reasoning tokens that the output count may or may not include" in refused(
        "opencode", folder
    )

    def add_totals(events: list[Any]) -> None:
        for event in events:
            tokens = event.get("part", {}).get("tokens")
            if tokens:
                cache = tokens["cache"]
                tokens["total"] = tokens["input"] + tokens["output"] + cache["read"]

    changed_lines(folder / "events.jsonl", add_totals)
    assert only("opencode", folder)["output_tokens"] == 120


def test_an_opencode_subagent_without_its_export_is_a_caveat(tmp_path: Path) -> None:
    folder = copied("opencode/subagent", tmp_path)
    (folder / "export.child.json").unlink()
    record = only("opencode", folder)
    assert (record["input_tokens"], record["total_cost_usd"]) == (1200, 0.00189)
    assert "subagents_left_out" in record["tags"]


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("stop", None),
        ("length", None),
        ("tool-calls", "agent"),
        ("content-filter", "agent"),
        ("unknown", "infra"),
        ("error", "infra"),
    ],
)
def test_the_last_opencode_step_decides(reason: str, failure: str | None, tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    changed_lines(folder / "events.jsonl", lambda e: e[-1]["part"].update(reason=reason))
    assert only("opencode", folder)["failure"] == failure


@pytest.mark.parametrize(
    ("names", "failure"),
    [
        (["ContextOverflowError"], "agent"),
        (["MessageOutputLengthError"], "agent"),
        (["APIError"], "infra"),
        (["ProviderAuthError"], "infra"),
        (["ContextOverflowError", "APIError"], "infra"),
    ],
)
def test_opencode_errors_come_before_the_last_step(
    names: list[str], failure: str, tmp_path: Path
) -> None:
    folder = copied("opencode/ok", tmp_path)

    def add_errors(events: list[Any]) -> None:
        for name in names:
            error = {"name": name, "data": {"message": "m"}}
            events.append({"type": "error", "timestamp": 1, "sessionID": "ses_x", "error": error})

    changed_lines(folder / "events.jsonl", add_errors)
    assert only("opencode", folder)["failure"] == failure


def test_opencode_events_that_miss_steps_of_the_export_are_a_caveat(tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path)
    changed_lines(folder / "events.jsonl", lambda events: events.pop(3))
    record = only("opencode", folder)
    assert record["input_tokens"] == 1400
    assert record["tags"] == ["sources_disagree"]


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


# Inspect -----------------------------------------------------------------------------------------

ARMS = {
    "arm_key": "eval.task_args.arm",
    "arm_map": {"baseline": "without_x", "treatment": "with_x"},
}


@pytest.mark.parametrize("kind", ["json", "eval"])
def test_inspect_logs_give_a_run_per_sample_and_epoch(kind: str) -> None:
    found = collected("inspect", FIXTURES / "inspect" / kind, **ARMS)
    assert [(r["task_id"], r["arm"], r["repeat"]) for r in found] == [
        (task, arm, epoch)
        for task in ("sum-1", "sum-2")
        for arm in ("with_x", "without_x")
        for epoch in (1, 2, 3)
    ]
    assert {(r["input_tokens"], r["output_tokens"]) for r in found} == {(130, 30)}
    assert {(r["cache_read_tokens"], r["cache_write_tokens"]) for r in found} == {(180, 80)}
    assert [r["success"] for r in found if r["arm"] == "with_x"] == [True] * 3 + [False] * 3


def test_an_inspect_sample_that_raised_is_infra() -> None:
    found = collected("inspect", FIXTURES / "inspect" / "errors")
    failed = [record for record in found if record["failure"]]
    assert len(found) == 6
    assert [(r["task_id"], r["repeat"], r["failure"]) for r in failed] == [("sum-2", 2, "infra")]
    assert failed[0]["failure_reason"] == "RuntimeError('sandbox died (scripted)')"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return copied("inspect/ok", tmp_path) / "ok.json"


def set_sample(log: Path, **keys: Any) -> None:
    changed(log, lambda document: document["samples"][0].update(keys))


@pytest.mark.parametrize(
    ("value", "settings", "success"),
    [
        ("C", {}, True),
        ("I", {}, False),
        (1, {}, True),
        (0.0, {}, False),
        (True, {}, True),
        ("P", {"threshold": 0.5}, True),
        ("N", {"threshold": 0.5}, False),
        (0.7, {"threshold": 0.8}, False),
        (0.7, {"threshold": 0.7}, True),
    ],
)
def test_an_inspect_score_is_a_success_or_not(
    log: Path, value: Any, settings: dict[str, Any], success: bool
) -> None:
    set_sample(log, scores={"match": {"value": value}})
    assert only("inspect", log, settings=settings)["success"] is success


@pytest.mark.parametrize("value", ["P", "N", 0.7])
def test_an_inspect_score_in_between_needs_a_threshold(log: Path, value: Any) -> None:
    set_sample(log, scores={"match": {"value": value}})
    assert "--threshold sets the least that is a success" in refused("inspect", log)


def test_an_inspect_scorer_is_chosen_or_the_headline_one(log: Path) -> None:
    set_sample(log, scores={"match": {"value": "C"}, "includes": {"value": "I"}})
    assert only("inspect", log)["success"] is True
    assert only("inspect", log)["tags"] == ["scorer_chosen"]
    chosen = only("inspect", log, settings={"scorer": "includes"})
    assert chosen["success"] is False
    assert "tags" not in chosen
    assert "choose one of `includes`, `match`" in refused(
        "inspect", log, settings={"scorer": "missing"}
    )


@pytest.mark.parametrize(
    ("kind", "score", "failure", "success"),
    [
        ("message", "I", "agent", False),
        ("message", "C", None, True),
        ("token", "C", None, True),
        ("time", "C", "agent", False),
        ("working", "C", "agent", False),
        ("context", "C", "agent", False),
        ("operator", "C", "infra", False),
    ],
)
def test_an_inspect_limit_is_the_agents(
    log: Path, kind: str, score: str, failure: str | None, success: bool
) -> None:
    set_sample(log, scores={"match": {"value": score}}, limit={"type": kind, "limit": 10})
    record = only("inspect", log)
    assert (record["failure"], record["success"]) == (failure, success)


@pytest.mark.parametrize(
    ("version", "total", "counted"),
    [
        ("0.3.285", 3620, 1400),
        ("0.3.185", 3620, 1400),
        ("0.3.180", 3620, 1400),
        ("0.3.180", 1520, None),
        ("0.3.180", 3500 + 120, 1400),
    ],
)
def test_inspect_input_excludes_the_cache_since_0_3_185(
    log: Path, version: str, total: int, counted: int | None
) -> None:
    changed(log, lambda d: d["eval"]["packages"].update(inspect_ai=version))
    changed(
        log,
        lambda d: d["samples"][0]["model_usage"]["mockllm/model"].update(total_tokens=total),
    )
    if counted is None:
        assert "2,100 cached tokens, but only 1,400 input tokens" in refused("inspect", log)
    else:
        assert only("inspect", log)["input_tokens"] == counted


def test_an_old_inspect_log_that_counts_the_cache_as_input_is_told_by_its_total(
    log: Path,
) -> None:
    changed(log, lambda d: d["eval"]["packages"].update(inspect_ai="0.3.160"))
    changed(
        log,
        lambda d: d["samples"][0]["model_usage"]["mockllm/model"].update(
            input_tokens=3500, total_tokens=3620
        ),
    )
    assert only("inspect", log)["input_tokens"] == 1400
    changed(log, lambda d: d["samples"][0]["model_usage"]["mockllm/model"].update(total_tokens=9))
    assert "may or may not include the cache" in refused("inspect", log)


def test_an_inspect_grader_is_not_the_agent(log: Path) -> None:
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    changed(log, lambda d: d["samples"][0]["model_usage"].update({"grader/model": usage}))
    record = only("inspect", log)
    assert record["input_tokens"] == 1400
    assert "other_models_left_out" in record["tags"]


def test_inspect_offers_both_times(log: Path) -> None:
    assert only("inspect", log)["duration_seconds"] == 0.693
    assert only("inspect", log, settings={"working_time": True})["duration_seconds"] == 0.692


def test_an_inspect_log_that_did_not_finish_is_a_caveat(log: Path) -> None:
    set_keys(log, status="error")
    assert "log_unfinished" in only("inspect", log)["tags"]


def test_inspect_tasks_that_share_ids_are_told_apart_on_request(tmp_path: Path) -> None:
    folder = FIXTURES / "inspect"
    with pytest.raises(Exception, match="eval.task is `sums`, but `sums_boom`"):
        collected("inspect", folder / "errors", folder / "eval", **ARMS)
    found = collected(
        "inspect", folder / "errors", folder / "eval", settings={"task_names": True}, **ARMS
    )
    assert {record["task_id"] for record in found} == {
        "sums/sum-1",
        "sums/sum-2",
        "sums_boom/sum-1",
        "sums_boom/sum-2",
    }


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
    assert "success is unknown; give --report a=FILE" in refused("mini-swe-agent", folder)
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
        (",1,1,1,1", "no task_id; name its column with --map task_id=COLUMN"),
        ("t,,1,1,1", "no success; name its column with --map success=COLUMN"),
        ("t,1,,1,1", "no duration; name its column with --map duration_seconds=COLUMN"),
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
    with pytest.raises(Exception, match="--map `nonsense`: no such field"):
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
