"""Killed between looks and during them, a run ends where it would have ended."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.random_kills import again
from tests.support.run_folders import USAGE, WITHOUT_PAGE, journal, records, runs, unaccounted
from tests.support.suite_files import wait_for
from tests.support.yard import PATIENCE_SECONDS, Yard, as_usual

# The look waits, with a sign, as long as a file says so.
HELD = """
import os, time
import twoarm.commands.run_looks as looks
compare = looks.compare
def held(*words, **more):
    if os.path.exists(os.environ["HOLD"]):
        open(os.environ["LOOKING"], "w").close()
        time.sleep(60)
    return compare(*words, **more)
looks.compare = held
"""
AGENT = f"""{USAGE}
echo fixed > answer.txt
if [ -n "$HINT" ]; then used $((300 + $$ % 9)) 0.1; else sleep 0.05; used $((900 + $$ % 9)) 0.1; fi
"""
TASKS = [
    {"id": f"t{number}", "prompt": "p", "acceptance_command": "test -f answer.txt"}
    for number in range(6)
]
# In a sandbox, an agent cannot bring its end about, so that what was killed is no loss of its arm.
WORDS = ("--isolation", "bwrap", "--looks", "2,5,6", "--margin-success", "0.4")
PLAIN = ("--jobs", "4", "--display", "quiet", "--run-pages", "none")


class Runner:
    """Starts a run, or goes on with it; ends its process, and waits for those below."""

    def __init__(self, yard: Yard, suite: Path) -> None:
        self.yard, self.suite = yard, suite
        self.hold, self.looking = yard.signs / "hold", yard.signs / "looking"

    def start(self) -> "subprocess.Popen[str]":
        out = self.yard.out
        words = [str(self.suite), "--out", str(out), *WORDS]
        if (out / "schedule.json").exists():
            words = ["--resume", str(out)]
        signs = {"HOLD": str(self.hold), "LOOKING": str(self.looking)}
        return subprocess.Popen(
            [sys.executable, "-c", HELD + WITHOUT_PAGE, "run", *words, *PLAIN],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.yard.made, env=self.yard.environment() | signs, start_new_session=True,
            preexec_fn=as_usual,
        )  # fmt: skip

    def kill(self, process: "subprocess.Popen[str]") -> None:
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        wait_for(lambda: not self.yard.left(), PATIENCE_SECONDS)

    def kill_in_look(self) -> None:
        self.hold.touch()
        self.looking.unlink(missing_ok=True)
        process = self.start()
        wait_for(lambda: self.looking.exists() or process.poll() is not None, PATIENCE_SECONDS)
        self.kill(process)
        self.hold.unlink()

    def kill_between(self, rng: random.Random) -> None:
        """Some time after another trial has begun."""
        before = len(begun(self.yard.out))
        process = self.start()
        wait_for(
            lambda: len(begun(self.yard.out)) > before or process.poll() is not None,
            PATIENCE_SECONDS,
        )
        time.sleep(rng.uniform(0.0, 0.05))
        self.kill(process)


def begun(out: Path) -> list[dict[str, Any]]:
    try:
        lines = (out / "journal.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [event for event in map(_event, lines) if event.get("event") == "begun"]


def _event(line: str) -> dict[str, Any]:
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:
        # It is being written.
        return {}
    return event


@pytest.mark.usefixtures("bubblewrap")
def test_killed_between_looks_and_during_them_a_run_ends_where_it_would_have(yard: Yard) -> None:
    yard.app()
    suite = yard.suite(AGENT, tasks=TASKS)
    runner = Runner(yard, suite)
    out = yard.out
    for _ in range(5):
        runner.kill_in_look()
        assert not (out / "looks.json").exists()
    rng = random.Random(1)
    for _ in range(10):
        runner.kill_between(rng)
    for _ in range(5):
        runner.kill_in_look()
        assert json.loads((out / "looks.json").read_text())["taken"] == [2]
    process = runner.start()
    result = yard.ended(process, "the last resume")
    assert result.code == 0, result.err
    ended = "stopped after 5 of 6 repeats: candidate better"
    assert f"{ended}; 12 of 72 runs saved" in result.err
    assert len(runs(out)) == 60
    assert again(out) == []
    # Every trial that was planned by the look has a line, and no other has.
    assert {record["repeat"] for record in records(out)} == set(range(1, 6))
    assert len([fault for fault in unaccounted(out) if "not in" in fault]) == 12
    assert [event["after"] for event in journal(out) if event["event"] == "look"] == [2, 5]
    killed = json.loads((out / "looks.json").read_text())
    shutil.rmtree(out)
    whole = runner.start()
    assert yard.ended(whole, "a run that nobody kills").code == 0
    assert json.loads((out / "looks.json").read_text()) == killed
