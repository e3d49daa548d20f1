"""Writing under faults and signals: old bytes or new bytes, never half, and nothing left behind.

A process scores with --out and --junit, or collects with -o, over files that are there already or
not. Either the n-th call to the system that writes fails (no room, an error of the disk), is short,
or is met by a signal; or signals come from outside at a random moment.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.conftest import both, lines

NAMES = ("analysis.json", "analysis.md", "report.html")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OLD = b"old\n"
# Each of them starts several processes.
SEEDS = 12

# Runs in the process under test: makes call number `at` of the given functions of `os` go wrong.
FAULTS = """
import json, os, sys
plan = json.loads(sys.argv[1])
calls = 0

def faulty(name, real):
    def call(*given, **named):
        global calls
        calls += 1
        if calls != plan["at"]:
            return real(*given, **named)
        if plan["kind"] == "signal":
            os.kill(os.getpid(), plan["signal"])
            return real(*given, **named)
        if plan["kind"] == "short":
            if name != "write":
                return real(*given, **named)
            return real(given[0], bytes(given[1])[: max(1, len(given[1]) // 2)])
        raise OSError(plan["errno"], os.strerror(plan["errno"]))
    return call

from twoarm.commands import cli
import twoarm.commands.collect, twoarm.render.junit
from twoarm.render import html, report
# The scripts of the page are large, the same in every page, and slow to bundle.
html._scripts = lambda: ("", "")
if not plan["drawn"]:
    # Whatever is drawn, it is written in the same way.
    report.Report.to_html = lambda self, links: "a line of a page\\n" * 20_000
for name in plan["calls"]:
    setattr(os, name, faulty(name, getattr(os, name)))
if plan["ready"]:
    print("ready", flush=True)
sys.exit(cli.main(sys.argv[2:]))
"""

CALLS = ("write", "open", "replace", "link", "fsync", "fchmod", "fchown", "unlink", "makedirs")


@cache
def inputs() -> Path:
    """A folder with a run file and a table, kept until the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="twoarm-fuzz-"))
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    runs = [one for task in range(3) for repeat in range(1, 6) for one in both(f"t{task}", repeat)]
    (folder / "runs.jsonl").write_bytes(lines(runs))
    rows = "".join(f"task{n},1,1\n" for n in range(3000))
    (folder / "t.csv").write_text(f"task_id,success,duration_seconds\n{rows}")
    return folder


def command(kind: str, out: Path) -> tuple[list[str], list[Path]]:
    """The words of the command, and the files it writes."""
    if kind == "collect":
        path = out / "collected.jsonl"
        table = inputs() / "t.csv"
        return ["collect", "table", "--arm", f"a={table}", "-o", str(path)], [path]
    junit = out / "junit.xml"
    words = ["score", str(inputs() / "runs.jsonl"), "--exit-code", "--no-evidence"]
    words += ["--out", str(out), "--junit", str(junit)]
    return words, [*(out / name for name in NAMES), junit]


@cache
def expected(kind: str, drawn: bool) -> dict[str, bytes]:
    """What the files hold if nothing goes wrong."""
    with tempfile.TemporaryDirectory() as name:
        words, paths = command(kind, Path(name))
        plan = {"at": 0, "calls": [], "ready": False, "drawn": drawn}
        assert ran(plan, words, random.Random(0)) == 0
        return {path.name: path.read_bytes() for path in paths}


def environment() -> dict[str, str]:
    # With the variable of the step summary these runs would depend on where they are made.
    kept = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    return kept | {"SOURCE_DATE_EPOCH": "1793520000", "PYTHONDONTWRITEBYTECODE": "1"}


def once(seed: int) -> None:
    """One process, one mishap; raises AssertionError if it left anything but old or new."""
    rng = random.Random(seed)
    kind = rng.choice(("score", "collect"))
    with tempfile.TemporaryDirectory(prefix="twoarm-fuzz-") as name:
        out = Path(name) / "out"
        out.mkdir()
        words, paths = command(kind, out)
        before = {}
        for path in paths:
            if rng.random() < 0.6:
                path.write_bytes(OLD)
                before[path.name] = OLD
        by_signal = rng.random() < 0.2
        calls = rng.sample(CALLS, rng.randint(1, len(CALLS)))
        plan = {
            "at": 0 if by_signal else rng.randint(1, rng.choice((5, 25))),
            "kind": rng.choice(("error", "error", "signal", "short")),
            "signal": rng.choice(SIGNALS),
            "errno": rng.choice((28, 5, 13, 122)),
            "calls": calls,
            "ready": by_signal,
            # Only a signal from outside may come while the page is drawn.
            "drawn": by_signal,
        }
        code = ran(plan, words, rng)
        found = {path.name: path.read_bytes() for path in out.iterdir()}
        told = f"seed {seed}: {kind} {plan}, exit code {code}"
        left = {name for name in found if name.endswith(".tmp")}
        # A fault may hit the removal itself, and then there is no removing it.
        assert not left or (not by_signal and "unlink" in calls), f"{told}: left {sorted(left)}"
        kept = {name: text for name, text in found.items() if name not in left}
        new = expected(kind, by_signal)
        if plan["kind"] == "error" and "replace" in calls:
            # A rename that fails leaves those before it in place.
            assert all(kept.get(name) in (before.get(name), new[name]) for name in new), told
        else:
            assert kept in (before, new), f"{told}: neither old nor new: {sorted(kept)}"
        assert code != 0 or kept == new, f"{told}: not everything is written"
        assert code in (0, 2, *(128 + one for one in SIGNALS), *(-one for one in SIGNALS)), told


def ran(plan: Mapping[str, object], words: list[str], rng: random.Random) -> int:
    """The exit code of the process; with a signal, if that is the plan."""
    with subprocess.Popen(
        [sys.executable, "-c", FAULTS, json.dumps(plan), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        if plan["ready"]:
            process.stdout.readline()
            time.sleep(rng.random() * rng.choice((0.02, 0.1, 0.5)))
            for number in rng.sample(SIGNALS, rng.choice((1, 1, 2))):
                process.send_signal(number)
        process.stdout.read()
    return process.returncode
