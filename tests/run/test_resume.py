"""A run that stops, on request or by mishap, and goes on where it was."""

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

from tests.conftest import twoarm
from tests.support.run_folders import (
    ALL,
    QUICK,
    WITHOUT_PAGE,
    journal,
    records,
    run,
    runs,
    trials_of,
)
from tests.support.suite_files import SOLVE, processes_with, suite_of, wait_for

pytestmark = pytest.mark.usefixtures("cache")


def test_resuming_what_is_done_only_reports_again(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/*")}
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/*")} == before


def tasks(**changed: Any) -> list[dict[str, Any]]:
    """The tasks of `suite_of`, with changes to the first."""
    found = [
        {"id": name, "prompt": f"Do {name}.", "acceptance_command": "test -f answer.txt"}
        for name in ("one", "two")
    ]
    return [{**found[0], **changed}, found[1]]


def test_what_has_changed_since_the_schedule_was_frozen_is_named(tmp_path: Path) -> None:
    long = {name: f"{'Fix the bug. ' * 9}Keep {name}." for name in ("all", "none")}
    usual: dict[str, Any] = {"tasks": tasks(prompt=long["all"])}
    suite, out = suite_of(tmp_path / "s", **usual), tmp_path / "out"
    assert run(suite, out).code == 0
    changes: list[tuple[dict[str, Any], str]] = [
        ({"limits": {"timeout_seconds": 1}}, "limits.timeout_seconds ~: 20 then, 1 now; "),
        ({"limits": {"trial_usd": 2.5}}, "limits.trial_usd ~: not set then, 2.5 now; "),
        ({"arms": {"with": {"args": ["x"]}}}, 'arms.with.args ~: [] then, ["x"] now; '),
        ({"arms": {"with": {"env": {"HINT": "2"}}}}, "arms.with.env.HINT ~: 1 then, 2 now; "),
        ({"arms": {"with": {"env": {"HINT": None, "B": "1"}}}},
         "arms.with.env.HINT ~: 1 then, not there now; `arms.with.env.B` changed as well; "),
        ({"acceptance_files": ["x"]},
         'acceptance_files ~: [] then, ["x"] now; grade the runs again with `twoarm regrade`, '),
        ({"agent": {"argv": ["sh", "-c", "true"]}},
         'agent.argv ~: ["sh","{suite}/agent.sh"] then, ["sh","-c","true"] now; '),
        ({"tasks": tasks(prompt=long["none"])},
         "tasks.one.prompt ~: .... Fix the bug. Keep all. then, "
         ".... Fix the bug. Keep none. now; "),
        ({"tasks": tasks(prompt=long["all"], tags=["x"], timeout_seconds=5)},
         "tasks.one.timeout_seconds ~: not set then, 5 now; `tasks.one.tags` changed as well; "),
        ({"tasks": usual["tasks"][:1]}, "tasks.two ~: there then, not there now; "),
        ({"tasks": [*usual["tasks"][:1], {**usual["tasks"][1], "id": "three"}]},
         "tasks.two ~: there then, not there now; "),
        ({"tasks": [{**usual["tasks"][1], "id": "three"}]},
         "tasks.one ~: there then, not there now; `tasks.two` changed as well; "),
        ({"suite_id": "other", "tasks": [{**usual["tasks"][1], "id": "three"}]},
         "suite_id ~: fake then, other now; "),
    ]  # fmt: skip
    frozen = " has changed since the schedule was frozen"
    for changed, said in changes:
        suite_of(tmp_path / "s", **{**usual, **changed})
        told = twoarm("run", "--resume", str(out), *QUICK).err
        assert f"twoarm: {said.replace(' ~', frozen)}change it back, or start over with" in told
    suite_of(tmp_path / "s", **usual)
    (tmp_path / "s" / "app" / "README.md").write_text("changed\n")
    assert f"digests.workspace.copy{frozen}" in twoarm("run", "--resume", str(out), *QUICK).err


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


Starts = Callable[[Path, Path], "subprocess.Popen[str]"]


@pytest.fixture
def started() -> Iterator[Starts]:
    """Starts runners of their own process, and ends those that a test has left."""
    runners: list[subprocess.Popen[str]] = []

    def start(suite: Path, out: Path) -> "subprocess.Popen[str]":
        runner = subprocess.Popen(
            [sys.executable, "-c", WITHOUT_PAGE, "run", str(suite), "--out", str(out),
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
def test_one_request_to_stop_lets_the_running_trial_finish_and_shows_counts_alone(
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
    assert (runner.returncode, printed) == (3, "")
    (done,) = runs(out)
    counts = {arm: int(done.startswith(f"{arm}/")) for arm in ("with", "without")}
    arms = ", ".join(f"`{arm}` {count} of 2" for arm, count in counts.items())
    assert said.splitlines()[1].startswith("twoarm: isolation copy: nothing holds an agent back")
    assert said.splitlines()[2:] == [
        f"twoarm: stopped; continue with twoarm run --resume {out} --no-evidence",
        f"twoarm: 1 of 4 trials done ({arms}), cost not known",
        f"twoarm: twoarm score {out} shows the results so far; that is a look, and to let it "
        "decide whether to go on makes false winners more likely",
    ]
    assert not (out / "analysis.json").exists()
    assert [one["failure"] for one in records(out)].count("missing") == 3
    assert "not running" in twoarm("run", "--status", str(out)).out
    assert "nothing is running in" in twoarm("run", "--stop", str(out)).err


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
def test_a_second_request_kills_and_resume_goes_on(
    tmp_path: Path, signals: tuple[signal.Signals, ...], cache: Path, started: Starts
) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    script = f"setsid sleep 80 & while [ ! -e {gate} ]; do sleep 0.02; done; {SOLVE}"
    runner = started(suite_of(tmp_path, script), out)
    wait_for(lambda: running(out) and processes_with("sleep\x0080"), 20)
    for number in signals:
        runner.send_signal(number)
        wait_for(lambda: any(one["event"] == "stop_request" for one in journal(out)))
    printed, said = runner.communicate(timeout=60)
    assert (runner.returncode, printed) == (130, ""), said
    assert "0 of 4 trials done (`with` 0 of 2, `without` 0 of 2), cost not known\n" in said
    assert runs(out) == []
    assert processes_with(str(cache)) == []
    states = [
        json.loads(path.read_text())["state"] for path in out.glob(".attempts/*/*/trial.json")
    ]
    assert states == ["interrupted"]
    # What ran was killed, and the others have never begun; a line each.
    assert sorted(one["failure_reason"] for one in records(out)) == [
        "interrupted: killed before it ended",
        *["not yet run"] * 3,
    ]
    assert {one["failure"] for one in records(out)} == {"missing"}
    gate.touch()
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    assert runs(out) == ALL


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
        ("--only", "one"),
        ("--tag", "x"),
        ("--keep", "all"),
        ("--isolation", "copy"),
    ):
        told = twoarm("run", "--resume", str(out), *words).err
        assert f"{words[0]} cannot change once a run has started" in told
    twoarm("run", "--resume", str(out), *QUICK)
    assert json.loads((out / "analysis.json").read_text())["options"]["seed"] == 7


def test_the_missing_half_of_a_block_comes_first_on_resume(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out, "--jobs", "1").code == 0
    first, second, third, _ = (f"{trial['arm']}/{trial['task']}.1" for trial in trials_of(out))
    for name in (first, second, third):
        shutil.rmtree(out / "runs" / name)
    (out / "journal.jsonl").unlink()
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    begun = [event["attempt"] for event in journal(out) if event["event"] == "begun"]
    assert begun == [f"{name}.1" for name in (third, first, second)]
    assert runs(out) == ALL


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
