"""Moments: the times of other programs, as seconds and as text in UTC."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from math import isfinite


def seconds(moment: datetime | None) -> float | None:
    """Seconds since 1970; a time without a zone is read as UTC."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def utc_text(at: float | None) -> str | None:
    """`2026-11-15T06:21:16.132Z`; None for what is no time of this era."""
    if at is None or not isfinite(at):
        return None
    day, rest = divmod(round(at * 1000), 86_400_000)
    at_day = _date(day)
    if at_day is None:
        return None
    minutes, rest = divmod(rest, 60_000)
    return f"{at_day}T{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}Z"


@lru_cache(maxsize=64)
def _date(day: int) -> str | None:
    """The date that many days after 1970; runs share their days, so few are ever made."""
    try:
        return (date(1970, 1, 1) + timedelta(days=day)).isoformat()
    except OverflowError:
        return None


def between(start: float | None, end: float | None) -> float | None:
    """The seconds from one moment to another; None if one is not known or they are reversed."""
    if start is None or end is None or end < start:
        return None
    return round(end - start, 6)
