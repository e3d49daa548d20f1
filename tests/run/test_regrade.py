"""Runs graded again: the same verdicts where nothing has changed, and mended ones where it has."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import Result, twoarm
from tests.support.run_folders import ALL, QUICK, USAGE, WITHOUT_PAGE, records, run, runs
from tests.support.suite_files import SOLVE, present, processes_with, suite_of, wait_for
from twoarm.run.grader import grader_of, without_acceptance
from twoarm.run.suite import Suite, SuiteTask, Workspace

pytestmark = pytest.mark.usefixtures("cache")


def regrade(folder: Path, out: Path, *more: str) -> Result:
    return twoarm("regrade", str(folder), *more, "--out", str(out), *QUICK, "--run-pages", "none")


def fingerprint(folder: Path) -> dict[str, str]:
    """Everything below a folder: names, kinds, permissions, times, contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = f"{status.st_mode} {status.st_mtime_ns} {content}"
    return found


def tasks(command: str, *names: str) -> list[dict[str, Any]]:
    return [
        {"id": name, "prompt": f"Do {name}.", "acceptance_command": command}
        for name in names or ("one", "two")
    ]


# Both verdicts, a time-out that had passed, ignored and binary files, links, renames and removals.
MIXED = f"""{USAGE}
used 100 0.5
printf '*.o\\n' > .gitignore; echo built > main.o; printf 'a\\0b' > data.bin
mkdir -p src; mv README.md src/readme; ln -s src/readme link
case "$1$HINT" in
    *one*1) echo fixed > answer.txt ;;
    *two*1) echo fixed > answer.txt; sleep 60 ;;
    *one*) echo nearly > answer ;;
    *) infra 'no network'; exit 1 ;;
esac
"""
STRICT = "test -f answer.txt && test -L link && test main.o && grep -q 'an app' link"
AGENT = {"argv": ["sh", "{suite}/agent.sh", "{prompt}"]}


def test_where_nothing_changed_every_record_is_the_same_and_the_source_untouched(
    tmp_path: Path,
) -> None:
    limits = {"timeout_seconds": 1, "retries": 0}
    suite = suite_of(tmp_path, MIXED, agent=AGENT, limits=limits, tasks=tasks(STRICT))
    out, new = tmp_path / "out", tmp_path / "new"
    assert run(suite, out).code == 0
    before = fingerprint(out)
    # Neither the agent nor its keys are needed.
    (tmp_path / "agent.sh").unlink()
    result = regrade(out, new)
    assert result.code == 0, result.err
    assert fingerprint(out) == before
    assert records(new) == records(out)
    assert {record["success"] for record in records(new)} == {True, False}
    assert any("passed_despite_failure" in (r.get("tags") or ()) for r in records(new))
    assert [r["failure"] for r in records(new)].count("infra") == 1
    assert runs(new) == runs(out)
    for path in out.glob("runs/*/*/*"):
        again = new / path.relative_to(out)
        assert again.stat().st_mode == path.stat().st_mode
        if path.name != "trial.json":
            assert again.read_bytes() == path.read_bytes(), path
            continue
        then, now = (json.loads(file.read_text()) for file in (path, again))
        assert now["facts"].pop("regraded_at_utc")
        assert now == then
    receipt = json.loads((new / "receipt.json").read_text())
    schedule = hashlib.sha256((out / "schedule.json").read_bytes()).hexdigest()
    assert receipt["regraded"].pop("begun_at_utc")
    assert receipt["regraded"] == {
        "schedule_sha256": schedule,
        "runs": 3,
        "left_as_they_were": {},
        "finished": True,
    }
    assert not list((tmp_path / "cache").glob("*/"))


def test_a_mended_acceptance_command_changes_verdicts_and_nothing_else(tmp_path: Path) -> None:
    script = f"{USAGE} used 100 0.5; test -z $HINT || {SOLVE}"
    suite = suite_of(tmp_path, script, tasks=tasks("test -f anwser.txt"))
    out, new = tmp_path / "out", tmp_path / "new"
    assert run(suite, out).code == 0
    assert not any(record["success"] for record in records(out))
    mended = suite_of(tmp_path, script, tasks=tasks("test -f answer.txt")).rename(
        tmp_path / "fixed.json"
    )
    result = regrade(out, new, str(mended))
    assert result.code == 0, result.err
    of_acceptance = ("success", "acceptance_exit_code", "acceptance_command", "grader")
    for then, now in zip(records(out), records(new), strict=True):
        assert now["success"] == (now["arm"] == "with")
        assert now["acceptance_exit_code"] == (0 if now["success"] else 1)
        assert now["acceptance_command"] == "test -f answer.txt"
        assert now["grader"] != then["grader"]
        for key in of_acceptance:
            then.pop(key), now.pop(key)
        assert now == then
        assert (now["total_cost_usd"], now["input_tokens"]) == (0.5, 100)
    schedule = json.loads((new / "schedule.json").read_text())
    assert schedule["suite"]["tasks"][0]["acceptance_command"] == "test -f answer.txt"
    assert twoarm("score", str(new), "--no-evidence").code == 0
    assert twoarm("show", str(new), "one", "1").code == 0
    # One arm as it was graded then, the other as it is graded now.
    lines = [record for record in records(out) if record["arm"] == "with"]
    lines += [record for record in records(new) if record["arm"] == "without"]
    both = tmp_path / "both.jsonl"
    both.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    refused = twoarm("score", str(both), "--candidate", "with", "--baseline", "without")
    assert refused.code == 2
    assert "task `one` was graded by" in refused.err
    assert "grade all of its runs alike with `twoarm regrade`" in refused.err


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo A=1 > .env", "its patch is without .env: may hold keys, by its name"),
        ("mkfifo pipe a.key", "its patch is without a.key and 1 more file: may hold keys"),
        ("kill -9 $PPID; sleep 5", "what it changed was not kept"),
    ],
)
def test_a_run_whose_patch_is_incomplete_is_named_and_left_as_it_was(
    tmp_path: Path, script: str, why: str
) -> None:
    script = f'{SOLVE}; case "$1$HINT" in *one*1) {script} ;; esac'
    out, new = tmp_path / "out", tmp_path / "new"
    assert run(suite_of(tmp_path, script, agent=AGENT, tasks=tasks("false")), out).code == 0
    suite = suite_of(tmp_path, script, agent=AGENT, tasks=tasks("test -f answer.txt"))
    result = regrade(out, new, str(suite))
    assert f"1 run could not be graded again and keeps the verdict of then: with/one.1: {why}" in (
        result.err
    )
    then, now = (
        {(record["arm"], record["task_id"]): record for record in records(folder)}
        for folder in (out, new)
    )
    left = now.pop(("with", "one"))
    assert left == then["with", "one"]
    assert all(record["success"] for record in now.values())
    receipt = json.loads((new / "receipt.json").read_text())["regraded"]
    assert receipt["runs"] == 3
    assert receipt["left_as_they_were"]["with/one.1"].startswith(why)
    if left.get("grader") is None:
        # Nothing graded it, then or now.
        assert result.code == 0
        return
    assert result.code == 2
    assert "task `one` was graded by" in result.err
    shutil.rmtree(new / "runs" / "with" / "one.1")
    (new / "collected.jsonl").unlink()
    assert twoarm("score", str(new), "--no-evidence").code == 0
    assert [r["failure"] for r in records(new)] == ["missing", None, None, None]


def test_a_patch_that_was_changed_is_named_and_its_run_left(tmp_path: Path) -> None:
    out, new = tmp_path / "out", tmp_path / "new"
    assert run(suite_of(tmp_path), out).code == 0
    for name, change in (("one.1", ("+fixed", "+foxed")), ("two.1", ("@@ -0,0 +1", "@@ -1,1 +1"))):
        patch = out / "runs" / "with" / name / "diff.patch"
        patch.write_text(patch.read_text().replace(*change))
    (out / "runs" / "without" / "one.1" / "diff.patch").write_text("")
    result = regrade(out, new)
    # Its grader is that of the others, so there is nothing to refuse.
    assert result.code == 0, result.err
    left = json.loads((new / "receipt.json").read_text())["regraded"]["left_as_they_were"]
    assert left == {
        "with/one.1": "its patch does not give answer.txt as it was left",
        "with/two.1": "its patch does not apply",
        "without/one.1": "diff.patch is not as long as it was",
    }
    assert [record["success"] for record in records(new)] == [True] * 4
    # Whoever reads any of its reports is told.
    told = "3 runs could not be graded again and keep the verdict of then: with/one.1, with/two.1"
    pages = [(new / name).read_text() for name in ("analysis.json", "analysis.md")]
    for report in (twoarm("score", str(new), "--no-evidence").out, *pages):
        assert told in " ".join(report.replace("`", "").split())


def test_what_was_never_run_stays_so_and_can_be_run(tmp_path: Path) -> None:
    suite, out, new = suite_of(tmp_path), tmp_path / "out", tmp_path / "new"
    assert run(suite, out).code == 0
    shutil.rmtree(out / "runs" / "with" / "two.1")
    assert regrade(out, new).code == 0
    assert runs(new) == [name for name in ALL if name != "with/two.1"]
    missing = next(record for record in records(new) if record["failure"] == "missing")
    assert (missing["arm"], missing["task_id"]) == ("with", "two")
    result = twoarm("run", "--resume", str(new), *QUICK)
    assert result.code == 0, result.err
    assert runs(new) == ALL
    assert len({record["grader"] for record in records(new)}) == 1
    assert json.loads((new / "receipt.json").read_text())["regraded"]["runs"] == 3


def test_regrading_what_was_regraded_is_the_same_again(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    assert run(suite, out).code == 0
    assert regrade(out, tmp_path / "new").code == 0
    assert regrade(tmp_path / "new", tmp_path / "newer").code == 0
    assert records(tmp_path / "newer") == records(out)
    before = fingerprint(tmp_path / "new" / "runs")
    assert regrade(out, tmp_path / "new").code == 0
    assert fingerprint(tmp_path / "new" / "runs") == before


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"limits": {"timeout_seconds": 9}}, "limits.timeout_seconds has changed since the "
         "schedule was frozen: 20 then, 9 now; change it back: runs are graded again only where "
         "nothing but acceptance has changed"),
        ({"arms": {"with": {"env": {"HINT": "2"}}}}, "arms.with.env.HINT has changed"),
        ({"agent": {"args": ["-x"]}}, "agent.args has changed"),
        ({"tasks": tasks("true", "one")}, "tasks.two has changed"),
        ({"tasks": [{**task, "prompt": "Other."} for task in tasks("true")]}, ".prompt has chang"),
    ],
)  # fmt: skip
def test_whatever_else_has_changed_is_refused_by_its_key(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    out, new = tmp_path / "out", tmp_path / "new"
    assert run(suite_of(tmp_path), out).code == 0
    result = regrade(out, new, str(suite_of(tmp_path, **changed)))
    assert result.code == 2
    assert told in result.err
    assert not new.exists()


def test_everything_that_acceptance_uses_may_change(tmp_path: Path) -> None:
    (tmp_path / "app" / "tests").mkdir(parents=True)
    (tmp_path / "app" / "tests" / "check.sh").write_text("true")
    cheat = "echo exit 1 > tests/check.sh"
    command = tasks("sh tests/check.sh", "one")
    out = tmp_path / "out"
    assert run(suite_of(tmp_path, cheat, tasks=command), out).code == 0
    assert not any(record["success"] for record in records(out))
    changes: dict[str, tuple[dict[str, Any], bool]] = {
        "restored": ({"acceptance_files": ["tests"]}, True),
        "limit": (
            {
                "acceptance_files": ["tests"],
                "tasks": tasks("sleep 2; sh tests/check.sh", "one"),
                "limits": {"acceptance_seconds": 0.5},
            },
            False,
        ),
        "checks": (
            {
                "acceptance_files": ["tests"],
                "tasks": [
                    {
                        "id": "one",
                        "prompt": tasks("", "one")[0]["prompt"],
                        "acceptance_commands": {"a": "sh tests/check.sh", "b": "false"},
                    }
                ],
            },
            False,
        ),
    }
    graders = {records(out)[0]["grader"]}
    for name, (changed, success) in changes.items():
        suite = suite_of(tmp_path, cheat, **({"tasks": command} | changed))
        result = regrade(out, tmp_path / name, str(suite))
        assert result.code == 0, result.err
        assert {record["success"] for record in records(tmp_path / name)} == {success}
        graders.add(records(tmp_path / name)[0]["grader"])
    assert len(graders) == 4


def test_trees_that_are_not_those_of_then_are_refused(tmp_path: Path) -> None:
    setup = {"setup_commands": ["date +%s%N > stamp.txt"]}
    out, new = tmp_path / "out", tmp_path / "new"
    assert run(suite_of(tmp_path, workspace=setup), out).code == 0
    result = regrade(out, new)
    assert result.code == 2
    assert "the workspace of task `one` has other files than its runs started from: digest" in (
        result.err
    )
    assert runs(new) == []


def test_a_folder_that_is_none_of_it_is_refused_in_one_line(tmp_path: Path) -> None:
    suite, out, new = suite_of(tmp_path), tmp_path / "out", tmp_path / "new"
    assert run(suite, out).code == 0
    before = fingerprint(out)

    def refused(told: str, *words: str) -> None:
        result = twoarm("regrade", *words)
        assert (result.code, result.out) == (2, "")
        assert told in result.err
        assert result.err.count("\n") == 1
        assert fingerprint(out) == before

    refused("where to? name a new run folder with --out", str(out))
    refused("is not a run folder: no schedule.json in it", str(tmp_path), "--out", str(new))
    refused(f"in {out}, which stays as it is", str(out), "--out", str(out))
    inner = str(out / "runs" / "with" / "new")
    refused(f"in {out}, which stays as it is", str(out), "--out", inner)
    refused("the suite is not there; name it", str(out), "no.json", "--out", str(new))
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").touch()
    refused("is not empty; choose another with --out", str(out), "--out", str(full))
    other = tmp_path / "other"
    assert run(suite_of(tmp_path, suite_id="other"), other).code == 0
    suite_of(tmp_path)
    refused("has runs that were not graded again", str(out), "--out", str(other))
    assert regrade(out, new).code == 0
    suite_of(tmp_path, suite_id="other")
    refused("has runs of another run folder than", str(other), "--out", str(new))
    suite_of(tmp_path, tasks=tasks("true"))
    refused("tasks.one.acceptance_command has changed", str(out), "--out", str(new))
    suite_of(tmp_path)
    copied = tmp_path / "copied"
    shutil.copytree(out, copied)
    (copied / "receipt.json").unlink()
    refused("no receipt.json, which says what trials", str(copied), "--out", str(tmp_path / "x"))
    shutil.rmtree(copied / "runs")
    refused("there is no run to grade yet", str(copied), "--out", str(tmp_path / "x"))
    refused("--seed is that of the run folder", str(out), "--out", str(new), "--seed", "2")


def test_a_folder_at_work_is_refused(tmp_path: Path) -> None:
    import fcntl

    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    with (out / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = regrade(out, tmp_path / "new")
    assert result.code == 2
    assert "a run is going on there; wait for its end, or --stop it" in result.err


@pytest.mark.parametrize("how", ["stop", "interrupt", "terminate", "kill"])
def test_a_regrade_that_is_ended_goes_on_where_it_was(tmp_path: Path, how: str) -> None:
    out, new, gate = tmp_path / "out", tmp_path / "new", tmp_path / "gate"
    assert run(suite_of(tmp_path), out).code == 0
    waits = f"until test -e {gate}; do sleep 0.02; done; test -f answer.txt"
    suite = suite_of(tmp_path, tasks=tasks(waits))
    words = ["regrade", str(out), str(suite), "--out", str(new), "--jobs", "1", *QUICK]
    # Acceptance on the untouched workspace comes first.
    gate.touch()
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PAGE, *words, "--run-pages", "none"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as runner:  # fmt: skip
        wait_for(lambda: present(new, "setup/acceptance.two.1/outcome"), 60)
        gate.unlink()
        wait_for(lambda: processes_with(str(gate)), 60)
        done = len(runs(new))
        assert done < 4
        for _ in range({"stop": 1, "interrupt": 2}.get(how, 0)):
            runner.send_signal(signal.SIGINT)
            time.sleep(0.5)
        if how == "stop":
            gate.touch()
        elif how != "interrupt":
            runner.send_signal(signal.SIGTERM if how == "terminate" else signal.SIGKILL)
        _, said = runner.communicate(timeout=60)
    assert runner.returncode == {"stop": 3, "kill": -9}.get(how, 130)
    if how != "kill":
        assert f"twoarm: stopped; continue with twoarm regrade {out} {suite} --out {new} " in said
    wait_for(lambda: not processes_with(str(gate)))
    assert len(runs(new)) == done + (how == "stop")
    # What is left was run, and paid for, in the other folder.
    refused = twoarm("run", "--resume", str(new), *QUICK)
    assert (refused.code, len(runs(new))) == (2, done + (how == "stop"))
    assert refused.err == (
        f"twoarm: {new}: not all of its runs were graded again yet; go on with `twoarm regrade` "
        "and the same --out\n"
    )
    gate.touch()
    result = regrade(out, new, str(suite))
    assert result.code == 0, result.err
    assert runs(new) == ALL
    assert [record["success"] for record in records(new)] == [True] * 4
    assert [record["run_id"] for record in records(new)] == [r["run_id"] for r in records(out)]
    assert not list((tmp_path / "cache").glob("*/"))


def test_whatever_acceptance_uses_is_in_its_digest() -> None:
    """A key that is added to a suite for acceptance belongs into the lists of `grader`."""
    task = SuiteTask(id="t", acceptance_command="true")
    bare = without_acceptance(Suite(workspace=Workspace(), tasks=(task,)))
    assert bare.workspace is not None
    for table in (bare, bare.tasks[0], bare.limits, bare.workspace):
        for name in type(table).__struct_fields__:
            if name.startswith("acceptance"):
                assert getattr(table, name) is None, f"{type(table).__name__}.{name}"
    # An agent sees it, too.
    assert bare.workspace.env == {}


def test_a_grader_is_one_for_all_arms_and_sees_content(tmp_path: Path) -> None:
    task = SuiteTask(id="t", acceptance_command="true", acceptance_files=("tests/", "link"))
    suite = Suite(workspace=Workspace(), tasks=(task,))
    trees = []
    for arm in ("a", "b"):
        tree = tmp_path / arm
        (tree / "tests").mkdir(parents=True)
        (tree / "tests" / "x").write_text("1")
        (tree / "link").symlink_to("/")
        (tree / "NOTE.md").write_text(arm)
        trees.append(str(tree))
    both = grader_of(suite, task, trees, [], "")
    assert (
        both
        == grader_of(suite, task, trees[:1], [], "")
        == grader_of(suite, task, trees[::-1], [], "")
    )
    (tmp_path / "b" / "tests" / "x").write_text("2")
    assert grader_of(suite, task, trees, [], "") != both
    (tmp_path / "a" / "tests" / "x").write_text("2")
    assert grader_of(suite, task, trees, [], "") != both
    other = msgspec.structs.replace(suite, workspace=Workspace(env={"A": "1"}))
    assert grader_of(other, task, trees, [], "") != grader_of(suite, task, trees, [], "")
    os.unlink(tmp_path / "b" / "link")
    assert grader_of(suite, task, trees[:1], [], "") != grader_of(suite, task, trees[1:], [], "")
