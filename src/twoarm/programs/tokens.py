"""Spend: four token counts that share nothing, whatever the source calls "input"."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from twoarm.errors import Position
from twoarm.programs.folder import SourceError
from twoarm.runs.record import LARGEST

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Quantity = Annotated[float, Meta(ge=0, le=LARGEST)]


class Spend(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one model was asked and answered in a run; `None` is a count the source lacks."""

    model: str | None
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None

    @property
    def counts(self) -> tuple[int | None, int | None, int | None, int | None]:
        """The four counts, in the order of the record."""
        return self.input, self.output, self.cache_read, self.cache_write


def model_name(provider: str | None, model: str) -> str:
    """`provider/model`, as records and price tables spell it."""
    return f"{provider}/{model}" if provider else model


def outside_cache(with_cache: int, *cached: int, where: Position) -> int:
    """The input tokens outside the cache, from a count that includes the cached ones."""
    left = with_cache - sum(cached)
    if left < 0:
        raise SourceError(
            where,
            f"{sum(cached):,} cached tokens, but only {with_cache:,} input tokens, "
            "which should include the cached ones",
        )
    return left


def added(parts: Iterable[int | None]) -> int | None:
    """The sum, or None if a part is not known or there is none."""
    total = None
    for part in parts:
        if part is None:
            return None
        total = part if total is None else total + part
    return total


def summed(spends: Iterable[Spend]) -> Spend:
    """All spends of a run as one."""
    spends = tuple(spends)
    if len(spends) == 1:
        return spends[0]
    return Spend(
        model=None,
        input=added(spend.input for spend in spends),
        output=added(spend.output for spend in spends),
        cache_read=added(spend.cache_read for spend in spends),
        cache_write=added(spend.cache_write for spend in spends),
    )
