"""Losses clearly on one arm withhold a promotion: whatever it goes by, whichever arm it is."""

import json
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from scipy import stats

import twoarm as package
from tests.conftest import WITH, WITHOUT, lines, twoarm
from tests.support.advice import advised
from tests.support.effect_runs import suite
from tests.support.planned_runs import infra, interrupted, missing
from twoarm.compare.decide import Decision
from twoarm.options import Options
from twoarm.render.github import annotations
from twoarm.render.report import Report
from twoarm.render.tables import overview
from twoarm.result.promote import Promotion, promote

MODES: tuple[Any, ...] = ("gates", "evidence", "margin")
YES, NO, NOT_YET = "promote", "do not promote", "not enough data"


@cache
def clear() -> Report:
    """A candidate that is better by every way to look at it."""
    return package.score(suite(25, 5, effect=0.6, pass_rate=1.0))


def lost(
    ours: tuple[int, int], theirs: tuple[int, int], by: Any = "gates", **changed: Any
) -> Promotion:
    """The promotion of a clear candidate with so many of so many planned runs lost."""
    comparison = clear().comparison
    trials = tuple(
        msgspec.structs.replace(arm, planned=planned, counted=planned - gone, missing=gone)
        for arm, (gone, planned) in zip(clear().trials, (ours, theirs), strict=True)
    )
    screening = msgspec.structs.replace(comparison.screening, trials=trials)
    comparison = msgspec.structs.replace(comparison, screening=screening, **changed)
    return promote(comparison, clear().evidence, Options(promote_by=by))


# Lost of planned in the candidate and in the baseline, and whether that withholds a promotion.
ROWS = [
    ((0, 30), (0, 30), False),
    # 2 C(30,7) / C(60,7) = 4,071,600 / 386,206,920 = 0.0105: as likely as that by chance.
    ((7, 30), (0, 30), False),
    # 2 C(30,8) / C(60,8) = 11,705,850 / 2,558,620,845 = 0.0046.
    ((8, 30), (0, 30), True),
    ((0, 30), (8, 30), True),
    ((0, 30), (7, 30), False),
    ((30, 30), (30, 30), False),
    ((30, 30), (22, 30), True),
    # 15 % and 5 %: ten points exactly, p = 0.0015.
    ((30, 200), (10, 200), True),
    ((10, 200), (30, 200), True),
    # 14.5 % and 5 %: far from chance (p = 0.0026), but less than ten points.
    ((29, 200), (10, 200), False),
    # Shares that no double holds: 12 of 120 less none is ten points, 11 are not.
    ((12, 120), (0, 120), True),
    ((11, 120), (0, 120), False),
    ((37, 100), (27, 100), False),
    ((370, 1_000), (270, 1_000), True),
    # Beyond the size up to which tables are counted in whole numbers.
    ((3_000, 10_000), (2_000, 10_000), True),
    ((2_999, 10_000), (2_000, 10_000), False),
    # Plans of different sizes.
    ((5, 10), (5, 60), True),
    ((4, 10), (5, 60), False),
    # Nothing was planned in one arm: that is no loss.
    ((5, 5), (0, 0), False),
]


@pytest.mark.parametrize(("ours", "theirs", "withheld"), ROWS)
@pytest.mark.parametrize("by", MODES)
def test_losses_on_one_side_withhold_a_promotion_in_every_mode(
    ours: tuple[int, int], theirs: tuple[int, int], withheld: bool, by: Any
) -> None:
    found = lost(ours, theirs, by)
    assert found.verdict == (NOT_YET if withheld else YES)
    assert bool(found.withheld) == withheld
    for one in found.withheld:
        assert (one.metric, one.lost, one.of) == (None, (ours[0], theirs[0]), (ours[1], theirs[1]))
        more = Fraction(*ours) > Fraction(*theirs)
        assert one.arm == (WITH if more else WITHOUT)


@pytest.mark.parametrize(("n", "m"), [(8, 8), (20, 20), (30, 30), (13, 29), (40, 25)])
def test_the_rule_is_fishers_test_and_ten_points_and_nothing_else(n: int, m: int) -> None:
    seen = set()
    for a in range(n + 1):
        for b in range(m + 1):
            p = stats.fisher_exact([[a, n - a], [b, m - b]]).pvalue
            apart = abs(Fraction(a, n) - Fraction(b, m)) >= Fraction(1, 10)
            found = lost((a, n), (b, m))
            assert (found.verdict == NOT_YET) == (p < 0.01 and apart), (a, n, b, m)
            for one in found.withheld:
                assert one.p == pytest.approx(p, rel=1e-9)
            seen.add(found.verdict)
    assert seen == {YES, NOT_YET}


@pytest.mark.parametrize("decision", [Decision("baseline", WITHOUT), Decision("mixed")])
def test_what_is_not_promoted_stays_so(decision: Decision) -> None:
    found = lost((30, 60), (0, 60), decision=decision)
    assert (found.verdict, found.withheld) == (NO, ())


def test_the_reason_names_the_arms_the_counts_and_what_to_do() -> None:
    assert lost((0, 30), (8, 30)).reasons == (
        "`without_skelly` lost 8 of 30 planned runs, `with_skelly` 0 of 30: find out why, then run "
        "them again",
        "otherwise all three gates hold; every task has at least 5 repeats in both arms",
    )


# From runs ----------------------------------------------------------------------------------------


def losing(arm: str, gone: int, *, kind: Any = missing) -> list[dict[str, Any]]:
    """25 tasks with ten repeats, of which one arm lost some, but never more than two of a task."""
    runs = suite(25, 10, effect=0.6, pass_rate=1.0)
    places = [(f"t{task:03}", arm, repeat) for repeat in (9, 10) for task in range(25)][:gone]
    return [
        kind(*key) if (key := (one["task_id"], one["arm"], one["repeat"])) in places else one
        for one in runs
    ]


@pytest.mark.parametrize("by", MODES)
@pytest.mark.parametrize("kind", [infra, missing])
@pytest.mark.parametrize("arm", [WITH, WITHOUT])
def test_runs_lost_on_one_side_withhold_a_promotion(by: Any, kind: Any, arm: str) -> None:
    # 25 of 250 are ten points exactly.
    for gone, verdict in ((24, YES), (25, NOT_YET)):
        report = package.score(losing(arm, gone, kind=kind), promote_by=by)
        assert report.promotion.verdict == verdict
        assert report.decision == f"prefer {WITH}"
    (found,) = json.loads(report.to_json())["promotion"]["withheld"]
    assert (found["metric"], found["arm"]) == (None, arm)
    assert sorted(found["lost"]) == [0, 25]
    assert found["of"] == [250, 250]
    assert report.promotion.reasons[0].startswith(f"`{arm}` lost 25 of 250 planned runs, `with")


def test_attempts_are_no_losses() -> None:
    runs = losing(WITH, 50, kind=infra)
    made = {(one["task_id"], one["arm"], one["repeat"]): one for one in suite(25, 10, effect=0.6)}
    again = [
        made[one["task_id"], one["arm"], one["repeat"]] | {"success": True}
        for one in runs
        if one.get("failure") == "infra"
    ]
    assert package.score(runs).promotion.verdict == NOT_YET
    assert package.score([*runs, *again]).promotion.verdict == YES
    # Three attempts at one run are one loss.
    few = losing(WITH, 24, kind=infra)
    few += [one for one in few if one.get("failure") == "infra"] * 2
    assert package.score(few).promotion.verdict == YES


@pytest.mark.parametrize("by", MODES)
@pytest.mark.parametrize("arm", [WITH, WITHOUT])
def test_runs_that_broke_off_and_were_run_again_are_losses(by: Any, arm: str) -> None:
    made = suite(25, 10, effect=0.6, pass_rate=1.0)
    places = [(f"t{task:03}", arm, repeat) for repeat in (9, 10) for task in range(25)]
    for gone, verdict in ((24, YES), (25, NOT_YET)):
        # However often they broke off.
        broken = [interrupted(*place) for place in places[:gone]] * 2
        report = package.score([*made, *broken], promote_by=by)
        assert report.promotion.verdict == verdict
        assert [summary.runs for summary in report.arm_summaries] == [250, 250]
    assert report.promotion.reasons[0] == (
        f"`{arm}` lost 25 of 250 planned runs, `{WITHOUT if arm == WITH else WITH}` 0 of 250 (25 "
        "broke off and were run again): find out why"
    )
    (found,) = report.promotion.withheld
    assert sorted(found.run_again) == [0, 25]
    assert "500 of 500 runs counted, 25 broken off and run again" in overview(report)
    # Both kinds of loss count together.
    some = losing(arm, 13)
    some += [interrupted(*place) for place in places[13:25]]
    mixed = package.score(some, promote_by=by)
    assert mixed.promotion.verdict == NOT_YET
    assert str(mixed.promotion.reasons[0]).endswith(
        "(12 broke off and were run again): find out why, then run them again"
    )
    assert "13 not yet run; 12 broken off and run again" in overview(mixed)


def test_what_is_counted_after_all_is_no_loss() -> None:
    kept = package.score(losing(WITH, 50, kind=infra), keep_infra=True)
    assert kept.promotion.withheld == ()
    assert [arm.lost for arm in kept.trials] == [0, 0]


@pytest.mark.parametrize("by", MODES)
@pytest.mark.parametrize("arm", [WITH, WITHOUT])
def test_values_missing_on_one_side_withhold_a_promotion(by: Any, arm: str) -> None:
    def unmeasured(task: str, arm: str, repeat: int) -> dict[str, Any]:
        return made[task, arm, repeat] | {"output_tokens": None}

    made = {
        (one["task_id"], one["arm"], one["repeat"]): one
        for one in suite(25, 10, effect=0.6, pass_rate=1.0)
    }
    for gone, verdict in ((24, YES), (25, NOT_YET)):
        runs = losing(arm, gone, kind=unmeasured)
        report = package.score(runs, promote_by=by)
        assert report.promotion.verdict == verdict
        assert report.decision == f"prefer {WITH}"
    (found,) = report.promotion.withheld
    assert (found.metric, found.arm, found.of) == ("non_cache_tokens", arm, (250, 250))
    assert str(report.promotion.reasons[0]).startswith(
        f"`{arm}` lacks non-cache tokens in 25 of 250 runs, `with"
    )
    # Nobody has to measure what no gate looks at.
    costs = [one | {"total_cost_usd": None} if one["arm"] == arm else one for one in made.values()]
    assert package.score(costs, promote_by=by).promotion.withheld == ()
    assert package.score(runs, promote_by=by, missing="zero").promotion.withheld == ()


@pytest.mark.parametrize(
    "options",
    [
        ("--promote-by", "gates"),
        ("--promote-by", "evidence"),
        ("--promote-by", "margin"),
        ("--promote-by", "evidence", "--guard", "none"),
        ("--no-evidence",),
    ],
)
@pytest.mark.parametrize("arm", [WITH, WITHOUT])
def test_tokens_that_three_of_four_runs_of_an_arm_lack_withhold_a_promotion_whatever_is_asked(
    options: tuple[str, ...], arm: str, tmp_path: Path
) -> None:
    # 25 tasks with 20 repeats, so that five measured ones are left of each.
    runs = suite(25, 20, effect=0.6, pass_rate=1.0)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(runs))
    assert twoarm("score", str(path), "--exit-code", *options).code == 0
    for record in runs:
        if record["arm"] == arm and record["repeat"] > 5:
            record["input_tokens"] = None
    path.write_bytes(lines(runs))
    result = twoarm("score", str(path), "--exit-code", *options)
    assert result.code == 3
    other = WITHOUT if arm == WITH else WITH
    assert (
        f"`{arm}` lacks non-cache tokens in 375 of 500 runs, `{other}` in 0 of 500: find out why"
    ) in result.err
    assert "PROMOTE    not yet" in result.out
    # The decision stays what the gates say.
    assert f"DECISION   prefer {WITH}\n" in result.out


def test_each_of_several_candidates_is_withheld_for_itself() -> None:
    runs = suite(25, 20, effect=0.6, pass_rate=1.0)
    third = [r | {"arm": "third"} for r in runs if r["arm"] == WITH]
    for record in runs:
        if record["arm"] == WITH and record["repeat"] > 5:
            record["output_tokens"] = None
    both = package.compare_candidates(
        package.read([*runs, *third]), baseline=WITHOUT, promote_by="evidence"
    )
    verdicts = {report.candidate: report.promotion.verdict for report in both.reports}
    assert verdicts == {WITH: NOT_YET, "third": YES}


def test_runs_and_values_are_said_both() -> None:
    runs = losing(WITH, 50)
    for one in runs:
        if one["arm"] == WITHOUT and one["repeat"] < 5:
            one["input_tokens"] = None
    report = package.score(runs)
    assert [one.metric for one in report.promotion.withheld] == [None, "non_cache_tokens"]
    assert len(report.promotion.reasons) == 3


@pytest.mark.parametrize("evidence", [True, False])
def test_every_report_says_that_a_promotion_is_withheld(evidence: bool, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(losing(WITH, 50)))
    reason = (
        "`with_skelly` lost 50 of 250 planned runs, `without_skelly` 0 of 250: find out why, then "
        "run them again"
    )
    extra = [] if evidence else ["--no-evidence"]
    result = twoarm("score", str(path), "--exit-code", *extra)
    assert result.code == 3
    assert result.err.startswith(f"twoarm: not enough data, by the gates: {reason}; otherwise all")
    said = " ".join(result.out.split())
    assert f"PROMOTE not yet, by the gates: {reason}" in said
    assert "DECISION prefer with_skelly EVIDENCE" in said
    report = package.score(path, evidence=evidence)
    assert reason in report.to_github()
    assert "Not enough data</h1>" in report.to_html()
    warned = [line for line in annotations(report) if line.startswith("::warning title=twoarm%3A ")]
    assert len(warned) == 1
    assert "lost 50 of 250" in warned[0]
    cases = ElementTree.fromstring(report.to_junit()).iter("testcase")
    failed = {case.attrib["name"]: case.find("failure") for case in cases}
    assert [name for name, failure in failed.items() if failure is not None] == ["losses"]
    assert failed["losses"] is not None
    assert failed["losses"].attrib["message"] == reason


def test_what_to_do_next_is_to_find_out_why() -> None:
    steps = advised(package.score(losing(WITH, 50)))
    assert steps[:2] == [
        "finish the run with `twoarm run --resume DIR`: 50 of 500 planned runs are missing",
        "find out why `with_skelly` lost so many more runs: they may be the bad ones",
    ]
    assert not [step for step in steps if step.startswith(("promote", "add", "find out why runs"))]
    for by in MODES:
        for arm in (WITH, WITHOUT):
            found = package.score(losing(arm, 50, kind=infra), promote_by=by)
            assert advised(found) == [
                f"find out why `{arm}` lost so many more runs: they may be the bad ones"
            ]
    runs = [
        one | ({"input_tokens": None} if one["arm"] == WITH and one["repeat"] < 4 else {})
        for one in suite(25, 10, effect=0.6, pass_rate=1.0)
    ]
    assert advised(package.score(runs))[:1] == [
        "find out why `with_skelly` lacks non-cache tokens so much more often: it may be in the "
        "bad runs"
    ]


def test_what_one_arm_lacks_is_looked_into_before_more_repeats() -> None:
    runs = suite(25, 10, effect=0.6, pass_rate=1.0)
    for number, one in enumerate(runs):
        if one["arm"] == WITH and number // 2 % 4:
            one["input_tokens"] = None
    report = package.score(runs)
    assert str(report.promotion.reasons[0]).startswith("not enough repeats to promote: 25 tasks")
    assert advised(report)[:2] == [
        "find out why `with_skelly` lacks non-cache tokens so much more often: it may be in the "
        "bad runs",
        "run more repeats: a promotion needs at least 5 of every task in both arms (25 tasks below "
        "that)",
    ]
    # Whole runs are asked about once.
    gone = [infra(f"t{task:03}", WITH, repeat) for task in range(25) for repeat in (5, 6)]
    few = suite(25, 4, effect=0.6, pass_rate=1.0)
    asked = [step for step in advised(package.score([*few, *gone])) if "find out why" in step]
    assert asked == ["find out why `with_skelly` lost so many more runs: they may be the bad ones"]


def test_nobody_stops_at_a_look_for_a_promotion_that_would_be_withheld() -> None:
    runs = [one for one in suite(25, 10, effect=0.6, pass_rate=1.0) if one["repeat"] <= 5]
    found = package.score(runs, promote_by="evidence", looks=(5, 10))
    assert found.evidence is not None
    assert found.evidence.looks is not None
    assert found.evidence.looks.stop == "candidate better"
    gone = [missing(f"t{task:03}", WITH, repeat) for task in range(25) for repeat in (6, 7)]
    found = package.score([*runs, *gone], promote_by="evidence", looks=(5, 10))
    assert found.evidence is not None
    assert found.evidence.looks is not None
    assert found.evidence.looks.stop is None
