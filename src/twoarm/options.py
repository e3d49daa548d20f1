"""Options: what can be asked for, with every default and every bound, once."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, get_args

import msgspec

from twoarm.errors import UsageError

Duplicates = Literal["error", "first", "last"]
Missing = Literal["keep", "zero"]
PromoteBy = Literal["gates", "evidence", "margin"]

# Beyond, quantiles are so far out that no data support them.
LOWEST_LEVEL, HIGHEST_LEVEL = 0.5, 0.9999
FEWEST_RESAMPLES, MOST_RESAMPLES = 99, 1_000_000
_CHOICES = {"duplicates": Duplicates, "missing": Missing, "promote_by": PromoteBy}


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
    margin_success: float = 0.10
    margin_ratio: float = 0.10

    def __post_init__(self) -> None:
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                listed = ", ".join(f"`{choice}`" for choice in get_args(kind))
                raise UsageError(f"{name}: expected one of {listed}, got {getattr(self, name)!r}")
        if not LOWEST_LEVEL <= self.level <= HIGHEST_LEVEL:
            raise UsageError(
                f"level: expected a number from {LOWEST_LEVEL} to {HIGHEST_LEVEL}, got {self.level}"
            )
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed: expected an integer from 0 to 2^63 - 1, got {self.seed}")
        if not FEWEST_RESAMPLES <= self.resamples <= MOST_RESAMPLES:
            raise UsageError(
                f"resamples: expected an integer from {FEWEST_RESAMPLES} to {MOST_RESAMPLES}, "
                f"got {self.resamples}"
            )
        for name in ("margin_success", "margin_ratio"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise UsageError(
                    f"{name}: expected a number above 0 and below 1, got {getattr(self, name)}"
                )
        if not self.evidence and self.promote_by != "gates":
            raise UsageError(
                f"promote_by: `{self.promote_by}` needs the evidence, which is off; use `gates`"
            )


class OptionKeywords(TypedDict, total=False):
    """The same names as keywords of a function."""

    candidate: str | None
    baseline: str | None
    duplicates: Duplicates
    missing: Missing
    keep_infra: bool
    skip_bad: bool
    evidence: bool
    level: float
    seed: int
    resamples: int
    promote_by: PromoteBy
    margin_success: float
    margin_ratio: float


def chosen(options: Options | None, keywords: Mapping[str, Any]) -> Options:
    """The options given as one value, as keywords, or as a value with some of them changed."""
    unknown = sorted(keywords.keys() - set(Options.__struct_fields__))
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    return msgspec.structs.replace(options or Options(), **keywords)


DEFAULTS = Options()
