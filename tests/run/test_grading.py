"""Acceptance: several commands as checks, and the score that a command may write down."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import records, run, runs
from tests.support.seals import bubblewrap_seal
from tests.support.suite_files import SOLVE, attempt, job_of, suite_of
from twoarm.run.jobs import Seal
from twoarm.run.suite import SuiteTask

pytestmark = pytest.mark.usefixtures("cache")

# The agent writes answer.txt, and nobody a changelog.
CHECKS = {"unit": "test -f answer.txt", "log": "test -f CHANGES.md", "lint": "true"}


def graded(folder: Path, *commands: str, script: str = SOLVE, **changed: Any) -> dict[str, Any]:
    """What acceptance says: of one command, or of several as checks `a`, `b` and so on."""
    named = dict(zip("abc", commands, strict=False)) if len(commands) > 1 else {"": commands[0]}
    return attempt(job_of(folder, script, acceptance=named, **changed)).facts


def suite_with(folder: Path, script: str = SOLVE, **task: Any) -> Path:
    return suite_of(folder, script, tasks=[{"id": "one", "prompt": "p", **task}])


def test_every_command_runs_and_success_is_all_of_them(tmp_path: Path) -> None:
    facts = graded(tmp_path, "echo 1; exit 3", "echo 2", "echo 3; exit 4")
    assert facts["checks"] == {"a": False, "b": True, "c": False}
    assert facts["check_exit_codes"] == {"a": 3, "b": 0, "c": 4}
    assert facts["acceptance_exit_code"] == 3
    assert facts["score"] == pytest.approx(1 / 3)
    facts = graded(tmp_path, "true", "true")
    assert (facts["acceptance_exit_code"], facts["score"]) == (0, 1.0)


def test_the_log_says_which_check_printed_what(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, SOLVE, acceptance={"unit": "echo 1", "lint": "echo 2"}))
    assert ran.kept("acceptance.log") == "--- unit\n1\n--- lint\n2\n"


def test_each_check_has_the_time_limit_for_itself(tmp_path: Path) -> None:
    facts = graded(tmp_path, "sleep 0.6", "sleep 77", "sleep 0.6", acceptance_seconds=1)
    assert facts["checks"] == {"a": True, "b": False, "c": True}
    assert (facts["acceptance_exit_code"], facts["acceptance_ended_by"]) == (124, "timeout")


def test_the_runner_waits_for_all_checks(tmp_path: Path) -> None:
    few, many = (
        job_of(tmp_path, "", acceptance=dict.fromkeys(names, "x")) for names in ("a", "abc")
    )
    each = few.acceptance_seconds + few.grace_seconds
    assert many.most_seconds - few.most_seconds == pytest.approx(2 * each)


def test_an_acceptance_that_says_99_did_run(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "exit 1", acceptance={"": "exit 99"}))
    assert ran.facts["acceptance_exit_code"] == 1


def test_one_command_has_no_checks_and_no_score_of_its_own(tmp_path: Path) -> None:
    facts = graded(tmp_path, "true")
    assert {"score", "checks", "score_error"}.isdisjoint(facts)


@pytest.mark.parametrize("text", ["0.25", " 0.25\n", "2.5e-1", "+.25"])
def test_a_score_may_be_written_down_and_does_not_decide_success(tmp_path: Path, text: str) -> None:
    facts = graded(tmp_path, f"printf '{text}' > $TWOARM_SCORE; exit 1")
    assert (facts["score"], facts["acceptance_exit_code"]) == (0.25, 1)
    assert graded(tmp_path, "echo 0 > $TWOARM_SCORE")["acceptance_exit_code"] == 0


def test_a_score_that_was_written_wins_over_the_share_of_checks(tmp_path: Path) -> None:
    facts = graded(tmp_path, "false", 'echo 0.9 > "$TWOARM_SCORE"', "true")
    assert facts["score"] == 0.9
    assert facts["checks"] == {"a": False, "b": True, "c": True}


@pytest.mark.parametrize(
    ("write", "why"),
    [
        ("echo 1.5 >", "expected a number from 0 to 1, got '1.5'"),
        ("echo -0.1 >", "got '-0.1'"),
        ("echo nan >", "got 'nan'"),
        ("echo inf >", "got 'inf'"),
        ("echo 0_1 >", "got '0_1'"),
        ("echo 1,0 >", "got '1,0'"),
        ("echo 50% >", "got '50%'"),
        ("echo 1e-+ >", "got '1e-+'"),
        ("printf '\\377' >", "got '\ufffd'"),
        (":>", "empty; expected a number from 0 to 1"),
        ("seq 100 >", "more than 64 bytes; expected a number from 0 to 1"),
        ("mkdir", "cannot be read: not a file of its own"),
        ("mkfifo", "cannot be read: not a file of its own"),
        ("ln -s /etc/hostname", "cannot be read: not a file of its own"),
    ],
)
def test_a_score_that_is_none_is_said_and_is_no_zero(tmp_path: Path, write: str, why: str) -> None:
    facts = graded(tmp_path, f'{write} "$TWOARM_SCORE"', "true")
    assert facts["score"] is None
    assert why in facts["score_error"]
    assert facts["acceptance_exit_code"] == 0
    assert facts["checks"] == {"a": True, "b": True}


def test_a_score_of_minus_zero_is_zero(tmp_path: Path) -> None:
    assert str(graded(tmp_path, "echo -0 > $TWOARM_SCORE")["score"]) == "0.0"


def test_a_secret_that_was_written_as_a_score_is_redacted(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    facts = graded(tmp_path, f"echo {secret} > $TWOARM_SCORE", secrets={"KEY": secret})
    assert secret not in facts["score_error"]


@pytest.mark.parametrize("bwrap", [False, True])
def test_an_agent_knows_nothing_of_the_score(tmp_path: Path, bwrap: bool, bubblewrap: str) -> None:
    # It writes wherever it may that such a file could be.
    script = f"""
env | grep SCORE; {SOLVE}
for at in "$HOME" "$TMPDIR" . ..; do mkdir -p $at/tmp; done
for at in "$HOME" "$TMPDIR" . ..; do echo 1 > $at/score; echo 1 > $at/tmp/score; done
"""
    grader = 'test ! -e "$TWOARM_SCORE" && echo "at $TWOARM_SCORE" && echo 0.5 > "$TWOARM_SCORE"'
    seal = bubblewrap_seal(tmp_path, bubblewrap) if bwrap else Seal()
    job = job_of(tmp_path, script, acceptance={"": grader}, seal=seal)
    ran = attempt(job)
    assert "SCORE" not in ran.kept("stdout.txt")
    assert (ran.facts["score"], ran.facts["acceptance_exit_code"]) == (0.5, 0)
    assert f"at {job.scratch}/own/" in ran.kept("acceptance.log")


def test_the_suite_cannot_say_where_the_score_is(tmp_path: Path) -> None:
    job = job_of(tmp_path, SOLVE)
    env = {**job.env, "acceptance": {**job.env["acceptance"], "TWOARM_SCORE": "/nowhere"}}
    assert graded(tmp_path, "echo 1 > $TWOARM_SCORE", env=env)["score"] == 1.0


def test_an_agent_that_leaves_no_workspace_has_failed_every_check(tmp_path: Path) -> None:
    script = "mkdir -p deep; chmod 0 .; rm -rf ../work; ln -s / ../work"
    facts = graded(
        tmp_path, "test -f answer.txt", "test -f other", script=script, restore=("tests",)
    )
    assert facts["acceptance_exit_code"] != 0
    assert facts["checks"] == {"a": False, "b": False}
    assert facts["score"] == 0.0


def test_a_run_writes_scores_and_checks_into_its_records(tmp_path: Path) -> None:
    script = f'[ -n "$HINT" ] && {SOLVE}; true'
    out = tmp_path / "out"
    result = run(suite_with(tmp_path, script, acceptance_commands=CHECKS), out)
    assert result.code == 0, result.err
    by_arm = {record["arm"]: record for record in records(out)}
    assert by_arm["with"]["checks"] == {"unit": True, "log": False, "lint": True}
    assert by_arm["without"]["checks"] == {"unit": False, "log": False, "lint": True}
    assert by_arm["with"]["score"] == pytest.approx(2 / 3)
    assert not by_arm["with"]["success"]
    command = "true && test -f CHANGES.md && test -f answer.txt"
    assert by_arm["with"]["acceptance_command"] == command
    sidecar = json.loads((out / "runs/with/one.1/run.json").read_text())
    assert sidecar["checks"] == by_arm["with"]["checks"]
    # What is read again is the same, and what cannot be read is as it was settled.
    (out / "collected.jsonl").unlink()
    (out / "runs/with/one.1/run.json").write_text("gone")
    assert twoarm("score", str(out), "--no-evidence").code == 0
    (again,) = (record for record in records(out) if record["arm"] == "with")
    assert (again["score"], again["checks"]) == (by_arm["with"]["score"], by_arm["with"]["checks"])
    assert again["acceptance_command"] == command


def test_a_run_without_checks_has_no_such_keys(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    assert all({"score", "checks"}.isdisjoint(record) for record in records(out))


def test_a_bad_score_in_a_run_is_told_once_and_the_run_counts(tmp_path: Path) -> None:
    # Good where nothing was done, so that the run begins.
    grader = "test ! -f answer.txt || echo no > $TWOARM_SCORE; test -f answer.txt"
    out = tmp_path / "out"
    result = run(suite_with(tmp_path, acceptance_command=grader), out)
    assert result.code == 0, result.err
    told = (
        "the file that $TWOARM_SCORE names holds no score, so the score is null: 2 runs, first "
        "runs/with/one.1: expected a number from 0 to 1, got 'no'"
    )
    assert result.err.count(told) == 1
    assert [(record["success"], record.get("score")) for record in records(out)] == [
        (True, None),
        (True, None),
    ]


@pytest.mark.parametrize("dry", [False, True])
def test_a_bad_score_on_the_untouched_workspace_stops_before_any_trial(
    tmp_path: Path, dry: bool
) -> None:
    path = suite_with(tmp_path, acceptance_command="echo 2 > $TWOARM_SCORE; false")
    out = tmp_path / "out"
    result = twoarm("run", str(path), "--dry-run") if dry else run(path, out)
    assert result.code == 2
    assert (
        "task `one`: the file that $TWOARM_SCORE names: expected a number from 0 to 1, got '2'; see"
    ) in result.err
    assert runs(out) == []


def test_checks_that_pass_untouched_are_named_in_a_warning(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flips = f"if [ -e {flag} ]; then exit 0; else touch {flag}; exit 1; fi"
    path = suite_with(tmp_path, acceptance_commands={**CHECKS, "flips": flips})
    result = twoarm("run", str(path), "--dry-run", "--jobs", "1")
    assert result.code == 0, result.err
    warned = [line for line in result.out.splitlines() if line.startswith("warning: task")]
    assert warned == [
        "warning: task `one`: checks that pass on the untouched workspace: `lint`",
        "warning: task `one`: checks that are flaky on the untouched workspace: `flips`",
    ]
    path = suite_with(tmp_path, acceptance_commands={"a": "true", "b": "true"})
    assert "warning: task `one`: acceptance passes on the untouched workspace" in (
        twoarm("run", str(path), "--dry-run").out
    )


def test_a_check_that_cannot_be_run_is_named_even_behind_one_that_fails(tmp_path: Path) -> None:
    checks = {"unit": "false", "lint": "no-such-linter"}
    result = run(suite_with(tmp_path, acceptance_commands=checks), tmp_path / "out")
    assert result.code == 2
    told = "task `one`: its acceptance command `lint` cannot be run (exit code 127): "
    assert told in result.err


def test_an_agent_is_told_all_commands_as_one(tmp_path: Path) -> None:
    agent = {"argv": ["sh", "-c", "echo {acceptance_command}"]}
    path = suite_with(tmp_path, acceptance_commands={"a": "test -f x", "b": "test -f y"})
    document = json.loads(path.read_text())
    document["agent"]["argv"] = agent["argv"]
    path.write_text(json.dumps(document))
    assert run(path, tmp_path / "out").code == 0
    output = (tmp_path / "out/runs/with/one.1/stdout.txt").read_text()
    # The shell ran the second part itself.
    assert output == "test -f x\n"


def test_a_changed_check_is_refused_by_its_key_on_resume(tmp_path: Path) -> None:
    path, out = suite_with(tmp_path, acceptance_commands=CHECKS), tmp_path / "out"
    assert run(path, out).code == 0
    suite_with(tmp_path, acceptance_commands={**CHECKS, "lint": "false"})
    told = twoarm("run", str(path), "--resume", str(out)).err
    assert "tasks.one.acceptance_commands.lint has changed since the schedule was frozen" in told


def test_a_task_has_one_command_or_commands_by_name() -> None:
    one = SuiteTask(id="t", acceptance_command="a")
    assert (one.acceptance, one.whole_acceptance) == ({"": "a"}, "a")
    several = SuiteTask(id="t", acceptance_commands={"y": "b", "x": "a"})
    assert list(several.acceptance.items()) == [("x", "a"), ("y", "b")]
    assert several.whole_acceptance == "a && b"
