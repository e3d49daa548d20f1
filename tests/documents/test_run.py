"""The suites of docs/run.md, each run as it is written, with stand-ins for the agents."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import cat
from twoarm.programs.claude_code import launch as claude_code
from twoarm.programs.codex import launch as codex
from twoarm.programs.gemini_cli import launch as gemini_cli
from twoarm.programs.opencode import launch as opencode
from twoarm.programs.settings import Program
from twoarm.run.suite import PLACEHOLDERS, Arm, Limits, Suite, SuiteTask, Workspace

DOCUMENT = (Path(__file__).parents[2] / "docs" / "run.md").read_text()
SUITES = dict(re.findall(r"^```toml\n# (\S+)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL))

# What each agent prints: what a real one did.
AGENTS = {
    "claude": (claude_code.ClaudeCodeAgent.oldest, cat("claude-code/ok/stream.jsonl")),
    # No two runs have the same thread.
    "codex": (
        codex.CodexAgent.oldest,
        f"{cat('codex/ok/events.jsonl')} | sed s/01a1ddd2-e465-7190-b911-/$$-/",
    ),
    "gemini": (gemini_cli.GeminiCliAgent.oldest, cat("gemini-cli/ok_stream/stdout.txt")),
    "opencode": (
        opencode.OpencodeAgent.oldest,
        f'if [ "$1" = export ]; then {cat("opencode/ok/export.json")}; '
        f"else {cat('opencode/ok/events.jsonl')}; fi",
    ),
    "my-agent": ("1.0", "cat index.txt"),
}

# The tasks that four of the suites share, and what the first suite needs beside itself.
TASKS = re.findall(r"^```json\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
FIRST = re.findall(r"^```sh\n(mkdir .*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=b")
    subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the document speaks of."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, (version, says) in AGENTS.items():
        told = f'if [ "$1" = --version ]; then echo {version}; exit; fi'
        (programs / name).write_text(f"#!/bin/sh\n{told}\ntouch hello.txt\n{says}\n")
        (programs / name).chmod(0o755)
    here = tmp_path / "suites"
    for folder in ("app/tests", "tool", "prompts", "arms"):
        (here / folder).mkdir(parents=True)
    for name in ("dates", "pagination"):
        (here / "app" / "tests" / f"{name}.sh").write_text("test -f hello.txt\n")
    (here / "app" / "AGENTS.md").write_text("old\n")
    (here / "arms" / "AGENTS.md").write_text("new\n")
    (here / "prompts" / "sql_pagination.md").write_text("Fix the pages.\n")
    (here / "search.mcp.json").write_text("{}")
    (here / "tasks.json").write_text("".join(TASKS))
    subprocess.run(["sh", "-ec", "".join(FIRST)], cwd=here, check=True)
    (here / "tool" / "index.sh").write_text("#!/bin/sh\necho slow\n")
    for folder in ("app", "tool"):
        git(here / folder, "init", "-q", "-b", "main")
        git(here / folder, "add", "-A")
        git(here / folder, "commit", "-qm", "x")
    git(here / "tool", "checkout", "-qb", "faster-index")
    (here / "tool" / "index.sh").write_text("#!/bin/sh\necho fast\n")
    git(here / "tool", "commit", "-qam", "faster")
    for name, text in SUITES.items():
        (here / name).write_text(text)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "not-a-key-at-all")
    monkeypatch.setattr("twoarm.render.report.Report.to_html", lambda self, links: "")
    return here


def test_the_first_suite_and_the_five_questions_are_there() -> None:
    assert (len(FIRST), len(TASKS)) == (1, 1)
    assert len(SUITES["hello.toml"].splitlines()) <= 20
    assert list(SUITES) == [
        "hello.toml",
        "mcp.toml",
        "agents-md.toml",
        "models.toml",
        "prompts.toml",
        "branches.toml",
        "several.toml",
    ]


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_of_the_document_runs_as_it_is_written(name: str, workplace: Path) -> None:
    out = workplace / "out"
    result = twoarm(
        "run", str(workplace / name), "--out", str(out), "--repeats", "1", "--jobs", "2",
        "--display", "quiet", "--no-evidence", "--format", "json",
    )  # fmt: skip
    assert result.code == 0, result.err
    records = [json.loads(line) for line in (out / "collected.jsonl").read_text().splitlines()]
    assert len(records) == {"hello.toml": 2, "several.toml": 3}.get(name, 4)
    assert {record["failure"] for record in records} == {None}
    assert {record["success"] for record in records} == {True}


def test_the_first_suite_is_ready_in_an_empty_folder(tmp_path: Path, workplace: Path) -> None:
    here = tmp_path / "new"
    here.mkdir()
    subprocess.run(["sh", "-ec", FIRST[0]], cwd=here, check=True)
    (here / "hello.toml").write_text(SUITES["hello.toml"])
    result = twoarm("run", str(here / "hello.toml"), "--dry-run")
    assert (result.code, result.err) == (0, "")
    assert "\nready: no problems; start it with " in result.out
    out = here / "out"
    assert twoarm("run", str(here / "hello.toml"), "--out", str(out), "--repeats", "1").code == 0
    said = {
        arm: (out / "runs" / arm / "hello.1" / "stdout.txt").read_text()
        for arm in ("with_note", "without_note")
    }
    assert said == {"with_note": "read the note\n", "without_note": ""}


def test_what_differs_between_the_arms_is_what_was_asked(workplace: Path) -> None:
    out = workplace / "out"
    assert twoarm("run", str(workplace / "branches.toml"), "--out", str(out), "--repeats", "1",
                  "--display", "quiet", "--no-evidence").code == 0  # fmt: skip
    for arm, said in (("main", "slow\n"), ("faster", "fast\n")):
        assert (out / "runs" / arm / "date-parsing-dst.1" / "stdout.txt").read_text() == said


def test_every_key_and_placeholder_is_in_the_document() -> None:
    for table in (Suite, SuiteTask, Program, Workspace, Limits, Arm):
        for key in table.__struct_fields__:
            assert f"`{key}`" in DOCUMENT, key
    for name in PLACEHOLDERS:
        assert f"`{{{name}}}`" in DOCUMENT, name


def test_every_option_is_in_the_document() -> None:
    from argparse import ArgumentParser

    from twoarm.commands.run import add_options
    from twoarm.commands.score_options import add_report_options

    def options(add: Callable[[ArgumentParser], object]) -> set[str]:
        parser = ArgumentParser()
        add(parser)
        return {name for action in parser._actions for name in action.option_strings}

    # Those of the report are in the README; these two mean more here.
    own = options(add_options) - options(add_report_options) | {"--out", "--seed"}
    assert "--resume" in own
    for option in own:
        assert option in DOCUMENT, option


def test_the_example_of_checks_is_a_task() -> None:
    (text,) = re.findall(r"^```toml\n(\[\[tasks\]\].*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    (task,) = msgspec.convert(tomllib.loads(text)["tasks"], list[SuiteTask])
    assert list(task.acceptance) == ["docs", "lint", "unit"]
