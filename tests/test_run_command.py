"""`twoarm run` as a user types it: what is made, what is refused, and what every fault ends in."""

import json
import marshal
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result, twoarm
from tests.running import SOLVE, processes_with, suite_of, wait_for
from twoarm.run.freeze import Found

USAGE = """
used() { printf '{"input_tokens": %d, "output_tokens": 10, "cost_usd": %s}' $1 $2 > $TWOARM_USAGE; }
infra() { printf '{"failure": {"failure": "infra", "reason": "%s"}}' "$1" > $TWOARM_USAGE; }
"""
QUICK = ("--display", "quiet", "--no-evidence", "--format", "json")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Workspaces where the test sees them."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TWOARM_CACHE", str(path))
    # The page takes a second to draw, and is tested elsewhere.
    monkeypatch.setattr("twoarm.report.Report.to_html", lambda self: "")
    return path


def run(suite: Path, out: Path, *more: str) -> Result:
    repeats = () if "--repeats" in more else ("--repeats", "1")
    return twoarm("run", str(suite), "--out", str(out), *repeats, *QUICK, *more)


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "collected.jsonl").read_text().splitlines()]


def runs(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out / "runs")) for path in out.glob("runs/*/*"))


def journal(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]


FOUND = Found(path="sh", digest="", version=None)
ALL = ["with/one.1", "with/two.1", "without/one.1", "without/two.1"]


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
    assert len(receipt["run_json_sha256"]) == 8
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
    assert "no agent `cluade-code`; agents are " in run(path, tmp_path / "out").err


def test_an_acceptance_that_cannot_be_run_stops_before_any_trial(tmp_path: Path) -> None:
    tasks = [{"id": "t", "prompt": "p", "acceptance_command": "no-such-command"}]
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, tasks=tasks), out)
    assert result.code == 2
    assert "task `t`: its acceptance command cannot be run (exit code 127); see " in result.err
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
    assert "can only end in `insufficient data`" in twoarm("run", str(path), "--dry-run").err


def committed(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "some.txt").touch()
    git = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(path)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x", "--allow-empty"]):
        subprocess.run([*git, *words], check=True)
    return path


def test_a_repository_is_exported_at_its_commit_without_history(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / ".gitattributes").write_text("kept.txt export-ignore\n")
    (app / "kept.txt").write_text("kept\n")
    committed(app)
    (app / "kept.txt").write_text("changed\n")
    (app / "new.txt").write_text("not in git\n")
    script = "cat kept.txt; ls; git log --format=%an%ad%s; git rev-list --all --count; pwd"
    out = tmp_path / "out"
    suite = suite_of(tmp_path, script, workspace={"copy": None, "repo": "app"})
    result = run(suite, out)
    assert result.code == 0, result.err
    assert "uncommitted changes in `app` are ignored; trials start from" in result.err
    lines = (out / "runs" / "with" / "one.1" / "stdout.txt").read_text().splitlines()
    assert lines[:3] == ["kept", "kept.txt", "some.txt"]
    assert lines[3] == "twoarmSat Jan 1 00:00:00 2000 +0000start"
    assert lines[4] == "1"
    assert "with" not in lines[5].replace(str(tmp_path), "")


def test_submodules_and_lfs_pointers_are_refused_with_a_way_out(tmp_path: Path) -> None:
    app, other = tmp_path / "app", committed(tmp_path / "other")
    suite = suite_of(tmp_path, workspace={"copy": None, "repo": "app"})
    committed(app)
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-C", str(app), "submodule", "add", "-q",
         str(other), "sub"], check=True, capture_output=True,
    )  # fmt: skip
    committed(app)
    told = run(suite, tmp_path / "out").err
    assert "`sub` is a submodule, which is not exported; " in told
    assert "workspace.copy" in told
    shutil.rmtree(app)
    app.mkdir()
    (app / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    committed(app)
    assert "`big.bin` is in LFS" in run(suite, tmp_path / "out2").err


def test_arms_differ_in_files_and_home_and_prompt(tmp_path: Path) -> None:
    here = tmp_path / "suite"
    here.mkdir()
    (here / "AGENTS.md").write_text("be good\n")
    (here / "rc").write_text("rc\n")
    path = suite_of(
        here,
        "cat AGENTS.md $HOME/.rc README.md; printf '%s' \"$1\"",
        agent={"argv": ["sh", "{suite}/agent.sh", "{prompt}"]},
        arms={
            "with": {
                "env": None,
                "files": {"AGENTS.md": "AGENTS.md"},
                "home": {".rc": "rc"},
                "prompt_template": "First. {prompt} ({acceptance_command})",
            },
            "without": {"remove": ["README.md"]},
        },
    )
    out = tmp_path / "out"
    assert run(path, out).code == 0
    said = (out / "runs" / "with" / "one.1" / "stdout.txt").read_text()
    assert said == "be good\nrc\nan app\nFirst. Do one. (test -f answer.txt)"
    assert (out / "runs" / "with" / "one.1" / "prompt.txt").read_text().startswith("First. ")
    without = out / "runs" / "without" / "one.1"
    assert (without / "stdout.txt").read_text() == "Do one."
    # What an arm changes is in the commit: it is not the agent's change.
    assert (without / "diff.patch").read_text() == ""


def test_an_arm_may_be_a_branch_of_a_tool(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.mkdir()
    (tool / "tool.sh").write_text("#!/bin/sh\necho old\n")
    committed(tool)
    subprocess.run(["git", "-C", str(tool), "checkout", "-qb", "faster"], check=True)
    (tool / "tool.sh").write_text("#!/bin/sh\necho new\n")
    committed(tool)
    subprocess.run(["git", "-C", str(tool), "checkout", "-q", "-"], check=True)
    build = ["mkdir -p {build}/bin && install tool.sh {build}/bin/tool"]
    path = suite_of(
        tmp_path,
        "tool; cat made",
        arms={
            "with": {"env": None, "source": {"repo": "tool", "ref": "faster"},
                     "build_commands": build, "setup_commands": ["tool > made"]},
            "without": {"source": {"repo": "tool", "ref": "HEAD"}, "build_commands": build,
                        "setup_commands": ["tool > made"]},
        },
    )  # fmt: skip
    out = tmp_path / "out"
    result = run(path, out)
    assert result.code == 0, result.err
    assert (out / "runs" / "with" / "one.1" / "stdout.txt").read_text() == "new\nnew\n"
    assert (out / "runs" / "without" / "one.1" / "stdout.txt").read_text() == "old\nold\n"


def test_a_build_that_fails_stops_everything(tmp_path: Path) -> None:
    committed(tmp_path / "tool")
    arm = {"source": {"repo": "tool"}, "build_commands": ["echo broken; exit 4"], "env": None}
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, arms={"with": arm}), out)
    assert result.code == 2
    assert "build of arm `with` failed with exit code 4; see " in result.err
    assert (out / "setup" / "build.with" / "setup.log").read_text() == "broken\n"


def test_set_up_runs_once_per_task_and_every_trial_has_a_copy(tmp_path: Path) -> None:
    count = tmp_path / "count"
    once = f"echo x >> {count}; echo made > made.txt"
    path = suite_of(
        tmp_path, "cat made.txt; echo spoiled > made.txt", workspace={"setup_commands": [once]}
    )
    out = tmp_path / "out"
    assert run(path, out, "--repeats", "2").code == 0
    assert count.read_text() == "x\n"
    said = {(path / "stdout.txt").read_text() for path in out.glob("runs/*/*")}
    assert said == {"made\n"}
    told = run(suite_of(tmp_path, workspace={"setup_commands": ["exit 3"]}), tmp_path / "no").err
    assert "setup of the workspace failed with exit code 3; see " in told


def test_an_arm_whose_set_up_keeps_failing_stops_everything(tmp_path: Path) -> None:
    path = suite_of(tmp_path, arms={"with": {"setup_commands": ["echo no; exit 5"]}})
    out = tmp_path / "out"
    result = run(path, out)
    assert result.code == 2
    assert "the setup of arm `with` keeps failing (exit code 5); see " in result.err
    assert {record["attempt"].split("/")[0] for record in journal(out) if "attempt" in record} >= {
        "with"
    }
    assert not [name for name in runs(out) if name.startswith("with/")]


# What the agent does; success, failure and its reason in the record.
FAULTS = {
    "times out": ("echo 1 > answer.txt; sleep 60", False, "agent", "time"),
    "says success when stopped": (
        "trap 'echo 1 > answer.txt; exit 0' TERM; i=0; "
        "while [ $i -lt 1000 ]; do i=$((i + 1)); sleep 0.05; done",
        False,
        "agent",
        "time",
    ),
    "prints too much": ("echo 1 > answer.txt; exec timeout 60 yes", False, "agent", "output"),
    "crashes": ("exit 3", False, None, None),
    "is killed": ("kill -9 $$", False, None, None),
    "kills its supervisor": ("kill -9 $PPID; sleep 60", False, "agent", "supervisor"),
    "deletes its test runner": ("cd ..; rm -rf work; true", False, None, None),
    "leaves counts that are none": ("echo '{' > $TWOARM_USAGE", False, "agent", "cannot be read"),
    "passes": (SOLVE, True, None, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_an_agent_can_cause_is_its_own_failure_and_never_tried_again(
    tmp_path: Path, name: str
) -> None:
    script, success, failure, reason = FAULTS[name]
    limits = {"timeout_seconds": 0.5, "grace_seconds": 0.2, "output_mb": 1}
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script, limits=limits), out, "--only", "one")
    assert result.code == 0, result.err
    found = records(out)
    assert len(found) == 2
    for record in found:
        assert record["success"] is success
        assert record["failure"] == failure
        assert (reason or "") in (record.get("failure_reason") or "")
    assert not list(out.glob(".attempts/*/*"))
    assert processes_with(str(tmp_path / "cache")) == []


def test_an_infra_failure_is_tried_again_and_reported(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    script = USAGE + f'if [ -e {flag} ]; then {SOLVE}; else touch {flag}; infra "429 busy"; fi'
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--jobs", "1")
    assert result.code == 0, result.err
    assert runs(out) == ALL
    assert len(list(out.glob(".attempts/*/*/trial.json"))) == 1
    assert json.loads(result.out)["excluded_infra_failures"] == 1
    receipt = json.loads((out / "receipt.json").read_text())
    assert [one["reason"] for one in receipt["attempts_without_run"]] == ["429 busy"]


def test_a_provider_that_is_down_stops_everything_and_resume_goes_on(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    script = USAGE + f'if [ -e {flag} ]; then {SOLVE}; else infra "401 no key"; fi'
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--jobs", "1")
    assert result.code == 2
    assert "6 attempts in a row failed" in result.err
    assert f"nothing is lost; continue with twoarm run --resume {out}" in result.err
    assert "401 no key" in result.err
    assert runs(out) == []
    flag.touch()
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    assert runs(out) == ALL
    assert json.loads(result.out)["excluded_infra_failures"] == 6


def test_a_budget_stops_the_run_and_more_of_it_goes_on(tmp_path: Path) -> None:
    script = USAGE + f"used 100 0.5; {SOLVE}"
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--repeats", "2", "--jobs", "1",
                 "--budget", "2", "--trial-budget", "0.5")  # fmt: skip
    assert result.code == 0, result.err
    assert "the budget is soft" in result.err
    assert "the budget does not cover another trial; raise it to continue: " in result.err
    # 1.5 times the dearest is reserved: a second block would need 1.0 + 2 x 0.75.
    assert len(runs(out)) == 2
    assert "can only grow" in twoarm("run", "--resume", str(out), "--budget", "1", *QUICK).err
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert len(runs(out)) == 2
    result = twoarm("run", "--resume", str(out), "--budget", "9", *QUICK)
    assert result.code == 0, result.err
    assert len(runs(out)) == 8
    status = twoarm("run", "--status", str(out)).out
    assert "8 of 8 trials done, 0 running, 0 infra, $4.00 of $9.00 spent" in status


def test_a_folder_is_not_used_twice(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    assert "has a schedule already; continue it with --resume" in run(suite, out).err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "is not empty" in run(suite, tmp_path / "full").err
    assert "is not a run folder" in twoarm("run", "--resume", str(tmp_path / "full")).err
    assert "is not a run folder" in twoarm("run", "--status", str(tmp_path / "gone")).err


def test_resuming_what_is_done_only_reports_again(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/*")}
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/*")} == before


def test_what_has_changed_since_the_schedule_was_frozen_is_named(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path / "s"), tmp_path / "out"
    assert run(suite, out).code == 0
    changes: list[tuple[dict[str, Any], str]] = [
        ({"limits": {"timeout_seconds": 1}}, "suite.limits has changed"),
        ({"arms": {"with": {"args": ["x"]}}}, "suite.arms.with has changed"),
        ({"acceptance_files": ["x"]}, "suite.acceptance_files has changed"),
    ]
    for changed, said in changes:
        suite_of(tmp_path / "s", **changed)
        assert said in twoarm("run", "--resume", str(out), *QUICK).err
    suite_of(tmp_path / "s")
    (tmp_path / "s" / "app" / "README.md").write_text("changed\n")
    assert "origin has changed" in twoarm("run", "--resume", str(out), *QUICK).err


def test_a_folder_and_a_suite_that_were_moved_go_on(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path / "s"), tmp_path / "out"
    assert run(suite, out).code == 0
    shutil.rmtree(out / "runs" / "with" / "one.1")
    out.rename(tmp_path / "moved")
    (tmp_path / "s").rename(tmp_path / "elsewhere")
    moved = str(tmp_path / "moved")
    assert "the suite is not there; if it has moved" in twoarm("run", "--resume", moved).err
    there = str(tmp_path / "elsewhere" / "suite.json")
    result = twoarm("run", there, "--resume", moved, *QUICK)
    assert result.code == 0, result.err
    assert runs(tmp_path / "moved") == ALL


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


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    suite = suite_of(tmp_path, SOLVE)
    assert run(suite, out, "--only", "one").code == 0
    shutil.rmtree(out / "runs" / "with" / "one.1")
    (out / "journal.jsonl").unlink()
    (out / "journal.jsonl").symlink_to("/dev/full")
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 2
    assert "No space left on device; make room, then use --resume" in result.err
    (out / "journal.jsonl").unlink()
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert runs(out) == ["with/one.1", "without/one.1"]


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    assert "which suite?" in twoarm("run").err
    told = twoarm("run", "--resume", "x", "--status", "y").err
    assert "--resume and --status cannot be combined" in told
    suite = str(suite_of(tmp_path))
    assert "--repeats: expected a number from 1" in twoarm("run", suite, "--repeats", "0").err
    assert "no task `zzz`; tasks are `one`, `two`" in twoarm("run", suite, "--only", "zzz").err
    assert "no task is left" in twoarm("run", suite, "--tag", "zzz").err
    assert twoarm("run", suite, "--budget", "5", "--dry-run").code == 2


Starts = Callable[[Path, Path], "subprocess.Popen[str]"]


@pytest.fixture
def started() -> Iterator[Starts]:
    """Starts runners of their own process, and ends those that a test has left."""
    runners: list[subprocess.Popen[str]] = []

    def start(suite: Path, out: Path) -> "subprocess.Popen[str]":
        runner = subprocess.Popen(
            [sys.executable, "-m", "twoarm", "run", str(suite), "--out", str(out),
             "--repeats", "1", "--jobs", "1", *QUICK],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ), start_new_session=True,
        )  # fmt: skip
        runners.append(runner)
        return runner

    yield start
    for runner in runners:
        with runner:
            runner.kill()


def running(out: Path) -> bool:
    return any('"running"' in path.read_text() for path in out.glob(".attempts/*/*/trial.json"))


@pytest.mark.parametrize("how", ["interrupt", "stop"])
def test_one_wish_to_stop_lets_the_running_trial_finish_and_reports(
    tmp_path: Path, how: str, started: Starts
) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done; {SOLVE}"
    runner = started(suite_of(tmp_path, script), out)
    wait_for(lambda: running(out), 20)
    second = twoarm("run", "--resume", str(out), *QUICK)
    assert (second.code, f"process {runner.pid}" in second.err) == (2, True)
    assert "running" in twoarm("run", "--status", str(out)).out
    if how == "interrupt":
        runner.send_signal(signal.SIGINT)
    else:
        assert "no new trials start" in twoarm("run", "--stop", str(out)).err
    gate.touch()
    printed, said = runner.communicate(timeout=60)
    assert "stopped; continue with twoarm run --resume" in said
    assert (runner.returncode, printed) == (3, "")
    assert "of arm `" in said
    assert "there is nothing to score" in said
    assert len(runs(out)) == 1
    assert "not running" in twoarm("run", "--status", str(out)).out
    assert "nothing is running in" in twoarm("run", "--stop", str(out)).err


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
def test_a_second_wish_kills_and_resume_goes_on(
    tmp_path: Path, signals: tuple[signal.Signals, ...], cache: Path, started: Starts
) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    script = f"setsid sleep 80 & while [ ! -e {gate} ]; do sleep 0.02; done; {SOLVE}"
    runner = started(suite_of(tmp_path, script), out)
    wait_for(lambda: running(out) and processes_with("sleep\x0080"), 20)
    for number in signals:
        runner.send_signal(number)
        wait_for(lambda: any(one["event"] == "wanted" for one in journal(out)))
    said = runner.communicate(timeout=60)[1]
    assert runner.returncode == 130, said
    assert runs(out) == []
    assert processes_with(str(cache)) == []
    states = [
        json.loads(path.read_text())["state"] for path in out.glob(".attempts/*/*/trial.json")
    ]
    assert states == ["interrupted"]
    gate.touch()
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    assert runs(out) == ALL


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
import twoarm.cli, twoarm.run_command, twoarm.run.rehearse, twoarm.run.session
import twoarm.run.agents.command, twoarm.run.display
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sandbox_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(tmp_path)
    if shutil.which("bwrap") is not None:
        assert run(suite, tmp_path / "out", "--isolation", "bwrap", "--only", "one").code == 0
        assert "bwrap" in (tmp_path / "out" / "receipt.json").read_text()
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "bwrap" else f"/{name}")
    monkeypatch.setattr("twoarm.run.session.find_program", lambda *_: FOUND)
    told = run(suite, tmp_path / "out2", "--isolation", "bwrap").err
    assert "--isolation bwrap: bubblewrap is not installed" in told
    assert not (tmp_path / "out2").exists()


def test_another_number_of_jobs_is_said(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--jobs", "1", "--only", "one").code == 0
    told = twoarm("run", "--resume", str(out), "--jobs", "2", *QUICK).err
    assert "2 jobs now, 1 before: durations may differ for that alone" in told


def test_a_suite_that_never_came_to_a_trial_may_be_corrected(tmp_path: Path, cache: Path) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path, workspace={"setup_commands": ["exit 3"]}), out).code == 2
    # Killed while it wrote this one.
    (out / "schedule.json.tmp").write_text("{")
    assert run(suite_of(tmp_path, workspace={"setup_commands": ["true"]}), out).code == 0
    assert runs(out) == ALL
    assert list(cache.iterdir()) == []


def test_what_is_settled_cannot_be_changed(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--seed", "7", "--only", "one").code == 0
    for words in (
        ("--repeats", "9"),
        ("--only", "one"),
        ("--keep", "all"),
        ("--isolation", "copy"),
    ):
        told = twoarm("run", "--resume", str(out), *words).err
        assert f"{words[0]} cannot change once a run has started" in told
    twoarm("run", "--resume", str(out), *QUICK)
    assert json.loads((out / "analysis.json").read_text())["options"]["seed"] == 7


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


def test_the_missing_half_of_a_block_comes_first_on_resume(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--jobs", "1").code == 0
    first, second, third, _ = (
        f"{trial['arm']}/{trial['task']}.1"
        for trial in json.loads((out / "schedule.json").read_text())["trials"]
    )
    for name in (first, second, third):
        shutil.rmtree(out / "runs" / name)
    (out / "journal.jsonl").unlink()
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    begun = [event["attempt"] for event in journal(out) if event["event"] == "begun"]
    assert begun == [f"{name}.1" for name in (third, first, second)]
    assert runs(out) == ALL


def test_trees_that_were_cleared_are_made_anew(tmp_path: Path, cache: Path) -> None:
    flag, out = tmp_path / "flag", tmp_path / "out"
    script = USAGE + f'if [ -e {flag} ]; then {SOLVE}; else infra "no network"; fi'
    assert run(suite_of(tmp_path, script), out, "--jobs", "1").code == 2
    (tree,) = cache.glob("*/trees/tree0")
    shutil.rmtree(tree)
    flag.touch()
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert runs(out) == ALL


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


def test_a_suite_inside_its_own_repository_is_said(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, workspace={"copy": None, "repo": "."})
    (tmp_path / ".gitignore").write_text("out*\ncache\n")
    committed(tmp_path)
    assert "the suite is committed in the repository" in run(suite, tmp_path / "out").err
    assert (tmp_path / "out" / "collected.jsonl").exists()
    suite_of(tmp_path, workspace={"copy": None, "repo": "app"})
    told = run(suite, tmp_path / "out2").err
    assert f"{tmp_path}/app is inside the repository {tmp_path}; name its root" in told


def test_a_bare_repository_will_do(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "cat some.txt README.md", workspace={"copy": None, "repo": "bare"})
    committed(tmp_path / "app")
    subprocess.run(["git", "clone", "-q", "--bare", str(tmp_path / "app"), str(tmp_path / "bare")],
                   check=True)  # fmt: skip
    result = run(suite, tmp_path / "out", "--only", "one")
    assert result.code == 0, result.err
    assert "the suite is committed" not in result.err
    said = tmp_path / "out" / "runs" / "with" / "one.1" / "stdout.txt"
    assert said.read_text() == "an app\n"


def test_a_run_that_is_not_whole_is_named_and_not_run_again_by_itself(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--only", "one").code == 0
    path = out / "runs" / "with" / "one.1" / "run.json"
    path.write_text("")
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 2
    assert f"{path}: 0 bytes, and " in result.err
    shutil.rmtree(path.parent)
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert runs(out) == ["with/one.1", "without/one.1"]


def test_half_an_outcome_is_no_outcome(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--only", "one").code == 0
    done = out / "runs" / "with" / "one.1"
    told = json.loads((done / "trial.json").read_text())
    (done / "trial.json").write_text(json.dumps({**told, "state": "running"}))
    (done / "outcome").write_bytes(b"{")
    done.rename(out / ".attempts" / "with" / "one.1.1")
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert json.loads((done / "trial.json").read_text())["attempt"] == 2
    kept = json.loads((out / ".attempts" / "with" / "one.1.1" / "trial.json").read_text())
    assert kept["state"] == "interrupted"


def test_an_attempt_that_was_complete_when_the_runner_died_is_a_run(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--only", "one").code == 0
    done = out / "runs" / "with" / "one.1"
    told = json.loads((done / "trial.json").read_text())
    (done / "outcome").write_bytes(marshal.dumps(told["facts"]))
    (done / "trial.json").write_text(json.dumps({**told, "state": "running", "facts": {}}))
    done.rename(out / ".attempts" / "with" / "one.1.1")
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert json.loads((done / "trial.json").read_text())["attempt"] == 1
    assert [event["event"] for event in journal(out)].count("adopted") == 1
