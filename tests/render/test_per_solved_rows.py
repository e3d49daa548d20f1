"""What a solved task takes, on the first screen and in the tables."""

from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT
from tests.support.effect_runs import suite
from twoarm.render.summary import Amount, summarize
from twoarm.render.text import Look, render

LABELS = ["success rate", "median duration", "median tokens"]
SOLVED = ["cost per solved", "minutes per solved"]


def amounts(runs: list[dict[str, Any]], **options: Any) -> list[Amount]:
    return list(summarize(twoarm.score(runs, **options)).amounts)


def labels(runs: list[dict[str, Any]], **options: Any) -> list[str]:
    return [amount.label for amount in amounts(runs, **options)]


def without_cost(runs: list[dict[str, Any]], *arms: str) -> list[dict[str, Any]]:
    return [record | ({"total_cost_usd": None} if record["arm"] in arms else {}) for record in runs]


def test_they_stand_below_the_medians_where_cost_was_measured() -> None:
    runs = suite(8, 5)
    assert labels(runs) == [*LABELS, *SOLVED]
    assert labels(without_cost(runs, WITH, WITHOUT)) == LABELS


def test_without_a_figure_in_both_arms_the_median_cost_is_shown() -> None:
    runs = suite(8, 5)
    unsolved = [record | {"success": record["arm"] != WITH} for record in runs]
    for other in (without_cost(runs, WITH), unsolved):
        assert labels(other) == [*LABELS, "median cost"]
    assert labels(runs, evidence=False) == [*LABELS, "median cost"]


@pytest.mark.parametrize(
    ("factor", "mark", "role"), [(0.5, "better", "good"), (1.0, "~", None), (2.0, "worse", "bad")]
)
def test_only_an_interval_that_is_clear_is_marked_and_colored(
    factor: float, mark: str, role: str | None
) -> None:
    runs = suite(8, 5, effect=1.0, seed=2)
    for record in runs:
        record["duration_seconds"] *= factor if record["arm"] == WITH else 1.0
    minutes = amounts(runs)[-1]
    assert (minutes.mark, minutes.role) == (mark, role)
    assert minutes.label_note == "totals, not a gate"


def test_the_figures_the_change_and_the_interval_are_those_of_the_evidence() -> None:
    report = twoarm.score(suite(8, 5))
    assert report.evidence is not None
    per_solved = report.evidence.per_solved.duration_minutes
    minutes = summarize(report).amounts[-1]
    assert minutes.candidate == f"{per_solved.candidate.estimate:.2f}"
    assert minutes.baseline == f"{per_solved.baseline.estimate:.2f}"
    assert per_solved.ratio.estimate is not None
    assert minutes.change == f"{per_solved.ratio.estimate - 1:+.1%}"
    interval = per_solved.ratio.tasks_like_these
    assert interval is not None
    assert minutes.interval == f"{interval.low - 1:+.1%} to {interval.high - 1:+.1%}"
    assert minutes.low == pytest.approx(100 * (interval.low - 1))


def test_a_withheld_interval_says_why() -> None:
    runs = suite(8, 5)
    for record in runs:
        record["success"] = record["task_id"] in ("t000", "t001")
    assert [amount.why for amount in amounts(runs)[-2:]] == [
        "No interval: 2 tasks solved; it takes 3."
    ] * 2


@pytest.mark.parametrize(
    ("width", "label"), [(78, "cost/solved (1)"), (120, "cost per solved (1)")]
)
def test_labels_are_short_where_whole_ones_would_push_the_figures_out(
    width: int, label: str
) -> None:
    text = render(twoarm.score(suite(8, 5)), Look(width=width))
    row = next(line for line in text.splitlines() if line.startswith(label))
    assert row.count("$") == 2, "the figures of the arms are there"


def test_dollars_per_solved_task_are_what_a_dollar_solves_turned_over() -> None:
    report = twoarm.score(without_cost(suite(8, 5), "nobody"))
    assert report.evidence is not None
    cost = report.evidence.per_solved.cost_usd
    for summary, estimate in zip(
        report.arm_summaries, (cost.candidate, cost.baseline), strict=True
    ):
        assert estimate.estimate is not None
        assert summary.solved_per_dollar == pytest.approx(1 / estimate.estimate)
