"""The real agents under `twoarm run`, against a scripted model on loopback.

Each pair of scenarios is a suite whose two arms ask for one each: that starts every agent ten
times and proves a point each time.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REAL_PATH
from tests.support.real_agents import (
    AGENTS,
    CANARY,
    FILES,
    HINT,
    KEY,
    PASSPHRASE,
    Ran,
    installed,
    run_suite,
)
from tests.support.scenarios import CHECK, tokens

ROOT = Path(__file__).parents[2]
TASK = "write"
# What a shell, a parser of options or a template might not leave as it is.
PROMPT = """\
Write `hello.txt`, please:  two spaces, "quotes", 'more of them', $HOME, {braces} and 007.
--help is no option here, nor are -v, @README.md or 1e3; \\ is a backslash, and é a letter."""

# The arms of each suite, in the order in which they run, and whether canaries are above the usual
# place of workspaces.
SUITES = {
    "work": (("ok", "leaves"), True),
    "stuck": (("hang", "http429"), False),
    "limits": (("slow", "context"), True),
    "refused": (("firstfail", "denied"), False),
    "forbidden": (("http403", "forbidden"), False),
}
# The time-out where it is the point: long enough to reach the model on a busy machine, where the
# five seconds of processor time that opencode needs for that may take most of a minute.
PATIENCE = {"opencode": 60.0, "gemini-cli": 20.0, "claude-code": 12.0, "codex": 12.0}

# After the first turn it has spent more.
TRIAL_USD = 0.001


def _suite(name: str, agent: str) -> dict[str, Any]:
    arms: dict[str, Any] = {
        scenario: {"prompt_template": f"{{prompt}} scenario={scenario}"}
        for scenario in SUITES[name][0]
    }
    limits: dict[str, Any] = {"retries": 0, "timeout_seconds": 120.0}
    if name == "work":
        arms["ok"]["files"] = dict.fromkeys(FILES, "hint.md")
    if name == "stuck":
        limits["timeout_seconds"] = PATIENCE[agent]
    if name == "limits":
        limits |= {"trial_usd": TRIAL_USD, "budget_usd": 1.0, "prices": "prices.toml"}
    if name in ("refused", "forbidden"):
        # A wrong key is no reason to try again.
        limits |= {"retries": 2, "retry_seconds": 0.0}
    task = {"id": TASK, "prompt": PROMPT, "acceptance_command": CHECK}
    return {
        "arms": {"with": None, "without": None, **arms},
        "baseline": SUITES[name][0][1],
        "limits": limits,
        "tasks": [task],
    }


def _texts(found: Any) -> Iterator[str]:
    """Every text in a JSON document."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list):
        for below in found.values() if isinstance(found, dict) else found:
            yield from _texts(below)


class Started:
    """Every suite of the chosen agents, a few at a time."""

    def __init__(self, root: Path, agents: list[str]) -> None:
        self._pool = ThreadPoolExecutor(3)
        self._runs: dict[tuple[str, str], Future[Ran]] = {}
        for agent in agents:
            for name in SUITES:
                self._runs[agent, name] = self._pool.submit(self._run, root, agent, name)

    def _run(self, root: Path, agent: str, name: str) -> Ran:
        place = root / agent / name
        place.mkdir(parents=True)
        # One page of each agent is enough to see that no secret is in it; and one suite runs in
        # what a run takes by itself.
        work = name == "work"
        path = REAL_PATH if work else None
        above, suite = SUITES[name][1], _suite(name, agent)
        return run_suite(agent, place, above=above, page=work, path=path, **suite)

    def ran(self, agent: str, name: str) -> Ran:
        return self._runs[agent, name].result()

    def all_of(self, agent: str) -> list[Ran]:
        return [self.ran(agent, name) for name in SUITES]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    installed()
    chosen = [
        item.callspec.params["agent"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
        if hasattr(item, "callspec") and "agent" in item.callspec.params
    ]
    runs = Started(
        tmp_path_factory.mktemp("agents"), [agent for agent in AGENTS if agent in chosen]
    )
    yield runs
    runs.close()


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_agent_without_a_sandbox_of_its_own_works_in_ours(
    started: Started, agent: str, bubblewrap: str, tmp_path: Path
) -> None:
    ran = started.ran(agent, "work")
    place = json.loads((ran.folder / "place.json").read_text())
    if agent != "codex":
        assert place["isolation"] == "bwrap", ran.said
        return
    assert place["isolation"] == "copy"
    assert "(bwrap: `codex` has a sandbox of its own, which does not start inside" in ran.said
    args = ("--sandbox", "danger-full-access")
    suite = _suite("work", agent)
    ran = run_suite(agent, tmp_path, above=True, path=REAL_PATH, args=args, **suite)
    assert json.loads((ran.folder / "place.json").read_text())["isolation"] == "bwrap", ran.said
    assert ran.record(TASK, "ok")["success"]


def test_a_run_is_collected_with_the_tokens_that_the_model_told(
    started: Started, agent: str
) -> None:
    ran = started.ran(agent, "work")
    for scenario in ("ok", "leaves"):
        found = ran.record(TASK, scenario)
        assert found["success"], found
        assert {key: found[key] for key in tokens(scenario)} == tokens(scenario)
        assert found["agent"] == agent


def test_the_prompt_reaches_the_model_as_it_is(started: Started, agent: str) -> None:
    (first, *_) = started.ran(agent, "work").sent("scenario=ok")
    assert f"{PROMPT} scenario=ok" in list(_texts(json.loads(first)))


def test_nobody_is_left_alive(started: Started, agent: str) -> None:
    assert [ran.alive for ran in started.all_of(agent)] == [[]] * len(SUITES)


def test_what_an_agent_leaves_behind_is_killed(started: Started, agent: str) -> None:
    ran = started.ran(agent, "work")
    # A sandbox, ours or that of codex, has ended them before anybody could see them.
    assert ran.trial(TASK, "leaves")["facts"]["leftovers"] == []
    assert ran.alive == []


def test_a_time_out_is_a_failure_of_the_agent(started: Started, agent: str) -> None:
    ran = started.ran(agent, "stuck")
    trial = ran.trial(TASK, "hang")
    assert (trial["state"], trial["failure"]) == ("run", "agent")
    assert trial["facts"]["ended_by"] == "timeout"
    # It had reached the model, and what it had done would have been accepted.
    assert ran.sent("scenario=hang")
    assert trial["facts"]["acceptance_exit_code"] == 0
    assert not ran.record(TASK, "hang")["success"]


@pytest.mark.parametrize(
    ("name", "refusal"),
    [("refused", "denied"), ("forbidden", "http403"), ("stuck", "http429")],
)
def test_a_provider_that_refuses_is_infra(
    started: Started, agent: str, name: str, refusal: str
) -> None:
    trial = started.ran(agent, name).trial(TASK, refusal)
    assert (trial["state"], trial["failure"]) == ("infra", "infra"), trial


def test_a_wrong_key_stops_the_run_at_once_with_the_words_of_the_provider(
    started: Started, agent: str
) -> None:
    ran = started.ran(agent, "refused")
    assert ran.code == 2, ran.said
    # Claude Code tells no more than that while it asks again, which it would do for minutes.
    words = {"claude-code": "authentication_failed (401)", "gemini-cli": "API key not valid"}
    said = words.get(agent, "Incorrect API key provided")
    assert re.search(
        f"the provider refuses the agent with status 401: .*{re.escape(said)}", ran.said
    )
    assert len(list(ran.folder.glob(".attempts/denied/*/trial.json"))) == 1
    assert not list(ran.folder.glob("runs/denied/*"))


def test_a_key_that_may_not_use_the_model_stops_it_before_the_second_trial(
    started: Started, agent: str
) -> None:
    ran = started.ran(agent, "forbidden")
    assert ran.code == 2, ran.said
    said = "the provider refuses the agent with status 403: .*Your account may not use this model"
    assert re.search(said, ran.said)
    assert len(list(ran.folder.rglob("trial.json"))) == 1
    lines = (ran.folder / "collected.jsonl").read_text().splitlines()
    assert [json.loads(line)["failure"] for line in lines] == ["missing", "infra"]


def test_a_conversation_that_is_too_long_is_a_failure_of_the_agent(
    started: Started, agent: str
) -> None:
    trial = started.ran(agent, "limits").trial(TASK, "context")
    assert (trial["state"], trial["failure"]) == ("run", "agent"), trial
    assert trial["reason"] == "context overflow"


def test_a_trial_is_stopped_at_its_limit(started: Started, agent: str) -> None:
    trial = started.ran(agent, "limits").trial(TASK, "slow")
    assert (trial["state"], trial["failure"]) == ("run", "agent"), trial
    if agent == "claude-code":
        assert trial["reason"] == "budget limit"
    else:
        assert trial["facts"]["ended_by"] == "budget"


def test_acceptance_that_fails_first_is_seen(started: Started, agent: str) -> None:
    found = started.ran(agent, "refused").record(TASK, "firstfail")
    assert found["success"]
    # gemini-cli does not tell how a command ended.
    assert found.get("acceptance_first_pass") is (None if agent == "gemini-cli" else False)


def test_no_instructions_from_outside_reach_the_model(started: Started, agent: str) -> None:
    for ran in started.all_of(agent):
        assert ran.requests
        assert [request.path for request in ran.requests if CANARY in request.body] == []


def test_a_file_of_one_arm_reaches_the_model_in_that_arm_alone(
    started: Started, agent: str
) -> None:
    ran = started.ran(agent, "work")
    treated, control = ran.sent("scenario=ok"), ran.sent("scenario=leaves")
    assert len(treated) >= 3
    assert len(control) >= 3
    assert all(HINT in body for body in treated)
    assert not any(HINT in body for body in control)


def test_the_key_reaches_the_model_and_no_file(started: Started, agent: str) -> None:
    for ran in started.all_of(agent):
        assert any(KEY in "".join(request.headers.values()) for request in ran.requests)
        for path in ran.folder.rglob("*"):
            if path.is_file():
                text = path.read_bytes()
                assert KEY.encode() not in text, path
                assert PASSPHRASE.encode() not in text, path


def test_what_an_agent_prints_of_a_secret_is_redacted(started: Started, agent: str) -> None:
    ran = started.ran(agent, "work")
    assert any(PASSPHRASE in body for body in ran.sent("scenario=leaves"))
    # Printed by a tool, and so in the conversation and in the output.
    kept = [path.read_bytes() for path in ran.folder.rglob("*.json*") if path.is_file()]
    assert any(b"[secret PASSPHRASE]" in text for text in kept)


def test_the_version_is_kept(started: Started, agent: str) -> None:
    schedule = json.loads((started.ran(agent, "work").folder / "schedule.json").read_text())
    assert schedule["version"] == pinned()[agent]


def pinned() -> dict[str, str]:
    """The versions that are installed."""
    script = (ROOT / "tools" / "agents.sh").read_text()
    found = re.findall(r"(claude-code|codex|gemini-cli|opencode)(?:-ai)?@([0-9.]+)", script)
    return dict(found)


def test_the_manual_names_the_versions() -> None:
    table = (ROOT / "docs" / "run.md").read_text().split("| `program` |", 1)[1]
    agents = re.findall(r"`([a-z-]+)`", table.split("\n", 1)[0])
    assert sorted(agents) == sorted(AGENTS)
    versions = " | ".join(pinned()[agent] for agent in agents)
    assert f"| version tried | {versions} |" in table


def test_ci_does_without_no_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TWOARM_AGENTS", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make agents"):
        installed()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="make agents"):
        installed()


def test_without_node_it_is_said_what_is_skipped(tmp_path: Path) -> None:
    for name in ("cat", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    script = ROOT / "tools" / "agents.sh"
    done = subprocess.run(["sh", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "no node and npm (Debian: apt-get install nodejs npm): "
        "the tests that start real agents are skipped.\n"
    )
