"""The head of a cluster is killed while trials run: the run stops in its own words, and goes on."""

from pathlib import Path

import pytest

from tests.fleet.test_lost import TASKS, done_once
from tests.fleet.test_runs import ON
from tests.support.clusters import HEAD, a_cluster
from tests.support.suite_files import suite_of, wait_for

# A length of time that nobody else sleeps for.
NAP = ("sleep", "98.0321")
WHY = {
    "kill": "Ray has ended on this machine (node head)",
    "kill_gcs": f"the head of the cluster ({HEAD}) has not answered for 30 s",
}


@pytest.mark.parametrize("how", WHY)
def test_a_head_is_killed(tmp_path: Path, how: str) -> None:
    """Ray would end the runner, after a minute, with nothing that says what to do."""
    out, gone = tmp_path / "out", tmp_path / "gone"
    (tmp_path / "cluster").mkdir()
    script = f"test -e {gone} || {' '.join(NAP)}; echo x > answer.txt"
    suite = suite_of(tmp_path / "s", script, tasks=TASKS, limits={"timeout_seconds": 100})
    with a_cluster(tmp_path / "cluster") as cluster:
        cluster.add("n1", "n2", cpus=2)
        words = ("run", str(suite), *ON, "--repeats", "1", "--out", str(out))
        runner = cluster.start(*words)
        wait_for(lambda: len(cluster.processes(*NAP)) == 4, 60)
        getattr(cluster, how)("head")
        _, told = runner.communicate(timeout=120)
        assert runner.returncode == 2, told
        assert told.splitlines()[-2:] == [
            f"twoarm: {WHY[how]}, and 4 attempts were cut short; start the cluster again, or go on "
            "here with --executor local",
            f"twoarm: nothing is lost; continue with twoarm run --resume {out} --no-evidence",
        ]
        wait_for(lambda: not cluster.processes(*NAP), 30)
        gone.touch()
        last = ("--executor", "local", "--no-evidence", "--display", "lines")
        again = cluster.run("run", "--resume", str(out), *last)
    assert "8 of 8 trials done" in again.stderr
    assert {each["state"] for each in done_once(out)} == {"lost"}
