"""The commands inside a shell command: of pipes, lists, subshells, `bash -c` and the like."""

import re
from collections.abc import Iterator

# What comes after so many characters is not looked at.
LONGEST = 2**20
# Commands inside commands inside commands: no deeper than this.
DEEPEST = 8

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
# Words before a command that are no part of it.
_KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time"})
# Programs that run another one, and those of their options whose value is a word of its own.
_WRAPPERS: dict[str, frozenset[str]] = {
    "command": frozenset(),
    "doas": frozenset({"-u"}),
    "env": frozenset({"-u", "-C", "-S"}),
    "exec": frozenset({"-a"}),
    "nice": frozenset({"-n"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "sudo": frozenset({"-u", "-g", "-h", "-p"}),
    "timeout": frozenset({"-s", "-k"}),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-d", "-s", "-E", "-a"}),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PLAIN = re.compile(r"[^\s'\"\\`$|&;()<>#]+")
_DURATION = re.compile(r"[\d.]+[smhd]?")

Words = list[str]


def commands(text: str) -> Iterator[Words]:
    """Every command that a shell would run, as words without quotes.

    One behind `env`, `sudo` and the like comes twice, with them and without.
    """
    for words in _simple(text[:LONGEST], 0):
        yield from _readings(words)


def _simple(text: str, depth: int) -> Iterator[Words]:
    """The simple commands of a script, and of the scripts that they are given."""
    if depth > DEEPEST:
        return
    scanner = _Scanner(text, depth)
    scanner.scan(0, None)
    for words in scanner.found:
        yield words
        for reading in _readings(words):
            script = _script(reading)
            if script is not None:
                yield from _simple(script, depth + 1)
                break
    for script in scanner.scripts:
        yield from _simple(script, depth + 1)


def _script(words: Words) -> str | None:
    """The script that a shell is given with `-c`, or `eval`."""
    program = words[0].rpartition("/")[2]
    if program == "eval":
        return " ".join(words[1:])
    if program not in _SHELLS:
        return None
    at = 1
    while at < len(words) - 1 and words[at].startswith(("-", "+")):
        if words[at].endswith("c") and not words[at].startswith("--"):
            return words[at + 1]
        at += 2 if words[at][1:] in ("o", "O") else 1
    return None


def _readings(words: Words) -> Iterator[Words]:
    """A command as it is written, then without what stands before the program."""
    yield words
    while True:
        rest = words
        while rest and _ASSIGNMENT.match(rest[0]):
            rest = rest[1:]
        program = rest[0].rpartition("/")[2] if rest else ""
        if rest is words:
            if program not in _WRAPPERS:
                return
            rest = _wrapped(rest, program)
        if not rest:
            return
        yield rest
        words = rest


def _wrapped(words: Words, wrapper: str) -> Words:
    """What a wrapper runs."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _WRAPPERS[wrapper] else 1
    if wrapper == "timeout" and at < len(words) and _DURATION.fullmatch(words[at]):
        at += 1
    return words[at:]


class _Scanner:
    """Reads a script once, from left to right."""

    def __init__(self, text: str, depth: int) -> None:
        self.found: list[Words] = []
        # Scripts inside backquotes, which have to be read again without their backslashes.
        self.scripts: list[str] = []
        self._text = text
        self._depth = depth

    def scan(self, at: int, closing: str | None) -> int:
        """Read up to the closing parenthesis, or to the end; gives the place after it."""
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
            elif character == "\n":
                self._end(command)
                at = command.skip_documents(text, at + 1)
            elif character == "#" and command.between:
                at = _found(text, "\n", at)
            elif character in "<>" or text.startswith("&>", at):
                at = self._redirected(at, command)
            elif character in "|&;(":
                self._end(command)
                level += character == "("
                at += 1
            elif character == ")":
                if level == 0 and closing is not None:
                    break
                self._end(command)
                level = max(0, level - 1)
                at += 1
            elif character.isspace():
                command.end_word()
                at += 1
            else:
                command.add(character)
                at += 1
        self._end(command)
        return min(at + 1, end)

    def _end(self, command: "_Command") -> None:
        words = command.taken()
        while words and words[0] in _KEYWORDS:
            words = words[1:]
        if words:
            self.found.append(words)

    def _quoted(self, at: int, command: "_Command") -> int:
        text = self._text
        character = text[at]
        if character == "\\":
            if text[at + 1 : at + 2] != "\n":
                command.add(text[at + 1 : at + 2])
            return at + 2
        if character == "'":
            close = _found(text, "'", at + 1)
            command.add(text[at + 1 : close])
            return close + 1
        if character == '"':
            return self._double(at + 1, command)
        return self._substituted(at, command)

    def _double(self, at: int, command: "_Command") -> int:
        text, end = self._text, len(self._text)
        command.add("")
        while at < end:
            stop = _DOUBLE.search(text, at)
            if stop is None:
                command.add(text[at:])
                return end
            command.add(text[at : stop.start()])
            at = stop.start()
            if text[at] == '"':
                return at + 1
            if text[at] == "\\":
                escaped = text[at + 1 : at + 2]
                kept = escaped if escaped in '"\\$`' else f"\\{escaped}"
                command.add("" if escaped == "\n" else kept)
                at += 2
            else:
                at = self._substituted(at, command)
        return end

    def _substituted(self, at: int, command: "_Command") -> int:
        """What stands at a `$` or a backquote; commands in it are found, too."""
        text = self._text
        if text[at] == "`":
            close = at + 1
            while close < len(text) and text[close] != "`":
                close += 2 if text[close] == "\\" else 1
            self.scripts.append(text[at + 1 : close].replace("\\`", "`"))
            command.add(text[at : close + 1])
            return close + 1
        if text[at + 1 : at + 2] != "(" or self._depth >= DEEPEST:
            command.add("$")
            return at + 1
        self._depth += 1
        after = self.scan(at + 2, ")")
        self._depth -= 1
        command.add(text[at:after])
        return after

    def _redirected(self, at: int, command: "_Command") -> int:
        text = self._text
        if text[at + 1 : at + 2] == "(" and self._depth < DEEPEST:
            self._depth += 1
            after = self.scan(at + 2, ")")
            self._depth -= 1
            command.add(text[at:after])
            return after
        here = text.startswith("<<", at) and not text.startswith("<<<", at)
        command.redirect(document=here)
        while at < len(text) and text[at] in "<>&|-":
            at += 1
        return at


_DOUBLE = re.compile(r'["\\$`]')


def _found(text: str, wanted: str, at: int) -> int:
    """Where a character is next, or the end."""
    found = text.find(wanted, at)
    return len(text) if found < 0 else found


class _Command:
    """The words of a command so far."""

    def __init__(self) -> None:
        self._words: Words = []
        self._pieces: list[str] | None = None
        # Whether the next word is the target of a redirection: a file, or where a document ends.
        self._target: str | None = None
        self._documents: list[str] = []

    @property
    def between(self) -> bool:
        """Whether no word has begun."""
        return self._pieces is None

    def add(self, piece: str) -> None:
        """Go on with the word, or begin one."""
        if self._pieces is None:
            self._pieces = []
        self._pieces.append(piece)

    def end_word(self) -> None:
        """The word is complete, if there is one."""
        if self._pieces is None:
            return
        word = "".join(self._pieces)
        self._pieces = None
        if self._target is None:
            self._words.append(word)
        elif self._target == "document":
            self._documents.append(word)
        self._target = None

    def redirect(self, *, document: bool) -> None:
        """The next word is no part of the command; nor is a number right before."""
        if self._pieces is not None and "".join(self._pieces).isdigit():
            self._pieces = None
        self.end_word()
        self._target = "document" if document else "file"

    def taken(self) -> Words:
        """The words, all of them complete; the next command begins."""
        self.end_word()
        self._target = None
        words, self._words = self._words, []
        return words

    def skip_documents(self, text: str, at: int) -> int:
        """The place after the documents that were announced in the line before."""
        for delimiter in self._documents:
            while at < len(text):
                close = _found(text, "\n", at)
                line = text[at:close].lstrip("\t")
                at = close + 1
                if line == delimiter:
                    break
        self._documents = []
        return min(at, len(text))
