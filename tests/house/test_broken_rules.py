"""The list of rules to break is not stale; `make broken` breaks them."""

import ast
from collections import Counter

import pytest

from tests.break_rules import ROOT
from tests.broken import BROKEN, Broken


@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.rule)
def test_the_code_to_break_is_there_once_and_breaking_it_leaves_code(entry: Broken) -> None:
    file = ROOT / "src" / "twoarm" / entry.file
    assert file.exists(), f"{entry.file} is gone"
    text = file.read_text(encoding="utf-8")
    assert text.count(entry.kept) == 1, f"{entry.file}: {entry.kept}"
    assert entry.broken != entry.kept
    if file.suffix == ".py":
        ast.parse(text.replace(entry.kept, entry.broken))
    path, _, test = entry.tests.partition("::")
    assert f"def {test}" in (ROOT / path).read_text(encoding="utf-8")


def test_every_rule_has_a_name_of_its_own() -> None:
    assert [rule for rule, count in Counter(e.rule for e in BROKEN).items() if count > 1] == []


def test_no_rule_is_broken_twice_in_the_same_way() -> None:
    ways = Counter((entry.file, entry.kept, entry.broken) for entry in BROKEN)
    assert [way for way, count in ways.items() if count > 1] == []
