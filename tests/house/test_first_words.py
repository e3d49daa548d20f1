"""What `twoarm init` writes is explained in the words of docs/run.md and of the schema."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.stand_ins import STAND_INS
from twoarm.run.first_suite import first_suite

DOCUMENT = (Path(__file__).parents[2] / "docs" / "run.md").read_text(encoding="utf-8")


def suite(agent: str) -> str:
    return first_suite(agent)["suite.toml"].decode()


@pytest.mark.parametrize("agent", [*STAND_INS, "command"])
def test_every_key_has_the_words_of_the_schema_or_the_document(agent: str) -> None:
    schema = twoarm("schema", "suite").out
    meanings = re.findall(r"  # (.+)$", suite(agent), re.M)
    assert len(meanings) >= 10
    for meaning in meanings:
        assert json.dumps(meaning)[1:-1] in schema or meaning in DOCUMENT, meaning


def test_a_task_an_arm_and_a_limit_are_explained_in_the_words_of_the_document() -> None:
    paragraphs = re.findall(r"(?:^# .*\n)+(?=\[)", suite("command"), re.M)
    explained = [re.sub(r"\s*\n# ", " ", text).removeprefix("# ").strip() for text in paragraphs]
    assert [text.split(" is ")[0].split(" stops ")[0] for text in explained] == [
        "A limit",
        "An arm",
        "A task",
    ]
    for text in explained:
        for sentence in re.split(r"(?<=\.) ", text):
            assert sentence in DOCUMENT, sentence


def test_the_models_and_secrets_are_those_of_the_document() -> None:
    for agent in STAND_INS:
        table = tomllib.loads(suite(agent))["agent"]
        assert f'program = "{agent}"' in DOCUMENT
        for word in (table["model"], *table["secrets"]):
            assert f'"{word}"' in DOCUMENT, word
