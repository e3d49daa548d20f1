"""Arms that ran one after the other are compared, and not promoted by the evidence."""

from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, lines
from tests.conftest import twoarm as command
from tests.support.advice import advised
from tests.support.effect_runs import suite
from twoarm.render.report import Report
from twoarm.result.caveats import foremost

Records = list[dict[str, Any]]
YES, NO, NOT_YET = "promote", "do not promote", "not enough data"
MODES: tuple[Any, ...] = ("gates", "evidence", "margin")
APART = "the arms did not run side by side"


def clocked(order: str, **changed: Any) -> Records:
    """A candidate that is better by every way to look at it, run in some order."""
    runs = suite(25, 5, **{"effect": 0.6, "pass_rate": 1.0} | changed)
    for number, entry in enumerate(runs):
        second = number + (1_000 if order == "blocks" and entry["arm"] == WITH else 0)
        if order == "blocks inside tasks":
            # The runs of a task come in pairs.
            place = number % 10
            second = number - place + place // 2 + 5 * (entry["arm"] == WITHOUT)
        if order != "unknown":
            clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
            entry["started_at_utc"] = f"2026-11-01T{clock}Z"
    return runs


def first_caveat(report: Report) -> str:
    return next((caveat.code for caveat in foremost(report.caveats)), "")


@pytest.mark.parametrize("order", ["blocks", "blocks inside tasks"])
@pytest.mark.parametrize("by", MODES)
def test_arms_in_blocks_are_promoted_by_the_gates_alone(by: Any, order: str) -> None:
    report = twoarm.score(clocked(order), promote_by=by, resamples=100)
    assert report.promotion.verdict == (YES if by == "gates" else NOT_YET)
    assert first_caveat(report) == "separate_time_blocks"
    if by != "gates":
        assert report.promotion.reasons[0] == APART
        assert str(report.promotion.reasons[1]).startswith("otherwise ")
        # Nothing is said of more runs in the same order.
        steps = advised(report)
        assert steps[0].startswith("run them again with the arms interleaved: ")
        assert not any(step.startswith(("add ", "to see ")) for step in steps)
    # Whoever knows better can say so.
    known = twoarm.score(clocked(order), promote_by=by, guard="none", resamples=100)
    assert known.promotion.verdict == YES


@pytest.mark.parametrize("by", MODES)
@pytest.mark.parametrize(
    ("order", "caveat"), [("interleaved", False), ("unknown", True), ("blocks", False)]
)
def test_a_promotion_without_a_known_order_says_so_first(by: Any, order: str, caveat: bool) -> None:
    report = twoarm.score(clocked(order), promote_by=by, guard="none", resamples=100)
    assert report.promotion.verdict == YES
    assert (first_caveat(report) == "order_unknown") == (caveat and by != "gates")
    assert report.evidence is not None
    assert report.evidence.order.known != caveat
    if caveat and by != "gates":
        assert "nothing says in which order the arms ran (most records lack a" in report.to_text()
        worse = twoarm.score(clocked(order, effect=1.7), promote_by=by, resamples=100)
        assert worse.promotion.verdict == NO
        assert "order_unknown" not in {entry.code for entry in worse.caveats}


def test_one_start_time_in_an_arm_is_no_order() -> None:
    runs = clocked("interleaved")
    timed = [entry for entry in runs if entry["arm"] == WITH]
    for entry in timed[1:]:
        entry["started_at_utc"] = None
    assert first_caveat(twoarm.score(runs, promote_by="evidence", resamples=100)) == "order_unknown"
    timed[1]["started_at_utc"] = "2026-11-01T00:00:07Z"
    assert first_caveat(twoarm.score(runs, promote_by="evidence", resamples=100)) != "order_unknown"


def test_harm_that_was_seen_is_a_no_whatever_the_order() -> None:
    runs = clocked("blocks")
    for entry in runs:
        if entry["arm"] == WITH:
            entry["total_cost_usd"] *= 4
    decided = twoarm.score(runs, promote_by="evidence", resamples=100).promotion
    assert decided.verdict == NO
    assert [str(reason)[:14] for reason in decided.reasons] == [
        APART[:14],
        "more expensive",
        "otherwise fast",
    ]


def test_nobody_stops_at_a_look_for_arms_in_blocks() -> None:
    assert (
        twoarm.look(clocked("interleaved"), looks=(5, 10), resamples=100).stop == "candidate better"
    )
    assert twoarm.look(clocked("blocks"), looks=(5, 10), resamples=100).stop is None
    assert (
        twoarm.look(clocked("blocks"), looks=(5, 10), guard="none", resamples=100).stop
        == "candidate better"
    )


def test_the_margin_rule_can_be_told_that_the_order_does_not_matter(tmp_path: Any) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(clocked("blocks")))
    arguments = ("score", str(path), "--promote-by", "margin")
    assert "PROMOTE    not yet, by the margin rule: the arms did not run" in command(*arguments).out
    assert "PROMOTE    yes, by the margin rule" in command(*arguments, "--guard", "none").out
