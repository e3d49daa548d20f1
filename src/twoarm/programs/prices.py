"""Prices: a small table of USD per million tokens, for costs that a source lacks."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from twoarm.programs.folder import SourceError, only_file
from twoarm.programs.tokens import Spend
from twoarm.text.escape import visible

MILLION = 1_000_000

Price = Annotated[float, Meta(ge=0, le=1_000_000)]


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """USD per million tokens of one model; None where the table gives no price."""

    input: Price
    output: Price
    cache_read: Price | None = None
    cache_write: Price | None = None


def read_prices(path: str) -> Mapping[str, Prices]:
    """A TOML file with a table per model."""
    import tomllib

    folder, name = only_file(path, "a price table")
    where = folder.where(name)
    try:
        text = folder.read(name).decode("utf-8")
        return msgspec.convert(tomllib.loads(text), dict[str, Prices])
    except UnicodeDecodeError as error:
        raise SourceError(where, "not UTF-8; save the price table as UTF-8") from error
    except (msgspec.ValidationError, RecursionError) as error:
        raise SourceError(where, f"not a price table: {visible(str(error))}") from error
    except ValueError as error:
        # TOML that is none, and numbers of more digits than Python reads.
        raise SourceError(where, f"not TOML: {visible(str(error))}") from error


def cost_of(spends: Sequence[Spend], prices: Mapping[str, Prices]) -> float | None:
    """What the spends cost; None if a model, a price or a count that costs is missing."""
    total = 0.0
    for spend in spends:
        price = prices.get(spend.model or "")
        if price is None:
            return None
        rates = (price.input, price.output, price.cache_read, price.cache_write)
        for count, rate in zip(spend.counts, rates, strict=True):
            # Nothing was spent, or it is known to cost nothing.
            if count == 0 or rate == 0:
                continue
            if count is None or rate is None:
                return None
            total += count * rate / MILLION
    return round(total, 9)
