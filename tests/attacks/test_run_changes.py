"""What an agent changed: the diff is whole, and making it executes nothing that the agent wrote."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.canaries import git, repository
from tests.support.run_folders import records, unaccounted
from tests.support.yard import Yard

TASK = {"id": "one", "prompt": "p", "acceptance_command": "true"}
CHANGE = "echo fixed > answer.txt; echo more >> README.md"
COMMIT = "git -c user.name=a -c user.email=b commit -q"


def ran(yard: Yard, script: str, **changed: Any) -> None:
    """A run whose every trial is a run, and ours to judge."""
    yard.app()
    result = yard.run(yard.suite(script, **({"tasks": [TASK]} | changed)))
    assert result.code == 0, result.err
    assert unaccounted(yard.out) == []
    assert [record["failure"] for record in records(yard.out)] == [None, None]


def applied(yard: Yard, *names: str) -> Path:
    """What the patches of a run make of the untouched app."""
    folder = yard.signs / "applied"
    ignore = shutil.ignore_patterns(".git")
    shutil.copytree(yard.folder / "app", folder, symlinks=True, ignore=ignore)
    for name in names:
        patch = yard.kept("with", name)
        if not patch.stat().st_size:
            continue
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/"}
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", str(patch)], cwd=folder, capture_output=True,
            env=env | {"GIT_CEILING_DIRECTORIES": str(yard.signs)}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
    return folder


def is_whole(yard: Yard) -> None:
    folder = applied(yard, "diff.patch")
    assert (folder / "answer.txt").read_bytes() == b"fixed\n"
    assert (folder / "README.md").read_bytes() == b"an app\nmore\n"


# Whatever it does to its repository.

NEST = """
import os, sys
for _ in range(int(sys.argv[1])):
    os.mkdir(sys.argv[2]); os.chdir(sys.argv[2])
"""
HIDES = {
    "nothing": "true",
    "removes .git": "rm -rf .git",
    "makes .git a file": "rm -rf .git; echo x > .git",
    "makes .git an empty folder": "rm -rf .git; mkdir .git",
    "makes .git a pipe": "rm -rf .git; mkfifo .git",
    "makes .git that of the user": "rm -rf .git; ln -s '{user}/repo/.git' .git",
    "names that of the user": "rm -rf .git; echo 'gitdir: {user}/repo/.git' > .git",
    "commits": f"git add -A; {COMMIT} -m mine",
    "commits on another branch": f"git checkout -q --orphan x; git add -A; {COMMIT} -m mine",
    "removes all objects": "rm -rf .git/objects/??",
    "removes all refs": "rm -rf .git/refs .git/HEAD",
    "replaces the base": "git add -A; git replace $(git rev-parse HEAD) "
    "$(git -c user.name=a -c user.email=b commit-tree -m x $(git write-tree))",
    "excludes everything": "mkdir -p .git/info; echo '*' > .git/info/exclude",
    "ignores everything at home": 'mkdir -p "$HOME/.config/git"; '
    "echo '*' > \"$HOME/.config/git/ignore\"",
    "has attributes at home": 'mkdir -p "$HOME/.config/git"; '
    "echo '* -diff working-tree-encoding=UTF-16' > \"$HOME/.config/git/attributes\"",
    "says it is bare": "git config core.bare true",
    "has another work tree": "git config core.worktree '{user}/docs'",
    "has no work tree": "git config core.worktree /nowhere",
    "has an excludes file": "echo '*' > .git/e; git config core.excludesFile \"$PWD/.git/e\"",
    "checks out sparsely": "git config core.sparseCheckout true; mkdir -p .git/info; "
    "echo nothing > .git/info/sparse-checkout",
    "hides changes from the index": "git update-index --skip-worktree --assume-unchanged README.md",
    "borrows objects": "mkdir -p .git/objects/info; "
    "echo '{user}/repo/.git/objects' > .git/objects/info/alternates",
    "locks the index": "touch .git/index.lock; rm -f .git/index; mkfifo .git/index",
    "makes the config a pipe": "rm -f .git/config; mkfifo .git/config",
    "makes HEAD a pipe": "rm -f .git/HEAD; mkfifo .git/HEAD",
    "makes attributes a pipe": "mkfifo .gitattributes .gitmodules",
    "makes ignored names a pipe": "mkdir below; mkfifo .gitignore below/.gitignore",
    "has a config that is none": "echo '[' > .git/config",
    "has a future repository": "git config core.repositoryFormatVersion 999",
    "says nothing is text": "echo '* -diff' > .gitattributes",
    "says everything is text": "echo '* text eol=crlf' > .gitattributes",
    "has an odd encoding": "echo '* working-tree-encoding=UTF-16' > .gitattributes",
    "has an unknown encoding": "echo '* working-tree-encoding=none-such' > .gitattributes",
    "has a filter that is missing": "echo '* filter=x' > .gitattributes; "
    "git config filter.x.clean false; git config filter.x.required true",
    "has submodules that are ignored": "printf '[submodule \"x\"]\\npath = .\\nignore = all\\n' "
    "> .gitmodules; git config diff.ignoreSubmodules all",
    "leaves pipes and sockets": "mkfifo pipe; mkdir -p d; mkfifo d/pipe",
    "nests folders": f"'{sys.executable}' -c '{NEST}' 1100 d",
    "nests folders beyond a path": f"'{sys.executable}' -c '{NEST}' 40 {'d' * 200}",
    "takes rights away": "mkdir -p d; echo x > d/x; chmod 000 d",
}


@pytest.mark.parametrize("how", HIDES)
def test_the_diff_is_whole_whatever_the_agent_does_to_its_repository(yard: Yard, how: str) -> None:
    ran(yard, f"{CHANGE}; {HIDES[how].format(user=yard.user)}; true")
    is_whole(yard)


@pytest.mark.parametrize("how", ["nothing", "removes .git", "makes .git a file"])
def test_a_repository_around_the_cache_is_nobodys_business(yard: Yard, how: str) -> None:
    yard.cache = yard.user / "repo" / "cache"
    yard.cache.mkdir()
    ran(yard, f"{CHANGE}; {HIDES[how]}; true")
    is_whole(yard)


@pytest.mark.parametrize(
    "how",
    [
        f"git init -q sub; cd sub; git add -A; {COMMIT} -m x",
        "git init -q sub",
        "cp -r .git sub/.git",
        "echo 'gitdir: {user}/repo/.git' > sub/.git",
        "ln -s '{user}/repo/.git' sub/.git",
        "mkfifo sub/.git",
        "git init -q --bare sub",
    ],
)
def test_a_repository_that_an_agent_nests_hides_no_file(yard: Yard, how: str) -> None:
    ran(yard, f"{CHANGE}; mkdir sub; echo below > sub/x.txt; {how.format(user=yard.user)}; true")
    is_whole(yard)
    assert (yard.signs / "applied" / "sub" / "x.txt").read_text() == "below\n"


@pytest.mark.parametrize(
    "attributes", ["* text=auto", "* working-tree-encoding=UTF-16", "* filter=lfs", "* -diff"]
)
def test_attributes_of_the_workspace_change_no_byte(yard: Yard, attributes: str) -> None:
    (yard.app() / ".gitattributes").write_text(f"{attributes}\n")
    (yard.app() / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    ran(yard, "printf 'one\\r\\nthree\\r\\n' > dos.txt; printf 'a\\r\\nb\\n' > new.txt")
    folder = applied(yard, "diff.patch")
    assert (folder / "dos.txt").read_bytes() == b"one\r\nthree\r\n"
    assert (folder / "new.txt").read_bytes() == b"a\r\nb\n"


def test_every_kind_of_change_is_in_the_diff(yard: Yard) -> None:
    app = yard.app()
    for name in ("gone.txt", "mode.sh", "folder/file.txt", "was-file"):
        (app / name).parent.mkdir(exist_ok=True)
        (app / name).write_text("there\n")
    odd = {b"latin-\xe9": b"1", b"new\nline": b"2", b"-rf": b"3", b'q"uote': b"4", b"a" * 255: b"5"}
    script = r"""
rm gone.txt; chmod +x mode.sh; touch empty
rm -r folder; ln -s '{user}/docs' folder
rm was-file; mkdir was-file; echo x > was-file/x
head -c 5000 /dev/urandom > binary; cp binary '{signs}/binary'
printf 1 > "$(printf 'latin-\351')"; printf 2 > "$(printf 'new\nline')"
printf 3 > ./-rf; printf 4 > 'q"uote'; printf 5 > {long}
"""
    ran(yard, script.format(user=yard.user, signs=yard.signs, long="a" * 255))
    folder = applied(yard, "diff.patch")
    assert not (folder / "gone.txt").exists()
    assert os.access(folder / "mode.sh", os.X_OK)
    assert (folder / "empty").read_bytes() == b""
    assert os.readlink(folder / "folder") == str(yard.user / "docs")
    assert (folder / "was-file" / "x").read_text() == "x\n"
    assert (folder / "binary").read_bytes() == (yard.signs / "binary").read_bytes()
    for place, content in odd.items():
        assert Path(os.fsdecode(os.fsencode(folder) + b"/" + place)).read_bytes() == content
    # What a link leads to is not the agent's change.
    assert b"dear" not in yard.kept("with", "diff.patch").read_bytes()


# Ways to have somebody else's git execute something.

FILTER = "git config filter.x.clean {payload}; git config filter.x.required true; "
MISSING = "rm -rf .git/objects/??; git config extensions.partialClone origin; "
EXECUTES = {
    "filter.clean": FILTER + "echo '* filter=x' > .gitattributes",
    "filter.process": "git config filter.x.process {payload}; echo '* filter=x' > .gitattributes",
    "info/attributes": FILTER + "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes",
    "include.path": 'printf \'[filter "x"]\\nclean = {payload}\\n\' > "$TMPDIR/more"; '
    "git config include.path \"$TMPDIR/more\"; echo '* filter=x' > .gitattributes",
    "attributes at home": FILTER + 'mkdir -p "$HOME/.config/git"; '
    "echo '* filter=x' > \"$HOME/.config/git/attributes\"",
    "a config at home": 'printf \'[filter "x"]\\nclean = {payload}\\n\' > "$HOME/.gitconfig"; '
    "echo '* filter=x' > .gitattributes",
    "a gitdir file": FILTER + "echo '* filter=x' > .gitattributes; "
    'mv .git "$TMPDIR/git"; echo "gitdir: $TMPDIR/git" > .git',
    "a linked .git": FILTER + "echo '* filter=x' > .gitattributes; "
    'mv .git "$TMPDIR/git"; ln -s "$TMPDIR/git" .git',
    "a promisor's uploadpack": MISSING + 'git config remote.origin.url "$TMPDIR"; '
    "git config remote.origin.promisor true; git config remote.origin.uploadpack {payload}",
    "core.sshCommand": MISSING + "git config remote.origin.url ssh://localhost/x; "
    "git config remote.origin.promisor true; git config core.sshCommand {payload}",
    "a remote helper": MISSING + "git config remote.origin.url 'ext::{payload} x'; "
    "git config remote.origin.promisor true; git config protocol.ext.allow always",
    "hooks": "mkdir -p .git/hooks; for name in pre-commit post-index-change post-checkout "
    "reference-transaction pre-auto-gc fsmonitor-watchman; do cp {payload} .git/hooks/$name; done",
    "core.hooksPath": 'mkdir "$TMPDIR/hooks"; cp {payload} "$TMPDIR/hooks/post-index-change"; '
    'git config core.hooksPath "$TMPDIR/hooks"',
    "core.fsmonitor": "git config core.fsmonitor {payload}; git config core.fsmonitorHookVersion 2",
    "diff.external": "git config diff.external {payload}",
    "a diff driver": "git config diff.x.command {payload}; echo '* diff=x' > .gitattributes",
    "textconv": "git config diff.x.textconv {payload}; echo '* diff=x' > .gitattributes",
    "an alternate's refs": "git config core.alternateRefsCommand {payload}; mkdir -p "
    ".git/objects/info; echo '{user}/repo/.git/objects' > .git/objects/info/alternates",
    "a pager and an editor": "git config core.pager {payload}; git config core.editor {payload}; "
    "git config pager.diff true; git config sequence.editor {payload}",
    "signing": "git config commit.gpgSign true; git config gpg.program {payload}",
    "core.askPass": "git config core.askPass {payload}; git config credential.helper {payload}",
    "a nested fsmonitor": "git init -q sub; echo x > sub/x; git -C sub add -A; git -C sub "
    "-c user.name=a -c user.email=b commit -qm x; git -C sub config core.fsmonitor {payload}; "
    "echo y > sub/x",
    "a nested filter": "git init -q sub; echo x > sub/x; git -C sub add -A; git -C sub "
    "-c user.name=a -c user.email=b commit -qm x; git -C sub config filter.x.clean {payload}; "
    "echo '* filter=x' > sub/.gitattributes; echo y > sub/x",
    "a submodule's update": 'printf \'[submodule "x"]\\npath = sub\\nurl = ./\\nupdate = '
    "!{payload}\\n' > .gitmodules; git config submodule.x.update '!{payload}'",
    "a work tree of its own": 'git config core.worktree "$PWD"; git config core.bare false; '
    + FILTER
    + "echo '* filter=x' > .gitattributes",
    "a config of the work tree": "git config extensions.worktreeConfig true; "
    "printf '[core]\\nfsmonitor = {payload}\\n[filter \"x\"]\\nclean = {payload}\\n' "
    "> .git/config.worktree; echo '* filter=x' > .gitattributes",
}


def payload(yard: Yard) -> Path:
    """A program that leaves a sign if anybody starts it."""
    path = yard.signs / "payload"
    path.write_text(f"#!/bin/sh\necho executed >> '{yard.signs}/executed'\ncat\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("way", EXECUTES)
def test_nothing_that_an_agent_wrote_is_executed_once_it_has_ended(yard: Yard, way: str) -> None:
    script = EXECUTES[way].format(payload=payload(yard), user=yard.user)
    # Its own git runs nothing of it: whatever is executed is by somebody else.
    script = f"{CHANGE}\n{script}\n[ ! -e '{yard.signs}/executed' ] || rm '{yard.signs}/executed'"
    ran(yard, script)
    assert not (yard.signs / "executed").exists()
    is_whole(yard)


def test_what_an_arm_has_built_is_not_taken_for_our_own_programs(yard: Yard) -> None:
    tool = repository(yard.user / "tool")
    for name in ("git", "cp", "rm", "env"):
        (tool / name).write_text(f"#!/bin/sh\necho executed >> '{yard.signs}/executed'\nexit 1\n")
        (tool / name).chmod(0o755)
    git(tool, "add", "-A")
    git(tool, "commit", "-qm", "tools")
    source = {"repo": str(tool), "ref": "HEAD"}
    built = {"source": source, "build_commands": ["/bin/cp git cp rm env {build}/bin/"]}
    with_it = built | {"setup_commands": ["echo made > made.txt"]}
    ran(yard, f"PATH=/usr/bin:/bin; {CHANGE}", arms={"with": with_it})
    assert not (yard.signs / "executed").exists()
    is_whole(yard)


# What git would ignore: kept apart, and not all of it.

IGNORED = "cache/\n.env*\n*.pem\n*.key\nid_*\n"
SECRETS = (".env", ".env.local", "below/.env.production", "id_rsa", "id_ed25519", "server.pem",
           "below/server.key")  # fmt: skip
LEAVE = f"""
mkdir -p cache below; echo cached > cache/x.txt
for name in {" ".join(SECRETS)}; do echo very-private > $name; done
{CHANGE}
"""


def everywhere(folder: Path) -> dict[str, bytes]:
    """Every file of a run folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_ignored_files_are_kept_apart_and_privately(yard: Yard) -> None:
    (yard.app() / ".gitignore").write_text(IGNORED)
    ran(yard, LEAVE)
    is_whole(yard)
    assert b"cached" not in yard.kept("with", "diff.patch").read_bytes()
    ignored = yard.kept("with", "ignored.patch")
    assert ignored.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(yard.signs / "applied")
    folder = applied(yard, "diff.patch", "ignored.patch")
    assert (folder / "cache" / "x.txt").read_text() == "cached\n"
    # Nobody sees it in a report.
    shown = {name for name, text in everywhere(yard.out).items() if b"cached" in text}
    assert {Path(name).name for name in shown} <= {"ignored.patch"}


def test_environments_and_keys_are_never_kept(yard: Yard) -> None:
    (yard.app() / ".gitignore").write_text(IGNORED)
    ran(yard, LEAVE)
    found = everywhere(yard.out)
    assert [name for name, text in found.items() if b"very-private" in text] == []
    assert any(name.endswith("ignored.patch") for name in found)


def test_what_the_agent_itself_ignores_is_in_one_of_the_patches(yard: Yard) -> None:
    ran(yard, f"{CHANGE}; echo '*' > .gitignore")
    folder = applied(yard, "diff.patch", "ignored.patch")
    assert (folder / "answer.txt").read_text() == "fixed\n"
    assert (folder / "README.md").read_text() == "an app\nmore\n"


def test_an_ignored_file_of_the_seed_is_no_change_until_it_changes(yard: Yard) -> None:
    app = yard.app()
    (app / ".gitignore").write_text(IGNORED)
    (app / "cache").mkdir()
    for name in ("same.txt", "changed.txt", "gone.txt"):
        (app / "cache" / name).write_text("seed\n")
    ran(yard, f"{CHANGE}; echo new > cache/changed.txt; rm cache/gone.txt")
    is_whole(yard)
    assert "same.txt" not in yard.kept("with", "ignored.patch").read_text()
    shutil.rmtree(yard.signs / "applied")
    folder = applied(yard, "diff.patch", "ignored.patch")
    assert (folder / "cache" / "changed.txt").read_text() == "new\n"
    assert not (folder / "cache" / "gone.txt").exists()


def told(yard: Yard, name: str) -> list[str]:
    """The JSON files of a run in which a name stands."""
    found = everywhere(yard.out / "runs" / "with")
    return [path for path, text in found.items() if path.endswith(".json") and name in str(text)]


def test_an_ignored_file_that_is_too_large_is_named(yard: Yard) -> None:
    (yard.app() / ".gitignore").write_text(IGNORED)
    script = "mkdir cache; head -c 3000000 /dev/urandom > cache/huge.bin; echo s > cache/small.txt"
    ran(yard, f"{script}; {CHANGE}", limits={"patch_mb": 1})
    is_whole(yard)
    assert yard.kept("with", "ignored.patch").stat().st_size < 2**21
    assert told(yard, "huge.bin") != []


def test_a_file_that_is_larger_than_any_disk_is_named_and_not_read(yard: Yard) -> None:
    ran(yard, f"{CHANGE}; truncate -s 1T huge.bin")
    assert told(yard, "huge.bin") != []
    is_whole(yard)


def test_a_change_that_is_too_large_is_named_and_the_rest_is_whole(yard: Yard) -> None:
    script = f"head -c 3000000 /dev/urandom > huge.bin; {CHANGE}"
    ran(yard, script, limits={"output_mb": 1, "patch_mb": 1})
    assert told(yard, "huge.bin") != []
    is_whole(yard)
