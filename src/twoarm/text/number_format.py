"""How a number looks: one way per unit, for every report."""

import math

NOT_MEASURED = "-"
# Above a million percent, the digits mean nothing.
_HUGE_SHARE = 10_000.0
_WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def in_words(count: int) -> str:
    """A count up to ten as a word, as in `three gates`; a larger one in digits."""
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def figure(value: float | None, unit: str) -> str:
    """A figure of an arm: `212.4 s`, `$0.4163`, `18,204`, `91.7%`."""
    return NOT_MEASURED if value is None else _formatted(value, unit, sign="")


def change(value: float | None, unit: str) -> str:
    """A delta, with its sign: `-38.6 s`, `+3.3 points`."""
    if value is None:
        return NOT_MEASURED
    if unit == "points":
        return f"{_unsigned_zero(f'{value * 100:+.1f}')} points"
    return _unsigned_zero(_formatted(value, unit, sign="+"))


def share(value: float | None, decimals: int = 1) -> str:
    """A relative change: `-15.4%`."""
    if value is None:
        return NOT_MEASURED
    if math.isinf(value):
        return f"beyond {'+' if value > 0 else '-'}1e+310%"
    if math.isinf(value * 100):
        from decimal import Decimal

        return f"{Decimal(value) * 100:+.3g}%"
    if abs(value) >= _HUGE_SHARE:
        return f"{value * 100:+.3g}%"
    return _unsigned_zero(f"{value:+.{decimals}%}")


def at_level(level: float) -> str:
    """A level in percent, never rounded up."""
    return f"{math.floor(level * 1e4 + 1e-6) / 100:g}%"


def dollars(value: float) -> str:
    """An amount to pay, with cents while they matter."""
    return f"${value:,.2f}" if value < 100 else f"${value:,.0f}"


def _formatted(value: float, unit: str, *, sign: str) -> str:
    if unit == "points":
        return f"{value:.1%}"
    if unit == "seconds":
        return f"{value:{sign},.{_decimals(value, 1)}f} s"
    if unit == "usd":
        mark = "" if value >= 0 and not sign else "+" if value >= 0 else "-"
        return f"{mark}${abs(value):,.{_decimals(value, 4)}f}"
    if unit == "rate":
        return f"{value:{sign},.{_decimals(value, 2)}f}"
    return f"{value:{sign},.{0 if value == int(value) else 1}f}"


def _decimals(value: float, usual: int) -> int:
    """More decimals for a small number, fewer for a large one: only digits that matter."""
    size = abs(value)
    if size >= 1000:
        return min(usual, 2)
    return usual + 2 if 0 < size < 10**-usual * 10 else usual


def _unsigned_zero(text: str) -> str:
    """No sign before a number that is shown as zero."""
    return text if any(digit in text for digit in "123456789") else text.lstrip("+-")
