"""Words with values behind them: a decision, a sentence; they survive copies, pickles and JSON."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import twoarm
from tests.conftest import both, run
from twoarm.compare.decide import INSUFFICIENT, MIXED, Decision
from twoarm.text.sentence import Name, Sentence, joined, listed, say

HOSTILE = "worse` <b>|\n{}"

DECISIONS = [
    (Decision("candidate", "new"), "candidate", "new", "prefer new"),
    (Decision("baseline", HOSTILE), "baseline", HOSTILE, f"prefer {HOSTILE}"),
    (Decision("candidate", MIXED), "candidate", MIXED, f"prefer {MIXED}"),
    (Decision("mixed"), "mixed", None, MIXED),
    (Decision("insufficient"), "insufficient", None, INSUFFICIENT),
]
SENTENCES = [
    say("no names"),
    say("{} vs. {}: {}", Name("a"), Name(HOSTILE), 3),
    say("{} and {}", say("{} of {}", 2, Name("b")), "{}"),
    listed(["a", "b", "c"], 2),
    say("{}", Name("")),
]


def pickled(protocol: int) -> Callable[[Any], Any]:
    return lambda value: pickle.loads(pickle.dumps(value, protocol))


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *map(pickled, range(2, pickle.HIGHEST_PROTOCOL + 1)),
]


@pytest.mark.parametrize(("decision", "kind", "arm", "words"), DECISIONS)
def test_a_decision_is_its_words_and_knows_its_kind_and_arm(
    decision: Decision, kind: str, arm: str | None, words: str
) -> None:
    assert isinstance(decision, str)
    assert decision == words
    for same in (decision, *(copied(decision) for copied in COPIES)):
        assert type(same) is Decision
        assert (str(same), same.kind, same.arm) == (words, kind, arm)
        assert json.loads(json.dumps(same)) == words


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_keeps_its_parts(sentence: Sentence) -> None:
    for same in (copied(sentence) for copied in COPIES):
        assert type(same) is Sentence
        assert same == sentence
        assert same.parts == sentence.parts
        assert list(map(type, same.parts)) == list(map(type, sentence.parts))
    assert json.loads(json.dumps(sentence)) == sentence


def test_names_in_a_sentence_are_code_and_the_rest_is_text() -> None:
    found = say("{} of {}, {}", 3, Name("x"), say("not {}", Name("`y`")))
    assert found == "3 of `x`, not `` `y` ``"
    assert found.parts == ("3", " of ", Name("x"), ", ", "not ", Name("`y`"))
    assert [part for part in found.parts if isinstance(part, Name)] == ["x", "`y`"]


def test_what_looks_like_a_place_for_a_value_is_text() -> None:
    assert say("{}!", "{}") == "{}!"
    assert say("{}!", Name("{}")) == "`{}`!"
    with pytest.raises(AssertionError):
        say("{} and {}", "one")


def test_sentences_are_joined_with_their_names() -> None:
    found = joined([say("a {}", Name("x")), "plain", say("{}", Name("y"))], "; ")
    assert found == "a `x`; plain; `y`"
    assert [part for part in found.parts if isinstance(part, Name)] == ["x", "y"]
    assert joined([], "; ") == ""


def test_a_list_of_names_ends_with_how_many_more_there_are() -> None:
    names = ["a", "b", "c", "d"]
    assert listed(names, 4) == "`a`, `b`, `c`, `d`"
    assert listed(names, 3) == "`a`, `b`, `c` and 1 more"
    assert listed(names[:1]) == "`a`"


def test_the_analysis_file_has_words_and_no_values_behind_them() -> None:
    report = twoarm.score([*both(HOSTILE), run(HOSTILE, repeat=2, colour=1)])
    built = report.to_dict()
    assert json.loads(json.dumps(built)) == json.loads(report.to_json())
    texts = [built["decision"], *built["promotion"]["reasons"]]
    texts += [caveat["message"] for caveat in built["caveats"]]
    assert len(texts) > 3
    assert {type(text) for text in texts} == {str}


def test_a_report_survives_a_copy_and_a_pickle() -> None:
    report = twoarm.score([*both(), *both("u", 2)])
    for copied in COPIES:
        same = copied(report)
        assert same.to_json() == report.to_json()
        assert same.to_text(full=True) == report.to_text(full=True)
        assert (same.decision.kind, same.decision.arm) == ("candidate", "with_skelly")
        assert same.caveats[0].message.parts == report.caveats[0].message.parts


def test_a_decision_in_the_file_may_be_read_back_as_words() -> None:
    report = twoarm.score(both())
    read_back = msgspec.json.decode(report.to_json())
    assert read_back["decision"] == report.decision
    assert read_back["evidence"]["on_shared_tasks"] == report.decision
