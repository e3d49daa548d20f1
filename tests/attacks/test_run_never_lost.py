"""Every planned trial is accounted for, whatever an agent does, and however the run ends."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result
from tests.support.collect_fixtures import FIXTURES
from tests.support.run_folders import USAGE, records, unaccounted
from tests.support.stand_ins import STAND_INS, stand_in
from tests.support.suite_files import SOLVE
from tests.support.yard import Yard

SHORT = {"timeout_seconds": 1.0, "grace_seconds": 0.3}


def ran(yard: Yard, script: str, **changed: Any) -> Result:
    yard.app()
    result = yard.run(yard.suite(script, **changed))
    assert "Traceback" not in result.err
    assert unaccounted(yard.out) == [], result.err
    return result


def failed(yard: Yard) -> None:
    """Both trials are failed runs of the agent: counted, and never tried again."""
    found = [(one["arm"], one["success"], one["failure"]) for one in records(yard.out)]
    assert [arm for arm, _, _ in found] == ["with", "without"], found
    assert all(not success and failure in (None, "agent") for _, success, failure in found), found
    assert list((yard.out / ".attempts").glob("*/*")) == []


# Any command, and what it can do to those who look after it. None of these leaves an answer.

NAMES = "diff.patch acceptance.log git.log copy.log index base usage.json prompt.txt outcome"
COMMANDS = {
    "leaves a folder for its counts": 'mkdir -p "$TWOARM_USAGE/x"',
    "leaves a dangling link for its counts": 'ln -s nowhere "$TWOARM_USAGE"',
    "leaves a pipe for its counts": 'mkfifo "$TWOARM_USAGE"',
    "leaves counts that are not UTF-8": "printf '\\377\\376{' > \"$TWOARM_USAGE\"",
    "leaves counts that are too deep": "head -c 200000 /dev/zero | tr '\\0' '[' > $TWOARM_USAGE",
    "leaves counts that are none": "echo '[1]' > $TWOARM_USAGE",
    "leaves counts beyond all bounds": "echo '{\"input_tokens\": 1e999}' > $TWOARM_USAGE",
    "leaves counts below nothing": "echo '{\"cost_usd\": -5}' > $TWOARM_USAGE",
    "leaves folders for the logs": f"for n in {NAMES}; do rm -f ../out/$n; "
    "mkdir -p ../out/$n/x; done",
    "leaves pipes for the logs": f"mkdir -p ../out; for n in {NAMES}; do rm -f ../out/$n; "
    "mkfifo ../out/$n; done",
    "leaves a pipe for a file": "rm README.md; mkfifo README.md new.txt; mkdir d; mkfifo d/x",
    "leaves a pipe for a test": "rm -r tests; mkfifo tests",
    "leaves pipes at home": 'mkfifo "$HOME/.gitconfig" "$HOME/.profile"; '
    'mkdir -p "$HOME/.config/git"; mkfifo "$HOME/.config/git/ignore" "$HOME/.config/git/config"',
    "prints what is not UTF-8": "printf '\\377\\376\\200'; printf '\\377' >&2",
    "prints zeros": "head -c 10000 /dev/zero",
    "exits with 86": "exit 86",
    "exits with 99": "exit 99",
    "exits as a supervisor would": "exit 75",
    "exits as another supervisor would": "exit 74",
    "exits with 255": "exit 255",
    "kills itself": "kill -9 $$",
    "stops itself": "kill -STOP $$",
    "kills its supervisor": "kill -9 $PPID; sleep 60",
    "stops its supervisor": "kill -STOP $PPID",
    "stops its supervisor and waits": "kill -STOP $PPID; sleep 60",
    "stops its supervisor again and again": "while :; do kill -STOP $PPID; sleep 0.05; done",
    "runs out of time": "sleep 60",
    "leaves children that go on": "(while :; do echo more; sleep 0.01; done) & setsid sleep 60 &",
    "leaves long names": "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); "
    'touch $(printf %0250d $i) "$HOME/$(printf %0250d $i)"; done',
    "leaves names that are no text": "touch \"$(printf 'a\\377\\nb')\"; "
    "mkdir \"$(printf '\\200')\"; "
    "touch \"$HOME/$(printf '\\377')\" \"$TMPDIR/$(printf '\\n\\377')\"",
    "removes everything": 'cd /; rm -rf "$OLDPWD" "$HOME" "$TMPDIR"',
    "removes what is above": 'at=$(cd ..; pwd); cd /; rm -rf "$at"',
}


@pytest.mark.parametrize("what", COMMANDS)
def test_an_agent_that_misbehaves_has_failed(yard: Yard, what: str) -> None:
    (yard.app() / "tests").mkdir()
    (yard.app() / "tests" / "check.sh").write_text("test -f answer.txt\n")
    task = {"id": "one", "prompt": "p", "acceptance_command": "sh tests/check.sh"}
    tasks = [task | {"acceptance_files": ["tests/check.sh"]}]
    result = ran(yard, COMMANDS[what], tasks=tasks, limits=SHORT)
    assert result.code == 0, result.err
    failed(yard)


def test_an_acceptance_that_says_99_does_not_make_a_crash_infra(yard: Yard) -> None:
    task = {"id": "one", "prompt": "p", "acceptance_command": "exit 99"}
    ran(yard, "exit 1", tasks=[task])
    failed(yard)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another device, where a rename does not reach."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("no second device")
    path = Path(tempfile.mkdtemp(prefix="twoarm-test-", dir=shared))
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("variable", ["TMPDIR", "HOME"])
def test_a_folder_on_another_device_loses_nothing(
    yard: Yard, elsewhere: Path, variable: str
) -> None:
    agent = stand_in(yard, "codex", f"""
mkdir -p '{elsewhere}/.codex/sessions'; rollout > '{elsewhere}/.codex/sessions/rollout-1.jsonl'
echo '{{}}' > '{elsewhere}/usage.json'
rm -rf "${variable}"; ln -s '{elsewhere}' "${variable}"; good
""")  # fmt: skip
    result = ran(yard, "", agent=agent)
    assert result.code == 0, result.err
    failed(yard)


@pytest.mark.parametrize("put", ["mkfifo", "mkdir -p", "ln -s nowhere"])
def test_an_agent_in_a_copy_can_spoil_its_attempt_but_not_the_count(yard: Yard, put: str) -> None:
    # Nothing keeps it from the folder of its supervisor; the run ends and knows of every trial.
    script = f"""
for folder in ../../own ../../own/out ../../own/home ../../own/git; do
    [ -d $folder ] || continue
    for name in {NAMES} stdout.txt stderr.log ignored.patch tmp home; do
        rm -rf $folder/$name; {put} $folder/$name
    done
done
"""
    result = ran(yard, script, limits=SHORT)
    assert result.code in (0, 3), result.err


# What an agent leaves is started once more: by acceptance, beside its supervisor.

ACCEPTED = {
    "kills the supervisor": "kill -9 $PPID; sleep 60",
    "stops the supervisor": "kill -STOP $PPID",
    "stops the supervisor and waits": "kill -STOP $PPID; sleep 60",
    "stops itself": "kill -STOP $$",
    "leaves children": "setsid sleep 60 & sleep 60 &",
    "removes its home": 'rm -rf "$HOME" "$TMPDIR"',
    "removes its workspace": 'rm -rf "$PWD"; exit 1',
    "leaves links": 'for at in "$PWD" "$HOME"; do rm -rf "$at"; ln -s "$DOCS" "$at"; done; exit 1',
    "prints what is no text": "head -c 100000 /dev/urandom; exit 1",
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_acceptance_that_misbehaves_has_failed(yard: Yard, what: str) -> None:
    command = "if [ -e planted.sh ]; then . ./planted.sh; fi; test -f answer.txt"
    task = {"id": "one", "prompt": "p", "acceptance_command": command}
    script = f"cat > planted.sh <<'END'\n{ACCEPTED[what]}\nEND"
    limits = {**SHORT, "acceptance_seconds": 1.0}
    workspace = {"env": {"DOCS": str(yard.user / "docs")}}
    result = ran(yard, script, tasks=[task], limits=limits, workspace=workspace)
    assert result.code == 0, result.err
    failed(yard)


@pytest.mark.parametrize("put", ["mkfifo", "mkdir", "ln -s nowhere"])
def test_acceptance_in_a_copy_can_spoil_the_attempt_but_not_the_count(yard: Yard, put: str) -> None:
    planted = f"""
for folder in "$HOME/.." "$HOME/../out" ../out; do
    [ -d "$folder" ] || continue
    for name in {NAMES} stdout.txt stderr.log ignored.patch; do
        rm -rf "$folder/$name"; {put} "$folder/$name"
    done
done
"""
    command = "if [ -e planted.sh ]; then . ./planted.sh; fi; test -f answer.txt"
    task = {"id": "one", "prompt": "p", "acceptance_command": command}
    script = f"cat > planted.sh <<'END'\n{planted}\nEND"
    result = ran(yard, script, tasks=[task], limits=SHORT)
    assert result.code in (0, 3), result.err


# Programs whose output is read.

PRINTS = {
    "a line of noise before": "echo 'npm warn: old lockfile'; good",
    "a line of noise after": "good; echo 'goodbye'",
    "noise that is not UTF-8": "printf '\\377\\376\\n'; good; printf '\\200\\n'",
    "noise that is JSON": "echo '[]'; echo 5; echo null; echo '{}'; good",
    "an empty line": "echo; good; echo",
    "zeros": "good; head -c 5000 /dev/zero; echo",
    "nothing": "true",
    "nothing, and crashes": "exit 1",
    "nothing, and is killed": "kill -9 $$",
    "noise, and crashes": "echo 'Error: Cannot find module'; exit 1",
    "half a line": "half",
    "half a line, and crashes": "half; exit 1",
    "half a line, and runs out of time": "half; sleep 60",
    "nothing, and runs out of time": "sleep 60",
    "noise, and runs out of time": "echo noise; good; sleep 60",
    "everything twice": "good; good",
    "lines out of order": "good | tac",
    "a line that is too deep": "good; head -c 100000 /dev/zero | tr '\\0' '['; echo",
}


@pytest.mark.parametrize("what", PRINTS)
@pytest.mark.parametrize("name", STAND_INS)
def test_a_program_that_prints_anything_has_made_a_run(yard: Yard, name: str, what: str) -> None:
    result = ran(yard, "", agent=stand_in(yard, name, PRINTS[what]), limits=SHORT)
    assert result.code == 0, result.err
    failed(yard)


ROLLOUTS = {
    "is cut by the time limit": "rollout | head -c 500 > $sessions/rollout-1.jsonl; sleep 60",
    "is cut by a crash": "rollout | head -c 500 > $sessions/rollout-1.jsonl; kill -9 $$",
    "has noise in it": "{ echo noise; rollout; } > $sessions/rollout-1.jsonl",
    "is not UTF-8": "{ rollout; printf '\\377\\n'; } > $sessions/rollout-1.jsonl",
    "is empty": "touch $sessions/rollout-1.jsonl",
    "is a dangling link": "ln -s nowhere $sessions/rollout-1.jsonl",
    "is a loop of links": "ln -s rollout-1.jsonl $sessions/rollout-1.jsonl",
    "is a folder": "mkdir -p $sessions/rollout-1.jsonl/x",
    "is a pipe": "mkfifo $sessions/rollout-1.jsonl",
    "is not the only one": "rollout > $sessions/rollout-1.jsonl; "
    "rollout > $sessions/rollout-2.jsonl",
    "is in a loop of folders": "ln -s .. $sessions/up; ln -s . $sessions/here",
    "has a name that is no text": "rollout > $sessions/rollout-$(printf '\\377').jsonl",
    "is of another session": "rollout | sed s/01a1ddd2/other/ > $sessions/rollout-1.jsonl",
}


@pytest.mark.parametrize("what", ROLLOUTS)
def test_a_rollout_that_cannot_be_read_loses_no_run(yard: Yard, what: str) -> None:
    script = f"mkdir -p $sessions; good; {ROLLOUTS[what]}"
    result = ran(yard, "", agent=stand_in(yard, "codex", script), limits=SHORT)
    assert result.code == 0, result.err
    failed(yard)


SESSIONS = {
    "is too long for a file": "printf "
    '\'{"type":"text","timestamp":1,"sessionID":"ses_%0400d"}\\n\' 1',
    "comes back": "good | sed s/ses_[A-Za-z0-9]*/ses_same/",
    "is one of many": "i=0; while [ $i -lt 60 ]; do i=$((i + 1)); "
    'echo "{\\"type\\":\\"text\\",\\"timestamp\\":1,\\"sessionID\\":\\"ses_$i\\"}"; done',
}


@pytest.mark.parametrize("what", SESSIONS)
def test_a_session_of_opencode_loses_no_run(yard: Yard, what: str) -> None:
    script = f"good; {SESSIONS[what]}"
    result = ran(yard, "", agent=stand_in(yard, "opencode", script), limits=SHORT)
    assert result.code == 0, result.err
    failed(yard)


@pytest.mark.parametrize("name", STAND_INS)
def test_a_session_that_both_arms_report_is_no_reason_to_score_nothing(
    yard: Yard, name: str
) -> None:
    agent = stand_in(yard, name, f"cat '{FIXTURES / STAND_INS[name].said}'")
    result = ran(yard, "", agent=agent)
    assert result.code == 0, result.err
    failed(yard)


# However the run ends.


def two(**more: Any) -> dict[str, Any]:
    tasks = [
        {"id": name, "prompt": "p", "acceptance_command": "test -f answer.txt"}
        for name in ("one", "two")
    ]
    return {"tasks": tasks, **more}


def by_failure(yard: Yard) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    trials = {(one["task_id"], one["arm"], one["failure"]) for one in records(yard.out)}
    for _, _, failure in trials:
        found[failure] = found.get(failure, 0) + 1
    return found


@pytest.mark.parametrize("how", ["--stop", "SIGINT"])
def test_what_a_stop_leaves_undone_is_missing(yard: Yard, how: str) -> None:
    yard.app()
    process = yard.running(yard.suite(**two()))
    if how == "--stop":
        yard.twoarm("run", "--stop", yard.out)
    else:
        process.send_signal(signal.SIGINT)
        # It has to be heard before the trial ends.
        yard.twoarm("run", "--status", yard.out)
    yard.gate.touch()
    result = yard.ended(process, how)
    assert unaccounted(yard.out) == [], result.err
    assert by_failure(yard).get("missing", 0) >= 2
    assert yard.resume().code == 0
    assert unaccounted(yard.out) == []
    assert by_failure(yard) == {None: 4}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_killed_and_resumed_has_every_trial(
    yard: Yard, number: signal.Signals
) -> None:
    yard.app()
    process = yard.running(yard.suite(**two()))
    process.send_signal(number)
    yard.ended(process, "a run that is killed")
    yard.gate.touch()
    assert yard.resume().code == 0
    assert unaccounted(yard.out) == []
    # What was under way broke off, and its agent may have done it.
    found = by_failure(yard)
    assert found.pop("interrupted") >= 1
    assert found == {None: 4}


def test_a_provider_that_is_down_leaves_no_trial_untold(yard: Yard) -> None:
    limits = {"retries": 2}
    result = ran(yard, f'{USAGE} infra "503 busy"', **two(limits=limits))
    assert result.code == 2
    found = by_failure(yard)
    assert found["infra"] + found["missing"] == 4


def test_a_set_up_that_keeps_failing_leaves_no_trial_untold(yard: Yard) -> None:
    arms = {"with": {"setup_commands": ["exit 3"]}}
    result = ran(yard, SOLVE, **two(arms=arms))
    assert result.code == 2
    assert by_failure(yard).get("missing", 0) + by_failure(yard).get("infra", 0) >= 2


def test_an_agent_that_cannot_be_started_leaves_no_trial_untold(yard: Yard) -> None:
    yard.app()
    arms = {name: {"setup_commands": ["true"], "env": {"A": name}} for name in ("with", "without")}
    suite = yard.suite(**two(agent={"argv": ["{workspace}/nothing"]}, arms=arms))
    result = yard.run(suite)
    assert result.code == 2
    assert unaccounted(yard.out) == []


def test_a_budget_that_is_spent_leaves_no_trial_untold(yard: Yard) -> None:
    script = f"{USAGE} used 1 0.5; {SOLVE}"
    limits = {"budget_usd": 1.5, "trial_usd": 0.5}
    result = ran(yard, script, **two(limits=limits))
    assert result.code == 0, result.err
    assert by_failure(yard) == {None: 2, "missing": 2}


def test_a_file_that_travels_alone_tells_what_is_missing(yard: Yard) -> None:
    script = f"{USAGE} used 1 0.5; {SOLVE}"
    ran(yard, script, **two(limits={"budget_usd": 1.5, "trial_usd": 0.5}))
    alone = yard.made / "alone"
    alone.mkdir()
    shutil.copy(yard.out / "collected.jsonl", alone)
    result = yard.twoarm("score", alone / "collected.jsonl", "--baseline", "without",
                         "--candidate", "with", "--no-evidence")  # fmt: skip
    assert result.code == 0, result.err
    assert "missing" in result.out
