"""Runs on a cluster that go on: on which nodes, and what nobody could check on those of before."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.run.test_fleet import Cluster
from tests.support.nearby import node
from tests.support.suite_files import suite_of
from twoarm.run import fleet as joining
from twoarm.run.executors.cluster import LostError
from twoarm.run.setting import default_jobs


def test_a_resume_takes_the_nodes_that_are_there_now(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than `--jobs` said; elsewhere, what that says of a cluster is no number to go by."""
    monkeypatch.setattr(joining, "Cluster", Cluster)
    out = tmp_path / "out"

    def jobs(*words: str, nodes: int = 2) -> tuple[int, int | None]:
        there = tuple(node(f"n{number}", 2) for number in range(nodes))
        monkeypatch.setattr(Cluster, "nodes_there", there)
        done = twoarm("run", *words, "--no-evidence", "--display", "quiet", "--format", "json")
        assert done.code == 0, done.err
        told = json.loads((out / "place.json").read_bytes())
        return told["jobs"], told["jobs_asked"]

    suite = str(suite_of(tmp_path / "s"))
    first = ("--executor", "ray", "--repeats", "1", "--out", str(out), "--isolation", "copy")
    resume = ("--resume", str(out))
    assert jobs(suite, *first, nodes=1) == (2, None)
    assert jobs(*resume) == (4, None)
    assert jobs(*resume, "--executor", "local") == (default_jobs(), None)
    assert jobs(*resume, "--executor", "ray", "--jobs", "3") == (3, 3)
    assert jobs(*resume, nodes=1) == (2, 3)
    assert jobs(*resume) == (3, 3)
    assert jobs(*resume, "--executor", "local") == (3, 3)
    # Of another machine, on which that was half of the cores.
    place = json.loads((out / "place.json").read_bytes()) | {"jobs": 7, "jobs_asked": None}
    (out / "place.json").write_text(json.dumps(place))
    assert jobs(*resume) == (7, None)


# Trees that nobody could look at afterwards.


def caveats_of(out: Path) -> list[str]:
    analysis = json.loads(twoarm("score", str(out), "--no-evidence", "--format", "json").out)
    return [caveat["code"] for caveat in analysis["caveats"]]


def unchecked(*words: str, out: Path) -> tuple[list[str], dict[str, str]]:
    """What the receipt says of a run: whose trees nobody looked at, and the node of each trial."""
    done = twoarm("run", *words, "--no-evidence", "--display", "quiet", "--format", "json")
    assert done.code in (0, 3), done.err
    receipt = json.loads((out / "receipt.json").read_bytes())
    return receipt["unchecked_runs"], receipt["nodes"]


def test_runs_on_a_node_that_was_lost_are_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell what they started from, until they are made again."""
    monkeypatch.setattr(joining, "Cluster", Cluster)

    def lost(self: Cluster, nodes: Any, trees: Any) -> Iterator[Any]:
        yield from (LostError("", node_gone=True) if each.name == "n2" else [] for each in nodes)

    with monkeypatch.context() as then:
        then.setattr(Cluster, "changed", lost)
        out = tmp_path / "out"
        words = ("--executor", "ray", "--repeats", "2", "--isolation", "copy", "--out", str(out))
        left, nodes = unchecked(str(suite_of(tmp_path / "s")), *words, out=out)
    assert left
    assert left == [trial for trial, name in sorted(nodes.items()) if name == "n2"]
    assert "trees_unchecked" in caveats_of(out)
    place = json.loads((out / "place.json").read_bytes())
    (out / "place.json").write_text(json.dumps(place | {"isolation": "bwrap"}))
    assert "trees_unchecked" not in caveats_of(out)
    (out / "place.json").write_text(json.dumps(place))
    for trial in left[1:]:
        shutil.rmtree(out / "runs" / trial)
    assert unchecked("--resume", str(out), out=out)[0] == left[:1]


@pytest.mark.parametrize("again", [(), ("--executor", "local")])
def test_runs_on_nodes_that_were_cleared_are_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, again: tuple[str, ...]
) -> None:
    """Whoever goes on after a runner was killed clears the nodes, and sees nothing there."""
    monkeypatch.setattr(joining, "Cluster", Cluster)
    out = tmp_path / "out"
    suite = suite_of(tmp_path / "s", f"echo fixed > answer.txt; touch {out}/stop")
    words = ("--executor", "ray", "--repeats", "2", "--isolation", "copy", "--out", str(out))
    left, nodes = unchecked(str(suite), *words, out=out)
    assert left == []
    # It was killed before it could look.
    journal = (out / "journal.jsonl").read_text().splitlines()
    early = [line for line in journal if "trees whole" not in line]
    (out / "journal.jsonl").write_text("\n".join(early) + "\n")

    def cleared(self: Cluster, nodes: Any, trees: Any) -> Iterator[None]:
        yield from (None for _ in nodes)

    monkeypatch.setattr(Cluster, "changed", cleared)
    assert set(unchecked("--resume", str(out), *again, out=out)[0]) >= set(nodes)
    assert "trees_unchecked" in caveats_of(out)
