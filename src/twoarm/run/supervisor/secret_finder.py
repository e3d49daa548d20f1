"""Where a text holds a secret, in whatever form, broken into lines or dumped.

Line breaks, quotes and offsets stand between the letters of a coding, so a text is searched without
them. To leave them out with a way back is slow: it is done only near a place where a part of a form
is among the letters that `bytes.translate` leaves of the text, which costs next to nothing.

Standard library only, as the supervisor that uses it.
"""

import re
from bisect import bisect_right

from twoarm.run.supervisor import secret_forms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # Where it starts and ends, and the mark that takes its place.
    Span = tuple[int, int, bytes]

# A quoted secret with this many letters and digits is known by them alone, whatever is between
# them; in a shorter one, words of a text could meet by chance.
_LONG = 24
# Letters that are first looked for; the shortest lines have twice as many.
_WINDOW = 8
# Bytes of a text for a byte of a secret: a number on a line of its own takes that many.
_SPREAD = 16
_MARGIN = 1024
# The most that is searched the slow way at once, unless secrets are very long.
_CLOSE = 8192

_EVERY = bytes(range(256))
_LOWER = _EVERY.lower()
_NO_WORDS = bytes(c for c in _EVERY if not bytes((c,)).isalnum())
_NO_HEXADECIMAL = bytes(c for c in _EVERY if c not in b"0123456789abcdefABCDEF")
_NO_DIGITS = bytes(c for c in _EVERY if c not in b"0123456789")

_INDENT = rb"(?:[ \t+\->#*/|]|\\++t)*+"
# In front of lines, by `cat -n`, `grep -n` and the tools of agents.
_NUMBER = rb"[Ll]?[0-9]{1,7}+ *+(?:\t|\\++t|\xe2\x86\x92|\\++u2192|\xe2\x94\x82|[:|]) *+"
_NUMBERED = secret_forms.END + _INDENT + _NUMBER
# The characters at the end of a line of a dump, and the offset in front of the next.
_SHOWN = rb"[ \t]{2,}+[^\r\n]{1,34}?"
_NEXT = secret_forms.END + _INDENT + b"(?:" + _NUMBER + b")?"
_OFFSET = rb"(?:0x)?[0-9a-f]{6,16}(?::|[ \t]|\\++t)"
_DUMPED = b"|".join((_SHOWN + _NEXT + _OFFSET, _SHOWN + _NEXT, _NEXT + _OFFSET))
_ESCAPED = (
    rb"\\\\*+(?:[abfnrtv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})"
    rb"|%(?:25)*[0-9a-fA-F]{2}|&#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});"
)
_COLORED = rb"(?:\x1b|\\\\*+(?i:u001b|x1b|033))\[[0-9;]*[A-Za-z]"
# What begins a code, and what makes an escape of the first letter: half an escape that is left
# would make a line of JSON unreadable.
_BEGUN = rb"(?:\\+(?:u\{?[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?|%[0-9a-fA-F]?|&#[xX]?|0[xX])\Z"
_ESCAPING = rb"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?)\Z"
# The rest of a line of a dump, whose characters show what its digits no longer do.
_REST = (
    rb"(?:[ \t]*[0-9a-fA-F]{2}){0,32}[ \t]{2,}+"
    rb"(?:\\+[^\r\nnr]|\"(?![\s,}\]:]|\Z)|[^\r\n\"\\]){1,34}"
)


class LetterView:
    """A text without what may stand between the letters of a coding, left out in several ways."""

    def __init__(self, letters: bytes, *units: bytes) -> None:
        # Runs come whole, or they would be tried again from each of their bytes.
        first = rb"(?=[^%b]|0x)" % letters
        runs = rb"[^%b\\%%&\r\n \t\x1b]++" % letters
        rest = rb"[ \t]++|\\\\*+|[^%b]" % letters
        ways = (b"|".join(filter(None, (runs, unit, rest))) for unit in units)
        self._gaps = [first + b"(?:" + way + b")+" for way in ways]
        self._marks: dict[bytes, bytes] = {}
        self._parts: set[bytes] = set()

    def add(self, form: bytes, mark: bytes, run: bytes) -> None:
        """Look for a form, and first for parts of a run of it that nothing but a line can break.

        A line has room for two windows, so one of two that are side by side is whole.
        """
        self._marks.setdefault(form, mark)
        middle = len(run) // 2
        size = min(_WINDOW, middle)
        self._parts |= {run[middle - size : middle], run[middle : middle + size]}

    def may_find(self, letters: bytes) -> bool:
        """Whether a part of a form is among the letters of a text."""
        return any(part in letters for part in self._parts)

    def letters(self, text: bytes) -> set[bytes]:
        """A text without what may stand between its letters."""
        return {re.sub(gaps, b"", text) for gaps in self._gaps}

    def spans(self, text: bytes) -> "Iterator[Span]":
        """From the first to the last letter of every form."""
        for gaps in self._gaps:
            spans = list(_every(self._marks, re.sub(gaps, b"", text)))
            if spans:
                place = _way_back(gaps, text)
                for start, end, mark in spans:
                    yield place(start), place(end - 1) + 1, mark


def _way_back(gaps: bytes, text: bytes) -> "Callable[[int], int]":
    """From a place among the letters to the place in their text."""
    letters, places = [0], [0]
    for gap in re.finditer(gaps, text):
        letters.append(letters[-1] + gap.start() - places[-1])
        places.append(gap.end())

    def place(letter: int) -> int:
        run = bisect_right(letters, letter) - 1
        return places[run] + letter - letters[run]

    return place


def _every(marks: dict[bytes, bytes], text: bytes) -> "Iterator[Span]":
    """Every place of every form, also where they overlap."""
    for form, mark in marks.items():
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form), mark
            at = text.find(form, at + 1)


def _matches(pattern: bytes, mark: bytes, text: bytes) -> "Iterator[Span]":
    """Every match of a pattern, also where they overlap."""
    compiled = re.compile(pattern)
    match = compiled.search(text)
    while match:
        yield match.start(), match.end(), mark
        match = compiled.search(text, match.start() + 1)


class SecretFinder:
    """Finds the forms of secrets in a text."""

    # How far before a secret the escape that holds its first letter may begin.
    before = 32

    def __init__(self, secrets: dict[str, str]) -> None:
        # Patterns, after the runs of letters and digits that are in all that they match.
        self._quoted: list[tuple[list[bytes], bytes, bytes]] = []
        self._words = LetterView(b"0-9A-Za-z", b"", b"|".join((_NUMBERED, _COLORED, _ESCAPED)))
        # Without the letters of escapes.
        self._hexadecimal = LetterView(
            b"0-9a-mo-qsvwyz", b"0x", b"0x|" + _NUMBERED, b"0x|" + _DUMPED
        )
        self._digits = LetterView(b"0-9a-mo-qsu-z", b"", _NUMBERED)
        for name, secret in secrets.items():
            self._add(secret_forms.core(secret), f"[secret {name}]".encode())
        longest = max(len(secret_forms.bytes_of(secret)) for secret in secrets.values())
        # What is spread over more than this is not found.
        self.reach = _SPREAD * longest + _MARGIN
        self._close = max(_CLOSE, 4 * self.reach)

    def _add(self, secret: str, mark: bytes) -> None:
        # Longest first: the least likely to be found.
        runs = sorted(re.findall("[0-9A-Za-z]+", secret), key=len, reverse=True)
        self._quoted.append(([run.encode() for run in runs], secret_forms.quoted(secret), mark))
        for codec in secret_forms.WIDE:
            needed = [secret_forms.encoded(run, codec) for run in runs]
            for form in secret_forms.wide(secret, codec):
                self._quoted.append((needed, re.escape(form), mark))
        if sum(map(len, runs)) >= _LONG:
            for letters in self._words.letters(secret_forms.bytes_of(secret)):
                if len(letters) >= _LONG:
                    self._words.add(letters, mark, letters)
        for form in secret_forms.base64(secret):
            letters = form.translate(None, _NO_WORDS)
            if len(letters) >= secret_forms.SHORTEST:
                whole = re.findall(rb"[0-9A-Za-z]{%d,}" % secret_forms.SHORTEST, form)
                self._words.add(letters, mark, max(whole, key=len, default=letters))
            else:
                for alphabet in (form, secret_forms.safe_in_urls(form)):
                    self._quoted.append(([alphabet], re.escape(alphabet), mark))
        for form in secret_forms.hexadecimal(secret):
            self._hexadecimal.add(form, mark, form)
        octets = secret_forms.bytes_of(secret)
        # As the numbers of a program, 0x41.
        digits = b"".join(b"0%02x" % octet for octet in octets)
        self._hexadecimal.add(octets.hex().encode(), mark, digits)
        for form in secret_forms.numbers(secret):
            self._digits.add(form, mark, form)

    def spans(self, text: bytes) -> "list[Span]":
        """The secrets in a text, in order; they may overlap."""
        plain = [
            span
            for needed, pattern, mark in self._quoted
            if all(run in text for run in needed)
            for span in _matches(pattern, mark, text)
        ]
        spans = {(_begun(_ESCAPING, text, start), end, mark) for start, end, mark in plain}
        rest = text
        if plain:
            # Most secrets are written as they are, and need not be looked for the slow way.
            without = bytearray(text)
            for start, end, _ in plain:
                without[start:end] = bytes(end - start)
            rest = bytes(without)
        for view, start, end, mark in self._coded(rest, 0):
            shown = view is self._hexadecimal and re.compile(_REST).match(text, end)
            span = _begun(_BEGUN, text, start), shown.end() if shown else end, mark
            if span[1] - span[0] <= self.reach:
                spans.add(span)
        return sorted(spans, key=lambda span: (span[0], -span[1], span[2]))

    def _coded(self, text: bytes, offset: int) -> "Iterator[tuple[LetterView, int, int, bytes]]":
        """What is written with other letters, wherever parts of it are found."""
        words = text.translate(None, _NO_WORDS)
        hexadecimal = words.translate(_LOWER, _NO_HEXADECIMAL)
        digits = hexadecimal.translate(None, _NO_DIGITS)
        views = ((self._words, words), (self._hexadecimal, hexadecimal), (self._digits, digits))
        if not any(view.may_find(letters) for view, letters in views):
            return
        if len(text) > self._close:
            middle = len(text) // 2
            yield from self._coded(text[: middle + self.reach], offset)
            yield from self._coded(text[middle:], offset + middle)
            return
        for view, letters in views:
            if view.may_find(letters):
                for start, end, mark in view.spans(text if view is self._words else text.lower()):
                    yield view, offset + start, offset + end, mark


def _begun(pattern: bytes, text: bytes, start: int) -> int:
    """Where the code begins whose first letter is here."""
    before = text[max(0, start - SecretFinder.before) : start]
    begun = re.search(pattern, before)
    return start - len(before) + begun.start(begun.lastindex or 0) if begun else start
