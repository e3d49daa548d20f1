"""The change by tag, against t intervals of another library at a level that is shared out."""

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy import stats

import twoarm
from tests.conftest import ARMS, WITH, run
from twoarm.evidence.by_tag import MOST_TAGS
from twoarm.evidence.tag_parts import TagChange, Tags
from twoarm.runs.arrays import Floats

# Eight tasks; one tag has six of them, one two, and all have the last.
TAGS = [
    ["most", "every"],
    ["most", "every"],
    ["most", "every"],
    ["most", "every", "two"],
    ["most", "every"],
    ["most", "every"],
    ["every", "two"],
    ["every"],
]


def made(tags: list[list[str]] = TAGS, repeats: int = 4) -> list[dict[str, Any]]:
    draw = Random(2)
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            success=draw.random() < 0.7,
            duration_seconds=100.0 * draw.lognormvariate(0.1 * (arm == WITH) + 0.05 * task, 0.2),
            input_tokens=1_000 + draw.randrange(500),
            task_tags=of_task,
        )
        for task, of_task in enumerate(tags)
        for arm in ARMS
        for repeat in range(1, repeats + 1)
    ]


def tags_of(runs: list[dict[str, Any]], **options: Any) -> Tags | None:
    evidence = twoarm.score(runs, resamples=99, **options).evidence
    assert evidence is not None
    return evidence.tags


def change(runs: list[dict[str, Any]], tag: str, metric: str, **options: Any) -> TagChange:
    tags = tags_of(runs, **options)
    assert tags is not None
    (effect,) = (effect for effect in tags.largest if effect.tag == tag)
    return effect.changes[metric]


def logs(runs: list[dict[str, Any]], task: int, arm: str) -> Floats:
    return np.array(
        [
            math.log(r["duration_seconds"])
            for r in runs
            if r["task_id"] == f"t{task}" and r["arm"] == arm
        ]
    )


def test_from_six_tasks_on_it_is_t_over_tasks_at_a_share_of_the_error() -> None:
    runs = made()
    deltas = [
        logs(runs, task, ARMS[0]).mean() - logs(runs, task, ARMS[1]).mean() for task in range(6)
    ]
    # Two tags that tell tasks apart, and three gates.
    low, high = stats.t.interval(1 - 0.05 / 6, 5, np.mean(deltas), stats.sem(deltas))
    moved = change(runs, "most", "duration_seconds")
    assert (moved.scope, moved.tasks, moved.ratio) == ("tasks_like_these", 6, True)
    assert moved.estimate == pytest.approx(math.exp(np.mean(deltas)))
    assert (moved.low, moved.high) == pytest.approx((math.exp(low), math.exp(high)))


def test_below_six_tasks_it_is_about_these_very_tasks() -> None:
    runs = made()
    # Welch over two tasks with four runs in both arms, each task weighed alike.
    parts = [logs(runs, task, arm).var(ddof=1) / 4 / 4 for task in (3, 6) for arm in ARMS]
    df = sum(parts) ** 2 / sum(part**2 / 3 for part in parts)
    middle = np.mean(
        [logs(runs, t, ARMS[0]).mean() - logs(runs, t, ARMS[1]).mean() for t in (3, 6)]
    )
    reach = stats.t.ppf(1 - 0.05 / 12, df) * math.sqrt(sum(parts))
    moved = change(runs, "two", "duration_seconds")
    assert (moved.scope, moved.tasks) == ("these_tasks", 2)
    assert (moved.low, moved.high) == pytest.approx(
        (math.exp(middle - reach), math.exp(middle + reach))
    )


def test_families_are_what_is_counted_where_tasks_have_them() -> None:
    runs = made([["most", "every"]] * 13 + [["every"]])
    # Two families of four and three tasks, and six tasks on their own; one more without the tag.
    families = [range(4), range(4, 7), *((task,) for task in range(7, 13))]
    for record in runs:
        task = int(record["task_id"][1:])
        record["family"] = "four" if task < 4 else "three" if task < 7 else None
    deltas = [
        np.mean([logs(runs, t, ARMS[0]).mean() - logs(runs, t, ARMS[1]).mean() for t in family])
        for family in families
    ]
    low, high = stats.t.interval(1 - 0.05 / 3, 7, np.mean(deltas), stats.sem(deltas))
    moved = change(runs, "most", "duration_seconds")
    assert (moved.scope, moved.tasks) == ("tasks_like_these", 13)
    assert (moved.low, moved.high) == pytest.approx((math.exp(low), math.exp(high)))
    # Thirteen tasks of five families are no sample of others.
    for record in runs:
        record["family"] = f"of {int(record['task_id'][1:]) % 5}"
    assert change(runs, "most", "duration_seconds").scope == "these_tasks"


def test_success_has_its_pseudo_tasks_at_that_level() -> None:
    runs = made()

    def rate(task: int, arm: str) -> float:
        return float(
            np.mean([r["success"] for r in runs if r["task_id"] == f"t{task}" and r["arm"] == arm])
        )

    deltas = [rate(task, ARMS[0]) - rate(task, ARMS[1]) for task in range(6)]
    shrink = 6 / 8
    error = math.sqrt(np.var(deltas, ddof=1) / 6 * shrink**2 + 1.5 / 8**2)
    reach = stats.t.ppf(1 - 0.05 / 12, 5) * error
    moved = change(runs, "most", "success")
    assert moved.high == pytest.approx(min(1.0, np.mean(deltas) * shrink + reach))
    assert moved.low == pytest.approx(max(-1.0, np.mean(deltas) * shrink - reach))


def test_it_is_said_how_many_hold_together_and_what_each_is_worth() -> None:
    tags = tags_of(made())
    assert tags is not None
    assert (tags.names, tags.intervals, tags.level) == (2, 6, 0.95)
    assert tags.level_of_each == pytest.approx(1 - 0.05 / 6)
    assert [effect.tag for effect in tags.largest] == ["most", "two"]
    for text in (
        twoarm.score(made(), resamples=99).to_text(full=True),
        twoarm.score(made(), resamples=99).to_markdown(),
        twoarm.score(made(), resamples=99).to_html(),
    ):
        assert "All 6 intervals hold at once at 95%: each alone is at 99.16%." in " ".join(
            text.split()
        )


def test_a_metric_that_a_tag_lacks_has_no_share() -> None:
    runs = made()
    for record in runs:
        if record["task_id"] in ("t3", "t6"):
            record["input_tokens"] = None
    tags = tags_of(runs)
    assert tags is not None
    assert tags.intervals == 5
    assert set(tags.largest[1].changes) == {"success", "duration_seconds"}


def test_a_tag_of_all_tasks_or_of_none_tells_nothing() -> None:
    assert tags_of(made([["every"]] * 8)) is None
    assert tags_of(made([[]] * 8)) is None
    assert tags_of(made(), tag=("two",)) is not None
    assert "By tag" not in twoarm.score(made([["every"]] * 8), resamples=99).to_text(full=True)


def test_the_tags_of_most_tasks_are_looked_at() -> None:
    many = [[f"a{number:02}" for number in range(task, task + 5)] for task in range(25)]
    tags = tags_of(made(many, repeats=2))
    assert tags is not None
    assert (tags.names, len(tags.largest), tags.intervals) == (29, MOST_TAGS, 3 * MOST_TAGS)
    assert min(effect.tasks for effect in tags.largest) == 5
    assert "20 of 29 tags: those with the most tasks." in twoarm.score(
        made(many, repeats=2), resamples=99
    ).to_text(full=True)


def test_what_has_no_interval_says_why() -> None:
    runs = made(repeats=1)
    moved = change(runs, "two", "duration_seconds")
    assert (moved.low, moved.standing) == (None, "no test")
    assert moved.withheld == "One repeat: run-to-run noise cannot be told from task differences."
    assert moved.withheld in twoarm.score(runs, resamples=99).to_markdown()


def test_a_wider_level_is_asked_of_each_where_the_report_has_one() -> None:
    wide, narrow = (change(made(), "most", "duration_seconds", level=at) for at in (0.99, 0.9))
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low


def test_better_and_worse_go_by_these_intervals() -> None:
    runs = made()
    for record in runs:
        if record["arm"] == WITH:
            record["duration_seconds"] /= 3
            record["success"] = record["repeat"] == 1
    assert change(runs, "most", "duration_seconds").standing == "better"
    assert change(runs, "most", "non_cache_tokens").standing == "no clear difference"
