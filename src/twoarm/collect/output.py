"""The collected file: written under a temporary name, then renamed; never half a file."""

import os
from collections.abc import Iterable

from twoarm.collect.folder import shown
from twoarm.errors import InputError


def write_lines(path: str, lines: Iterable[bytes]) -> None:
    """Put the lines at a path, all of them or none."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        try:
            with open(temporary, "wb") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{shown(path)}: cannot be written: {reason}") from error
