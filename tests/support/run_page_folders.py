"""What the tests of run pages share: folders of Claude Code, their pages, and a browser."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.conftest import twoarm

WITH, WITHOUT = "with_x", "without_x"


def claude(*blocks: dict[str, Any], results: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The stream of a run that says and calls some things."""
    lines: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
    ]
    for number, block in enumerate(blocks):
        usage = {"input_tokens": 1000 + number, "output_tokens": 50}
        message = {"id": f"m{number}", "content": [block], "usage": usage}
        lines.append({"type": "assistant", "message": message})
        if block["type"] == "tool_use":
            result = {"type": "tool_result", "tool_use_id": block["id"], "content": "done"}
            result |= (results or {}).get(block["id"], {})
            lines.append({"type": "user", "message": {"content": [result]}})
    done = {
        "type": "result",
        "subtype": "success",
        "result": "bye",
        "duration_ms": 1000,
        "total_cost_usd": 0.1,
    }
    spent = [1000 + number for number in range(len(blocks))]
    usage = {"input_tokens": sum(spent), "output_tokens": 50 * len(spent)}
    return [*lines, {**done, "usage": usage}]


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(id: str, tool: str = "Bash", **asked: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": tool, "input": asked}


def folder(root: Path, arm: str, task: str, repeat: int, lines: list[Any], code: int = 0) -> Path:
    """A run folder of Claude Code, as `twoarm run` leaves it."""
    place = (
        root
        / "runs"
        / arm
        / f"{len(os.listdir(root / 'runs' / arm)) if (root / 'runs' / arm).exists() else 0}"
    )
    place.mkdir(parents=True)
    (place / "stream.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sidecar = {
        "task_id": task,
        "repeat": repeat,
        "acceptance_exit_code": code,
        "started_at_utc": "2026-11-15T06:00:00Z",
        "ended_at_utc": "2026-11-15T06:00:10Z",
    }
    (place / "run.json").write_text(json.dumps(sidecar))
    (place / "prompt.txt").write_text("Please do it.\n")
    (place / "acceptance.log").write_text("1 test failed\n" if code else "all tests passed\n")
    (place / "diff.patch").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+\tnew\n")
    return place


def collect(root: Path) -> Path:
    path = root / "collected.jsonl"
    arms = [f"--arm={arm}={root / 'runs' / arm}" for arm in (WITH, WITHOUT)]
    result = twoarm("collect", "claude-code", *arms, "-o", str(path))
    assert result.code == 0, result.err
    return path


def some_runs(root: Path) -> Path:
    """Two tasks, two repeats: one pair flipped to passed."""
    for task in ("one", "two"):
        for repeat in (1, 2):
            for arm in (WITH, WITHOUT):
                flips = (task, repeat, arm) == ("two", 2, WITHOUT)
                lines = claude(say(f"I am {arm}."), call("a", command="ls"), say(f"Done {repeat}."))
                # No two pairs differ alike, so that no dot hides another.
                lines[-1]["duration_ms"] = 1000 + 1000 * repeat**2 * (arm == WITH)
                folder(root, arm, task, repeat, lines, code=int(flips))
    collect(root)
    return root


def score(root: Path, *more: str) -> Any:
    out = str(root / "out")
    return twoarm("score", str(root / "collected.jsonl"), "--no-evidence", "--out", out, *more)


def pages(root: Path) -> dict[str, str]:
    """The pages of runs, without the list of them."""
    found = (root / "out" / "run-pages").iterdir()
    return {path.name: path.read_text() for path in found if path.name != "index.html"}


@contextmanager
def shown(chromium: Browser, path: Path) -> Iterator[tuple[Page, list[str], list[str]]]:
    """A page in the browser, what it complained about, and what it asked for."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    context.set_default_timeout(120_000)
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(path.as_uri())
        yield page, complaints, asked
    finally:
        context.close()
