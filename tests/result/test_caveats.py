"""How serious a caveat is, and which of them a reader in a hurry is shown first."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import twoarm as package
from tests.conftest import both, run
from tests.result.test_tested import study
from tests.support.formula_runs import jitter, spread
from twoarm import Caveat
from twoarm.errors import NOTES, SERIOUS
from twoarm.render.github import annotations
from twoarm.render.summary import summarize
from twoarm.result.caveats import foremost
from twoarm.runs.study import StudyRun
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


def regraded(**options: Any) -> package.Candidates:
    """Three arms in two parts, some of whose runs kept the verdict of then."""
    kept = [("one", 1), ("one", 2), ("two", 1), ("base", 2)]
    runs = [
        run("t", arm, part, part=part, duration_seconds=seconds)
        for arm, seconds in (("one", 9), ("two", 9), ("base", 10))
        for part in (1, 2)
    ]
    folder = study(
        not_regraded=tuple(
            StudyRun(arm=arm, path=f"{arm}/t.{part}", part=part) for arm, part in kept
        )
    )
    read = msgspec.structs.replace(package.read(runs), studies=(folder,))
    return package.compare_candidates(read, baseline="base", evidence=False, **options)


def test_runs_that_kept_the_verdict_of_then_are_named_where_they_count() -> None:
    def told(report: package.Report) -> list[str]:
        return [str(item.message) for item in report.caveats if item.code == "not_regraded"]

    both_parts, second = regraded(), regraded(part=(2,))
    assert told(both_parts["one"]) == [
        "3 runs could not be graded again and keep the verdict of then: `one/t.1`, `one/t.2`, "
        "`base/t.2`; to count them as missing instead, remove their folders below `out/runs` and "
        "`out/collected.jsonl`, then score"
    ]
    (message,) = told(second["two"])
    assert message.startswith(
        "1 run could not be graded again and keeps the verdict of then: `base/t.2`; to count it as "
        "missing instead, remove its folder below "
    )
    (first, _) = told(both_parts["two"])[0].split(";", 1)
    assert first.endswith(": `two/t.1`, `base/t.2`")
    # What differs is said of each, and what does not once.
    shown = " ".join(both_parts.to_text(width=200).split())
    assert f"Caveat: one: {told(both_parts['one'])[0]}".replace("`", "") in shown.replace("`", "")
    assert f"Caveat: two: {first}".replace("`", "") in shown.replace("`", "")
    assert "not_regraded" in SERIOUS


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
