"""A value that nobody can use, as an error quotes it; a name, as a suite would have it."""

import json
import math
import tomllib
from datetime import date

import pytest

from twoarm.text.escape import in_toml, value_in_words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (-0.5, "-0.5"),
        (1e300, "1e+300"),
        (math.nan, "NaN"),
        (math.inf, "a number too large for a double"),
        pytest.param(-(10**5000), "a number too large for a double", id="5000 digits"),
        ("yes", '"yes"'),
        ("\x1b[31mred", '"\\x1b[31mred"'),
        ([1, 2], "an array"),
        ((1, 2), "an array"),
        ({"a": 1}, "an object"),
        (date(2026, 11, 16), "2026-11-16"),
    ],
)
def test_what_an_error_quotes(value: object, words: str) -> None:
    assert value_in_words(value) == words


def test_a_long_value_is_cut() -> None:
    assert len(value_in_words("x" * 1000)) == 62


def test_a_suite_calls_an_object_a_table() -> None:
    assert value_in_words({"a": 1}, "a table") == "a table"


@pytest.mark.parametrize("name", ["AGENTS.md", 'a "b"', "c\\d", "\\", '"', "é"])
def test_a_name_is_told_as_a_suite_would_have_it(name: str) -> None:
    assert tomllib.loads(f"remove = [{in_toml(name)}]") == {"remove": [name]}
    assert json.loads(in_toml(name)) == name
