"""What commands of a suite see: as much in a sandbox or a container as in the open."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.containers import IMAGE
from tests.support.run_folders import committed, records, run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run import shown
from twoarm.run.tree import git

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(params=["copy", "bwrap", "podman"])
def isolation(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name != "copy":
        request.getfixturevalue({"bwrap": "bubblewrap"}.get(name, name))
    return name


def judged_by(command: str) -> dict[str, Any]:
    """A task, and what says of it that it is done; before anything is done, all is the same."""
    whole = f"test -f answer.txt && {command}"
    return {"tasks": [{"id": "one", "prompt": "p", "acceptance_command": whole}]}


def script_at(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def whole_suite(folder: Path) -> dict[str, Any]:
    """What no command names: what workspaces are made of, and the suite itself."""
    look = 'cd "$(dirname "$0")" && cmp "$OLDPWD/README.md" app/README.md && test -s suite.json\n'
    script_at(folder / "suite" / "check.sh", look)
    arms = {name: {"setup_commands": ["sh {suite}/check.sh"]} for name in ("with", "without")}
    return judged_by("sh {suite}/check.sh") | {"arms": arms}


def beside_it(folder: Path) -> dict[str, Any]:
    script_at(folder / "shared" / "check.sh", 'cmp "$1" answer.txt\n')
    script_at(folder / "shared" / "expected", "fixed\n")
    return judged_by("sh {suite}/../shared/check.sh {suite}/../shared/expected")


def source_beside_it(folder: Path) -> dict[str, Any]:
    """Workspaces are made of a folder that acceptance compares them with."""
    script_at(folder / "app" / "README.md", "an app\n")
    compared = "cmp README.md {suite}/../app/README.md && ls {suite}/../app | grep -q README"
    return judged_by(compared) | {"workspace": {"copy": "../app"}}


def build_of_an_arm(folder: Path) -> dict[str, Any]:
    """Setup links what was built into the workspace."""
    script_at(folder / "tool" / "index.sh", "#!/bin/sh\necho fixed\n")
    committed(folder / "tool")
    arm = {
        "source": {"repo": "../tool"},
        "build_commands": ["cp index.sh {build}/index && chmod +x {build}/index"],
        "setup_commands": ["ln -s {build}/index index"],
    }
    return judged_by("./index | cmp - answer.txt") | {"arms": {"with": arm, "without": arm}}


SUITES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "the whole suite": whole_suite,
    "what is beside it": beside_it,
    "a source beside it": source_beside_it,
    "the build of an arm": build_of_an_arm,
}


@pytest.mark.parametrize("what", SUITES)
def test_commands_see_in_there_what_they_see_in_the_open(
    tmp_path: Path, isolation: str, what: str
) -> None:
    changed = SUITES[what](tmp_path)
    if isolation == "podman":
        changed["workspace"] = {"image": IMAGE} | changed.get("workspace", {})
        changed["agent"] = {"network": "none"}
    suite, out = suite_of(tmp_path / "suite", SOLVE, **changed), tmp_path / "out"
    result = run(suite, out, "--isolation", isolation)
    assert result.code == 0, result.err
    assert [record["success"] for record in records(out)] == [True, True]


def test_a_suite_that_home_is_in_is_told(
    tmp_path: Path, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "suite"
    (folder / "me").mkdir(parents=True)
    place: dict[str, Any] = {"workspace": {"image": IMAGE}} if isolation == "podman" else {}
    suite = suite_of(folder, **place)
    for home, told in ((folder / "me", isolation != "copy"), (tmp_path, False)):
        monkeypatch.setenv("HOME", str(home))
        said = twoarm("run", str(suite), "--dry-run", "--isolation", isolation)
        assert said.code == 0, said.err
        assert ("your HOME is in the folder of the suite, so acceptance" in said.out) is told


def test_the_repository_of_a_work_tree_is_hidden_from_agents(
    tmp_path: Path, bubblewrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opt = tmp_path / "opt"
    monkeypatch.setattr(shown, "SYSTEM", (*shown.SYSTEM, str(opt)))
    main = committed(opt / "main")
    git(str(main), "worktree", "add", "-q", str(tmp_path / "tree"))
    (main / "solution.txt").write_text("hunter2\n")
    (opt / "other.txt").write_text("seen\n")
    script = f"cat '{opt}/other.txt' '{main}/solution.txt'; {SOLVE}"
    place = {"copy": None, "repo": "../tree"}
    suite, out = suite_of(tmp_path / "suite", script, workspace=place), tmp_path / "out"
    result = run(suite, out, "--isolation", "bwrap")
    assert result.code == 0, result.err
    assert (out / "runs" / "with" / "one.1" / "stdout.txt").read_text() == "seen\n"
