"""Options: what can be asked for, with every default and every bound, once; and their names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Self, TypedDict, get_args

import msgspec

from twoarm.errors import KeywordError, UsageError
from twoarm.text.escape import did_you_mean, named

Duplicates = Literal["error", "first", "last"]
# Which runs get a page: all, those of pairs that ended differently, or none.
Which = Literal["all", "flips", "none"]
Missing = Literal["keep", "zero"]
PromoteBy = Literal["gates", "evidence", "margin"]
Primary = Literal["success", "duration", "tokens", "score"]
GuardBy = Literal["all", "none"]

# What a metric is called where it is named to be tested first.
PRIMARY = {
    "success": "success",
    "duration": "duration_seconds",
    "tokens": "non_cache_tokens",
    "score": "score",
}

# Beyond this, quantiles are so far out that no data support them.
LOWEST_LEVEL, HIGHEST_LEVEL = 0.5, 0.9999
FEWEST_RESAMPLES, MOST_RESAMPLES = 99, 1_000_000
# Whether what is read now was given as flags.
_flags: ContextVar[bool] = ContextVar("flags", default=False)

_CHOICES = {
    "duplicates": Duplicates,
    "missing": Missing,
    "promote_by": PromoteBy,
    "guard": GuardBy,
}


@contextmanager
def flags_named() -> Iterator[None]:
    """Errors raised within name the flags of the command line, not the arguments of Python."""
    before = _flags.set(True)
    try:
        yield
    finally:
        _flags.reset(before)


def option(name: str) -> str:
    """How an error names an option: --candidate on the command line, `candidate=` in Python."""
    return either(flag=f"--{name.replace('_', '-')}", argument=f"`{name}=`")


def either(*, flag: str, argument: str) -> str:
    """What to write: on the command line, or in Python."""
    return flag if _flags.get() else argument


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; with the inputs, all that the figures depend on."""

    candidate: str | None = None
    baseline: str | None = None
    duplicates: Duplicates = "error"
    missing: Missing = "keep"
    keep_infra: bool = False
    skip_bad: bool = False
    evidence: bool = True
    level: float = 0.95
    seed: int = 1
    resamples: int = 9_999
    promote_by: PromoteBy = "gates"
    primary: Primary | None = None
    guard: GuardBy = "all"
    allow_broken: int = 0
    margin_success: float = 0.10
    margin_ratio: float = 0.10
    looks: tuple[int, ...] | None = None
    ignore_looks: bool = False
    part: tuple[int, ...] | None = None
    # Tags of tasks, and patterns of their names.
    tag: tuple[str, ...] | None = None
    task: tuple[str, ...] | None = None
    family: str | None = None

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                listed = ", ".join(f"`{choice}`" for choice in get_args(kind))
                raise refused(name, f"expected one of {listed}, got {getattr(self, name)!r}")
        if self.primary is not None and self.primary not in PRIMARY:
            listed = ", ".join(f"`{choice}`" for choice in PRIMARY)
            raise refused("primary", f"expected one of {listed}, got {self.primary!r}")
        if self.allow_broken < 0:
            raise refused("allow_broken", f"expected 0 or more tasks, got {self.allow_broken}")
        if not LOWEST_LEVEL <= self.level <= HIGHEST_LEVEL:
            raise refused(
                "level",
                f"expected a number from {LOWEST_LEVEL} to {HIGHEST_LEVEL}, got {self.level}"
                f"{_percent(self.level, LOWEST_LEVEL, HIGHEST_LEVEL)}",
            )
        if not 0 <= self.seed < 2**63:
            raise refused("seed", f"expected an integer from 0 to 2^63 - 1, got {self.seed}")
        if not FEWEST_RESAMPLES <= self.resamples <= MOST_RESAMPLES:
            raise refused(
                "resamples",
                f"expected an integer from {FEWEST_RESAMPLES} to {MOST_RESAMPLES}, "
                f"got {self.resamples}",
            )
        for name in ("margin_success", "margin_ratio"):
            if not 0.0 < getattr(self, name) < 1.0:
                share = getattr(self, name)
                raise refused(
                    name,
                    f"expected a number above 0 and below 1, got {share}"
                    f"{_percent(share, 0.0, 1.0)}",
                )
        self._check_looks()
        if self.part is not None and (not self.part or min(self.part) < 1):
            raise refused(
                "part",
                f"expected parts such as 2 or 1,2, got {','.join(map(str, self.part)) or 'none'}",
            )
        for name in ("tag", "task"):
            self._check_words(name)
        self._check_family()
        if not self.evidence and self.promote_by != "gates":
            raise refused(
                "promote_by", f"`{self.promote_by}` needs the evidence, which is off; use `gates`"
            )

    def _check_words(self, name: str) -> None:
        words = getattr(self, name)
        if words is None:
            return
        if isinstance(words, str) or not words or not all(isinstance(w, str) and w for w in words):
            names = either(flag="a name that is not empty", argument="names, such as ('sql',)")
            raise refused(name, f"expected {names}, got {words!r}")
        # The command line gives lists.
        msgspec.structs.force_setattr(self, name, tuple(words))

    def _check_family(self) -> None:
        if self.family is None:
            return
        try:
            groups = re.compile(self.family).groups
        except re.error as error:
            raise refused(
                "family", f"{named(self.family)} is not a valid regular expression: {error}"
            ) from None
        if not groups:
            raise refused(
                "family",
                "expected a group in parentheses that is the family, such as '^(.+?)__', got "
                f"{named(self.family)}",
            )

    def _check_looks(self) -> None:
        if self.looks is None:
            return
        if self.ignore_looks:
            raise refused("ignore_looks", "has no effect with looks of your own")
        if not self.evidence:
            raise refused("looks", "they need the evidence, which is off")
        if len(self.looks) < 1 or self.looks[0] < 1 or list(self.looks) != sorted(set(self.looks)):
            raise refused(
                "looks",
                "expected numbers of repeats that rise, such as 3,5,10, got "
                f"{','.join(map(str, self.looks))}",
            )


def refused(name: str, why: str) -> UsageError:
    """An option that does not fit, by the name that its reader gave it."""
    return UsageError(f"{either(flag=option(name), argument=name)}: {why}")


def _percent(share: float, least: float, most: float) -> str:
    """A share that was written as a percentage is asked about."""
    return f"; did you mean {share / 100:g}?" if least < share / 100 < most <= share else ""


class CountingKeywords(TypedDict, total=False):
    """Which runs count, and how sure to be, as keywords of a function."""

    candidate: str | None
    baseline: str | None
    duplicates: Duplicates
    missing: Missing
    keep_infra: bool
    skip_bad: bool
    tag: tuple[str, ...] | None
    task: tuple[str, ...] | None
    family: str | None
    level: float
    seed: int


class OptionKeywords(CountingKeywords, total=False):
    """Every option as a keyword of a function."""

    evidence: bool
    resamples: int
    promote_by: PromoteBy
    primary: Primary | None
    guard: GuardBy
    allow_broken: int
    margin_success: float
    margin_ratio: float
    looks: tuple[int, ...] | None
    ignore_looks: bool
    part: tuple[int, ...] | None


def refuse_unknown(keywords: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse a keyword that a function does not have, and name the nearest that it has."""
    choices = sorted(known)
    for unknown in sorted(keywords.keys() - set(choices)):
        none = f"; expected one of {', '.join(choices)}" if choices else "; it takes none"
        near = did_you_mean(unknown, choices) or none
        raise KeywordError(f"unexpected keyword argument {named(unknown)}{near}")


def chosen(options: Options | None, keywords: Mapping[str, Any]) -> Options:
    """The options given as one value, as keywords, or as a value with some of them changed."""
    refuse_unknown(keywords, Options.__struct_fields__)
    return msgspec.structs.replace(options or Options(), **keywords)


class AskedOfRuns(msgspec.Struct, frozen=True, kw_only=True):
    """What else can be asked of runs; `scoring` says which of them count."""

    scoring: Options = Options()

    def changed(self, keywords: Mapping[str, Any]) -> Self:
        """Some of these options changed, some of those of `scoring`."""
        own = {key: keywords[key] for key in keywords if key in self.__struct_fields__}
        rest = {key: keywords[key] for key in keywords if key not in own}
        return msgspec.structs.replace(
            self, scoring=msgspec.structs.replace(self.scoring, **rest), **own
        )


DEFAULTS = Options()
