"""What a tree holds, file by file, so that any change to it is seen and can be named.

Standard library only, for the supervisor.
"""

import errno
import os
import stat

from twoarm.files.safe import OpenFolder, parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

# What kind of file it is, its size, and its digest or where it leads.
ManifestEntry = tuple[str, int, bytes]
# By path.
Manifest = dict[str, ManifestEntry]

FILE, PROGRAM, LINK, OTHER = "file", "program", "link", "other"

# An agent may make any number of files besides those that it was given, as deep as it likes.
MOST_FILES = 200_000
DEEPEST = 100
HISTORY = ".git"


def walk(
    folder: OpenFolder, *, history: bool, most: int | None = None
) -> "Iterator[tuple[OpenFolder, str, os.stat_result, str]]":
    """Every file, link and whatever else is not a folder: where it is, what it is, and its path.

    A folder that is too deep, or that cannot be looked into, is listed as well. Without
    `history`, nothing in a folder named `.git` is there, and no such file. OSError if there are
    more than the most.
    """
    waiting = [""]
    seen = 0
    while waiting:
        at = waiting.pop()
        try:
            opened = folder.within(at) if at else folder.dup()
        except PermissionError:
            above, name = folder.parent_of(at)
            with above:
                yield above, name, os.stat(name, dir_fd=above.descriptor), at
            continue
        with opened as here:
            for name in here.names():
                status = here.look(name)
                if status is None or (name == HISTORY and not history):
                    continue
                seen += 1
                if most is not None and seen > most:
                    raise OSError(errno.E2BIG, f"more than {most:,} files and folders")
                path = f"{at}/{name}" if at else name
                if stat.S_ISDIR(status.st_mode) and at.count("/") < DEEPEST:
                    waiting.append(path)
                else:
                    yield here, name, status, path


def written(path: str) -> str:
    """A path as any text file takes it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def kind_of(status: os.stat_result) -> str:
    """What kind of file it is; git knows no more of its permissions."""
    if stat.S_ISLNK(status.st_mode):
        return LINK
    if not stat.S_ISREG(status.st_mode):
        return OTHER
    return PROGRAM if status.st_mode & 0o100 else FILE


def entry_of(folder: OpenFolder, name: str, status: os.stat_result) -> ManifestEntry:
    """What is at a name, with its content."""
    kind = kind_of(status)
    if kind == LINK:
        return kind, 0, os.fsencode(os.readlink(name, dir_fd=folder.descriptor))
    if kind == OTHER:
        return kind, 0, b""
    return kind, status.st_size, content_digest(folder, name)


def content_digest(folder: OpenFolder, name: str) -> bytes:
    """The digest of the content of a file."""
    from hashlib import file_digest

    with open(folder.open(name), "rb") as file:
        return file_digest(file, "sha256").digest()


def manifest_of(folder: OpenFolder) -> Manifest:
    """All of a tree."""
    return {
        path: entry_of(here, name, status)
        for here, name, status, path in walk(folder, history=True)
    }


def changes(
    folder: OpenFolder, before: Manifest, *, history: bool, most: int | None = None
) -> list[str]:
    """The paths that are not what they were, are new, or are gone."""
    changed = []
    present = set()
    for here, name, status, path in walk(folder, history=history, most=most):
        present.add(path)
        known = before.get(path)
        # Only a file that could be the same is read.
        alike = known is not None and known[0] == kind_of(status) and not _resized(known, status)
        if not alike or known != _readable_entry(here, name, status):
            changed.append(path)
    gone = (path for path in before if path not in present)
    changed += [path for path in gone if history or HISTORY not in path.split("/")]
    return sorted(changed)


def _resized(known: ManifestEntry, status: os.stat_result) -> bool:
    return known[0] in (FILE, PROGRAM) and known[1] != status.st_size


def _readable_entry(folder: OpenFolder, name: str, status: os.stat_result) -> ManifestEntry | None:
    try:
        return entry_of(folder, name, status)
    except OSError:
        return None


def changed_below(folder: OpenFolder, path: str, before: Manifest) -> str | None:
    """The first path at or below a path that is not what it was; None if all of it is."""
    known = {at: entry for at, entry in before.items() if _lies_at(at, path)}
    for at, entry in known.items():
        try:
            above, name = folder.parent_of(at)
        except OSError:
            return at
        with above:
            status = above.look(name)
            if status is None or _readable_entry(above, name, status) != entry:
                return at
    return _added(folder, path, known)


def _added(folder: OpenFolder, path: str, known: "Container[str]") -> str | None:
    try:
        above, name = folder.parent_of(path)
    except FileNotFoundError:
        # Nor was there anything.
        return None
    with above:
        status = above.look(name)
        if status is None or not stat.S_ISDIR(status.st_mode):
            return path if status is not None and path.rstrip("/") not in known else None
        with above.enter(name) as below:
            for _, _, _, at in walk(below, history=True):
                whole = "/".join((*parts_of(path), at))
                if whole not in known:
                    return whole
    return None


def _lies_at(path: str, above: str) -> bool:
    above = above.rstrip("/")
    return path == above or path.startswith(f"{above}/")
