"""Which reward of a Harbor task decides, and what becomes of one that nobody has chosen."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.run import test_harbor
from tests.run.test_harbor import mistakes
from tests.support.harbor_suites import harbor_suite, stand_in
from tests.support.run_folders import QUICK, records, run

folder = test_harbor.folder
TWO = """begin; phases="$(phase 2 6)"; worked="$(phase 6 8)"
if [ "$agent" = oracle ]; then said "$phases" "$worked" '{"rewards": ORACLE}' null
else said "$phases" "$worked" '{"rewards": NOP}' null; fi"""


def rewarding(folder: Path, oracle: dict[str, float], nop: dict[str, float]) -> None:
    """A stand-in for Harbor whose agents get these rewards."""
    script = TWO.replace("ORACLE", json.dumps(oracle)).replace("NOP", json.dumps(nop))
    stand_in(folder.parent / "bin", script)


def test_a_suite_says_which_of_several_rewards_decides(folder: Path, tmp_path: Path) -> None:
    rewarding(folder, {"accuracy": 0.9, "style": 0.0}, {"accuracy": 0.7, "style": 1.0})
    out = tmp_path / "out"
    agent = {"scorer": "accuracy", "threshold": 0.8}
    result = run(harbor_suite(folder, agent=agent), out)
    assert result.code == 0, result.err
    found = {record["arm"]: record for record in records(out)}
    judged = [(found[arm]["success"], found[arm]["score"]) for arm in ("oracle", "nop")]
    assert judged == [(True, 0.9), (False, 0.7)]
    assert found["nop"]["checks"] == {"style": True}
    # From the files again.
    (out / "collected.jsonl").unlink()
    assert twoarm("score", str(out), "--no-evidence").code == 0
    assert {record["arm"]: record for record in records(out)} == found


@pytest.mark.parametrize("agent", [{}, {"scorer": "speed"}])
def test_a_reward_that_nobody_has_chosen_fails_nobody(
    folder: Path, tmp_path: Path, agent: dict[str, str]
) -> None:
    rewards = {"accuracy": 1.0, "style": 0.5}
    rewarding(folder, rewards, rewards)
    out = tmp_path / "out"
    run(harbor_suite(folder, agent=agent), out, "--only", "one")
    for record in records(out):
        assert (record["failure"], record["success"]) == ("infra", False)
        assert (record["total_cost_usd"], record["input_tokens"]) == (0.5, 80)
        assert record["failure_reason"] == (
            "nobody knows which reward decides; write scorer in [agent] of the suite, one of "
            "`accuracy`, `style`"
        )
    assert json.loads((out / "receipt.json").read_text())["spent_usd"] == 1.0


def test_an_agent_that_failed_may_have_a_reward_nobody_has_chosen(
    folder: Path, tmp_path: Path
) -> None:
    rewards = '\'{"rewards": {"a": 1, "b": 0}}\''
    raised = '\'{"exception_type": "AgentTimeoutError"}\''
    stand_in(tmp_path / "bin", f'begin; said "$(phase 2 6)" "$(phase 6 8)" {rewards} {raised}')
    out = tmp_path / "out"
    run(harbor_suite(folder), out, "--only", "one")
    assert {record["failure"] for record in records(out)} == {"infra"}
    assert all("scorer in [agent]" in record["failure_reason"] for record in records(out))


@pytest.mark.parametrize("key", ["scorer", "threshold"])
def test_what_decides_is_frozen(folder: Path, tmp_path: Path, key: str) -> None:
    rewarding(folder, {"reward": 1.0, "other": 0.0}, {"reward": 0.5, "other": 1.0})
    out = tmp_path / "out"
    assert run(harbor_suite(folder), out).code == 0
    # As in schedules from before there were such keys, whose digests hold.
    assert key not in json.loads((out / "schedule.json").read_text())["suite"]["agent"]
    harbor_suite(folder, agent={key: {"scorer": "other", "threshold": 0.5}[key]})
    refused = twoarm("run", "--resume", str(out), *QUICK)
    assert refused.code == 2
    assert f"agent.{key} has changed since the schedule was frozen: not there then" in refused.err


BAD: list[tuple[dict[str, Any], str]] = [
    ({"program": "codex", "scorer": "x"}, 'agent.scorer: only with program = "harbor"'),
    ({"program": "codex", "threshold": 1}, 'agent.threshold: only with program = "harbor"'),
    ({"scorer": ""}, "agent.scorer: expected text that is not empty, got "),
    ({"threshold": "x"}, "agent.threshold: expected a number, got "),
]


@pytest.mark.parametrize(("agent", "said"), BAD, ids=[said for _, said in BAD])
def test_keys_that_have_no_effect_are_refused(
    folder: Path, agent: dict[str, Any], said: str
) -> None:
    assert any(text.startswith(said) for text in mistakes(folder, agent=agent))


def test_a_threshold_is_a_number(folder: Path) -> None:
    path = harbor_suite(folder, agent={"threshold": 7.5})
    toml = folder / "suite.toml"
    toml.write_text(
        'baseline = "nop"\n[agent]\nprogram = "harbor"\nthreshold = nan\n[arms.nop]\n'
        '[arms.oracle]\nargs = ["--agent", "oracle"]\n[[tasks]]\nharbor = "tasks"\n'
    )
    assert twoarm("run", str(path), "--dry-run").code == 0
    refused = twoarm("run", str(toml), "--dry-run")
    assert refused.code == 2
    assert "suite.toml: agent.threshold: expected a number" in refused.err


@pytest.mark.parametrize("reward", [7.5, -3.0])
def test_a_reward_off_the_scale_is_no_score_and_said(
    folder: Path, tmp_path: Path, reward: float
) -> None:
    rewarding(folder, {"reward": reward}, {"reward": 1.0})
    out = tmp_path / "out"
    result = run(harbor_suite(folder), out)
    found = {record["arm"]: record for record in records(out)}
    assert (found["oracle"]["success"], found["oracle"].get("score")) == (reward > 1, None)
    assert found["oracle"]["tags"] == ["reward_off_scale"]
    assert found["nop"]["score"] == 1.0
    assert (
        "caveat: a reward below 0 or above 1, which decides success and is no score" in result.err
    )
