"""The real Harbor with real containers: two arms, and whoever is killed, nothing is left."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result
from tests.support.containers import IMAGE, Podman
from tests.support.harbor_suites import WORKED, harbor_suite, task_folder
from tests.support.run_folders import QUICK, records, unaccounted
from tests.support.suite_files import processes_with, wait_for
from tests.support.yard import Yard, a_yard

HERE = Path(__file__).parent
WAITS = f"while [ ! -e /signs/gate ]; do sleep 0.05; done\n{WORKED}"
PATIENCE_SECONDS = 120.0


def installed() -> Path:
    """The program, or a skip."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("TWOARM_HARBOR") or cache / "twoarm-harbor")
    if not (folder / "installed").exists():
        lacking = f"no Harbor in {folder}; to test with the real one, `make harbor`"
        if os.environ.get("CI"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    return folder / "bin" / "harbor"


class Trials:
    """A user with a suite of Harbor's tasks, all of which wait at the gate if that is shut."""

    def __init__(self, yard: Yard, podman: Podman) -> None:
        self.yard, self.podman = yard, podman
        # Without a network, where that can be had; what it executes has none either.
        apart = "unshare -n " if os.geteuid() == 0 else ""
        program = yard.bin / "harbor"
        program.write_text(f'#!/bin/sh\nexec {apart}{installed()} "$@"\n')
        program.chmod(0o755)

    def suite(self, *tasks: str, **changed: Any) -> Path:
        for name in tasks:
            task_folder(self.yard.folder / "tasks", name, WAITS, IMAGE)
        env = {
            **self.podman.env,
            "PYTHONPATH": str(HERE / "environment"),
            "CELL_SIGNS": str(self.yard.signs),
        }
        agent = {"args": ["--env", "podman_cell:PodmanCell"], "env": env}
        limits = {"timeout_seconds": 60}
        return harbor_suite(self.yard.folder, agent=agent, limits=limits, **changed)

    def start(self, suite: Path, *more: str) -> "subprocess.Popen[str]":
        words = ("--repeats", "1", *QUICK, *more)
        return self.yard.start("run", suite, "--out", self.yard.out, *words)

    def ended(self, process: "subprocess.Popen[str]") -> Result:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return Result(process.returncode, out, err)

    def waiting(self) -> "subprocess.Popen[str]":
        """A run of one task whose oracle waits in its container."""
        self.yard.gate.unlink()
        process = self.start(self.suite("one"), "--jobs", "1")
        wait_for(lambda: self.solving() or process.poll() is not None, 60)
        if process.poll() is not None:
            # The arm that does nothing came first, and has ended.
            raise AssertionError(self.ended(process).err)
        return process

    def solving(self) -> list[str]:
        return [line for line in self.podman.inside() if "solve.sh" in line]

    def pid(self, found: Callable[[str], bool]) -> int:
        (line,) = [line for line in processes_with(str(self.yard.cache)) if found(line)]
        return int(line.partition(":")[0])

    def harbor(self) -> int:
        return self.pid(lambda line: "bin/harbor\0trial\0start" in line)

    def supervisor(self) -> int:
        return self.pid(lambda line: "supervisor.main" in line)

    def left(self) -> list[str]:
        found = processes_with(str(self.yard.root)) + processes_with(str(self.podman.folder))
        return found + self.podman.containers()

    def resumed(self) -> None:
        """The run goes on and ends with every trial done once."""
        self.yard.gate.touch()
        words = ("run", "--resume", self.yard.out, *QUICK)
        result = self.ended(self.yard.start(*words))
        assert result.code == 0, result.err
        assert unaccounted(self.yard.out) == []
        done = [record for record in records(self.yard.out) if record["failure"] is None]
        assert [(record["arm"], record["success"]) for record in done] == [
            ("nop", False),
            ("oracle", True),
        ]
        assert self.left() == []


@pytest.fixture
def trials(tmp_path: Path, podman: Podman) -> Iterator[Trials]:
    with a_yard(tmp_path / "yard") as yard:
        yield Trials(yard, podman)


def test_the_oracle_against_nop_over_three_tasks(trials: Trials) -> None:
    suite = trials.suite("one", "two", "three")
    result = trials.ended(trials.start(suite, "--jobs", "2"))
    assert result.code == 0, result.err
    found = records(trials.yard.out)
    told = {(r["task_id"], r["arm"]): (r["success"], r["score"], r["failure"]) for r in found}
    assert told == {
        (task, arm): (arm == "oracle", float(arm == "oracle"), None)
        for task in ("one", "two", "three")
        for arm in ("oracle", "nop")
    }
    # The time of the agent alone: the trial of one that does nothing takes seconds as well.
    assert all(0 <= r["duration_seconds"] < 0.5 for r in found if r["arm"] == "nop")
    assert {r["agent"] for r in found} == {"oracle", "nop"}
    analysis = json.loads((trials.yard.out / "analysis.json").read_text())
    rates = {arm["arm"]: arm["success_rate"] for arm in analysis["arm_summaries"]}
    assert rates == {"oracle": 1.0, "nop": 0.0}
    assert trials.left() == []


def test_a_runner_that_is_killed_leaves_nothing_and_is_resumed(trials: Trials) -> None:
    process = trials.waiting()
    process.send_signal(signal.SIGKILL)
    trials.ended(process)
    wait_for(lambda: not trials.left(), 30)
    trials.resumed()


def test_sigterm_ends_a_trial_and_removes_its_container(trials: Trials) -> None:
    process = trials.waiting()
    process.send_signal(signal.SIGTERM)
    result = trials.ended(process)
    assert result.code == 130, result.err
    assert trials.left() == []
    trials.resumed()


def test_stop_lets_the_trial_finish(trials: Trials) -> None:
    process = trials.waiting()
    assert trials.yard.twoarm("run", "--stop", trials.yard.out).code == 0
    trials.yard.gate.touch()
    result = trials.ended(process)
    # It may have been the last trial.
    assert result.code in (0, 3), result.err
    assert trials.left() == []
    trials.resumed()


def test_when_everybody_is_killed_at_once_a_resume_removes_the_container(trials: Trials) -> None:
    process = trials.waiting()
    others = (trials.supervisor(), trials.harbor())
    for pid in (process.pid, *others):
        os.kill(pid, signal.SIGSTOP)
    for pid in (*others, process.pid):
        os.kill(pid, signal.SIGKILL)
    trials.ended(process)
    assert len(trials.podman.containers()) == 1
    trials.resumed()


def test_a_harbor_that_is_killed_has_its_container_removed_by_name(trials: Trials) -> None:
    process = trials.waiting()
    os.kill(trials.harbor(), signal.SIGKILL)
    trials.yard.gate.touch()
    result = trials.ended(process)
    assert result.code == 0, result.err
    (failed,) = [record for record in records(trials.yard.out) if record["arm"] == "oracle"]
    assert failed["failure"] == "agent"
    assert "no result.json; the trial did not finish" in failed["failure_reason"]
    assert trials.left() == []


def test_a_supervisor_that_is_killed_leaves_no_container(trials: Trials) -> None:
    process = trials.waiting()
    os.kill(trials.supervisor(), signal.SIGKILL)
    trials.yard.gate.touch()
    result = trials.ended(process)
    assert result.code == 0, result.err
    assert trials.left() == []


def test_an_environment_that_is_not_there_is_nobodys_failure(trials: Trials) -> None:
    suite = trials.suite("one", arms={"oracle": {"args": ["--env", "nowhere:Nothing"]}})
    trials.ended(trials.start(suite, "--jobs", "1"))
    (record,) = [each for each in records(trials.yard.out) if each["arm"] == "oracle"]
    assert record["failure"] == "infra"
    assert "Failed to import module 'nowhere'" in record["failure_reason"]
    assert trials.left() == []
