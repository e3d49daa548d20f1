"""Every command on the site is one that twoarm takes; those of the recipes are run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from tests.forge.workflows.test_workflow import OPENCODE, SUITE, git
from tests.support.collect_fixtures import FIXTURES, cat, sidecar
from tests.support.documents import DOCS, ROOT, bash, block_with, blocks
from twoarm.commands.cli import _parse
from twoarm.commands.console import Streams
from twoarm.commands.given import refuse_idle

FILES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
RECIPES = sorted((DOCS / "recipes").glob("*.md"))


def commands(path: Path) -> Iterator[list[str]]:
    """The words of every call of twoarm in the blocks of a file."""
    text = path.read_text(encoding="utf-8")
    for block in re.findall(r"^```(?:sh|console|bash)\n(.*?)^```", text, flags=re.M | re.S):
        joined = re.sub(r"\\\n\s*", " ", block)
        for line in joined.splitlines():
            for part in re.split(r"\|\||&&|[|;]", line.removeprefix("$ ")):
                try:
                    words = shlex.split(part, comments=True)
                except ValueError:
                    continue
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words.pop(0)
                if words[:1] == ["twoarm"]:
                    yield list(takewhile(lambda word: not re.match(r"\d?[<>]", word), words[1:]))


CALLS = [(path, words) for path in FILES for words in commands(path)]


def test_there_are_commands_to_look_at() -> None:
    assert len(CALLS) > 80
    assert {"run", "score", "collect", "plan", "log", "init"} <= {words[0] for _, words in CALLS}


@pytest.mark.parametrize(("path", "words"), CALLS, ids=lambda given: getattr(given, "name", ""))
def test_a_command_is_one_that_twoarm_takes(
    path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # An option that is not there ends the program, one that would do nothing is an error.
    code: object = 0
    try:
        refuse_idle(*_parse(words, Streams()))
    except SystemExit as leaving:
        code = leaving.code
    assert code in (0, None), capsys.readouterr().err


CLAUDE = f"""#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.325 (Claude Code)'; exit; fi
printf 'echo "Hello, $1!"\\n' > greet.sh
printf 'echo "Goodbye, $1!"\\n' > farewell.sh
{cat("claude-code/ok/stream.jsonl")}
"""


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the recipes speak of, with stand-ins for the agents."""
    programs, here = tmp_path / "programs", tmp_path / "here"
    programs.mkdir()
    for name, script in {"claude": CLAUDE, "opencode": OPENCODE}.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    app = here / "app"
    app.mkdir(parents=True)
    for name in ("greet", "farewell"):
        (app / f"{name}.sh").write_text("echo something\n")
    (here / "evals").mkdir()
    git(here, "init", "-q")
    for name in ("greet.sh", "AGENTS.md"):
        (here / name).write_text("echo Hello!\n")
    shutil.copy(SUITE, here / "evals")
    for _ in range(2):
        git(here, "add", "AGENTS.md", "greet.sh")
        git(here, "commit", "-q", "--allow-empty", "-m", "x")
    (here / "AGENTS.md").write_text("Use the shell.\n")
    for arm in ("ours", "theirs"):
        for trial in (FIXTURES / "harbor" / "ab-demo").glob("*/result.json"):
            behaviour = json.loads(trial.read_text())["config"]["agent"]["kwargs"]["behaviour"]
            if (behaviour == "solve") is (arm == "ours"):
                shutil.copytree(trial.parent, here / "jobs" / arm / trial.parent.name)
        shutil.copytree(FIXTURES / "mini-swe-agent" / "ok", here / "swe" / arm)
        for path in (here / "swe" / arm).glob("run.json"):
            path.unlink()
        names = [path.name.split(".")[0] for path in (here / "swe" / arm).glob("*.traj.json")]
        told = {"schema_version": 2, "resolved_ids": names, "unresolved_ids": []}
        (here / "swe" / f"{arm}.json").write_text(json.dumps(told))
    monkeypatch.setenv("PATH", f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "not-a-key-at-all")
    return here


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_works_as_it_is_written(path: Path, workplace: Path) -> None:
    for text in blocks(path, "toml"):
        (workplace / text.split()[1]).write_text(text)
    for text in blocks(path, "json"):
        (workplace / "search.mcp.json").write_text(text)
    if path.stem == "paper":
        suite = (DOCS / "recipes" / "mcp.md").read_text(encoding="utf-8")
        (text,) = re.findall(r"^```toml\n(.*?)^```$", suite, flags=re.M | re.S)
        (workplace / "suite.toml").write_text(text)
        (workplace / "search.mcp.json").write_text("{}")
    scripts = blocks(path, "sh")
    assert scripts
    for script in scripts:
        bash(script, workplace)


def test_a_run_of_ones_own_from_the_readme_to_its_history(workplace: Path) -> None:
    def told(script: str) -> str:
        return bash(script, workplace)

    readme = block_with(ROOT / "README.md", "twoarm init first")
    first, _, later = readme.partition("twoarm run --resume DIR")
    (folder,) = set(re.findall(r"^twoarm: run folder (.*)$", told(first), flags=re.M))
    grown = told(f"twoarm run --resume DIR{later}".replace("DIR", folder).replace("NEW", "graded"))
    assert "2 tasks x 10 repeats" in grown
    shutil.copytree(folder, workplace / "out")
    shutil.copy(workplace / "first" / "suite.toml", workplace / "first" / "fixed.toml")
    shutil.rmtree(workplace / "graded")
    guide = DOCS / "run.md"
    assert "2 tasks x 5 repeats" in told(block_with(guide, "--part 2"))
    same, another = block_with(guide, "twoarm regrade").splitlines()
    assert "2 tasks x 10 repeats" in told(same)
    shutil.rmtree(workplace / "graded")
    assert "2 tasks x 10 repeats" in told(another.replace("fixed", "first/fixed"))
    assert "v1.4" in told(f"{block_with(DOCS / 'history.md', 'twoarm log add')}cat history.html")


def test_what_the_readme_collects_from_harbor(workplace: Path) -> None:
    (workplace / "jobs" / "ours").rename(workplace / "jobs" / "with")
    (workplace / "jobs" / "theirs").rename(workplace / "jobs" / "without")
    bash(block_with(ROOT / "README.md", "twoarm collect harbor"), workplace)
    records = (workplace / "collected.jsonl").read_text().splitlines()
    arms = [json.loads(record)["arm"] for record in records]
    assert arms.count("with_x") == arms.count("without_x") > 1


def test_runs_of_claude_code_are_explained_as_they_are_written(workplace: Path) -> None:
    guide = DOCS / "explain.md"
    for arm in ("with_x", "without_x"):
        folder = workplace / "runs" / arm / "sql-pagination-3"
        shutil.copytree(FIXTURES / "claude-code" / "ok", folder)
        sidecar(folder, task_id="sql-pagination", repeat=3)
    bash(block_with(guide, "twoarm collect claude-code"), workplace)
    for record in (workplace / "collected.jsonl").read_text().splitlines():
        assert "uptake_count" in json.loads(record)
    bash("twoarm init first --agent command && cp -R first/. .", workplace)
    suite = workplace / "suite.toml"
    suite.write_text(suite.read_text().replace('id = "by-name"', 'id = "sql-pagination"'))
    bash(block_with(guide, "twoarm show"), workplace)
    for out in ("results", "scored"):
        assert list((workplace / out / "run-pages").glob("sql-pagination*")), out
    assert "PROMOTE" in bash(block_with(DOCS / "run.md", "twoarm run --demo"), workplace)


def test_the_reference_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.reference", "--check"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
