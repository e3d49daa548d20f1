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
