"""Harbor, and opencode, which it often runs: what their files say, and what is made of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    FIXTURES,
    changed,
    changed_lines,
    collected,
    copied,
    only,
    refused,
    set_keys,
)

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


# Harbor ------------------------------------------------------------------------------------------


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    return copied("harbor/ab-demo/hello__NWPfFvL", tmp_path)


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
    assert "rewards `a`, `b`; choose one with `scorer=`" in refused("harbor", trial)


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


@pytest.mark.parametrize(
    ("rewards", "settings", "score", "checks"),
    [
        ({"reward": 0.25}, {}, 0.25, None),
        ({"reward": 2.0}, {}, None, None),
        ({"reward": -0.5}, {}, None, None),
        ({"reward": 0.5, "unit": 1, "lint": 0.0}, {}, 0.5, {"unit": True, "lint": False}),
        ({"reward": 0.5, "unit": 1, "prose": 0.7}, {}, 0.5, {"unit": True, "prose": None}),
        ({"reward": 0.5, "unit": 1, "prose": None}, {}, 0.5, {"unit": True, "prose": None}),
        ({"reward": 0.5, "prose": 0.7, "": 1}, {}, 0.5, None),
        ({"reward": 0, "unit": 1}, {"scorer": "unit"}, 1.0, {"reward": False}),
        (
            {"reward": 0, **{f"c{i}": 1 for i in range(50)}},
            {},
            0.0,
            {f"c{i}": True for i in range(50)},
        ),
        ({"reward": 0, **{f"c{i}": 1 for i in range(51)}}, {}, 0.0, None),
    ],
)
def test_a_harbor_reward_is_the_score_and_the_others_are_checks(
    trial: Path,
    rewards: dict[str, float],
    settings: dict[str, Any],
    score: float | None,
    checks: dict[str, bool | None] | None,
) -> None:
    set_keys(trial / "result.json", verifier_result={"rewards": rewards})
    record = only("harbor", trial, settings=settings)
    assert (record.get("score"), record.get("checks")) == (score, checks)


def test_a_harbor_reward_that_is_not_valid_is_no_score(trial: Path) -> None:
    raised = {"exception_type": "VerifierTimeoutError"}
    rewards = {"rewards": {"reward": 0.5, "unit": 1}}
    set_keys(trial / "result.json", verifier_result=rewards, exception_info=raised)
    assert {"score", "checks"}.isdisjoint(only("harbor", trial))
    set_keys(trial / "result.json", exception_info={"exception_type": "AgentTimeoutError"})
    assert only("harbor", trial)["score"] == 0.5


def test_a_harbor_trial_in_steps_has_the_least_of_each_reward(trial: Path) -> None:
    def step(**rewards: float | None) -> dict[str, Any]:
        return {"verifier_result": {"rewards": rewards}}

    steps = [
        step(reward=0.5, unit=1, lint=0, types=1, docs=1),
        step(reward=0.75, unit=0, lint=1, types=1, docs=None),
    ]
    set_keys(trial / "result.json", verifier_result=None, step_results=steps)
    record = only("harbor", trial)
    assert record["score"] == 0.5
    assert record["checks"] == {"unit": False, "lint": False, "types": True, "docs": None}
