"""The formats that are installed, and which of them the files under a path are of."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from twoarm.errors import InputError, Position, Problem, UsageError
from twoarm.programs.command.events import events as shown_as_it_is
from twoarm.programs.event import Event
from twoarm.programs.folder import Folder, SourceError, shown, walk
from twoarm.programs.format import Attempt, Format, LeftOut, Settings
from twoarm.programs.program import GROUP, described, guarded, installed, is_foreign, part_of
from twoarm.text.escape import did_you_mean, named
from twoarm.text.sentence import Name, Sentence, say

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

AUTO = "auto"

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
    known: dict[str, Format] = {}
    broken: dict[str, str] = {}
    for name, entry in installed().items():
        try:
            record = part_of(entry, "record")
            if record is None:
                continue
            reader: Format = record()
        # The code of another package may raise anything, and may even try to end the program.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            broken[name] = described(error)
            continue
        lacking = next((member for member in _MEMBERS if not hasattr(reader, member)), None)
        if lacking is not None:
            broken[name] = f"not a format: it has no `{lacking}`"
            continue
        known[name] = cast(Format, _PlugIn(name, reader)) if is_foreign(entry) else reader
    if not known:
        raise UsageError(f"no formats: the entry points {GROUP} of twoarm are not installed")
    return Formats(known=known, broken=broken)


class _PlugIn:
    """A format of another package: whatever it raises is a problem of the folder it was given."""

    def __init__(self, name: str, reader: Format) -> None:
        self.name = name
        self.one_run_per_folder = bool(reader.one_run_per_folder)
        self._reader = reader

    def recognizes(self, folder: Folder) -> bool:
        with guarded(self.name, folder):
            return bool(self._reader.recognizes(folder))

    def claims(self, folder: Folder) -> Sequence[str]:
        with guarded(self.name, folder):
            return [str(name) for name in self._reader.claims(folder)]

    def read(
        self, folder: Folder, name: str, settings: Settings
    ) -> Iterator[Attempt | Problem | LeftOut]:
        with guarded(self.name, folder, name):
            for run in self._reader.read(folder, name, settings):
                if not isinstance(run, Attempt | Problem | LeftOut):
                    kind = named(type(run).__name__)
                    raise TypeError(f"it gave a {kind}, not an `Attempt`")
                # A struct is not checked when it is made.
                yield msgspec.convert(msgspec.structs.asdict(run), type(run))


def events_of(
    entry: "EntryPoint", folder: Folder, name: str, run_id: str | None
) -> Iterator[Event]:
    """What a run did, as its program tells it; of one that does not, its output as it is."""
    if not is_foreign(entry):
        events = part_of(entry, "events") or shown_as_it_is
        yield from events(folder, name, run_id)
        return
    with guarded(entry.name, folder, name):
        events = part_of(entry, "events") or shown_as_it_is
        for event in events(folder, name, run_id):
            if not isinstance(event, Event):
                raise TypeError(f"it gave a {named(type(event).__name__)}, not an `Event`")
            yield msgspec.convert(msgspec.structs.asdict(event), Event)


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
                (format, here), (other, there) = first.items()
                raise InputError(
                    f"{there}: {other}, but {here}: {format}; name the format, "
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
    names = []
    for name, format in formats.items():
        try:
            if format.recognizes(folder):
                names.append(name)
        except SourceError:
            # It is listed when it is read; here it is no evidence either way.
            continue
    return names
