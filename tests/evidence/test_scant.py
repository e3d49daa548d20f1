"""Scant and odd runs: each a clear sentence, never NaN, never a certainty they cannot give."""

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import twoarm
from tests.conftest import run
from tests.evidence.test_evidence import intervals
from tests.evidence.test_relabel import ARMS, WITH, WITHOUT, Runs

MODES: tuple[Any, ...] = ("gates", "evidence", "margin")


def noisy(
    tasks: int, repeats: int, changed: Callable[[str, int, int], dict[str, Any]] | None = None
) -> Runs:
    """Two arms without a difference but noise; `changed` by arm, task and repeat."""
    draw = random.Random(3)
    return [
        run(
            f"t{task:04d}",
            arm,
            repeat,
            duration_seconds=draw.lognormvariate(5, 0.4),
            input_tokens=round(draw.lognormvariate(8, 0.4)),
            total_cost_usd=draw.lognormvariate(0, 0.4),
        )
        | (changed(arm, task, repeat) if changed else {})
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm in ARMS
    ]


SAME = {"duration_seconds": 100.0, "input_tokens": 1_000, "total_cost_usd": 1.0}
NO_TOKENS = {"input_tokens": None}
ZERO = {"duration_seconds": 0.0, "input_tokens": 0, "output_tokens": 0, "total_cost_usd": 0.0}

# What was run, the verdict of the evidence, and what every report must say of it.
KINDS: dict[str, tuple[Runs, str, list[str]]] = {
    "one task": (
        noisy(1, 6),
        "no clear difference",
        ["Intervals are for this one task only.", "only one task: nothing here applies to other"],
    ),
    "one run of one task": (
        noisy(1, 1),
        "too few tasks",
        [
            "too few runs: even the largest difference could not be clear",
            "One repeat: run-to-run noise cannot be told from task differences",
            "not known: no task has enough successful baseline runs to tell",
        ],
    ),
    "one repeat": (
        noisy(12, 1),
        "no clear difference",
        ["no clear difference in", "not known: no task has enough successful baseline runs"],
    ),
    "no variance": (
        noisy(12, 5, lambda *_: SAME),
        "no clear difference",
        [
            "no difference at all in success, duration or tokens",
            "No variation between tasks: interval not estimable (replayed or cached runs?)",
            "repeats are identical in 12 of 12 tasks",
        ],
    ),
    "no variance and a difference": (
        noisy(4, 5, lambda arm, *_: SAME | {"duration_seconds": 90.0 if arm == WITH else 100.0}),
        "no clear difference",
        ["Repeats are identical: they add no information", "duration not tested"],
    ),
    "all passes": (
        noisy(12, 5),
        "no clear difference",
        [
            "no difference at all in success",
            "none of 12 tasks got worse; up to 22% of tasks like these still could",
        ],
    ),
    "all failures": (
        noisy(12, 5, lambda *_: {"success": False}),
        "no clear difference",
        [
            "no difference at all in success",
            "no run succeeded in either arm: failing faster or cheaper is not success",
            "not known: no task has enough successful baseline runs to tell",
        ],
    ),
    "tokens missing in one arm": (
        noisy(12, 5, lambda arm, *_: NO_TOKENS if arm == WITH else {}),
        "no clear difference",
        [
            "No task has this metric in both arms",
            "non-cache tokens not tested",
            "not measured in at least one arm: median non-cache tokens",
        ],
    ),
    "tokens missing in most tasks": (
        noisy(12, 5, lambda _, task, __: NO_TOKENS if task > 4 else {}),
        "no clear difference",
        ["non-cache tokens not tested", "tokens"],
    ),
    "tokens missing in some runs": (
        noisy(12, 5, lambda _, task, repeat: NO_TOKENS if (task + repeat) % 4 == 0 else {}),
        "no clear difference",
        ["missing in some of the 60 runs"],
    ),
    "a few zeros": (
        noisy(12, 5, lambda _, task, repeat: ZERO if (task, repeat) == (0, 1) else {}),
        "no clear difference",
        [
            "a few values are zero: cost in 2 runs (candidate 1, baseline 1), duration in 2 runs "
            "(candidate 1, baseline 1) and non-cache tokens in 2 runs (candidate 1, baseline 1); "
            "ratios and tests take each for half of the smallest other value of its task; where a "
            "zero stands for a value that was not measured, write null"
        ],
    ),
    "zeros": (
        noisy(12, 5, lambda _, task, __: ZERO if task == 0 else {}),
        "no clear difference",
        [
            "more than 5% of the values are zero, so there is no ratio and the test is on plain "
            "differences: cost, duration and non-cache tokens; where a zero stands for",
            "No ratio: more than 5% of the values are zero",
        ],
    ),
    "nothing but zeros": (
        noisy(12, 5, lambda *_: ZERO),
        "no clear difference",
        ["no difference at all in success, duration or tokens"],
    ),
    "no task in both arms": (
        [one for one in noisy(12, 5) if (one["arm"] == WITH) == (int(one["task_id"][1:]) % 2 == 0)],
        "too few tasks",
        [
            "none: no task was run in both arms",
            "run both arms on the same tasks: so far they share none",
        ],
    ),
    "a thousand tasks of two runs": (
        noisy(1_000, 1),
        "no clear difference",
        ["Intervals are for tasks like these 1,000.", "no difference at all in success"],
    ),
    "a thousand runs of two tasks": (
        noisy(2, 250, lambda _, __, repeat: {"success": repeat % 3 > 0}),
        "no clear difference",
        ["Intervals are for these 2 tasks only."],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_scant_runs_give_a_sentence_and_no_certainty(kind: str) -> None:
    runs, verdict, sentences = KINDS[kind]
    for by in MODES:
        report = twoarm.score(runs, promote_by=by)
        evidence = report.evidence
        assert evidence is not None
        assert evidence.grade.verdict == verdict
        # Noise and nothing are no reason to promote, but for the gates, which say so themselves.
        assert by == "gates" or report.promotion.verdict != "promote"
        texts = [report.to_text(full=True), report.to_github(), report.to_markdown()]
        said = [" ".join(text.split()) for text in texts]
        for sentence in sentences:
            assert sentence in said[0], sentence
        for text in said:
            for word in ("nan", "inf", "None", "NaN"):
                assert word not in text.replace("infra", "").replace("information", "").split()
        assert not any(math.isnan(one) or math.isinf(one) for one in numbers(report.to_json()))
        for interval in intervals(json.loads(report.to_json())["evidence"]):
            assert interval["low"] < interval["high"]


def numbers(text: str) -> list[float]:
    """Every number of a file, those that are none among them."""
    found: list[float] = []
    json.loads(text, parse_float=lambda one: found.append(float(one)), parse_constant=_refused)
    return found


def _refused(word: str) -> None:
    raise AssertionError(word)


@pytest.mark.parametrize("repeats", [1, 2, 5])
@pytest.mark.parametrize("tasks", [1, 2, 5, 6, 7])
def test_success_is_never_certain_whatever_the_number_of_runs(tasks: int, repeats: int) -> None:
    for ours, theirs in ((True, True), (False, False), (True, False), (False, True)):
        runs = noisy(
            tasks,
            repeats,
            lambda arm, *_: {"success": (ours if arm == WITH else theirs)},  # noqa: B023
        )
        evidence = twoarm.score(runs).evidence
        assert evidence is not None
        difference = float(ours) - float(theirs)
        for interval in (
            evidence.deltas["success"].mean.these_tasks,
            evidence.deltas["success"].mean.tasks_like_these,
        ):
            if interval is not None:
                assert interval.low <= difference <= interval.high
                assert interval.high - interval.low > 1 / (tasks * repeats + 2)


def test_a_metric_that_one_arm_lacks_in_some_tasks_is_compared_on_the_others() -> None:
    lacking = noisy(12, 5, lambda arm, task, _: NO_TOKENS if arm == WITHOUT and task < 3 else {})
    evidence = twoarm.score(lacking).evidence
    assert evidence is not None
    assert evidence.deltas["non_cache_tokens"].tasks == 9
    assert evidence.deltas["duration_seconds"].tasks == 12
    only = twoarm.score([one for one in lacking if int(one["task_id"][1:]) > 2]).evidence
    assert only is not None
    assert evidence.deltas["non_cache_tokens"].ratio == only.deltas["non_cache_tokens"].ratio
