"""Options that an agent is started with unless the suite has its own."""

from collections.abc import Sequence
from typing import NamedTuple


class Default(NamedTuple):
    """Words of a command line, and the options of a suite that take their place."""

    words: tuple[str, ...]
    unless: frozenset[str] = frozenset()


def options(args: Sequence[str], *defaults: Default) -> tuple[str, ...]:
    """The defaults that the suite does not replace, then the suite's own arguments."""
    given = {word.partition("=")[0] for word in args}
    kept = (default.words for default in defaults if not default.unless & given)
    return (*(word for words in kept for word in words), *args)


def valued(name: str, value: str | None) -> Default:
    """An option and its value; nothing where there is no value."""
    return Default(() if value is None else (name, value))
