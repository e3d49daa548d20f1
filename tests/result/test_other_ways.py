"""What other ways to promote would say: in the result, and in every report after the reasons."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, lines, run
from tests.conftest import twoarm as command
from tests.support.effect_runs import suite
from twoarm.options import Options
from twoarm.render.github import annotations
from twoarm.render.report import Report
from twoarm.render.summary import summarize
from twoarm.result.promote import promote

COUNTS = "success 74 of 75 against 75 of 75"


def one_run_fewer() -> list[dict[str, Any]]:
    """Much faster in every task, and one run of 75 fails."""
    runs = suite(15, 5, effect=0.7, pass_rate=1.0)
    next(entry for entry in runs if entry["arm"] == WITH)["success"] = False
    return runs


@pytest.fixture(scope="module")
def report() -> Report:
    return twoarm.score(one_run_fewer())


def test_one_run_decides_and_the_other_way_is_said_in_every_report(
    report: Report, tmp_path: Path
) -> None:
    assert report.promotion.verdict == "do not promote"
    assert report.promotion.reasons == (f"`{WITH}` fails the success rate gate: {COUNTS}",)
    sentence = f"{COUNTS}; by evidence: yes"
    page = report.to_html()
    for shown in (
        " ".join(report.to_text().split()),
        " ".join(report.to_text(full=True).split()),
        report.to_markdown(),
        report.to_github(),
        page[: page.index("</dl>")],
        report._repr_html_(),
        next(annotations(report)),
    ):
        assert sentence in shown
    properties = {
        entry.attrib["name"]: entry.attrib["value"]
        for entry in ElementTree.fromstring(report.to_junit()).iter("property")
    }
    assert properties["promotion"] == "do not promote"
    assert properties["promotion by the evidence"] == "promote"
    others = json.loads(report.to_json())["promotion"]["others"]
    assert others[0]["by"] == "evidence"
    assert others[0]["verdict"] == "promote"
    assert others[0]["reasons"][0].startswith("faster")
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(one_run_fewer()))
    # The exit code is that of the way that was named.
    for by, code, other in (("gates", 1, "by evidence: yes"), ("evidence", 0, "by the gates: no")):
        result = command("score", str(path), "--exit-code", "--promote-by", by)
        assert result.code == code
        assert f"; {other}" in result.err


def test_several_candidates_say_it_too() -> None:
    runs = one_run_fewer()
    runs += [entry | {"arm": "third"} for entry in runs if entry["arm"] == WITHOUT]
    several = twoarm.compare_candidates(twoarm.read(runs), baseline=WITHOUT)
    for shown in (several.to_text(), several.to_markdown(), several.to_github()):
        assert f"`{WITH}`, by evidence: yes" in shown
    assert f"<code>{WITH}</code>, by evidence: yes" in several.to_html()


@pytest.mark.parametrize("by", ["gates", "evidence", "margin"])
def test_only_another_verdict_is_told_and_it_is_what_that_way_says(by: Any) -> None:
    for runs in (
        one_run_fewer(),
        suite(12, 5, effect=0.6, pass_rate=1.0),
        suite(12, 5, effect=1.0),
    ):
        report = twoarm.score(runs, promote_by=by)
        ways = {
            other: twoarm.score(runs, promote_by=other).promotion
            for other in ("gates", "evidence", "margin")
            if other != by
        }
        assert {other.by: other for other in report.promotion.others} == {
            name: msgspec.structs.replace(
                report.promotion.others[0], by=name, verdict=way.verdict, reasons=way.reasons
            )
            for name, way in ways.items()
            if way.verdict != report.promotion.verdict
        }


def test_without_evidence_there_is_no_other_way() -> None:
    report = twoarm.score(one_run_fewer(), evidence=False)
    assert report.promotion.others == ()
    assert summarize(report).others == ""


def test_where_the_gates_prefer_the_baseline_all_ways_agree() -> None:
    runs = suite(12, 5, effect=1.7, pass_rate=1.0)
    runs[0]["success"] = False
    assert twoarm.score(runs).promotion.others == ()


def test_counts_are_said_where_success_alone_decides() -> None:
    runs = one_run_fewer()
    for entry in runs:
        entry["duration_seconds"] = 100.0 if entry["arm"] == WITHOUT else 200.0
    assert twoarm.score(runs).promotion.reasons == (
        f"`{WITH}` fails the success rate and median duration gates",
    )


def test_ways_that_say_the_same_are_named_together(report: Report) -> None:
    both = [
        msgspec.structs.replace(report.promotion.others[0], by=by, verdict="not enough data")
        for by in ("evidence", "margin")
    ]
    promotion = msgspec.structs.replace(report.promotion, others=tuple(both))
    summary = summarize(msgspec.structs.replace(report, promotion=promotion))
    assert summary.others == "; by evidence and margin: not yet"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_other_ways_say_is_never_cut_off(report: Report, width: int) -> None:
    (reason,) = report.promotion.reasons
    promotion = msgspec.structs.replace(report.promotion, reasons=(reason,) * 20)
    text = msgspec.structs.replace(report, promotion=promotion).to_text(width=width)
    said = text[text.index("PROMOTE") : text.index("DECISION")]
    assert said.count("\n") == 3
    assert " ".join(said.split()).endswith(f" …{summarize(report).others}")


def test_a_loss_on_one_side_withholds_every_way() -> None:
    runs = one_run_fewer()
    runs += [
        run(f"lost{number}", WITH, repeat, failure="infra")
        for number in range(6)
        for repeat in range(1, 6)
    ]
    report = twoarm.score(runs)
    promotions = [
        promote(report.comparison, report.evidence, Options(promote_by=by))
        for by in ("evidence", "margin")
    ]
    assert "promote" not in {promotion.verdict for promotion in promotions}
    assert "promote" not in {other.verdict for other in report.promotion.others}
