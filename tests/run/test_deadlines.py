"""A run ends: whatever an agent does to its supervisor, and whatever the user wants meanwhile."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.run_folders import WITHOUT_PAGE
from tests.support.suite_files import (
    SOLVE,
    Local,
    attempt,
    job_of,
    processes_with,
    suite_of,
    wait_for,
)
from twoarm.run.executors import local

NAPS = "for i in 1 2 3 4 5 6 7 8 9; do kill -STOP $PPID; sleep 0.1; done"


def test_a_supervisor_that_the_agent_puts_to_sleep_is_woken(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, f"{SOLVE}; {NAPS}"))
    assert ran.facts["acceptance_exit_code"] == 0


def test_limits_hold_for_an_agent_that_puts_its_supervisor_to_sleep(tmp_path: Path) -> None:
    script = f"i=0; while [ $i -lt 600 ]; do i=$((i+1)); {NAPS}; done"
    ran = attempt(job_of(tmp_path, script, timeout_seconds=0.5, grace_seconds=0.2))
    assert ran.facts["ended_by"] == "timeout"


def test_a_supervisor_that_does_not_answer_is_ended_with_all_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_SLACK_SECONDS", 0.0)
    # Nobody wakes it.
    monkeypatch.setattr(signal, "SIGCONT", 0)
    job = job_of(
        tmp_path,
        "setsid sleep 91 & kill -STOP $PPID; sleep 91",
        timeout_seconds=0.2,
        setup_seconds=0.2,
        acceptance_seconds=0.2,
        grace_seconds=0.1,
    )
    ran = attempt(job)
    assert (ran.outcome.died, ran.outcome.cancelled) == (True, False)
    assert ran.outcome.reason == "its supervisor stopped answering"


def test_what_an_agent_says_in_the_name_of_its_supervisor_ends_nothing(tmp_path: Path) -> None:
    job = job_of(tmp_path, f"{SOLVE}; echo ended > /proc/$PPID/fd/1; sleep 0.2; echo done")
    ran = attempt(job)
    assert ran.outcome.complete
    assert ran.kept("stdout.txt") == "done\n"


def test_an_agent_that_kills_its_supervisor_and_keeps_its_pipe_holds_up_nobody(
    tmp_path: Path,
) -> None:
    script = "exec 3> /proc/$PPID/fd/1; env -i setsid sleep 93 3>&3 & kill -9 $PPID; sleep 93"
    job = job_of(tmp_path, script)
    executor = Local(1)
    try:
        executor.submit("it", job, None, None)
        (outcome,) = executor.completed(60)
    finally:
        executor.close()
        for line in processes_with("sleep\x0093"):
            os.kill(int(line.partition(":")[0]), signal.SIGKILL)
    assert outcome.died
    assert outcome.reason == "its supervisor was killed"


def test_a_supervisor_that_fails_by_itself_is_no_agents_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('Traceback\\nKeyError: 3')")
    monkeypatch.setattr(local, "_COMMAND", command)
    ran = attempt(job_of(tmp_path, SOLVE))
    assert (ran.outcome.complete, ran.outcome.died, ran.outcome.cancelled) == (False, False, False)
    assert ran.outcome.reason == "its supervisor failed: KeyError: 3"


def test_a_long_order_waits_for_no_reader(tmp_path: Path) -> None:
    # A pipe takes 64 KiB, and the supervisor may be asleep before it reads any of it.
    job = job_of(tmp_path, SOLVE, prompt="long " * 100_000)
    executor = Local(1)
    try:
        executor.submit("it", job, None, None)
        (outcome,) = executor.completed(30)
    finally:
        executor.close()
    assert outcome.complete


def started(suite: Path, out: Path, *before: int) -> "subprocess.Popen[bytes]":
    """A run in a process of its own, which ignores some signals from the start."""

    def ignore() -> None:
        # In the background of a script SIGINT would be ignored, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in before:
            signal.signal(number, signal.SIG_IGN)

    return subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PAGE, "run", str(suite), "--out", str(out),
         "--repeats", "1", "--only", "one", "--display", "quiet", "--no-evidence"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=ignore,
        env={**os.environ, "TWOARM_CACHE": str(out.parent / "cache")},
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_heard_while_everything_is_prepared(tmp_path: Path, number: int) -> None:
    nap = f"92.{os.getpid()}{int(number)}"
    suite = suite_of(tmp_path, workspace={"copy": "app", "setup_commands": [f"sleep {nap}"]})
    runner = started(suite, tmp_path / "out")
    wait_for(lambda: processes_with(f"sleep\x00{nap}"), 30)
    runner.send_signal(number)
    runner.communicate(timeout=60)
    assert runner.returncode == 128 + number
    assert processes_with(str(tmp_path)) == []


def test_a_signal_that_was_ignored_at_the_start_stays_ignored(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, f"touch {tmp_path}/begun; sleep 0.5; {SOLVE}")
    runner = started(suite, tmp_path / "out", signal.SIGINT, signal.SIGHUP)
    wait_for(lambda: (tmp_path / "begun").exists(), 30)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGINT):
        runner.send_signal(number)
    runner.communicate(timeout=60)
    assert runner.returncode == 0


def test_an_agent_ignores_nothing_even_if_the_runner_does(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, f"grep -E 'Sig(Ign|Blk)' /proc/self/status; {SOLVE}")
    everything = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    runner = started(suite, tmp_path / "out", *everything)
    runner.communicate(timeout=60)
    assert runner.returncode == 0
    for path in (tmp_path / "out" / "runs").glob("*/*/stdout.txt"):
        told = dict(line.split(":") for line in path.read_text().splitlines())
        # Two in the middle belong to the C library.
        assert {name: int(mask, 16) & ~(3 << 31) for name, mask in told.items()} == {
            "SigIgn": 0,
            "SigBlk": 0,
        }
