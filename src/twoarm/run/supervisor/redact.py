"""Secrets redacted from everything that is kept, in whatever form they were written.

Standard library only, as the supervisor that uses it.
"""

from io import BytesIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_PIECE = 1 << 17


class Redactor:
    """Copies with every form of every secret redacted."""

    def __init__(self, secrets: dict[str, str], piece: int | None = None) -> None:
        self._piece = piece or _PIECE
        self._finder = None
        if secrets:
            # What it imports takes longer than everything else that a supervisor starts with.
            from twoarm.run.supervisor.secret_finder import SecretFinder

            self._finder = SecretFinder(secrets)
            self._piece = piece or max(_PIECE, 4 * self._finder.reach)

    def text(self, text: str) -> str:
        """A text without secrets; names of files need not be text."""
        redacted = self.content(text.encode("utf-8", "surrogateescape"))
        return redacted.decode("utf-8", "surrogateescape")

    def content(self, content: bytes) -> bytes:
        """Bytes without secrets."""
        return b"".join(self._redacted(BytesIO(content), len(content)))

    def copy(self, source: "BinaryIO", target: "BinaryIO", most: int) -> None:
        """At most this many bytes of a file, without secrets."""
        for piece in self._redacted(source, most):
            target.write(piece)

    def holds(self, source: "BinaryIO") -> bool:
        """Whether a secret is in a file."""
        if self._finder is None:
            return False
        held = b""
        while piece := source.read(self._piece):
            held = held[-self._finder.reach :] + piece
            if self._finder.spans(held):
                return True
        return False

    def _redacted(self, source: "BinaryIO", most: int) -> "Iterator[bytes]":
        """What is written instead, in pieces: a secret may lie across several of them."""
        if self._finder is None:
            while most > 0 and (piece := source.read(min(self._piece, most))):
                most -= len(piece)
                yield piece
            return
        # What is searched, where it begins in the source, and how much of it has been written. It
        # overlaps: a secret may begin inside of another one, and escapes before it.
        held, begin, written, settled = b"", 0, 0, 0
        while begin + settled < most:
            # Beyond the end as well: a secret may begin before it.
            piece = source.read(self._piece)
            held += piece
            settled = len(held) - self._finder.reach if piece else len(held)
            settled = max(0, min(settled, most - begin))
            for start, end, mark in self._finder.spans(held):
                if start >= settled:
                    break
                if start >= written:
                    yield held[written:start]
                    yield mark
                written = max(written, end)
            yield held[written:settled]
            written = max(written, settled)
            if not piece:
                return
            cut = max(0, settled - self._finder.before)
            held, begin, written, settled = held[cut:], begin + cut, written - cut, settled - cut
