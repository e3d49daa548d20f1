"""`twoarm init`: a first suite for every agent, which is ready as it is written."""

import json
import os
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.conftest import Result, twoarm
from tests.support.harbor_suites import stand_in
from tests.support.real_agents import AGENTS, installed
from tests.support.stand_ins import STAND_INS
from twoarm.run.first_suite import first_suite

SECRETS = ("ANTHROPIC_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """An empty folder to work in, every key, and no agent on PATH."""
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    for name in SECRETS:
        monkeypatch.setenv(name, "not-a-key-at-all")
    return folder


def install(tmp_path: Path, *agents: str) -> None:
    """Put programs on PATH that know their version alone."""
    for agent in agents:
        stand_in = STAND_INS[agent]
        path = tmp_path / "bin" / stand_in.executable
        path.write_text(f"#!/bin/sh\necho '{stand_in.version}'\n")
        path.chmod(0o755)


def commands(result: Result) -> list[list[str]]:
    """The commands that were printed, without their first word."""
    lines = [line for line in result.out.splitlines() if line.startswith("  twoarm ")]
    return [shlex.split(line)[1:] for line in lines]


def suite_in(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "suite.toml").read_text())


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("agent", [*STAND_INS, "command"])
def test_a_first_suite_is_ready_as_it_is_written(tmp_path: Path, here: Path, agent: str) -> None:
    if agent != "command":
        install(tmp_path, agent)
    made = twoarm("init", "my suite", "--agent", agent)
    assert (made.code, made.err) == (0, "")
    dry, run, score = commands(made)
    assert (run[:2], score) == (["run", "my suite/suite.toml"], ["score", "my suite/run"])
    rehearsed = twoarm(*dry)
    assert (rehearsed.code, rehearsed.err) == (0, "")
    assert "\nready: no problems; start it with " in rehearsed.out
    assert "2 tasks x 5 repeats x 2 arms = 20 trials" in rehearsed.out
    schema = json.loads(twoarm("schema", "suite").out)
    jsonschema.Draft202012Validator(schema).validate(suite_in(here / "my suite"))


def test_a_first_suite_of_harbor_is_ready_as_it_is_written(tmp_path: Path, here: Path) -> None:
    stand_in(tmp_path / "bin")
    made = twoarm("init", "first", "--agent", "harbor")
    assert (made.code, made.err) == (0, "")
    rehearsed = twoarm(*commands(made)[0])
    assert "2 tasks x 5 repeats x 2 arms = 20 trials" in rehearsed.out, rehearsed.err
    assert "\nready: no problems; start it with " in rehearsed.out
    schema = json.loads(twoarm("schema", "suite").out)
    jsonschema.Draft202012Validator(schema).validate(suite_in(here / "first"))
    lines = (here / "first" / "suite.toml").read_text().splitlines()
    assert {line.index("  # ") + 2 for line in lines if "  # " in line} == {38}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_first_suite_is_ready_for_the_real_agent(
    agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = installed()
    made = twoarm("init", "first", "--agent", agent)
    assert "no program " in made.err
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert "\nready: no problems; " in twoarm(*commands(made)[0]).out


def test_the_commands_that_are_printed_end_in_a_verdict(here: Path) -> None:
    made = twoarm("init", "first", "--agent", "command")
    _, run, score = commands(made)
    ran = twoarm(*run, "--no-evidence", "--display", "quiet", "--jobs", "4")
    assert ran.code == 0, ran.err
    assert "20 of 20 runs counted" in ran.out
    analysis = json.loads((here / "first" / "run" / "analysis.json").read_text())
    assert [arm["success_rate"] for arm in analysis["arm_summaries"]] == [1.0, 1.0]
    tokens = [arm["median_non_cache_tokens"] for arm in analysis["arm_summaries"]]
    assert tokens[0] < tokens[1]
    assert analysis["decision"].startswith("prefer")
    assert twoarm(*score, "--no-evidence").out == ran.out


@pytest.mark.parametrize(
    ("agent", "guide"),
    [
        ("claude-code", "CLAUDE.md"),
        ("gemini-cli", "GEMINI.md"),
        ("codex", "AGENTS.md"),
        ("opencode", "AGENTS.md"),
        ("command", "AGENTS.md"),
    ],
)
def test_one_arm_has_what_the_agent_reads(here: Path, agent: str, guide: str) -> None:
    twoarm("init", "first", "--agent", agent)
    assert suite_in(here / "first")["arms"] == {
        "with_guide": {"files": {guide: "guide.md"}},
        "without_guide": {},
    }
    assert (here / "first" / "agent.sh").exists() == (agent == "command")


@pytest.mark.parametrize("agent", [*STAND_INS, "command"])
def test_comments_are_in_line_and_lines_are_not_long(agent: str) -> None:
    lines = first_suite(agent)["suite.toml"].decode().splitlines()
    assert len(lines) < 55
    assert max(map(len, lines)) <= 104
    starts = {line.index("  # ") + 2 for line in lines if "  # " in line and "argv" not in line}
    assert starts == {38}


@pytest.mark.parametrize("agent", ["codex", "gemini-cli"])
def test_a_budget_that_was_a_comment_can_be_taken_in(
    tmp_path: Path, here: Path, agent: str
) -> None:
    install(tmp_path, agent)
    made = twoarm("init", "first", "--agent", agent)
    path = here / "first" / "suite.toml"
    assert "budget_usd" not in suite_in(path.parent)["limits"]
    text = path.read_text()
    for key in ("prices", "budget_usd", "trial_usd"):
        text = text.replace(f"# {key} =", f"{key} =")
    path.write_text(text)
    prices = "input = 1\noutput = 1\ncache_read = 1\ncache_write = 0\n"
    model = suite_in(path.parent)["agent"]["model"]
    (path.parent / "prices.toml").write_text(f'["{model}"]\n{prices}')
    assert "the budget is $5.00" in twoarm(*commands(made)[0]).out


def test_without_a_program_or_a_key_the_suite_is_written_and_says_what_to_do(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = twoarm("init", "first", "--agent", "codex")
    assert (made.code, len(commands(made))) == (0, 3)
    assert made.err == (
        "twoarm: not ready yet: agent `codex`: no program `codex` on PATH; install it, or put the "
        "folder it is in on PATH\n"
    )
    install(tmp_path, "codex")
    monkeypatch.delenv("CODEX_API_KEY")
    assert twoarm("init", "second", "--agent", "codex").err == (
        "twoarm: not ready yet: secret `CODEX_API_KEY` is not set; export it before you run\n"
    )
    assert everything(here / "first") == everything(here / "second")


def test_the_only_agent_on_path_is_taken_and_of_several_one_is_to_be_named(
    tmp_path: Path, here: Path
) -> None:
    assert twoarm("init", "first").err == (
        "twoarm: which agent? none is on PATH; name one with --agent: claude-code, codex, command, "
        "gemini-cli, harbor, opencode\n"
    )
    install(tmp_path, "codex")
    assert "a suite for codex" in twoarm("init", "first").out
    install(tmp_path, "opencode")
    assert twoarm("init", "second").err == (
        "twoarm: which agent? `codex` and `opencode` are on PATH; name one with --agent\n"
    )
    assert everything(here) == ["first", *(f"first/{name}" for name in everything(here / "first"))]


def test_an_agent_that_nobody_knows_is_refused_and_nothing_is_written(here: Path) -> None:
    made = twoarm("init", "first", "--agent", "cod")
    assert (made.code, made.err) == (2, "twoarm: no agent `cod`; did you mean `codex`?\n")
    nowhere = twoarm("init", "", "--agent", "command")
    assert nowhere.err == "twoarm: which folder? write twoarm init DIR\n"
    made = twoarm("init", "first", "--agent", "table")
    assert made.err.startswith("twoarm: no agent `table`; the agents are claude-code, codex")
    assert everything(here) == []


LAUNCH = """
from twoarm.programs.agent import Launch
from twoarm.programs.installed import Installed
class Odd(Installed):
    name = "odd"
    oldest = None
    executable = "odd-agent"
    format = "command"
    def launch(self, start): return Launch(argv=("odd-agent",), output="out.txt")
    def meter(self, start, prices): return None
launch = Odd
"""


def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launch: str) -> Path:
    """Install a package with an agent; its module."""
    site = tmp_path / "site"
    for folder in ("odd_agent", "odd-1.0.dist-info"):
        (site / folder).mkdir(parents=True)
    (site / "odd_agent" / "__init__.py").touch()
    (site / "odd_agent" / "launch.py").write_text(launch)
    info = site / "odd-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[twoarm.programs]\nodd = odd_agent\n")
    monkeypatch.syspath_prepend(str(site))
    for module in ("odd_agent", "odd_agent.launch"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    program = tmp_path / "bin" / "odd-agent"
    program.write_text("#!/bin/sh\necho 1.0\n")
    program.chmod(0o755)
    return site / "odd_agent" / "launch.py"


def test_an_agent_of_another_package_may_bring_its_habits(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    habits = '    habits = Habits(guide="ODD.md", model="odd-1", secret="OPENAI_API_KEY")\n'
    launch = LAUNCH.replace("import Launch", "import Habits, Launch")
    other_package(tmp_path, monkeypatch, launch.replace("launch = Odd", f"{habits}launch = Odd"))
    made = twoarm("init", "first")
    assert (made.code, made.err) == (0, "")
    suite = suite_in(here / "first")
    assert suite["agent"] == {"program": "odd", "model": "odd-1", "secrets": ["OPENAI_API_KEY"]}
    assert suite["arms"]["with_guide"] == {"files": {"ODD.md": "guide.md"}}


def test_an_agent_of_another_package_has_its_model_and_secret_left_to_the_user(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = other_package(tmp_path, monkeypatch, LAUNCH)
    made = twoarm("init", "first")
    assert (made.code, made.err) == (0, "")
    assert suite_in(here / "first")["agent"] == {"program": "odd"}
    assert '\n# secrets = ["API_KEY"]' in (here / "first" / "suite.toml").read_text()
    assert "\nready: no problems; " in twoarm(*commands(made)[0]).out
    # One that cannot be loaded does not stand in the way of the others.
    module.write_text("raise OSError")
    for name in ("odd_agent", "odd_agent.launch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    install(tmp_path, "codex")
    assert "a suite for codex" in twoarm("init", "second").out


def test_what_is_there_is_never_overwritten(here: Path) -> None:
    (here / "full").mkdir()
    for name in ("d", "b", "a", "c"):
        (here / "full" / name).touch()
    made = twoarm("init", "full", "--agent", "command")
    assert (made.code, made.out) == (2, "")
    assert made.err == (
        "twoarm: full: not empty: it has `a`, `b`, `c` and 1 more; name a new folder, or an empty "
        "one\n"
    )
    assert twoarm("init", "full/a", "--agent", "command").err == (
        "twoarm: full/a: there already, and not a folder; name a new one\n"
    )
    assert everything(here) == ["full", *(f"full/{name}" for name in "abcd")]


def test_an_empty_folder_stays_the_same_one(here: Path) -> None:
    before = here.stat().st_ino
    made = twoarm("init", ".", "--agent", "command")
    assert (made.code, made.err) == (0, "")
    assert here.stat().st_ino == before
    assert sorted(os.listdir(here)) == ["agent.sh", "app", "guide.md", "suite.toml"]
    assert "\nready: no problems; " in twoarm(*commands(made)[0]).out


def test_a_folder_is_made_with_those_above_it_and_through_the_users_own_link(here: Path) -> None:
    (here / "link").symlink_to("real")
    for name in ("a/b/c", "link"):
        assert twoarm("init", name, "--agent", "command").code == 0
    assert everything(here / "a/b/c") == everything(here / "real")
