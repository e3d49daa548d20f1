"""Where workspaces are: outside the user's repositories, below no instructions of anybody."""

import os
import secrets
import tempfile
from collections.abc import Iterator

from twoarm.errors import InputError
from twoarm.escape import named

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


class Place:
    """The private folder of one run folder: trees, builds, and the scratch of running attempts."""

    def __init__(self, root: str, token: str) -> None:
        self.path = os.path.join(root, token)
        for folder in (self.trees, self.builds, self.scratch):
            os.makedirs(folder, 0o700, exist_ok=True)

    @property
    def trees(self) -> str:
        """Workspaces to copy."""
        return os.path.join(self.path, "trees")

    @property
    def builds(self) -> str:
        """What arms have built."""
        return os.path.join(self.path, "builds")

    @property
    def scratch(self) -> str:
        """Running attempts; nothing in it outlives them."""
        return os.path.join(self.path, "t")

    def fresh(self) -> str:
        """A folder that is not there yet; its name says nothing."""
        return os.path.join(self.scratch, secrets.token_hex(6))


def choose_place(token: str, environment: "os._Environ[str] | dict[str, str]") -> Place:
    """The first folder that can be written and has no instructions above it."""
    refused = []
    for root in _candidates(environment):
        above = _instructions_above(root)
        if above is not None:
            refused.append(f"{named(above)} would be read by agents below it")
            continue
        try:
            os.makedirs(root, 0o700, exist_ok=True)
            if os.stat(root).st_uid != os.getuid():
                # Where everybody may write, somebody else may have been first.
                refused.append(f"{named(root)} belongs to another user")
                continue
            return Place(root, token)
        except OSError as error:
            refused.append(f"{named(root)} cannot be written: {error.strerror}")
    raise InputError(
        f"no place for workspaces: {'; '.join(refused)}; name another folder in TWOARM_CACHE"
    )


def _candidates(environment: "os._Environ[str] | dict[str, str]") -> Iterator[str]:
    """The user's own choice alone, or the usual places."""
    if chosen := environment.get("TWOARM_CACHE"):
        yield os.path.abspath(chosen)
        return
    cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield os.path.join(os.path.abspath(cache), "twoarm")
    yield os.path.join(os.path.realpath(tempfile.gettempdir()), f"twoarm-{os.getuid()}")


def _instructions_above(path: str) -> str | None:
    at = os.path.realpath(path)
    while True:
        for name in INSTRUCTIONS:
            found = os.path.join(at, name)
            if os.path.lexists(found):
                return found
        parent = os.path.dirname(at)
        if parent == at:
            return None
        at = parent
