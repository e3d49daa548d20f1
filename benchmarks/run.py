"""What `twoarm run` promises in numbers; `make bench-run` measures them, in about five minutes.

python benchmarks/run.py [PART ...]: overhead sandbox agent container gone deadline kills orphans
budget drift size long regrade
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import median

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.bars import failed, folder, measured, told
from benchmarks.isolation import container, gone, real_agent, sandbox
from tests.conftest import REAL_PATH
from tests.support.loop_in_memory import Simulation, terms
from tests.support.random_kills import kill_often
from tests.support.suite_files import Local, Ran, job_of, processes_with, suite_of
from twoarm.run.attempted import Attempted
from twoarm.run.ledger import RunFolder
from twoarm.run.regrade import start_regrading
from twoarm.run.reopen import reopen
from twoarm.run.schedule import arrange, frozen_bytes
from twoarm.run.session import resume, start
from twoarm.run.setting import RunOptions, set_up
from twoarm.run.supervisor.program import COPY

# With the real bubblewrap, which most tests go without.
os.environ["PATH"] = REAL_PATH


def bare_starts(times: int) -> None:
    for _ in range(times):
        subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)


def overhead() -> None:
    """The whole loop with an agent that does nothing, in turns with the start of Python alone."""
    trials, bares = [], []
    for _ in range(7):
        with folder() as at:
            tasks = [{"id": f"t{i}", "prompt": "p", "acceptance_command": "true"} for i in range(5)]
            suite = str(suite_of(at, "", agent={"argv": ["true"]}, tasks=tasks))
            options = RunOptions(repeats=2, jobs=1)
            session = start(suite, str(at / "out"), options, set_up(suite, options, os.environ))
            prepared = session.prepare()
            bares.append(measured(lambda: bare_starts(20), 20))
            run = partial(session.run, prepared, lambda: "go", lambda _: None, lambda _: None)
            trials.append(measured(run, 20))
            session.close(finished=True)
    for kind, name in ((1, "wall"), (0, "processor")):
        one, bare = median(t[kind] for t in trials), median(b[kind] for b in bares)
        print(f"      {name} time of a no-op trial {one * 1000:.0f} ms, "
              f"of `python -S` {bare * 1000:.0f} ms: {one / bare:.1f} times")  # fmt: skip
    # The wall clock of a busy machine says more about the machine.
    ratio = median(t[0] for t in trials) / median(b[0] for b in bares)
    told("overhead per no-op trial, in processor time of starts of `python -S`", ratio, 6.0)


HANGS = {
    "obeys": "sleep 600",
    "ignores SIGTERM": "trap '' TERM; while :; do sleep 600; done",
    "has children elsewhere": "for i in 1 2 3 4 5; do setsid sleep 600 & done; sleep 600",
}


def deadline() -> None:
    grace = 0.5
    for name, script in HANGS.items():
        late = []
        for _ in range(5):
            with folder() as at:
                job = job_of(at, script, timeout_seconds=0.5, grace_seconds=grace)
                executor = Local(1)
                executor.submit("it", job, None, None)
                (outcome,) = executor.completed(60)
                ended = time.time()
                executor.close()
                ran = Ran(job, outcome)
                began = datetime.fromisoformat(ran.facts["started_at_utc"]).timestamp()
                late.append(ended - began - 0.5)
        told(f"deadline to nobody left, an agent that {name}", max(late), grace + 0.5, " s")


def kills() -> None:
    for seed in (1, 2, 3):
        with folder() as at:
            found = kill_often(at, seed=seed, tasks=10, repeats=5, kills=12)
        print(f"      seed {seed}: {found.trials} trials, {found.kills} kills, nobody left after "
              f"{max(found.latencies) * 1000:.0f} ms at most")  # fmt: skip
        told(f"seed {seed}: lost", found.lost, 0)
        told(f"seed {seed}: changed", len(found.changed), 0)
        told(f"seed {seed}: twice", len(found.twice), 0)
        told(f"seed {seed}: left alive", len(found.left_alive), 0)
        told(f"seed {seed}: too few kills", max(0, 10 - found.kills), 0)
        told(f"seed {seed}: nobody left after", max(found.latencies), 1.0, " s")


def orphans() -> None:
    """The real agents are in tests/agents/test_real.py; here the fake one."""
    cases = {
        "ok": "true",
        "a background child": "sleep 601 & true",
        "a child in a session of its own": "setsid sleep 601 & true",
        "a hang": "setsid sleep 601 & sleep 601",
    }
    for name, script in cases.items():
        with folder() as at:
            job = job_of(at, script, timeout_seconds=0.5, grace_seconds=0.2)
            executor = Local(1)
            executor.submit("it", job, None, None)
            list(executor.completed(60))
            executor.close()
            told(f"orphans of a fake agent, {name}", len(processes_with(job.marker)), 0)


def dear(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
    state = "infra" if rng.random() < 0.03 else "run"
    return state, min(rng.lognormvariate(-1.68, 0.9), 1.5), rng.lognormvariate(0, 0.5)


def budget() -> None:
    over = 0
    for seed in range(10_000):
        slots = (1, 4, 16)[seed % 3]
        over += Simulation(terms(), dear, seed=seed, slots=slots, tasks=10).cost > 10.0
    told("runs over a hard budget, of 10,000 simulated", over, 0)


def drifts(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    x = np.arange(size) / size
    step = np.where(x > rng.uniform(0.2, 0.8), 0.4, 0.0)
    slow = np.zeros(size)
    at = rng.integers(0, int(size * 0.8))
    slow[at : at + size // 5] = 0.5
    wander = np.empty(size)
    wander[0] = rng.normal() * 0.25
    for i in range(1, size):
        wander[i] = 0.95 * wander[i - 1] + rng.normal() * 0.25 * sqrt(1 - 0.95**2)
    return {
        "a trend of 30 %": 0.3 * x,
        "a step of 40 %": step,
        "a slow fifth": slow,
        "a walk": wander,
        "a cold first of each pair": np.where(np.arange(size) % 2 == 0, 0.2, 0.0),
    }


def drift() -> None:
    """No true effect; log durations; the order that schedules really have."""
    tasks, repeats, sets = 10, 5, 2000
    rng = np.random.default_rng(1)
    alarms: dict[str, int] = {}
    names = [f"t{i}" for i in range(tasks)]
    for seed in range(sets):
        blocks = arrange(names, ("a", "b"), repeats, seed)
        trials = [trial for block in blocks for trial in block]
        base = rng.normal(0, 0.8, tasks)
        for name, shift in drifts(rng, len(trials)).items():
            deltas = np.zeros((tasks, repeats))
            noise = rng.normal(0, 0.45, len(trials))
            for at, trial in enumerate(trials):
                task = int(trial.task[1:])
                value = base[task] + noise[at] + shift[at]
                deltas[task, trial.repeat - 1] += value if trial.arm == "a" else -value
            error = sqrt(deltas.var(axis=1, ddof=1).mean() / (tasks * repeats))
            p = 2 * stats.t.sf(abs(deltas.mean() / error), tasks * (repeats - 1))
            alarms[name] = alarms.get(name, 0) + int(p < 0.05)
    for name, count in alarms.items():
        told(f"false alarms at 5 % under {name}", 100 * count / sets, 6.5, " %")


def size() -> None:
    with folder() as at:
        tasks = [{"id": f"t{i}", "prompt": "p", "acceptance_command": "true"} for i in range(100)]
        suite = str(suite_of(at, "", agent={"argv": ["true"]}, tasks=tasks))
        options = RunOptions(repeats=5, jobs=1)
        began = time.perf_counter()
        setting = set_up(suite, options, os.environ)
        frozen_bytes(setting.frozen)
        told("1,000 trials scheduled", time.perf_counter() - began, 1.0, " s")
        session = start(suite, str(at / "out"), options, setting)
        prepared = session.prepare()
        fill(session.folder)
        session.close(finished=False)
        began = time.perf_counter()
        session = resume(reopen(str(at / "out"), None, RunOptions(), os.environ))
        assert session.prepare() == prepared
        assert session.run(prepared, lambda: "go", lambda _: None, lambda _: None) == "done"
        told("1,000 trials resumed", time.perf_counter() - began, 2.0, " s")
        session.close(finished=True)


def fill(made: RunFolder) -> None:
    """A run folder in which everything is done."""
    for trial in made.frozen().trials:
        attempted = Attempted(
            task=trial.task, repeat=trial.repeat, arm=trial.arm, attempt=1,
            jobs=1, state="run",
            reserved_usd=None, format="command", success=True,
        )  # fmt: skip
        made.begin(attempted)
        Path(made.folder_of(attempted), "run.json").write_bytes(b"{}")
        made.publish(attempted)


def long() -> None:
    """5,000 trials in one run: what the runner holds must not grow with them."""
    code = """
import os, sys
from twoarm.run.session import start
from twoarm.run.setting import RunOptions, set_up
suite, out = sys.argv[1:]
options = RunOptions(repeats=50, jobs=2)
session = start(suite, out, options, set_up(suite, options, os.environ))
prepared = session.prepare()
before = len(os.listdir("/proc/self/fd"))
assert session.run(prepared, lambda: "go", lambda _: None, lambda _: None) == "done"
print(len(os.listdir("/proc/self/fd")) - before, open("/proc/self/status").read())
session.close(finished=True)
"""
    with folder() as at:
        tasks = [{"id": f"t{i}", "prompt": "p", "acceptance_command": "true"} for i in range(50)]
        suite = str(suite_of(at, "", agent={"argv": ["true"]}, tasks=tasks))
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, suite, str(at / "out")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        print(f"      5,000 trials in {time.perf_counter() - began:.0f} s")
        peak = next(line for line in done.stdout.splitlines() if line.startswith("VmHWM"))
        told("memory of the runner", int(peak.split()[1]) / 1024, 100, " MB")
        told("descriptors that it keeps", int(done.stdout.split()[0]), 2)


def copied(tree: str, target: Path) -> None:
    """A copy as an attempt makes it, and its end."""
    subprocess.run([*COPY, tree, str(target)], check=True)
    shutil.rmtree(target)


def regrade() -> None:
    """Runs of an agent that changes a tenth of 300 files, graded again one after the other."""
    command = "sleep 0.5; test -f answer.txt"
    script = "for i in $(seq 30); do echo more >> src/$i.txt; done; touch answer.txt"
    with folder() as at:
        (at / "app" / "src").mkdir(parents=True)
        for i in range(300):
            (at / "app" / "src" / f"{i}.txt").write_text(f"{i}\n" * 100)
        tasks = [{"id": f"t{i}", "prompt": "p", "acceptance_command": command} for i in range(2)]
        suite = str(suite_of(at, script, tasks=tasks))
        options = RunOptions(repeats=2, jobs=2)
        session = start(suite, str(at / "out"), options, set_up(suite, options, os.environ))
        prepared = session.prepare()
        assert session.run(prepared, lambda: "go", lambda _: None, lambda _: None) == "done"
        path = prepared.trees["with"]["t0"].path
        tree = str(at / "tree")
        shutil.copytree(path, tree, symlinks=True)
        copies = [measured(partial(copied, tree, at / "copied"), 1)[1] for _ in range(5)]
        accept = partial(subprocess.run, ["sh", "-c", command], cwd=tree, check=False)
        graded = median(measured(accept, 1)[1] for _ in range(3))
        session.report(prepared, "done")
        session.close(finished=True)
        again = start_regrading(str(at / "out"), None, str(at / "new"), 1, os.environ)
        prepared = again.prepare()
        act = partial(again.run, prepared, lambda: "go", lambda _: None, lambda _: None)
        each = measured(act, 8)[1]
        copies += [measured(partial(copied, tree, at / "copied"), 1)[1] for _ in range(5)]
        again.close(finished=True)
    copy = median(copies)
    print(f"      acceptance {graded:.2f} s, a copy of 300 files {copy:.2f} s, "
          f"a run graded again {each:.2f} s")  # fmt: skip
    told("a run graded again, less a copy, in times of acceptance", (each - copy) / graded, 2.0)


PARTS: dict[str, Callable[[], None]] = {
    "overhead": overhead,
    "sandbox": sandbox,
    "agent": real_agent,
    "container": container,
    "gone": gone,
    "deadline": deadline,
    "orphans": orphans,
    "size": size,
    "budget": budget,
    "drift": drift,
    "kills": kills,
    "long": long,
    "regrade": regrade,
}


def main() -> int:
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
    if failed:
        print(f"{len(failed)} over their bars")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
