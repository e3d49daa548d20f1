"""One word, one idea: no two public types of the package have the same name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import twoarm

PACKAGE = Path(twoarm.__file__).parent


def test_every_public_type_has_a_name_of_its_own() -> None:
    places = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for name in types_in(path.read_text(encoding="utf-8")):
            places[name].add(str(path.relative_to(PACKAGE)))
    assert len(places) > 200
    assert {name: sorted(at) for name, at in places.items() if len(at) > 1} == {}


def test_types_are_classes_and_aliases_and_nothing_private() -> None:
    text = """
class Run: pass
class _Hidden: pass
class P: pass
Kind = Literal["a", "b"]
Source: TypeAlias = str | bytes
T = TypeVar("T")
MOST = 7
if TYPE_CHECKING:
    Span = tuple[int, int]
def of(): Local = 1
"""
    assert list(types_in(text)) == ["Run", "P", "Kind", "Source", "Span"]


def types_in(text: str) -> Iterator[str]:
    """The public classes of a module and its aliases of types, known by their capitals."""
    body = ast.parse(text).body
    while body:
        node = body.pop(0)
        if isinstance(node, ast.If):
            body[:0] = node.body
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = target.id if isinstance(target, ast.Name) else ""
                if name[:1].isupper() and not name.isupper():
                    yield name


# What was found, and what was said? A noun tells.
NO_NAMES = {"found", "one", "said"}


def test_a_variable_is_called_what_it_is() -> None:
    bound = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in variables_in(path.read_text(encoding="utf-8"))
    }
    assert len(bound) > 2000
    assert sorted(each for each in bound if each.split(": ")[1] in NO_NAMES) == []


def test_variables_are_arguments_attributes_and_whatever_is_bound() -> None:
    text = """
def of(given, *more): self.kept, (a, b) = given, more
for each in [last := first for first in most]: pass
with at as entered: import os as system
"""
    names = {"given", "more", "kept", "a", "b", "each", "last", "first", "entered"}
    assert set(variables_in(text)) == names


def variables_in(text: str) -> Iterator[str]:
    """The names that a module binds, but for functions, classes and modules."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
