"""Every planned run is accounted for: as a run, as excluded, or as missing, in every report."""

import itertools
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import twoarm as package
from tests.conftest import WITH, WITHOUT, both, lines, run, twoarm
from tests.support.advice import advised
from tests.support.deterministic import given, st
from tests.support.formula_runs import spread
from tests.support.planned_runs import LOST, NOT_YET, infra, interrupted, missing
from twoarm.render.report import Report
from twoarm.render.summary import summarize


def trials(report: Report) -> list[tuple[int, int, int, int]]:
    return [(one.planned, one.counted, one.excluded, one.missing) for one in report.trials]


# The lines of one planned run of the candidate, and whether it is counted, excluded or missing.
ONE_TRIAL: list[tuple[list[dict[str, Any]], tuple[int, int, int]]] = [
    ([run()], (1, 0, 0)),
    ([infra()], (0, 1, 0)),
    ([missing()], (0, 0, 1)),
    ([infra(), infra(), infra()], (0, 1, 0)),
    ([missing(), missing()], (0, 0, 1)),
    ([infra(), run()], (1, 0, 0)),
    ([missing(), run()], (1, 0, 0)),
    ([missing(), infra(), missing(), run()], (1, 0, 0)),
    ([infra(), missing()], (0, 0, 1)),
    ([interrupted(), run()], (1, 0, 0)),
    ([interrupted()], (0, 0, 1)),
    ([interrupted(), infra()], (0, 0, 1)),
    ([interrupted(), interrupted(), missing(), run()], (1, 0, 0)),
]


@pytest.mark.parametrize(("found", "ends"), ONE_TRIAL)
def test_a_planned_run_is_counted_once_however_often_it_was_tried(
    found: list[dict[str, Any]], ends: tuple[int, int, int]
) -> None:
    for ordered in itertools.permutations(found):
        report = package.score([*ordered, *both(repeat=2), run(arm=WITHOUT)])
        assert trials(report) == [(2, ends[0] + 1, *ends[1:]), (2, 2, 0, 0)]
        # Whatever the plan, every line is accounted for.
        excluded = sum(group.runs for group in report.excluded)
        assert report.effective_run_count + excluded == report.run_count == len(found) + 3
        assert report.arm_summaries[0].runs == ends[0] + 1


def test_a_missing_run_is_in_no_figure_and_makes_no_duplicate() -> None:
    runs = spread(8, 5, 0.5)
    lost = [missing("t0", WITH, repeat) for repeat in (1, 6)]
    lost += [missing(task, arm, 1) for task in ("another", "t3x") for arm in (WITH, WITHOUT)]
    for keep_infra in (False, True):
        plain = package.score(runs, keep_infra=keep_infra).to_dict()
        report = package.score([*runs, *lost, *lost], keep_infra=keep_infra)
        found = report.to_dict()
        changed = {key for key in plain if found[key] != plain[key]}
        words = {"caveats", "next"}
        assert changed == {"inputs", "run_count", "trials", "excluded", "evidence"} | words
        del found["evidence"]["exclusions"], plain["evidence"]["exclusions"]
        assert found["evidence"] == plain["evidence"]
        assert trials(report) == [(43, 40, 0, 3), (42, 40, 0, 2)]


def test_a_missing_line_that_is_not_needed_is_told_from_one_that_is() -> None:
    runs = [*both(), missing(), missing(repeat=2), missing(repeat=2, why=LOST), missing(repeat=3)]
    report = package.score(runs)
    assert [(one.kind, one.reason, one.arm, one.runs) for one in report.excluded] == [
        ("missing", f"missing: {LOST}", WITH, 1),
        ("missing", f"missing: {NOT_YET}", WITH, 1),
        ("missing", "missing, but there is a run", WITH, 1),
        ("missing", "missing, as another line says", WITH, 1),
    ]
    # Of two reasons the first in the alphabet, in whatever order they are given.
    found = [(one.reason, one.trials) for one in report.trials[0].missing_reasons]
    assert found == [(LOST, 1), (NOT_YET, 1)]


def test_the_reasons_are_those_of_planned_runs_and_not_of_attempts() -> None:
    runs = [
        *both(),
        *[infra(repeat=2)] * 3,
        run(repeat=3, agent_exit_code=86),
        missing(repeat=4, why=None),
        missing("u", WITHOUT),
        missing("u", WITHOUT, 2),
    ]
    found = json.loads(package.score(runs).to_json())
    assert found["trials"] == [
        {
            "arm": WITH,
            "planned": 4,
            "counted": 1,
            "excluded": 2,
            "missing": 1,
            "interrupted": 0,
            "excluded_reasons": [
                {"reason": "agent exit code 86", "trials": 1},
                {"reason": "provider", "trials": 1},
            ],
            "missing_reasons": [{"reason": "no reason given", "trials": 1}],
        },
        {
            "arm": WITHOUT,
            "planned": 3,
            "counted": 1,
            "excluded": 0,
            "missing": 2,
            "interrupted": 0,
            "excluded_reasons": [],
            "missing_reasons": [{"reason": NOT_YET, "trials": 2}],
        },
    ]
    assert found["excluded_infra_failures"] == 4
    audit = found["evidence"]["exclusions"]["arms"]
    assert [(arm["excluded"], arm["runs"]) for arm in audit] == [(3, 4), (2, 3)]
    assert audit[0]["reasons"] == {
        "infra: agent exit code 86": 1,
        "infra: provider": 1,
        "missing: no reason given": 1,
    }


def test_kept_infra_failures_are_runs_and_no_losses() -> None:
    runs = [*both(), infra(repeat=2), missing(repeat=3), missing(repeat=2)]
    assert trials(package.score(runs, keep_infra=True)) == [(3, 2, 0, 1), (1, 1, 0, 0)]
    assert trials(package.score(runs)) == [(3, 1, 0, 2), (1, 1, 0, 0)]


def test_duplicates_and_other_arms_are_no_planned_runs_of_their_own() -> None:
    runs = [*both(), run(), run(arm="third"), missing("t", "third", 2)]
    report = package.score(runs, candidate=WITH, baseline=WITHOUT, duplicates="first")
    assert trials(report) == [(1, 1, 0, 0), (1, 1, 0, 0)]
    assert (report.run_count, report.effective_run_count) == (5, 2)
    assert sum(group.runs for group in report.excluded) == 3


MAKE = {"infra": infra, "missing": missing, "interrupted": interrupted}
KINDS = st.sampled_from(sorted(MAKE))
KEYS = st.tuples(st.sampled_from("abc"), st.sampled_from([WITH, WITHOUT]), st.integers(1, 3))


@given(st.sets(KEYS), st.lists(st.tuples(KEYS, KINDS)), st.randoms(use_true_random=False))
def test_trials_agree_with_a_count_by_hand(
    made: set[tuple[str, str, int]], others: list[tuple[Any, str]], random: Any
) -> None:
    found = [run(*key) for key in made]
    found += [MAKE[kind](*key) for key, kind in others]
    if not found:
        return
    random.shuffle(found)
    report = package.score(found, evidence=False)
    for arm in report.trials:
        planned = {key for key in (*made, *(key for key, _ in others)) if key[1] == arm.arm}
        counted = {key for key in planned if key in made}
        broken = {key for key, kind in others if kind == "interrupted"}
        gone = broken | {key for key, kind in others if kind == "missing"}
        absent = (planned - counted) & gone
        excluded = planned - counted - absent
        assert (arm.planned, arm.counted) == (len(planned), len(counted))
        assert (arm.excluded, arm.missing) == (len(excluded), len(absent))
        assert arm.interrupted == len(counted & broken)
        assert sum(one.trials for one in arm.excluded_reasons) == arm.excluded
        assert sum(one.trials for one in arm.missing_reasons) == arm.missing


# What is said ------------------------------------------------------------------------------------


def unfinished() -> list[dict[str, Any]]:
    """An infra failure, two lost runs and one that was not made yet."""
    runs = spread(8, 6, 0.5)
    gone = {
        ("t1", WITH, 6): infra("t1", WITH, 6),
        ("t2", WITH, 6): missing("t2", WITH, 6, why=LOST),
        ("t3", WITH, 6): missing("t3", WITH, 6, why="lost: no answer"),
        ("t3", WITHOUT, 6): missing("t3", WITHOUT, 6),
    }
    return [gone.get((one["task_id"], one["arm"], one["repeat"]), one) for one in runs]


PLANNED = (
    "92 of 96 planned runs counted (candidate 45 of 48, baseline 47 of 48): 1 infra failure, "
    "2 lost, 1 not yet run"
)
BRIEF = "92 of 96 planned runs (45+47): 1 infra failure, 2 lost, 1 not yet run"


def test_every_report_says_how_many_of_how_many_planned_runs_count() -> None:
    report = package.score(unfinished())
    heading, first = report.to_text(width=100).splitlines()[:2]
    assert heading == f"{WITH} (candidate) vs. {WITHOUT} (baseline)"
    assert first == f"8 tasks x 5-6 repeats; {BRIEF}"
    whole = " ".join(report.to_text(full=True).split())
    shown = (report.to_markdown(), report.to_github(), report.to_html(), report._repr_html_())
    for text in (whole, *shown):
        assert f"8 tasks x 5-6 repeats; {PLANNED}" in text
    suite = ElementTree.fromstring(report.to_junit())[0]
    assert f"runs = {PLANNED}" in [
        f"{one.attrib['name']} = {one.attrib['value']}" for one in suite[0]
    ]
    (losses,) = (case for case in suite.iter("testcase") if case.attrib["name"] == "losses")
    assert losses.findtext("system-out") == PLANNED
    assert "92 of 96 planned runs counted>" in repr(report)
    assert "arm planned counted excluded missing with_skelly 48 45 1 2" in whole


def test_several_candidates_say_it_of_each_and_of_the_baseline() -> None:
    renamed = {WITH: "new", WITHOUT: "base"}
    runs = [one | {"arm": renamed[one["arm"]]} for one in unfinished()]
    runs += [one | {"arm": "newer"} for one in spread(8, 6, 0.5) if one["arm"] == WITH]
    several = package.compare_candidates(package.read(runs), baseline="base")
    for text in (several.to_text(), several.to_markdown(), several.to_github(), several.to_html()):
        said = " ".join(text.split())
        assert "45 of 48 (1 infra failure, 2 lost)" in said
        assert "48 of 48" in said
        assert "Of the baseline, 47 of 48 planned runs are counted: 1 not yet run." in said
    plain = package.compare_candidates(package.read(runs[-48:] + both("t1", 9)), baseline=WITHOUT)
    assert "planned" not in plain.to_text()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], "1 repeat; 2 of 2 runs counted"),
        ([infra()], "2 of 2 runs counted, 1 infra failure run again"),
        ([missing()], "2 of 2 runs counted"),
        ([missing(), infra()], "2 of 2 runs counted, 1 infra failure run again"),
        ([missing(repeat=2, why="gone")], "(candidate 1 of 2, baseline 1 of 1): 1 missing"),
        ([missing(repeat=2, why="lost")], "(candidate 1 of 2, baseline 1 of 1): 1 lost"),
        (
            [missing(repeat=2, why="interrupted: a signal"), infra(repeat=3), infra(repeat=3)],
            "(candidate 1 of 3, baseline 1 of 1): 1 infra failure, 1 interrupted",
        ),
        (
            [missing(repeat=2), run(arm="third"), run()],
            "1 not yet run; 1 duplicate and 1 run in other arms excluded",
        ),
    ],
)
def test_what_a_header_says_of_planned_runs(found: list[dict[str, Any]], said: str) -> None:
    roles = {"candidate": WITH, "baseline": WITHOUT}
    report = package.score([*both(), *found], **roles, duplicates="first")  # type: ignore[arg-type]
    assert summarize(report).overview.endswith(said)


def test_what_is_missing_is_a_caveat_by_arm_and_reason() -> None:
    report = package.score(unfinished())
    said = {caveat.code: str(caveat.message) for caveat in report.caveats}
    assert said["missing_runs"] == (
        "3 of 96 planned runs missing: 2 in `with_skelly` (1 `lost: no answer`, 1 `lost: the disk "
        "was full`); 1 in `without_skelly` (1 `not yet run`)"
    )
    assert said["infra_excluded"] == (
        "1 infra failure excluded: 1 in `with_skelly`, 0 in `without_skelly`"
    )
    many = [missing(repeat=9 + at, why=f"lost: {min(at, 4)}") for at in range(8)]
    report = package.score([*both(), *many, infra(), infra(repeat=2)])
    said = {caveat.code: str(caveat.message) for caveat in report.caveats}
    assert said["missing_runs"].endswith(
        "8 in `with_skelly` (4 `lost: 4`, 1 `lost: 0`, 1 `lost: 1`, 2 for other reasons)"
    )
    assert said["infra_excluded"].endswith("; planned runs with nothing else: 1")


def test_a_run_that_is_not_finished_is_to_be_finished_first() -> None:
    first, *_ = advised(package.score(unfinished()))
    assert (
        first == "finish the run with `twoarm run --resume DIR`: 3 of 96 planned runs are missing"
    )
    first, *_ = advised(package.score([*spread(8, 5, 0.5), missing("t0", WITH, 6)]))
    assert first.endswith("1 of 81 planned runs is missing")
    assert not [step for step in advised(package.score(both())) if "finish" in step]


def test_missing_runs_that_could_flip_the_decision_are_said_like_excluded_ones() -> None:
    report = package.score([*spread(8, 5, 0.5), *(missing("t0", WITH, r) for r in range(6, 9))])
    assert report.evidence is not None
    assert report.evidence.exclusions.could_flip
    said = {caveat.code: str(caveat.message) for caveat in report.caveats}
    assert said["excluded_could_flip"] == (
        "missing runs could flip this decision: it would be `mixed results - inspect paired "
        "deltas` if all missing runs of `with_skelly` had failed"
    )
    assert "Missing runs could flip this decision." in report.to_text(full=True)
    steps = advised(report)
    assert not [step for step in steps if step.startswith("find out why runs were excluded")]
    # Not even where nothing is left to be run that would end the advice there.
    lost = [missing("t0", arm, 6, "its folder was deleted") for arm in (WITH, WITHOUT)]
    report = package.score([*spread(8, 5, 0.5), *lost])
    assert report.evidence is not None
    assert report.evidence.exclusions.could_flip
    assert report.promotion.withheld == ()
    steps = advised(report)
    assert steps
    assert not [step for step in steps if step.startswith("find out why runs were excluded")]


# Arms without a run ------------------------------------------------------------------------------


def only_missing(*arms: str) -> list[dict[str, Any]]:
    return [
        missing(f"t{task}", one["arm"], one["repeat"]) if one["arm"] in arms else one
        for task in range(3)
        for one in (*both(f"t{task}"), *both(f"t{task}", 2))
    ]


@pytest.mark.parametrize(
    ("arms", "why", "said"),
    [
        ([WITH], "no run of `with_skelly`: all of its 6 planned runs are missing", "6 of 12"),
        ([WITHOUT], "no run of `without_skelly`: all of its 6 planned runs are missing", "6 of 12"),
        (
            [WITH, WITHOUT],
            "no run of `with_skelly`: all of its 6 planned runs are missing; "
            "no run of `without_skelly`: all of its 6 planned runs are missing",
            "12 of 12",
        ),
    ],
)
@pytest.mark.parametrize("evidence", [True, False])
def test_an_arm_of_missing_runs_is_an_arm_without_a_run(
    arms: list[str], why: str, said: str, evidence: bool, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(only_missing(*arms)))
    extra = [] if evidence else ["--no-evidence"]
    result = twoarm("score", str(path), "--exit-code", *extra)
    assert result.code == 3
    assert result.err == f"twoarm: not enough data, by the gates: {why}\n"
    report = package.score(path, evidence=evidence)
    assert report.decision == "insufficient data"
    assert report.decision.why == why
    assert advised(report) == [
        f"finish the run with `twoarm run --resume DIR`: {said} planned runs are missing"
    ]
    for text in (report.to_text(full=True), report.to_github(), report.to_html()):
        assert "planned run" in text


def test_one_missing_run_is_all_of_an_arm() -> None:
    report = package.score([run(), missing("t", WITHOUT)])
    assert report.decision.why == "no run of `without_skelly`: its one planned run is missing"


# Elsewhere ---------------------------------------------------------------------------------------


def test_check_counts_what_is_missing_apart(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines([*both(), missing(), missing(repeat=2)]))
    found = package.check(path)
    assert (found.run_count, found.missing_count, found.problems) == (4, 2, ())
    assert twoarm("check", str(path)).out.startswith("no problems: 2 runs, 2 missing, 1 task, ")


def test_show_says_of_a_missing_run_that_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines([*both(), missing(repeat=2, why=LOST)]))
    shown = twoarm("show", str(path), "t", "2").out
    assert shown.startswith("t, repeat 2, with_skelly: missing\n")
    assert f"missing: planned, and without a run: `{LOST}`" in shown
    assert "duration" not in shown
