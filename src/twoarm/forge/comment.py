"""One comment for each key: found by its first line and its author, and kept up to date."""

from collections.abc import Iterator
from typing import Literal, Protocol

import msgspec

from twoarm.forge.call import ForgeError, UnansweredError, understood

# How often a comment is looked for and made, if nobody knows what became of it.
_TRIES = 3
_PAUSE_SECONDS = 2.0


class ForgeComment(msgspec.Struct, frozen=True, kw_only=True):
    """One that is there."""

    id: int
    author: str
    body: str
    url: str


class Forge(Protocol):
    """The comments of one pull request."""

    # Characters of a comment.
    longest: int

    def login(self) -> str:
        """Who the token belongs to."""
        ...

    def comments(self) -> Iterator[ForgeComment]:
        """All of them, the oldest first."""
        ...

    def change(self, comment: ForgeComment, body: str) -> str:
        """Another text for a comment; its address."""
        ...

    def make(self, body: str) -> str:
        """A new comment; its address."""
        ...

    def wait(self, seconds: float) -> None:
        """Let a moment pass."""
        ...


class KeptComment(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a comment, and where it is."""

    how: Literal["posted", "updated", "unchanged"]
    url: str


def keep_comment(forge: Forge, body: str) -> KeptComment:
    """The comment whose first line is that of the body has that body from now on."""
    with understood():
        return _kept(forge, body)


def _kept(forge: Forge, body: str) -> KeptComment:
    mark = body.partition("\n")[0]
    if len(body) > forge.longest:
        raise ForgeError(f"a comment of {len(body):,} characters; at most {forge.longest:,}")
    login = forge.login()
    why = ""
    for attempt in range(_TRIES):
        if attempt:
            forge.wait(_PAUSE_SECONDS)
        own = (comment for comment in forge.comments() if comment.author == login)
        known = next((comment for comment in own if _first_line(comment) == mark), None)
        try:
            if known is None:
                return KeptComment(how="posted", url=forge.make(body))
        except UnansweredError as error:
            # Its answer was lost; if it was made, the next look finds it.
            why = str(error)
            continue
        if known.body.strip().replace("\r\n", "\n") == body.strip():
            return KeptComment(how="posted" if attempt else "unchanged", url=known.url)
        return KeptComment(how="updated", url=forge.change(known, body))
    raise ForgeError(why)


def _first_line(comment: ForgeComment) -> str:
    return comment.body.lstrip().partition("\n")[0].rstrip()
