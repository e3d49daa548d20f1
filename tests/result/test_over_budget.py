"""A run that its budget ended: the complete blocks are reported, and nothing is promoted."""

from typing import Any

import pytest

import twoarm as package
from tests.conftest import WITH, WITHOUT
from tests.support.advice import advised
from tests.support.formula_runs import spread
from tests.support.planned_runs import infra, missing
from twoarm.render.summary import summarize

OVER = "over budget"


def over_budget(*also: tuple[str, str, int], ratio: float = 0.5) -> list[dict[str, Any]]:
    """8 tasks x 6 repeats at so much of the time, the last over budget, and `also` some others."""
    return [
        missing(one["task_id"], one["arm"], one["repeat"], OVER)
        if one["repeat"] == 6 or (one["task_id"], one["arm"], one["repeat"]) in also
        else one
        for one in spread(8, 6, ratio)
    ]


@pytest.mark.parametrize("mode", ["gates", "evidence", "margin"])
@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_a_run_that_its_budget_ended_has_no_verdict_however_clear_it_is(
    mode: Any, ratio: float
) -> None:
    report = package.score(over_budget(ratio=ratio), promote_by=mode)
    assert report.promotion.verdict == "not enough data"
    assert report.promotion.reasons == ("the budget ended it after 80 of 96 planned runs",)
    # The gates decide as they ever did.
    assert report.decision.kind == ("candidate" if ratio < 1 else "mixed")
    assert summarize(report).brief == "8 tasks x 5 repeats; 80 of 96 planned runs: 16 over budget"
    assert advised(report)[0] == (
        "finish the run with `twoarm run --resume DIR --budget USD`: 16 of 96 planned runs are "
        "missing"
    )


def test_runs_that_are_not_made_yet_do_not_end_anything() -> None:
    runs = [one | {"failure_reason": "not yet run"} if one.get("failure") else one
            for one in over_budget()]  # fmt: skip
    report = package.score(runs)
    assert report.promotion.verdict == "promote"
    assert summarize(report).brief == "8 tasks x 5 repeats; 80 of 96 planned runs: 16 not yet run"
    assert advised(report)[0].startswith("finish the run with `twoarm run --resume DIR`: 16 of 96")


def test_half_a_block_does_not_count_where_the_budget_ended_the_run() -> None:
    report = package.score(over_budget(("t3", WITH, 5), ("t4", WITHOUT, 5)))
    whole = package.score(over_budget(*((task, arm, 5) for task in ("t3", "t4")
                                        for arm in (WITH, WITHOUT))))  # fmt: skip
    assert report.arm_summaries == whole.arm_summaries
    assert report.paired == whole.paired
    assert report.paired.unpaired_runs == 0
    assert report.effective_run_count == 76
    assert [(arm.planned, arm.counted, arm.missing) for arm in report.trials] == [(48, 38, 10)] * 2
    halves = [(group.arm, group.runs) for group in report.excluded if "half" in group.reason]
    assert halves == [(WITH, 1), (WITHOUT, 1)]
    said = {caveat.code: str(caveat.message) for caveat in report.caveats}
    assert "1 `over budget: the other half of its block`" in said["missing_runs"]
    assert report.run_count == 96


def test_a_block_whose_other_run_failed_for_the_infra_is_half_a_block_as_well() -> None:
    runs = [infra("t3", WITH, 5) if (one["task_id"], one["arm"], one["repeat"]) == ("t3", WITH, 5)
            else one for one in over_budget()]  # fmt: skip
    report = package.score(runs)
    assert [(arm.counted, arm.excluded, arm.missing) for arm in report.trials] == [
        (39, 1, 8),
        (39, 0, 9),
    ]
    # Counted as a run, it makes the block whole.
    kept = package.score(runs, keep_infra=True)
    assert [arm.counted for arm in kept.trials] == [40, 40]


def test_another_arm_that_its_budget_ended_changes_nothing() -> None:
    runs = [*spread(8, 6, 0.5)[:-1], missing("t1", "third", 1, OVER)]
    report = package.score(runs, candidate=WITH, baseline=WITHOUT)
    assert report.effective_run_count == 95
    assert report.promotion.verdict == "promote"


def test_a_pair_counts_whatever_became_of_a_third_arm() -> None:
    third = [
        missing(run["task_id"], "third", run["repeat"], OVER)
        if run.get("failure") or (run["task_id"], run["repeat"]) == ("t3", 5)
        else run | {"arm": "third"}
        for run in over_budget()
        if run["arm"] == WITH
    ]
    several = package.compare_candidates(
        package.read([*over_budget(), *third]), baseline=WITHOUT, evidence=False
    )
    counted = {
        report.candidate: [arm.counted for arm in report.trials] for report in several.reports
    }
    assert counted == {WITH: [40, 40], "third": [39, 39]}
    notes = several.to_markdown()
    assert f"Of the baseline, 40 of 48 planned runs are counted beside `{WITH}`: " in notes
    assert "Of the baseline, 39 of 48 planned runs are counted beside `third`: " in notes
