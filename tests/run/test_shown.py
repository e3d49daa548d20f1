"""What a sandbox shows of this machine: what is named, what programs need, and by which names."""

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import twoarm
from tests.support.run_folders import records, run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run import shown
from twoarm.run.isolation import ChosenIsolation, inside, sealer_of
from twoarm.run.shown import Layer, keys_in, layers, program_trees
from twoarm.run.suite_file import read_suite

Cat = Callable[..., bytes]


@pytest.fixture
def cat(bubblewrap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cat:
    """What an agent reads at a path; `opt` of this test is shown as a folder of the system."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(shown, "SYSTEM", (*shown.SYSTEM, str(tmp_path / "opt")))
    (tmp_path / "home").mkdir()
    (tmp_path / "opt").mkdir()

    def read(suite: Path, path: Path, *kept_back: str) -> bytes:
        checked = read_suite(str(suite))
        chosen = ChosenIsolation(name="bwrap", tool=bubblewrap)
        sealer = sealer_of(checked, chosen, "/bin/cat", "", kept_back)
        return inside(sealer, ["/bin/cat", str(path)]).stdout

    return read


def secret_at(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "secret.txt"
    path.write_text("hunter2\n")
    return path


def test_a_folder_of_the_system_is_shown(cat: Cat, tmp_path: Path) -> None:
    # Otherwise the tests below would say nothing.
    assert cat(suite_of(tmp_path / "suite"), secret_at(tmp_path / "opt")) == b"hunter2\n"


SOURCES: dict[str, Callable[[str], dict[str, Any]]] = {
    "copied": lambda path: {"workspace": {"copy": path}},
    "exported": lambda path: {"workspace": {"copy": None, "repo": path}},
    "built": lambda path: {"arms": {"with": {"source": {"repo": path}}}},
}


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "by a link"])
@pytest.mark.parametrize("way", SOURCES)
def test_what_workspaces_are_made_of_is_hidden(
    cat: Cat, tmp_path: Path, way: str, linked: bool
) -> None:
    secret = secret_at(tmp_path / "opt" / "app")
    source = secret.parent
    if linked:
        source = tmp_path / "link"
        source.symlink_to(secret.parent)
    assert cat(suite_of(tmp_path / "suite", **SOURCES[way](str(source))), secret) == b""


def test_a_suite_behind_a_link_is_hidden_where_it_really_is(cat: Cat, tmp_path: Path) -> None:
    real = tmp_path / "opt" / "suite"
    suite_of(real)
    (tmp_path / "link").symlink_to(real)
    assert cat(tmp_path / "link" / "suite.json", secret_at(real)) == b""


def test_a_run_folder_behind_a_link_is_hidden_where_it_really_is(cat: Cat, tmp_path: Path) -> None:
    secret = secret_at(tmp_path / "opt" / "out")
    (tmp_path / "link").symlink_to(secret.parent)
    assert cat(suite_of(tmp_path / "suite"), secret, str(tmp_path / "link")) == b""


def test_a_home_behind_a_link_is_hidden_where_it_really_is(cat: Cat, tmp_path: Path) -> None:
    secret = secret_at(tmp_path / "opt" / "user")
    (tmp_path / "home").rmdir()
    (tmp_path / "home").symlink_to(secret.parent)
    assert cat(suite_of(tmp_path / "suite"), secret) == b""


def test_of_a_suite_that_home_is_in_acceptance_sees_what_it_names(tmp_path: Path) -> None:
    home = tmp_path / "suite" / "me"
    home.mkdir(parents=True)
    (tmp_path / "suite" / "grade.sh").write_text("true\n")
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/grade.sh"}]
    checked = read_suite(str(suite_of(tmp_path / "suite", tasks=tasks)))
    chosen = ChosenIsolation(name="bwrap", tool="bwrap")
    words = {}
    for where, path in {"inside": home, "elsewhere": tmp_path / "home"}.items():
        path.mkdir(exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(path))
            words[where] = sealer_of(checked, chosen).for_acceptance("one").words["acceptance"]
    folder = str(tmp_path / "suite")
    assert folder in words["elsewhere"]
    assert folder not in words["inside"]
    assert f"{folder}/grade.sh" in words["inside"]


@pytest.mark.parametrize(
    "name", ["{suite}", "{suite}/conf", "sh {suite}/'agent.sh'", "cd {suite} && sh agent.sh"]
)
def test_home_itself_is_shown_by_no_name_of_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As where the suite lies right in it."""
    folder = tmp_path / "suite"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": name}]
    suite = suite_of(folder, tasks=tasks)
    (folder / "conf").symlink_to(folder)
    monkeypatch.setenv("HOME", str(folder))
    text = name.replace("{suite}", str(folder))
    for step in ("agent", "acceptance"):
        paths = shown_to(step, suite, text)
        assert not {str(folder), f"{folder}/conf"} & paths
        assert (f"{folder}/agent.sh" in paths) is ("'" in name)


def test_each_step_reads_what_it_names_itself(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite")
    sealer = sealer_of(read_suite(str(suite)), ChosenIsolation(name="bwrap", tool="bwrap"))
    named = sealer.for_agent("one", "", [str(suite)]).words
    for _ in range(2):
        words = sealer.for_agent("one", "", []).words
        assert str(suite) not in words["agent"]
        assert str(suite.parent) in words["acceptance"]
    assert str(suite) in named["agent"]


def shown_to(step: str, suite: Path, *texts: str, program: Path | None = None) -> set[str]:
    """The paths that a step may read; its own texts name some."""
    chosen = ChosenIsolation(name="bwrap", tool="bwrap")
    sealer = sealer_of(read_suite(str(suite)), chosen, str(program) if program else None)
    words = sealer.for_agent("one", "", texts).words[step]
    return {path for how, path in pairwise(words) if how == "--ro-bind"}


def test_what_variables_of_every_step_name_is_shown_to_every_step(tmp_path: Path) -> None:
    tools = tmp_path / "my tools"
    tools.mkdir()
    suite = suite_of(
        tmp_path / "suite",
        workspace={"env": {"TOOLS": f"{tools}"}},
        arms={"with": {"setup_commands": ["true"]}},
    )
    for step in ("setup", "agent", "acceptance"):
        assert str(tools) in shown_to(step, suite)


def test_acceptance_may_name_what_workspaces_are_made_of(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": f"diff -r '{source}' ."}]
    suite = suite_of(tmp_path / "suite", tasks=tasks, workspace={"copy": str(source)})
    assert str(source) in shown_to("acceptance", suite)
    assert str(source) not in shown_to("agent", suite, f"diff -r '{source}' .")


@pytest.mark.parametrize("place", ["bin", "tools/bin"])
def test_beside_a_program_of_the_suite_nothing_is_shown(tmp_path: Path, place: str) -> None:
    suite = suite_of(tmp_path / "suite")
    program, grader = (tmp_path / "suite" / place / name for name in ("agent", "grade.sh"))
    program.parent.mkdir(parents=True)
    (program.parent.parent / "share").mkdir()
    for path in (program, grader):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    (tmp_path / "link").symlink_to(program.parent)
    for name in (program, tmp_path / "link" / "agent"):
        paths = shown_to("agent", suite, str(name), program=name)
        assert str(program) in paths
        beside = {program.parent, grader, program.parent.parent / "share"}
        assert not set(map(str, beside)) & paths


@pytest.mark.parametrize("name", ["{suite}/..", "{suite}/../home", "link", "home-link"])
def test_what_holds_what_is_kept_back_is_not_shown_by_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home, folder = tmp_path / "home", tmp_path / "suite"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "home-link").symlink_to(home)
    named = name if "{" in name else str(tmp_path / name)
    suite = suite_of(folder, agent={"env": {"D": named}})
    text = named.replace("{suite}", str(folder))
    paths = shown_to("agent", suite, text, f"{folder}/agent.sh")
    assert f"{folder}/agent.sh" in paths
    assert not {str(home), str(tmp_path), str(folder), text} & paths


def test_what_is_beside_a_suite_can_be_named_from_there(tmp_path: Path) -> None:
    tool = tmp_path / "tools" / "agent.sh"
    tool.parent.mkdir()
    tool.touch()
    suite = suite_of(tmp_path / "suite")
    assert str(tool) in shown_to("agent", suite, f"{tmp_path}/suite/../tools/agent.sh")


def test_a_suite_that_is_a_folder_of_the_system_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opt, other = tmp_path / "opt", tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(shown, "SYSTEM", (*shown.SYSTEM, str(opt), str(other)))
    paths = shown_to("agent", suite_of(opt))
    assert str(other) in paths
    assert str(opt) not in paths


def test_the_file_that_tasks_are_from_is_hidden(cat: Cat, tmp_path: Path) -> None:
    tasks = tmp_path / "opt" / "tasks.json"
    suite_of(tmp_path / "opt" / "x").rename(tasks)
    suite = suite_of(tmp_path / "suite", tasks=None, tasks_from=str(tasks))
    assert cat(suite, tasks) == b""
    assert cat(suite, secret_at(tmp_path / "opt")) != b""


def test_a_folder_of_programs_that_cannot_be_listed_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert shown.program_trees(str(folder), None, []) == [str(folder)]


# What is beside a folder of programs, and whether an agent sees it.
BESIDE: dict[str, tuple[tuple[str, ...], bool]] = {
    "packages of a user of Go": (("go/src/acme/secret.txt", "go/pkg/mod/x"), False),
    "a project with a version": (("app/src/secret.txt", "app/VERSION"), False),
    "Go itself": (("sdk/go/src/secret.txt", "sdk/go/src/runtime/runtime.go"), True),
    "Go's tools": (("sdk/go/pkg/secret.txt", "sdk/go/src/runtime/runtime.go"), True),
    "a server's settings": (("server/conf/secret.txt",), False),
    "Java's settings": (("jdk/conf/secret.txt", "jdk/release"), True),
    "programs of a user": (("own/opt/secret.txt",), False),
    "programs of Homebrew": (("brew/opt/secret.txt", "brew/Cellar/x"), True),
}


@pytest.mark.parametrize("what", BESIDE)
def test_what_is_beside_programs_is_shown_only_if_they_are_made_of_it(
    cat: Cat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (name, *more), seen = BESIDE[what]
    home = tmp_path / "home"
    for path in more:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).touch()
    secret = secret_at((home / name).parent)
    prefix = home / ("sdk/go" if name.startswith("sdk") else name.split("/")[0])
    (prefix / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{prefix}/bin{os.pathsep}{os.environ['PATH']}")
    assert cat(suite_of(tmp_path / "suite"), secret) == (b"hunter2\n" if seen else b"")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600])
@pytest.mark.parametrize("where", [".", "app", "app/conf.d/more"])
def test_settings_of_the_machine_that_are_not_for_everybody_are_hidden(
    cat: Cat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, mode: int
) -> None:
    monkeypatch.setattr(shown, "_SECRETIVE", str(tmp_path / "opt"))
    secret = secret_at(tmp_path / "opt" / where)
    secret.chmod(mode)
    (tmp_path / "opt" / "link").symlink_to(tmp_path / "opt")
    assert cat(suite_of(tmp_path / "suite"), secret) == (b"hunter2\n" if mode & 0o004 else b"")


def test_of_very_many_settings_those_that_were_not_looked_at_are_hidden(
    cat: Cat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "_SECRETIVE", str(tmp_path / "opt"))
    monkeypatch.setattr(shown, "_MOST_FOLDERS", 2)
    known, unknown = secret_at(tmp_path / "opt" / "a"), secret_at(tmp_path / "opt" / "a" / "b")
    suite = suite_of(tmp_path / "suite")
    assert (cat(suite, known), cat(suite, unknown)) == (b"hunter2\n", b"")


def test_a_grader_that_agents_can_read_is_told(
    cat: Cat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    grader, tool = tmp_path / "opt" / "grade.sh", tmp_path / "opt" / "tool" / "bin" / "check"
    tool.parent.mkdir(parents=True)
    for path in (grader, tool, tmp_path / "grade.sh"):
        path.write_text("#!/bin/sh\nfalse\n")
        path.chmod(0o755)
    beside = suite_of(tmp_path / "opt" / "suite")
    (beside.parent / "grade.sh").write_text("false\n")
    warning = f"warning: agents can read {grader}, which acceptance names; move it to the folder"
    commands = {
        f"sh {grader}": True,
        f"sh {tmp_path}/grade.sh": False,
        f"{tool} && PATH={tool.parent.parent} cmp /etc/hosts /dev/null": False,
        f"sh {beside.parent}/grade.sh": False,
    }
    for command, told in commands.items():
        tasks = [{"id": name, "prompt": "p", "acceptance_command": command} for name in "ab"]
        suite_of(beside.parent, tasks=tasks)
        result = twoarm("run", str(beside), "--dry-run", "--isolation", "bwrap")
        assert result.code == 0, result.err
        assert result.out.count("warning: agents can read") == result.out.count(warning) == told


@pytest.mark.parametrize(("mounts", "seen"), [([], False), (["."], True), (["tests"], True)])
def test_a_grader_that_mounts_show_is_told(
    cat: Cat, tmp_path: Path, mounts: list[str], seen: bool
) -> None:
    grader = tmp_path / "suite" / "tests" / "grade.sh"
    grader.parent.mkdir(parents=True)
    grader.write_text("test -f answer.txt\n")
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/tests/grade.sh"}]
    suite = suite_of(tmp_path / "suite", tasks=tasks, agent={"mounts": mounts})
    chosen = ChosenIsolation(name="bwrap", tool="bwrap")
    for isolation in (chosen, msgspec.structs.replace(chosen, name="podman")):
        sealer = sealer_of(read_suite(str(suite)), isolation)
        assert sealer.readable_graders() == ([str(grader)] if seen else [])


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ({}, False),
        ({"workspace": {"env": {"GRADING": "{folder}"}}}, True),
        ({"arms": {"with": {"prompt_template": "{prompt} See {suite}/tests, please."}}}, True),
    ],
)
def test_a_grader_that_variables_or_prompts_show_is_told(
    tmp_path: Path, changed: dict[str, Any], seen: bool
) -> None:
    folder = tmp_path / "suite"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "grade.sh").touch()
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/tests/grade.sh"}]
    filled = json.loads(json.dumps(changed).replace("{folder}", str(folder)))
    suite = read_suite(str(suite_of(folder, tasks=tasks, **filled)))
    sealer = sealer_of(suite, ChosenIsolation(name="bwrap", tool="bwrap"))
    assert sealer.readable_graders() == ([f"{folder}/tests/grade.sh"] if seen else [])


def test_a_task_that_mentions_a_file_of_the_suite_does_not_show_it(
    cat: Cat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOARM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "suite"
    key = secret_at(folder)
    task = {
        "id": "one",
        "prompt": f"Leave {key} alone.",
        "acceptance_command": f"test -f answer.txt && cat {key}",
    }
    suite = suite_of(
        folder,
        f"cat {key}; {SOLVE}",
        agent={
            "argv": ["sh", "{suite}/agent.sh", "{prompt}"],
            "env": {"ASKED": "{prompt} {acceptance_command}"},
        },
        arms={
            "with": {"prompt_template": "{prompt} Read {suite}/secret.txt first."},
            "without": {"prompt_template": "{prompt} {acceptance_command}"},
        },
        tasks=[task],
    )
    out = tmp_path / "out"
    assert run(suite, out, "--isolation", "bwrap").code == 0
    assert [record["success"] for record in records(out)] == [True, True]
    said = {
        arm: (out / "runs" / arm / "one.1" / "stdout.txt").read_text()
        for arm in ("with", "without")
    }
    # Whoever writes an arm may show it.
    assert said == {"with": "hunter2\n", "without": ""}


def test_what_is_hidden_is_hidden_below_what_is_shown_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    outer, hidden = tmp_path / "outer", tmp_path / "outer" / "hidden"
    shown = hidden / "shown"
    shown.mkdir(parents=True)
    (outer / "key").touch()
    reads, kept_back = (outer, shown, outer / "more"), (hidden, outer / "key", "/nowhere")
    assert layers(map(str, reads), map(str, kept_back)) == [
        (str(outer), Layer.SHOWN),
        (str(hidden), Layer.EMPTY),
        (str(outer / "key"), Layer.BLANK),
        (str(shown), Layer.SHOWN),
    ]
    assert layers([str(shown)], [str(outer)]) == [(str(shown), Layer.SHOWN)]


def test_programs_below_home_are_shown_with_what_they_are_made_of(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for path in (".nvm/v20/bin", ".nvm/v20/lib", ".pyenv/versions/3/bin", ".local/bin", "bin",
                 ".local/share/tool/bin", ".cargo/bin", "venv/bin", "agents/node_modules/.bin",
                 "agents/node_modules/cli/dist"):  # fmt: skip
        (home / path).mkdir(parents=True)
    (home / "venv" / "pyvenv.cfg").write_text(f"home = {home}/.pyenv/versions/3/bin\n")
    for path in (".local/share/tool/bin/tool", "agents/node_modules/cli/dist/cli.js",
                 ".cargo/credentials.toml", "bin/.netrc"):  # fmt: skip
        (home / path).touch()
    (home / ".local/bin/tool").symlink_to(home / ".local/share/tool/bin/tool")
    (home / "agents/node_modules/.bin/cli").symlink_to("../cli/dist/cli.js")
    folders = (".nvm/v20/bin", ".local/bin", "bin", ".cargo/bin", "venv/bin",
               "agents/node_modules/.bin")  # fmt: skip
    path = ":".join([*(str(home / folder) for folder in folders), "/usr/bin", "relative", ""])
    trees = program_trees(path, None, (str(home),))
    shown = {os.path.relpath(tree, home) for tree in trees}
    assert shown >= {".nvm/v20/bin", ".nvm/v20/lib", ".local/bin", ".local/share/tool/bin", "bin",
                     ".cargo/bin", "venv/bin", "venv/pyvenv.cfg", ".pyenv/versions/3/bin",
                     "agents/node_modules"}  # fmt: skip
    # Whatever else a folder of programs is beside may be anything.
    assert not shown & {".", ".local", ".pyenv", ".cargo", ".cargo/credentials.toml", "venv"}
    assert not any(tree.startswith("/usr") for tree in trees)
    assert list(keys_in(trees)) == [str(home / "bin" / ".netrc")]
