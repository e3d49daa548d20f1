"""The list of rules to break is not stale; `make broken` breaks them."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.break_rules import ROOT, share
from tests.broken import BROKEN, Broken
from tests.broken.places import TWOARM, Package, StaleError, source


@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.rule)
def test_the_code_to_break_is_there_once_and_breaking_it_leaves_code(entry: Broken) -> None:
    file, text = TWOARM.breaking(entry)
    assert text != source(file)
    if file.suffix == ".py":
        ast.parse(text)
    path, _, test = entry.tests.partition("::")
    test = test.partition("[")[0]
    assert f"def {test}" in (ROOT / path).read_text(encoding="utf-8")


def test_every_rule_has_a_name_of_its_own() -> None:
    assert [rule for rule, count in Counter(e.rule for e in BROKEN).items() if count > 1] == []


def test_no_rule_is_broken_twice_in_the_same_way() -> None:
    ways = Counter((entry.where, entry.kept, entry.broken) for entry in BROKEN)
    assert [way for way, count in ways.items() if count > 1] == []


def package(folder: Path, **modules: str) -> Package:
    (folder / "room").mkdir()
    for name, text in modules.items():
        (folder / "room" / f"{name}.py").write_text(text)
    return Package(folder)


def entry(where: str, kept: str, broken: str) -> Broken:
    return Broken("a rule", where, kept, broken, "tests")


LAYOUTS = [
    "def f(a, b):\n    return g(a, b) or a\n",
    "def f(a, b):\n    return (\n        g(\n            a,\n            b,\n        )  # why\n"
    "        or a\n    )\n",
    "class C:\n    def f(a, b):\n        return (g(a, b)\n            or a)\n",
]


@pytest.mark.parametrize("text", LAYOUTS)
@pytest.mark.parametrize(
    ("kept", "broken", "returned"),
    [
        ("return g(a, b) or a", "return g(b, a)", "g(b, a)"),
        ("return (g(a, b) or a)", "return g(b, a)", "g(b, a)"),
        ("g(a, b) or a", "b", "b"),
        ("g(a, b,)\n    or a", "b", "b"),
        ("g(a, b)", "b", "b or a"),
    ],
)
def test_code_is_there_however_it_is_formatted(
    tmp_path: Path, text: str, kept: str, broken: str, returned: str
) -> None:
    _, after = package(tmp_path, m=text).breaking(entry("f", kept, broken))
    (statement,) = (n for n in ast.walk(ast.parse(after)) if isinstance(n, ast.Return))
    assert ast.unparse(statement) == f"return {returned}"


@pytest.mark.parametrize(
    ("kept", "broken", "after"),
    [
        ("g(a,", "h(a,", "x = [h(a, b), (c)]"),
        ("b)", "c)", "x = [g(a, c), (c)]"),
        (", b", "", "x = [g(a), (c)]"),
        ("a, ", "", "x = [g( b), (c)]"),
        ("(a, b)", "()", "x = [g(), (c)]"),
        (", (c)", "", "x = [g(a, b)]"),
        ("[g(", "[h(", "x = [h(a, b), (c)]"),
    ],
)
def test_what_is_broken_has_its_own_parentheses_and_commas(
    tmp_path: Path, kept: str, broken: str, after: str
) -> None:
    made = package(tmp_path, m="x = [g(a, b), (c)]\n")
    assert made.breaking(entry("x", kept, broken))[1].rstrip() == after


def test_code_is_as_deep_as_what_it_replaces(tmp_path: Path) -> None:
    made = package(
        tmp_path, m="class C:\n    def f(self):\n        if a:\n            b()\n        c()\n"
    )
    kept, broken = "    if a:\n        b()\n    c()", "    if a:\n        c()\n    b()"
    after = "class C:\n    def f(self):\n        if a:\n            c()\n        b()\n"
    assert made.breaking(entry("C.f", kept, broken))[1] == after


def test_a_function_may_move_to_another_file(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        made = package(tmp_path / name, **{name: "def f():\n    return 1\n"})
        assert made.breaking(entry("f", "return 1", "return 2"))[0].stem == name


@pytest.mark.parametrize(
    ("where", "kept", "told"),
    [
        ("f", "return 1", "f names 2 definitions, which have 1 times: return 1; it is in: "),
        ("a.f", "return 2", "which have 0 times: return 2; it is in: .*room.b.f"),
        ("a.g", "x", "a.g names 1 definitions, which have 2 times: x"),
        ("h", "x", "h names 0 definitions"),
        ("a.g", "y", "it is in: none"),
        ("a.g", "()", "it is in: none"),
        ("room/a.py", "return", "room/a.py has 2 times: return"),
    ],
)
def test_what_is_ambiguous_or_gone_is_stale_and_where_else_it_is_gets_told(
    tmp_path: Path, where: str, kept: str, told: str
) -> None:
    modules = {
        "a": "def f():\n    return 1\ndef g():\n    x()\n    return x\n",
        "b": "def f():\n    return 2\n",
    }
    with pytest.raises(StaleError, match=told):
        package(tmp_path, **modules).breaking(entry(where, kept, "pass"))


def test_a_share_is_about_its_part_and_another_one_for_another_seed() -> None:
    tenths = [share(BROKEN, 10, f"commit {number}") for number in range(200)]
    assert share(BROKEN, 10, "commit 0") == tenths[0]
    assert all(len(BROKEN) / 20 < len(tenth) < len(BROKEN) / 5 for tenth in tenths)
    assert {broken for tenth in tenths for broken in tenth} == set(BROKEN)
