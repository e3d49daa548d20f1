"""Trees: a repository at one commit or a folder, without history; and what an arm changes in it."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from twoarm.errors import InputError
from twoarm.escape import named, visible
from twoarm.run.remove import remove
from twoarm.run.suite_file import inside

_POINTER = b"version https://git-lfs.github.com/spec/"
_SUBMODULE = "160000"
_SECONDS = 600
# Nobody's settings: not the user's hooks, filters or line ends.
_CLEAN = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "twoarm",
    "GIT_AUTHOR_EMAIL": "twoarm@localhost",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "twoarm",
    "GIT_COMMITTER_EMAIL": "twoarm@localhost",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}
_OPTIONS = ("-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null")
_NO_LFS = (
    "-c",
    "filter.lfs.smudge=",
    "-c",
    "filter.lfs.process=",
    "-c",
    "filter.lfs.required=false",
)


def git(folder: str, *arguments: str, **env: str) -> str:
    """What a command of git prints; InputError with its last line if it fails."""
    what = next(word for word in arguments if not word.startswith("-") and "=" not in word)
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "HOME") if key in os.environ}
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, "-C", folder, *arguments],
            env={**kept, **_CLEAN, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise InputError("`git` is not installed; workspaces are git repositories") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{visible(folder)}: git {what} takes too long") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise InputError(f"{visible(folder)}: git {what}: {visible(said[-1])}")
    return os.fsdecode(done.stdout)


def commit_of(repo: str, ref: str) -> str:
    """The commit that a ref means now."""
    try:
        return git(repo, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").strip()
    except InputError as error:
        raise InputError(f"{visible(repo)}: no commit {named(ref)} in a git repository") from error


def check_root(repo: str) -> None:
    """Refuse a folder inside a repository: what would be exported is not what it looks like."""
    if git(repo, "rev-parse", "--is-bare-repository").strip() == "true":
        return
    root = git(repo, "rev-parse", "--show-toplevel").removesuffix("\n")
    if os.path.realpath(root) != os.path.realpath(repo):
        raise InputError(
            f"{visible(repo)} is inside the repository {visible(root)}; name its root, "
            "or copy the folder alone: workspace.copy"
        )


def uncommitted(repo: str) -> bool:
    """Whether files that git knows were changed."""
    if git(repo, "rev-parse", "--is-bare-repository").strip() == "true":
        return False
    return bool(git(repo, "status", "--porcelain", "--untracked-files=no").strip())


def lies_in(path: str, folder: str) -> bool:
    """Whether a path is a folder itself or anything in it, links followed."""
    at, above = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((at, above)) == above


def is_committed(repo: str, commit: str, path: str) -> bool:
    """Whether a commit has a file at a path of this machine."""
    name = os.path.relpath(os.path.realpath(path), os.path.realpath(repo))
    return bool(git(repo, "ls-tree", "-z", commit, "--", name)) if inside(name) else False


def export(repo: str, commit: str, target: str) -> None:
    """All files of a commit: `git archive` would leave out what `export-ignore` names."""
    for line in git(repo, "ls-tree", "-r", "-z", commit).split("\0"):
        if line.startswith(_SUBMODULE):
            path = line.split("\t", 1)[1]
            raise InputError(
                f"{visible(repo)}: {named(path)} is a submodule, which is not exported; "
                "check out a folder with everything in it and name it as workspace.copy"
            )
    os.makedirs(target)
    index = target + ".index"
    folder = git(repo, "rev-parse", "--absolute-git-dir").removesuffix("\n")
    where = (f"--git-dir={folder}", "--work-tree=.")
    try:
        git(repo, "read-tree", commit, GIT_INDEX_FILE=index)
        git(target, *where, *_NO_LFS, "checkout-index", "-a", GIT_INDEX_FILE=index)
    finally:
        if os.path.exists(index):
            os.unlink(index)
    for path in _files(target):
        if os.path.getsize(path) < 1024 and not os.path.islink(path):
            with open(path, "rb") as file:
                if file.read(len(_POINTER)) == _POINTER:
                    name = os.path.relpath(path, target)
                    raise InputError(
                        f"{visible(repo)}: {named(name)} is in LFS, which is not exported; "
                        "check out a folder with everything in it and name it as workspace.copy"
                    )


def copy(source: str, target: str) -> None:
    """A file or folder as it is; without copying bytes where the file system can."""
    how = ["cp", "-a", "--reflink=auto"] if sys.platform == "linux" else ["cp", "-a"]
    os.makedirs(os.path.dirname(target), exist_ok=True)
    done = subprocess.run([*how, source, target], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise InputError(f"cannot copy {named(source)}: {visible(said[-300:])}")


def without_history(target: str) -> None:
    """A copied folder without the repository it was taken from."""
    remove(os.path.join(target, ".git"))


def overlay(tree: str, without: Sequence[str], files: Mapping[str, str]) -> None:
    """What an arm takes away, then what it adds."""
    for path in (*without, *files):
        remove(os.path.join(tree, path))
    for path, source in files.items():
        copy(source, os.path.join(tree, path))


def commit_all(tree: str) -> str:
    """The tree as a repository with one commit, the same for the same files; the commit."""
    git(tree, "init", "-q", "--template=", "--initial-branch=main")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "--allow-empty", "--no-verify", "-m", "start")
    return git(tree, "rev-parse", "HEAD").strip()


def digest_of(path: str) -> str:
    """Of a file, or of all files of a folder with their names and rights."""
    found = sha256()
    for name in [path] if os.path.isfile(path) else _files(path):
        mode = os.lstat(name).st_mode
        shown = os.path.relpath(name, path).encode("utf-8", "surrogateescape")
        if stat.S_ISLNK(mode):
            content = os.fsencode(os.readlink(name))
        else:
            with open(name, "rb") as file:
                content = sha256(file.read()).digest()
        found.update(b"%s\0%d\0%s\0" % (shown, mode & 0o111 != 0, content))
    return found.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """Every file and link, in order, outside of .git."""
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        for name in sorted((*names, *links)):
            path = os.path.join(at, name)
            if os.path.islink(path) or os.path.isfile(path):
                yield path
