"""Removing trees, however deep they are and whatever rights their folders were given.

Standard library only, as the supervisor that uses it.
"""

import os
import stat

# Well below what a path may have, 1,024 on some systems.
_LONG = 600


def remove(path: str) -> None:
    """A file, a link or a whole tree; nothing if there is none.

    An agent can nest folders beyond any recursion, and beyond the length of a path: then they move
    up first.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(path)
        return
    name = os.path.join(path, os.urandom(8).hex())
    moved = 0
    # Folders, and whether nothing but folders that come first is left in them.
    waiting = [(path, False)]
    while waiting:
        at, emptied = waiting.pop()
        if emptied:
            os.rmdir(at)
            continue
        waiting.append((at, True))
        for below in _emptied(at):
            if len(below) > _LONG:
                # Moving a folder changes what is in it: where it is.
                os.chmod(below, 0o700)
                moved += 1
                os.rename(below, f"{name}{moved}")
                below = f"{name}{moved}"
            waiting.append((below, False))


def _emptied(path: str) -> list[str]:
    """Remove the files of a folder; the folders that are left in it."""
    os.chmod(path, 0o700)
    with os.scandir(path) as entries:
        found = list(entries)
    folders = []
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
        else:
            os.unlink(entry.path)
    return folders


def clear(path: str) -> None:
    """The same for what is in nobody's way if some of it stays."""
    try:
        remove(path)
    except OSError:
        return
