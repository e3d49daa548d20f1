"""A runner and its supervisors killed together: nobody is left to clean up but the next runner."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import QUICK
from tests.support.suite_files import SOLVE, Local, job_of, processes_with, suite_of, wait_for
from twoarm.run.ledger import RunFolder


def test_an_agent_holds_no_lock_of_its_supervisor(tmp_path: Path) -> None:
    job = job_of(tmp_path, "ls /proc/self/fd")
    (tmp_path / ".attempts").mkdir()
    executor = Local(1, RunFolder(str(tmp_path)).share)
    executor.submit("it", job, None, None)
    (outcome,) = executor.completed(60)
    executor.close()
    assert outcome.complete
    assert Path(job.folder, "stdout.txt").read_text().split() == ["0", "1", "2", "3"]


def test_a_resume_ends_agents_whose_supervisor_was_killed_with_the_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("twoarm.render.report.Report.to_html", lambda self, links: "")
    monkeypatch.setattr("twoarm.run.ledger._WAIT_SECONDS", 1.0)
    gate, out = tmp_path / "gate", tmp_path / "out"
    suite = suite_of(tmp_path, f"[ -e {gate} ] || {{ setsid sleep 91 & sleep 92; }}; {SOLVE}")
    words = ("run", str(suite), "--out", str(out), "--repeats", "1", "--jobs", "1", *QUICK)
    with subprocess.Popen(
        [sys.executable, "-m", "twoarm", *words], stdout=subprocess.DEVNULL, start_new_session=True
    ) as runner:
        wait_for(lambda: len(orphans(tmp_path)) >= 2, 20)
        (supervisor,) = children(runner.pid)
        # Not the supervisor first: the runner would know what to do.
        os.kill(runner.pid, signal.SIGSTOP)
        os.kill(supervisor, signal.SIGKILL)
        os.kill(runner.pid, signal.SIGKILL)
    try:
        assert len(orphans(tmp_path)) >= 2
        gate.touch()
        result = twoarm("run", "--resume", str(out), *QUICK)
        assert result.code == 0, result.err
        assert len(list(out.glob("runs/*/*"))) == 4
        assert orphans(tmp_path) == []
    finally:
        for pid in orphans(tmp_path):
            os.kill(pid, signal.SIGKILL)


def orphans(root: Path) -> list[int]:
    """The agent's own processes, whoever their parent is."""
    found = processes_with(str(root / "cache"))
    return [int(name.split(":")[0]) for name in found if "sleep" in name]


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
