"""A run that is killed while it grows: what was run stays, and it comes to the same end."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import QUICK, run, runs, trials_of, unaccounted
from tests.support.suite_files import SOLVE, processes_with, suite_of, wait_for

pytestmark = pytest.mark.usefixtures("cache")

# `twoarm` that kills itself before the Nth step of a resume that changes a file.
KILLED = """
import os, signal, sys
from twoarm.run import session
steps = int(sys.argv.pop(1))
held = session.RunFolder.hold

def counted(function):
    def step(*given, **more):
        global steps
        steps -= 1
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given, **more)
    return step

def hold(folder, token):
    held(folder, token)
    for name in ("write", "rename", "replace", "fsync", "ftruncate"):
        setattr(os, name, counted(getattr(os, name)))

session.RunFolder.hold = hold
from twoarm.render.report import Report
Report.to_html = lambda self, links: ""
from twoarm.commands.cli import main
sys.exit(main(sys.argv[1:]))
"""


def tasks(*names: str) -> list[dict[str, Any]]:
    return [
        {"id": name, "prompt": f"Do {name}.", "acceptance_command": "test -f answer.txt"}
        for name in names
    ]


def files(out: Path) -> dict[str, tuple[str, int]]:
    """Every file of every run: its digest, and when it was written."""
    return {
        str(path.relative_to(out)): (sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in out.glob("runs/**/*")
        if path.is_file()
    }


def whole(out: Path, before: dict[str, tuple[str, int]]) -> None:
    """What was run then is as it was."""
    now = files(out)
    assert {name: now.get(name) for name in before} == before


def test_a_kill_between_any_two_steps_leaves_a_folder_that_grows(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path, tasks=tasks("one")), tmp_path / "out"
    assert run(suite, out).code == 0
    before, schedule = files(out), (out / "schedule.json").read_bytes()
    suite_of(tmp_path, tasks=tasks("one", "new"))
    grow = ("run", "--resume", str(out), "--repeats", "2", *QUICK)
    schedules = set()
    for step in range(1, 13):
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(step), *grow],
            stdin=subprocess.DEVNULL, capture_output=True, env=dict(os.environ), timeout=60,
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        whole(out, before)
        schedules.add((out / "schedule.json").read_bytes())
        # It can be read, and says no less than it did.
        assert twoarm("run", "--status", str(out)).code == 0
    assert len(schedules) == 2
    assert schedule in schedules
    assert twoarm(*grow).code == 0
    whole(out, before)
    assert (out / "schedule.json").read_bytes() in schedules
    assert unaccounted(out) == []
    assert len(runs(out)) == len(trials_of(out)) == 8


def test_a_run_that_is_killed_twenty_times_while_it_grows_comes_to_the_same_end(
    tmp_path: Path, cache: Path
) -> None:
    rng = random.Random(1)
    # An agent needs a ticket, and there is one for each kill: however fast the machine is, the run
    # cannot end before it was killed often enough.
    tickets, free = tmp_path / "tickets", tmp_path / "free"
    tickets.mkdir()
    free.touch()
    agent = f"""
        until test -e {free} || rm "{tickets}/$(ls {tickets} | head -n 1)"; do sleep 0.02; done
        {SOLVE}
    """
    suite, out = suite_of(tmp_path, agent, tasks=tasks("one")), tmp_path / "out"
    assert run(suite, out).code == 0
    free.unlink()
    before = files(out)
    suite_of(tmp_path, agent, tasks=tasks("one", "two", "new"))
    grow = ["run", "--resume", str(out), "--repeats", "5", "--jobs", "2", *QUICK]
    kills = 0
    while kills < 20:
        (tickets / str(kills)).touch()
        runner = subprocess.Popen(
            [sys.executable, "-m", "twoarm", *grow],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ), start_new_session=True,
        )  # fmt: skip
        begun = _begun(out)
        # Half of them before a trial starts, half of them soon after.
        if kills % 2:
            wait_for(partial(_begins, runner, out, begun), 60)
            time.sleep(rng.uniform(0.0, 0.2))
        else:
            time.sleep(rng.uniform(0.1, 1.0))
        assert runner.poll() is None
        runner.kill()
        runner.wait()
        wait_for(lambda: not processes_with(str(cache)))
        kills += 1
        whole(out, before)
        before |= files(out)
    free.touch()
    assert twoarm(*grow).code == 0
    whole(out, before)
    assert unaccounted(out) == []
    assert len(runs(out)) == len(trials_of(out)) == 30
    assert _twice(out) == []
    numbers = [part["number"] for part in json.loads((out / "schedule.json").read_text())["parts"]]
    assert numbers == [1, 2]


def _begins(runner: "subprocess.Popen[bytes]", out: Path, before: int) -> bool:
    return _begun(out) > before or runner.poll() is not None


def _begun(out: Path) -> int:
    return (out / "journal.jsonl").read_bytes().count(b'"event":"begun"')


def _twice(out: Path) -> list[str]:
    """Trials that were begun again after they were done."""
    begun: dict[str, int] = {}
    for line in (out / "journal.jsonl").read_bytes().splitlines():
        event = json.loads(line)
        if event["event"] == "begun":
            trial, _, number = event["attempt"].rpartition(".")
            begun[trial] = max(begun.get(trial, 0), int(number))
    told = [json.loads(path.read_text()) for path in out.glob("runs/*/*/trial.json")]
    made = {f"{run['arm']}/{run['task']}.{run['repeat']}": run["attempt"] for run in told}
    return [trial for trial, number in begun.items() if number > made[trial]]


def test_tasks_that_are_added_to_half_a_run_are_set_up(tmp_path: Path) -> None:
    # An arm whose setup fails stops the run, which leaves its trees in the cache.
    gate = tmp_path / "gate"
    arms = {"with": {"setup_commands": [f"test -e {gate}"]}}
    suite, out = suite_of(tmp_path, arms=arms, tasks=tasks("one")), tmp_path / "out"
    assert run(suite, out).code == 2
    gate.touch()
    new = {
        **tasks("new")[0],
        "setup_commands": ["touch made"],
        "acceptance_command": "test -f made",
    }
    suite_of(tmp_path, arms=arms, tasks=[*tasks("one"), new])
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    assert len(runs(out)) == 4
