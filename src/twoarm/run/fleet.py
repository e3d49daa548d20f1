"""From `--executor ray` to nodes that trials can run on: joined, looked at, cleaned, dealt out."""

import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from twoarm._version import __version__
from twoarm.errors import InputError
from twoarm.files.safe import OpenFolder
from twoarm.run.executor import cluster_address
from twoarm.run.executors.cluster import Cluster, ClusterNode
from twoarm.run.executors.node import NodeRun
from twoarm.run.executors.ray import Ray, marked
from twoarm.run.executors.slots import room, slots_of
from twoarm.run.executors.survey import NodeFacts, NodeNeeds, refuse_unfit
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.place import Place
from twoarm.run.setting import Setting
from twoarm.run.suite_file import CheckedSuite
from twoarm.run.supervisor.program import COPY
from twoarm.runs.study import SCHEDULE
from twoarm.text.escape import counted, series, visible

# Of the private folder: what is shown for the folder of the suite.
_SUITE = "suite"
# A folder of a suite that is larger was hardly meant to travel.
MOST_SUITE_MB = 256
_BESIDE = "{suite}"


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a run."""

    executor: Ray
    # For these nodes: with as many jobs as they take, and the isolation that all of them have.
    setting: Setting
    # How many slots each node has.
    slots: dict[str, int]
    # What has to be said before anything runs: how trials are dealt out, and what is odd.
    note: str
    warnings: tuple[str, ...]


def join(setting: Setting, place: Place, token: str, kept_back: Sequence[str] = ()) -> Fleet:
    """Join the cluster and look at every node; refuse with a line for each that will not do."""
    cluster = Cluster(cluster_address(setting.executor) or "")
    try:
        each = setting.checked.suite.limits.cpus or 1.0
        nodes = _with_room(cluster.nodes(), each, setting.executor)
        checked = _with_suite(setting.checked, place)
        run = NodeRun(
            root=place.root,
            token=token,
            driver=marked(place),
            sealer=sealer_of(
                checked,
                setting.isolation,
                setting.program.path,
                token,
                (*kept_back, place.root, place.path),
            ),
            env=setting.env,
        )
        needs = NodeNeeds(run=run, agent_version=setting.program.version)
        facts = [told for told in cluster.survey(nodes, needs) if not told.gone]
        there = {told.node for told in facts}
        nodes = _with_room([node for node in nodes if node.name in there], each, setting.executor)
        isolation = _looked_at(cluster, facts, setting)
        rooms = {node.name: room(node.cpus, each) for node in nodes}
        names = slots_of(rooms, setting.jobs_asked)
        by_name = {node.name: node for node in nodes}
        executor = Ray(cluster, [by_name[name] for name in names], place, run, each)
        if checked.copied:
            executor.always = (checked.copied,)
        return Fleet(
            executor=executor,
            setting=replace(setting, checked=checked, isolation=isolation, jobs=len(names)),
            slots={name: names.count(name) for name in rooms if name in names},
            note=_dealt(rooms, names),
            warnings=tuple(_warnings(cluster, isolation, checked.agent.network)),
        )
    except BaseException:
        cluster.close()
        raise


def _with_room(nodes: Sequence[ClusterNode], each: float, executor: str) -> list[ClusterNode]:
    """The nodes that take at least one trial at a time."""
    able = [node for node in nodes if room(node.cpus, each)]
    if not able:
        has = ", ".join(f"{visible(node.name)} has {node.cpus:g}" for node in nodes)
        cpus = "1 CPU" if each == 1 else f"{each:g} CPUs"
        raise InputError(
            f"--executor {visible(executor)}: no node has {cpus} for a trial: "
            f"{has or 'none is there'}; start nodes with `ray start --address=HOST:PORT "
            "--num-cpus=N`"
        )
    return able


def _looked_at(cluster: Cluster, facts: Sequence[NodeFacts], setting: Setting) -> ChosenIsolation:
    """The isolation that all nodes have; an error if one lacks anything else."""
    program, isolation = setting.program, setting.isolation
    here = NodeFacts(
        node="", twoarm=__version__, ray=cluster.version, python=platform.python_version()
    )
    asked = "" if isolation.tentative else isolation.name
    refuse_unfit(facts, here, setting.agent.name, program.version, asked)
    for node in facts:
        if node.isolation:
            why = f"node {visible(node.node)}: {node.isolation}"
            return ChosenIsolation(name="copy", reason=f"{isolation.name}: {why}")
    return isolation


def _dealt(rooms: Mapping[str, int], names: Sequence[str]) -> str:
    """How many trials run at a time, and where."""
    each = [f"{visible(name)} ({names.count(name)})" for name in rooms if name in names]
    return f"{counted(len(names), 'job')} on {counted(len(each), 'node')}: {series(each)}"


def _warnings(cluster: Cluster, isolation: ChosenIsolation, network: str | None) -> Iterator[str]:
    """Who else could use the cluster."""
    if cluster.open_to_all:
        shared = network == "host" or (network is None and isolation.name == "bwrap")
        agents = ", agents in their sandboxes among them," if shared else ""
        yield (
            f"whoever reaches the ports of this cluster{agents} can run programs on it and read "
            "what is sent; start it with RAY_AUTH_MODE=token, in a network of its own"
        )


def _with_suite(checked: CheckedSuite, place: Place) -> CheckedSuite:
    """With a copy of its folder, if commands name it: at a path that every node can have."""
    program = checked.agent.argv[0] if checked.agent.argv else ""
    beside = [
        *(path for path in checked.agent.mounts if not os.path.isabs(os.path.expanduser(path))),
        *([program] if os.sep in program and not os.path.isabs(program) else []),
    ]
    if not beside and _BESIDE not in msgspec.json.encode(checked.suite).decode():
        return checked
    size = 0
    left = []
    for at, folders, names in os.walk(checked.folder):
        if ".git" in folders:
            folders.remove(".git")
            left.append(os.path.join(at, ".git"))
        for name in [name for name in folders if os.path.lexists(os.path.join(at, name, SCHEDULE))]:
            # The runs of this suite, or of others; or a link to them.
            folders.remove(name)
            left.append(os.path.join(at, name))
        size += sum(os.lstat(os.path.join(at, name)).st_size for name in names)
        if size > MOST_SUITE_MB * 2**20:
            raise InputError(
                f"{visible(checked.folder)}: commands name {_BESIDE}, so all that lies beside the "
                f"suite travels to every node, and that is more than {MOST_SUITE_MB} MB; put the "
                "suite and what it names into a folder of their own"
            )
    with place.folder as folder:
        folder.remove(_SUITE)
        _copy(checked.folder, folder, left)
        return replace(checked, copied=folder.at(_SUITE))


def _copy(source: str, folder: OpenFolder, left: Sequence[str]) -> None:
    """All of a folder but some paths in it."""
    done = subprocess.run(
        [*COPY, os.path.realpath(source), folder.at(_SUITE)], capture_output=True, check=False
    )
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise InputError(f"cannot copy {visible(source)}: {visible(reason[-300:])}")
    with folder.enter(_SUITE) as copied:
        for path in left:
            above, name = copied.parent_of(os.path.relpath(path, source))
            with above:
                above.remove(name)
