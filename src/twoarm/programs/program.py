"""The programs that are installed: each is a package, with up to three modules for its parts.

    record   `record: type[Format]`: what a run of it was
    events   `events: Callable[[Folder, str, str | None], Iterator[Event]]`: what it did, for a run
             page, from the folder and file of a run and its id
    launch   `launch: type[Agent]`: how it is started, and what its running costs

A part is imported when it is needed; a program has those that make sense for it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from twoarm.errors import TwoarmError
from twoarm.programs.folder import Folder
from twoarm.text.escape import named, shortened

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "twoarm.programs"

# In this order they are listed; those of other packages come after them.
OWN_PROGRAMS = (
    "harbor",
    "opencode",
    "claude-code",
    "codex",
    "inspect",
    "gemini-cli",
    "mini-swe-agent",
    "table",
    "command",
)

Part = Literal["record", "events", "launch"]


def installed() -> "dict[str, EntryPoint]":
    """Every program by its name; twoarm's own keep theirs."""
    return _installed(tuple(sys.path))


@lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> "dict[str, EntryPoint]":
    """What is installed in these folders: to look costs more than to read a run."""
    from importlib.metadata import entry_points

    programs: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=_rank):
        programs.setdefault(entry.name, entry)
    return programs


def _rank(entry: "EntryPoint") -> tuple[int, str, bool]:
    own = OWN_PROGRAMS.index(entry.name) if entry.name in OWN_PROGRAMS else len(OWN_PROGRAMS)
    return own, entry.name, is_foreign(entry)


def is_foreign(entry: "EntryPoint") -> bool:
    """Whether a program is of another package, which may raise anything."""
    return not entry.value.startswith("twoarm.programs.")


def has_part(entry: "EntryPoint", part: Part) -> bool:
    """Whether a program has such a part; its package is imported for that, but not the part."""
    from importlib.util import find_spec

    return find_spec(f"{entry.value}.{part}") is not None


def part_of(entry: "EntryPoint", part: Part) -> Callable[..., Any] | None:
    """What makes a part of a program; None where it has no such part."""
    from importlib import import_module

    if not has_part(entry, part):
        return None
    made: Callable[..., Any] = getattr(import_module(f"{entry.value}.{part}"), part)
    if not callable(made):
        raise TypeError(f"`{part}` is not a function")
    return made


def described(error: BaseException) -> str:
    """What the code of another package raised."""
    return shortened(f"{type(error).__name__}: {error}", 200)


@contextmanager
def guarded(program: str, folder: Folder, name: str = "") -> Iterator[None]:
    """Whatever the code of another package raises is a problem of the folder it was given."""
    try:
        yield
    except TwoarmError:
        raise
    # It may even try to end the program.
    except (Exception, SystemExit) as error:
        text = f"format {named(program)} failed: {described(error)}"
        raise folder.refuse(text, name) from error
