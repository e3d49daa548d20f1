"""What isolation costs a trial, and how soon a container is gone if someone around it is killed."""

import os
import signal
import time
from functools import partial
from statistics import median
from typing import Any

from benchmarks.bars import folder, measured, told
from tests.support.container_kills import Kills
from tests.support.containers import IMAGE, Podman, a_store
from tests.support.real_agents import KEY, installed, pointed
from tests.support.run_folders import QUICK
from tests.support.scripted_model import scripted_model
from tests.support.suite_files import suite_of, wait_for
from tests.support.yard import a_yard
from twoarm.run.isolation import Isolation
from twoarm.run.session import start
from twoarm.run.setting import RunOptions, set_up

# What an agent does: nothing, or little enough to take less time than any real one.
NO_OP, WORKS = "true", "for i in $(seq {}); do /bin/true; done"


def trials_in(how: Isolation, agent: dict[str, Any], tasks: int = 5) -> tuple[float, float]:
    """Processor and wall seconds of a trial of such an agent, in some isolation.

    What is worked out once for a run is shared by all of its trials, of which there are two a task.
    """
    place = {"image": IMAGE} if how == "podman" else {}
    prompt = "p scenario=ok"
    prompts = [
        {"id": f"t{i}", "prompt": prompt, "acceptance_command": "true"} for i in range(tasks)
    ]
    network = {"network": "none"} if how == "podman" else {}
    options = RunOptions(repeats=1, jobs=1, isolation=how)
    with folder() as at:
        suite = str(suite_of(at, "", agent=agent | network, tasks=prompts, workspace=place))
        session = start(suite, str(at / "out"), options, set_up(suite, options, os.environ))
        prepared = session.prepare()
        run = partial(session.run, prepared, lambda: "go", lambda _: None, lambda _: None)
        each = measured(run, 2 * tasks)
        session.close(finished=True)
    return each


def sandbox() -> None:
    """The same trials in the open and in a sandbox, in turns."""
    for programs, tasks in ((0, 50), (80, 25), (300, 5)):
        script = WORKS.format(programs) if programs else NO_OP
        agent = {"argv": ["sh", "-c", script]}
        # Those of nothing are as many as a small run has.
        rounds = [
            (trials_in("copy", agent, tasks), trials_in("bwrap", agent, tasks)) for _ in range(7)
        ]
        copy, bwrap = (median(each[at][1] for each in rounds) for at in (0, 1))
        what = f"{programs} programs one after another" if programs else "nothing"
        print(f"      a trial of {what}, wall time: {copy:.3f} s copy, {bwrap:.3f} s bwrap")
        # The wall clock of a busy machine says more about the machine.
        ratio = median(bwrap[0] / copy[0] for copy, bwrap in rounds)
        if programs:
            told("the same in a sandbox, in processor time in the open", ratio, 1.3)
        else:
            print(f"      in a sandbox {ratio:.2f} times the processor time in the open")
            more = median(bwrap[0] - copy[0] for copy, bwrap in rounds)
            told("a sandbox more, in processor time", more / 2 * 1000, 8, " ms")


def container() -> None:
    """The same trials in the open and in containers, in turns."""
    agent = {"argv": ["sh", "-c", NO_OP]}
    # What users have, where their file system can.
    with a_store("overlay") as store:
        os.environ.update(store.env)
        rounds = [(trials_in("copy", agent), trials_in("podman", agent)) for _ in range(7)]
    copy, podman = (median(each[at][1] for each in rounds) for at in (0, 1))
    print(f"      a trial of nothing, wall time: {copy:.3f} s copy, {podman:.3f} s podman")
    # It is made by others, whose processor time nobody here waits for.
    more = median(podman[1] - copy[1] for copy, podman in rounds)
    told("a container more", more / 2 * 1000, 300, " ms")


def real_agent() -> None:
    """Claude Code in the open and in a sandbox, with a model on loopback that answers at once."""
    os.environ["PATH"] = os.pathsep.join((str(installed()), os.environ["PATH"]))
    with scripted_model() as model:
        pointed_at = pointed("claude-code", model.url)
        os.environ.update(dict.fromkeys(pointed_at.table["secrets"], KEY))
        table = {**pointed_at.table, "program": "claude-code", "argv": None}
        rounds = [(trials_in("copy", table), trials_in("bwrap", table)) for _ in range(5)]
        # Three turns in each of ten trials: an agent that gave up would be fast as well.
        assert len(model.requests) == len(rounds) * 2 * 10 * 3
    copy, bwrap = (median(each[at][1] for each in rounds) for at in (0, 1))
    print(f"      a trial of Claude Code, wall time: {copy:.3f} s copy, {bwrap:.3f} s bwrap")
    ratio = median(bwrap[1] / copy[1] for copy, bwrap in rounds)
    told("Claude Code in a sandbox, in wall time in the open", ratio, 1.3)


def until_gone(who: str, store: Podman) -> float:
    """Seconds until nothing is left of a container, after somebody around it was killed."""
    with folder() as at, a_yard(at / "yard") as yard:
        kills = Kills(yard, store)
        process = kills.start()
        first = set(store.containers())
        pids = {"client": kills.client(), "supervisor": kills.supervisor(), "runner": process.pid}
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in [pids[who]] if who in pids else pids.values():
                os.kill(pid, number)
        began = time.perf_counter()
        if who not in pids:
            process.communicate()
            process = yard.start("run", "--resume", yard.out, *QUICK)
        # One that was killed together with its supervisor has a successor.
        wait_for(lambda: not first & set(store.containers()), 60)
        seconds = time.perf_counter() - began
        yard.gate.touch()
        process.communicate()
        if process.returncode:
            kills.resumed()
        return seconds


def gone() -> None:
    """The runner of a container, the client of its engine, its supervisor or all three are killed.

    Nobody sees to a container whose whole company is gone, until the run is resumed.
    """
    with a_store("overlay") as store:
        os.environ.update(store.env)
        for who in ("runner", "client", "supervisor", "everybody"):
            late = max(until_gone(who, store) for _ in range(3))
            told(f"killed: {who}; until the container is gone", late, 3.0, " s")
