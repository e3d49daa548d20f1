"""The `.eval` archives of Inspect: ZIP files of which no member is unpacked beyond the limits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twoarm.errors import Position
from twoarm.programs.folder import LARGEST_RATIO, Folder, SourceError
from twoarm.text.escape import visible

# What one member of an archive may unpack to.
LARGEST_MEMBER = 256 * 2**20

# What an archive may ask for and its reader cannot do.
_UNKNOWN = (NotImplementedError, RuntimeError, ValueError, KeyError, OverflowError)


@contextmanager
def open_archive(folder: Folder, name: str) -> Iterator["Archive"]:
    """The members of an archive, while it is open."""
    from twoarm.files.zstd import zipfile

    with folder.open(name) as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except _damage() as error:
            raise folder.refuse(
                f"damaged archive: {visible(str(error))}; the log may not have finished", name
            ) from error
        except _UNKNOWN as error:
            raise folder.refuse(f"cannot be unpacked: {visible(str(error))}", name) from error
        with archive:
            yield Archive(folder, name, archive)


def _damage() -> tuple[type[Exception], ...]:
    """What the ways of packing raise for bytes that they did not write."""
    import lzma
    import struct
    import zlib

    from twoarm.files.zstd import zipfile, zstd

    return (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        zstd.ZstdError,
        struct.error,
        EOFError,
        OSError,
    )


class Archive:
    """The members of an archive, read within the limits."""

    def __init__(self, folder: Folder, name: str, archive: Any) -> None:
        self.folder = folder
        self.name = name
        self._archive = archive
        self._names = {member.filename for member in archive.infolist()}
        self._left = folder.most_unpacked(name)

    def __contains__(self, member: str) -> bool:
        return member in self._names

    @property
    def spent(self) -> bool:
        """Whether the archive has unpacked to all that it may."""
        return self._left <= 0

    def samples(self) -> list[str]:
        """The names of the samples, in order."""
        return sorted(
            member
            for member in self._names
            if member.startswith("samples/") and member.endswith(".json")
        )

    def where(self, member: str) -> Position:
        """The position of a member."""
        return Position(f"{self.folder.where(self.name)}:{visible(member)}")

    def read(self, member: str) -> bytes:
        """One member, or the error that names it."""
        try:
            return self._read(member)
        except _damage() as error:
            text = f"damaged: {visible(str(error))}; the log may not have finished"
            raise SourceError(self.where(member), text) from error
        except _UNKNOWN as error:
            text = f"cannot be unpacked: {visible(str(error))}"
            raise SourceError(self.where(member), text) from error

    def _read(self, member: str) -> bytes:
        """What the archive says about the size of a member is not trusted."""
        pieces = []
        room = min(LARGEST_MEMBER, self._left)
        with self._archive.open(member) as stream:
            while piece := stream.read(2**20):
                room -= len(piece)
                if room < 0:
                    self._left = 0
                    raise self.folder.refuse(
                        f"{visible(member)} unpacks to more than an archive may: "
                        f"{LARGEST_MEMBER // 2**20} MiB for a member, {LARGEST_RATIO} times the "
                        "archive for all; it may be a decompression bomb",
                        self.name,
                    )
                pieces.append(piece)
        text = b"".join(pieces)
        self._left -= len(text)
        return text
