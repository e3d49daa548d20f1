"""A stand-in for a cluster: its nodes are this machine, and what would be far away is called."""

import os
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.support.suite_files import job_of
from twoarm.run.executors.cluster import ClusterNode, LostError
from twoarm.run.executors.node import NodeRun, Order, Worker, sweep
from twoarm.run.executors.ray import Ray, marked
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.jobs import Job, JobOutcome
from twoarm.run.place import Place, new_token
from twoarm.run.prepare import Tree
from twoarm.run.setting import plain_env
from twoarm.run.suite_file import read_suite


def node(name: str, cpus: float = 1.0) -> ClusterNode:
    return ClusterNode(id=name, name=name, address="127.0.0.1", port=1, cpus=cpus)


# A script that solves a task, and tells what it knows.
SOLVED = "echo fixed > answer.txt; echo told $KEY"


class Nearby:
    """Every order goes through bytes, as if it travelled."""

    def __init__(self) -> None:
        self.puts: list[bytes] = []
        self.orders: list[tuple[str, Order, dict[str, str]]] = []
        self.swept: list[str] = []
        self.closed = False
        # Nodes that are gone, and what an attempt tells in place of what it would.
        self.gone: set[str] = set()
        self.told: dict[str, Iterable[Any]] = {}
        self.changes: dict[str, list[str] | None] = {}
        self.unswept: dict[str, LostError] = {}
        self.fetched: Counter[int] = Counter()
        self._run: NodeRun
        self._started: dict[int, Iterator[Any]] = {}

    def share(self, run: NodeRun) -> None:
        self._run = pickle.loads(pickle.dumps(run))

    def put(self, value: bytes) -> int:
        self.puts.append(value)
        return len(self.puts) - 1

    def fetch(self, number: int) -> bytes:
        self.fetched[number] += 1
        return self.puts[number]

    def start(self, node: ClusterNode, cpus: float, order: Order, secrets: dict[str, str]) -> Any:
        order = pickle.loads(pickle.dumps(order))
        self.orders.append((node.name, order, secrets))
        told = self.told.get(order.attempt)
        if told is None:
            return Worker(self._run).attempt(order, secrets, self.fetch)
        return iter(told)

    def ready(self, handles: Sequence[Any], seconds: float) -> list[Any]:
        return list(handles)[:1]

    def take(self, handle: Any, node: ClusterNode) -> Any:
        if node.name in self.gone:
            raise LostError(f"node {node.name} was lost", node_gone=True)
        told = next(handle, None)
        if isinstance(told, LostError):
            raise told
        return told

    def cancel(self, handle: Any) -> None:
        if hasattr(handle, "close"):
            handle.close()

    def lost(self) -> str:
        return ""

    def sweep(self, nodes: Sequence[ClusterNode]) -> Iterator[LostError | None]:
        for each in nodes:
            self.swept.append(each.name)
            sweep(self._run)
            yield self.unswept.get(each.name)

    def changed(self, nodes: Sequence[ClusterNode], trees: tuple[Tree, ...]) -> Iterator[Any]:
        for each in nodes:
            gone = LostError("gone", node_gone=True)
            yield gone if each.name in self.gone else self.changes.get(each.name, [])

    def close(self) -> None:
        self.closed = True


class NearbyRun:
    """An executor on such a cluster, with the place that it works in."""

    def __init__(self, folder: Path, suite: Path, nodes: Sequence[str] = ("n1",)) -> None:
        self.cluster = Nearby()
        root = folder / "cache"
        root.mkdir(exist_ok=True)
        self.place = Place(str(root), new_token())
        checked = read_suite(str(suite))
        self.run = NodeRun(
            root=str(root),
            token=self.place.path.rpartition("/")[2],
            driver=marked(self.place),
            sealer=sealer_of(checked, ChosenIsolation(name="copy"), kept_back=(self.place.path,)),
            env=plain_env({"PATH": "/usr/bin:/bin"}),
        )
        self.executor = Ray(
            self.cluster,  # type: ignore[arg-type]
            [node(name) for name in nodes],
            self.place,
            self.run,
            1.0,
        )

    def close(self) -> None:
        self.executor.close()
        self.place.remove()


def job_in(near: NearbyRun, folder: Path, script: str, **changed: Any) -> Job:
    """A job whose tree is in the private folder, as the runner makes it."""
    made = job_of(folder, script, **changed)
    trees = Path(near.place.trees.path)
    if not (trees / "tree0").exists():
        os.rename(made.tree, trees / "tree0")
        os.rename(made.manifest, trees / "tree0.manifest")
    return msgspec.structs.replace(
        made,
        tree=str(trees / "tree0"),
        manifest=str(trees / "tree0.manifest"),
        scratch=near.place.fresh(),
    )


def ended(near: NearbyRun) -> JobOutcome:
    (outcome,) = near.executor.completed(30)
    return outcome
