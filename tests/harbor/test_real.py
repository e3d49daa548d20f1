"""The real Harbor with real containers: two arms, and whoever is killed, nothing is left."""

import json
import math
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result
from tests.support.containers import IMAGE, Podman
from tests.support.harbor_suites import WORKED, harbor_suite, installed, task_folder
from tests.support.run_folders import QUICK, records, unaccounted
from tests.support.suite_files import present, processes_with, wait_for
from tests.support.yard import Yard, a_yard

HERE = Path(__file__).parent
WAITS = f"while [ ! -e /signs/gate ]; do sleep 0.05; done\n{WORKED}"
PATIENCE_SECONDS = 600.0
# What Harbor writes into the folder of a trial.
_TRIAL_FILE = "trial.log"


class Trials:
    """A user with a suite of Harbor's tasks, all of which wait at the gate if that is shut."""

    def __init__(self, yard: Yard, harbor: Path, podman: Podman) -> None:
        self.yard, self.podman = yard, podman
        # Without a network, where that can be had; what it executes has none either.
        apart = "unshare -n " if os.geteuid() == 0 else ""
        program = yard.bin / "harbor"
        program.write_text(f'#!/bin/sh\nexec {apart}{harbor} "$@"\n')
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
        base = {"agent": agent, "limits": {"timeout_seconds": 300}}
        return harbor_suite(self.yard.folder, **(base | changed))

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
        """Processes, containers and folders that would not be there without the run."""
        found = processes_with(str(self.yard.root)) + processes_with(str(self.podman.folder))
        folders = [str(path) for path in present(self.yard.cache, f"**/{_TRIAL_FILE}")]
        return found + folders + self.podman.containers()

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


def results(out: Path) -> list[dict[str, Any]]:
    """What Harbor wrote about each trial."""
    return [json.loads(path.read_text()) for path in out.glob("runs/*/*/result.json")]


def seconds(spans: list[dict[str, Any]]) -> list[float]:
    """How long each took, the shortest first."""
    ends = [[span[end] for end in ("started_at", "finished_at")] for span in spans]
    moments = [[datetime.fromisoformat(end) for end in both] for both in ends]
    return sorted((end - start).total_seconds() for start, end in moments)


@pytest.fixture
def harbor() -> Path:
    return installed()


@pytest.fixture
def trials(tmp_path: Path, harbor: Path, podman: Podman) -> Iterator[Trials]:
    with a_yard(tmp_path / "yard") as yard:
        yield Trials(yard, harbor, podman)


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
    # The time of the agent alone, not that of the trial with its container.
    worked = seconds([result["agent_execution"] for result in results(trials.yard.out)])
    assert sorted(r["duration_seconds"] for r in found) == pytest.approx(worked)
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


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_run_that_is_ended_leaves_nothing_and_is_resumed(trials: Trials, name: str) -> None:
    process = trials.waiting()
    number, journal = signal.Signals[name], trials.yard.out / "journal.jsonl"
    size = journal.stat().st_size
    process.send_signal(number)
    if number == signal.SIGINT:
        # The first one only lets no other trial begin, and has to be heard.
        wait_for(lambda: journal.stat().st_size > size, 30)
        process.send_signal(number)
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


def test_a_trial_at_its_limit_is_ended_as_a_user_would(trials: Trials) -> None:
    # On a busy machine a trial that does nothing may take longer than a limit that is written here.
    assert trials.ended(trials.start(trials.suite("one"), "--jobs", "1")).code == 0
    limit = max(15, math.ceil(5 * seconds(results(trials.yard.out))[-1]))
    shutil.rmtree(trials.yard.out)
    trials.yard.gate.unlink()
    suite = trials.suite(limits={"timeout_seconds": limit})
    result = trials.ended(trials.start(suite, "--jobs", "1"))
    assert result.code == 0, result.err
    (cut,) = [record for record in records(trials.yard.out) if record["arm"] == "oracle"]
    assert (cut["failure"], cut["success"]) == ("agent", False)
    assert cut["failure_reason"].startswith("hit the time limit of its runner")
    # Which Harbor itself wrote, after it had removed the container.
    (kept,) = trials.yard.out.glob("runs/oracle/*/result.json")
    assert json.loads(kept.read_text())["exception_info"]["exception_type"] == "CancelledError"
    assert trials.left() == []


def test_an_environment_that_is_not_there_is_nobodys_failure(trials: Trials) -> None:
    suite = trials.suite("one", arms={"oracle": {"args": ["--env", "nowhere:Nothing"]}})
    trials.ended(trials.start(suite, "--jobs", "1"))
    (record,) = [each for each in records(trials.yard.out) if each["arm"] == "oracle"]
    assert record["failure"] == "infra"
    assert "Failed to import module 'nowhere'" in record["failure_reason"]
    assert trials.left() == []
