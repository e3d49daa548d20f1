"""Real agents for the tests of `twoarm run`: where they are, and suites that point them at a model.

`make agents` installs them; without them the tests are skipped, in CI they fail.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.run_folders import WITHOUT_PAGE
from tests.support.scripted_model import PRICES, Request, scripted_model
from tests.support.suite_files import processes_with, suite_of

# The slowest one first.
AGENTS = ("opencode", "gemini-cli", "claude-code", "codex")
FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")

# Instructions that no model may be sent, and those that one arm has.
CANARY = "CANARY"
HINT = "Say please."
KEY = "key-0123456789-of-nobody"
PASSPHRASE = "correct horse battery staple"

# Where the agents look for instructions of the user.
HOMES = (".", ".claude", ".codex", ".gemini", ".config/opencode")


def installed() -> Path:
    """The folder of the programs, or a skip."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("TWOARM_AGENTS") or cache / "twoarm-agents")
    if not (folder / "installed").exists():
        lacking = f"no agents in {folder}; to test with real ones, `make agents` (1.3 GB)"
        if os.environ.get("CI"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    return folder / "bin"


class Pointed(NamedTuple):
    """What makes an agent ask the scripted model: its table in the suite, and files beside it."""

    table: dict[str, Any]
    files: dict[str, str]


def pointed(agent: str, url: str) -> Pointed:
    if agent == "claude-code":
        env = {"ANTHROPIC_BASE_URL": url}
        return Pointed({"model": "scripted", "env": env, "secrets": ["ANTHROPIC_API_KEY"]}, {})
    if agent == "gemini-cli":
        env = {"GOOGLE_GEMINI_BASE_URL": url}
        return Pointed({"model": "scripted", "env": env, "secrets": ["GEMINI_API_KEY"]}, {})
    if agent == "codex":
        config = f"""\
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
        home = {".codex/config.toml": "codex.toml"}
        table = {"model": "scripted", "home": home, "secrets": ["SCRIPTED_KEY"]}
        return Pointed(table, {"codex.toml": config})
    model = {"tool_call": True, "cost": PRICES, "limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "{env:SCRIPTED_KEY}"},
        "models": {"scripted": model},
    }
    table = {
        "model": "scripted/scripted",
        "home": {".config/opencode/opencode.json": "opencode.json"},
        "secrets": ["SCRIPTED_KEY"],
        # At every start it would fetch a package for plug-ins.
        "env": {"npm_config_offline": "true"},
    }
    return Pointed(table, {"opencode.json": json.dumps({"provider": {"scripted": provider}})})


class Ran(NamedTuple):
    """What a run of a suite left."""

    folder: Path
    requests: list[Request]
    code: int
    said: str
    # Processes that were still there when the runner had ended.
    alive: list[str]

    def trial(self, task: str, arm: str) -> dict[str, Any]:
        """What is known about the one attempt at a trial, wherever it is."""
        for path in self.folder.rglob("trial.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            if (found["task"], found["arm"]) == (task, arm):
                return found
        raise AssertionError(f"no trial of {task} in {arm}: {self.said}")

    def record(self, task: str, arm: str) -> dict[str, Any]:
        """The collected run."""
        lines = (self.folder / "collected.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        (found,) = (one for one in records if (one["task_id"], one["arm"]) == (task, arm))
        return dict(found)

    def sent(self, prompt: str) -> list[str]:
        """The requests with a text in them."""
        return [request.body for request in self.requests if prompt in request.body]


def run_suite(
    agent: str,
    root: Path,
    *,
    above: bool,
    page: bool = False,
    path: str | None = None,
    args: tuple[str, ...] = (),
    **suite: Any,
) -> Ran:
    """A suite in a repository of a user whose every instruction is a canary.

    With `above`, there are canaries in the folders above the place where workspaces usually are.
    The page of the report is drawn with `page` alone; `path` is the PATH, if not that of the tests.
    """
    programs = installed()
    user = root / "user"
    bench = user / "repository" / "bench"
    bench.mkdir(parents=True, exist_ok=True)
    for place in HOMES if above else HOMES[1:]:
        _canaries(user / place)
    _canaries(user / "repository")
    temporary = root / "temporary"
    temporary.mkdir()
    (bench / "hint.md").write_text(HINT)
    priced = "".join(f"{key} = {value}\n" for key, value in PRICES.items())
    (bench / "prices.toml").write_text(f"[scripted]\n{priced}")
    with scripted_model() as model:
        table, files = pointed(agent, model.url)
        for name, text in files.items():
            (bench / name).write_text(text)
        names = (*table["secrets"], "PASSPHRASE")
        own = {"program": agent, "argv": None, "secrets": names, "args": args}
        file = suite_of(bench, **{"agent": {**table, **own}, **suite})
        quick = ("--repeats", "1", "--jobs", "2", "--display", "quiet", "--no-evidence")
        program = ("-m", "twoarm") if page else ("-c", WITHOUT_PAGE)
        words = ("run", str(file), "--out", str(root / "out"), *quick)
        done = subprocess.run(
            [sys.executable, *program, *words],
            env={
                "PATH": os.pathsep.join((str(programs), path or os.environ["PATH"])),
                "LANG": "C.UTF-8",
                "HOME": str(user),
                "TMPDIR": str(temporary),
                "PASSPHRASE": PASSPHRASE,
                **dict.fromkeys(table["secrets"], KEY),
            },
            cwd=bench,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        alive = processes_with(str(root))
    said = f"{done.stdout}\n{done.stderr}"
    return Ran(root / "out", model.requests, done.returncode, said, alive)


def _canaries(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_text(f"{CANARY} of {folder.name}/{name}\n")
