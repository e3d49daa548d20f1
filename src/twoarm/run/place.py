"""Where workspaces are: outside the user's repositories, and not below anybody's instructions."""

import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from twoarm.errors import InputError, UsageError
from twoarm.files.safe import OpenFolder, same_place
from twoarm.text.escape import named, visible

# What agents read in the folders above a workspace.
INSTRUCTIONS = (
    "AGENTS.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    ".cursorrules",
    # Claude Code reads these in every folder above, the user's HOME among them.
    ".claude/CLAUDE.md",
    ".claude/rules",
)

# A folder with this file, and its own name in it, was made here, and may be removed.
MARK = "made-by-twoarm"
_SCRATCH = "t"
_TOKEN_BYTES = 6
_TOKEN = re.compile(f"[0-9a-f]{{{2 * _TOKEN_BYTES}}}")


def new_token() -> str:
    """A name for one run, in its cache folder and in the environment of its processes."""
    return secrets.token_hex(_TOKEN_BYTES)


def is_token(text: str) -> bool:
    """Whether a text is such a name, and so no path to anywhere."""
    return _TOKEN.fullmatch(text) is not None


class Place:
    """The private folder of one run folder: trees, builds, and the scratch of running attempts."""

    def __init__(self, root: str, token: str) -> None:
        assert is_token(token)
        self.root = root
        self.path = os.path.join(root, token)
        self.token = token
        self._root = OpenFolder(root)
        with self._root.made(token) as folder:
            # Whether an earlier runner was here, and may have left somebody.
            self.known = not {*folder.names()} <= {f"{MARK}.tmp"}
            if not self.known:
                os.fchmod(folder.descriptor, 0o700)
                folder.write(MARK, token.encode())
            if not folder.is_file(MARK) or folder.read(MARK) != token.encode():
                raise OSError(17, "in use by something else", self.path)
            self._mark = _locked(folder, self.path)
            self.trees, self.builds, self.scratch = (
                folder.made(name) for name in ("trees", "builds", _SCRATCH)
            )

    @property
    def folder(self) -> OpenFolder:
        """The folder itself, to be closed."""
        return self._root.enter(self.token)

    def share(self) -> int:
        """The lock for a supervisor, which holds it as long as it lives."""
        return os.dup(self._mark)

    def fresh(self) -> str:
        """A path in the scratch that is not there yet; its name says nothing."""
        try:
            with self.folder as folder:
                here = same_place(folder, _SCRATCH, self.scratch)
        except OSError:
            here = False
        if not here:
            raise InputError(
                f"{visible(self.scratch.path)} was moved or replaced while the run went on"
            )
        return self.scratch.at(secrets.token_hex(6))

    def forget(self, name: str) -> None:
        """Remove a file of it; somebody may have moved all of it away."""
        try:
            with self.folder as folder:
                folder.remove(name)
        except OSError:
            return

    def clear_scratch(self) -> None:
        """Remove what attempts left behind that nobody waits for anymore."""
        for name in self.scratch.names():
            self.scratch.clear(name)

    def close(self) -> None:
        """Leave it to the next runner."""
        for folder in (self.trees, self.builds, self.scratch, self._root):
            folder.close()
        os.close(self._mark)

    def remove(self) -> None:
        """Remove all of it; what cannot be removed does no harm."""
        with suppress(OSError), self.folder as folder:
            # First what is large: whoever is killed on the way leaves what says whose this is.
            for name in filter(folder.is_folder, folder.names()):
                folder.clear(name)
        self._root.clear(self.token)
        self.close()


def _locked(folder: OpenFolder, path: str) -> int:
    """The mark, held by this process alone: somebody may have copied the whole run folder."""
    import fcntl

    mark = folder.open_own(MARK)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(mark)
        raise UsageError(
            f"{visible(path)} is in use by another runner, of a run folder that this one is a copy "
            "of; stop that one, or start over with another --out"
        ) from error
    return mark


def choose_place(token: str, environment: Mapping[str, str]) -> Place:
    """The first folder that can be written and has no instructions above it."""
    refused: list[str] = []
    for root in _usable(environment, refused):
        try:
            return Place(root, token)
        except OSError as error:
            refused.append(_unwritable(root, error))
    raise _no_place(refused)


def place_root(environment: Mapping[str, str]) -> str:
    """The folder that places would be in."""
    refused: list[str] = []
    root = next(_usable(environment, refused), None)
    if root is None:
        raise _no_place(refused)
    return root


def _usable(environment: Mapping[str, str], refused: list[str]) -> Iterator[str]:
    """The folders that places may be in; of the others, why not."""
    chosen = _chosen(environment)
    for root in _candidates(environment):
        if why := why_no_place(root, link=root == chosen):
            refused.append(why)
        else:
            yield os.path.realpath(root)


def _no_place(refused: list[str]) -> InputError:
    return InputError(
        f"no place for workspaces: {'; '.join(refused)}; name another folder in TWOARM_CACHE"
    )


def why_no_place(root: str, *, link: bool = False) -> str | None:
    """Why workspaces cannot be below a folder, which is made; a link is one only if somebody has
    named it."""
    above = _instructions_above(root)
    if above is not None:
        return f"{named(above)} would be read by agents below it"
    try:
        os.makedirs(root, 0o700, exist_ok=True)
        if os.path.islink(root) and not link:
            return f"{named(root)} is a link"
        if os.stat(root).st_uid != os.getuid():
            # Where everybody may write, somebody else may have been first.
            return f"{named(root)} belongs to another user"
        if not os.access(root, os.W_OK):
            return f"{visible(root)} cannot be written"
    except OSError as error:
        return _unwritable(root, error)
    return None


def _unwritable(root: str, error: OSError) -> str:
    return f"{visible(str(error.filename or root))} cannot be written: {error.strerror}"


def caches(environment: Mapping[str, str]) -> Iterator[str]:
    """The folders that may have places in them, as far as they are there."""
    chosen = _chosen(environment)
    for root in _candidates(environment):
        if os.path.isdir(root) and (root == chosen or not os.path.islink(root)):
            yield os.path.realpath(root)


def _chosen(environment: Mapping[str, str]) -> str | None:
    path = environment.get("TWOARM_CACHE")
    return os.path.abspath(path) if path else None


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    """The user's own choice alone, or the usual places."""
    if chosen := _chosen(environment):
        yield chosen
        return
    cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield os.path.join(os.path.abspath(cache), "twoarm")
    yield os.path.join(os.path.realpath(tempfile.gettempdir()), f"twoarm-{os.getuid()}")


def _instructions_above(path: str) -> str | None:
    at = Path(os.path.realpath(path))
    places = (str(folder / name) for folder in (at, *at.parents) for name in INSTRUCTIONS)
    return next(filter(os.path.lexists, places), None)
