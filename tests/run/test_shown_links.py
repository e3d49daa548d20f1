"""What a sandbox shows where names lead elsewhere: links, environments, folders of the system."""

import json
import os
import re
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result, twoarm
from tests.support.run_folders import records, run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run import shown
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.shown import Layer, absolute_in, layers, led_out, named_in, program_trees
from twoarm.run.suite_file import read_suite

Sealed = Callable[..., Result]


@pytest.fixture(autouse=True)
def _cache(cache: Path) -> None:
    """Away from the user's own."""


@pytest.fixture
def sealed(bubblewrap: str, tmp_path: Path) -> Sealed:
    """A run of a suite in a sandbox."""

    def start(suite: Path) -> Result:
        return run(suite, tmp_path / "out", "--isolation", "bwrap")

    return start


def solved(tmp_path: Path) -> list[bool]:
    return [record["success"] for record in records(tmp_path / "out")]


def program_at(path: Path, text: str = "#!/bin/sh\necho fixed > answer.txt\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def environment_at(folder: Path) -> Path:
    """An environment whose program is a link, as that of Python is, to one that needs its `lib`."""
    program = program_at(folder.parent / "real" / "tool", '#!/bin/sh\n. "${0%/*}/../lib/solve"\n')
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "tool").symlink_to(program)
    (folder / "lib").mkdir()
    (folder / "lib" / "solve").write_text("echo fixed > answer.txt\n")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return folder


@pytest.mark.parametrize(
    "changed",
    [
        {"agent": {"env": {"PATH": "/usr/bin:/bin"}}},
        {"workspace": {"env": {"LD_LIBRARY_PATH": "/lib:/usr/lib"}}},
        {"agent": {"mounts": ["/bin"]}},
        {"arms": {"with": {"args": ["/sbin"]}}},
    ],
)
def test_a_link_of_the_system_may_be_named(
    sealed: Sealed, tmp_path: Path, changed: dict[str, Any]
) -> None:
    told = sealed(suite_of(tmp_path / "suite", **changed))
    assert told.code == 0, told.err
    assert solved(tmp_path) == [True] * 4


def test_an_environment_may_hold_what_is_hidden(
    sealed: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a tool is developed in its own environment, with the suite beside it."""
    venv = environment_at(tmp_path / "venv")
    monkeypatch.setenv("PATH", f"{venv}/bin{os.pathsep}{os.environ['PATH']}")
    suite = suite_of(venv / "src" / "suite", agent={"argv": ["tool"]})
    told = sealed(suite)
    assert told.code == 0, told.err
    assert solved(tmp_path) == [True] * 4


def test_an_environment_right_below_the_root_is_shown(tmp_path: Path) -> None:
    real = os.path.isfile

    def isfile(path: str) -> bool:
        return path == "/venv/pyvenv.cfg" or real(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os.path, "isfile", isfile)
        patch.setattr(os.path, "isdir", lambda path: path == "/venv/bin")
        patch.setattr(os.path, "exists", lambda path: path.startswith("/venv/"))
        assert "/venv/lib" in program_trees("/venv/bin", None, ["/home/me"])
        patch.setattr(os.path, "isfile", real)
        assert program_trees("/venv/bin", None, ["/home/me"]) == ["/venv/bin"]


def test_a_program_of_an_environment_that_is_not_on_path(sealed: Sealed, tmp_path: Path) -> None:
    venv = environment_at(tmp_path / "venv")
    told = sealed(suite_of(tmp_path / "suite", agent={"argv": [f"{venv}/bin/tool"]}))
    assert told.code == 0, told.err
    assert solved(tmp_path) == [True] * 4


@pytest.mark.parametrize("what", ["nosuch", "{folder}/tools/own"])
def test_what_a_script_is_started_with_is_looked_for_inside(
    sealed: Sealed, tmp_path: Path, what: str
) -> None:
    """In the open it may be there."""
    interpreter = what.replace("{folder}", str(tmp_path))
    program_at(tmp_path / "tools" / "own")
    first = interpreter if "/" in interpreter else f"/usr/bin/env {interpreter}"
    program_at(tmp_path / "suite" / "agent.py", f"#!{first}\n")
    told = sealed(suite_of(tmp_path / "suite", agent={"argv": ["./agent.py"]}))
    assert told.code == 2
    assert told.err.splitlines()[-1] == (
        f"twoarm: --isolation bwrap: {tmp_path}/suite/agent.py is started with {interpreter}, "
        "which is not there inside; name what it needs in agent.mounts"
    )


def test_the_loader_of_a_program_is_looked_for_inside(sealed: Sealed, tmp_path: Path) -> None:
    program = tmp_path / "suite" / "agent"
    program.parent.mkdir()
    content = Path(os.path.realpath(shutil.which("true") or "")).read_bytes()
    program.write_bytes(re.sub(rb"/ld-[a-z]", b"/ld-0", content))
    program.chmod(0o755)
    told = sealed(suite_of(tmp_path / "suite", agent={"argv": ["./agent"]}))
    assert told.code == 2
    assert f"{program} is started with /lib" in told.err
    assert "which is not there inside; name what it needs in agent.mounts" in told.err


def test_what_is_hidden_in_a_folder_of_the_system_may_have_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opt = tmp_path / "opt"
    monkeypatch.setattr(shown, "SYSTEM", (*shown.SYSTEM, str(opt)))
    program_at(opt / "repo" / "node_modules" / ".bin" / "tool")
    folder = f"{opt}/repo/node_modules/.bin"
    assert folder in program_trees(folder, None, [str(opt / "repo")])
    assert program_trees(folder, None, []) == []


def test_a_grader_may_be_a_link_out_of_the_suite(sealed: Sealed, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "grade.sh").write_text(". ${0%/*}/more.sh\n")
    (shared / "more.sh").write_text("test -f answer.txt\n")
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "grading").symlink_to(shared)
    tasks = [
        {"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/grading/grade.sh"},
        {"id": "two", "prompt": "p", "acceptance_command": "sh '{suite}'/grading/grade.sh"},
    ]
    reads = f"cat {shared}/grade.sh && exit 3; {SOLVE}"
    told = sealed(suite_of(folder, reads, tasks=tasks))
    assert told.code == 0, told.err
    assert solved(tmp_path) == [True] * 4
    suite = suite_of(folder, tasks=tasks, agent={"mounts": [str(shared)]})
    sealer = sealer_of(read_suite(str(suite)), ChosenIsolation(name="bwrap", tool="bwrap"))
    # By whatever name they see it.
    assert sealer.readable_graders() == [f"{folder}/grading/grade.sh"]


def test_a_grader_may_be_at_the_end_of_several_links(sealed: Sealed, tmp_path: Path) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    folder = tmp_path / "suite"
    for path in (first, last, folder):
        path.mkdir()
    (last / "grade.sh").write_text("test -f answer.txt\n")
    (first / "grade.sh").symlink_to("../last/grade.sh")
    (folder / "grade.sh").symlink_to(first / "grade.sh")
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/grade.sh"}]
    told = sealed(suite_of(folder, tasks=tasks))
    assert told.code == 0, told.err
    assert solved(tmp_path) == [True] * 2


def test_a_link_to_what_is_hidden_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, folder = tmp_path / "home", tmp_path / "suite"
    (home / "mine").mkdir(parents=True)
    folder.mkdir()
    (folder / "home").symlink_to(home)
    (folder / "mine").symlink_to(home / "mine")
    (folder / "above").symlink_to(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    command = "ls {suite}/home {suite}/mine {suite}/above"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": command}]
    suite = read_suite(str(suite_of(folder, tasks=tasks)))
    sealer = sealer_of(suite, ChosenIsolation(name="bwrap", tool="bwrap"))
    words = sealer.for_acceptance("one").words["acceptance"]
    assert str(home / "mine") in words
    for path in (home, tmp_path):
        assert ("--ro-bind", str(path)) not in pairwise(words)


def test_where_links_lead_out_of_a_folder(tmp_path: Path) -> None:
    folder, other = tmp_path / "suite", tmp_path / "other"
    (folder / "in").mkdir(parents=True)
    other.mkdir()
    (folder / "out").symlink_to(other)
    (folder / "same").symlink_to("in")
    paths = [f"{folder}/{name}" for name in ("out/x/y", "out/z", "same/x", "in/x")]
    assert led_out([*paths, str(folder), "/elsewhere"], str(folder)) == [str(other)]


def test_a_version_on_path_may_be_a_link(tmp_path: Path) -> None:
    """Beside the link there may be one thing, and beside what it leads to another."""
    real = tmp_path / "versions" / "v20"
    program_at(real / "bin" / "node")
    (real / "lib" / "agent").mkdir(parents=True)
    (tmp_path / "current").symlink_to(real)
    trees = program_trees(f"{tmp_path}/current/bin", None, [])
    assert {f"{tmp_path}/current/lib", f"{real}/lib"} <= set(trees)


def test_links_in_folders_of_the_system_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, node = tmp_path / "usr", program_at(tmp_path / "nvm" / "v20" / "bin" / "node")
    (node.parent.parent / "lib").mkdir()
    system.mkdir()
    (system / "node").symlink_to(node)
    monkeypatch.setattr(shown, "SYSTEM", (*shown.SYSTEM, str(system)))
    assert str(node.parent.parent / "lib") in program_trees(str(system), None, [])


@pytest.mark.parametrize("arm", ["with", "without"])
def test_an_agent_reads_what_its_own_arm_names(sealed: Sealed, tmp_path: Path, arm: str) -> None:
    secret = tmp_path / "elsewhere" / "change.json"
    secret.parent.mkdir()
    secret.write_text("the change\n")
    arms = {"with": {"args": ["--cfg", str(secret)]}}
    script = f"cat '{secret}'; {SOLVE}"
    assert sealed(suite_of(tmp_path / "suite", script, arms=arms)).code == 0
    told = (tmp_path / "out" / "runs" / arm / "one.1" / "stdout.txt").read_text()
    assert told == ("the change\n" if arm == "with" else "")


def test_a_suite_on_path_is_not_shown_and_a_folder_of_it_is_told(
    sealed: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "suite"
    program_at(folder / "bin" / "grade.sh", "test -f answer.txt\n")
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/bin/grade.sh"}]
    script = f"cat {folder}/bin/grade.sh {folder}/suite.json; {SOLVE}"
    suite = suite_of(folder, script, tasks=tasks)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert sealed(suite).code == 0
    told = (tmp_path / "out" / "runs" / "with" / "one.1" / "stdout.txt").read_text()
    assert told == ""
    monkeypatch.setenv("PATH", f"{folder}/bin{os.pathsep}{os.environ['PATH']}")
    dry = twoarm("run", str(suite), "--isolation", "bwrap", "--dry-run")
    assert (
        f"agents can read {folder}/bin/grade.sh, which acceptance names; keep it out of "
        "agent.mounts, of PATH and of what their command line names"
    ) in dry.out


def test_whoever_names_the_whole_suite_shows_its_graders(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "grade.sh").touch()
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/grade.sh"}]
    for env, seen in (({}, False), ({"S": "{suite}"}, True)):
        suite = suite_of(folder, tasks=tasks, agent={"env": env})
        for name in ("bwrap", "podman"):
            sealer = sealer_of(read_suite(str(suite)), ChosenIsolation(name=name, tool=name))
            assert bool(sealer.readable_graders()) is seen


@pytest.mark.parametrize("host", ["run", "proc", "tmp", "dev", "etc"])
def test_a_host_is_no_folder(host: str) -> None:
    assert absolute_in([f"http://{host}:80/v1", f"//{host}/share"], []) == []
    assert absolute_in(["file:///etc/hosts", "x=/etc/hosts"], []) == ["/etc/hosts"] * 2


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_folder_in_quotes_of_its_own_is_part_of_a_name(tmp_path: Path, quote: str) -> None:
    (tmp_path / "agent.sh").touch()
    text = f"exec sh {quote}{tmp_path}{quote}/agent.sh"
    assert named_in([text], str(tmp_path)) == [f"{tmp_path}/agent.sh"]
    assert named_in([f"ls {quote}{tmp_path}{quote} /"], str(tmp_path)) == [str(tmp_path)]


def test_a_suite_file_that_is_a_link_is_hidden_where_it_really_is(tmp_path: Path) -> None:
    real = suite_of(tmp_path / "real")
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "suite.json").symlink_to(real)
    (folder / "app").mkdir()
    suite = suite_of(tmp_path / "mounted", agent={"mounts": [str(real.parent)]})
    suite.unlink()
    suite.symlink_to(real)
    real.write_text(
        json.dumps(json.loads(real.read_text()) | {"agent": {"program": "command", "argv": ["sh"],
                                                             "mounts": [str(real.parent)]}})
    )  # fmt: skip
    sealer = sealer_of(read_suite(str(suite)), ChosenIsolation(name="bwrap", tool="bwrap"))
    words = sealer.for_agent("one", "", []).words["agent"]
    at = words.index(str(real))
    assert words[at - 2 : at] == ("--ro-bind", "/dev/null")


def test_a_suite_by_a_link_is_not_shown_by_its_real_name(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    suite_of(real, agent={"env": {"D": str(real)}})
    link.symlink_to(real)
    suite = read_suite(str(link / "suite.json"))
    sealer = sealer_of(suite, ChosenIsolation(name="bwrap", tool="bwrap"))
    assert str(real) not in sealer.for_agent("one", "", []).words["agent"]


def test_what_is_hidden_or_shown_behind_a_link_in_what_is_shown(tmp_path: Path) -> None:
    """The link is there, and nothing can be put in its place."""
    outer, real = tmp_path / "outer", tmp_path / "real"
    (real / "tool").mkdir(parents=True)
    outer.mkdir()
    (outer / "link").symlink_to(real)
    assert layers([str(outer)], [f"{outer}/link"]) == [(str(outer), Layer.SHOWN)]
    assert layers([str(outer), f"{outer}/link/tool"], [f"{outer}/link"]) == [
        (str(outer), Layer.SHOWN),
        (f"{real}/tool", Layer.SHOWN),
    ]


def test_a_suite_behind_a_link_in_a_folder_of_the_system(
    sealed: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opt, real = tmp_path / "opt", tmp_path / "real"
    opt.mkdir()
    real.mkdir()
    (opt / "link").symlink_to(real)
    monkeypatch.setattr(shown, "SYSTEM", (*shown.SYSTEM, str(opt)))
    script = f"ls {real}/suite {opt}/link/suite; {SOLVE}"
    told = sealed(suite_of(opt / "link" / "suite", script))
    assert told.code == 0, told.err
    assert solved(tmp_path) == [True] * 4
    seen = (tmp_path / "out" / "runs" / "with" / "one.1" / "stdout.txt").read_text()
    assert seen.count("agent.sh") == 2
    assert "suite.json" not in seen


@pytest.mark.parametrize("path", ["/tmp", "/var/tmp", "/dev"])
def test_a_mount_in_place_of_what_agents_have_for_themselves(
    sealed: Sealed, tmp_path: Path, path: str
) -> None:
    told = sealed(suite_of(tmp_path / "suite", agent={"mounts": [path]}))
    assert told.code == 2
    assert f"agent.mounts: {path} would take the place of the " in told.err


@pytest.mark.parametrize(("mount", "seen"), [("~", True), ("~/..", True), ("~/tools", False)])
def test_a_mount_that_shows_home_is_told(
    bubblewrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str, seen: bool
) -> None:
    (tmp_path / "above" / "home" / "tools").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "above" / "home"))
    suite = suite_of(tmp_path / "suite", agent={"mounts": [mount]})
    dry = twoarm("run", str(suite), "--isolation", "bwrap", "--dry-run")
    told = f"warning: agents can read your HOME, since agent.mounts names {mount}; name the folders"
    assert (told in dry.out) is seen


def test_mounts_mean_nothing_where_nothing_is_held_back(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite", agent={"mounts": ["/", "nosuch"]})
    assert twoarm("run", str(suite), "--isolation", "copy", "--dry-run").code == 0


def test_a_cache_that_is_mounted_is_hidden(
    sealed: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "scratch"
    cache.mkdir()
    (cache / "own.txt").touch()
    monkeypatch.setenv("TWOARM_CACHE", str(cache))
    script = f"find '{cache}' -name place.json -o -name prepared.json -o -name own.txt; {SOLVE}"
    suite = suite_of(tmp_path / "suite", script, agent={"mounts": [str(cache)]})
    assert sealed(suite).code == 0
    told = (tmp_path / "out" / "runs" / "with" / "one.1" / "stdout.txt").read_text()
    assert told == f"{cache}/own.txt\n"


def test_what_is_hidden_is_hidden_by_every_name(tmp_path: Path) -> None:
    hidden, link = tmp_path / "real" / "hidden", tmp_path / "link"
    hidden.mkdir(parents=True)
    link.symlink_to(hidden.parent)
    assert layers([str(link)], [str(hidden)]) == [
        (str(link), Layer.SHOWN),
        (str(link / "hidden"), Layer.EMPTY),
    ]
