"""The summary of a report: what to do next, by what the promotion goes by."""

from typing import Any

import msgspec
import pytest

import twoarm as package
from tests.conftest import WITH, run
from tests.result.test_promotion import equal
from tests.support.advice import advised
from tests.support.formula_runs import jitter, spread, suite
from twoarm.evidence.means import tasks_within
from twoarm.render.summary import summarize
from twoarm.result.findings import stability_word
from twoarm.result.step import Step
from twoarm.text.sentence import Name, say


def test_the_margin_rule_is_in_the_summary() -> None:
    summary = summarize(package.score(spread(25, 5, 0.5), promote_by="margin"))
    assert summary.promote.startswith(
        "yes, by the margin rule: within the margins everywhere, and better somewhere (success: "
    )


@pytest.mark.parametrize(
    ("share", "word"),
    [
        (1.0, "stable"),
        (0.95, "stable"),
        (0.949, "fairly stable"),
        (0.80, "fairly stable"),
        (0.799, "could easily change"),
    ],
)
def test_stability_in_words(share: float, word: str) -> None:
    assert stability_word(share) == word


@pytest.mark.parametrize(
    ("runs", "steps"),
    [
        (spread(8, 5, 0.5), ["promote `with_skelly`: the gates and the evidence agree"]),
        (
            spread(8, 4, 0.5),
            [
                "run more repeats: a promotion needs at least 5 of every task in both arms (8 "
                "tasks below that)"
            ],
        ),
        (
            [run()],
            ["run `without_skelly` on the same tasks: no run of it counts so far"],
        ),
        (
            suite(),
            [
                "do not claim a difference: the three gates are tied, and a tie counts as holding",
            ],
        ),
        (
            suite(tasks=1, duration_seconds=99),
            [
                "get more runs before telling anyone: the evidence does not show a gain",
                "add tasks: with 1 task nothing can be said about others; it takes at least 6",
                "this was a look; a second doubles false winners unless it was planned",
            ],
        ),
        (
            suite(tasks=7, baseline={"success": False}, input_tokens=999),
            ["promote `with_skelly`: the gates and the evidence agree"],
        ),
        (
            jitter(8, 5, (0, 1)),
            [
                "get more runs before telling anyone: the evidence does not show a gain",
                "add repeats: ",
                "this was a look; a second doubles false winners",
                "look at `t4` and 3 more: dropping any one of them changes the decision",
            ],
        ),
        (
            jitter(8, 5, (1, 0)),
            [
                "do not read too much into a mixed result: the evidence shows no clear difference",
                "add repeats: ",
                "this was a look; a second doubles false winners",
            ],
        ),
        (
            suite(success=False, duration_seconds=1),
            [
                "look at `t0`, `t1`, `t2` and 3 more before anything else: the candidate breaks",
            ],
        ),
        (
            suite(success=False, duration_seconds=101, input_tokens=1001),
            ["keep `without_skelly`"],
        ),
        (
            [*spread(8, 5, 0.5), *(run("t0", repeat=r, failure="infra") for r in range(6, 10))],
            ["find out why runs were excluded", "promote `with_skelly`"],
        ),
        (
            [*spread(8, 5, 0.5), *(run("t0", repeat=r, failure="infra") for r in range(6, 40))],
            ["find out why `with_skelly` lost so many more runs: they may be the bad ones"],
        ),
    ],
)
def test_what_to_do_next(runs: list[dict[str, Any]], steps: list[str]) -> None:
    found = advised(package.score(runs))
    assert len(found) == len(steps), found
    assert [step[: len(start)] for step, start in zip(found, steps, strict=True)] == steps


def dear(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The candidate costs more; how much more varies a little."""
    return [
        one | {"total_cost_usd": 1.0 + (one["arm"] == "with_skelly") * (0.5 + one["repeat"] / 50)}
        for one in runs
    ]


def breaking(runs: list[dict[str, Any]], *tasks: str) -> list[dict[str, Any]]:
    return [
        one | {"success": one["arm"] != "with_skelly" or one["task_id"] not in tasks}
        for one in runs
    ]


def started(runs: list[dict[str, Any]], late: str | None) -> list[dict[str, Any]]:
    """One run after the other: arm by arm, or one of each in turn."""
    order = sorted(runs, key=lambda one: (one["arm"] == late, one["repeat"], one["task_id"]))
    return [
        one | {"started_at_utc": f"2026-11-01T{at // 60:02d}:{at % 60:02d}:00Z"}
        for at, one in enumerate(order)
    ]


def test_arms_in_blocks_are_run_again_before_anything_is_promoted() -> None:
    steps = advised(package.score(started(spread(8, 5, 0.5), "with_skelly")))
    assert [step[:45] for step in steps] == ["run them again with the arms interleaved: her"]
    steps = advised(package.score(started(spread(8, 5, 0.5), None)))
    assert steps == ["promote `with_skelly`: the gates and the evidence agree"]


def test_arms_on_two_models_are_not_promoted_for_the_model() -> None:
    runs = [one | {"model": one["arm"]} for one in spread(8, 5, 0.5)]
    (step,) = advised(package.score(runs))
    assert step.startswith("use one model in both arms: ")


def test_failing_fast_is_no_question_where_nothing_failed() -> None:
    add = "add tasks that both arms solve: with fewer than 3, nobody can tell whether the gain is"
    whole = spread(2, 5, 0.5)
    assert not [step for step in advised(package.score(whole)) if step.startswith(add)]
    failed = [one | {"success": one["repeat"] > 1} for one in whole]
    assert [step for step in advised(package.score(failed)) if step.startswith(add)]


def test_more_runs_do_not_help_where_what_was_named_first_has_no_values() -> None:
    (step,) = advised(package.score(spread(8, 5, 0.5), primary="score"))
    assert step.startswith("record scores, or name another metric first: no run has a score")
    scored = [one | {"score": 0.5} for one in spread(8, 5, 0.5)]
    assert "get more runs" in advised(package.score(scored, primary="score"))[0]


def test_what_is_missing_is_named() -> None:
    """More repeats do not help where an arm was never run, or tokens were never counted."""
    whole = spread(8, 5, 0.5)
    unrun = [one for one in whole if (one["task_id"], one["arm"]) != ("t3", "with_skelly")]
    (step, *_) = advised(package.score(unrun))
    assert step == "run `t3` with `with_skelly`: only the other arm has it"
    unrun = [
        one for one in whole if one["task_id"] not in "t3 t4" or one["arm"] == "without_skelly"
    ]
    (step, *_) = advised(package.score(unrun))
    assert step == "run `t3`, `t4` with `with_skelly`: only the other arm has them"
    uncounted = [
        one | {"input_tokens": None if one["task_id"] == "t3" else one["input_tokens"]}
        for one in whole
    ]
    (step, *_) = advised(package.score(uncounted))
    assert step == "record non-cache tokens for `t3`: an arm has none"


def test_the_margin_rule_says_what_it_does_not_look_at() -> None:
    runs = breaking(spread(60, 10, 0.5), "t7")
    report = package.score(runs, promote_by="margin")
    assert report.promotion.verdict == "promote"
    said = "it breaks `t7`, but this rule does not look at single tasks"
    assert report.promotion.reasons[0] == said
    steps = advised(package.score(runs))
    assert not any("promote" in step for step in steps)


def test_of_few_tasks_the_margin_rule_says_which() -> None:
    report = package.score(spread(4, 40, 0.5), promote_by="margin")
    (reason,) = report.promotion.reasons
    assert reason.startswith("within the margins everywhere, and better somewhere on these 4 tasks")


def test_a_baseline_that_the_gates_prefer_is_kept_by_the_gates() -> None:
    report = package.score(breaking(spread(8, 5, 2.0), "t0"), promote_by="evidence")
    assert summarize(report).promote.startswith("no, by the gates: `with_skelly` fails")


# Runs, options, and what to do next.
NEXT: list[tuple[list[dict[str, Any]], dict[str, Any], list[str]]] = [
    (
        spread(12, 5, 0.5),
        {"promote_by": "evidence"},
        ["promote `with_skelly` if the arms ran side by side: the evidence shows a gain, and the"],
    ),
    (
        dear(spread(12, 5, 0.5)),
        {"promote_by": "evidence"},
        ["decide whether the gain is worth it: cost is clearly higher", "the gates alone would"],
    ),
    # The gates say yes, and look at neither cost nor broken tasks.
    (
        dear(spread(12, 5, 0.5)),
        {},
        ["decide whether the gain is worth it: cost is clearly higher"],
    ),
    (
        breaking(spread(25, 10, 0.5), "t7"),
        {"promote_by": "evidence"},
        [
            "look at `t7` before anything else: the candidate breaks it",
            "look at `t7`: dropping it changes the decision",
        ],
    ),
    (
        breaking(spread(25, 10, 0.5), "t7", "t9"),
        {"promote_by": "gates"},
        ["look at `t7`, `t9` before anything else: the candidate breaks them"],
    ),
    (
        spread(12, 5, 0.5),
        {"promote_by": "margin"},
        [
            "add tasks: to rule out a drop of 10 points for tasks like these takes at least 24, "
            "even if nothing fails",
            "this was a look; a second doubles false winners",
        ],
    ),
    (
        spread(12, 5, 0.5),
        {"promote_by": "margin", "margin_success": 0.2},
        ["promote `with_skelly` if the arms ran side by side: it is within the margins, and"],
    ),
    (
        equal(30, 5),
        {"promote_by": "margin"},
        [
            "treat the arms as equal: they differ by less than the margins, if at all",
            "the gates alone would promote",
        ],
    ),
    (
        jitter(8, 5, (0, 1)),
        {"promote_by": "evidence"},
        [
            "do not claim a difference, nor that there is none: the runs show neither",
            "the gates alone would promote",
            "add repeats: ",
            "this was a look; a second doubles false winners",
            "look at `t4` and 3 more",
        ],
    ),
    (
        spread(3, 6, 0.5),
        {"promote_by": "evidence"},
        [
            "add tasks: with 3 tasks nothing can be",
            "to see a 10% change in duration",
            "this was a look; a second doubles false winners",
        ],
    ),
    (
        [
            one
            | {
                "success": one["arm"] != "with_skelly"
                or one["repeat"] > 1
                or int(one["task_id"][1:]) > 3
            }
            for one in spread(12, 5, 0.5)
        ],
        {"promote_by": "evidence"},
        [
            "add repeats: they narrow the range of success on these tasks",
            "this was a look; a second doubles false winners",
        ],
    ),
]


@pytest.mark.parametrize(("runs", "options", "steps"), NEXT)
def test_what_to_do_next_goes_by_what_the_promotion_goes_by(
    runs: list[dict[str, Any]], options: dict[str, Any], steps: list[str]
) -> None:
    found = advised(package.score(runs, **options))
    assert len(found) == len(steps), found
    assert [step[: len(start)] for step, start in zip(found, steps, strict=True)] == steps


@pytest.mark.parametrize(
    ("runs", "codes"),
    [
        ([run()], ["run_arm"]),
        ([run("a"), run("b", arm="without_skelly")], ["share_tasks"]),
        (spread(8, 4, 0.5), ["reach_minimum_repeats"]),
        (spread(8, 5, 0.5), ["promote"]),
        (started(spread(8, 5, 0.5), "with_skelly"), ["interleave_arms"]),
        (jitter(8, 5, (1, 0)), ["claim_nothing", "add_repeats", "plan_looks"]),
        (suite(tasks=1, duration_seconds=99), ["get_more_runs", "add_tasks", "plan_looks"]),
        (dear(spread(12, 5, 0.5)), ["weigh_cost"]),
        (breaking(spread(25, 10, 0.5), "t7", "t9"), ["look_at_broken_tasks"]),
        (suite(success=False, duration_seconds=101, input_tokens=1001), ["keep_baseline"]),
    ],
)
def test_programs_go_by_codes(runs: list[dict[str, Any]], codes: list[str]) -> None:
    assert [step.code for step in package.score(runs).next] == codes


def test_the_analysis_file_says_what_to_do_next() -> None:
    (step,) = package.score(spread(8, 5, 0.5)).to_dict()["next"]
    assert step == {
        "code": "promote",
        "message": "promote `with_skelly`: the gates and the evidence agree",
    }


def test_reports_show_the_steps_of_the_result_and_none_of_their_own() -> None:
    planted = Step(code="plant", message=say("plant a tree for {}", Name("with_skelly")))
    report = msgspec.structs.replace(package.score(spread(8, 5, 0.5)), next=(planted,))
    for shown in (report.to_text(), report.to_markdown(), report.to_github(), report.to_html()):
        assert "lant a tree for" in shown
        assert "the gates and the evidence agree" not in shown


@pytest.mark.parametrize(("margin", "tasks"), [(0.10, 24), (0.20, 12), (0.39, 7), (0.5, 6)])
def test_how_many_tasks_a_margin_of_success_takes(margin: float, tasks: int) -> None:
    """The interval of success over tasks, all of which are unchanged."""
    assert tasks_within(margin, 0.95) == tasks
    for count in {tasks, max(6, tasks - 1)}:
        found = package.score(spread(count, 5, 0.5)).evidence
        assert found is not None
        interval = found.deltas["success"].mean.tasks_like_these
        assert interval is not None
        assert (interval.high < margin) == (count >= tasks)


def test_without_evidence_the_summary_says_so() -> None:
    summary = summarize(package.score(suite(duration_seconds=99), evidence=False))
    assert summary.evidence == "not weighed (--no-evidence)"
    assert summary.stability == "not known (--no-evidence)"
    assert summary.steps == ()
    assert summary.scope == ""
    assert summary.change == "change", "of the two figures beside it, and of no pairs"
    assert {amount.interval for amount in summary.amounts} == {"-"}


def test_without_a_gain_there_is_none_to_weigh() -> None:
    runs = [
        one | {"total_cost_usd": one["total_cost_usd"] * (2 if one["arm"] == WITH else 1)}
        for one in jitter(8, 5, (0, 1))
    ]
    found = advised(package.score(runs))
    assert "keep `without_skelly`: nothing is clearly better, and cost is clearly higher" in found
    assert not [step for step in found if "gain is worth" in step]


@pytest.mark.parametrize(
    ("used", "failed", "said"),
    [
        (0, 0, "find out why the change was never used: until then this compares noise with noise"),
        (2, 0, "find out why the change was used in less than half of the runs"),
        (5, 5, "find out why uses of the change fail"),
        (5, 0, None),
    ],
)
def test_a_change_that_is_not_used_comes_first(used: int, failed: int, said: str | None) -> None:
    runs = [
        one
        | {
            "uptake_count": int(one["arm"] == WITH and one["repeat"] <= used),
            "failed_uptake_count": int(one["arm"] == WITH and one["repeat"] <= failed),
        }
        for one in spread(8, 5, 0.5)
    ]
    steps = advised(package.score(runs))
    assert (steps[0] == said) == (said is not None)


def test_a_gate_that_is_not_about_success_is_looked_for_where_it_failed() -> None:
    runs = [
        one | {"duration_seconds": one["duration_seconds"] * (4 if one["arm"] == WITH else 1)}
        for one in spread(8, 5, 0.9)
    ]
    steps = advised(package.score(runs))
    assert (
        "look at the tasks whose duration rose: the full report has the change of every task"
        in steps
    )


def test_where_success_alone_is_open_the_advice_is_about_success() -> None:
    runs = [one | {"success": (one["repeat"] + hash_of(one)) % 4 > 0} for one in spread(12, 6, 0.5)]
    report = package.score(runs)
    assert report.evidence is not None
    assert report.evidence.grade.verdict == "candidate better"
    steps = advised(report)
    assert not [step for step in steps if "uncertainty about duration" in step], steps


def hash_of(one: dict[str, Any]) -> int:
    return int(one["task_id"].strip("t")) * (3 if one["arm"] == WITH else 5)


def test_what_nobody_measured_is_no_lack_of_repeats() -> None:
    runs = [one | {"input_tokens": None} for one in spread(4, 5, 0.5)]
    report = package.score(runs)
    assert [str(reason) for reason in report.promotion.reasons] == [
        "not measured in at least one arm: median non-cache tokens"
    ]
    steps = advised(report)
    assert steps[0].startswith("measure what is missing")
    assert not [step for step in steps if step.startswith("run more repeats")]
    few = package.score([one for one in runs if one["repeat"] < 4])
    assert len(few.promotion.reasons) == 2
