"""Hostile text made safe to show: names and values in records are never trusted to be tidy.

The runners of CI systems execute lines of a log: GitHub's `::command::` after leading blanks, and
`##[command]` anywhere in a line; Azure's `##vso[command]` and TeamCity's `##teamcity[command]`.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

# Invisible, and ignored when a runner compares text by culture.
_UNSEEN = (
    "\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = " \t\r\x0b\x0c\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_COMMAND = re.compile(rf"#(?=[{_UNSEEN}]*#[\w{_UNSEEN}]*\[)")
_LEADING_COMMAND = re.compile(rf"^([{_BLANK}{_UNSEEN}]*):(?=[{_UNSEEN}]*:)", re.MULTILINE)

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str) -> str:
    """One line of printable characters: control, direction and invisible ones become escapes.

    Nothing inside it is a command to a runner; `inert_lines` is for what may begin a line.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    return _COMMAND.sub(r"\\x23", text) if "#" in text else text


def visible_lines(text: str) -> str:
    """`visible` for each line of a text."""
    return "\n".join(map(visible, text.split("\n")))


def inert_lines(text: str) -> str:
    """Lines that no runner takes for a command, wherever they begin and whatever is in them."""
    if "#" in text:
        text = _COMMAND.sub(r"\\x23", text)
    return _LEADING_COMMAND.sub(r"\1\\x3a", text) if ":" in text else text


def inert_json(text: str) -> str:
    """JSON with the same values in which nothing is a command to a runner.

    No line of JSON begins with a colon, and a `#` stands only inside a string.
    """
    return _COMMAND.sub(r"\\u0023", text) if "#" in text else text


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in ("W", "F") else 1 for c in text)


# How much of a name is shown where any sensible one has room.
WHOLE_NAME = 320

# How many characters may share a column: a letter, and accents that take none of their own.
_STACKED = 3


def shortened(text: str, width: int) -> str:
    """`visible` text of at most `width` columns, cut in the middle."""
    end = 2 * _STACKED * width
    if len(text) > 2 * end:
        # A name may be as long as a book: what is cut anyway is skipped.
        text = text[:end] + text[-end:]
    text = visible(text)
    if fitting(text, width) == len(text):
        return text
    back = (width - 1) // 3
    first = fitting(text, width - 1 - back)
    return f"{text[:first]}…{text[::-1][: fitting(text[::-1], back)][::-1]}"


def fitting(text: str, width: int) -> int:
    """How many characters of the text fit into this many columns."""
    taken = 0
    for at, character in enumerate(text):
        taken += columns(character)
        if taken > width or at >= _STACKED * width:
            return at
    return len(text)


def markdown_code(text: str) -> str:
    """A Markdown code span: no mention, link, emphasis or HTML inside it comes alive."""
    text = visible(text)
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    # A code span cannot be empty, and a backtick at its edge would join the fence.
    pad = " " if not text.strip() or text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def counted(count: int, noun: str) -> str:
    """`1 run`, `2 runs`, `2 families`."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """`runs`, `families`."""
    return "families" if noun == "family" else f"{noun}s"


def counted_tasks(tasks: int, families: int | None) -> str:
    """`32 tasks`, or `8 families of 32 tasks`."""
    count = counted(tasks, "task")
    return count if families is None else f"{counted(families, 'family')} of {count}"


def tasks_or_families(families: int | None) -> str:
    """What is counted where others like them are spoken of."""
    return "tasks" if families is None else "families"


def series(parts: Sequence[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(parts) < 3:
        return f" {word} ".join(parts)
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def numbered(noun: str, numbers: Sequence[int], of: int) -> str:
    """`shard 2 of 3 is`, `shards 1 and 3 of 4 are`."""
    single = len(numbers) == 1
    listing = series([str(number) for number in numbers])
    return f"{noun}{'' if single else 's'} {listing} of {of} {'is' if single else 'are'}"


def named(text: str) -> str:
    """A name inside a sentence: short, and a code span wherever the sentence is Markdown."""
    return markdown_code(shortened(text, 60))


def in_toml(text: str) -> str:
    """A name as a suite would have it, in TOML or in JSON."""
    quoted = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def value_in_words(value: object, mapping: str = "an object") -> str:
    """A value that somebody wrote and nobody can use, as an error quotes it."""
    if isinstance(value, Mapping):
        return mapping
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        return f'"{shortened(value, 60)}"'
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if value in (math.inf, -math.inf) or (isinstance(value, int) and abs(value) > 1e30):
        return "a number too large for a double"
    return shortened(str(value), 60)


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice that a mistyped word is nearest to, if one is near."""
    from difflib import get_close_matches

    matches = get_close_matches(word[:WHOLE_NAME], list(choices), n=1)
    return matches[0] if matches else None


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The same as the end of a sentence; or nothing."""
    choice = nearest(word, choices)
    return "" if choice is None else f"; did you mean {named(choice)}?"


def markdown_cell(text: str) -> str:
    """`markdown_code` for a table cell, where a bare `|` would end the cell."""
    return markdown_code(text).replace("|", "\\|")


def html(text: str) -> str:
    """Text inside an HTML element or a quoted attribute."""
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&#39;")


def html_script(json: str) -> str:
    """JSON inside a script element: nothing in it can end the element or open a comment."""
    for character in "<>&\u2028\u2029":
        json = json.replace(character, f"\\u{ord(character):04x}")
    return inert_json(json)


def xml(text: str) -> str:
    """Text or a quoted attribute in XML, which cannot hold control characters at all."""
    return html(text)


def annotation(text: str) -> str:
    """The message of a workflow command, which is one line."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotation_property(text: str) -> str:
    """A property of a workflow command, where a colon or comma would end it as well."""
    return annotation(text).replace(":", "%3A").replace(",", "%2C")
