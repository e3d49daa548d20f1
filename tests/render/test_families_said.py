"""Where tasks come in families, every sentence about tasks like these counts families."""

import json
import random
from typing import Any

import pytest

import twoarm
from tests.conftest import WITH, WITHOUT
from tests.conftest import twoarm as command
from tests.support.effect_runs import evidence, suite
from tests.support.family_runs import FAMILIES, even, in_families


def telling(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same runs with calls, checks and tags, and a repeat less of the first task."""
    draw = random.Random(1)
    for run in runs:
        run["tool_calls"] = {"grep": draw.randint(0, 9), "read": draw.randint(1, 5)}
        run["checks"] = {"unit": draw.random() < 0.8}
        run["task_tags"] = ["odd" if int(run["task_id"][1:]) % 2 else "even"]
    return [run for run in runs if (run["task_id"], run["repeat"]) != ("t000", 3)]


def without_families(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: run[key] for key in run if key != "family"} for run in runs]


def said(report: twoarm.Report) -> str:
    """The whole report, whatever its lines."""
    return " ".join(report.to_text(full=True).split())


# What a report of families says, and what one of as many tasks says in its place.
MANY = {
    "this kind show it? (8 families of 24 tasks)": "this kind show it? (24 tasks)",
    "Intervals: tasks like these (8 families);": "Intervals: tasks like these 24;",
    "families would vary alike both ways": "tasks would vary alike both ways",
    "Means weigh every family alike, and every task inside its family.": None,
    "weighed family by family, as in the evidence": "weighed task by task, as in the evidence",
    "every family weighs alike, and so does every task inside it": "every task weighs alike",
    "Changes are paired by task, and every family weighs alike.": "Changes are paired by task. ",
    "that have the check, each family weighed alike.": "that have the check. ",
    "takes 6 families or more": "takes 6 tasks or more",
    "From 6 families on, an interval": "From 6 tasks on, an interval",
    "tag families metric": "tag tasks metric",
    "(families and repeats resampled)": "(tasks and repeats resampled)",
}


def test_a_report_of_many_families_counts_them() -> None:
    runs = telling(in_families(suite(24, 3, seed=5), FAMILIES))
    ours = said(twoarm.score(runs, resamples=99))
    theirs = said(twoarm.score(without_families(runs), resamples=99))
    for family, task in MANY.items():
        assert family in ours
        assert family not in theirs
        if task is not None:
            assert task in theirs
            assert task not in ours


FEW = {
    "add families of tasks: with 5 families of 10 tasks nothing can be said": None,
    "with fewer than 6 families of shared tasks it would mislead": None,
    "No intervals: they need at least 6 families.": "The intervals are for tasks like these",
}


def test_a_report_of_few_families_says_that_they_are_few() -> None:
    runs = telling(even(5, 2, repeats=6, pass_rate=1.0))
    ours = said(twoarm.score(runs, resamples=99))
    theirs = said(twoarm.score(without_families(runs), resamples=99))
    for family, task in FEW.items():
        assert family in ours
        assert family not in theirs
        assert task is None or (task in theirs and task not in ours)
    withheld = evidence(runs).deltas["duration_seconds"].bootstrap.withheld
    assert [each.message for each in withheld] == [
        "Fewer than 6 families: a bootstrap would be far too narrow."
    ]


def test_families_that_all_show_the_same_are_named() -> None:
    """Copies of one task, in six families."""
    one = suite(1, 3)
    runs = [dict(run, task_id=f"t{task}") for task in range(12) for run in one]
    found = [dict(run, family=f"f{int(run['task_id'][1:]) // 2}") for run in runs]
    for records, word in ((found, "families"), (runs, "tasks")):
        ratio = evidence(records).deltas["duration_seconds"].ratio
        assert ratio is not None
        assert ratio.reasons("tasks_like_these") == (
            f"No variation between {word}: interval not estimable (replayed or cached runs?).",
        )


def in_repositories() -> list[dict[str, Any]]:
    """The bundled runs, whose 12 tasks are of 8 families."""
    runs = [json.loads(text) for text in command("demo", "--print").out.splitlines()]
    tasks = sorted({run["task_id"] for run in runs})
    return [dict(run, family=f"repo-{tasks.index(run['task_id']) % 8}") for run in runs]


def between_families(families: int, size: int, far: float = 2.0) -> list[dict[str, Any]]:
    """Runs whose change in time differs between families, up to this factor either way."""
    draw = random.Random(2)
    faster = [draw.choice((1.0 / far, 1.0, far)) for _ in range(families)]
    runs = even(families, size, repeats=6, noise=0.05, effect=1.0, pass_rate=1.0)
    for run in runs:
        if run["arm"] == WITH:
            run["duration_seconds"] *= faster[int(run["task_id"][1:]) // size]
    return runs


def test_where_uncertainty_comes_from_is_said_of_families() -> None:
    runs = between_families(8, 2)
    for records, word in ((runs, "families"), (without_families(runs), "tasks")):
        (message,) = (
            str(caveat.message)
            for caveat in twoarm.score(records, resamples=99).caveats
            if caveat.code == "add_tasks"
        )
        assert f"comes from which {word} were used" in message
        assert message.endswith(f"more {word} beyond it")


def steps(runs: list[dict[str, Any]]) -> list[str]:
    return [str(step.message) for step in twoarm.score(runs, resamples=99).next]


def test_what_to_add_is_families() -> None:
    (told,) = (step for step in steps(in_repositories()) if step.startswith("add "))
    assert told == "add families of tasks: whether success changes is what these runs leave open"
    # So far apart that no design would show a change.
    runs = between_families(8, 2, far=30.0)
    for records, units, word in (
        (runs, "families of tasks", "families"),
        (without_families(runs), "tasks", "tasks"),
    ):
        (told,) = (step for step in steps(records) if step.startswith("add "))
        assert told.startswith(f"add {units}, not repeats: nearly all of the uncertainty about")
        assert told.endswith(f"is between {word}")


@pytest.mark.parametrize(
    ("families", "told"),
    [
        (8, "alone, and for tasks like these (8 families of 24 tasks)."),
        (4, "alone, and for these 12 tasks only."),
        (None, "alone, and for tasks like these (12 tasks)."),
    ],
)
def test_an_overview_of_candidates_says_which_tasks_it_is_for(
    families: int | None, told: str
) -> None:
    runs = even(families or 4, 3)
    if families is None:
        runs = without_families(runs)
    third = [dict(run, arm="third") for run in runs if run["arm"] == WITH]
    report = twoarm.compare_candidates(twoarm.read([*runs, *third]), baseline=WITHOUT, resamples=99)
    for text in (" ".join(report.to_text().split()), report.to_markdown()):
        assert f"Intervals are for each row {told}" in text


def test_a_verdict_on_few_families_says_what_there_are_too_few_of() -> None:
    runs = even(5, 2, repeats=6, effect=0.5, pass_rate=1.0)
    for records, told in (
        (runs, "on these 10 tasks of 5 families; it takes at least 6 families to speak for others"),
        (
            [run for run in without_families(runs) if run["task_id"] < "t005"],
            "on these 5 tasks; it takes at least 6 to speak for others",
        ),
    ):
        promotion = twoarm.score(records, promote_by="evidence", resamples=99).promotion
        assert promotion.verdict == "not enough data"
        assert str(promotion.reasons[0]) == f"the candidate is better {told}"


def test_a_tag_tells_how_many_families_its_tasks_are_of() -> None:
    runs = telling(in_families(suite(24, 3, seed=5), FAMILIES))
    tags = evidence(runs).tags
    assert tags is not None
    counts = {effect.tag: effect.changes["success"].families for effect in tags.largest}
    numbers = {"odd": range(1, 24, 2), "even": range(0, 24, 2)}
    assert counts == {tag: len({FAMILIES[n] for n in tasks}) for tag, tasks in numbers.items()}
    plain = evidence(without_families(runs)).tags
    assert plain is not None
    assert plain.largest[0].changes["success"].families is None


def test_both_arms_of_checks_and_scores_are_weighed_as_their_difference() -> None:
    """One family of three tasks, five of one: 3 of 4 runs and 1 of 4 in the first three."""
    sizes = (3, 1, 1, 1, 1, 1)
    of = [family for family, size in enumerate(sizes) for _ in range(size)]
    runs = in_families(suite(len(of), 4), of)
    for run in runs:
        most = 4 if int(run["task_id"][1:]) > 2 else 3 if run["arm"] == WITH else 1
        run["checks"] = {"unit": run["repeat"] <= most}
        run["score"] = float(run["repeat"] <= most)
    found = evidence(runs)
    scores = found.scores
    assert scores is not None
    assert scores.checks is not None
    (shift,) = scores.checks.largest
    assert (shift.candidate, shift.baseline) == pytest.approx((5.75 / 6, 5.25 / 6))
    assert shift.difference == pytest.approx(shift.candidate - shift.baseline)
    assert [arm.mean for arm in scores.arms] == pytest.approx([5.75 / 6, 5.25 / 6])
    assert found.deltas["score"].mean.estimate == pytest.approx(shift.difference)


def test_a_heading_with_its_count_is_no_wider_than_the_terminal() -> None:
    runs = telling(in_families(suite(24, 3, seed=5), FAMILIES))
    lines = twoarm.score(runs, resamples=99).to_text(full=True).splitlines()
    at = lines.index("Tasks like these: would other tasks of this kind show it? (8 families of 24")
    assert lines[at + 1] == "  tasks)"
    tags = lines[lines.index("By tag of task") :]
    assert max(map(len, tags[: tags.index("")])) <= 80


def test_an_interval_is_never_cut_in_half() -> None:
    text = twoarm.score(in_repositories(), resamples=99).to_text()
    (line,) = (line for line in text.splitlines() if line.startswith("Intervals: "))
    assert line == "Intervals: tasks like these (8 families); …"
