"""What reports show of scores and checks."""

import random
from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, run
from tests.support.effect_runs import suite
from twoarm.render.junit import render as junit
from twoarm.render.page.gate_charts import changes
from twoarm.render.report import Report
from twoarm.render.summary import summarize


def graded(*, scored: bool = True) -> list[dict[str, Any]]:
    """A suite in which the candidate passes more checks."""
    draw = random.Random(2)
    runs = suite(12, 5)
    for entry in runs if scored else ():
        unit = draw.random() < (0.95 if entry["arm"] == WITH else 0.4)
        lint = draw.random() < 0.8
        entry |= {"checks": {"unit": unit, "lint": lint}, "score": (unit + lint) / 2}
    return runs


@pytest.fixture(scope="module")
def report() -> Report:
    return twoarm.score(graded())


def test_the_first_screen_has_the_mean_score_within_one_screen(report: Report) -> None:
    lines = report.to_text().splitlines()
    row = next(line for line in lines if line.startswith("mean score"))
    assert "pts" in row
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "mean score" not in twoarm.score(graded(scored=False)).to_text()


def test_a_score_gives_way_where_there_is_no_room() -> None:
    """Two arms with much to be said about them."""
    runs = graded()
    for entry in runs:
        entry["failure_reason"] = "a reason that is long" if not entry["success"] else None
        entry["agent"], entry["model"] = f"agent {entry['arm']}", f"model of {entry['arm']}"
    lines = twoarm.score(runs, primary="score", promote_by="evidence").to_text().splitlines()
    assert len(lines) <= 24


def test_the_full_report_has_the_score_of_each_task_and_the_checks(report: Report) -> None:
    for text in (report.to_text(full=True), report.to_markdown(), report.to_html()):
        assert "score, mean per task" in text
        assert "Scores by task" in text
        assert "Checks that differ most" in text
    assert "60 of 60 runs in the candidate" in report.to_text(full=True).replace("\n    ", " ")


def test_the_tasks_whose_score_fell_come_first(report: Report) -> None:
    lines = report.to_text(full=True).splitlines()
    first = lines.index("Scores by task") + 2
    moved = [float(line.split()[3]) for line in lines[first : first + 12]]
    assert moved == sorted(moved)


def test_the_page_draws_the_score_beside_success(report: Report) -> None:
    chart = changes(summarize(report))
    assert "Success and score in points" in chart.how
    assert "mean score: " in chart.shows
    without = changes(summarize(twoarm.score(graded(scored=False))))
    assert without.how.startswith("Success in points")


def test_a_ci_system_reads_the_score_among_the_properties(report: Report) -> None:
    assert '<property name="mean score" value="' in junit(report)
    assert "mean score" not in junit(twoarm.score(graded(scored=False)))


def test_the_score_is_no_gate(report: Report) -> None:
    amount = next(each for each in summarize(report).amounts if each.label == "mean score")
    assert (amount.gate, amount.label_note) == (None, "not a gate")
    assert "gate score" not in junit(report)


def test_a_mark_beside_the_score_is_that_of_its_test_where_it_was_named_first() -> None:
    runs = [
        run(f"t{task}", arm, repeat, score=(0.62 if arm == WITH else 0.5) + 0.01 * repeat)
        for task in range(8)
        for repeat in range(1, 6)
        for arm in (WITH, WITHOUT)
    ]
    named, unnamed = (
        next(
            each
            for each in summarize(twoarm.score(runs, primary=primary)).amounts
            if each.label == "mean score"
        )
        for primary in ("score", None)
    )
    # By its interval alone nothing is clear; by its test it is.
    assert (unnamed.mark, named.mark) == ("~", "differs")
