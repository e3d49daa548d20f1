"""How each agent is started, and what its running is known to cost; no agent is needed here."""

import json
import os
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import FIXTURES
from tests.support.suite_files import suite_of
from twoarm.errors import InputError, UsageError
from twoarm.programs.agent import Agent, Lines, Start, load_agent
from twoarm.programs.prices import Prices
from twoarm.programs.settings import Program
from twoarm.run.setting import RunOptions, set_up

AGENTS = ("claude-code", "codex", "gemini-cli", "opencode")
PRICES = {"scripted": Prices(input=1.0, output=10.0, cache_read=0.1, cache_write=1.25)}
FREE_WRITES = {"scripted": Prices(input=1.0, output=10.0, cache_read=0.1, cache_write=0.0)}

# Words that give an agent more rights than its user has given it.
BYPASSES = ("danger", "bypass", "yolo", "skip-permissions", "full-access", "--auto")


def agent_of(name: str, model: str | None = None) -> Agent:
    return load_agent(Program(program=name, model=model))


def start(root: Path = Path("/nowhere"), /, **changed: Any) -> Start:
    found: dict[str, Any] = {
        "prompt": "-v fix  it",
        "prompt_file": str(root / "prompt.txt"),
        "model": "scripted",
        "args": (),
        "argv": (),
        "workspace": str(root / "work"),
        "home": str(root / "home"),
        "output": str(root / "out"),
        "usage": str(root / "usage.json"),
        "trial_usd": None,
    }
    return Start(**{**found, **changed})


def argv(name: str, **changed: Any) -> list[str]:
    return list(agent_of(name).launch(start(**changed)).argv)


def test_the_command_lines() -> None:
    assert argv("claude-code", args=("--mcp-config", "a.json"), trial_usd=0.5) == [
        *("claude", "-p", "--output-format", "stream-json", "--verbose"),
        *("--permission-mode", "acceptEdits"),
        *("--allowedTools", "Bash,Edit,Write,Read,Glob,Grep"),
        *("--model", "scripted", "--max-budget-usd", "0.500000"),
        *("--mcp-config", "a.json", "--", "-v fix  it"),
    ]
    assert argv("codex", args=("--strict-config",)) == [
        *("codex", "exec", "--json", "--skip-git-repo-check"),
        *("--sandbox", "workspace-write", "--disable", "plugins"),
        *("-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false"),
        *("-m", "scripted", "--strict-config", "--", "-v fix  it"),
    ]
    assert argv("gemini-cli", args=("--debug",)) == [
        *("gemini", "--output-format", "stream-json", "--approval-mode", "auto_edit"),
        *("--allowed-tools", "run_shell_command", "--skip-trust"),
        *("-m", "scripted", "--debug", "--prompt=-v fix  it"),
    ]
    # opencode puts quotes around a word with spaces, and joins words by a space.
    assert argv("opencode", args=("--agent", "build")) == [
        *("opencode", "run", "--format", "json", "--title", "twoarm"),
        *("--model", "scripted", "--agent", "build", "--", "-v", "fix", "", "it"),
    ]
    assert argv("harbor", args=("--agent", "codex"), trial="t-1", task_folder="/suite/one") == [
        *("harbor", "trial", "start", "--path", "/suite/one", "--trial-name", "t-1"),
        *("--trials-dir", "/nowhere/home/trials", "--model", "scripted", "--agent", "codex"),
    ]


def test_harbor_is_asked_to_end_as_it_wants_to_be_and_has_time_for_it() -> None:
    launch = agent_of("harbor").launch(start())
    assert (launch.stop_signal, launch.least_grace_seconds) == (signal.SIGINT, 10.0)
    assert launch.engines == ("docker", "podman")
    assert launch.env == {"HARBOR_TELEMETRY": "0"}
    assert agent_of("harbor").cost(None) == "told"


@pytest.mark.parametrize("name", AGENTS)
def test_without_a_model_the_agent_takes_its_own(name: str) -> None:
    words = argv(name, model=None)
    assert not {"-m", "--model"} & set(words)
    assert None not in words


@pytest.mark.parametrize("name", AGENTS)
def test_no_default_goes_past_the_rules_of_an_agent(name: str) -> None:
    launch = agent_of(name).launch(start(prompt="x"))
    words = " ".join((*launch.argv, *launch.env, *launch.env.values(), *launch.home.values()))
    assert [bypass for bypass in BYPASSES if bypass in words] == []


@pytest.mark.parametrize(
    ("name", "args", "default"),
    [
        ("claude-code", ("--permission-mode", "plan"), "acceptEdits"),
        ("claude-code", ("--permission-mode=plan",), "acceptEdits"),
        ("claude-code", ("--dangerously-skip-permissions",), "acceptEdits"),
        ("codex", ("--sandbox", "read-only"), "workspace-write"),
        ("codex", ("-s", "read-only"), "workspace-write"),
        ("codex", ("--dangerously-bypass-approvals-and-sandbox",), "workspace-write"),
        ("codex", ("--enable", "plugins"), "--disable"),
        ("gemini-cli", ("--approval-mode", "plan"), "auto_edit"),
        ("gemini-cli", ("--yolo",), "auto_edit"),
        ("opencode", ("--title", "mine"), "twoarm"),
    ],
)
def test_an_option_of_the_suite_takes_the_place_of_a_default(
    name: str, args: tuple[str, ...], default: str
) -> None:
    assert default in argv(name)
    words = argv(name, args=args)
    assert default not in words
    assert [word for word in words if word in args] == list(args)


def test_a_sandbox_inside_a_sandbox_is_refused() -> None:
    for name in (*AGENTS, "command", "harbor"):
        assert agent_of(name).nests == (name not in ("codex", "harbor"))
    for mode, nests in (("read-only", False), ("danger-full-access", True)):
        assert load_agent(Program(program="codex", args=("--sandbox", mode))).nests == nests


@pytest.mark.parametrize("name", AGENTS)
def test_versions_are_read(name: str) -> None:
    said = {"claude-code": "2.1.325 (Claude Code)", "codex": "codex-cli 0.166.0"}
    agent = agent_of(name)
    assert agent.version(said.get(name, "1.2.3")) in said.get(name, "1.2.3").split()
    assert agent.oldest is not None
    assert agent.format == name


def test_the_cost_is_known_where_a_table_prices_all_that_may_be_spent() -> None:
    for name in ("claude-code", "opencode"):
        assert agent_of(name).cost(None) == "held"
    for name in ("codex", "gemini-cli"):
        assert agent_of(name, "scripted").cost(None) == "unknown"
        assert agent_of(name, "other").cost(PRICES) == "unknown"
        assert agent_of(name, "scripted").cost(FREE_WRITES) == "held"
        # Which model it takes by itself is not known before.
        assert agent_of(name).cost(FREE_WRITES) == "unknown"
    # Gemini CLI does not tell what it wrote to a cache; a table has to say that it is free.
    assert agent_of("gemini-cli", "scripted").cost(PRICES) == "unknown"
    assert agent_of("codex", "scripted").cost(PRICES) == "held"


@pytest.mark.parametrize("name", AGENTS)
def test_nothing_is_metered_without_a_limit(name: str, tmp_path: Path) -> None:
    meter = agent_of(name).meter(start(tmp_path), PRICES)
    assert meter is None or meter.spent() is None


def metered(name: str, root: Path, prices: dict[str, Prices] | None) -> Callable[[], float | None]:
    meter = agent_of(name).meter(start(root, trial_usd=1.0), prices)
    assert meter is not None
    return meter.spent


def put(path: Path, *lines: Any) -> None:
    """Add lines to a file: objects, or texts as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for line in lines:
            file.write(line if isinstance(line, str) else json.dumps(line) + "\n")


def counted(fresh: int, cached: int, output: int) -> dict[str, Any]:
    usage = {
        "input_tokens": fresh + cached,
        "cached_input_tokens": cached,
        "output_tokens": output,
    }
    payload = {"type": "token_count", "info": {"total_token_usage": usage}}
    return {"timestamp": "2026-11-15T16:00:00Z", "type": "event_msg", "payload": payload}


def test_codex_is_metered_by_its_rollouts(tmp_path: Path) -> None:
    spent = metered("codex", tmp_path, PRICES)
    assert spent() is None
    sessions = tmp_path / "home" / ".codex" / "sessions" / "2026" / "11" / "15"
    context = {
        "timestamp": "2026-11-15T16:00:00Z",
        "type": "turn_context",
        "payload": {"model": "scripted"},
    }
    put(sessions / "rollout-a.jsonl", context, counted(1000, 0, 100))
    assert spent() == pytest.approx(0.002)
    # A count is of the whole thread, and a line that is not complete yet is none.
    line = json.dumps(counted(2000, 1000, 100))
    put(sessions / "rollout-a.jsonl", "no JSON\n", line[:40])
    assert spent() == pytest.approx(0.002)
    put(sessions / "rollout-a.jsonl", line[40:] + "\n")
    assert spent() == pytest.approx(0.0031)
    # A sub-agent is a thread of its own.
    put(sessions / "rollout-b.jsonl", context, counted(1000, 0, 0))
    assert spent() == pytest.approx(0.0041)
    # Nobody knows what an unknown model costs.
    put(sessions / "rollout-c.jsonl", counted(1, 0, 0))
    assert spent() is None


def test_codex_is_metered_as_it_is_collected(tmp_path: Path) -> None:
    sessions = tmp_path / "home" / ".codex" / "sessions"
    sessions.mkdir(parents=True)
    shutil.copy(FIXTURES / "codex" / "ok" / "rollout.jsonl", sessions / "rollout-x.jsonl")
    prices = {"scripted-ok": PRICES["scripted"]}
    # 1,400 outside the cache, 2,100 from it, 120 of output.
    assert metered("codex", tmp_path, prices)() == pytest.approx(0.00281)


def test_gemini_is_metered_by_its_chats(tmp_path: Path) -> None:
    spent = metered("gemini-cli", tmp_path, FREE_WRITES)
    assert spent() is None
    chat = tmp_path / "home" / ".gemini" / "tmp" / "work" / "chats" / "session-1.jsonl"
    used = {"input": 1200, "output": 30, "cached": 1000, "thoughts": 10, "tool": 0, "total": 1240}
    message = {"id": "m1", "type": "gemini", "tokens": used, "model": "scripted"}
    put(chat, {"sessionId": "s", "kind": "main"}, {"$set": {"lastUpdated": "now"}}, message)
    assert spent() == pytest.approx(0.0007)
    # The same message again, with what its tools gave back.
    put(chat, {**message, "toolCalls": []}, {**message, "id": "m2"})
    assert spent() == pytest.approx(0.0014)


def step(cost: float, session: str = "ses_1") -> dict[str, Any]:
    tokens = {"input": 1000, "output": 90, "reasoning": 10, "cache": {"read": 0, "write": 0}}
    part = {"type": "step-finish", "reason": "stop", "tokens": tokens, "cost": cost}
    return {"type": "step_finish", "timestamp": 1, "sessionID": session, "part": part}


def test_opencode_is_metered_by_its_steps(tmp_path: Path) -> None:
    spent = metered("opencode", tmp_path, None)
    assert spent() is None
    put(tmp_path / "out" / "events.jsonl", step(0.25), "{}\n", step(0.5))
    assert spent() == pytest.approx(0.75)


def test_what_opencode_has_no_price_for_is_priced(tmp_path: Path) -> None:
    put(tmp_path / "out" / "events.jsonl", step(0.0))
    assert metered("opencode", tmp_path, PRICES)() == pytest.approx(0.002)
    assert metered("opencode", tmp_path, None)() == 0.0


TABLE = """
    create table session (parent_id text, cost, tokens_input, tokens_output, tokens_reasoning,
        tokens_cache_read, tokens_cache_write, model text)
"""
CHILD = ("ses_1", 0.125, 1000, 90, 10, 0, 0, '{"id":"scripted","providerID":"own"}')


def database(root: Path, *commands: str, rows: list[tuple[Any, ...]] | None = None) -> None:
    path = root / "home" / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as made:
        for command in commands:
            made.execute(command)
        for row in rows or []:
            made.execute("insert into session values (?,?,?,?,?,?,?,?)", row)
    made.close()


def test_sub_agents_of_opencode_are_metered(tmp_path: Path) -> None:
    put(tmp_path / "out" / "events.jsonl", step(0.25))
    database(tmp_path, TABLE, rows=[(None, *CHILD[1:]), CHILD])
    assert metered("opencode", tmp_path, None)() == pytest.approx(0.375)


def test_sub_agents_of_opencode_are_priced(tmp_path: Path) -> None:
    database(tmp_path, TABLE, rows=[(CHILD[0], 0.0, *CHILD[2:])])
    prices = {"own/scripted": PRICES["scripted"]}
    assert metered("opencode", tmp_path, prices)() == pytest.approx(0.002)


ENDLESS = """
    create view session as with recursive more(n) as (select 1 union all select n + 1 from more)
    select 'x' as parent_id, n as cost, 0 as tokens_input, 0 as tokens_output,
        0 as tokens_reasoning, 0 as tokens_cache_read, 0 as tokens_cache_write, '{}' as model
    from more where n < 0
"""


@pytest.mark.parametrize(
    ("commands", "rows"),
    [
        ((TABLE,), [("x", "dear", *CHILD[2:])]),
        ((TABLE,), [("x", -5.0, *CHILD[2:])]),
        ((TABLE,), [(*CHILD[:-1], "no JSON")]),
        (("create table other (a)",), None),
        ((ENDLESS,), None),
    ],
)
def test_a_database_that_an_agent_has_spoiled_counts_nothing(
    commands: tuple[str, ...], rows: list[tuple[Any, ...]] | None, tmp_path: Path
) -> None:
    put(tmp_path / "out" / "events.jsonl", step(0.25))
    database(tmp_path, *commands, rows=rows)
    assert metered("opencode", tmp_path, None)() == pytest.approx(0.25)


def test_a_meter_follows_no_link_and_waits_at_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("a line\n")
    os.symlink(tmp_path / "real", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    assert list(Lines(str(tmp_path / "real")).new()) == [b"a line\n"]
    assert list(Lines(str(tmp_path / "link")).new()) == []
    assert list(Lines(str(tmp_path / "pipe")).new()) == []


def test_a_budget_needs_prices_for_the_models_of_both_arms(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(
        "[scripted]\ninput = 1\noutput = 1\ncache_read = 1\ncache_write = 1\n"
    )
    path = suite_of(
        tmp_path,
        agent={"program": "codex", "argv": None},
        limits={"budget_usd": 10.0, "trial_usd": 1.0, "prices": "prices.toml"},
        arms={"with": {"model": "scripted"}, "without": {"model": "another"}},
    )
    with pytest.raises(UsageError, match="nobody knows what a trial costs"):
        set_up(str(path), RunOptions(), {"PATH": os.environ["PATH"]})


def test_sub_agents_of_opencode_are_exported_after_the_session_itself() -> None:
    (after,) = agent_of("opencode").launch(start()).after
    events = (FIXTURES / "opencode" / "subagent" / "events.jsonl").read_text()
    exports = (FIXTURES / "opencode" / "subagent").glob("export*.json")
    sessions = {path.name: json.loads(path.read_text())["info"]["id"] for path in exports}
    found = list(dict.fromkeys(re.findall(after.pattern or "", events)))
    assert found == [sessions.pop(after.output), *sessions.values()]


@pytest.mark.parametrize(
    ("argv", "refused"), [(("sh", "-c", ":", "{prompt}"), True), (("sh", "{prompt_file}"), False)]
)
def test_a_prompt_that_no_program_can_be_given_is_refused(
    argv: tuple[str, ...], refused: bool, tmp_path: Path
) -> None:
    task = {"id": "long", "prompt": "é" * 65_534, "acceptance_command": "false"}
    arms = {"with": {"env": None, "prompt_template": "{prompt} At once."}, "without": {}}
    path = suite_of(tmp_path, agent={"argv": argv}, tasks=[task], arms=arms)
    found = {"PATH": os.environ["PATH"]}
    if not refused:
        set_up(str(path), RunOptions(), found)
        return
    with pytest.raises(InputError, match="task `long` in arm `with`: an argument of 131,077 bytes"):
        set_up(str(path), RunOptions(), found)
