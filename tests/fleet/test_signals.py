"""Signals end a run on a cluster as they end one on this machine."""

import os
import signal
from pathlib import Path

from tests.fleet.test_runs import ON, lines_of
from tests.support.clusters import TestCluster
from tests.support.suite_files import suite_of, wait_for

# A length of time that nobody else sleeps for.
NAP = ("sleep", "97.0321")
# Acceptance is tried on the untouched workspace, here, once all nodes have been looked at.
TASKS = [{"id": "one", "prompt": "Do it.", "acceptance_command": f"exec {' '.join(NAP)}"}]
FOUR = [
    {"id": name, "prompt": "Do it.", "acceptance_command": "test -f answer.txt"} for name in "abcd"
]


def test_a_run_is_told_to_end_before_its_first_trial(cluster: TestCluster, out: Path) -> None:
    """What Ray does about SIGTERM would be an error that nobody has foreseen."""
    suite = suite_of(out.parent / "s", tasks=TASKS)
    runner = cluster.start("run", str(suite), *ON, "--out", str(out))
    wait_for(lambda: cluster.processes(*NAP), 60)
    os.kill(cluster.runner_of(out), signal.SIGTERM)
    _, told = runner.communicate(timeout=60)
    assert runner.returncode == 128 + signal.SIGTERM, told
    assert "bug" not in told
    assert not cluster.processes(*NAP)
    for name in ("n1", "n2"):
        assert list(cluster.cache_of(name).iterdir()) == []


def test_what_looks_after_agents_is_stopped_and_the_run_goes_on(
    cluster: TestCluster, out: Path
) -> None:
    """An agent that is in no sandbox could do that to its node."""
    nap = ("sleep", "3.0321")
    script = f"{' '.join(nap)}; echo x > answer.txt"
    suite = suite_of(out.parent / "s", script, tasks=FOUR)
    runner = cluster.start("run", str(suite), *ON, "--repeats", "1", "--out", str(out))
    wait_for(lambda: len(cluster.processes(*nap)) == 4, 60)
    keepers = cluster.keepers()
    assert len(keepers) == 4
    for keeper in keepers:
        os.kill(keeper, signal.SIGSTOP)
    _, told = runner.communicate(timeout=120)
    assert "8 of 8 trials done" in told
    assert sum(line["success"] for line in lines_of(out)) == 8
    wait_for(lambda: not cluster.keepers())
