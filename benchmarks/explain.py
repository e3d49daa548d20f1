"""What docs/explain.md promises in numbers.

    python benchmarks/explain.py pages [TASKS] [REPEATS]
    python benchmarks/explain.py tools
    python benchmarks/explain.py huge [GIGABYTES]

pages: how long the page with links to every run takes to open, and how large the run pages are.
Makes run folders of Claude Code (60 tasks x 10 repeats x 2 arms unless told), collects and scores
them with `--run-pages all`, and opens the report in Chromium, with links and without, in turns.

tools: how often the intervals of 20 tools all hold zero where the arms do not differ.

huge: the most memory that each command takes for runs with so much output (2 GB unless told):
results of 100 kB, a log and a diff without an end, and bytes that are no text.

benchmarks/collect.py has the time of collecting, benchmarks/samples.py the counts of calls.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from twoarm.evidence.relabel import simultaneous

ROUNDS = 3
ARMS = ("with_x", "without_x")


def make(root: Path, tasks: int, repeats: int) -> None:
    """Runs of 40 calls, each with a command and half a kilobyte of output."""
    for number in range(tasks * repeats * 2):
        arm, rest = ARMS[number % 2], number // 2
        place = root / "runs" / arm / f"{rest:05d}"
        place.mkdir(parents=True)
        lines = [{"type": "system", "subtype": "init", "session_id": f"s{number}", "model": "m"}]
        for step in range(40):
            block = {"type": "tool_use", "id": f"c{step}", "name": ("Bash", "Read")[step % 2]}
            block["input"] = {"command": f"grep -rn 'word {step}' src | head"}  # type: ignore[assignment]
            usage = {"input_tokens": 900 + (number * 37 + step) % 200, "output_tokens": 40}
            message = {"id": f"m{step}", "content": [block], "usage": usage}
            lines.append({"type": "assistant", "message": message})  # type: ignore[dict-item]
            result = {"type": "tool_result", "tool_use_id": f"c{step}", "content": "a line\n" * 70}
            lines.append({"type": "user", "message": {"content": [result]}})  # type: ignore[dict-item]
        usage = {"input_tokens": 36_000 + number * 7 % 5_000, "output_tokens": 1_600}
        done = {"type": "result", "subtype": "success", "result": "done", "usage": usage}
        lines.append({**done, "duration_ms": 60_000 + number * 977 % 40_000})  # type: ignore[dict-item]
        (place / "stream.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        sidecar = {
            "task_id": f"task-{rest % tasks:02d}",
            "repeat": rest // tasks + 1,
            "acceptance_exit_code": int(number % 7 == 0),
            "started_at_utc": f"2026-11-15T{rest % 24:02d}:{rest % 60:02d}:00Z",
            "ended_at_utc": f"2026-11-15T{rest % 24:02d}:{rest % 60:02d}:59Z",
        }
        (place / "run.json").write_text(json.dumps(sidecar))
        (place / "acceptance.log").write_text("ok\n" * 200)
        (place / "diff.patch").write_text("+a line that was added\n" * 200)


def twoarm(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "twoarm", *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def together(tools: int = 20, repeats: int = 5, datasets: int = 400) -> None:
    """Calls are counts around rates that vary from tool to tool and from task to task."""
    random = np.random.default_rng(1)
    for tasks in (6, 12, 30):
        held = 0
        for number in range(datasets):
            rates = random.gamma(1.5, 2.0, size=(tools, 1)) * random.lognormal(0, 0.6, (1, tasks))
            ours, theirs = (
                random.poisson(rates[:, :, None], (tools, tasks, repeats)).mean(axis=2)
                for _ in range(2)
            )
            found = simultaneous(ours - theirs, 0.95, number)
            held += all(one is None or one[0] <= 0 <= one[1] for one in found)
        print(f"{tasks} tasks: all {tools} intervals hold zero in {held / datasets:.1%}")


def pages(tasks: int = 60, repeats: int = 10) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make(root, tasks, repeats)
        collected = str(root / "collected.jsonl")
        arms = [f"--arm={arm}={root / 'runs' / arm}" for arm in ARMS]
        twoarm("collect", "claude-code", *arms, "-o", collected)
        took = {}
        for which in ("none", "all"):
            took[which] = twoarm(
                "score", collected, "--out", str(root / which), "--run-pages", which
            )
        found = [path.stat().st_size for path in (root / "all" / "run-pages").glob("task*")]
        print(f"{len(found):,} pages of {2 * len(found):,} runs")
        print(f"  the largest {max(found) / 1000:.0f} kB, all {sum(found) / 1e6:.0f} MB")
        print(f"  score --run-pages none {took['none']:.1f} s, --run-pages all {took['all']:.1f} s")
        for which in took:
            size = (root / which / "report.html").stat().st_size / 1000
            print(f"  report.html, --run-pages {which}: {size:.0f} kB")
        opened: dict[str, list[float]] = {"none": [], "all": []}
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for _ in range(ROUNDS):
                for which, times in opened.items():
                    page = browser.new_page()
                    page.goto((root / which / "report.html").as_uri())
                    page.wait_for_selector("body[data-ready]", timeout=120_000)
                    ready = page.evaluate("Number(document.body.dataset.ready)")
                    times.append(float(ready) / 1000)
                    page.close()
            browser.close()
        for which, times in opened.items():
            print(f"  opened and drawn, --run-pages {which}: {min(times):.2f} s at best")


# Prints the most memory that the command took, in MiB, after all that it says. What getrusage says
# would include the memory of the process that started it.
MEMORY = """
import sys
from twoarm.commands.cli import main
code = main(sys.argv[1:])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
sys.stderr.write(f"\\n{int(status['VmHWM'].split()[0]) // 1024}")
sys.exit(code)
"""


def measured(*arguments: str) -> tuple[int, str]:
    """The MiB of a command, and the last line that it said."""
    command = [sys.executable, "-c", MEMORY, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *said, memory = [line for line in done.stderr.split("\n") if line]
    return int(memory), f"exit code {done.returncode}: {said[-1] if said else 'nothing said'}"


def huge(gigabytes: int = 2) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make(root, 1, 1)
        collected = str(root / "collected.jsonl")
        arms = [f"--arm={arm}={root / 'runs' / arm}" for arm in ARMS]
        collect = ("collect", "claude-code", *arms, "-o", collected)
        score = ("score", collected, "--out", str(root / "out"), "--run-pages", "all")
        ways = {"collect": collect, "score": score, "show": ("show", str(root), "task-00", "1")}
        small = {name: measured(*way)[0] for name, way in ways.items()}
        for arm in ARMS:
            _swell(root / "runs" / arm / "00000", gigabytes)
        for name in ("score", "show", "collect"):
            memory, said = measured(*ways[name])
            grown = f"{small[name]} MiB for small runs, {memory} MiB for {gigabytes} GB"
            print(f"{name}: {grown}; {said}")
        (page,) = (root / "out" / "run-pages").glob("task*.html")
        print(f"the page of both runs: {page.stat().st_size / 1000:.0f} kB")


def _swell(place: Path, gigabytes: int) -> None:
    """The events of a run again and again, with long results, and logs without an end."""
    first, *middle, last = (place / "stream.jsonl").read_text().splitlines()
    text = "\n".join(middle).replace("a line\\n" * 70, "x" * 100_000) + "\n"
    with (place / "stream.jsonl").open("w") as stream:
        stream.write(first + "\n")
        for _ in range(gigabytes * 10**9 // len(text)):
            stream.write(text)
        stream.write(last + "\n")
    for name in ("acceptance.log", "diff.patch"):
        with (place / name).open("ab") as log:
            log.truncate(gigabytes * 10**9)
    (place / "stderr.log").write_bytes(bytes(range(256)) * 4 * 10**5)


if __name__ == "__main__":
    part, *sizes = sys.argv[1:] or ["pages"]
    parts: dict[str, Callable[..., None]] = {"pages": pages, "tools": together, "huge": huge}
    parts[part](*map(int, sizes))
