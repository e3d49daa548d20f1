"""Trees: a repository at one commit or a folder, without history; and what an arm changes in it."""

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from twoarm.errors import InputError
from twoarm.files.safe import OpenFolder
from twoarm.run.suite_file import inside
from twoarm.run.supervisor.manifest import OTHER, kind_of, walk
from twoarm.run.supervisor.program import CLEAN_GIT, COPY
from twoarm.runs.study import SCHEDULE
from twoarm.text.escape import named, visible

_POINTER = b"version https://git-lfs.github.com/spec/"
_SUBMODULE = "160000"
_SHALLOW = (
    "; this clone is shallow: fetch more of its history, such as with fetch-depth: 0 on GitHub or "
    "GIT_DEPTH: 0 on GitLab"
)
_SECONDS = 600
# Looking at the user's repository writes nothing there.
_CLEAN = CLEAN_GIT | {"GIT_OPTIONAL_LOCKS": "0"}
_OPTIONS = (
    *("-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
)
_NO_LFS = (
    *("-c", "filter.lfs.smudge=", "-c", "filter.lfs.process="),
    *("-c", "filter.lfs.required=false"),
)


def git(folder: str, *arguments: str, failing: bool = False, **env: str) -> str:
    """What a command of git prints; InputError with its last line if it fails and may not."""
    what = next(word for word in arguments if not word.startswith("-") and "=" not in word)
    # Without HOME, where git would look for what the user ignores everywhere.
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
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
    if done.returncode and not failing:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise InputError(f"{visible(folder)}: git {what}: {visible(lines[-1])}")
    return os.fsdecode(done.stdout)


def commit_of(repo: str, ref: str) -> str:
    """The commit that a ref means now."""
    try:
        return git(repo, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").strip()
    except InputError as error:
        why = _SHALLOW if _is_shallow(repo) else ""
        raise InputError(
            f"{visible(repo)}: no commit {named(ref)} in a git repository{why}"
        ) from error


def _is_shallow(repo: str) -> bool:
    return git(repo, "rev-parse", "--is-shallow-repository", failing=True).strip() == "true"


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


def repository_of(repo: str) -> str:
    """The folder of the repository that a work tree is of, which for most is the same."""
    common = git(repo, "rev-parse", "--git-common-dir", failing=True).removesuffix("\n")
    path = os.path.normpath(os.path.join(repo, common))
    return os.path.dirname(path) if os.path.basename(path) == ".git" else path


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


def export(repo: str, commit: str, folder: OpenFolder, name: str) -> None:
    """All files of a commit: `git archive` would leave out what `export-ignore` names."""
    target = folder.at(name)
    folder.remove(name)
    for line in git(repo, "ls-tree", "-r", "-z", commit).split("\0"):
        if line.startswith(_SUBMODULE):
            path = line.split("\t", 1)[1]
            raise InputError(
                f"{visible(repo)}: {named(path)} is a submodule, which is not exported; "
                "check out a folder with everything in it and name it as workspace.copy"
            )
    folder.made(name).close()
    index = f"{name}.index"
    history = git(repo, "rev-parse", "--absolute-git-dir").removesuffix("\n")
    where = (f"--git-dir={history}", "--work-tree=.")
    try:
        git(repo, "read-tree", commit, GIT_INDEX_FILE=folder.at(index))
        git(target, *where, *_NO_LFS, "checkout-index", "-a", GIT_INDEX_FILE=folder.at(index))
    finally:
        folder.remove(index)
    for path in _files(target):
        if os.path.getsize(path) < 1024 and not os.path.islink(path):
            with open(path, "rb") as file:
                if file.read(len(_POINTER)) == _POINTER:
                    name = os.path.relpath(path, target)
                    raise InputError(
                        f"{visible(repo)}: {named(name)} is in LFS, which is not exported; "
                        "check out a folder with everything in it and name it as workspace.copy"
                    )


def copy(source: str, folder: OpenFolder, name: str) -> None:
    """What a path leads to, as it is, in the place of whatever is at a name in a folder.

    Links in it stay links.
    """
    folder.remove(name)
    real = os.path.realpath(source)
    done = subprocess.run([*COPY, real, folder.at(name)], capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise InputError(f"cannot copy {named(source)}: {visible(reason[-300:])}")


def overlay(tree: OpenFolder, arm: str, without: Sequence[str], files: Mapping[str, str]) -> None:
    """What an arm takes away, then what it adds."""
    for key, path in (*(("remove", at) for at in without), *(("files", at) for at in files)):
        parent = _parent_of(tree, f"arms.{arm}.{key}", path, make=key == "files")
        if parent is None:
            continue
        above, name = parent
        with above:
            above.remove(name)
            if key == "files":
                copy(files[path], above, name)


def check_paths(tree: OpenFolder, key: str, paths: Sequence[str]) -> None:
    """Refuse paths of a workspace that lead through a link."""
    for path in paths:
        if parent := _parent_of(tree, key, path):
            parent[0].close()


def _parent_of(
    tree: OpenFolder, key: str, path: str, *, make: bool = False
) -> tuple[OpenFolder, str] | None:
    """The folder of a path and its name there; None if there is no such folder."""
    try:
        return tree.parent_of(path, make=make)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"{visible(key)}: {named(path)}: on the way there, {visible(str(error.filename))} is "
            f"{visible(error.strerror or '')}; name a path without links"
        ) from error


def commit_all(tree: OpenFolder) -> None:
    """The tree as a repository with one commit, the same for the same files."""
    refuse_pipes(tree)
    git(tree.path, "init", "-q", "--template=", "--initial-branch=main")
    # What git cannot add, such as a repository without a commit, is not in it.
    git(tree.path, "add", "-A", "--ignore-errors", failing=True)
    git(tree.path, "commit", "-q", "--allow-empty", "--no-verify", "-m", "start")


def refuse_pipes(tree: OpenFolder) -> None:
    """Refuse a tree in which git would wait at a pipe."""
    for here, name, status, _ in walk(tree, history=False):
        if name.startswith(".git") and kind_of(status) == OTHER:
            raise InputError(f"{visible(here.at(name))}: not a file, and git would wait for it")


def file_digest(path: str) -> str:
    """Of the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(path: str, *, without_runs: bool = False) -> str:
    """The digest of a file, or of all files of a folder with their names and permissions.

    Without run folders and what Python keeps of a program, for a folder that runs may be made in.
    """
    path = os.path.realpath(path)
    digest = hashlib.sha256()
    for name in [path] if os.path.isfile(path) else _files(path, without_runs=without_runs):
        mode = os.lstat(name).st_mode
        shown = os.path.relpath(name, path).encode("utf-8", "surrogateescape")
        if stat.S_ISLNK(mode):
            content = os.fsencode(os.readlink(name))
        else:
            with open(name, "rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
        digest.update(b"%s\0%d\0%s\0" % (shown, mode & 0o111 != 0, content))
    return digest.hexdigest()


def _files(folder: str, *, without_runs: bool = False) -> Iterator[str]:
    """Every file and link, in order, outside of .git."""
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        if without_runs:
            folders[:] = [name for name in folders if not _is_made(os.path.join(at, name))]
        links = [name for name in folders if os.path.islink(os.path.join(at, name))]
        for name in sorted((*names, *links)):
            path = os.path.join(at, name)
            if os.path.islink(path) or os.path.isfile(path):
                yield path


def _is_made(path: str) -> bool:
    """Whether a folder beside a suite came from running it."""
    return os.path.basename(path) == "__pycache__" or os.path.lexists(os.path.join(path, SCHEDULE))
