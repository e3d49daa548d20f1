"""What can go wrong and what a reader must know: TwoarmError and its kinds, Position, Problem,
Caveat.
"""

import msgspec

from twoarm.sentence import Sentence


class Caveat(msgspec.Struct, frozen=True, kw_only=True):
    """Something the reader must know about a number; it travels inside the result."""

    code: str
    message: Sentence


class Position(msgspec.Struct, frozen=True, gc=False):
    """A line of a source, or the source as a whole."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def problem(self, message: str, field: str | None = None) -> "Problem":
        """What is wrong here."""
        return Problem(source=self.source, line=self.line, field=field, message=message)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One bad line or field: where it is, and what was found there."""

    source: str
    line: int | None
    field: str | None
    message: str

    @property
    def where(self) -> str:
        """`source:line`, or the source alone."""
        return str(Position(self.source, self.line))

    def __str__(self) -> str:
        if self.field is None:
            return f"{self.where}: {self.message}"
        return f"{self.where}: {self.field}: {self.message}"


class TwoarmError(Exception):
    """Anything twoarm refuses to do, with the reason and the way out in one line."""


class InputError(TwoarmError):
    """A file that cannot be read at all."""


class OutputError(TwoarmError):
    """Something that cannot be written, or not to the last byte."""


class BadRunsError(TwoarmError):
    """Lines that are not runs, or runs that contradict each other; every one has its position."""

    def __init__(self, problems: list[Problem], count: int) -> None:
        self.problems = problems
        self.count = count
        lines = [str(problem) for problem in problems]
        if count > len(problems):
            lines.append(f"... and {count - len(problems)} more, not listed")
        super().__init__("\n".join(lines))


class ArmsError(TwoarmError):
    """The two arms cannot be told from what was given."""


class UsageError(TwoarmError):
    """An option or argument that does not fit."""


class ExtraError(TwoarmError):
    """A part of twoarm that is installed on request is not there."""
