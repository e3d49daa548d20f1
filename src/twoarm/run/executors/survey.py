"""What every node is asked before the first trial, and what is refused: a line for each failure."""

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from twoarm._version import __version__
from twoarm.errors import InputError, UsageError
from twoarm.programs.agent import load_agent
from twoarm.run.engine import find_engine, last_line
from twoarm.run.executors.node import NodeRun, sealer_here, sweep
from twoarm.run.freeze import find_program
from twoarm.run.isolation import inside
from twoarm.run.place import why_no_place
from twoarm.text.escape import named, visible


class NodeNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has to have for a run."""

    run: NodeRun
    # The version of the agent; None where it has none.
    agent_version: str | None


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    node: str
    twoarm: str | None = None
    ray: str = ""
    python: str = ""
    # Of the agent, if it is a program of the node.
    agent: str | None = None
    problems: tuple[str, ...] = ()
    # Why it has not got the isolation of the run.
    isolation: str = ""
    # Whether it is no more than a name: Ray takes a while to see that a node is gone.
    gone: bool = False


class ClusterError(InputError):
    """Nodes on which no trial could run, each reason on a line of its own."""


def look_around(asked: bytes) -> dict[str, Any]:
    """On a node: clean up after an earlier runner, and see what is there."""
    wanted: NodeNeeds = pickle.loads(asked)
    run = wanted.run
    if why := why_no_place(run.root):
        return {"problems": (f"{why}; name a folder that all nodes have in TWOARM_CACHE",)}
    problems, told = [], {}
    try:
        # Nothing is left there, whether the run is refused or not.
        sweep(run)
    except OSError as error:
        where = visible(str(error.filename or run.path))
        problems.append(f"{where}: {visible(error.strerror or str(error))}")
    sealer = sealer_here(run)
    try:
        if not sealer.contained:
            agent = load_agent(sealer.checked.agent)
            told["agent"] = find_program(agent, sealer.checked, run.env["PATH"]).version
    except InputError as error:
        problems.append(str(error))
    return {"problems": tuple(problems), "isolation": _lacking(run), **told}


def _lacking(run: NodeRun) -> str:
    """Why the isolation of a run cannot be had on this node; or nothing."""
    sealer = sealer_here(run)
    if sealer.contained:
        name = sealer.isolation
        try:
            engine = find_engine(name)
        except UsageError as error:
            return str(error).removeprefix(f"--isolation {name}: ")
        for image in sealer.images.values():
            if not engine.has(image):
                short = visible(image[:12])
                return f"{name} has no image {short}; take it there with `{name} save` and `load`"
    elif sealer.isolation == "bwrap":
        try:
            done = inside(sealer, ["/bin/true"])
        except OSError:
            return "bubblewrap is not installed; see your package manager"
        if done.returncode:
            return f"bubblewrap is not allowed there: {last_line(done.stderr)}"
    return ""


def refuse_unfit(
    facts: Sequence[NodeFacts],
    here: NodeFacts,
    agent: str,
    agent_version: str | None,
    isolation: str,
) -> None:
    """Raise an error with every reason for which a node will not do.

    `isolation` is the one that was asked for, if any was.
    """
    lines = [
        f"node {visible(node.node)}: {line}"
        for node in facts
        for line in _unfit(node, here, agent, agent_version)
    ]
    lines += [
        f"node {visible(node.node)}: --isolation {isolation}: {node.isolation}"
        for node in facts
        if isolation and node.isolation
    ]
    if lines:
        raise ClusterError("\n".join(lines))


def _unfit(
    node: NodeFacts, here: NodeFacts, agent: str, agent_version: str | None
) -> Iterator[str]:
    """Why a node will not do."""
    if node.ray and node.ray != here.ray:
        yield f"it has Ray {visible(node.ray)}, and this machine {visible(here.ray)}"
    if node.python and _minor(node.python) != _minor(here.python):
        yield f"it has Python {visible(node.python)}, and this machine {visible(here.python)}"
    if node.ray and node.twoarm is None:
        yield f"it has no twoarm; install twoarm {__version__} there, with its extra `ray`"
    elif node.twoarm is not None and node.twoarm != here.twoarm:
        yield f"it has twoarm {visible(node.twoarm)}, and this machine {here.twoarm}"
    yield from node.problems
    if node.agent is not None and node.agent != agent_version:
        there, wanted = visible(node.agent), visible(agent_version or "none")
        yield f"it has {named(agent)} {there}, and this machine {wanted}"


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
