"""Whether the candidate may be promoted: by the gates, by the evidence, by the margin rule."""

from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, run
from tests.support.effect_runs import suite
from twoarm.compare.decide import Adequacy, Decision, Shortfall, fails
from twoarm.evidence.results import Evidence, MarginRange
from twoarm.options import Options
from twoarm.render.github import annotations
from twoarm.render.report import Report
from twoarm.render.summary import ANSWERS
from twoarm.result.promote import promote

MODES: tuple[Any, ...] = ("gates", "evidence", "margin")
YES, NO, NOT_YET = "promote", "do not promote", "not enough data"

# The table ----------------------------------------------------------------------------------------

CANDIDATE, BASELINE = Decision("candidate", WITH), Decision("baseline", WITHOUT)
MIXED, INSUFFICIENT = Decision("mixed"), Decision("insufficient")


@pytest.fixture(scope="module")
def clear() -> Report:
    """A candidate that is better by every way to look at it."""
    return twoarm.score(suite(25, 5, effect=0.6, pass_rate=1.0))


def verdicts(report: Report, evidence: Evidence | None = None, **changed: Any) -> list[str]:
    """What each mode says, with some of what was found replaced."""
    comparison = msgspec.structs.replace(report.comparison, **changed)
    return [
        promote(comparison, evidence or report.evidence, Options(promote_by=by)).verdict
        for by in MODES
    ]


def too_few(report: Report) -> Adequacy:
    short = Shortfall(task_id="t", arm="with_skelly", metric="duration_seconds", repeats=4)
    return msgspec.structs.replace(
        report.adequacy, status="below minimum", fewest_repeats=4, below_minimum=(short,)
    )


# The decision of the gates, enough repeats; by gates, by evidence, by margin, all else in favor.
FIRST_THE_GATES = [
    (CANDIDATE, True, [YES, YES, YES]),
    (CANDIDATE, False, [NOT_YET, NOT_YET, NOT_YET]),
    (BASELINE, True, [NO, NO, NO]),
    (BASELINE, False, [NOT_YET, NOT_YET, NOT_YET]),
    (MIXED, True, [NO, YES, YES]),
    (MIXED, False, [NOT_YET, NOT_YET, NOT_YET]),
    (INSUFFICIENT, True, [NOT_YET, NOT_YET, NOT_YET]),
    (INSUFFICIENT, False, [NOT_YET, NOT_YET, NOT_YET]),
]


@pytest.mark.parametrize(("decision", "enough", "expected"), FIRST_THE_GATES)
def test_enough_data_comes_first_then_the_gates_then_what_was_chosen(
    clear: Report, decision: Decision, enough: bool, expected: list[str]
) -> None:
    adequacy = clear.adequacy if enough else too_few(clear)
    assert verdicts(clear, decision=decision, adequacy=adequacy) == expected
    # What the paired runs alone would have decided is a caveat, not a veto.
    assert verdicts(clear, decision=decision, adequacy=adequacy, on_pairs=BASELINE) == expected


GRADES = [
    ("candidate better", "tasks_like_these", YES),
    ("candidate better", "these_tasks", NOT_YET),
    ("baseline better", "tasks_like_these", NO),
    ("trade-off", "tasks_like_these", NO),
    ("no clear difference", "tasks_like_these", NO),
    ("no clear difference", "these_tasks", NOT_YET),
    ("too few tasks", "these_tasks", NOT_YET),
    ("too few tasks", "tasks_like_these", NOT_YET),
]


@pytest.mark.parametrize(("verdict", "scope", "expected"), GRADES)
def test_only_evidence_that_reaches_other_tasks_promotes(
    clear: Report, verdict: str, scope: str, expected: str
) -> None:
    assert clear.evidence is not None
    grade = msgspec.structs.replace(clear.evidence.grade, verdict=verdict, scope=scope)
    evidence = msgspec.structs.replace(clear.evidence, grade=grade)
    assert verdicts(clear, evidence) == [YES, expected, YES]


# The verdict of the margin rule, whether an interval is beyond its margin, what that means.
MARGINS = [
    ("candidate", False, YES),
    ("candidate", True, NO),
    ("baseline", False, NO),
    ("baseline", True, NO),
    ("no difference", False, NO),
    ("inconclusive", False, NOT_YET),
    ("inconclusive", True, NO),
]
MARGIN_WORDS = {
    "candidate": "within the margins everywhere, and better somewhere",
    "baseline": "the baseline is within the margins everywhere, and better somewhere",
    "no difference": "no difference beyond the margins",
}


@pytest.mark.parametrize(("verdict", "beyond", "expected"), MARGINS)
def test_beyond_one_margin_is_enough_not_to_promote(
    clear: Report, verdict: str, beyond: bool, expected: str
) -> None:
    assert clear.evidence is not None
    ranges = (
        MarginRange(metric="success", low=-0.3, high=-0.2, beyond=beyond),
        MarginRange(metric="duration_seconds", low=None, high=None, beyond=False),
    )
    margin = msgspec.structs.replace(clear.evidence.margin, verdict=verdict, ranges=ranges)
    evidence = msgspec.structs.replace(clear.evidence, margin=margin)
    assert verdicts(clear, evidence) == [YES, YES, expected]
    reasons = promote(clear.comparison, evidence, Options(promote_by="margin")).reasons
    said = [
        f"{MARGIN_WORDS[verdict]} (success: -30.0 to -20.0 points; duration: no interval)"
        if verdict in MARGIN_WORDS
        else "success could drop by up to 30.0 points, and the margin is 10"
    ]
    if verdict == "inconclusive":
        said.append("the margin says nothing about duration: it has no interval")
    if beyond:
        said.append("the whole interval is worse than the margin: success")
    elif verdict == "candidate":
        # A loss that is certain but inside the margin may be promoted, and is said.
        said.append("success drops, but within the margin")
    assert list(reasons) == said


# Intervals of success and of time, and what an inconclusive margin rule says of them.
INCONCLUSIVE = [
    (
        (-0.193, 0.2),
        (-0.3, -0.1),
        ["success could drop by up to 19.3 points, and the margin is 10"],
    ),
    ((-0.05, 0.2), (-0.3, 0.15), ["duration could rise by up to 15.0%, and the margin is 10%"]),
    (
        (-0.10, 0.2),
        (-0.3, 0.10),
        [
            "success could drop by up to 10.0 points, and the margin is 10",
            "duration could rise by up to 10.0%, and the margin is 10%",
        ],
    ),
    (
        (-0.05, 0.2),
        (-0.3, 0.05),
        [
            "no clear gain, and not equal within the margins (success: -5.0 to +20.0 points; "
            "duration: -30.0% to +5.0%)"
        ],
    ),
]


@pytest.mark.parametrize(("success", "time", "expected"), INCONCLUSIVE)
def test_what_a_margin_rule_could_not_rule_out_is_said(
    clear: Report, success: tuple[float, float], time: tuple[float, float], expected: list[str]
) -> None:
    assert clear.evidence is not None
    ranges = (
        MarginRange(metric="success", low=success[0], high=success[1], beyond=False),
        MarginRange(metric="duration_seconds", low=time[0], high=time[1], beyond=False),
    )
    margin = msgspec.structs.replace(clear.evidence.margin, verdict="inconclusive", ranges=ranges)
    evidence = msgspec.structs.replace(clear.evidence, margin=margin)
    found = promote(clear.comparison, evidence, Options(promote_by="margin"))
    assert (found.verdict, list(found.reasons)) == (NOT_YET, expected)


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        ((), ""),
        ((1,), "fails the median duration gate"),
        ((0, 2), "fails the success rate and median non-cache tokens gates"),
        ((0, 1, 2), "fails every gate"),
    ],
)
def test_the_gates_that_fail_are_named(clear: Report, failed: tuple[int, ...], words: str) -> None:
    gates = tuple(
        msgspec.structs.replace(gate, holds=at not in failed) for at, gate in enumerate(clear.gates)
    )
    assert fails(gates) == words


@pytest.mark.parametrize("by", MODES)
@pytest.mark.parametrize("repeats", [4, 5])
def test_the_gates_that_fail_are_named_once(by: Any, repeats: int) -> None:
    mixed = [
        run(f"t{task}", arm, repeat, duration_seconds=100.0 + task + 20 * (arm == WITH))
        for task in range(8)
        for repeat in range(1, repeats + 1)
        for arm in (WITH, WITHOUT)
    ]
    report = twoarm.score(mixed, promote_by=by)
    assert report.decision.kind == "mixed"
    page = report.to_html()
    page = page[page.index("<dl") : page.index("</dl>")]
    comment = report.to_github().partition("<details>")[0]
    for shown in (report.to_text(width=200), comment, page):
        assert shown.count("fails the median duration gate") == 1
    # Only a promotion by the gates names them as its reason.
    named = by == "gates" and repeats == 5
    assert ("fails the" in report.promotion.reasons[0]) == named


def test_what_is_lacking_is_said_all_at_once(clear: Report) -> None:
    gates = (msgspec.structs.replace(clear.gates[0], holds=None, standing=None), *clear.gates[1:])
    short = too_few(clear)
    comparison = msgspec.structs.replace(
        clear.comparison, decision=INSUFFICIENT, gates=gates, adequacy=short
    )
    for by in MODES:
        assert promote(comparison, clear.evidence, Options(promote_by=by)).reasons == (
            "insufficient data",
            "not enough repeats to promote: 1 task with fewer than 5 measured repeats in an arm "
            "(the fewest: 4)",
        )


# From runs ----------------------------------------------------------------------------------------


def much_faster_and_failing() -> list[dict[str, Any]]:
    runs = suite(12, 5, effect=0.5, pass_rate=1.0)
    return [one | {"success": one["arm"] == WITHOUT or one["repeat"] == 1} for one in runs]


def equal(tasks: int, repeats: int) -> list[dict[str, Any]]:
    """Two arms that differ by a percent or two, one way or the other."""
    return [
        run(
            f"t{task:02d}",
            arm,
            repeat,
            duration_seconds=100.0 + (7 * task + 3 * repeat + 5 * (arm == WITH)) % 4,
            input_tokens=1_000 + (11 * task + 7 * repeat + 5 * (arm == WITHOUT)) % 40,
        )
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm in (WITH, WITHOUT)
    ]


FROM_RUNS: list[tuple[list[dict[str, Any]], str, str]] = [
    (suite(12, 5, effect=0.6, pass_rate=1.0), "evidence", YES),
    (suite(6, 5, effect=0.4, pass_rate=1.0), "evidence", YES),
    (suite(12, 5, effect=1.0, pass_rate=1.0), "evidence", NO),
    (suite(12, 5, effect=1.7, pass_rate=1.0), "evidence", NO),
    (suite(5, 6, effect=0.4, pass_rate=1.0), "evidence", NOT_YET),
    (suite(12, 4, effect=0.6, pass_rate=1.0), "evidence", NOT_YET),
    (suite(25, 5, effect=0.6, pass_rate=1.0), "margin", YES),
    # Twelve tasks that all pass do not rule out a drop of ten points for others.
    (suite(12, 5, effect=0.6, pass_rate=1.0), "margin", NOT_YET),
    (suite(12, 5, effect=0.6, pass_rate=1.0), "gates", YES),
    (suite(12, 5, effect=1.7, pass_rate=1.0), "margin", NO),
    (suite(12, 5, effect=1.0, pass_rate=0.5), "margin", NOT_YET),
    (equal(30, 5), "margin", NO),
    (much_faster_and_failing(), "margin", NO),
    (much_faster_and_failing(), "evidence", NO),
    (suite(25, 4, effect=0.6, pass_rate=1.0), "margin", NOT_YET),
    (suite(12, 4, effect=0.6, pass_rate=1.0), "gates", NOT_YET),
    (much_faster_and_failing(), "gates", NO),
    ([run()], "gates", NOT_YET),
    ([run()], "evidence", NOT_YET),
    ([run()], "margin", NOT_YET),
]


@pytest.mark.parametrize(("runs", "by", "verdict"), FROM_RUNS)
def test_a_promotion_goes_by_the_gates_the_evidence_or_the_margin(
    runs: list[dict[str, Any]], by: Any, verdict: str
) -> None:
    report = twoarm.score(runs, promote_by=by)
    assert report.promotion.verdict == verdict
    assert report.to_dict()["promotion"]["verdict"] == verdict
    assert report.to_dict()["options"]["promote_by"] == by
    # Every report says the same.
    assert f"\nPROMOTE    {ANSWERS[report.promotion.verdict]}, by the " in report.to_text()
    assert f" {verdict.capitalize()}\n" in report.to_github()
    errors = [line for line in annotations(report) if line.startswith("::error ")]
    assert bool(errors) == (verdict == NO)
    assert bool(failed(report)) == (verdict == NO or "adequacy" in failed(report))


def failed(report: Report) -> list[str]:
    cases = ElementTree.fromstring(report.to_junit()).iter("testcase")
    return [case.attrib["name"] for case in cases if case.find("failure") is not None]


@pytest.mark.parametrize("by", MODES)
def test_a_gate_that_nobody_measured_is_not_enough_data(by: Any) -> None:
    runs = suite(12, 5, effect=0.5, pass_rate=1.0)
    for one in runs:
        one["output_tokens"] = None
    found = twoarm.score(runs, promote_by=by)
    assert found.decision.kind == "insufficient"
    assert found.promotion.verdict == NOT_YET
    assert found.promotion.reasons[0] == (
        "not measured in at least one arm: median non-cache tokens"
    )


@pytest.mark.parametrize("by", MODES)
@pytest.mark.parametrize(("measured", "verdict"), [(4, NOT_YET), (5, YES)])
def test_five_measured_repeats_are_needed_whatever_the_promotion_goes_by(
    by: Any, measured: int, verdict: str
) -> None:
    runs = suite(25, 10, effect=0.5, pass_rate=1.0)
    for one in runs:
        if one["task_id"] == "t003" and one["arm"] == WITH and one["repeat"] > measured:
            one["input_tokens"] = None
    found = twoarm.score(runs, promote_by=by)
    assert found.adequacy.fewest_repeats == measured
    assert found.promotion.verdict == verdict


@pytest.mark.parametrize("by", MODES)
def test_what_the_gates_prefer_not_is_never_promoted(by: Any) -> None:
    runs = suite(12, 5, effect=1.7, pass_rate=1.0)
    runs[0]["success"] = False
    found = twoarm.score(runs, promote_by=by)
    assert found.decision.kind == "baseline"
    assert found.promotion.verdict == NO
    assert found.promotion.reasons == ("`with_skelly` fails every gate",)


@pytest.mark.parametrize("by", ["evidence", "margin"])
def test_what_cannot_say_says_what_to_do(by: Any) -> None:
    found = twoarm.score(suite(3, 6, effect=0.9), promote_by=by)
    assert found.promotion.verdict == NOT_YET
    step = "add tasks: with 3 tasks nothing can be said about others; it takes at least 6"
    assert step in found.to_github()
    assert step in " ".join(found.to_text(full=True).split())


def failing_without_partners(*, infra: bool) -> list[dict[str, Any]]:
    """The candidate is fast where it has a partner; its failed runs have none, or an infra one."""
    runs = []
    for task in range(10):
        for repeat in range(1, 11):
            for arm, seconds in ((WITH, 8.0), (WITHOUT, 16.0)):
                fast = {"duration_seconds": seconds + (task * repeat) % 7 / 10, "success": True}
                fast |= {"input_tokens": seconds * (10 + task) + repeat, "output_tokens": 1}
                runs.append(run(f"t{task}", arm, repeat, **fast))
        for repeat in range(11, 36):
            slow = {"duration_seconds": 652.0, "success": False, "input_tokens": 9_999}
            runs.append(run(f"t{task}", WITH, repeat, **slow))
            if infra:
                runs.append(run(f"t{task}", WITHOUT, repeat, failure="infra"))
    return runs


@pytest.mark.parametrize("infra", [False, True])
@pytest.mark.parametrize("by", MODES)
def test_failed_runs_without_a_partner_keep_a_candidate_from_promotion(
    by: Any, infra: bool
) -> None:
    found = twoarm.score(failing_without_partners(infra=infra), promote_by=by)
    assert found.decision == f"prefer {WITHOUT}"
    assert found.promotion.verdict == NO
    assert "unpaired_runs_decide" in {caveat.code for caveat in found.caveats}


@pytest.mark.parametrize("by", ["evidence", "margin"])
def test_the_evidence_sees_runs_without_a_partner(by: Any) -> None:
    """Pairs alone would prefer the candidate; its other runs are slow, and all of them count."""
    runs = failing_without_partners(infra=False)
    for one in runs:
        if one["repeat"] > 10:
            one["success"] = True
    found = twoarm.score(runs, promote_by=by)
    assert found.decision == "mixed results - inspect paired deltas"
    assert found.comparison.on_pairs == f"prefer {WITH}"
    assert found.evidence is not None
    assert found.evidence.grade.verdict == "baseline better"
    assert found.promotion.verdict == NO
    assert "unpaired_runs_decide" in {caveat.code for caveat in found.caveats}


def test_runs_without_a_partner_that_change_nothing_are_no_obstacle() -> None:
    runs = failing_without_partners(infra=False)
    for one in runs:
        if one["repeat"] > 10:
            one |= {
                "success": True,
                "duration_seconds": 8.0,
                "input_tokens": 80,
                "output_tokens": 1,
            }
    found = twoarm.score(runs, promote_by="evidence")
    assert found.paired.unpaired_runs == 250
    assert found.promotion.verdict == YES


def test_no_difference_is_said_as_what_it_is() -> None:
    found = twoarm.score(equal(30, 5), promote_by="margin")
    assert found.evidence is not None
    assert found.evidence.margin.verdict == "no difference"
    assert found.promotion.verdict == NO
    assert found.promotion.reasons[0].startswith("no difference beyond the margins (success: -7.8")


def test_runs_that_all_have_a_partner_decide_as_they_do() -> None:
    comparison = twoarm.score([*both(), *both("u")]).comparison
    assert comparison.on_pairs is comparison.decision
