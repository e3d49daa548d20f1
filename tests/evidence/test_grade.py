"""The grade of the evidence and the margin rule: which arm is better, and within what."""

from typing import Any

import pytest

import twoarm
from tests.conftest import WITH
from tests.support.effect_runs import evidence, suite
from twoarm.evidence.grade import Margins, margin_rule
from twoarm.evidence.results import Estimate, Finding, Grade, Interval, SolvedRuns


def test_the_grade_names_what_is_better_where_and_for_which_tasks() -> None:
    clear = evidence(suite(12, 5, effect=0.6))
    assert (clear.grade.verdict, clear.grade.scope) == ("candidate better", "tasks_like_these")
    worse = evidence(suite(12, 5, effect=1.7))
    assert worse.grade.verdict == "baseline better"
    same = evidence(suite(12, 5, effect=1.0))
    assert same.grade.verdict == "no clear difference"
    here = evidence(suite(3, 6, effect=0.5))
    assert (here.grade.verdict, here.grade.scope) == ("candidate better", "these_tasks")
    standings = {finding.metric: finding.standing for finding in here.grade.findings}
    assert standings["duration_seconds"] == "better"
    few = evidence(suite(1, 3, effect=0.1))
    assert few.grade.verdict == "too few tasks"


def test_better_here_and_worse_there_is_a_trade_off() -> None:
    runs = suite(12, 5, effect=0.6)
    for one in runs:
        if one["arm"] == WITH:
            one["input_tokens"] *= 4
    assert evidence(runs).grade.verdict == "trade-off"


def test_only_the_gates_are_tested_together() -> None:
    found = evidence(suite(8, 4, effect=0.7))
    for name, delta in found.deltas.items():
        assert (delta.p.adjusted is None) == (name in ("cost_usd", "tokens"))
        assert delta.p.tasks_like_these is not None


def interval(low: float, high: float) -> Interval:
    return Interval(low=low, high=high, method="", caveats=())


def graded(*standings: Any, scope: Any = "tasks_like_these") -> Grade:
    """What the tests found of success, time and tokens."""
    names = ("success", "duration_seconds", "non_cache_tokens")
    return Grade(
        verdict="no clear difference",
        scope=scope,
        primary=None,
        first=None,
        findings=tuple(
            Finding(metric=name, p=None, adjusted_p=None, standing=standing)
            for name, standing in zip(names, standings, strict=False)
        ),
    )


UNCLEAR = "no clear difference"
TENTH = Margins(success=0.10, ratio=0.10)
# Nothing about solved runs.
UNASKED: dict[str, SolvedRuns | None] = dict.fromkeys(
    ("success", "duration_seconds", "non_cache_tokens")
)

# Intervals of success, of the ratios of time and of tokens, what the adjusted tests found of each,
# and the verdict of the margin rule.
MARGINS = [
    ((-0.05, 0.05), (0.8, 0.95), (0.9, 1.05), (UNCLEAR, "better", UNCLEAR), "candidate"),
    ((0.01, 0.05), (0.95, 1.05), (0.95, 1.05), ("better", UNCLEAR, UNCLEAR), "candidate"),
    # A gain that only its own interval shows is none after allowing for three.
    ((-0.05, 0.05), (0.8, 0.95), (0.9, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.11, 0.05), (0.8, 0.95), (0.9, 1.05), (UNCLEAR, "better", UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (0.8, 0.95), (0.9, 1.11), (UNCLEAR, "better", UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (1.05, 1.3), (0.95, 1.05), (UNCLEAR, "worse", UNCLEAR), "baseline"),
    ((-0.05, -0.01), (0.95, 1.05), (0.95, 1.05), ("worse", UNCLEAR, UNCLEAR), "baseline"),
    ((-0.05, 0.05), (1.05, 1.3), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.11), (1.05, 1.3), (0.95, 1.05), (UNCLEAR, "worse", UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (1.05, 1.3), (0.85, 1.05), (UNCLEAR, "worse", UNCLEAR), "inconclusive"),
    # Everything inside the margins: whatever the tests say, there is no difference that matters.
    ((-0.05, 0.05), (0.95, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "no difference"),
    ((-0.05, 0.05), (0.95, 1.05), (0.95, 1.05), ("no test", "no test", UNCLEAR), "no difference"),
    ((-0.05, 0.05), (0.92, 0.98), (1.02, 1.08), (UNCLEAR, "better", "worse"), "no difference"),
    # At a margin is not inside it.
    ((-0.10, 0.05), (0.95, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.10), (0.95, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (0.95, 1.10), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
    ((-0.05, 0.05), (1 / 1.1, 1.05), (0.95, 1.05), (UNCLEAR, UNCLEAR, UNCLEAR), "inconclusive"),
]


@pytest.mark.parametrize(("success", "time", "tokens", "standings", "verdict"), MARGINS)
def test_the_margin_rule(
    success: tuple[float, float],
    time: tuple[float, float],
    tokens: tuple[float, float],
    standings: tuple[str, str, str],
    verdict: str,
) -> None:
    rate, *others = (
        Estimate(estimate=0.0, these_tasks=None, tasks_like_these=interval(*ends), withheld=())
        for ends in (success, time, tokens)
    )
    ratios: dict[str, Estimate | None] = dict(
        zip(("duration_seconds", "non_cache_tokens"), others, strict=True)
    )
    margin = margin_rule(rate, ratios, UNASKED, graded(*standings), TENTH)
    assert margin.verdict == verdict
    # A ratio of 1 is no change, as is a difference of 0.
    ends = [(one.metric, one.low, one.high) for one in margin.ranges]
    assert ends == [
        ("success", *success),
        ("duration_seconds", time[0] - 1, time[1] - 1),
        ("non_cache_tokens", tokens[0] - 1, tokens[1] - 1),
    ]
    nothing = margin_rule(rate, ratios, UNASKED, graded(*standings, scope="these_tasks"), TENTH)
    assert nothing.verdict == "inconclusive"
    assert [(one.low, one.high, one.beyond) for one in nothing.ranges] == [(None, None, False)] * 3
    unmeasured = margin_rule(
        rate, ratios | {"non_cache_tokens": None}, UNASKED, graded(*standings), TENTH
    )
    assert unmeasured.verdict == "inconclusive"
    assert unmeasured.ranges[2].low is None


@pytest.mark.parametrize(
    ("success", "time", "beyond"),
    [
        ((-0.3, -0.1), (0.9, 1.0), ["success"]),
        ((-0.3, -0.09), (0.9, 1.0), []),
        ((-0.1, 0.1), (1.2, 1.4), ["duration_seconds"]),
        ((-0.1, 0.1), (1.05, 1.4), []),
        ((-0.3, -0.2), (1.2, 1.4), ["success", "duration_seconds"]),
    ],
)
def test_beyond_a_margin_is_a_whole_interval_on_its_bad_side(
    success: tuple[float, float], time: tuple[float, float], beyond: list[str]
) -> None:
    rate, ratio = (
        Estimate(estimate=0.0, these_tasks=interval(*ends), tasks_like_these=None, withheld=())
        for ends in (success, time)
    )
    grade = graded(UNCLEAR, UNCLEAR, scope="these_tasks")
    found = margin_rule(rate, {"duration_seconds": ratio}, UNASKED, grade, TENTH)
    assert [one.metric for one in found.ranges if one.beyond] == beyond


@pytest.mark.parametrize("promote_by", ["gates", "evidence", "margin"])
def test_the_margin_rule_is_always_there(promote_by: Any) -> None:
    runs = suite(12, 5, effect=0.6, pass_rate=1.0)
    found = evidence(runs, promote_by=promote_by, margin_success=0.2, margin_ratio=0.3).margin
    assert (found.verdict, found.scope) == ("candidate", "tasks_like_these")
    assert (found.margin_success, found.margin_ratio) == (0.2, 0.3)
    metrics = [one.metric for one in found.ranges]
    assert metrics == ["success", "duration_seconds", "non_cache_tokens"]


def test_resamples_that_would_not_fit_into_memory_are_refused() -> None:
    runs = suite(60, 2)
    with pytest.raises(twoarm.UsageError, match="resamples: at most 559240 .* 60 tasks"):
        twoarm.score(runs, resamples=1_000_000)
    assert twoarm.score(runs, resamples=99).evidence is not None


def test_no_evidence_leaves_every_figure_as_it_is() -> None:
    runs = suite(8, 5)
    full, bare = twoarm.score(runs).to_dict(), twoarm.score(runs, evidence=False).to_dict()
    assert bare["evidence"] is None
    # What other ways would say rests on it.
    assert full["promotion"].pop("others")
    assert bare["promotion"].pop("others") == ()
    for key in full.keys() - {"evidence", "options", "caveats", "next"}:
        assert full[key] == bare[key], key
    with pytest.raises(twoarm.UsageError):
        twoarm.score(runs, evidence=False, promote_by="evidence")
