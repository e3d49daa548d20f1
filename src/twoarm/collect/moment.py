"""Moments: the times of other programs, as seconds and as text in UTC."""

from datetime import UTC, datetime


def seconds(moment: datetime | None) -> float | None:
    """Seconds since 1970; a time without a zone is read as UTC."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def utc_text(at: float | None) -> str | None:
    """`2026-11-15T06:21:16.132Z`; None for what is no time of this era."""
    if at is None:
        return None
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    text = moment.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def between(start: float | None, end: float | None) -> float | None:
    """The seconds from one moment to another; None if one is not known or they are reversed."""
    if start is None or end is None or end < start:
        return None
    return round(end - start, 6)
