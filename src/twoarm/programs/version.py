"""Versions of other programs, as numbers that compare, and what depends on them."""

from twoarm.programs.folder import Folder, SourceError
from twoarm.text.escape import named

# Longer than any date that a build is numbered by.
_LONGEST = 18

# The last opencode whose output count includes reasoning tokens; later ones count them beside it.
_REASONING_IN_OUTPUT = (1, 3, 15)


def numbers(version: str) -> tuple[int, ...]:
    """`1.3.15-beta` as (1, 3, 15): the numbers it starts with; empty for what is no version."""
    parts = []
    for part in version.split("-")[0].split("+")[0].split("."):
        # To `isdigit` alone `²` is a digit too, and `int` reads digits of every script.
        if not (part.isascii() and part.isdigit() and len(part) <= _LONGEST):
            break
        parts.append(int(part))
    return tuple(parts)


def opencode_output_includes_reasoning(version: str | None) -> bool | None:
    """Whether that opencode counts reasoning tokens as output; None if the version does not say.

    A pre-release counts as its release does.
    """
    release = numbers(version or "")
    return release <= _REASONING_IN_OUTPUT if release else None


def check_major(folder: Folder, name: str, program: str, version: str, newest: int) -> None:
    """Refuse a version of a program that is newer than those known, or that is none."""
    release = numbers(version)
    if not release or release[0] > newest:
        raise unsupported(folder, name, f"{program} {named(version)}", f"versions up to {newest}.x")


def unsupported(folder: Folder, name: str, version: str, supported: str) -> SourceError:
    """The error for a file that a later version of its program wrote."""
    return folder.refuse(
        f"{version} is not supported, only {supported}; a newer twoarm may support it", name
    )
