"""The commands inside a shell command: of pipes, lists, subshells, `bash -c` and the like."""

import re
from collections.abc import Iterator

from twoarm.programs.script import DEEPEST, Scanner, Simple, Words

# What comes after so many characters is not looked at.
LONGEST = 2**20
# No more programs than this are taken off one command.
_MOST_WRAPPERS = 8

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
# Programs that run another one, and those of their options whose value is a word of its own.
_WRAPPERS: dict[str, frozenset[str]] = {
    "builtin": frozenset(),
    "busybox": frozenset(),
    "command": frozenset(),
    "doas": frozenset({"-u"}),
    "env": frozenset({"-u", "-C", "--unset", "--chdir"}),
    "exec": frozenset({"-a"}),
    "ionice": frozenset({"-c", "-n", "--class", "--classdata"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "sudo": frozenset({"-u", "-g", "-h", "-p", "--user", "--group", "--host", "--prompt"}),
    "time": frozenset({"-f", "-o"}),
    "timeout": frozenset({"-s", "-k", "--signal", "--kill-after"}),
    "xargs": frozenset(
        {"-I", "-n", "-P", "-L", "-d", "-s", "-E", "-a"}
        | {"--max-args", "--max-procs", "--max-lines", "--delimiter", "--arg-file"}
    ),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_DURATION = re.compile(r"[\d.]+[smhd]?")


def commands(text: str) -> Iterator[Words]:
    """Every command that a shell would run, as words without quotes.

    One behind `env`, `sudo` and the like comes twice, with them and without.
    """
    for words in _simple(text[:LONGEST], 0, set()):
        yield from _readings(words)


def _simple(text: str, depth: int, seen: set[str]) -> Iterator[Words]:
    """The simple commands of a script, and of the scripts that they are given.

    One that was `seen` is not read again, or nested ones would be read twice at every level.
    """
    if depth > DEEPEST or text in seen:
        return
    seen.add(text)
    scanner = Scanner(text, depth)
    scanner.scan()
    for simple in scanner.commands:
        if simple.words:
            yield simple.words
            for script in _scripts(simple):
                yield from _simple(script, depth + 1, seen)
    for script in scanner.scripts:
        yield from _simple(script, depth + 1, seen)


def _scripts(simple: Simple) -> list[str]:
    """The scripts that a shell is given with `-c` or on its standard input, or `eval`."""
    for words in _readings(simple.words):
        program = words[0].rpartition("/")[2]
        if program == "eval":
            return [" ".join(words[1:])]
        if program in _SHELLS:
            return _of_shell(words, simple.given)
    return []


def _of_shell(words: Words, given: list[str]) -> list[str]:
    at, asked = 1, ""
    while at < len(words) and words[at].startswith(("-", "+")):
        option = words[at]
        at += 1
        if option in ("-", "--"):
            break
        if option.startswith("--"):
            at += option in ("--rcfile", "--init-file")
        else:
            asked += option if option.startswith("-") else ""
            at += option.endswith(("o", "O"))
    if "c" in asked:
        return words[at : at + 1]
    return given if "s" in asked or at >= len(words) else []


def _readings(words: Words) -> Iterator[Words]:
    """A command as it is written, then without what stands before the program."""
    yield words
    for _ in range(_MOST_WRAPPERS):
        at = 0
        while at < len(words) and _ASSIGNMENT.match(words[at]):
            at += 1
        if at == 0:
            at = _behind(words, words[0].rpartition("/")[2])
        if at >= len(words):
            return
        words = words[at:]
        yield words


def _behind(words: Words, program: str) -> int:
    """Where the command begins that a program runs; after the last word if it runs none."""
    if program == "find":
        runs = (at for at, word in enumerate(words, 1) if word in ("-exec", "-execdir"))
        return next(runs, len(words))
    if program not in _WRAPPERS:
        return len(words)
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option = words[at]
        if program == "command" and ("v" in option or "V" in option):
            # It only says where the command is.
            return len(words)
        at += 2 if _takes_next(option, _WRAPPERS[program]) else 1
        if option == "--":
            break
    if program == "timeout" and at < len(words) and _DURATION.fullmatch(words[at]):
        at += 1
    return at


def _takes_next(option: str, valued: frozenset[str]) -> bool:
    """Whether the next word is the value of an option, or of the last of several in one word."""
    if option.startswith("--"):
        return option in valued
    places = (at for at, letter in enumerate(option) if at and f"-{letter}" in valued)
    return next(places, -1) == len(option) - 1
