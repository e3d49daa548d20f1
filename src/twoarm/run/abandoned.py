"""Dry runs that were killed together with their supervisors: nobody resumes one, so that the next
run, of whatever, removes what it has left.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from twoarm.errors import InputError, UsageError
from twoarm.files.safe import OpenFolder
from twoarm.run.engine import Engine
from twoarm.run.isolation import Isolation
from twoarm.run.place import MARK, Place, caches, is_token
from twoarm.run.sealing import CONTAINERS
from twoarm.run.supervisor.isolation import RUN_LABEL
from twoarm.text.escape import visible

# What tells the place of a dry run from one that a resume goes on with.
_NOTE = "dry-run"
_NOTE_BYTES = 1000
# How long an engine may take; the run that waits for it may not even need it.
_ENGINE_SECONDS = 60


class _DryRun(msgspec.Struct, frozen=True, kw_only=True):
    isolation: Isolation
    # Its processes and containers are found nowhere else.
    machine: str


def note_dry_run(place: Place, isolation: Isolation) -> None:
    """Say that nobody will come back to this place, before anything is in it."""
    note = _DryRun(isolation=isolation, machine=os.uname().nodename)
    with place.folder as folder:
        folder.write(_NOTE, msgspec.json.encode(note))


def clear_dry_runs(environment: Mapping[str, str]) -> list[str]:
    """Remove what killed dry runs have left, and whoever; a line for each engine that hinders."""
    from twoarm.run.supervisor.process_limit import clear_process_limits
    from twoarm.run.supervisor.processes import kill_marked

    hindered: dict[str, str] = {}
    for place, engine in _abandoned(environment):
        # First those who might still start a container.
        kill_marked(place.token)
        clear_process_limits()
        if engine in CONTAINERS and engine not in hindered:
            why = _containers_left(engine, place.token)
            if why is not None:
                hindered[engine] = (
                    f"{engine}: {why}; what a killed dry run left in {visible(place.path)} stays "
                    "until the next run"
                )
        if engine in hindered:
            place.close()
        else:
            place.remove()
    return [*hindered.values()]


def _abandoned(environment: Mapping[str, str]) -> Iterator[tuple[Place, Isolation]]:
    """The places of dry runs of which nobody is left, held from now on; and their isolation."""
    for root in caches(environment):
        notes = {}
        with suppress(OSError), OpenFolder(root) as cache:
            notes = {name: _note_in(cache, name) for name in cache.names() if is_token(name)}
        for token, note in notes.items():
            if note is not None and note.machine == os.uname().nodename:
                # It is at work, or is not what it looks like.
                with suppress(OSError, UsageError):
                    yield Place(root, token), note.isolation


def _note_in(cache: OpenFolder, token: str) -> _DryRun | None:
    """What a folder of this user says of its dry run, if it was made here for one."""
    try:
        with cache.enter(token) as folder:
            own = os.fstat(folder.descriptor).st_uid == os.getuid()
            if not own or folder.size(MARK) != len(token) or folder.size(_NOTE) > _NOTE_BYTES:
                return None
            return msgspec.json.decode(folder.read(_NOTE), type=_DryRun)
    except (OSError, ValueError):
        return None


def _containers_left(name: str, token: str) -> str | None:
    """Remove the containers of a dry run; why there may be some left."""
    path = shutil.which(name)
    if path is None:
        return "is not installed"
    try:
        engine = Engine(name=name, path=path)
        return engine.clear(f"{RUN_LABEL}={token}", seconds=_ENGINE_SECONDS)
    except InputError:
        return "does not answer"
    except OSError as error:
        return f"cannot be started: {error.strerror}"
