"""The limit on how many processes an attempt may have at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite_files import attempt, job_of
from twoarm.run import executors
from twoarm.run.supervisor.process_limit import cgroups


def limits_of(pid: str) -> list[Path]:
    return [path for folder in cgroups() for path in Path(folder).glob(f"twoarm-{pid}")]


def test_the_limit_of_an_attempt_is_taken_away_when_it_has_ended(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "echo $PPID"))
    assert ran.outcome.complete
    assert not limits_of(ran.kept("stdout.txt").strip())


def test_so_is_that_of_an_attempt_whose_supervisor_was_killed(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, f"echo $PPID > '{tmp_path}/pid'; kill -9 $PPID; sleep 600"))
    assert ran.outcome.died
    assert not limits_of((tmp_path / "pid").read_text().strip())


def test_the_number_of_processes_is_limited_where_that_can_be(tmp_path: Path) -> None:
    script = "cat /proc/self/cgroup; cat /sys/fs/cgroup/pids/$(grep pids /proc/self/cgroup | "
    script += (
        "cut -d: -f3)/pids.max /sys/fs/cgroup/$(grep ^0: /proc/self/cgroup | cut -d: -f3)/pids.max"
    )
    said = attempt(job_of(tmp_path, script)).kept("stdout.txt")
    can = any(os.access(folder, os.W_OK) for folder in cgroups() if "pids" in folder)
    assert ("8192" in said) is can or "twoarm-" in said


def test_the_limit_holds(tmp_path: Path) -> None:
    if not any(os.access(folder, os.W_OK) for folder in cgroups() if "pids" in folder):
        pytest.skip("no cgroup that this user may write")
    code = """
import os, sys, time
for name, path in (("twoarm", sys.argv[1]), ("twoarm.run", sys.argv[2])):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [path]
from twoarm.run.supervisor.process_limit import ProcessLimit
ProcessLimit().allow(20)
made = []
try:
    for _ in range(100):
        made.append(os.posix_spawn("/bin/sleep", ["sleep", "30"], {}))
except OSError as error:
    print(len(made) < 20, error.errno)
for pid in made:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
"""
    here = Path(executors.__file__).parent.parent
    argv = [sys.executable, "-I", "-S", "-c", code, str(here.parent), str(here)]
    told = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert told.stdout == "True 11\n"
