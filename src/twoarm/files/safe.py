"""Writing, moving and removing where links may lie in wait: no link is followed on the way.

Everything is relative to an open folder, one name at a time. A suite, an agent or an old run folder
may have put anything at any name: a link, a pipe, a folder. Standard library only, for the
supervisor.
"""

import errno
import os
import stat

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# A pipe without a reader must not be waited for.
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)

_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR)
# How many folders a glob looks into: an agent may make any number of them.
_MOST_FOLDERS = 10_000


def is_plain(name: str) -> bool:
    """Whether a name stays in its folder."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def parts_of(path: str) -> list[str]:
    """The names on a relative path; OSError for one that could lead anywhere else."""
    parts = path.rstrip("/").split("/")
    if not all(map(is_plain, parts)):
        raise OSError(errno.EINVAL, "not a plain relative path", path)
    return parts


class OpenFolder:
    """A folder that stays the same, whatever its path comes to mean."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: str, descriptor: int | None = None) -> None:
        # For messages, and for programs that take a path.
        self.path = path
        self.descriptor = os.open(path, _FOLDER) if descriptor is None else descriptor

    def __enter__(self) -> "OpenFolder":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def dup(self) -> "OpenFolder":
        """The same folder, to be closed on its own."""
        return OpenFolder(self.path, os.dup(self.descriptor))

    def at(self, name: str) -> str:
        """The path of a name in it, for a message."""
        return os.path.join(self.path, name)

    # Looking.

    def names(self) -> list[str]:
        """Everything in it, in order."""
        return sorted(os.listdir(self.descriptor))

    def look(self, name: str) -> os.stat_result | None:
        """What is at a name; None for nothing."""
        self._check(name)
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _check(self, name: str) -> None:
        if not is_plain(name):
            raise OSError(errno.EINVAL, "not a plain name", self.at(name))

    def is_folder(self, name: str) -> bool:
        """Whether a real folder is at a name."""
        status = self.look(name)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def is_file(self, name: str) -> bool:
        """Whether a file, and not a link to one, is at a name."""
        status = self.look(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    def size(self, name: str) -> int:
        """The bytes of what is at a name; 0 for nothing."""
        status = self.look(name)
        return 0 if status is None else status.st_size

    # Folders.

    def enter(self, name: str) -> "OpenFolder":
        """The folder at a name."""
        self._check(name)
        try:
            return OpenFolder(self.at(name), os.open(name, _FOLDER, dir_fd=self.descriptor))
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise self._no_folder(name) from error
            raise self._named(error, name) from error

    def _no_folder(self, name: str) -> OSError:
        status = self.look(name)
        link = status is not None and stat.S_ISLNK(status.st_mode)
        what = "a link, which is not followed" if link else "not a folder"
        return OSError(errno.ENOTDIR, what, self.at(name))

    def _named(self, error: OSError, name: str) -> OSError:
        assert error.errno is not None
        return OSError(error.errno, error.strerror, self.at(name))

    def made(self, name: str, *, replace: bool = False) -> "OpenFolder":
        """The folder at a name, made if there is none; with `replace`, instead of anything else."""
        if replace and not self.is_folder(name):
            self.remove(name)
        self._check(name)
        try:
            os.mkdir(name, 0o777, dir_fd=self.descriptor)
        except FileExistsError:
            pass
        except OSError as error:
            raise self._named(error, name) from error
        return self.enter(name)

    def within(self, path: str, *, make: bool = False, replace: bool = False) -> "OpenFolder":
        """The folder at a relative path, every step of it a real folder.

        With `replace`, a mount on the way is refused: it is somebody else's.
        """
        inner = self.dup()
        for part in parts_of(path):
            with inner as above:
                inner = above.made(part, replace=replace) if make else above.enter(part)
        if replace and _mount(inner.descriptor) != _mount(self.descriptor):
            inner.close()
            raise OSError(errno.EXDEV, "a mount point, behind which nothing is written", inner.path)
        return inner

    def parent_of(
        self, path: str, *, make: bool = False, replace: bool = False
    ) -> "tuple[OpenFolder, str]":
        """The folder that a relative path is in, to be closed, and its name there."""
        *above, name = parts_of(path)
        if above:
            return self.within("/".join(above), make=make, replace=replace), name
        return self.dup(), name

    # Files.

    def open(self, name: str) -> int:
        """A file to read."""
        return self._opened(name, os.O_RDONLY)

    def open_own(self, name: str, *, append: bool = False) -> int:
        """A file to write to, made if need be, that has no other name anywhere."""
        flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if append else 0)
        return self._opened(name, flags, alone=True)

    def _opened(self, name: str, flags: int, *, alone: bool = False) -> int:
        self._check(name)
        try:
            descriptor = os.open(name, flags | _FILE, 0o644, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise self._no_file(name) from error
            raise self._named(error, name) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (alone and status.st_nlink > 1):
            os.close(descriptor)
            raise self._no_file(name)
        return descriptor

    def _no_file(self, name: str) -> OSError:
        return OSError(errno.EINVAL, "not a file of its own; move it away", self.at(name))

    def create(self, name: str, mode: int = 0o644, *, append: bool = False) -> int:
        """A new file to write and read, in the place of whatever is there."""
        self.remove(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE | (os.O_APPEND if append else 0)
        try:
            return os.open(name, flags, mode, dir_fd=self.descriptor)
        except OSError as error:
            raise self._named(error, name) from error

    def read(self, name: str) -> bytes:
        """A whole file."""
        with open(self.open(name), "rb") as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """All of a file or nothing, on the disk when this returns."""
        temporary = f"{name}.tmp"
        with open(self.create(temporary), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if self.is_folder(name):
            self.remove(name)
        self.rename(temporary, self, name)

    def rename(self, name: str, target: "OpenFolder", new: str) -> None:
        """Move what is at a name, whatever it is, to a name in another folder."""
        self._check(name)
        target._check(new)
        try:
            os.rename(name, new, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)
        except OSError as error:
            raise self._named(error, name) from error

    # Removing.

    def remove(self, name: str) -> None:
        """A file, a link or a whole tree; nothing if there is none.

        A link is removed, not what it leads to. Folders may be nested deeper than recursion or a
        path allows, and have whatever permissions an agent gave them. A mount point is refused.
        """
        status = self.look(name)
        if status is None:
            return
        try:
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(name, dir_fd=self.descriptor)
                return
            _empty(self.descriptor, name)
            os.rmdir(name, dir_fd=self.descriptor)
        except OSError as error:
            raise self._named(error, name) from error

    def clear(self, name: str) -> None:
        """The same where it does no harm if some of it stays."""
        try:
            self.remove(name)
        except OSError:
            return


def _empty(folder: int, name: str) -> None:
    """Remove everything in a folder, with two descriptors however deep it is."""
    at = _entered(folder, name)
    # For each folder above: the name that was entered, what else it holds, and which folder it is.
    above: list[tuple[str, list[str], tuple[int, int]]] = []
    try:
        left = _unlinked(at)
        while left or above:
            if left:
                below = left.pop()
                child = _entered(at, below)
                above.append((below, left, _identity(at)))
                os.close(at)
                at = child
                left = _unlinked(at)
            else:
                below, left, known = above.pop()
                parent = os.open("..", _FOLDER, dir_fd=at)
                os.close(at)
                at = parent
                if _identity(at) != known:
                    raise OSError(errno.ESTALE, "moved while it was removed")
                os.rmdir(below, dir_fd=at)
    finally:
        os.close(at)


def _entered(folder: int, name: str) -> int:
    """A folder that is to be removed, with permission to do so."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        _make_readable(folder, name)
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    try:
        if _mount(descriptor) != _mount(folder):
            raise OSError(errno.EXDEV, "a mount point, which is not removed")
        if os.fstat(descriptor).st_mode & 0o700 != 0o700:
            os.fchmod(descriptor, 0o700)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _make_readable(folder: int, name: str) -> None:
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return
    descriptor = os.open(name, os.O_PATH | _FOLDER, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", 0o700)
    finally:
        os.close(descriptor)


def _unlinked(folder: int) -> list[str]:
    """Remove the files of a folder; the folders that are left in it."""
    folders = []
    with os.scandir(folder) as entries:
        contents = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in contents:
        if is_folder:
            folders.append(name)
        else:
            os.unlink(name, dir_fd=folder)
    return folders


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _mount(descriptor: int) -> object:
    """What tells one mount from another, even of the same file system."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
            for line in file:
                if line.startswith(b"mnt_id:"):
                    return line
    except OSError:
        # No such thing on this system: file systems are told apart, at least.
        pass
    return os.fstat(descriptor).st_dev


def same_place(folder: OpenFolder, name: str, known: OpenFolder) -> bool:
    """Whether a name in a folder still is the folder that it was."""
    status = folder.look(name)
    return status is not None and (status.st_dev, status.st_ino) == _identity(known.descriptor)


def find(folder: OpenFolder, pattern: str) -> list[str]:
    """The files that a glob names, as relative paths; `**` stands for any number of folders."""
    from fnmatch import fnmatchcase

    paths = set()
    waiting = [("", pattern.split("/"))]
    looked = 0
    while waiting and looked < _MOST_FOLDERS:
        at, (first, *rest) = waiting.pop()
        looked += 1
        try:
            with folder.within(at) if at else folder.dup() as here:
                kinds = {name: here.look(name) for name in here.names()}
        except OSError:
            # What the agent does not let us see does not count as left behind.
            continue
        if first == "**":
            waiting.append((at, rest))
        for name, kind in kinds.items():
            path = f"{at}/{name}" if at else name
            is_folder = kind is not None and stat.S_ISDIR(kind.st_mode)
            if first == "**" and is_folder:
                waiting.append((path, [first, *rest]))
            elif first != "**" and fnmatchcase(name, first):
                if rest and is_folder:
                    waiting.append((path, rest))
                elif not rest and kind is not None and stat.S_ISREG(kind.st_mode):
                    paths.add(path)
    return sorted(paths)
