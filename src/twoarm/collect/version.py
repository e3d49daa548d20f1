"""Versions of other programs, as numbers that compare."""

# Longer than any date that a build is numbered by.
_LONGEST = 18


def numbers(version: str) -> tuple[int, ...]:
    """`1.3.15-beta` as (1, 3, 15): the numbers it starts with; empty for what is no version."""
    found = []
    for part in version.split("-")[0].split("+")[0].split("."):
        # To `isdigit` alone `²` is a digit too, and `int` reads digits of every script.
        if not (part.isascii() and part.isdigit() and len(part) <= _LONGEST):
            break
        found.append(int(part))
    return tuple(found)
