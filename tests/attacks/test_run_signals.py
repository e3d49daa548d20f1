"""A run ends when it is told to, and an agent starts as if nobody were above it."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result
from tests.support.run_folders import QUICK, USAGE, records, unaccounted
from tests.support.suite_files import SOLVE, wait_for
from tests.support.yard import PATIENCE_SECONDS, Yard, as_usual

TERM, INT = (signal.SIGTERM,), (signal.SIGINT,)
TWICE = (signal.SIGINT, signal.SIGINT)


def told(yard: Yard, suite: Path, signals: tuple[signal.Signals, ...], *more: str) -> Result:
    """A run that is told to end once it has left the sign that it has begun."""
    yard.gate.touch()
    words = more or ("--out", str(yard.out), *QUICK)
    process = yard.start("run", suite, "--repeats", "1", "--jobs", "1", *words)
    wait_for(lambda: yard.begun.exists() or process.poll() is not None, PATIENCE_SECONDS)
    assert process.poll() is None, process.communicate()
    journal = yard.out / "journal.jsonl"
    size = journal.stat().st_size if journal.exists() else 0
    process.send_signal(signals[0])
    if len(signals) > 1:
        # Two that come at once are one; the first is in the journal when it has been heard.
        wait_for(lambda: process.poll() is not None or journal.stat().st_size > size)
        process.send_signal(signals[1])
    result = yard.ended(process, "a run that was told to end")
    assert result.code != 0
    assert "Traceback" not in result.err
    wait_for(lambda: not yard.left(), PATIENCE_SECONDS)
    return result


def goes_on(yard: Yard) -> None:
    """Nothing of it was lost."""
    yard.begun.touch()
    result = yard.resume()
    assert result.code == 0, result.err
    assert unaccounted(yard.out) == []
    ended = [record["failure"] for record in records(yard.out)]
    assert [failure for failure in ended if failure != "interrupted"] == [None, None]


def once(yard: Yard, script: str) -> str:
    """A command that leaves a sign and takes for ever, the first time; then it does this."""
    return f"[ -e '{yard.begun}' ] || {{ : > '{yard.begun}'; sleep 99; }}; {script}"


@pytest.mark.parametrize("signals", [TERM, INT], ids=["SIGTERM", "Ctrl-C"])
@pytest.mark.parametrize("where", ["workspace", "task", "build", "untouched"])
def test_a_signal_is_heard_while_the_run_is_prepared(
    yard: Yard, where: str, signals: tuple[signal.Signals, ...]
) -> None:
    yard.app()
    waiting = [once(yard, "true")]
    task: dict[str, Any] = {"id": "one", "prompt": "p", "acceptance_command": "test -f answer.txt"}
    changed: dict[str, Any] = {"tasks": [task]}
    if where == "workspace":
        changed["workspace"] = {"setup_commands": waiting}
    elif where == "task":
        task["setup_commands"] = waiting
    elif where == "untouched":
        task["acceptance_command"] = once(yard, "test -f answer.txt")
    else:
        source = {"repo": "../repo"}
        changed["arms"] = {"with": {"source": source, "build_commands": waiting}}
    told(yard, yard.suite(**changed), signals)
    goes_on(yard)


@pytest.mark.parametrize("signals", [TERM, INT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_is_heard_in_a_dry_run_which_leaves_nothing(
    yard: Yard, signals: tuple[signal.Signals, ...]
) -> None:
    yard.app()
    suite = yard.suite(workspace={"setup_commands": [once(yard, "true")]})
    told(yard, suite, signals, "--dry-run")
    assert list(yard.cache.iterdir()) == []


@pytest.mark.parametrize("signals", [TERM, TWICE], ids=["SIGTERM", "Ctrl-C twice"])
@pytest.mark.parametrize("where", ["agent", "acceptance", "setup"])
def test_a_signal_is_heard_during_a_trial(
    yard: Yard, where: str, signals: tuple[signal.Signals, ...]
) -> None:
    yard.app()
    changed: dict[str, Any] = {}
    if where == "agent":
        changed["script"] = once(yard, SOLVE)
    elif where == "setup":
        arms = {name: {"setup_commands": [once(yard, "true")], "env": {"A": name}}
                for name in ("with", "without")}  # fmt: skip
        changed["arms"] = arms
    else:
        # Only where an agent has been: on the untouched workspace it fails at once.
        command = f"test -f answer.txt && {{ {once(yard, 'true')}; }}"
        changed["tasks"] = [{"id": "one", "prompt": "p", "acceptance_command": command}]
    assert told(yard, yard.suite(**changed), signals).code == 130
    goes_on(yard)


@pytest.mark.parametrize("signals", [TERM, INT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_is_heard_while_the_run_pauses(
    yard: Yard, signals: tuple[signal.Signals, ...]
) -> None:
    yard.app()
    script = f"{USAGE} [ -e '{yard.signs}/up' ] || {{ infra '503 busy'; exit 1; }}; {SOLVE}"
    suite = yard.suite(script, limits={"retries": 2, "retry_seconds": 600})
    process = yard.start("run", suite, "--repeats", "1", "--out", yard.out, "--jobs", "1", *QUICK)
    wait_for(lambda: any('"infra"' in path.read_text() for path in
                         yard.out.glob(".attempts/*/*/trial.json")), PATIENCE_SECONDS)  # fmt: skip
    for number in signals:
        process.send_signal(number)
    result = yard.ended(process, "a run that pauses")
    assert result.code != 0
    assert "Traceback" not in result.err


STOPS = "kill -STOP $PPID; : > '{begun}'; sleep 99"


@pytest.mark.parametrize("signals", [TERM, TWICE], ids=["SIGTERM", "Ctrl-C twice"])
def test_a_signal_is_heard_with_a_supervisor_that_is_stopped(
    yard: Yard, signals: tuple[signal.Signals, ...]
) -> None:
    yard.app()
    script = f"[ -e '{yard.begun}' ] || {{ {STOPS.format(begun=yard.begun)}; }}; {SOLVE}"
    told(yard, yard.suite(script), signals)
    goes_on(yard)


def test_a_supervisor_that_is_stopped_and_a_runner_that_is_killed_hold_up_no_resume(
    yard: Yard,
) -> None:
    yard.app()
    script = f"[ -e '{yard.begun}' ] || {{ {STOPS.format(begun=yard.begun)}; }}; {SOLVE}"
    suite = yard.suite(script)
    process = yard.start("run", suite, "--repeats", "1", "--out", yard.out, "--jobs", "1", *QUICK)
    wait_for(yard.begun.exists, PATIENCE_SECONDS)
    process.kill()
    process.communicate()
    # Nobody has to come back for that.
    wait_for(lambda: not yard.left(), PATIENCE_SECONDS)
    goes_on(yard)
    assert yard.left() == []


# How an agent starts.


def _ignoring() -> None:
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)


def _blocking() -> None:
    as_usual()
    some = {signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, some)


@pytest.mark.parametrize("before", [as_usual, _ignoring, _blocking], ids=["as usual", "ignoring",
                                                                     "blocking"])  # fmt: skip
def test_agents_tests_and_set_up_get_every_signal_as_anybody(
    yard: Yard, before: Callable[[], None]
) -> None:
    yard.app()
    show = "grep -E 'Sig(Ign|Blk)' /proc/self/status"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": f"{show}; test -f answer.txt"}]
    arms = {"with": {"setup_commands": [show]}}
    suite = yard.suite(f"{show}; {SOLVE}", tasks=tasks, arms=arms)
    words = ("run", suite, "--repeats", "1", "--out", yard.out, *QUICK)
    result = yard.ended(yard.start(*words, preexec_fn=before), "in the background")
    assert result.code == 0, result.err
    for name in ("stdout.txt", "acceptance.log", "setup.log"):
        found = dict(line.split(":") for line in yard.kept("with", name).read_text().splitlines())
        assert set(found) == {"SigIgn", "SigBlk"}
        # Those above 31 are of the C library, and as whoever started the tests has them.
        assert [int(bits, 16) & 0x7FFFFFFF for bits in found.values()] == [0, 0], (name, found)


def test_a_script_that_ignores_signals_starts_agents_that_do_not(yard: Yard) -> None:
    yard.app()
    suite = yard.suite(f"grep SigIgn /proc/self/status; {SOLVE}")
    under = ("sh", "-c", 'trap "" INT QUIT HUP TERM; "$@" & wait', "sh")
    words = ("run", suite, "--repeats", "1", "--out", yard.out, *QUICK)
    result = yard.ended(yard.start(*words, under=under), "in the background of a script")
    assert result.code == 0, result.err
    bits = yard.kept("with", "stdout.txt").read_text().split()[1]
    assert int(bits, 16) & 0x7FFFFFFF == 0


# The HOME of acceptance.

PYTHON = os.path.realpath(sys.executable)
CHEAT = f"""
site=$('{PYTHON}' -m site --user-site)
site=${{site#"$HOME"}}
prepare() {{
    mkdir -p "$1$site" "$1/.config/git" || return
    echo 'import os; os._exit(0)' | tee "$1$site/usercustomize.py" > "$1$site/sitecustomize.py"
    echo 'exit 0' | tee "$1/.profile" "$1/.bash_profile" "$1/.bashrc" > "$1/.zshenv"
}}
prepare "$HOME"
"""
HOMES = {
    "in its own HOME": "",
    "in home2": "prepare ../home2",
    "behind a link": 'prepare "$TMPDIR/h"; ln -s "$TMPDIR/h" ../home2',
    "in what is not its own": "[ -d ../../own ] && prepare ../../own/home",
    "behind a link in what is not its own": '[ -d ../../own ] || exit 1; prepare "$TMPDIR/h"; '
    'rm -rf ../../own/home; ln -s "$TMPDIR/h" ../../own/home',
    "in every folder around, not its own": 'for at in .. ../..; do for name in $(ls "$at"); do '
    'case $name in work|trees|builds) ;; *) prepare "$at/$name" ;; esac; done; done',
}


@pytest.mark.parametrize("where", HOMES)
def test_no_agent_chooses_the_home_of_acceptance(yard: Yard, where: str) -> None:
    yard.app()
    checks = f"find \"$HOME\" \"$TMPDIR\"; '{PYTHON}' -c 'raise SystemExit(1)' || bash -lc 'exit 1'"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": checks}]
    suite = yard.suite(f"{CHEAT}\n{HOMES[where]}\ntrue", tasks=tasks)
    result = yard.run(suite)
    assert unaccounted(yard.out) == [], result.err
    assert [record["success"] for record in records(yard.out)] == [False, False]
    logs = [path.read_text() for path in yard.out.glob("runs/*/*/acceptance.log")]
    assert not any("customize" in text for text in logs)
    if "not its own" not in where:
        # In a copy nothing keeps it from the folders of its supervisor; that may be its end.
        assert len(logs) == 2
        assert [record["failure"] for record in records(yard.out)] == [None, None]
