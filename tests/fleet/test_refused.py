"""What is refused before the first trial, with a line that names the node."""

from pathlib import Path

import pytest

from tests.fleet.test_runs import ON
from tests.support.clusters import HEAD, TestCluster, a_cluster
from tests.support.suite_files import suite_of


def test_a_node_without_the_agent_is_named(cluster: TestCluster, out: Path) -> None:
    apart = cluster.folder / "apart"
    apart.mkdir()
    (apart / "my-agent").write_text("#!/bin/sh\necho x > answer.txt\n")
    (apart / "my-agent").chmod(0o755)
    (cluster.bin / "my-agent").symlink_to(apart / "my-agent")
    suite = str(suite_of(out.parent / "s", agent={"argv": ["my-agent"]}))
    cluster.add("n3", without=apart)
    try:
        done = cluster.run("run", suite, *ON, "--out", str(out))
        assert done.returncode == 2
        (line,) = [line for line in done.stderr.splitlines() if "node" in line]
        assert line == (
            "twoarm: node n3: agent `command`: no program `my-agent` on PATH; install it, or put "
            "the folder it is in on PATH"
        )
        for name in ("n1", "n2", "n3"):
            assert list(cluster.cache_of(name).iterdir()) == []
    finally:
        cluster.kill("n3")
    # It is gone, and the others will do; nothing was begun.
    again = cluster.run("run", suite, *ON, "--repeats", "1", "--out", str(out))
    assert "4 of 4 trials done" in again.stderr
    assert "4 jobs on 2 nodes: n1 (2) and n2 (2)" in again.stderr


@pytest.mark.parametrize(
    ("executor", "env"), [("ray:127.0.0.1:1", {}), ("ray", {"RAY_ADDRESS": "127.0.0.1:1"})]
)
def test_where_nothing_listens_it_is_said_at_once(
    cluster: TestCluster, out: Path, executor: str, env: dict[str, str]
) -> None:
    suite = str(suite_of(out.parent / "s"))
    done = cluster.run("run", suite, "--executor", executor, "--out", str(out), **env)
    assert done.returncode == 2
    shown = "RAY_ADDRESS=127.0.0.1:1" if env else f"--executor {executor}"
    (line,) = done.stderr.splitlines()
    assert line == (
        f"twoarm: {shown}: nothing is listening there; name the head of a cluster, as "
        "`ray start --head` printed it"
    )


def test_without_room_it_is_said_at_once(tmp_path: Path) -> None:
    """A head alone, as it is started for its nodes."""
    (tmp_path / "cluster").mkdir()
    with a_cluster(tmp_path / "cluster") as alone:
        suite = str(suite_of(tmp_path / "s"))
        done = alone.run("run", suite, *ON, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"twoarm: --executor ray:{HEAD}: no node has 1 CPU for a trial: head has 0; start nodes "
        "with `ray start --address=HOST:PORT --num-cpus=N`"
    )


@pytest.mark.parametrize("address", [f"ray://{HEAD}", "ray:127.0.0.1"])
def test_an_address_of_another_kind_is_refused(
    cluster: TestCluster, out: Path, address: str
) -> None:
    suite = str(suite_of(out.parent / "s"))
    done = cluster.run("run", suite, "--executor", address, "--out", str(out))
    assert done.returncode == 2
    assert done.stderr.startswith("twoarm: --executor: ")
    assert not out.exists()
