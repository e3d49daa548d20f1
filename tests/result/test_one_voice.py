"""PROMOTE, EVIDENCE and NEXT say the same of the same runs."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, lines, run
from tests.conftest import twoarm as command
from tests.support.planned_runs import missing

Records = list[dict[str, Any]]


def suite(
    tasks: int, repeats: int, changed: Callable[[int, str, int], dict[str, Any]]
) -> tuple[Records, random.Random]:
    """Runs of both arms, each as `changed` has it."""
    draw = random.Random(0)
    runs = [
        run(f"t{task}", arm, repeat, **changed(task, arm, repeat))
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm in (WITH, WITHOUT)
    ]
    return runs, draw


def noisy(runs: Records, draw: random.Random, spread: float) -> Records:
    for entry in runs:
        entry["duration_seconds"] *= math.exp(draw.gauss(0, spread))
        entry["input_tokens"] = int(entry["input_tokens"] * math.exp(draw.gauss(0, spread)))
    return runs


def codes(report: twoarm.Report) -> list[str]:
    return [step.code for step in report.next]


def slower(tasks: int, repeats: int, *, fails: bool) -> Records:
    """A candidate that takes twice as long for as many tokens, and fails once or never."""

    def changed(task: int, arm: str, repeat: int) -> dict[str, Any]:
        ours = arm == WITH
        return {
            "success": not (fails and ours and (task, repeat) == (0, 1)),
            "duration_seconds": 100 * (2 if ours else 1) + repeat,
            "input_tokens": 1000 + task + (repeat if ours and fails else 0),
        }

    return suite(tasks, repeats, changed)[0]


@pytest.mark.parametrize(
    ("runs", "options", "by", "answer"),
    [
        (slower(8, 5, fails=True), ["--promote-by=gates"], "gates", "no"),
        (slower(8, 5, fails=True), ["--promote-by=evidence"], "gates", "no"),
        (slower(8, 5, fails=True), ["--promote-by=margin"], "gates", "no"),
        (slower(8, 5, fails=False), ["--promote-by=evidence"], "evidence", "no"),
        (slower(8, 5, fails=False), ["--promote-by=margin"], "margin", "not yet"),
        (slower(8, 4, fails=True), ["--promote-by=margin"], "margin", "not yet"),
        # What a planned look settles is settled before the gates are asked.
        (slower(8, 5, fails=True), ["--promote-by=evidence", "--looks=5,6"], "evidence", "no"),
    ],
)
def test_every_report_names_what_settled_the_promotion(
    runs: Records, options: list[str], by: str, answer: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "runs.jsonl", tmp_path / "out"
    path.write_bytes(lines(runs))
    result = command("score", str(path), "--exit-code", "--annotate", "--out", str(out), *options)
    analysis = json.loads((out / "analysis.json").read_text())
    assert analysis["promotion"]["by"] == by
    words = {"gates": "the gates", "evidence": "the evidence", "margin": "the margin rule"}[by]
    comment = command("score", str(path), "--format", "github", *options).out
    for shown in (result.out, (out / "analysis.md").read_text(), comment):
        assert f"{answer}, by {words}: " in shown
    page = (out / "report.html").read_text()
    assert f"{answer}, by {words}: " in page[: page.index("</dl>")]
    verdict = {"no": "do not promote", "not yet": "not enough data"}[answer]
    said = [line for line in result.err.splitlines() if f"{verdict}, by {words}: " in line]
    assert [line.partition(" ")[0] for line in said] == [
        "::error" if answer == "no" else "::warning",
        "twoarm:",
    ]


def test_next_does_not_say_that_the_evidence_agrees_where_it_would_not_promote() -> None:
    def changed(task: int, arm: str, repeat: int) -> dict[str, Any]:
        share = 0.7 if arm == WITH else 1.0
        passed = repeat <= (3 if arm == WITH or task % 2 == 0 else 2)
        return {"success": passed, "duration_seconds": 100 * share, "input_tokens": 1000 * share}

    runs, draw = suite(8, 5, changed)
    report = twoarm.score(noisy(runs, draw, 0.1))
    assert report.promotion.verdict == "promote"
    assert "evidence" in [other.by for other in report.promotion.others]
    assert "promote" not in codes(report)
    assert "promote_if_cheap" in codes(report)


def test_a_promotion_does_not_count_a_gain_of_failed_runs() -> None:
    def changed(task: int, arm: str, repeat: int) -> dict[str, Any]:
        failed = repeat == 10
        seconds = 1.0 if failed and arm == WITH else 100.0
        tokens = 900 if arm == WITH else 1000
        return {"success": not failed, "duration_seconds": seconds, "input_tokens": tokens}

    runs, draw = suite(12, 10, changed)
    report = twoarm.score(noisy(runs, draw, 0.02), promote_by="evidence")
    assert report.promotion.verdict == "promote"
    assert str(report.promotion.reasons[0]) == "fewer tokens for tasks like these"
    assert "faster, because failed runs are short" in report.to_text(full=True, width=120)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("evidence", "the evidence shows a gain, and the guard finds nothing against it"),
        ("margin", "it is within the margins, and better somewhere"),
    ],
)
def test_a_promotion_has_a_next_step(by: Any, words: str) -> None:
    runs, draw = suite(30, 5, lambda _, arm, __: {"duration_seconds": 50 if arm == WITH else 100})
    runs = noisy(runs, draw, 0.02)
    report = twoarm.score(runs, promote_by=by)
    assert report.promotion.verdict == "promote"
    assert str(report.next[0].message) == f"promote `{WITH}` if the arms ran side by side: {words}"
    for number, entry in enumerate(runs):
        entry["started_at_utc"] = f"2026-11-01T{number // 60:02}:{number % 60:02}:00Z"
    ordered = twoarm.score(runs, promote_by=by)
    assert str(ordered.next[0].message) == f"promote `{WITH}`: {words}"
    if by == "evidence":
        off = twoarm.score(runs, promote_by=by, guard="none")
        assert "the guard is off" in off.next[0].message


def test_gates_that_would_not_promote_for_lost_runs_are_not_said_to() -> None:
    def changed(task: int, arm: str, repeat: int) -> dict[str, Any]:
        slower = 80 if task % 2 else 119
        return {"duration_seconds": (slower if arm == WITH else 100) + repeat / 100}

    runs, _ = suite(8, 10, changed)
    noted = "note_gates"
    assert noted in codes(twoarm.score(runs, promote_by="evidence"))
    lost = [
        missing(entry["task_id"], WITH, entry["repeat"], "lost")
        if entry["arm"] == WITH and entry["repeat"] > 7
        else entry
        for entry in runs
    ]
    report = twoarm.score(lost, promote_by="evidence")
    assert report.promotion.verdict == "do not promote"
    assert report.decision == f"prefer {WITH}"
    assert [(other.by, other.verdict) for other in report.promotion.others][:1] == [
        ("gates", "not enough data")
    ]
    assert noted not in codes(report)


def test_a_metric_named_first_that_never_differs_leaves_nothing_clear_at_a_look() -> None:
    runs, draw = suite(8, 5, lambda _, arm, __: {"duration_seconds": 50 if arm == WITH else 100})
    report = twoarm.score(noisy(runs, draw, 0.02), primary="success", looks=(3, 5))
    assert report.evidence is not None
    assert report.evidence.looks is not None
    assert report.evidence.looks.clear == {}
    assert report.evidence.grade.verdict == "no clear difference"


def test_a_few_start_times_are_no_order() -> None:
    runs, draw = suite(12, 5, lambda _, arm, __: {"duration_seconds": 50 if arm == WITH else 100})
    noisy(runs, draw, 0.02)
    for number, entry in enumerate(runs[:8]):
        entry["started_at_utc"] = f"2026-11-01T10:{number:02}:00Z"
    report = twoarm.score(runs, promote_by="evidence")
    assert report.evidence is not None
    assert not report.evidence.order.known
    assert "order_unknown" in [caveat.code for caveat in report.caveats]
    for number, entry in enumerate(runs):
        entry["started_at_utc"] = f"2026-11-01T{number // 60:02}:{number % 60:02}:00Z"
    ordered = twoarm.score(runs, promote_by="evidence")
    assert ordered.evidence is not None
    assert ordered.evidence.order.known


@pytest.mark.parametrize("free", [(WITH, WITHOUT), (WITH,)])
def test_where_runs_cost_nothing_the_guard_looks_at_tokens(free: tuple[str, ...]) -> None:
    def changed(task: int, arm: str, repeat: int) -> dict[str, Any]:
        candidate = arm == WITH
        return {
            "duration_seconds": 70 if candidate else 100,
            "input_tokens": 700 if candidate else 1000,
            "total_cost_usd": 0.0 if arm in free else 1.0 + task / 100 + repeat / 1000,
            "cache_read_tokens": 200_000 if candidate else 20_000,
        }

    runs, draw = suite(12, 5, changed)
    report = twoarm.score(noisy(runs, draw, 0.02), promote_by="evidence")
    assert report.evidence is not None
    assert report.evidence.guard.paid.metric == "tokens"
    assert report.promotion.verdict == "do not promote"


def test_a_run_that_stopped_early_is_finished_before_anything_else_is_advised() -> None:
    runs, draw = suite(3, 4, lambda _, arm, __: {"duration_seconds": 50 if arm == WITH else 100})
    assert codes(twoarm.score(noisy(runs, draw, 0.02))) == ["reach_minimum_repeats"]
    left = [missing("t9", arm, 1, "not yet run") for arm in (WITH, WITHOUT)]
    assert codes(twoarm.score([*runs, *left])) == ["finish_run"]
