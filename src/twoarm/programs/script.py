"""The simple commands of a shell script, without running it: what is code in it, and what is text.

A script is read once, from left to right. Commands are found wherever a shell would look for them,
also in substitutions; quotes, patterns, arithmetic, arrays and here-documents are passed over.
"""

import re
from functools import cached_property
from typing import NamedTuple

# Commands inside commands inside commands: no deeper than this.
DEEPEST = 8

# Words before a command that are no part of it.
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "coproc"}
)
_PLAIN = re.compile(r"[^ \t\r\n'\"\\`$|&;()<>#]+")
_DOUBLE = re.compile(r'["\\$`]')
_LIVE = re.compile(r"[\\$`]")
_ENCLOSED = re.compile(r"[)}'\"\\`$]")
_REDIRECTION = re.compile(r"&>>?|<<<|<<-?|<>|>>|>\||[<>]&-|[<>]&|[<>]")
_DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
_NO_ARGUMENTS = re.compile(r"\([ \t]*\)")
_NEXT_PATTERN = re.compile(r";;&?|;&")
_BACKSLASHED = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}

Words = list[str]


class Simple(NamedTuple):
    """A command: its words without quotes, and the texts that it reads from standard input."""

    words: Words
    given: list[str]


class _Document(NamedTuple):
    """A here-document that was announced, and where to put it."""

    delimiter: str
    tabs: bool
    quoted: bool
    given: list[str]


class Scanner:
    """Reads a script once."""

    def __init__(self, text: str, depth: int) -> None:
        self.commands: list[Simple] = []
        # Scripts inside backquotes, which have to be read again without their backslashes.
        self.scripts: list[str] = []
        self._text = text
        self._depth = depth

    def scan(self, at: int = 0, *, inner: bool = False) -> int:
        """Read to the end, or to the parenthesis that closes; gives the place after it."""
        text, end = self._text, len(self._text)
        command = _Command()
        level = 0
        while at < end:
            plain = _PLAIN.match(text, at)
            if plain:
                command.add(plain[0])
                at = plain.end()
                continue
            character = text[at]
            if character in "'\"\\`$":
                at = self._quoted(at, command)
            elif character in " \t\r":
                command.end_word()
                at += 1
            elif character == "#":
                at = _end_of(text, "\n", at) if command.between else command.add("#", at + 1)
            elif command.inert and self._passed(character, command):
                at += 1
            elif character == "\n":
                self._end(command)
                at = self._documents(at + 1, command)
            elif character in "<>" or text.startswith("&>", at):
                at = self._redirected(at, command)
            elif character == "(":
                opened, at = self._opened(at, command)
                level += opened
            elif character == ")":
                if level == 0 and inner:
                    break
                self._end(command)
                level = max(0, level - 1)
                at += 1
            else:
                self._end(command)
                at = self._separated(at, command)
        self._end(command)
        return min(at + 1, end)

    def _end(self, command: "_Command") -> None:
        simple = command.taken()
        if simple.words or simple.given:
            self.commands.append(simple)

    def _passed(self, character: str, command: "_Command") -> bool:
        """Whether a sign in a pattern of `case` or in `[[ ]]` is no operator."""
        if command.test and character in "|&()<>":
            command.add(character)
            return True
        command.end_word()
        if command.pattern and character == ")":
            command.pattern = False
            self._end(command)
            return True
        return command.pattern or (command.test and character == "\n")

    def _separated(self, at: int, command: "_Command") -> int:
        """After `|`, `&` or `;`; in `case`, a pattern may come next."""
        following = _NEXT_PATTERN.match(self._text, at) if command.cases else None
        if following is None:
            return at + 1
        command.pattern = True
        return following.end()

    def _opened(self, at: int, command: "_Command") -> tuple[bool, int]:
        """Whether a parenthesis begins a subshell, and where to go on."""
        close = self._arithmetic.get(at) if command.takes_arithmetic else None
        if close is not None:
            self._substitutions(at, close)
            return False, close + 1
        if command.takes_array and self._depth < DEEPEST:
            self._depth += 1
            after = self._enclosed(at + 1, ")")
            self._depth -= 1
            return False, command.add(self._text[at:after], after)
        empty = _NO_ARGUMENTS.match(self._text, at)
        if empty and command.names_function():
            return False, empty.end()
        self._end(command)
        return True, at + 1

    @cached_property
    def _arithmetic(self) -> dict[int, int]:
        """Where a `((` stands whose parentheses are closed together, and where they are."""
        closings: dict[int, int] = {}
        unclosed: list[int] = []
        inner = (-1, -1)
        for sign in re.finditer(r"[()]", self._text):
            at = sign.start()
            if sign[0] == "(":
                unclosed.append(at)
            elif unclosed:
                opened = unclosed.pop()
                if inner == (opened + 1, at - 1):
                    closings[opened] = at
                inner = (opened, at)
        return closings

    def _quoted(self, at: int, command: "_Command") -> int:
        text = self._text
        character, following = text[at], text[at + 1 : at + 2]
        if character == "\\":
            return at + 2 if following == "\n" else command.add(following, at + 2, quoted=True)
        if character == "'":
            close = _end_of(text, "'", at + 1)
            return command.add(text[at + 1 : close], close + 1, quoted=True)
        if character == '"':
            return self._double(at + 1, command)
        if character == "$" and following == "'":
            return _escaped(text, at + 2, command)
        if character == "$" and following == '"':
            return self._double(at + 2, command)
        return self._substituted(at, command)

    def _double(self, at: int, command: "_Command") -> int:
        text, end = self._text, len(self._text)
        command.add("", quoted=True)
        while at < end:
            stop = _DOUBLE.search(text, at)
            if stop is None:
                return command.add(text[at:], end)
            at = command.add(text[at : stop.start()], stop.start())
            if text[at] == '"':
                return at + 1
            if text[at] == "\\":
                escaped = text[at + 1 : at + 2]
                kept = escaped if escaped in '"\\$`' else f"\\{escaped}"
                at = command.add("" if escaped == "\n" else kept, at + 2)
            else:
                at = self._substituted(at, command, quoted=True)
        return end

    def _substituted(self, at: int, command: "_Command", *, quoted: bool = False) -> int:
        """What stands at a `$` or a backquote; commands in it are found, too."""
        text = self._text
        if text[at] == "`":
            close = at + 1
            while close < len(text) and text[close] != "`":
                close += 2 if text[close] == "\\" else 1
            self.scripts.append(text[at + 1 : close].replace("\\`", "`"))
            return command.add(text[at : close + 1], close + 1)
        opening = text[at + 1 : at + 2]
        if opening not in ("(", "{") or self._depth >= DEEPEST:
            return command.add("$", at + 1)
        self._depth += 1
        if opening == "{":
            after = self._enclosed(at + 2, "}", quoted=quoted)
        elif at + 1 in self._arithmetic:
            after = self._arithmetic[at + 1] + 1
            self._substitutions(at + 1, after)
        else:
            after = self.scan(at + 2, inner=True)
        self._depth -= 1
        return command.add(text[at:after], after)

    def _enclosed(self, at: int, closing: str, *, quoted: bool = False) -> int:
        """The place after what a sign closes, in which only substitutions count."""
        text, unseen = self._text, _Command()
        while stop := _ENCLOSED.search(text, at):
            at = stop.start()
            if text[at] == closing:
                return at + 1
            literal = text[at] in ")}" or (quoted and text[at] == "'")
            at = at + 1 if literal else self._quoted(at, unseen)
        return len(text)

    def _substitutions(self, at: int, end: int) -> None:
        """Find the commands in a text of which nothing else counts."""
        unseen = _Command()
        while stop := _LIVE.search(self._text, at, end):
            at = stop.start()
            at = at + 2 if stop[0] == "\\" else self._substituted(at, unseen)

    def _redirected(self, at: int, command: "_Command") -> int:
        text = self._text
        if text[at + 1 : at + 2] == "(" and self._depth < DEEPEST:
            self._depth += 1
            after = self.scan(at + 2, inner=True)
            self._depth -= 1
            return command.add(text[at:after], after)
        operator = _REDIRECTION.match(text, at)
        assert operator is not None
        command.redirect(operator[0])
        return operator.end()

    def _documents(self, at: int, command: "_Command") -> int:
        """The place after the documents that were announced in the line before."""
        text = self._text
        for document in command.announced():
            start, end = at, len(text)
            while at < len(text):
                close = _end_of(text, "\n", at)
                line = text[at:close]
                if (line.lstrip("\t") if document.tabs else line) == document.delimiter:
                    end, at = at, close + 1
                    break
                at = close + 1
            document.given.append(text[start:end])
            if not document.quoted:
                self._substitutions(start, end)
        return min(at, len(text))


def _end_of(text: str, wanted: str, at: int) -> int:
    """Where a character is next, or the end."""
    end = text.find(wanted, at)
    return len(text) if end < 0 else end


def _escaped(text: str, at: int, command: "_Command") -> int:
    """The text of `$'...'`, in which a backslash keeps the quote from closing it."""
    close = at
    while close < len(text) and text[close] != "'":
        close += 2 if text[close] == "\\" else 1
    plain = _BACKSLASHED.sub(lambda match: _CONTROLS.get(match[1], match[1]), text[at:close])
    return command.add(plain, close + 1, quoted=True)


class _Command:
    """The words of a command so far, and where in the grammar it stands."""

    def __init__(self) -> None:
        # Whether the words are patterns of `case`, and how many of those are open.
        self.pattern = False
        self.cases = 0
        # Whether they are inside `[[ ]]`.
        self.test = False
        self._words: Words = []
        self._given: list[str] = []
        self._pieces: list[str] | None = None
        self._quoted = False
        # The redirection whose target is the next word.
        self._operator: str | None = None
        # The keyword right before.
        self._after = ""
        self._announced: list[_Document] = []

    @property
    def between(self) -> bool:
        """Whether no word has begun."""
        return self._pieces is None

    @property
    def inert(self) -> bool:
        """Whether operators have no meaning here."""
        return self.pattern or self.test

    @property
    def takes_arithmetic(self) -> bool:
        """Whether `((` would begin a calculation."""
        return self._pieces is None and self._words in ([], ["for"])

    @property
    def takes_array(self) -> bool:
        """Whether a parenthesis would begin the values of an array."""
        return self._pieces is not None and self._pieces[-1].endswith("=")

    def add(self, piece: str, after: int = 0, *, quoted: bool = False) -> int:
        """Go on with the word, or begin one; gives the place after it, as it was given."""
        if self._pieces is None:
            self._pieces = []
        self._pieces.append(piece)
        self._quoted |= quoted
        return after

    def end_word(self) -> None:
        """The word is complete, if there is one."""
        if self._pieces is None:
            return
        word, quoted = "".join(self._pieces), self._quoted
        self._pieces, self._quoted = None, False
        operator, self._operator = self._operator, None
        if operator is not None:
            self._targeted(operator, word, quoted=quoted)
        elif self.pattern:
            if word == "esac" and not quoted:
                self.pattern = False
                self.cases -= 1
        elif not self._words:
            self._first(word, quoted=quoted)
        else:
            self._words.append(word)
            if word == "in" and len(self._words) == 3 and self._words[0] == "case":
                self.pattern = True
                self.cases += 1
            self.test = self.test and (word != "]]" or quoted)

    def _first(self, word: str, *, quoted: bool) -> None:
        """A word before which there are none but keywords."""
        after, self._after = self._after, ""
        if quoted or not (word in _KEYWORDS or word == "function" or after):
            self._words.append(word)
            self.test = word == "[[" and not quoted
            self.cases -= word == "esac" and self.cases > 0
        elif word in _KEYWORDS or word == "function":
            self._after = word if word in ("time", "function") else ""
        elif after == "time" and not word.startswith("-"):
            self._first(word, quoted=quoted)

    def _targeted(self, operator: str, word: str, *, quoted: bool) -> None:
        if operator == "<<<":
            self._given.append(word)
        elif operator.startswith("<<"):
            self._announced.append(
                _Document(delimiter=word, tabs=operator == "<<-", quoted=quoted, given=self._given)
            )

    def redirect(self, operator: str) -> None:
        """The next word is no part of the command; nor is the descriptor right before."""
        if self._pieces is not None and _DESCRIPTOR.fullmatch("".join(self._pieces)):
            self._pieces = None
        self.end_word()
        self._operator = None if operator.endswith("-") and "&" in operator else operator

    def names_function(self) -> bool:
        """Whether all there is so far is a name; it is then forgotten: defined, not run."""
        self.end_word()
        if len(self._words) > 1:
            return False
        self._words = []
        return True

    def taken(self) -> Simple:
        """The command, all of its words complete; the next one begins."""
        self.end_word()
        simple = Simple(self._words, self._given)
        self._words, self._given = [], []
        self._operator, self._after, self.test = None, "", False
        return simple

    def announced(self) -> list[_Document]:
        """The documents that begin in the next line."""
        announced, self._announced = self._announced, []
        return announced
