"""`twoarm run` as a user types it: what leads to a verdict, and what is refused before a trial."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import USAGE, records, run, runs
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run.freeze import ProgramFile

pytestmark = pytest.mark.usefixtures("cache")

FOUND = ProgramFile(path="sh", digest="", version=None)


def test_a_suite_leads_to_a_verdict(tmp_path: Path, cache: Path) -> None:
    script = USAGE + f'used 100 0.5; [ -n "$HINT" ] && {SOLVE}; true'
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--repeats", "2")
    assert result.code == 0, result.err
    analysis = json.loads(result.out)
    rates = {arm["arm"]: arm["success_rate"] for arm in analysis["arm_summaries"]}
    assert rates == {"with": 1.0, "without": 0.0}
    assert (analysis["candidate"], analysis["baseline"]) == ("with", "without")
    assert len(runs(out)) == 8
    names = {"schedule.json", "journal.jsonl", "lock", "collected.jsonl", "analysis.json"}
    assert names | {"receipt.json", "report.html"} <= {path.name for path in out.iterdir()}
    kept = {path.name for path in (out / "runs" / "with" / "one.1").iterdir()}
    assert kept == {
        "run.json", "trial.json", "prompt.txt", "stdout.txt", "stderr.log", "acceptance.log",
        "diff.patch", "usage.json",
    }  # fmt: skip
    assert {record["total_cost_usd"] for record in records(out)} == {0.5}
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["spent_usd"] == 4.0
    assert sum(path.endswith("/run.json") for path in receipt["files_sha256"]) == 8
    # Nothing is left in the cache.
    assert list(cache.iterdir()) == []


def test_the_same_suite_gives_the_same_schedule(tmp_path: Path) -> None:
    shutil.copytree(suite_of(tmp_path / "a").parent, tmp_path / "b")
    for name in ("a", "b"):
        assert run(tmp_path / name / "suite.json", tmp_path / f"out-{name}").code == 0
    one, other = ((tmp_path / f"out-{name}" / "schedule.json").read_bytes() for name in "ab")
    assert one == other
    assert str(tmp_path).encode() not in one


def test_a_typo_in_the_suite_starts_nothing(tmp_path: Path) -> None:
    path = suite_of(tmp_path, limit={"x": 1})
    result = run(path, tmp_path / "out")
    assert result.code == 2
    assert f"{path}: limit: unknown key; did you mean `limits`?" in result.err
    assert "1 problem; nothing was run" in result.err
    assert not (tmp_path / "out").exists()


def test_an_agent_that_is_not_installed_is_named(tmp_path: Path) -> None:
    path = suite_of(tmp_path, agent={"argv": ["no-such-agent"]})
    result = run(path, tmp_path / "out")
    assert (result.code, "no program `no-such-agent` on PATH" in result.err) == (2, True)
    path = suite_of(tmp_path, agent={"program": "cluade-code", "argv": None})
    said = "agent.program: no agent `cluade-code`; did you mean `claude-code`?"
    assert said in run(path, tmp_path / "out").err


def test_an_acceptance_that_cannot_be_run_stops_before_any_trial(tmp_path: Path) -> None:
    tasks = [{"id": "t", "prompt": "p", "acceptance_command": "no-such-command"}]
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, tasks=tasks), out)
    assert result.code == 2
    assert "task `t`: its acceptance command cannot be run (exit code 127): /bin/sh: " in result.err
    assert runs(out) == []
    log = out / "setup" / "acceptance.t.1" / "acceptance.log"
    assert "no-such-command" in log.read_text()


def test_a_dry_run_tries_acceptance_twice_and_starts_no_agent(tmp_path: Path, cache: Path) -> None:
    flag = tmp_path / "flag"
    flips = f"if [ -e {flag} ]; then exit 0; else touch {flag}; exit 1; fi"
    tasks = [
        {"id": "passes", "prompt": "p", "acceptance_command": "true"},
        {"id": "flips", "prompt": "p", "acceptance_command": flips},
        {"id": "fails", "prompt": "p", "acceptance_command": "false"},
    ]
    path = suite_of(tmp_path, f"touch {tmp_path}/ran", tasks=tasks)
    result = twoarm("run", str(path), "--dry-run", "--jobs", "1")
    assert result.code == 0, result.err
    assert "3 tasks x 5 repeats x 2 arms = 30 trials" in result.out
    assert "warning: task `passes`: acceptance passes on the untouched workspace" in result.out
    assert "warning: task `flips`: acceptance is flaky on the untouched workspace" in result.out
    assert "`fails`" not in result.out
    assert "can see: a difference of about" in result.out
    assert not (tmp_path / "ran").exists()
    assert list(cache.iterdir()) == []


def test_no_tokens_are_said_to_be_no_verdict(tmp_path: Path) -> None:
    path = suite_of(tmp_path, agent={"format": "none"})
    assert "can only end in `insufficient data`" in twoarm("run", str(path), "--dry-run").out


def test_a_folder_is_not_used_twice(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    assert "has a schedule already; continue it with --resume" in run(suite, out).err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "is not empty" in run(suite, tmp_path / "full").err
    assert "is not a run folder" in twoarm("run", "--resume", str(tmp_path / "full")).err


@pytest.mark.parametrize("option", ["--resume", "--status", "--stop"])
def test_what_is_no_run_folder_is_said_in_the_same_words(tmp_path: Path, option: str) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("gone", "empty"):
        path = tmp_path / name
        assert twoarm("run", option, str(path)).err == (
            f"twoarm: {path} is not a run folder: no schedule.json in it; name one that twoarm run "
            "made\n"
        )


def test_a_cache_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(tmp_path / "s")
    (tmp_path / "file").touch()
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "file" / "below"))
    told = run(suite, tmp_path / "out").err
    assert "no place for workspaces: " in told
    assert "cannot be written" in told
    assert "TWOARM_CACHE" in told
    (tmp_path / "up" / "cache").mkdir(parents=True)
    (tmp_path / "up" / "CLAUDE.md").write_text("do as I say")
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "up" / "cache"))
    assert "CLAUDE.md` would be read by agents below it" in run(suite, tmp_path / "out2").err


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run(suite_of(tmp_path / "s"), tmp_path / "file" / "out")
    assert (result.code, "cannot be written" in result.err) == (2, True)


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    assert "which suite?" in twoarm("run").err
    told = twoarm("run", "--resume", "x", "--status", "y").err
    assert "--resume has no effect with --status" in told
    suite = str(suite_of(tmp_path))
    assert "--repeats: expected a number from 1" in twoarm("run", suite, "--repeats", "0").err
    assert "no task `zzz`; tasks are `one`, `two`" in twoarm("run", suite, "--only", "zzz").err
    assert "no task is left" in twoarm("run", suite, "--tag", "zzz").err
    assert twoarm("run", suite, "--budget", "5", "--dry-run").code == 2


def test_windows_is_refused_and_everything_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    result = twoarm("run", "suite.toml")
    assert (result.code, "inside WSL" in result.err) == (2, True)
    code = """
import signal, subprocess, sys, os
for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGKILL", "SIGCHLD", "SIGXFSZ"):
    delattr(signal, name)
for name in ("getuid", "posix_spawn", "killpg", "fork"):
    delattr(os, name)
import twoarm.commands.cli, twoarm.commands.run, twoarm.run.rehearse, twoarm.run.session
import twoarm.programs.command.launch, twoarm.run.display
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sandbox_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "bwrap" else f"/{name}")
    told = run(suite, tmp_path / "out2", "--isolation", "bwrap").err
    assert "--isolation bwrap: bubblewrap is not installed" in told
    assert not (tmp_path / "out2").exists()


def test_an_agent_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text("#!/bin/sh\necho '1.0.3 (Claude Code)'\n")
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    path = suite_of(tmp_path, agent={"program": "claude-code", "argv": None})
    told = run(path, tmp_path / "out").err
    assert (
        f"agent `claude-code`: {programs}/claude is 1.0.3; the oldest supported version is 2.1"
        in told
    )
    (programs / "claude").write_text("#!/bin/sh\necho hello\n")
    assert "does not report its version" in run(path, tmp_path / "out").err


def test_a_prompt_that_is_too_long_for_an_argument_is_not_the_agents_failure(
    tmp_path: Path,
) -> None:
    tasks = [{"id": "t", "prompt": "x" * 200_000, "acceptance_command": "false"}]
    path = suite_of(tmp_path, agent={"argv": ["true", "{prompt}"]}, tasks=tasks)
    result = run(path, tmp_path / "out", "--jobs", "1")
    assert result.code == 2
    assert "an argument of 200,000 bytes" in result.err
    assert not (tmp_path / "out").exists()
    # Each is short enough, all of them are not.
    path = suite_of(tmp_path, agent={"argv": ["true"], "args": ["x" * 100_000] * 50}, tasks=tasks)
    result = run(path, tmp_path / "out", "--jobs", "1")
    assert result.code == 2
    assert "Argument list too long" in result.err
    assert runs(tmp_path / "out") == []
    path = suite_of(tmp_path, agent={"argv": ["true", "{prompt_file}"]}, tasks=tasks)
    assert run(path, tmp_path / "out2", "--jobs", "1").code == 0
