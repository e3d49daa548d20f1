"""A cluster of Ray, as far as a run has to do with it; the only module that knows Ray."""

import os
import pickle
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from twoarm._version import __version__
from twoarm.errors import InputError, UsageError
from twoarm.files.interrupt import Terminated
from twoarm.run.executors.node import WAITING, NodeRun, Order, sweep, worker_of
from twoarm.run.executors.reach import Head, address_of_environment, answers, check_answers, refuses
from twoarm.run.executors.survey import NodeFacts, NodeNeeds
from twoarm.run.prepare import Tree
from twoarm.text.escape import visible

NAME = "ray"
# How long the head may be silent; the nodes themselves wait for 60 s.
_SILENT_SECONDS = 30.0
# How long a node may take to look at itself, or to clean up.
_NODE_SECONDS = 120.0
# How long something may be on its way between this machine and a node, that is known to be up.
_PROBE_SECONDS = 20.0
_COMING_SECONDS = 120.0
# How long one look at it takes at most; whoever waits wants to hear signals as well.
_TICK_SECONDS = 0.25
# How Ray behaves in this process; it reads these when it is imported, and when it joins.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # How often and how long it asks a head that does not let it join.
    "RAY_NUM_REDIS_GET_RETRIES": "2",
    "RAY_py_gcs_connect_timeout_s": "10",
    # It would end this process, with nothing said and nothing kept, when the head is silent.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",
}


_SAME_TOKEN = "RAY_AUTH_MODE and ~/.ray/auth_token have to be the same on all machines"
_NOTHING_ARRIVES = (
    "what is sent between it and this machine does not arrive; open their ports to each other, and "
    f"check the token: {_SAME_TOKEN}"
)


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was there when the run began."""

    id: str
    # What it is called in every message, and no other node is.
    name: str
    address: str
    port: int
    cpus: float


class LostError(Exception):
    """What was asked of a node will not be answered."""

    def __init__(self, reason: str, *, node_gone: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.node_gone = node_gone


class Cluster:
    """A connection to a cluster."""

    def __init__(self, address: str) -> None:
        where = address or address_of_environment()
        os.environ.update(_SETTINGS)
        try:
            import ray
        except ImportError as error:
            raise UsageError(
                "--executor ray: Ray is not installed here; install twoarm with its extra `ray`, "
                "here and on every node"
            ) from error
        shown = f"--executor {NAME}"
        if where:
            shown = f"{shown}:{address}" if address else f"RAY_ADDRESS={where}"
            check_answers(where, shown)
        try:
            with _sigterm_kept():
                ray.init(
                    address=where or "auto",
                    log_to_driver=False,
                    logging_level="ERROR",
                    configure_logging=False,
                    # Whatever is set for jobs of Ray, nothing is to travel but what is in orders.
                    runtime_env={},
                )
        # Ray raises whatever it likes.
        except Exception as error:
            raise InputError(f"{shown}: {_why_not_joined(error, where)}") from error
        self._ray = ray
        context = ray.get_runtime_context()
        self._head = Head(context.gcs_address)
        # The node that this process belongs to, which Ray does not survive either.
        self._own = next(node for node in self.nodes() if node.id == context.get_node_id())
        self._attempt = ray.remote(
            max_retries=0, num_returns="streaming", _generator_backpressure_num_objects=1
        )(_attempt)
        self._ask = ray.remote(max_retries=0, num_cpus=0)(_survey_there())
        self._probe = ray.remote(max_retries=0, num_cpus=0, num_returns="streaming")(_echo_there())
        self._sweep = ray.remote(max_retries=0, num_cpus=0)(_sweep)
        self._changed = ray.remote(max_retries=0, num_cpus=0)(_changed)
        self._run: Any = None
        self._driver = ""

    @property
    def open_to_all(self) -> bool:
        """Whether anybody who reaches its ports may use it."""
        try:
            from ray._private.authentication.authentication_utils import is_token_auth_enabled
        except ImportError:
            return os.environ.get("RAY_AUTH_MODE") != "token"
        return not is_token_auth_enabled()

    def lost(self) -> str:
        """Why nothing can be had of the cluster anymore; nothing as long as that can be."""
        if self._own_ended():
            return f"Ray has ended on this machine (node {visible(self._own.name)})"
        if self._head.silence() > _SILENT_SECONDS:
            head = visible(self._head.address)
            return f"the head of the cluster ({head}) has not answered for {_SILENT_SECONDS:g} s"
        return ""

    def _own_ended(self) -> bool:
        return refuses(self._own.address, self._own.port)

    def nodes(self) -> list[ClusterNode]:
        """The nodes that are there, by name."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        names = Counter(node["NodeName"] for node in alive)
        made = []
        for node in alive:
            name = node["NodeName"]
            if names[name] > 1:
                name = f"{name} ({node['NodeID'][:6]})"
            made.append(
                ClusterNode(
                    id=node["NodeID"],
                    name=name,
                    address=node["NodeManagerAddress"],
                    port=node["NodeManagerPort"],
                    cpus=node["Resources"].get("CPU", 0.0),
                )
            )
        return sorted(made, key=lambda node: node.name)

    def share(self, run: NodeRun) -> None:
        """What all that is asked from now on is about."""
        self._run, self._driver = self.put(run), run.driver

    def put(self, value: object) -> Any:
        """Something that travels to every node that asks for it, and to each of them once."""
        return self._ray.put(value)

    # Attempts.

    def start(self, node: ClusterNode, cpus: float, order: Order, secrets: dict[str, str]) -> Any:
        """Start an attempt on a node; what stands for it."""
        task = self._attempt.options(
            name=order.attempt, num_cpus=cpus, scheduling_strategy=self._on(node)
        )
        # In a list it is fetched by who has not got it, and not for every attempt.
        return _Stream(task.remote([self._run], self._driver, order, secrets))

    def ready(self, handles: "Sequence[_Stream]", seconds: float) -> "list[_Stream]":
        """Those of some attempts that have something to tell; waits so long for the first one."""
        coming = [stream for stream in handles if stream.coming is not None]
        others = {stream.told: stream for stream in handles if stream.coming is None}
        if others:
            seconds = 0.0 if coming else max(0.0, seconds)
            ready, _ = self._ray.wait([*others], num_returns=1, timeout=seconds, fetch_local=False)
            coming += [others[told] for told in ready]
        return coming

    def take(self, handle: "_Stream", node: ClusterNode) -> tuple[str, Any] | None:
        """The next that an attempt tells, or that it is on its way; None if that was all.

        LostError if there is no more.
        """
        if self._own_ended():
            # Ray would end this process; whoever waits asks what is lost.
            return WAITING, None
        try:
            if handle.coming is None:
                handle.coming = next(handle.told)
                handle.give_up = time.monotonic() + _COMING_SECONDS
            told: tuple[str, Any] = self._ray.get(handle.coming, timeout=_TICK_SECONDS)
        except StopIteration:
            return None
        except self._ray.exceptions.GetTimeoutError as error:
            if time.monotonic() < handle.give_up:
                return WAITING, None
            raise LostError(
                f"node {visible(node.name)}: what it sent did not arrive within "
                f"{_COMING_SECONDS:g} s",
                node_gone=False,
            ) from error
        except self._ray.exceptions.RayError as error:
            raise self._no_answer(error, node) from error
        handle.coming = None
        return told

    def cancel(self, handle: "_Stream") -> None:
        """Kill the worker of an attempt; its keeper ends with it, and cleans up."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.cancel(handle.told, force=True)

    # Nodes.

    def survey(self, nodes: Sequence[ClusterNode], asked: NodeNeeds) -> list[NodeFacts]:
        """What each node says of itself."""
        # Pickled here: there it is read only where it can be.
        answers = list(self._everywhere(self._ask, nodes, __version__, pickle.dumps(asked)))
        facts = [
            NodeFacts(node=node.name, problems=(answer.reason,), gone=answer.node_gone)
            if isinstance(answer, LostError)
            else NodeFacts(node=node.name, **answer)
            for node, answer in zip(nodes, answers, strict=True)
        ]
        silent = self._silent([node for node, told in zip(nodes, facts, strict=True) if told.ray])
        return [
            replace(told, problems=(*told.problems, _NOTHING_ARRIVES))
            if told.node in silent
            else told
            for told in facts
        ]

    def _silent(self, nodes: Sequence[ClusterNode]) -> set[str]:
        """The nodes that cannot fetch what is put here, or send back what an attempt would tell."""
        sent = self.put(b"probe")
        asked = {
            self._probe.options(scheduling_strategy=self._on(node)).remote([sent]): node.name
            for node in nodes
        }
        silent = set()
        deadline = time.monotonic() + _PROBE_SECONDS
        for handle, name in asked.items():
            left = max(0.0, deadline - time.monotonic())
            ready, _ = self._ray.wait([handle], timeout=left, fetch_local=False)
            try:
                if not ready:
                    raise self._ray.exceptions.GetTimeoutError
                self._ray.get(next(handle), timeout=max(1.0, deadline - time.monotonic()))
            except self._ray.exceptions.RayError:
                silent.add(name)
                self._ray.cancel(handle, force=True)
        return silent

    @property
    def version(self) -> str:
        """Of Ray, here."""
        version: str = self._ray.__version__
        return version

    def sweep(self, nodes: Sequence[ClusterNode]) -> "Iterator[LostError | None]":
        """Clean up; of each node why it could not."""
        yield from self._everywhere(self._sweep, nodes, self._run)

    def changed(
        self, nodes: Sequence[ClusterNode], trees: tuple[Tree, ...]
    ) -> "Iterator[LostError | list[str] | None]":
        """What is not as it came, of these trees on each node; None where none of them is."""
        yield from self._everywhere(self._changed, nodes, self._run, trees)

    def _everywhere(
        self, task: Any, nodes: Sequence[ClusterNode], *arguments: object
    ) -> Iterator[Any]:
        """An answer of each node in turn; they are asked at the same time."""
        if self._own_ended() or self._head.silence():
            # Ray would wait for it, as long as a run may take.
            yield from (LostError("the head does not answer", node_gone=False) for _ in nodes)
            return
        asked = [
            task.options(scheduling_strategy=self._on(node)).remote(*arguments) for node in nodes
        ]
        deadline = time.monotonic() + _NODE_SECONDS
        for node, reference in zip(nodes, asked, strict=True):
            try:
                yield self._ray.get(reference, timeout=max(0.0, deadline - time.monotonic()))
            except self._ray.exceptions.GetTimeoutError:
                yield LostError(f"no answer after {_NODE_SECONDS:g} s", node_gone=False)
            except self._ray.exceptions.RayError as error:
                yield self._no_answer(error, node)

    def _on(self, node: ClusterNode) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node.id, soft=False)

    def _no_answer(self, error: Exception, node: ClusterNode) -> LostError:
        """What became of a node or of what ran there, in words."""
        errors = self._ray.exceptions
        if isinstance(error, errors.RayTaskError):
            # What the code on the node has raised itself.
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return LostError(f"node {visible(node.name)}: {visible(lines[-1])}", node_gone=False)
        gone = isinstance(error, errors.NodeDiedError | errors.TaskUnschedulableError)
        if gone or not answers(node.address, node.port):
            return LostError(f"node {visible(node.name)} was lost", node_gone=True)
        if isinstance(error, errors.OutOfMemoryError):
            why = "Ray killed its worker, because memory ran out"
        else:
            why = f"its worker was killed ({type(error).__name__})"
        return LostError(f"node {visible(node.name)}: {why}", node_gone=False)

    def close(self) -> None:
        """Leave the cluster."""
        self._run = None
        self._ray.shutdown()


class _Stream:
    """What an attempt tells, one thing after the other."""

    def __init__(self, told: Any) -> None:
        self.told = told
        # What has been told and is not here yet, and how long it is waited for.
        self.coming: Any = None
        self.give_up = 0.0


def _attempt(run: list[Any], driver: str, order: Order, secrets: dict[str, str]) -> Iterator[Any]:
    import ray

    from twoarm.run.executors import node

    known = node._worker
    known_run = known.run if known and known.run.driver == driver else ray.get(run[0])
    yield from worker_of(known_run).attempt(order, secrets, ray.get)


def _sweep(run: NodeRun) -> None:
    sweep(run)


def _changed(run: NodeRun, trees: tuple[Tree, ...]) -> list[str] | None:
    return worker_of(run).place.changed(trees)


def _survey_there() -> Callable[[str, bytes], dict[str, Any]]:
    """The survey, in a form that travels to nodes on which there is no twoarm, or another one."""

    def there(version: str, asked: bytes) -> dict[str, Any]:
        import platform

        import ray

        told: dict[str, Any] = {"ray": ray.__version__, "python": platform.python_version()}
        try:
            from twoarm._version import __version__
        except ImportError:
            return {**told, "twoarm": None}
        if version != __version__:
            return {**told, "twoarm": __version__}
        from twoarm.run.executors.survey import look_around

        return {**told, "twoarm": version, **look_around(asked)}

    return there


def _echo_there() -> Callable[[list[Any]], Iterator[Any]]:
    """What fetches and tells as an attempt does, on any node."""

    def there(sent: list[Any]) -> Iterator[Any]:
        import ray

        yield ray.get(sent[0])

    return there


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray has its own way to end, which leaves everything behind."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as ending:
        raise Terminated(signal.SIGTERM) from ending
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _why_not_joined(error: Exception, where: str) -> str:
    if type(error).__name__ == "AuthenticationError":
        return f"RAY_AUTH_MODE is token, and there is no token on this machine; {_SAME_TOKEN}"
    if isinstance(error, ConnectionError) and error.__cause__ is None and not where:
        return (
            "this machine is in no cluster; start one with `ray start --head`, join one with "
            "`ray start --address=HOST:PORT`, or name one: --executor ray:HOST:PORT"
        )
    if isinstance(error, ConnectionError):
        return f"no head there that lets this machine join; check the token: {_SAME_TOKEN}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return visible(" ".join(lines)[:500]) or type(error).__name__
