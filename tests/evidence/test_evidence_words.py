"""The evidence in words: each question has its own table, and says what it rests on."""

import json

import msgspec
import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both
from tests.support.effect_runs import suite
from twoarm.render.github import annotations
from twoarm.render.summary import summarize
from twoarm.render.tables import gates


def test_a_table_says_nothing_of_the_other_question() -> None:
    text = twoarm.score(both()).to_text(full=True)
    these, others = (text.split(head)[1].split("\n\n")[0] for head in ("These tasks", "Tasks like"))
    assert "run-to-run noise cannot be told" in these
    assert "other tasks" not in these
    assert "says nothing about other tasks" in others
    assert "run-to-run noise cannot be told" not in others


def test_no_clear_difference_says_what_it_could_still_be() -> None:
    report = twoarm.score(suite(12, 5, effect=1.0))
    assert report.evidence is not None
    deltas = report.evidence.deltas
    rate, duration = deltas["success"].mean.tasks_like_these, deltas["duration_seconds"].ratio
    assert rate is not None
    assert duration is not None
    assert duration.tasks_like_these is not None
    low, high = (end * 100 for end in (rate.low, rate.high))
    ends = [
        f"{(end - 1) * 100:+.1f}%"
        for end in (duration.tasks_like_these.low, duration.tasks_like_these.high)
    ]
    said = summarize(report).evidence
    assert said.startswith(
        f"no clear difference in success (could be {low:+.1f} to {high:+.1f} points), duration "
        f"({ends[0]} to {ends[1]}) or tokens ("
    )
    # A promotion looks at these very tasks, where less is left open.
    assert said.endswith("), for tasks like these")


@pytest.mark.parametrize(
    ("effect", "seed", "said"),
    [(0.8, 6, "perhaps faster (-"), (1.2, 6, "perhaps slower (+"), (1.0, 4, "")],
)
def test_what_is_clear_only_on_its_own_is_a_hint(effect: float, seed: int, said: str) -> None:
    report = twoarm.score(suite(9, 5, effect=effect, seed=seed))
    assert report.evidence is not None
    duration = next(f for f in report.evidence.grade.findings if f.metric == "duration_seconds")
    assert duration.standing == "no clear difference"
    found = summarize(report).evidence
    assert said in found if said else "perhaps" not in found


def test_a_metric_that_was_named_first_is_said_to_be() -> None:
    runs = suite(12, 5, effect=0.6, pass_rate=1.0)
    said = summarize(twoarm.score(runs, primary="duration")).evidence
    assert said.startswith("with duration named first: faster and fewer tokens")
    report = twoarm.score(runs, primary="success")
    assert report.evidence is not None
    assert report.evidence.grade.verdict == "no clear difference"
    summary = summarize(report)
    assert summary.evidence.startswith(
        "success, named first, is not clear, so nothing else can be: perhaps faster ("
    )
    notes = {amount.mark_note for amount in summary.amounts} - {""}
    assert notes == {"clear on its own, but success, named first, is not"}
    assert "named first" not in summarize(twoarm.score(runs)).evidence
    written = json.loads(report.to_json())
    assert written["options"]["primary"] == "success"
    assert written["evidence"]["grade"]["primary"] == "success"


def test_a_clear_change_whose_size_is_open_says_so() -> None:
    """Six tasks out of six gain: no chance. Whole tasks among others may still break."""
    runs = [
        one | {"success": one["arm"] == WITH or one["repeat"] > 2 + (one["task_id"] > "t2")}
        for one in suite(6, 10, effect=1.0, pass_rate=1.0)
    ]
    success = summarize(twoarm.score(runs)).amounts[0]
    # Neither better nor worse stands beside an interval that includes no difference.
    assert (success.mark, success.role) == ("differs", None)
    assert success.low is not None
    assert success.low < 0.0
    assert success.mark_note == "that it changes is clear; by how much is not"
    several = twoarm.compare_candidates(twoarm.read(runs), baseline=WITHOUT).to_markdown()
    assert "Where a row differs, that it changes is clear; by how much is not." in several


def test_a_gate_is_better_or_worse_only_where_the_evidence_says_so() -> None:
    runs = suite(12, 5, effect=0.6, pass_rate=1.0)
    next(entry for entry in runs if entry["arm"] == WITH)["success"] = False
    report = twoarm.score(runs)
    standings = [row[4].text for row in gates(report).rows]
    assert standings == ["lower, not clear", "better", "better"]
    assert [gate.standing for gate in report.gates] == ["worse", "better", "better"]
    for shown in (report.to_junit(), "\n".join(annotations(report))):
        assert "worse: " not in shown
        assert "lower: 98.3%" in shown
    assert report.evidence is not None
    unclear = tuple(
        msgspec.structs.replace(finding, standing="no clear difference")
        for finding in report.evidence.grade.findings
    )
    grade = msgspec.structs.replace(report.evidence.grade, findings=unclear)
    doubted = msgspec.structs.replace(report.evidence, grade=grade)
    rows = gates(msgspec.structs.replace(report, evidence=doubted)).rows
    assert [row[4].text for row in rows] == ["lower, not clear"] * 3
    alone = twoarm.score(runs, evidence=False)
    assert [row[4].text for row in gates(alone).rows] == ["lower"] * 3


def test_what_a_sign_flip_assumes_is_said_where_it_is_used() -> None:
    assumed = "assumes that, without a difference, tasks would vary alike both ways"
    for tasks, said in ((7, True), (4, False)):
        text = " ".join(twoarm.score(suite(tasks, 4)).to_text(full=True).split())
        assert (assumed in text) == said
        assert "p is for each row alone" in text
        assert "the verdict also allows for looking at three gates" in text


@pytest.mark.parametrize(("factor", "mark"), [(0.5, "better"), (1.0, "~"), (2.0, "worse")])
def test_cost_is_marked_by_its_interval(factor: float, mark: str) -> None:
    runs = suite(8, 5, effect=1.0, seed=2)
    for one in runs:
        one["total_cost_usd"] *= factor if one["arm"] == WITH else 1.0
    cost = next(one for one in summarize(twoarm.score(runs)).amounts if "cost" in one.label)
    assert cost.mark == mark


def test_the_two_questions_never_share_a_table() -> None:
    text = twoarm.score(suite(7, 4)).to_text(full=True)
    like = text.index("Tasks like these: would other tasks of this kind show it? (7 tasks)")
    these = text.index("These tasks: would the same tasks show it again?")
    assert like < these
    text = twoarm.score(suite(4, 4)).to_text(full=True)
    assert text.index("These tasks:") < text.index("Tasks like these:")
    assert "STABILITY  not available: with fewer than 6 shared tasks it would mislead" in text


def test_one_task_that_can_be_watched_is_one_task() -> None:
    runs = [
        one
        for task in ("passes", "fails")
        for repeat in range(1, 11)
        for one in both(task, repeat, success=task == "passes")
    ]
    assert summarize(twoarm.score(runs)).broken == (
        "cannot tell: only one task passes often enough in the baseline"
    )
