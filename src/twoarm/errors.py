"""What can go wrong and what a reader must know: TwoarmError and its kinds, Position, Problem,
Problems, Caveat.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from twoarm.text.sentence import Sentence, say

Severity = Literal["serious", "warning", "note"]

# What should make a reader stop, the most serious first.
SERIOUS = (
    "chosen_tasks",
    "limits_decide_success",
    "separate_time_blocks",
    "order_unknown",
    "arms_look_swapped",
    "runs_in_doubt",
    "not_regraded",
    "shards_missing",
    "uptake_never",
    "uptake_failed",
    "uptake_contaminated",
    "uptake_rare",
    "looks_ignored",
    "looked_before",
    "family_not_named",
    "broken_tasks",
    "ungated_worse",
    "nothing_succeeded",
    "nothing_differs",
    "unshared_tasks_decide",
    "tasks_in_one_arm",
    "unpaired_runs_decide",
    "excluded_could_flip",
    "uneven_exclusion",
    "missing_could_flip",
    "uneven_missing",
    "missing_runs",
    "different_models",
    "different_agents",
    "durations_cut",
    "zeros",
    "bad_lines",
    "evidence_cries_wolf",
    "drift",
)
# What hardly anyone can act on; everything else is a warning.
NOTES = ("never_measured", "unknown_keys")


class Caveat(msgspec.Struct, frozen=True, kw_only=True):
    """Something the reader must know about a number; it travels inside the result."""

    code: str
    severity: Severity
    message: Sentence

    @classmethod
    def of(cls, *, code: str, message: Sentence) -> "Caveat":
        """A caveat as serious as its code says."""
        serious: Severity = "note" if code in NOTES else "warning"
        return cls(code=code, severity="serious" if code in SERIOUS else serious, message=message)

    @classmethod
    def say(cls, code: str, template: str, *values: object) -> "Caveat":
        """A caveat whose message has a value in place of each `{}`."""
        return cls.of(code=code, message=say(template, *values))

    @property
    def rank(self) -> int:
        """Where it stands among others: the most serious first."""
        if self.severity == "serious":
            return SERIOUS.index(self.code)
        return len(SERIOUS) + (self.severity == "note")


class Position(msgspec.Struct, frozen=True, gc=False):
    """A line of a source, or the source as a whole."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def problem(
        self, message: str, field: str | None = None, mistake: str | None = None
    ) -> "Problem":
        """What is wrong here; `mistake` is what it shares with others if the message differs."""
        return Problem(
            source=self.source,
            line=self.line,
            field=field,
            message=message,
            mistake=mistake or message,
        )


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One bad line or field: where it is, and what was found there."""

    source: str
    line: int | None
    field: str | None
    message: str
    mistake: str

    @property
    def where(self) -> str:
        """`source:line`, or the source alone."""
        return str(Position(self.source, self.line))

    def __str__(self) -> str:
        if self.field is None:
            return f"{self.where}: {self.message}"
        return f"{self.where}: {self.field}: {self.message}"


# How many places of one mistake are named, and how many problems an error lists at most.
_PLACES = 3
LISTED = 100


class Problems:
    """Problems as they are found: the first of each mistake, and how often it was made.

    With `every` they are all kept.
    """

    def __init__(self, problems: Iterable[Problem] = (), *, every: bool = False) -> None:
        self.kept: list[Problem] = []
        self.count = 0
        self._every = every
        self._made: Counter[tuple[str | None, str]] = Counter()
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        """Take note of one more."""
        self.count += 1
        mistake = problem.field, problem.mistake
        # All that is known of what is not listed is how much there is.
        if mistake in self._made or self._every or len(self.kept) < LISTED:
            self._made[mistake] += 1
            if self._every or self._made[mistake] <= _PLACES:
                self.kept.append(problem)

    def lines(self) -> Iterator[str]:
        """One line for each, or for each mistake that was made in more than a few places."""
        places: dict[tuple[str | None, str], list[str]] = {}
        for problem in self.kept:
            places.setdefault((problem.field, problem.mistake), []).append(problem.where)
        for problem in self.kept:
            mistake = problem.field, problem.mistake
            if self._made[mistake] <= _PLACES:
                yield str(problem)
            elif first := places.pop(mistake, []):
                yield (
                    f"{problem}; the same mistake in {self._made[mistake]:,} places: "
                    f"{', '.join(first[:_PLACES])}, ..."
                )
        rest = self.count - self._made.total()
        if rest:
            yield f"... and {rest} more, not listed"


class TwoarmError(Exception):
    """Anything twoarm refuses to do, with the reason and the way out in one line."""


class InputError(TwoarmError):
    """A file that cannot be read at all."""


class OutputError(TwoarmError):
    """Something that cannot be written, or not to the last byte."""


class BadRunsError(TwoarmError):
    """Lines that are not runs, or runs that contradict each other; every one has its position."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems.kept
        self.count = problems.count
        super().__init__("\n".join(problems.lines()))


class ArmsError(TwoarmError):
    """What was given does not say which the two arms are."""


class UsageError(TwoarmError):
    """An option or argument that does not fit."""


class KeywordError(UsageError, TypeError):
    """A keyword that a function does not have; a TypeError, too, as Python raises for its own."""


class ExtraError(TwoarmError):
    """A part of twoarm that is installed on request is not there."""


def extra_needed(what: str, module: str, extra: str) -> str:
    """Which package something needs, and with which extra of twoarm it comes."""
    return f"{what} needs `{module}`: install twoarm with its extra `{extra}`"
