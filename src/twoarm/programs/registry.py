"""The formats that are installed, and which of them the files under a path are of."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

import msgspec

from twoarm.errors import InputError, Position, Problem, TwoarmError, UsageError
from twoarm.programs.folder import Folder, SourceError, shown, walk
from twoarm.programs.format import Attempt, Format, LeftOut, Settings
from twoarm.text.escape import did_you_mean, named, shortened
from twoarm.text.sentence import Name, Sentence, say

GROUP = "twoarm.formats"
AUTO = "auto"

# In this order they are listed; those of other packages come after them.
OWN_FORMATS = (
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
_OWN = "twoarm.programs."

_MEMBERS = ("name", "one_run_per_folder", "recognizes", "claims", "read")


class Formats(msgspec.Struct, frozen=True, kw_only=True):
    """Every format by name, and why those that could not be loaded were not."""

    known: dict[str, Format]
    broken: dict[str, str]

    def choose(self, name: str) -> Format:
        """The format of that name, or an error that says which there are."""
        if name in self.broken:
            raise UsageError(broken(name, self.broken[name]))
        if name not in self.known:
            formats = (AUTO, *self.known)
            near = did_you_mean(name, formats) or f"; the formats are {', '.join(formats)}"
            raise UsageError(f"no format {named(name)}{near}")
        return self.known[name]


def load_formats() -> Formats:
    """The formats of twoarm and of other packages; one that is broken does not touch the others."""
    from importlib.metadata import entry_points

    known: dict[str, Format] = {}
    broken: dict[str, str] = {}
    found = [
        (not entry.value.startswith(_OWN), entry.name, entry) for entry in entry_points(group=GROUP)
    ]
    for foreign, name, entry in sorted(found, key=lambda one: (*_rank(one[1]), one[0])):
        if name in known:
            # Twoarm's own formats keep their names.
            continue
        try:
            one = entry.load()()
        # The code of another package may raise anything, and may even try to end the program.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            broken[name] = _described(error)
            continue
        lacking = next((member for member in _MEMBERS if not hasattr(one, member)), None)
        if lacking is not None:
            broken[name] = f"not a format: it has no `{lacking}`"
            continue
        known[name] = cast(Format, _PlugIn(name, one)) if foreign else one
    if not known:
        raise UsageError(f"no formats: the entry points {GROUP} of twoarm are not installed")
    return Formats(known=known, broken=broken)


def _rank(name: str) -> tuple[int, str]:
    return (OWN_FORMATS.index(name) if name in OWN_FORMATS else len(OWN_FORMATS)), name


def _described(error: BaseException) -> str:
    return shortened(f"{type(error).__name__}: {error}", 200)


class _PlugIn:
    """A format of another package: whatever it raises is a problem of the folder it was given."""

    def __init__(self, name: str, one: Format) -> None:
        self.name = name
        self.one_run_per_folder = bool(one.one_run_per_folder)
        self._one = one

    def recognizes(self, folder: Folder) -> bool:
        with self._guarded(folder):
            return bool(self._one.recognizes(folder))

    def claims(self, folder: Folder) -> Sequence[str]:
        with self._guarded(folder):
            return [str(name) for name in self._one.claims(folder)]

    def read(
        self, folder: Folder, name: str, settings: Settings
    ) -> Iterator[Attempt | Problem | LeftOut]:
        with self._guarded(folder, name):
            for found in self._one.read(folder, name, settings):
                if not isinstance(found, Attempt | Problem | LeftOut):
                    kind = named(type(found).__name__)
                    raise TypeError(f"it gave a {kind}, not an `Attempt`")
                # A struct is not checked when it is made.
                yield msgspec.convert(msgspec.structs.asdict(found), type(found))

    @contextmanager
    def _guarded(self, folder: Folder, name: str = "") -> Iterator[None]:
        try:
            yield
        except TwoarmError:
            raise
        # As above: what it raises is the problem of one folder.
        except (Exception, SystemExit) as error:
            text = f"format {named(self.name)} failed: {_described(error)}"
            raise folder.refuse(text, name) from error


def recognize(paths: Sequence[str], formats: Formats) -> str:
    """The one format whose files are under all paths."""
    first: dict[str, Position] = {}
    for path in paths:
        for folder in walk(path):
            if isinstance(folder, Problem):
                continue
            for name in recognized(folder, formats.known):
                first.setdefault(name, folder.where())
                folder.below = folder.below and not formats.known[name].one_run_per_folder
            if len(first) > 1:
                (one, here), (two, there) = first.items()
                raise InputError(
                    f"{there}: {two}, but {here}: {one}; name the format, "
                    "and collect the runs of each program separately"
                )
            if first and not folder.below:
                # One run is enough to recognize the program; reading notices any other.
                break
    if not first:
        where = ", ".join(shown(path) for path in paths)
        listing = ", ".join(formats.known)
        lost = "".join(f"; {broken(name, why)}" for name, why in formats.broken.items())
        raise InputError(f"{where}: no files of a known program; name the format: {listing}{lost}")
    return next(iter(first))


def broken(name: str, why: str) -> Sentence:
    """That a format is not there, in words."""
    return say("format {} cannot be loaded: {}", Name(name), why)


def recognized(folder: Folder, formats: Mapping[str, Format]) -> list[str]:
    """The formats whose files are surely in a folder."""
    found = []
    for name, one in formats.items():
        try:
            if one.recognizes(folder):
                found.append(name)
        except SourceError:
            # It is listed when it is read; here it is no evidence either way.
            continue
    return found
