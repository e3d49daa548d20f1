"""How serious a caveat is, and which of them a reader in a hurry is shown first."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import twoarm as package
from tests.conftest import both, run
from tests.support.formula_runs import jitter, spread
from twoarm import Caveat
from twoarm.errors import NOTES, SERIOUS
from twoarm.render.github import annotations
from twoarm.render.summary import summarize
from twoarm.result.caveats import foremost
from twoarm.text.sentence import say


def caveat(code: str) -> Caveat:
    return Caveat.of(code=code, message=say("this is {}", code))


@pytest.mark.parametrize(
    ("runs", "code", "severity"),
    [
        ([*both(), *both(repeat=2)], "nothing_differs", "serious"),
        ([run()], "insufficient_data", "warning"),
        (both(), "one_task", "warning"),
        ([one | {"step_count": None} for one in both()], "never_measured", "note"),
        ([one | {"color": "red"} for one in both()], "unknown_keys", "note"),
    ],
)
def test_how_serious_a_caveat_is(runs: list[dict[str, Any]], code: str, severity: str) -> None:
    caveats = package.score(runs).to_dict()["caveats"]
    assert {entry["severity"] for entry in caveats if entry["code"] == code} == {severity}


def test_the_most_serious_caveat_comes_first_and_notes_last() -> None:
    codes = ["never_measured", "zeros", "one_task", "unknown_keys", "broken_tasks", "duplicates"]
    assert [ranked.code for ranked in foremost(tuple(map(caveat, codes)))] == [
        "broken_tasks",
        "zeros",
        "one_task",
        "duplicates",
        "never_measured",
        "unknown_keys",
    ]


def test_what_was_never_measured_comes_last() -> None:
    caveats = summarize(package.score(jitter(8, 5, (0, 1)))).caveats
    assert [message[:14] for message in caveats[-2:]] == ["never measured"] * 2
    assert any("hangs on single tasks" in message for message in caveats[:-2])


def test_what_the_promotion_says_is_not_said_again_as_a_caveat() -> None:
    report = package.score(spread(8, 4, 0.5))
    assert "too_few_repeats" in [entry.code for entry in report.caveats]
    assert not [message for message in summarize(report).caveats if "not enough repeats" in message]
    assert "not enough repeats to promote: 8 of 8 tasks" in report.to_markdown()


def test_annotations_go_by_how_serious_a_caveat_is() -> None:
    report = package.score(spread(8, 5, 0.5))
    assert report.promotion.verdict == "promote"
    caveats = (caveat("made_up"), msgspec.structs.replace(caveat("made_up"), severity="serious"))
    shown = list(annotations(msgspec.structs.replace(report, caveats=caveats)))
    assert [line.split(" ")[0] for line in shown] == ["::notice", "::warning"]


def test_every_code_in_the_table_is_that_of_a_caveat() -> None:
    """A code that was renamed would be a warning like any other from then on."""
    source = Path(package.__file__).parent
    made = "".join(path.read_text() for path in source.rglob("*.py") if path.name != "errors.py")
    assert [
        code
        for code in (*SERIOUS, *NOTES)
        if not re.search(rf'Caveat\.(of\(\s*code=|say\(\s*)"{code}"', made)
        and not code.startswith("different_")
    ] == []
    assert 'code=f"different_{what}s"' in made
