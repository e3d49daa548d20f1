"""What an agent changed, as patches that git makes of copies: it never sees the workspace itself.

The changed files are found by their content, copied as they were and as they are, and compared by a
git with a folder and settings of our own: nothing that an agent left is configuration to it.
Standard library only, for the supervisor.
"""

import os

from twoarm.files.safe import OpenFolder
from twoarm.run.supervisor.manifest import (
    FILE,
    LINK,
    MOST_FILES,
    OTHER,
    PROGRAM,
    Manifest,
    changes,
    entry_of,
    kind_of,
    written,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, BinaryIO

    # Git with these arguments and variables, in a folder, from and to descriptors: its exit code.
    Git = Callable[[tuple[str, ...], dict[str, str], OpenFolder, int, int], int]

# How many of the files that were left out are named.
MOST_NAMED = 100

_RULES = ".gitignore"
_LONGEST_RULES = 1 << 20
_PIECE = 1 << 20
# Where git looks for a byte that no text has.
_HEAD = 8000
# Well below what a path may have.
_LONGEST_PATH = 4000

_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tsymlinks = true\n"
_CONFIG += b"\tprotectHFS = false\n\tprotectNTFS = false\n\texcludesFile = /dev/null\n"
# Above any `.gitattributes`: content is content.
_ATTRIBUTES = b"* !filter !text !eol !crlf !ident !working-tree-encoding !diff !merge !whitespace\n"
_ADD = ("update-index", "-z", "--add", "--replace", "--stdin")
_REMOVE = ("update-index", "-z", "--force-remove", "--stdin")
_DIFF = (
    *("diff-index", "--cached", "-p", "--binary", "--full-index", "--no-renames"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"),
)

_KEY_NAMES = (".netrc", ".pypirc", ".npmrc", ".git-credentials")
_KEY_STARTS = (".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_KEY_ENDS = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".ppk")
_SAMPLES = (".example", ".sample", ".template", ".dist", ".pub")


def may_hold_keys(path: str) -> bool:
    """Whether a file is of the kind that holds keys, by its name."""
    name = path.rpartition("/")[2].lower()
    if name.endswith(_SAMPLES):
        return False
    return name in _KEY_NAMES or name.startswith(_KEY_STARTS) or name.endswith(_KEY_ENDS)


def copy_entry(source: OpenFolder, target: OpenFolder, path: str) -> None:
    """A file or link at a path, to the same path below another folder."""
    here, name = source.parent_of(path)
    with here:
        there, _ = target.parent_of(path, make=True)
        with there:
            status = here.look(name)
            if status is None:
                raise FileNotFoundError(2, "no such file", here.at(name))
            if kind_of(status) == LINK:
                leads = os.readlink(name, dir_fd=here.descriptor)
                os.symlink(leads, name, dir_fd=there.descriptor)
                return
            mode = 0o755 if kind_of(status) == PROGRAM else 0o644
            with open(here.open(name), "rb") as read, open(there.create(name, mode), "wb") as made:
                while piece := read.read(_PIECE):
                    made.write(piece)


def make_repository(place: OpenFolder) -> None:
    """All that git needs to take the folder `git` in a place for one of its own."""
    with place.made("git") as git:
        for name in ("objects", "refs", "info"):
            git.made(name).close()
        git.write("HEAD", b"ref: refs/heads/main\n")
        git.write("config", _CONFIG)
        with git.within("info") as info:
            info.write("attributes", _ATTRIBUTES)


class Base:
    """What the agent started from: the tree, and what set-up made of it."""

    def __init__(self, tree: OpenFolder, manifest: Manifest, made: OpenFolder) -> None:
        self._tree = tree
        self._made = made
        # Of the tree itself; and of what the agent finds.
        self.untouched = manifest
        self.manifest = dict(manifest)
        self._saved: set[str] = set()
        self._unsaved: set[str] = set()

    def save(self, work: OpenFolder, most: int) -> None:
        """Keep what set-up has changed, as far as there is room for it."""
        for path in changes(work, self.manifest, history=False):
            here, name = work.parent_of(path)
            with here:
                status = here.look(name)
                if status is None:
                    del self.manifest[path]
                    continue
                self.manifest[path] = entry_of(here, name, status)
                most -= status.st_size
                if most >= 0 and kind_of(status) != OTHER:
                    copy_entry(work, self._made, path)
                    self._saved.add(path)
                else:
                    self._unsaved.add(path)

    def size(self, path: str) -> int | None:
        """How large a file was; None where its content was not kept."""
        return None if path in self._unsaved else self.manifest.get(path, ("", 0, b""))[1]

    def is_packed(self, path: str) -> bool:
        """Whether git takes what was there for binary."""
        if self.kind(path) not in (FILE, PROGRAM):
            return False
        here, name = (self._made if path in self._saved else self._tree).parent_of(path)
        with here, open(here.open(name), "rb") as file:
            return b"\0" in file.read(_HEAD)

    def kind(self, path: str) -> str:
        """What kind of file it was; empty for none."""
        return self.manifest.get(path, ("", 0, b""))[0]

    def copy(self, path: str, target: OpenFolder) -> None:
        """A file as it was."""
        copy_entry(self._made if path in self._saved else self._tree, target, path)


class Patches:
    """The patches of one attempt, made in a folder that the agent never had."""

    def __init__(
        self,
        own: OpenFolder,
        most: int,
        git: "Git",
        holds_secret: "Callable[[BinaryIO], bool]",
        redacted: "Callable[[str], str]",
    ) -> None:
        self._own = own
        self._most = most
        self._git = git
        self._holds_secret = holds_secret
        self._redacted = redacted
        self._left_out: list[dict[str, str]] = []
        self._failed = False

    def write(self, work: OpenFolder, base: Base, shown: int, ignored: int) -> "dict[str, Any]":
        """What git would show, and apart what it would ignore; gives what is in neither."""
        try:
            self._write(work, base, shown, ignored)
        except OSError as error:
            # Whatever the agent did to make it so, its work is still to be judged.
            self._leave_out(".", error.strerror or str(error))
        if self._failed:
            self._leave_out(".", "git could not compare all of it")
        return {
            "complete": not self._left_out,
            "left_out": self._left_out[:MOST_NAMED],
            "left_out_files": len(self._left_out),
        }

    def _write(self, work: OpenFolder, base: Base, shown: int, ignored: int) -> None:
        most = len(base.manifest) + MOST_FILES
        names = changes(work, base.manifest, history=False, most=most)
        if not names:
            return
        with self._own.made("patch") as place:
            make_repository(place)
            hidden = self._ignored(place, work, base, names)
            for output, label, wanted in (
                (shown, "shown", [name for name in names if name not in hidden]),
                (ignored, "ignored", [name for name in names if name in hidden]),
            ):
                with place.made(label) as at:
                    self._patch(at, work, base, wanted, output)

    def _leave_out(self, path: str, why: str) -> None:
        self._left_out.append({"path": written(self._redacted(path)), "why": why})

    def _asked(
        self, at: OpenFolder, place: OpenFolder, words: "tuple[str, ...]", names: "Iterable[str]"
    ) -> bytes:
        """What git prints about some names, in a folder; a failure is noted."""
        with (
            open(place.create("given"), "r+b") as given,
            open(place.create("told"), "r+b") as told,
        ):
            given.write(b"".join(os.fsencode(name) + b"\0" for name in names))
            given.seek(0)
            # No match is 1 to `check-ignore`.
            self._failed |= self._run(words, at, given.fileno(), told.fileno()) not in (0, 1)
            told.seek(0)
            return told.read()

    def _run(self, words: "tuple[str, ...]", at: OpenFolder, given: int, told: int) -> int:
        repository = os.path.join(self._own.path, "patch", "git")
        variables = {"GIT_DIR": repository, "GIT_WORK_TREE": at.path}
        return self._git(words, variables, at, given, told)

    def _ignored(
        self, place: OpenFolder, work: OpenFolder, base: Base, names: list[str]
    ) -> set[str]:
        """Those that git would ignore, by the rules as the agent left them."""
        known = {*base.manifest, *names}
        rules = [path for path in known if path.rpartition("/")[2] == _RULES]
        with place.made("rules") as at:
            for path in rules:
                status = look_at(work, path)
                short = status is not None and status.st_size <= _LONGEST_RULES
                if status is not None and short and kind_of(status) in (FILE, PROGRAM):
                    try:
                        copy_entry(work, at, path)
                    except PermissionError:
                        # Rules that nobody may read do not count.
                        continue
            words = ("check-ignore", "-z", "--stdin", "--no-index")
            # A name that begins with a colon would be a pattern to git.
            told = self._asked(at, place, words, [f"./{name}" for name in names])
        return {os.fsdecode(name.removeprefix(b"./")) for name in told.split(b"\0")}

    def _patch(
        self, place: OpenFolder, work: OpenFolder, base: Base, names: list[str], output: int
    ) -> None:
        room = self._most
        were: list[str] = []
        are: list[str] = []
        with place.made("before") as before, place.made("after") as after:
            for path in names:
                size, why = self._weighed(work, base, path, room)
                if why is not None:
                    self._leave_out(path, why)
                    continue
                room -= size
                if path in base.manifest:
                    base.copy(path, before)
                    were.append(path)
                if look_at(work, path) is not None:
                    copy_entry(work, after, path)
                    are.append(path)
            if not were and not are:
                return
            self._asked(before, place, _ADD, were)
            tree = self._asked(before, place, ("write-tree",), ()).decode("ascii").strip()
            # First of all, since git looks for no file behind what has become a link.
            self._asked(after, place, _REMOVE, sorted({*were} - {*are}))
            self._asked(after, place, _ADD, are)
            with open(place.create("given"), "rb") as nothing:
                words = (*_DIFF, tree)
                self._failed |= self._run(words, after, nothing.fileno(), output) != 0

    def _weighed(
        self, work: OpenFolder, base: Base, path: str, room: int
    ) -> "tuple[int, str | None]":
        """How much a change takes of the room there is; and why it is left out, if it is."""
        if may_hold_keys(path):
            return 0, "may hold keys, by its name"
        if len(os.fsencode(path)) > _LONGEST_PATH:
            return 0, "its path is too long for git"
        was = base.size(path)
        if was is None:
            return 0, "what setup made of it was too large to keep"
        now = look_at(work, path)
        if OTHER in (base.kind(path), now and kind_of(now)):
            return 0, "neither a file nor a link"
        if now is None and path not in base.manifest:
            return 0, "too many folders deep"
        size = was + (0 if now is None else now.st_size)
        if size > room:
            if size <= self._most:
                return 0, "no room left in the patch; see limits.patch_mb"
            return 0, f"too large: {size:,} bytes; see limits.patch_mb"
        if now is None or kind_of(now) == LINK:
            return size, None
        here, name = work.parent_of(path)
        try:
            with here, open(here.open(name), "rb") as file:
                # Git packs what it takes for binary, and then a secret in it can no longer be seen.
                packed = b"\0" in file.read(_HEAD) or base.is_packed(path)
                file.seek(0)
                if packed and self._holds_secret(file):
                    return 0, "a binary file that holds a secret"
        except OSError as error:
            return 0, f"cannot be read: {error.strerror}"
        return size, None


def look_at(work: OpenFolder, path: str) -> os.stat_result | None:
    """What is at a path, unless it is a folder, or no folder leads there any more."""
    try:
        here, name = work.parent_of(path)
    except OSError:
        return None
    with here:
        return None if here.is_folder(name) else here.look(name)
