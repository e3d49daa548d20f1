"""The one writer of files: never half a file, and no file replaced before all are written.

A regular file is written under another name in its own folder and renamed. Where the user has named
the file, links are followed, and what is not a regular file, a device or a FIFO, is written
through. A name of ours in a folder becomes a file, whatever somebody has put there.
"""

import os
import stat
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

import msgspec

from twoarm.errors import OutputError, UsageError
from twoarm.files.interrupt import held_off
from twoarm.text.escape import named, series, visible

# How much of a folder is listed in an error.
_SHOWN = 3


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What to write to a path; `append` adds it to what is there."""

    path: str
    content: Iterable[bytes]
    append: bool
    # Whether the user has named the file, and not only the folder that it is in.
    named: bool


class _Staged(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file under a temporary name, and the file whose place it will take."""

    path: str
    target: str
    temporary: str


def write(outputs: Sequence[Output]) -> None:
    """Write every output under a temporary name, then rename one after the other.

    If one of them cannot be written, the others stay as they were; if one cannot be renamed, the
    error says which are in place.
    """
    special = {output.path for output in outputs if output.named and _is_special(output.path)}
    regular = [output for output in outputs if output.path not in special]
    temporaries: list[str] = []
    try:
        staged = [_stage(output, temporaries) for output in regular if not output.append]
        for output in outputs:
            if output.path in special:
                _write_through(output)
        with held_off():
            for output in regular:
                if output.append:
                    _append(output)
            _rename(staged)
    finally:
        with held_off():
            for name in temporaries:
                with suppress(OSError):
                    os.unlink(name)


def write_folder(
    path: str, files: Iterable[tuple[str, bytes]], ours: Callable[[str], bool]
) -> None:
    """A folder of just these files, replacing an older one whose every file is `ours`.

    The files are written into a new folder, which takes the place of the old one at the end.
    """
    from shutil import rmtree

    with _naming(path):
        _refuse_others(path, ours)
        target = os.path.realpath(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary, old = _unforeseen(target), _unforeseen(target)
        os.mkdir(temporary)
        try:
            for name, content in files:
                with open(os.path.join(temporary, name), "xb") as file:
                    file.write(content)
            if os.path.isdir(target):
                os.rename(target, old)
            os.rename(temporary, target)
        finally:
            if os.path.isdir(old) and not os.path.lexists(target):
                os.rename(old, target)
            rmtree(temporary, ignore_errors=True)
            rmtree(old, ignore_errors=True)


def write_new_folder(path: str, files: Mapping[str, bytes]) -> None:
    """A folder of these files, whole or not at all; one that is there already has to be empty.

    An empty folder stays the same one, because somebody may be in it: the files are written into a
    folder below it, then moved up in their order.
    """
    from shutil import rmtree

    with _naming(path):
        target = os.path.realpath(path)
        there = os.path.lexists(target)
        if there:
            _refuse_occupied(path, target)
        temporary = _unforeseen(os.path.join(target, "") if there else target)
        os.makedirs(temporary)
        try:
            for name, content in files.items():
                at = os.path.join(temporary, name)
                os.makedirs(os.path.dirname(at), exist_ok=True)
                with open(at, "xb") as file:
                    file.write(content)
            with held_off():
                if there:
                    for name in dict.fromkeys(name.partition("/")[0] for name in files):
                        os.rename(os.path.join(temporary, name), os.path.join(target, name))
                else:
                    os.rename(temporary, target)
        finally:
            rmtree(temporary, ignore_errors=True)


def write_new_file(path: str, content: bytes) -> None:
    """A file that was not there before, whole or not at all; none that is there is written to."""
    with _naming(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        temporary = _unforeseen(path)
        try:
            with _created(temporary) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # A second name, which takes nobody's place.
            os.link(temporary, path)
        finally:
            with suppress(OSError):
                os.unlink(temporary)


def _refuse_occupied(path: str, target: str) -> None:
    """Refuse what is not an empty folder, and say what it is."""
    if not os.path.isdir(target):
        raise OutputError(f"{visible(path)}: there already, and not a folder; name a new one")
    if names := sorted(os.listdir(target)):
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        listing = series([*map(named, names[:_SHOWN]), *more])
        raise OutputError(
            f"{visible(path)}: not empty: it has {listing}; name a new folder, or an empty one"
        )


def remove_folder(path: str, ours: Callable[[str], bool]) -> None:
    """Remove an older folder, if its every file is `ours`."""
    from shutil import rmtree

    with _naming(path):
        _refuse_others(path, ours)
        if os.path.isdir(path):
            rmtree(os.path.realpath(path))


def _refuse_others(path: str, ours: Callable[[str], bool]) -> None:
    refuse_link(path)
    for name in os.listdir(path) if os.path.isdir(path) else ():
        there = os.lstat(os.path.join(path, name))
        if not (ours(name) and stat.S_ISREG(there.st_mode)):
            raise OutputError(
                f"{visible(os.path.join(path, name))}: not a file of twoarm; "
                "move it, or choose another folder by --out"
            )


def refuse_link(path: str) -> None:
    """Refuse a folder of ours that is a link: what it leads to is somebody else's."""
    if os.path.islink(path):
        raise OutputError(
            f"{visible(path)}: a link, and nothing is written through it; "
            "remove it, or choose another folder by --out"
        )


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte, however few the descriptor takes at a time."""
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            from select import POLLOUT, poll

            waiting = poll()
            waiting.register(descriptor, POLLOUT)
            waiting.poll()


def refuse_overlap(outputs: Mapping[str, str | int], inputs: Sequence[str | int]) -> None:
    """Refuse an output that is an input or another output, by whatever name.

    Outputs have the name of their option; a number is an open file.
    """
    taken = {_identity(place) for place in inputs}
    options: dict[Hashable, str] = {}
    for option, place in outputs.items():
        identity = _identity(place)
        if identity is None:
            continue
        shown = f"{visible(place)}: " if isinstance(place, str) else ""
        if identity in taken:
            raise UsageError(f"{shown}{option} is also an input; choose another name")
        other = options.setdefault(identity, option)
        if other != option:
            raise UsageError(f"{shown}{other} and {option} are the same file; choose two names")


def _identity(place: str | int) -> Hashable:
    """What tells a file from others, whatever its name; None where sharing it does no harm."""
    try:
        status = os.stat(place)
    except FileNotFoundError:
        return os.path.realpath(str(place))
    except (OSError, ValueError):
        # Reading or writing it fails as well, and says why.
        return None
    if stat.S_ISCHR(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn what the system refuses into an error that names the output."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise OutputError(f"{visible(path)}: cannot be written: {reason or error}") from error


def _is_special(path: str) -> bool:
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _stage(output: Output, temporaries: list[str]) -> _Staged:
    """Write the whole file beside its target."""
    with _naming(output.path):
        target = _target(output)
        before = _replaceable(target, named=output.named)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = _unforeseen(target)
        # Before it is there, so that no signal comes in between.
        temporaries.append(temporary)
        with _created(temporary) as file:
            if before is not None:
                _make_alike(file.fileno(), before)
            file.writelines(output.content)
            file.flush()
            os.fsync(file.fileno())
    return _Staged(path=output.path, target=target, temporary=temporary)


def _target(output: Output) -> str:
    """The file whose place is taken."""
    if output.named:
        return os.path.realpath(output.path)
    folder, name = os.path.split(output.path)
    return os.path.join(os.path.realpath(folder), name)


def _replaceable(path: str, *, named: bool) -> os.stat_result | None:
    """The file that is there, if it may be replaced; None if there is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        if named:
            # Followed already: a link that is still there leads to itself.
            raise OSError(40, "Too many levels of symbolic links")
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "Is a directory")
    if not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied")
    return status


def _unforeseen(target: str) -> str:
    """A name beside the target for which nobody could have laid a trap."""
    return os.path.join(os.path.dirname(target), f".twoarm-{os.urandom(8).hex()}.tmp")


def _created(name: str) -> BinaryIO:
    """A file that was not there before, not even as a link; with the mode of the umask."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    return open(descriptor, "wb")


def _make_alike(descriptor: int, before: os.stat_result) -> None:
    """Owner and mode of the file that will be replaced, as if it had been overwritten."""
    with suppress(PermissionError):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _write_through(output: Output) -> None:
    with _naming(output.path):
        descriptor = os.open(output.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            for piece in output.content:
                write_all(descriptor, piece)
        finally:
            os.close(descriptor)


def _rename(staged: Sequence[_Staged]) -> None:
    done: list[str] = []
    for file in staged:
        try:
            os.replace(file.temporary, file.target)
        except OSError as error:
            placed = f"; already in place: {', '.join(done)}" if done else ""
            raise OutputError(
                f"{visible(file.path)}: cannot be written: {error.strerror}{placed}"
            ) from error
        done.append(visible(file.path))


def _append(output: Output) -> None:
    with _naming(output.path):
        descriptor = os.open(
            output.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666
        )
        try:
            size = os.fstat(descriptor).st_size
            try:
                for piece in output.content:
                    write_all(descriptor, piece)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
