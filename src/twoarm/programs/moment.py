"""Moments: the times of other programs, as seconds and as text in UTC."""

from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from twoarm.runs.runs import utc_seconds

# The seconds since 1970 that the calendar ends with, and those it begins with.
LATEST = 253_402_300_799
EARLIEST = -62_135_596_800

# A time that a program wrote as a number; before 1970 there was none of them.
Seconds = Annotated[float, Meta(ge=0, le=LATEST)]
Moment = Annotated[float, Meta(ge=EARLIEST, le=LATEST)]
Milliseconds = Annotated[int, Meta(ge=0, le=LATEST * 1000)]


def seconds(moment: datetime | None) -> float | None:
    """Seconds since 1970; a time without a zone is read as UTC."""
    return None if moment is None else utc_seconds(moment)


def utc_text(at: float | None) -> str | None:
    """`2026-11-15T06:21:16.132Z`; None for what is in no calendar."""
    if at is None or not EARLIEST <= at <= LATEST:
        return None
    day, rest = divmod(round(at * 1000), 86_400_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{_date(day)}T{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}Z"


@lru_cache(maxsize=64)
def _date(day: int) -> str:
    """The date that many days after 1970; runs share their days, so few are ever made."""
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def between(start: float | None, end: float | None) -> float | None:
    """The seconds from one moment to another; None if one is not known or they are reversed."""
    if start is None or end is None or end < start:
        return None
    return round(end - start, 6)
