"""Sentence: text and names in one line; each report escapes the names in its own way."""

from collections.abc import Sequence
from itertools import zip_longest

from twoarm.text.escape import WHOLE_NAME, markdown_code, named, shortened


class Name(str):
    """A name inside a sentence: from a record and hostile, or a word to be shown as code."""

    __slots__ = ()


class Whole(Name):
    """A name that is of no use once it is cut: a command to type, or a description."""

    __slots__ = ()


class Sentence(str):
    """A line of text that knows which of its parts are names; as a string they are code spans."""

    __slots__ = ("parts",)
    parts: tuple[str | Name, ...]

    def __new__(cls, parts: Sequence[str | Name]) -> "Sentence":
        """Put the parts together."""
        shown = (_shown(part) if isinstance(part, Name) else part for part in parts)
        made = super().__new__(cls, "".join(shown))
        made.parts = tuple(parts)
        return made

    def __getnewargs__(self) -> tuple[tuple[str | Name, ...]]:  # type: ignore[override]
        return (self.parts,)


def _shown(name: Name) -> str:
    return markdown_code(shortened(name, WHOLE_NAME)) if isinstance(name, Whole) else named(name)


def say(template: str, *values: object) -> Sentence:
    """A sentence with a value in place of each `{}`: a name, a sentence, or plain text."""
    texts = template.split("{}")
    assert len(texts) == len(values) + 1, template
    parts: list[str | Name] = []
    for text, value in zip_longest(texts, values, fillvalue=""):
        parts.append(str(text))
        if isinstance(value, Sentence):
            parts += value.parts
        else:
            parts.append(value if isinstance(value, Name) else str(value))
    return Sentence([part for part in parts if part or isinstance(part, Name)])


def joined(sentences: Sequence[str], between: str) -> Sentence:
    """Several sentences in one line."""
    return say(between.join("{}" for _ in sentences), *sentences)


def listed(names: Sequence[str], most: int = 5) -> Sentence:
    """The first few names, and how many more there are."""
    shown = joined([say("{}", Name(name)) for name in names[:most]], ", ")
    more = len(names) - most
    return say("{} and {} more", shown, more) if more > 0 else shown
