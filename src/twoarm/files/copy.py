"""Copying a folder that somebody else has filled: no link is followed, and nothing is too deep."""

import errno
import os
from contextlib import suppress

from twoarm.files.safe import OpenFolder

_PIECE = 1 << 20

# The names of folders that are still to be copied, and which folders they are in.
_Above = tuple[list[str], tuple[int, int], tuple[int, int]]


def copy_tree(source: OpenFolder, target: OpenFolder) -> None:
    """Everything in a folder, with the same few descriptors however deep it is.

    A link stays a link, a hole stays a hole, and what is neither file nor folder is left out.
    """
    at, to = source.dup(), target.dup()
    above: list[_Above] = []
    try:
        left = _copy_files(at, to)
        while left or above:
            if left:
                name = left.pop()
                above.append((left, _identity(at), _identity(to)))
                inner = at.enter(name)
                at.close()
                at = inner
                made = to.made(name)
                to.close()
                to = made
                left = _copy_files(at, to)
            else:
                left, known, known_to = above.pop()
                at, to = _left(at, known), _left(to, known_to)
    finally:
        at.close()
        to.close()


def _identity(folder: OpenFolder) -> tuple[int, int]:
    status = os.fstat(folder.descriptor)
    return status.st_dev, status.st_ino


def _left(folder: OpenFolder, known: tuple[int, int]) -> OpenFolder:
    """The folder above, which has to be the one that this was entered from."""
    with folder:
        flags = os.O_RDONLY | os.O_DIRECTORY
        above = os.open("..", flags, dir_fd=folder.descriptor)
        parent = OpenFolder(os.path.dirname(folder.path), above)
    if _identity(parent) != known:
        parent.close()
        raise OSError(errno.ESTALE, "moved while it was copied", folder.path)
    return parent


def _copy_files(source: OpenFolder, target: OpenFolder) -> list[str]:
    """Copy the files and links of one folder; the folders that are in it."""
    folders = []
    for name in source.names():
        if source.is_folder(name):
            folders.append(name)
        elif source.is_file(name):
            with (
                open(source.open(name), "rb", buffering=0) as file,
                open(target.create(name), "wb", buffering=0) as copied,
            ):
                _copy_content(file.fileno(), copied.fileno())
        else:
            with suppress(OSError):
                leads = os.readlink(name, dir_fd=source.descriptor)
                os.symlink(leads, name, dir_fd=target.descriptor)
    return folders


def _copy_content(source: int, target: int) -> None:
    """The bytes that are there; what an agent has made of holes would fill any disk."""
    status = os.fstat(source)
    at = 0
    while at < status.st_size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            # Nothing but a hole is left.
            break
        end = os.lseek(source, at, os.SEEK_HOLE)
        os.lseek(source, at, os.SEEK_SET)
        os.lseek(target, at, os.SEEK_SET)
        while at < end and (piece := os.read(source, min(_PIECE, end - at))):
            at += len(piece)
            while piece:
                piece = piece[os.write(target, piece) :]
        if at < end:
            break
    os.ftruncate(target, status.st_size)
    os.fchmod(target, status.st_mode & 0o777)
