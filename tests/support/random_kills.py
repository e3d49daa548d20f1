"""Kill the runner at random moments, resume it each time, and look at what became of the trials."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.scriptless import scriptless
from tests.support.suite_files import processes_with, suite_of

# Leaves a child in a session of its own, and takes a moment.
AGENT = """
setsid sleep 90 &
sleep 0.0$((RANDOM_SLEEP % 9))
echo fixed > answer.txt
printf '{"input_tokens": 1, "output_tokens": 1}' > $TWOARM_USAGE
"""


class Survived(NamedTuple):
    kills: int
    trials: int
    # Seconds until nobody was left, after each kill.
    latencies: list[float]
    changed: list[str]
    twice: list[str]
    lost: int
    left_alive: list[str]


def kill_often(
    folder: Path, seed: int, tasks: int, repeats: int, kills: int, arms: int = 2
) -> Survived:
    """Run a suite to its end with at least so many kills; everything that went wrong."""
    rng = random.Random(seed)
    suite = suite_of(
        folder / "suite",
        AGENT.replace("RANDOM_SLEEP", "$$"),
        tasks=[
            {"id": f"t{i}", "prompt": "p", "acceptance_command": "test -f answer.txt"}
            for i in range(tasks)
        ],
        arms={f"more{i}": {"env": {"HINT": f"more {i}"}} for i in range(2, arms)},
    )
    out = folder / "out"
    seen: dict[str, bytes] = {}
    latencies: list[float] = []
    changed: list[str] = []
    while True:
        runner = _runner(suite, out, folder / "cache", repeats)
        if _wait(runner, out, rng, enough=len(latencies) >= kills):
            break
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        killed = time.monotonic()
        while alive := processes_with(str(folder)):
            if time.monotonic() - killed > 10:
                break
            time.sleep(0.005)
        latencies.append(time.monotonic() - killed)
        if alive:
            break
        now = _published(out)
        changed += [name for name, text in seen.items() if now.get(name) != text]
        seen = now
    now = _published(out)
    changed += [name for name, text in seen.items() if now.get(name) != text]
    return Survived(
        kills=len(latencies),
        trials=len(list(out.glob("runs/*/*/trial.json"))),
        latencies=latencies,
        changed=changed,
        twice=again(out),
        lost=arms * tasks * repeats - len(list(out.glob("runs/*/*/trial.json"))),
        left_alive=processes_with(str(folder)),
    )


def _runner(suite: Path, out: Path, cache: Path, repeats: int) -> "subprocess.Popen[bytes]":
    if (out / "schedule.json").exists():
        words = ["--resume", str(out)]
    else:
        words = [str(suite), "--out", str(out), "--repeats", str(repeats), "--jobs", "4"]
    with (suite.parent / "runner.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "twoarm", "run", *words,
             "--display", "quiet", "--no-evidence", "--format", "json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            env=scriptless(TWOARM_CACHE=str(cache)), start_new_session=True,
        )  # fmt: skip


def _wait(
    runner: "subprocess.Popen[bytes]", out: Path, rng: random.Random, *, enough: bool
) -> bool:
    """Until a random moment, most often once trials run; True if the runner came to its end."""
    if enough:
        runner.wait(600)
    before = _starts(out)
    early = rng.random() < 0.2
    deadline = time.monotonic() + (rng.uniform(0.05, 1.0) if early else 30.0)
    while time.monotonic() < deadline and runner.poll() is None:
        if not early and _starts(out) > before:
            early, deadline = True, time.monotonic() + rng.uniform(0.0, 0.5)
        time.sleep(0.002)
    if runner.poll() is None:
        return False
    assert runner.returncode == 0, (out.parent / "suite" / "runner.log").read_text()
    return True


def _starts(out: Path) -> int:
    try:
        return (out / "journal.jsonl").read_bytes().count(b'"event":"started"')
    except FileNotFoundError:
        return 0


def _published(out: Path) -> dict[str, bytes]:
    """Every file of every run, with its content."""
    return {
        str(path.relative_to(out)): path.read_bytes() + str(path.stat().st_mtime_ns).encode()
        for path in out.glob("runs/*/*/*")
    }


def again(out: Path) -> list[str]:
    """Trials that were begun again after they were done."""
    begun: dict[str, int] = {}
    for line in (out / "journal.jsonl").read_bytes().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            # A torn line; the journal is never the truth.
            continue
        if event["event"] == "begun":
            trial, _, number = event["attempt"].rpartition(".")
            begun[trial] = max(begun.get(trial, 0), int(number))
    found = []
    for path in out.glob("runs/*/*/trial.json"):
        told = json.loads(path.read_text())
        trial = f"{told['arm']}/{told['task']}.{told['repeat']}"
        if begun.get(trial, told["attempt"]) > told["attempt"]:
            found.append(trial)
    return found
