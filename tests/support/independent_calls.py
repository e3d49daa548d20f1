"""The calls in the outputs of agents, counted a second time and in another way.

Nothing of `twoarm` is used here: every file is read with `json` as a whole, and looked through for
what a call looks like in its program.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Counted(NamedTuple):
    """The calls of one run: of each tool, failed ones, and every shell command."""

    tools: Counter[str]
    # None where the program does not tell.
    failed: Counter[str] | None
    # None where the output has no commands in it.
    commands: list[str] | None


def objects(found: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document, the outer ones first."""
    if isinstance(found, dict):
        yield found
    for below in found.values() if isinstance(found, dict) else found:
        if isinstance(below, dict | list):
            yield from objects(below)


def _lines(path: Path) -> list[Any]:
    text = path.read_text()
    try:
        found = json.loads(text)
        return found if isinstance(found, list) else [found]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def claude_code(path: Path) -> Counted | None:
    everything = list(objects(_lines(path)))
    if not any(one.get("type") == "assistant" for one in everything):
        return None
    uses = {one["id"]: one for one in everything if one.get("type") == "tool_use"}
    wrong = {
        one["tool_use_id"]
        for one in everything
        if one.get("is_error") is True and "tool_use_id" in one
    }
    return Counted(
        Counter(one["name"] for one in uses.values()),
        Counter(uses[name]["name"] for name in wrong),
        [one["input"]["command"] for one in uses.values() if one["name"] == "Bash"],
    )


def codex(path: Path) -> Counted:
    items = {}
    for line in _lines(path):
        if line["type"] == "item.completed":
            items[line["item"]["id"]] = line["item"]
    tools, failed, commands = Counter[str](), Counter[str](), []
    for item in items.values():
        kind = item["type"]
        if kind == "mcp_tool_call":
            kind = "mcp__" + item["server"] + "__" + item["tool"]
        elif kind not in ("command_execution", "file_change", "web_search", "collab_tool_call"):
            continue
        tools[kind] += 1
        if item["type"] == "command_execution":
            commands.append(re.sub(r"^/bin/(ba)?sh -lc ", "", item["command"]).strip("'\""))
        failed[kind] += bool(item.get("exit_code")) or item.get("status") in ("failed", "declined")
    return Counted(tools, +failed, commands)


def opencode(path: Path) -> Counted:
    if path.suffix == ".jsonl":
        parts = [line["part"] for line in _lines(path) if line["type"] == "tool_use"]
    else:
        parts = [one for one in objects(_lines(path)) if one.get("type") == "tool"]
    parts = [one for one in parts if one["state"]["status"] in ("completed", "error")]
    wrong = [
        one["tool"]
        for one in parts
        if one["state"]["status"] == "error" or (one["state"].get("metadata") or {}).get("exit")
    ]
    commands = [one["state"]["input"]["command"] for one in parts if one["tool"] == "bash"]
    return Counted(Counter(one["tool"] for one in parts), Counter(wrong), commands)


def gemini_cli(path: Path) -> Counted | None:
    if not path.read_text().strip():
        return None
    lines = _lines(path)
    if "stats" in lines[0]:
        names = lines[0]["stats"]["tools"]["byName"]
        return Counted(Counter({name: one["count"] for name, one in names.items()}), None, None)
    uses = [line for line in lines if line["type"] == "tool_use"]
    commands = [one["parameters"]["command"] for one in uses if "command" in one["parameters"]]
    return Counted(Counter(one["tool_name"] for one in uses), None, commands)


def inspect(sample: Any) -> Counted:
    calls = [event for event in sample["events"] if event["event"] == "tool"]
    return Counted(
        Counter(one["function"] for one in calls),
        Counter(one["function"] for one in calls if one.get("error")),
        [one["arguments"]["command"] for one in calls if one["function"] == "bash"],
    )


def mini_swe_agent(path: Path) -> Counted:
    document = json.loads(path.read_text())
    commands = [
        one["command"] for one in objects(document) if set(one) == {"command", "tool_call_id"}
    ]
    codes = [one["returncode"] for one in objects(document) if one.get("returncode") is not None]
    failed = Counter({"bash": sum(code != 0 for code in codes)})
    return Counted(Counter({"bash": len(commands)}) if commands else Counter(), +failed, commands)
