"""Keys of a suite that name a path: whatever lies there, the user's own files stay as they are.

Every case goes through a dry run, a run that is killed, status, stop, resume and score; the yard
compares the user's files around each of them.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result, twoarm
from tests.support.canaries import git, pipe, repository
from tests.support.run_folders import QUICK, records
from tests.support.suite_files import SOLVE
from tests.support.yard import Yard

# From wherever a link is: above the root there is the root.
UP = "../" * 40


def far(path: Path) -> str:
    """A relative path that leads there from any depth."""
    return UP + str(path).lstrip("/")


def passed(yard: Yard, result: Result) -> None:
    assert result.code == 0, result.err
    # What was under way when the runner was killed is a line as well.
    ended = [record for record in records(yard.out) if record["failure"] != "interrupted"]
    assert [record["success"] for record in ended] == [True, True]


# workspace.copy: how the folder is there, and a file that every workspace must have of it.


def _linked(target: Callable[[Yard], str | Path]) -> Callable[[Yard], str]:
    def make(yard: Yard) -> str:
        yard.folder.mkdir(exist_ok=True)
        (yard.folder / "app").symlink_to(target(yard))
        return "seed.txt"

    return make


def _twice_linked(yard: Yard) -> str:
    yard.folder.mkdir()
    (yard.folder / "hop").symlink_to(yard.user / "repo")
    (yard.folder / "app").symlink_to("hop")
    return "seed.txt"


def _links_inside(yard: Yard) -> str:
    app = yard.app()
    (app / "absolute").symlink_to(yard.user / "docs")
    (app / "relative").symlink_to("../../docs")
    (app / "far").symlink_to(far(yard.user / "docs"))
    (app / "file").symlink_to(yard.user / "docs" / "letter.txt")
    (app / "dangling").symlink_to("nowhere")
    (app / "loop").symlink_to("loop")
    (app / "above").symlink_to("..")
    return "README.md"


def _linked_history(yard: Yard) -> str:
    (yard.app() / ".git").symlink_to(yard.user / "repo" / ".git")
    return "README.md"


def _far_history(yard: Yard) -> str:
    (yard.app() / ".git").symlink_to(far(yard.user / "repo" / ".git"))
    return "README.md"


def _history_elsewhere(yard: Yard) -> str:
    (yard.app() / ".git").write_text(f"gitdir: {yard.user / 'repo' / '.git'}\n")
    return "README.md"


def _worktree(yard: Yard) -> str:
    git(yard.user / "repo", "worktree", "add", "-q", str(yard.folder / "app"), "other")
    return "seed.txt"


def _nested(yard: Yard) -> str:
    app = yard.app()
    repository(app / "vendor")
    (app / "empty").mkdir()
    (app / "empty" / "file.txt").write_text("here\n")
    git(app / "empty", "init", "-q")
    (app / "sub").mkdir()
    (app / "sub" / ".git").symlink_to(yard.user / "repo" / ".git")
    (app / "module").mkdir()
    (app / "module" / ".git").write_text(f"gitdir: {yard.user / 'repo' / '.git'}\n")
    return "empty/file.txt"


def _odd_things(yard: Yard) -> str:
    app = yard.app()
    pipe(app / "pipe")
    os.mknod(app / "socket", stat.S_IFSOCK | 0o600)
    for name in (b"new\nline", b"latin-\xe9", b"-rf", b"sp ace "):
        Path(os.fsdecode(os.fsencode(app) + b"/" + name)).write_text("odd\n")
    (app / "hard").hardlink_to(yard.user / "docs" / "letter.txt")
    (app / "closed").mkdir()
    (app / "closed" / "file").write_text("x\n")
    (app / "closed").chmod(0o555)
    return "-rf"


def _pipes_for_git(yard: Yard) -> str:
    for name in (".gitignore", ".gitattributes", ".gitmodules", "below/.gitignore"):
        pipe(yard.app() / name)
    return "below"


COPIES: dict[str, Callable[[Yard], str]] = {
    "an absolute link to a repository": _linked(lambda yard: yard.user / "repo"),
    "a relative link to a repository": _linked(lambda yard: "../repo"),
    "a far link to a repository": _linked(lambda yard: far(yard.user / "repo")),
    "a link to a link to a repository": _twice_linked,
    "links inside that lead out": _links_inside,
    "a linked .git": _linked_history,
    "a .git that is linked from afar": _far_history,
    "a .git that is a file": _history_elsewhere,
    "a worktree of a repository": _worktree,
    "repositories in it": _nested,
    "pipes, sockets and odd names": _odd_things,
    "pipes that git would read": _pipes_for_git,
}


@pytest.mark.parametrize("how", COPIES)
def test_the_folder_that_is_copied_stays_as_it_is(yard: Yard, how: str) -> None:
    there = COPIES[how](yard)
    task = {"id": "one", "prompt": "p", "acceptance_command": f"test -e answer.txt -a -e ./{there}"}
    cycle = yard.cycle(yard.suite(f"[ -e .git/refs/heads/other ] || {SOLVE}", tasks=[task]))
    if COPIES[how] is _pipes_for_git:
        assert cycle.dry.code == 2
        assert "not a file, and git would wait for it" in cycle.dry.err
        return
    assert cycle.dry.code == 0, cycle.dry.err
    passed(yard, cycle.resumed)


@pytest.mark.parametrize("target", ["docs", "../user/docs", "links/folder", "."])
def test_a_link_to_a_folder_is_copied_as_that_folder(yard: Yard, target: str) -> None:
    yard.folder.mkdir()
    (yard.folder / "app").symlink_to(yard.user / target)
    cycle = yard.cycle(yard.suite(f"ls -ld .; {SOLVE}; rm -rf docs deep closed"))
    assert cycle.dry.code == 0, cycle.dry.err
    passed(yard, cycle.resumed)


def test_a_repository_of_the_user_is_only_read(yard: Yard) -> None:
    # Its index would be written anew by whoever asks for its status without care.
    os.utime(yard.user / "repo" / "seed.txt", ns=(1, 1))
    suite = yard.suite(workspace={"copy": None, "repo": "../repo"})
    cycle = yard.cycle(suite)
    assert cycle.dry.code == 0, cycle.dry.err
    passed(yard, cycle.resumed)


def test_the_source_of_an_arm_is_only_read(yard: Yard) -> None:
    os.utime(yard.user / "repo" / "seed.txt", ns=(1, 1))
    source = {"repo": "../links/repo", "ref": "main"}
    arms = {"with": {"source": source, "build_commands": ["cp seed.txt {build}/"]}}
    yard.app()
    cycle = yard.cycle(yard.suite(arms=arms))
    assert cycle.dry.code == 0, cycle.dry.err
    passed(yard, cycle.resumed)


# What the arms take away and put there, through a folder that is a link.

NOTE = "a note\n"


def as_it_says_or_refused(yard: Yard, changed: dict[str, Any], key: str, shown: str) -> None:
    """The workspace is as the suite says; or the suite is refused, and told by its key."""
    (yard.folder / "note.md").write_text(NOTE)
    cycle = yard.cycle(yard.suite(f"{shown} > shown.txt 2>&1; cat shown.txt; {SOLVE}", **changed))
    assert (cycle.dry.code == 2) == (cycle.resumed.code == 2), (cycle.dry.err, cycle.resumed.err)
    if cycle.dry.code == 2:
        for result in (cycle.dry, cycle.resumed):
            assert key in result.err
            assert "Traceback" not in result.err
        return
    passed(yard, cycle.resumed)
    assert yard.kept("with", "stdout.txt").read_text() == "as it says\n"


IS_GONE = "[ ! -e '{}' ] && echo as it says"
IS_NOTE = "[ \"$(cat '{}')\" = 'a note' ] && echo as it says"


@pytest.mark.parametrize("far_away", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("path", [".claude/settings.json", ".claude/deep", "a/b/link/letter.txt"])
def test_an_arm_removes_nothing_through_a_link(yard: Yard, path: str, far_away: bool) -> None:
    app = yard.app()
    (app / "a" / "b").mkdir(parents=True)
    for name, target in ((".claude", ".claude"), ("a/b/link", "docs")):
        there = yard.user / target
        (app / name).symlink_to(far(there) if far_away else there)
    arms = {"with": {"remove": [path]}}
    as_it_says_or_refused(yard, {"arms": arms}, path, IS_GONE.format(path))


def test_an_arm_may_remove_a_link(yard: Yard) -> None:
    (yard.app() / ".claude").symlink_to(yard.user / ".claude")
    cycle = yard.cycle(yard.suite(SOLVE, arms={"with": {"remove": [".claude"]}}))
    passed(yard, cycle.resumed)


def test_a_link_with_a_slash_is_not_the_folder_that_it_leads_to(yard: Yard) -> None:
    (yard.app() / ".claude").symlink_to(yard.user / ".claude")
    arms = {"with": {"remove": [".claude/"]}}
    as_it_says_or_refused(yard, {"arms": arms}, ".claude/", IS_GONE.format(".claude"))


@pytest.mark.parametrize("far_away", [False, True], ids=["absolute", "relative"])
@pytest.mark.parametrize("path", [".claude/settings.json", ".claude/new.md", "a/b/link/x/y.md"])
def test_an_arm_writes_nothing_through_a_link(yard: Yard, path: str, far_away: bool) -> None:
    app = yard.app()
    (app / "a" / "b").mkdir(parents=True)
    for name, target in ((".claude", ".claude"), ("a/b/link", "docs")):
        there = yard.user / target
        (app / name).symlink_to(far(there) if far_away else there)
    arms = {"with": {"files": {path: "note.md"}}}
    as_it_says_or_refused(yard, {"arms": arms}, path, IS_NOTE.format(path))


def test_a_file_of_an_arm_takes_the_place_of_a_link(yard: Yard) -> None:
    app = yard.app()
    (app / "AGENTS.md").symlink_to(yard.user / "docs" / "letter.txt")
    arms = {"with": {"files": {"AGENTS.md": "note.md"}}}
    as_it_says_or_refused(yard, {"arms": arms}, "AGENTS.md", IS_NOTE.format("AGENTS.md"))


def test_a_link_that_one_file_of_an_arm_brings_leads_no_other_out(yard: Yard) -> None:
    yard.app()
    (yard.folder / "cfg").mkdir()
    (yard.folder / "cfg" / "link").symlink_to(yard.user / "docs")
    files = {"cfg": "cfg", "cfg/link/letter.txt": "note.md"}
    shown = IS_NOTE.format("cfg/link/letter.txt")
    as_it_says_or_refused(yard, {"arms": {"with": {"files": files}}}, "cfg/link", shown)


@pytest.mark.parametrize("table", ["arms.with.files", "arms.with.home", "agent.home"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_agent_that_edits_what_it_was_given_edits_a_copy(
    yard: Yard, table: str, kind: str
) -> None:
    yard.app()
    target = ".codex/config.toml" if kind == "file" else ".codex"
    (yard.folder / "given").symlink_to(yard.user / target)
    below = "" if kind == "file" else "/config.toml"
    place = "$HOME/.given" if table.endswith("home") else ".given"
    where, _, key = table.rpartition(".")
    changed: dict[str, Any] = {key: {".given": "given"}}
    for name in reversed(where.split(".")):
        changed = {name: changed}
    suite = yard.suite(
        f'grep mine "{place}{below}" || exit 1; echo more >> "{place}{below}"; {SOLVE}',
        **(changed | {"tasks": [{"id": "one", "prompt": "p", "acceptance_command": "true"}]}),
    )
    cycle = yard.cycle(suite)
    assert cycle.resumed.code == 0, cycle.resumed.err
    assert 'model = "mine"' in yard.kept("with", "stdout.txt").read_text()


@pytest.mark.parametrize("path", [".cfg/inner/letter.txt", ".cfg/inner/new/file"])
def test_a_file_of_the_home_goes_through_no_link_of_another(yard: Yard, path: str) -> None:
    yard.app()
    (yard.folder / "cfg").mkdir()
    (yard.folder / "cfg" / "inner").symlink_to(yard.user / "docs")
    changed = {"agent": {"home": {".cfg": "cfg"}}, "arms": {"with": {"home": {path: "note.md"}}}}
    as_it_says_or_refused(yard, changed, ".cfg", IS_NOTE.format("'\"$HOME\"'/" + path))


# Acceptance files, through links of the seed and of the agent.


@pytest.mark.parametrize("path", ["tests/check.sh", "tests/new/check.sh", "tests", "tests/"])
@pytest.mark.parametrize("whose", ["seed", "agent"])
def test_restoring_the_tests_follows_no_link(yard: Yard, path: str, whose: str) -> None:
    app = yard.app()
    if whose == "seed":
        (app / "tests").symlink_to(yard.user / "tests")
        script = SOLVE
    else:
        (app / "tests").mkdir()
        (app / "tests" / "check.sh").write_text("true\n")
        script = f"rm -r tests; ln -s '{yard.user}/tests' tests; {SOLVE}"
    task = {"id": "one", "prompt": "p", "acceptance_command": "test -e answer.txt"}
    cycle = yard.cycle(yard.suite(script, tasks=[task | {"acceptance_files": [path]}]))
    assert cycle.resumed.code in (0, 2), cycle.resumed.err
    if cycle.resumed.code == 2:
        assert path in cycle.resumed.err


# Keys that could become a path of something else.


@pytest.mark.parametrize("name", ["{user}/docs/letter.txt", "../../user/docs/letter.txt",
                                  "{far}/docs/letter.txt", "{far}/docs/new.txt"])  # fmt: skip
def test_the_name_of_the_output_is_no_path(yard: Yard, name: str) -> None:
    yard.app()
    name = name.format(user=yard.user, far=far(yard.user))
    agent = {"output": name, "format": "claude-code"}
    cycle = yard.cycle(yard.suite(f"echo spoiled; {SOLVE}", agent=agent))
    assert cycle.dry.code == 2
    assert "agent.output" in cycle.dry.err


@pytest.mark.parametrize("name", ["../user/docs/x", "{user}/docs/x", "../user/links/folder/x"])
def test_the_name_of_the_suite_leads_no_run_folder_out(yard: Yard, name: str) -> None:
    yard.app()
    suite = yard.suite(suite_id=name.format(user=yard.user))
    result = yard.twoarm("run", suite, "--repeats", "1", *QUICK)
    assert result.code in (0, 2), result.err


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_DIR": "{user}/repo/.git"},
        {"GIT_DIR": "{user}/repo/.git", "GIT_WORK_TREE": "{user}/repo"},
        {"GIT_INDEX_FILE": "{user}/docs/hard.txt"},
        {"GIT_OBJECT_DIRECTORY": "{user}/repo/.git/objects"},
        {"GIT_TRACE": "{user}/docs/hard.txt"},
    ],
    ids=lambda env: "+".join(env),
)
def test_variables_of_the_workspace_do_not_turn_our_git_on_the_user(
    yard: Yard, env: dict[str, str]
) -> None:
    yard.app()
    filled = {name: text.format(user=yard.user) for name, text in env.items()}
    arms = {"with": {"setup_commands": ["echo made > made.txt"]}}
    cycle = yard.cycle(yard.suite(workspace={"env": filled}, arms=arms))
    assert cycle.resumed.code in (0, 2), cycle.resumed.err
    if cycle.resumed.code == 0:
        assert "fixed" in yard.kept("with", "diff.patch").read_text()


# What is no path inside at all.

NOWHERE = (".", "./", "./.", ".//.", "a/..", "./a/../.", "", "/", "//", "./.git", "./.git/config")
TABLES = ("arms.with.files", "arms.with.home", "agent.home")
LISTS = ("arms.with.remove", "acceptance_files", "tasks[0].acceptance_files")


@pytest.mark.parametrize("path", NOWHERE)
@pytest.mark.parametrize("key", [*TABLES, *LISTS])
def test_a_path_that_is_the_whole_folder_is_refused(
    yard: Yard, key: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key == "arms.with.home" or key == "agent.home":
        path = path.replace(".git", "..")
    value: Any = {path: "note.md"} if key in TABLES else [path]
    changed: dict[str, Any] = {}
    if key.startswith("tasks"):
        task = {"id": "one", "prompt": "p", "acceptance_command": "true"}
        changed = {"tasks": [task | {"acceptance_files": value}]}
    else:
        for name in reversed(key.split(".")):
            value = {name: value}
        changed = value
    yard.app()
    (yard.folder / "note.md").write_text(NOTE)
    suite = yard.suite(**changed)
    for name, text in yard.environment().items():
        monkeypatch.setenv(name, text)
    with yard.untouched(f"{key} = {path!r}"):
        result = twoarm("run", str(suite), "--dry-run", "--repeats", "1")
    assert result.code == 2, result.out
    told = [line for line in result.err.splitlines() if key.removeprefix("tasks[0].") in line]
    assert len(told) == 1, result.err
    assert list(yard.made.iterdir()) == []


# A pipe where a file is named blocks nobody.


@pytest.mark.parametrize("key", ["prompt_file", "prices", "files", "home", "argv", "copy"])
def test_a_pipe_where_the_suite_names_a_file_is_not_waited_for(yard: Yard, key: str) -> None:
    yard.app()
    pipe(yard.folder / "pipe")
    (yard.folder / "pipe").chmod(0o755)
    task = {"id": "one", "acceptance_command": "test -f answer.txt"}
    changed: dict[str, dict[str, Any]] = {
        "prompt_file": {"tasks": [task | {"prompt_file": "pipe"}]},
        "prices": {"limits": {"prices": "pipe"}},
        "files": {"arms": {"with": {"files": {"x": "pipe"}}}},
        "home": {"agent": {"home": {"x": "pipe"}}},
        "argv": {"agent": {"argv": ["./pipe"]}},
        "copy": {"workspace": {"copy": "pipe"}},
    }
    result = yard.dry_run(yard.suite(**changed[key]))
    assert result.code in (0, 2), result.err
