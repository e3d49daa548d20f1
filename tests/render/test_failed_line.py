"""FAILED on the first screen: whole where there is room, and of how many where the arms differ."""

import re
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

import twoarm
from tests.conftest import WITH, WITHOUT
from tests.support.failed_runs import BUDGET
from tests.support.formula_runs import spread
from twoarm.render.summary import summarize
from twoarm.result.step import step
from twoarm.text.sentence import say

FAILED = {WITH: 42, WITHOUT: 22}


def failing() -> list[dict[str, Any]]:
    """144 runs of each arm, of which 42 and 22 fail, for two reasons; one arm ran first."""
    runs, seen = spread(24, 6, 0.8), Counter[str]()
    for made in runs:
        arm = made["arm"]
        made |= {"acceptance_exit_code": 0, "failure": None, "model": "m"}
        made["started_at_utc"] = f"2026-11-0{1 + (arm == WITH)}T10:00:00Z"
        seen[arm] += FAILED[arm]
        if seen[arm] % 144 < FAILED[arm]:
            made |= {"success": False, "acceptance_exit_code": 1}
            made |= BUDGET if seen[arm] // 144 % 2 else {}
    return runs


def test_a_line_that_no_step_fits_into_goes_to_failures() -> None:
    report = twoarm.score(failing(), resamples=99)
    steps = (step("keep_baseline", "keep it"), step("promote", "{}", "words for two lines " * 5))
    promotion = replace(report.promotion, reasons=(say("{}", "a reason of three lines " * 6),))
    shown = replace(report, next=steps, promotion=promotion).to_text()
    assert (
        "FAILED     candidate 42 (21 acceptance, 21 budget); baseline 22 (11 acceptance,\n"
        "           11 budget)\n"
    ) in shown
    assert "NEXT       keep it\nCAVEATS" in shown
    assert len(shown.splitlines()) == 24


@pytest.mark.parametrize(("made", "apart"), [(144, False), (130, False), (129, True), (72, True)])
def test_failures_of_arms_that_are_far_apart_are_said_of_how_many(made: int, apart: bool) -> None:
    candidate, baseline = ([run for run in failing() if run["arm"] == arm] for arm in FAILED)
    for runs in ([*candidate[:made], *baseline], [*candidate, *baseline[:made]]):
        summary = summarize(twoarm.score(runs, evidence=False))
        whole, brief = summary.failed or "", summary.failed_brief or ""
        assert f" of {made} (" in whole
        assert brief == (whole if apart else re.sub(r" of \d+", "", whole))
