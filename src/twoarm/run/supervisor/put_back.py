"""What an agent changed, from its patches back into a workspace, and whether all of it is there.

Standard library only, for the supervisor.
"""

import os

from twoarm.files.safe import OpenFolder
from twoarm.run.supervisor.manifest import LINK, kind_of, written
from twoarm.run.supervisor.patch import look_at, make_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from twoarm.run.supervisor.patch import Git

# Both at once: apply the patch, and name its files in their order.
_APPLY = ("apply", "--apply", "--numstat", "-z", "--whitespace=nowarn", "-")
_PIECE = 1 << 20
# What git calls the content of no file.
_GONE = b"0" * 40


def put_back(own: OpenFolder, work: OpenFolder, git: "Git", patches: "Iterable[str]") -> str | None:
    """Apply patches to a workspace; why that does not give what the agent left, if it does not."""
    with (
        own.made("put-back") as place,
        open(place.create("patch"), "r+b") as patch,
        open(place.create("told"), "r+b") as told,
    ):
        for path in patches:
            _append(path, patch)
        if not patch.tell():
            return None
        make_repository(place)
        patch.seek(0)
        variables = {"GIT_DIR": place.at("git"), "GIT_WORK_TREE": work.path}
        if git(_APPLY, variables, work, patch.fileno(), told.fileno()):
            return "its patch does not apply"
        patch.seek(0)
        told.seek(0)
        names = [os.fsdecode(entry.split(b"\t", 2)[2]) for entry in told.read().split(b"\0")[:-1]]
        # A file that has become a link is in it twice, and the last is what was left.
        left = dict(zip(names, _contents(patch), strict=True))
    for path, content in left.items():
        if content is not None and _content(work, path) != content:
            return f"its patch does not give {written(path)} as it was left"
    return None


def _append(path: str, patch: "BinaryIO") -> None:
    with (
        OpenFolder(os.path.dirname(path)) as folder,
        open(folder.open(os.path.basename(path)), "rb") as file,
    ):
        while piece := file.read(_PIECE):
            patch.write(piece)


def _contents(patch: "BinaryIO") -> "Iterator[bytes | None]":
    """What git calls the content of each file of a patch; None where only its mode changes."""
    content: bytes | None = None
    files = 0
    for line in patch:
        # Lines of content begin with a sign, and those of packed content have no space.
        if line.startswith(b"diff --git "):
            if files:
                yield content
            files += 1
            content = None
        elif line.startswith(b"index "):
            content = line.split()[1].partition(b"..")[2]
    if files:
        yield content


def _content(work: OpenFolder, path: str) -> bytes:
    """What git calls the content of what is at a path."""
    from hashlib import sha1

    status = look_at(work, path)
    if status is None:
        return _GONE
    # A link is as long as where it leads.
    digest = sha1(b"blob %d\0" % status.st_size, usedforsecurity=False)
    here, name = work.parent_of(path)
    with here:
        if kind_of(status) == LINK:
            digest.update(os.fsencode(os.readlink(name, dir_fd=here.descriptor)))
        else:
            with open(here.open(name), "rb") as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
    return digest.hexdigest().encode()
