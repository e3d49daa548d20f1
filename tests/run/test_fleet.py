"""`--executor`: what it may say, what nodes are asked, and what becomes of the answers."""

import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import msgspec
import pytest

from tests.conftest import twoarm
from tests.support.nearby import Nearby, node
from tests.support.suite_files import suite_of
from twoarm._version import __version__
from twoarm.errors import InputError, UsageError
from twoarm.run import fleet as joining
from twoarm.run.executor import cluster_address
from twoarm.run.executors.cluster import Cluster as RayCluster
from twoarm.run.executors.node import NodeRun
from twoarm.run.executors.slots import room, slots_of
from twoarm.run.executors.survey import (
    ClusterError,
    NodeFacts,
    NodeNeeds,
    look_around,
    refuse_unfit,
)
from twoarm.run.fleet import Fleet, join
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.job_maker import missing_files
from twoarm.run.place import Place, choose_place, new_token
from twoarm.run.rehearse import rehearse
from twoarm.run.setting import RunOptions, Setting, set_up

HERE = NodeFacts(node="", twoarm=__version__, ray="2.60.0", python="3.11.7")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("local", None),
        ("ray", ""),
        ("ray:10.0.0.1:6379", "10.0.0.1:6379"),
        ("ray:head.example.org:1", "head.example.org:1"),
        ("ray:[fe80::1]:6379", "[fe80::1]:6379"),
    ],
)
def test_where_a_cluster_is(text: str, address: str | None) -> None:
    assert cluster_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "slurm", "ray:", "ray:10.0.0.1", "ray:host:port", "local:1", "rays", "ray:a b:1"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--executor: expected local, ray or ray:HOST:PORT, got"):
        cluster_address(text)


def test_the_address_of_a_client_is_refused_with_the_way_that_works(tmp_path: Path) -> None:
    result = twoarm("run", str(suite_of(tmp_path)), "--executor", "ray://10.0.0.1:10001")
    assert result.code == 2
    assert result.err == (
        "twoarm: --executor: ray://10.0.0.1:10001 is an address of Ray's client, which lets agents "
        "go on for half a minute when their run is gone; start twoarm on the head or on a node of "
        "the cluster, with --executor ray\n"
    )


@pytest.mark.parametrize("address", ["local", "http://10.0.0.1:8265", "10.0.0.1"])
def test_an_address_of_the_environment_is_that_of_a_head(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """With some of these Ray would start a cluster of its own, or ask for ever."""
    monkeypatch.setenv("RAY_ADDRESS", address)
    result = twoarm("run", str(suite_of(tmp_path)), "--executor", "ray", "--dry-run")
    assert result.code == 2
    assert result.err == (
        f"twoarm: RAY_ADDRESS: expected the HOST:PORT of a head, got `{address}`; unset it to join "
        "the cluster of this machine, or name a head: --executor ray:HOST:PORT\n"
    )


def test_without_ray_it_is_said_what_to_install(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    out = tmp_path / "out"
    words = ("run", str(suite_of(tmp_path / "s")), "--executor", "ray", "--out", str(out))
    for more in ((), ("--dry-run",)):
        result = twoarm(*(words[:-2] if more else words), *more)
        assert result.code == 2
        assert result.err.splitlines()[-1] == (
            "twoarm: --executor ray: Ray is not installed here; install twoarm with its extra "
            "`ray`, here and on every node"
        )
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("", "this machine is in no cluster; start one with"),
        ("127.0.0.1", "no head there that lets this machine join; check the token: "),
    ],
)
def test_why_a_cluster_cannot_be_joined(
    monkeypatch: pytest.MonkeyPatch, where: str, why: str
) -> None:
    """The oldest Ray says no more in either case."""

    def init(**options: object) -> None:
        raise ConnectionError

    monkeypatch.setitem(__import__("sys").modules, "ray", SimpleNamespace(init=init))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = where and f"{where}:{head.getsockname()[1]}"
        with pytest.raises(InputError, match=why):
            RayCluster(address)


# Slots.


def test_slots_are_where_there_is_room() -> None:
    assert [room(4, 1), room(3.9, 1), room(0.5, 1), room(0.9, 0.3), room(8, 2.5)] == [4, 3, 0, 3, 3]
    assert slots_of({"a": 2, "b": 1}, None) == ["a", "b", "a"]
    assert slots_of({"a": 4, "b": 2}, 3) == ["a", "b", "a"]
    assert slots_of({"a": 1, "b": 1}, 9) == ["a", "b"]
    assert slots_of({}, None) == []


# What nodes say of themselves.


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"ray": "2.50.0"}, "it has Ray 2.50.0, and this machine 2.60.0"),
        ({"python": "3.12.1"}, "it has Python 3.12.1, and this machine 3.11.7"),
        (
            {"twoarm": None},
            f"it has no twoarm; install twoarm {__version__} there, with its extra `ray`",
        ),
        ({"twoarm": "0.0.1"}, f"it has twoarm 0.0.1, and this machine {__version__}"),
        ({"problems": ("`/cache` is a link",)}, "`/cache` is a link"),
        ({"agent": "1.2.2"}, "it has `codex` 1.2.2, and this machine 1.2.3"),
        ({"isolation": "bubblewrap is not installed"}, "--isolation bwrap: bubblewrap is not"),
    ],
)
def test_each_failure_is_one_line_that_names_the_node(changed: dict[str, Any], line: str) -> None:
    good = msgspec.structs.replace(HERE, node="n1", agent="1.2.3")
    bad = msgspec.structs.replace(good, node="n2\n", **changed)
    refuse_unfit([good], HERE, "codex", "1.2.3", "bwrap")
    with pytest.raises(ClusterError) as error:
        refuse_unfit([good, bad, bad], HERE, "codex", "1.2.3", "bwrap")
    lines = str(error.value).split("\n")
    assert len(lines) == 2
    assert all(each.startswith(f"node n2\\n: {line}") for each in lines)


def test_another_patch_of_python_will_do() -> None:
    refuse_unfit([msgspec.structs.replace(HERE, python="3.11.2")], HERE, "codex", None, "")


@pytest.fixture
def setting(tmp_path: Path, cache: Path) -> Setting:
    return set_up(str(suite_of(tmp_path / "s")), RunOptions(executor="ray"), {"PATH": "/bin"})


class Cluster(Nearby):
    """What answers for a cluster in `join`; a node says what a test wants it to."""

    nodes_there = (node("n1", 2), node("n2", 1), node("head", 0))
    answers: ClassVar[dict[str, NodeFacts]] = {}
    open_to_all = False
    version = "2.60.0"

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    def nodes(self) -> list[Any]:
        return list(self.nodes_there)

    def survey(self, nodes: Any, needs: NodeNeeds) -> list[NodeFacts]:
        good = [msgspec.structs.replace(HERE, node=each.name, python="") for each in nodes]
        return [self.answers.get(each.node, each) for each in good]


@pytest.fixture
def place(cache: Path) -> Iterator[Place]:
    made = choose_place(new_token(), {"TWOARM_CACHE": str(cache)})
    yield made
    made.remove()


def joined(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch, **changed: Any
) -> Fleet:
    for name, value in changed.items():
        monkeypatch.setattr(Cluster, name, value)
    monkeypatch.setattr(joining, "Cluster", Cluster)
    fleet = join(setting, place, place.path.rpartition("/")[2])
    fleet.executor.close()
    return fleet


def test_trials_are_dealt_out_to_nodes_with_room(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = joined(setting, place, monkeypatch)
    assert (fleet.setting.jobs, fleet.slots) == (3, {"n1": 2, "n2": 1})
    assert fleet.note == "3 jobs on 2 nodes: n1 (2) and n2 (1)"
    assert fleet.warnings == ()
    asked = msgspec.structs.replace(setting, jobs_asked=2)
    assert joined(asked, place, monkeypatch).slots == {"n1": 1, "n2": 1}


def test_whoever_could_use_the_cluster_is_warned_of(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (warning,) = joined(setting, place, monkeypatch, open_to_all=True).warnings
    assert "RAY_AUTH_MODE=token" in warning
    assert "agents" not in warning


@pytest.mark.parametrize(
    ("name", "network", "shared"),
    [
        ("bwrap", None, True),
        ("bwrap", "none", False),
        ("podman", "host", True),
        ("podman", None, False),
    ],
)
def test_an_agent_in_a_sandbox_reaches_a_cluster_that_is_open(
    setting: Setting,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    name: Literal["bwrap", "podman"],
    network: str | None,
    shared: bool,
) -> None:
    agent = msgspec.structs.replace(setting.checked.agent, network=network)
    sealed = msgspec.structs.replace(
        setting,
        checked=msgspec.structs.replace(setting.checked, agent=agent),
        isolation=ChosenIsolation(name=name, tool=f"/usr/bin/{name}"),
    )
    (warning,) = joined(sealed, place, monkeypatch, open_to_all=True).warnings
    assert ("this cluster, agents in their sandboxes among them, can" in warning) == shared


def test_two_nodes_of_one_name_are_told_apart() -> None:
    """In every message, and in the receipt."""

    def alive(name: str, number: str) -> dict[str, Any]:
        address = {"NodeManagerAddress": "10.0.0.1", "NodeManagerPort": 1}
        return {"Alive": True, "NodeName": name, "NodeID": number * 56, "Resources": {}} | address

    cluster = object.__new__(RayCluster)
    there = [alive("host", "b"), alive("other", "c"), alive("host", "a")]
    cluster._ray = SimpleNamespace(nodes=lambda: there)
    names = [each.name for each in cluster.nodes()]
    assert names == ["host (aaaaaa)", "host (bbbbbb)", "other"]


def test_a_node_that_is_gone_is_left_out(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = NodeFacts(node="n1", problems=("node n1 was lost",), gone=True)
    assert joined(setting, place, monkeypatch, answers={"n1": gone}).slots == {"n2": 1}


@pytest.mark.parametrize("nodes", [(), (node("head", 0), node("n1", 0.5))])
def test_no_room_is_said_at_once(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch, nodes: Any
) -> None:
    with pytest.raises(InputError, match="no node has 1 CPU for a trial: "):
        joined(setting, place, monkeypatch, nodes_there=nodes)


def test_a_node_without_the_best_isolation_takes_it_from_all(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nobody asked for it; otherwise it is refused."""
    without = {"n2": NodeFacts(node="n2", isolation="bubblewrap is not installed")}
    for tentative in (True, False):
        isolation = ChosenIsolation(name="bwrap", tool="/usr/bin/bwrap", tentative=tentative)
        sealed = msgspec.structs.replace(setting, isolation=isolation)
        if not tentative:
            with pytest.raises(ClusterError, match="node n2: --isolation bwrap: bubblewrap is not"):
                joined(sealed, place, monkeypatch, answers=without)
            continue
        chosen = joined(sealed, place, monkeypatch, answers=without).setting.isolation
        assert chosen.name == "copy"
        assert chosen.reason == "bwrap: node n2: bubblewrap is not installed"


# What lies beside the suite.


def test_what_commands_name_travels_with_the_suite(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = Path(setting.checked.folder)
    (beside / "runs-of-yesterday").mkdir()
    (beside / "runs-of-yesterday" / "schedule.json").write_text("{}")
    (beside / "latest").symlink_to("runs-of-yesterday")
    (beside / "history").mkdir()
    (beside / ".git").symlink_to("history")
    checked = joined(setting, place, monkeypatch).setting.checked
    assert checked.copied == f"{place.path}/suite"
    there = {path.name for path in Path(checked.copied).iterdir()}
    assert there == {"suite.json", "agent.sh", "app", "history"}
    assert checked.shown == checked.copied
    assert checked.at("app") == f"{beside}/app"
    assert checked.shown_at("agent.sh") == f"{checked.copied}/agent.sh"


def test_a_dry_run_looks_for_files_where_they_are(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not in the copy that travels, which is gone once it has looked at the nodes."""
    monkeypatch.setattr(joining, "Cluster", Cluster)
    assert list(missing_files(setting.checked)) == []
    checked = rehearse(setting).setting.checked
    assert not os.path.exists(checked.copied)
    assert list(missing_files(checked)) == []
    os.unlink(checked.at("agent.sh"))
    (missing,) = missing_files(checked)
    assert missing == "agent.argv names {suite}/agent.sh, and there is no such file"


def test_what_nobody_names_stays(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(tmp_path / "s", agent={"argv": ["true"]})
    setting = set_up(str(suite), RunOptions(executor="ray"), {"PATH": "/bin"})
    checked = joined(setting, place, monkeypatch).setting.checked
    assert (checked.copied, checked.shown) == ("", checked.folder)


def test_too_much_beside_the_suite_is_refused(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (Path(setting.checked.folder) / "large").open("wb") as file:
        file.truncate(joining.MOST_SUITE_MB * 2**20)
    with pytest.raises(InputError, match="that is more than 256 MB; put the suite and what it"):
        joined(setting, place, monkeypatch)


# On a node.


def asked(setting: Setting, place: Place, **changed: Any) -> dict[str, Any]:
    """What a node finds when it looks around."""
    run = NodeRun(
        root=place.root,
        token=place.path.rpartition("/")[2],
        driver="x",
        sealer=sealer_of(setting.checked, setting.isolation),
        env=setting.env,
    )
    needs = NodeNeeds(run=msgspec.structs.replace(run, **changed), agent_version=None)
    return look_around(pickle.dumps(needs))


def test_a_node_that_has_everything(setting: Setting, place: Place) -> None:
    assert asked(setting, place) == {"problems": (), "isolation": "", "agent": None}
    # The run may be refused for another node.
    assert not os.path.exists(place.path)


def test_a_cache_that_will_not_do(setting: Setting, place: Place, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "AGENTS.md").write_text("Be kind.")
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for root, why in {
        "below/cache": "AGENTS.md` would be read by agents below it",
        "file/cache": "cannot be written: Not a directory",
        "link": "is a link",
    }.items():
        (problem,) = asked(setting, place, root=str(tmp_path / root))["problems"]
        assert why in problem
        assert problem.endswith("name a folder that all nodes have in TWOARM_CACHE")


def test_a_program_that_is_not_there(setting: Setting, place: Place) -> None:
    (problem,) = asked(setting, place, env={"PATH": "/nowhere"})["problems"]
    assert problem.startswith("agent `command`: no program `sh` on PATH")


@pytest.mark.parametrize("program", ["{suite}/agent.sh", "./agent.sh"])
def test_a_program_beside_the_suite_is_not_looked_for_before_it_travels(
    tmp_path: Path, place: Place, program: str
) -> None:
    suite = suite_of(tmp_path / "s", "#!/bin/sh\n", agent={"argv": [program]})
    (suite.parent / "agent.sh").chmod(0o755)
    setting = set_up(str(suite), RunOptions(executor="ray"), {"PATH": "/bin"})
    checked = msgspec.structs.replace(setting.checked, copied=f"{tmp_path}/of-the-runner/suite")
    travels = msgspec.structs.replace(setting, checked=checked)
    assert asked(travels, place)["problems"] == ()
    elsewhere = {"argv": [str(tmp_path / "elsewhere" / "agent.sh")]}
    agent = msgspec.structs.replace(checked.agent, **elsewhere)
    checked = msgspec.structs.replace(checked, agent=agent)
    (problem,) = asked(msgspec.structs.replace(setting, checked=checked), place)["problems"]
    assert problem.endswith("/elsewhere/agent.sh: no such file")


def test_an_isolation_that_is_not_there(
    setting: Setting, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for name, why in {
        "bwrap": "bubblewrap is not installed; see your package manager",
        "podman": "podman is not installed; see your package manager",
    }.items():
        isolation = ChosenIsolation(name=name, tool="/nowhere/tool")  # type: ignore[arg-type]
        sealer = sealer_of(setting.checked, isolation)
        monkeypatch.setattr("twoarm.run.executors.survey.sweep", lambda run: None)
        assert asked(setting, place, sealer=sealer)["isolation"] == why
