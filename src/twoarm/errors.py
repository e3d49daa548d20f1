"""What can go wrong and what a reader must know: TwoarmError and its kinds, Problem, Caveat."""

import msgspec


class Caveat(msgspec.Struct, frozen=True, kw_only=True):
    """Something the reader must know about a number; it travels inside the result."""

    code: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One bad line or field: where it is, and what was found there."""

    where: str
    field: str | None
    message: str

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
