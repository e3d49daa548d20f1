"""A user's home full of canaries, and what tells whether anybody has touched one."""

import os
import stat
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

_GIT = (
    *("git", "-c", "user.name=user", "-c", "user.email=user@localhost"),
    *("-c", "init.defaultBranch=main", "-c", "core.hooksPath=/dev/null"),
)


class Seen(NamedTuple):
    """One path, as nobody may change it."""

    kind: str
    mode: int
    size: int
    # Of a file its digest, of a link its target.
    content: str
    mtime_ns: int
    inode: tuple[int, int]
    names: int


def snapshot(root: Path, without: tuple[Path, ...] = ()) -> dict[str, Seen]:
    """Every path at and below a folder; no link is followed, no pipe opened."""
    left_out = {str(path) for path in without}
    found: dict[str, Seen] = {}
    waiting = [str(root)]
    while waiting:
        path = waiting.pop()
        if path in left_out:
            continue
        there = os.lstat(path)
        found[path] = _seen(path, there)
        if stat.S_ISDIR(there.st_mode):
            waiting += [os.path.join(path, name) for name in os.listdir(path)]
    return found


def _seen(path: str, there: os.stat_result) -> Seen:
    content = ""
    if stat.S_ISLNK(there.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(there.st_mode):
        content = sha256(Path(path).read_bytes()).hexdigest()
    return Seen(
        kind=stat.filemode(there.st_mode)[0],
        mode=stat.S_IMODE(there.st_mode),
        size=there.st_size,
        content=content,
        mtime_ns=there.st_mtime_ns,
        inode=(there.st_dev, there.st_ino),
        names=there.st_nlink,
    )


def differences(before: Mapping[str, Seen], after: Mapping[str, Seen]) -> list[str]:
    """What has become of every path that is not as it was."""
    said = [f"gone: {path!a}" for path in sorted(before.keys() - after.keys())]
    said += [f"new: {path!a}" for path in sorted(after.keys() - before.keys())]
    for path in sorted(before.keys() & after.keys()):
        was, now = before[path], after[path]
        changed = [
            f"{name} {getattr(was, name)!r} -> {getattr(now, name)!r}"
            for name in Seen._fields
            if getattr(was, name) != getattr(now, name)
        ]
        if changed:
            said.append(f"changed: {path!a}: {', '.join(changed)}")
    return said


def git(folder: Path, *words: str) -> str:
    """A command of git as the user gives it."""
    done = subprocess.run(
        [*_GIT, "-C", str(folder), *words],
        env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def repository(folder: Path, **files: str) -> Path:
    """A repository with a history, a branch, a change that is staged and one that is not."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "seed.txt").write_text("first\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "init", "-q", "--template=")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "seed.txt").write_text("second\n")
    git(folder, "commit", "-qam", "second")
    git(folder, "branch", "other", "HEAD~1")
    (folder / "staged.txt").write_text("staged\n")
    git(folder, "add", "staged.txt")
    (folder / "loose.txt").write_text("in no commit\n")
    return folder


_ODD = (
    b"new\nline",
    b"two  spaces ",
    b"latin-\xe9",
    b"-rf",
    b"--help",
    b"*",
    b"$(touch x)",
    b"\xff\xfe",
    "é\u202e".encode(),
)
_FILES = {
    "docs/letter.txt": "dear\n",
    "docs/deep/a/b/c.txt": "deep\n",
    "docs/.hidden": "",
    "docs/large.bin": "x" * 200_000,
    ".claude/settings.json": '{"mine": true}\n',
    ".claude/deep/notes.md": "notes\n",
    ".codex/config.toml": 'model = "mine"\n',
    ".codex/sessions/2026/rollout-real.jsonl": "{}\n",
    ".local/share/opencode/log/real.log": "mine\n",
    ".gitconfig": "[user]\n\tname = user\n",
    ".config/git/ignore": "*.mine\n",
    ".ssh/id_rsa": "key\n",
    "tests/check.sh": "mine\n",
    "usage.json": '{"input_tokens": 1}\n',
}
_LINKS = {
    "links/file": "../docs/letter.txt",
    "links/folder": "../docs",
    "links/dangling": "nowhere",
    "links/loop": "loop",
    "links/one": "other",
    "links/other": "one",
    "links/above": "..",
    "links/repo": "../repo",
}


def plant(home: Path) -> None:
    """Files, folders, links, hard links, a repository, pipes: everything a home may hold."""
    for name, text in _FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "links").mkdir()
    for name, target in _LINKS.items():
        (home / name).symlink_to(target)
    (home / "links" / "absolute").symlink_to(home / "docs")
    odd = home / "odd"
    odd.mkdir()
    for place in _ODD:
        Path(os.fsdecode(os.fsencode(odd) + b"/" + place)).write_text("odd\n")
    (home / "docs" / "hard.txt").write_text("by two names\n")
    (home / "docs" / "again.txt").hardlink_to(home / "docs" / "hard.txt")
    repository(home / "repo")
    pipe(home / "docs" / "pipe")
    os.mknod(home / "docs" / "socket", stat.S_IFSOCK | 0o600)
    closed = home / "docs" / "closed"
    closed.mkdir()
    (closed / "file.txt").write_text("closed\n")
    (home / "docs" / "letter.txt").chmod(0o444)
    (home / ".ssh" / "id_rsa").chmod(0o600)
    (home / "docs" / "deep" / "a" / "b" / "c.txt").chmod(0o4755)
    closed.chmod(0o555)


def pipe(path: Path) -> None:
    """A pipe, which blocks whoever opens it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
