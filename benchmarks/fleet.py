"""What `twoarm run --executor ray` promises in numbers; `make bench-fleet` measures them.

python -m benchmarks.fleet [PART ...]: overhead slots gone memory

On a head and nodes in namespaces of their own; the last part takes about ten minutes.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.bars import failed, told
from tests.support.clusters import HEAD, TestCluster, a_cluster
from tests.support.suite_files import suite_of, wait_for

ON = ("--executor", f"ray:{HEAD}")
QUIET = ("--yes", "--display", "quiet", "--no-evidence", "--run-pages", "none")
NAP = ("sleep", "30.0321")


@contextmanager
def cluster_of(*cpus: int) -> Iterator[TestCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="twoarm-bench-") as folder,
        a_cluster(Path(folder)) as made,
    ):
        for number, slots in enumerate(cpus, 1):
            made.add(f"n{number}", cpus=slots)
        yield made


def tasks(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"t{number}", "prompt": "Do it.", "acceptance_command": "true"}
        for number in range(count)
    ]


class Run:
    """A run to its end: when it began, and what its journal tells."""

    def __init__(self, cluster: TestCluster, suite: Path, *words: str) -> None:
        out = suite.parent / f"out-{time.monotonic_ns()}"
        begun = time.time()
        done = cluster.run("run", str(suite), "--out", str(out), *QUIET, *words)
        self.seconds = time.time() - begun
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in (out / "journal.jsonl").read_bytes().splitlines()]
        times = [event["at"] for event in events if event["event"] == "ended attempt"]
        self.trials = len(times)
        # Until the first trial starts; and what each takes once every slot has had one.
        self.start = next(e["at"] for e in events if e["event"] == "started") - begun
        first = times[self.trials // 5]
        self.each = (times[-1] - first) / (self.trials - self.trials // 5 - 1)


def overhead() -> None:
    with cluster_of(1, 1) as cluster:
        suite = suite_of(cluster.folder / "s", "true", tasks=tasks(10))
        words = ("--repeats", "5")
        far = [Run(cluster, suite, *words, *ON) for _ in range(3)]
        here = [Run(cluster, suite, *words, "--jobs", "2") for _ in range(3)]
    each = [min(run.each for run in runs) * 1e3 for runs in (far, here)]
    print(f"      a no-op trial on 2 slots: {each[0]:.1f} ms with Ray, {each[1]:.1f} ms here")
    print(f"      start of a run: {min(run.start for run in far):.1f} s with Ray")
    told("a no-op trial with Ray, of one here", each[0] / each[1], 2.0, "x")


def slots() -> None:
    with cluster_of(1, 2) as cluster:
        suite = suite_of(cluster.folder / "s", "sleep 2", tasks=tasks(10))
        run = Run(cluster, suite, "--repeats", "3", *ON)
    most = 1.2 * (run.trials * 2 / 3) + 2 + run.start
    print(f"      {run.trials} trials of 2 s on 3 slots, {run.start:.1f} s of it the start")
    told("all of it", run.seconds, most, " s")


def until_gone(how: str) -> float:
    """From a kill to the last agent that it concerns."""
    with cluster_of(2, 2) as cluster:
        suite = suite_of(cluster.folder / "s", " ".join(NAP), tasks=tasks(4))
        out = cluster.folder / "out"
        words = ("run", str(suite), "--out", str(out), *QUIET, *ON, "--repeats", "1")
        runner = cluster.start(*words)
        wait_for(lambda: len(cluster.processes(*NAP)) == 4, 120)
        time.sleep(1)
        there = cluster.namespace("n2")
        agents = [
            each
            for each in cluster.processes(*NAP)
            if how == "runner" or os.readlink(f"/proc/{each}/ns/mnt") == there
        ]
        owner = cluster.runner_of(out)
        begun = time.monotonic()
        if how == "runner":
            os.kill(owner, signal.SIGKILL)
        elif how == "raylet":
            cluster.kill_raylet("n2")
        else:
            cluster.kill("n2")
        wait_for(lambda: not any(os.path.exists(f"/proc/{each}") for each in agents), 60)
        seconds = time.monotonic() - begun
        runner.kill()
        runner.communicate()
    return seconds


def gone() -> None:
    told("a node is killed: its agents are gone after", until_gone("node"), 5.0, " s")
    told("its raylet is killed: its agents are gone after", until_gone("raylet"), 5.0, " s")
    told("the runner is killed: all agents are gone after", until_gone("runner"), 1.0, " s")


def memory() -> None:
    with cluster_of(1, 1) as cluster:
        suite = suite_of(cluster.folder / "s", "true", tasks=tasks(50))
        out = cluster.folder / "out"
        words = ("run", str(suite), "--out", str(out), *QUIET, *ON, "--repeats", "50")
        runner = cluster.start(*words)
        wait_for(lambda: (out / "lock").exists(), 60)
        most = 0
        while runner.poll() is None:
            try:
                status = Path(f"/proc/{cluster.runner_of(out)}/status").read_text()
                most = int(status.partition("VmHWM:")[2].split()[0])
            except (AssertionError, OSError, IndexError):
                # It has just ended.
                pass
            time.sleep(0.5)
        assert runner.returncode == 0
        done = sum(1 for _ in (out / "runs").glob("*/*"))
    told(f"memory of the runner, {done:,} trials", most / 1024, 500.0, " MB")


PARTS: dict[str, Callable[[], None]] = {
    "overhead": overhead,
    "slots": slots,
    "gone": gone,
    "memory": memory,
}


def main() -> int:
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
