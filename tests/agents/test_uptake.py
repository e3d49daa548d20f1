"""The real agents, with an MCP server, a skill and a program: what they used is counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import independent_calls
from tests.support.loopback_mcp import notes
from tests.support.real_agents import AGENTS, Ran, run_suite
from tests.support.scenarios import CHECK

TASK = "write"
SKILL = """\
---
name: noting
description: How to take notes.
---
Take notes.
"""
# Where each agent looks for skills of a project.
SKILLS = {
    "claude-code": ".claude/skills/noting/SKILL.md",
    "codex": ".codex/skills/noting/SKILL.md",
    "gemini-cli": ".gemini/skills/noting/SKILL.md",
    "opencode": ".opencode/skills/noting/SKILL.md",
}
# How each agent names the tool of the server.
TOOLS = {
    "claude-code": "mcp__notes__search",
    "codex": "mcp__notes__search",
    "gemini-cli": "mcp_notes_search",
    "opencode": "notes_search",
}
COUNTERS = {
    "claude-code": (independent_calls.claude_code, "stream.jsonl"),
    "codex": (independent_calls.codex, "events.jsonl"),
    "gemini-cli": (independent_calls.gemini_cli, "stream.jsonl"),
    "opencode": (independent_calls.opencode, "events.jsonl"),
}


def _arm(agent: str, url: str, bench: Path) -> dict[str, Any]:
    """The arm that has the change, in the way of each agent."""
    (bench / "SKILL.md").write_text(SKILL)
    (bench / "skelly").write_text("#!/bin/sh\ncat >/dev/null\n")
    (bench / "skelly").chmod(0o755)
    arm: dict[str, Any] = {
        "prompt_template": "{prompt} scenario=uses",
        "files": {SKILLS[agent]: "SKILL.md", "skelly": "skelly"},
    }
    server: dict[str, Any]
    if agent == "claude-code":
        server = {"mcpServers": {"notes": {"type": "http", "url": url}}}
        # The model would have to ask for the tool before it sees it.
        arm["env"] = {"ENABLE_TOOL_SEARCH": "false"}
        arm["args"] = ["--mcp-config", "{suite}/mcp.json", "--allowedTools", "mcp__notes,Skill"]
    elif agent == "codex":
        server = {}
        arm["args"] = ["-c", f'mcp_servers.notes.url="{url}"']
    elif agent == "gemini-cli":
        # Servers of a project are none of its business here, so that they are the user's.
        server = {
            "mcpServers": {"notes": {"httpUrl": url, "trust": True}},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
        }
        arm["args"] = ["--allowed-tools", "activate_skill"]
        arm["home"] = {".gemini/settings.json": "mcp.json"}
    else:
        server = {"mcp": {"notes": {"type": "remote", "url": url, "enabled": True}}}
        arm["files"]["opencode.json"] = "mcp.json"
    (bench / "mcp.json").write_text(json.dumps(server))
    return arm


@pytest.mark.parametrize("agent", AGENTS)
def test_what_an_agent_used_is_counted(agent: str, tmp_path: Path) -> None:
    bench = tmp_path / "user" / "repository" / "bench"
    bench.mkdir(parents=True)
    with notes() as server:
        arms = {
            "with": _arm(agent, server.url, bench),
            "without": {"prompt_template": "{prompt} scenario=ok"},
        }
        patterns = [f"tool:{TOOLS[agent]}", "command:./skelly *"]
        # Codex has no tool for skills: with a pattern for them nothing could be counted.
        patterns += [] if agent == "codex" else ["skill:not*"]
        ran = run_suite(
            agent,
            tmp_path,
            above=False,
            arms=arms,
            baseline="without",
            uptake=patterns,
            limits={"retries": 0, "timeout_seconds": 120.0},
            tasks=[{"id": TASK, "prompt": "Write it.", "acceptance_command": CHECK}],
        )
    record = ran.record(TASK, "with")
    assert server.queries == ["a", "b"], ran.said
    assert record["tool_calls"][TOOLS[agent]] == 2
    assert record["uptake_count"] == (3 if agent == "codex" else 4), record
    # It cannot look into the folder of the skill without a program of its own.
    failed = {"gemini-cli": None, "opencode": record.get("failed_tool_calls", {}).get("skill", 0)}
    assert record.get("failed_uptake_count") == failed.get(agent, 0)
    assert ran.record(TASK, "without")["uptake_count"] == 0
    for arm in ("with", "without"):
        _same(agent, ran, arm)


def _same(agent: str, ran: Ran, arm: str) -> None:
    """The record of an arm has what another count finds in the output."""
    count, name = COUNTERS[agent]
    found = count(ran.folder / "runs" / arm / f"{TASK}.1" / name)
    assert found is not None
    record = ran.record(TASK, arm)
    assert record["tool_calls"] == dict(found.tools)
    assert sum(found.tools.values()) == record["tool_call_count"]
    assert record.get("failed_tool_calls") == (None if found.failed is None else dict(found.failed))
