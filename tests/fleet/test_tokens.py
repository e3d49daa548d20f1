"""A machine whose token is not that of the cluster is told so, whichever of them has one."""

import os
import signal
from pathlib import Path

from tests.fleet.test_runs import ON
from tests.support.clusters import HEAD, TestCluster, a_cluster
from tests.support.suite_files import suite_of

TOKEN = "0123456789abcdef0123456789abcdef"
SAME = "check the token: RAY_AUTH_MODE and ~/.ray/auth_token have to be the same on all machines"


def test_a_token_that_the_cluster_does_not_ask_for(cluster: TestCluster, out: Path) -> None:
    """Orders would go there, and nothing would come back."""
    suite = str(suite_of(out.parent / "s"))
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    done = cluster.run("run", suite, *ON, "--out", str(out), **token)
    assert done.returncode == 2
    told = [line for line in done.stderr.splitlines() if "node " in line]
    assert [line.removeprefix("twoarm: ") for line in told] == [
        f"node {name}: what is sent between it and this machine does not arrive; open "
        f"their ports to each other, and {SAME}"
        for name in ("n1", "n2")
    ]
    for name in ("n1", "n2"):
        assert list(cluster.cache_of(name).iterdir()) == []


def test_a_token_that_the_cluster_asks_for(tmp_path: Path) -> None:
    suite = str(suite_of(tmp_path / "s"))
    (tmp_path / "cluster").mkdir()
    right = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    line = f"--executor ray:{HEAD}: no head there that lets this machine join; {SAME}"
    with a_cluster(tmp_path / "cluster", **right) as guarded:
        guarded.add("n1")
        for env in ({"RAY_AUTH_TOKEN": TOKEN[::-1]}, {"RAY_AUTH_MODE": "disabled"}):
            done = guarded.run("run", suite, *ON[:2], "--dry-run", **env)
            assert done.returncode == 2
            assert done.stderr.splitlines()[-1] == f"twoarm: {line}"
        # It is still being asked again when it is told to end.
        out = tmp_path / "waiting"
        waiting = guarded.start("run", suite, *ON, "--out", str(out), RAY_AUTH_MODE="disabled")
        assert waiting.stderr is not None
        assert any("InvalidAuthToken" in line for line in waiting.stderr)
        os.kill(guarded.runner_of(out), signal.SIGTERM)
        _, told = waiting.communicate(timeout=60)
        assert waiting.returncode == 128 + signal.SIGTERM, told
        out = tmp_path / "out"
        done = guarded.run("run", suite, *ON, "--repeats", "1", "--out", str(out))
    assert "4 of 4 trials done" in done.stderr
    assert "can run programs" not in done.stderr


def test_a_token_that_is_not_there(cluster: TestCluster, out: Path) -> None:
    suite = str(suite_of(out.parent / "s"))
    done = cluster.run("run", suite, *ON, "--out", str(out), RAY_AUTH_MODE="token")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"twoarm: --executor ray:{HEAD}: RAY_AUTH_MODE is token, and there is no token on this "
        "machine; RAY_AUTH_MODE and ~/.ray/auth_token have to be the same on all machines"
    )
