"""Where the code of a rule is: found by the name of its function, wherever that lives.

The name is looked up in the whole package and the code is compared token by token, so that neither
moving a function to another file nor formatting it anew makes an entry stale.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from tests.broken.entry import Broken

_TOKEN = re.compile(
    r"""\s+ | \#[^\n]* | \\\n
    | [rbfu]{0,2}(?: \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
                  | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')
    | \w+ | (?: \*\* | // | << | >> | [-+*/%@&|^<>=!:])=? | .""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


class StaleError(Exception):
    """An entry whose code is not there, or is there more than once."""


class Token(NamedTuple):
    """A token, and where it starts and ends in its text."""

    text: str
    start: int
    end: int


class Span(NamedTuple):
    """A part of a file."""

    file: Path
    start: int
    end: int


class Package:
    """A package that is read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def breaking(self, entry: Broken) -> tuple[Path, str]:
        """The file of an entry, and its text with the rule broken."""
        if "/" in entry.where:
            file = self.folder / entry.where
            text = source(file)
            if text.count(entry.kept) != 1:
                raise StaleError(f"{entry.where} has {text.count(entry.kept)} times: {entry.kept}")
            return file, text.replace(entry.kept, entry.broken)
        file, start, end = self.place(entry)
        text = source(file)
        # What is broken is as deep as the code it replaces.
        deeper = _indent(text[text.rfind("\n", 0, start) + 1 :]) - _indent(entry.kept)
        first, *rest = entry.broken.strip().splitlines() or [""]
        moved = (" " * (_indent(line) + deeper) + line.lstrip() for line in rest)
        return file, text[:start] + "\n".join((first, *moved)) + text[end:]

    def place(self, entry: Broken) -> Span:
        """The one place of the code in the one definition of that name."""
        named = self.full_names.get(entry.where, [])
        places = [span for name in named for span in self.places_in(name, entry.kept)]
        if len(named) == len(places) == 1:
            return places[0]
        # The innermost definition of each place has the longest name.
        elsewhere = {
            span: name
            for name in sorted(self.definitions, key=len)
            for span in self.places_in(name, entry.kept)
        }
        raise StaleError(
            f"{entry.where} names {len(named)} definitions, which have {len(places)} times: "
            f"{entry.kept}; it is in: {', '.join(elsewhere.values()) or 'none'}"
        )

    @cached_property
    def definitions(self) -> dict[str, list[Span]]:
        """Every module, class, function, method and name of a module, by its full name."""
        spans: dict[str, list[Span]] = defaultdict(list)
        for file in sorted(self.folder.rglob("*.py")):
            module = ".".join(file.relative_to(self.folder.parent).with_suffix("").parts)
            text = source(file)
            starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
            spans[module].append(Span(file, 0, len(text)))
            for name, first, last in _named(ast.parse(text).body):
                spans[f"{module}.{name}"].append(Span(file, starts[first - 1], starts[last]))
        return spans

    @cached_property
    def full_names(self) -> dict[str, list[str]]:
        """The definitions whose names end in some words."""
        ending: dict[str, list[str]] = defaultdict(list)
        for name in self.definitions:
            words = name.split(".")
            for at in range(len(words)):
                ending[".".join(words[at:])].append(name)
        return ending

    def places_in(self, name: str, code: str) -> list[Span]:
        """Where a definition has a piece of code."""
        wanted = tokens(code)
        core = [at for at, token in enumerate(wanted) if token.text not in "(),"]
        words = [wanted[at].text for at in core]
        places = []
        for file, start, end in self.definitions[name]:
            having = [token for token in file_tokens(file) if start <= token.start < end]
            solid = [at for at, token in enumerate(having) if token.text not in "(),"]
            for at in range(len(solid) - len(words) + 1):
                match = solid[at : at + len(words)]
                if words and [having[n].text for n in match] == words:
                    edges = _edges(having, (match[0], match[-1] + 1), wanted, core)
                    if edges is not None:
                        places.append(Span(file, having[edges[0]].start, having[edges[1] - 1].end))
        return places


TWOARM = Package(Path(__file__).parent.parent.parent / "src" / "twoarm")


def _named(body: Sequence[ast.stmt]) -> Iterator[tuple[str, int, int]]:
    """The names that statements define, each with its first and its last line."""
    for node in body:
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, min(n.lineno for n in (node, *node.decorator_list)), last
            if isinstance(node, ast.ClassDef):
                inner = _named(node.body)
                yield from ((f"{node.name}.{name}", first, end) for name, first, end in inner)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            yield from ((n.id, node.lineno, last) for n in names if isinstance(n.ctx, ast.Store))
        elif isinstance(node, ast.If | ast.Try):
            yield from _named([*node.body, *node.orelse])


def _edges(
    having: list[Token], match: tuple[int, int], wanted: list[Token], core: list[int]
) -> tuple[int, int] | None:
    """A match with the parentheses and commas at its edges; None if they do not fit."""
    first, after = match
    for token in reversed(wanted[: core[0]]):
        first -= first > 0 and having[first - 1].text == token.text
    for at in range(core[-1] + 1, len(wanted) + 1):
        edge = wanted[at].text if at < len(wanted) else ")"
        following = [token.text for token in having[after : after + 2]]
        if edge in "(," and following[:1] == [edge]:
            after += 1
        elif edge == "(":
            return None
        elif edge == ")" and _open(having[first:after]) > _open(wanted[: at + 1]):
            after += 1 + (following == [",", ")"])
            if having[after - 1].text != ")":
                return None
    return (first, after) if _open(having[first:after]) == _open(wanted) else None


def _open(some: list[Token]) -> int:
    """How many parentheses are left open."""
    return sum((token.text == "(") - (token.text == ")") for token in some)


@cache
def source(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def file_tokens(file: Path) -> list[Token]:
    return tokens(source(file))


def tokens(code: str) -> list[Token]:
    """What is neither layout nor a comment; the same on every Python, and of code that is cut."""
    matches = ((match[0], *match.span()) for match in _TOKEN.finditer(code))
    return [
        Token(*token) for token in matches if not token[0].isspace() and token[0][0] not in "#\\"
    ]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))
