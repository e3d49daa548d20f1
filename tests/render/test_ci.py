"""What CI systems read: the comment, the step summary, annotations, JUnit XML."""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema

import twoarm as package
from tests.conftest import both, lines, run, twoarm
from tests.render.test_golden import INPUTS
from tests.support.formula_runs import suite
from tests.support.markdown import names_in, parsed
from twoarm.render import github
from twoarm.text.escape import annotation, annotation_property, visible

SCHEMA = xmlschema.XMLSchema(Path(__file__).parent.parent / "junit.xsd")

HOSTILE = [
    "<script>alert(1)</script>",
    "</details></summary>",
    "--> <!-- twoarm report -->",
    "a|b\n| c |",
    "`tick` ``two``",
    "]]> & \" ' <",
    "::error::owned\r\n::set-output name=x::y",
    "50% off%0A, title=x",
    "@everyone [x](http://example.com)",
    "\x1b[31m\u202e",
]


def test_the_comment_starts_with_its_marker_and_folds_the_rest() -> None:
    comment = twoarm("demo", "--format", "github").out
    assert comment.startswith("<!-- twoarm report -->\n\n## ✅ Promote\n")
    first, _, rest = comment.partition("<details>")
    assert len(first.splitlines()) <= 32
    for said in ("Promote", "Decision", "Evidence", "success rate", "median tokens", "Next"):
        assert said in first
    assert "### Arms" not in first
    assert "### Arms" in rest
    assert rest.rstrip().endswith("</details>")
    assert comment.count("<!--") == 1


def test_a_comment_that_is_too_long_leaves_out_what_is_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    analysis = package.score(suite())
    whole = analysis.to_github()
    monkeypatch.setattr(github, "LONGEST", len(whole.encode()) - 1)
    short = analysis.to_github()
    assert "<details>" not in short
    assert "The full report is too long" in short
    assert "`analysis.md`" in short
    monkeypatch.setattr(github, "LONGEST", len(whole.encode()))
    assert analysis.to_github() == whole


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_a_comment(name: str) -> None:
    runs = [run(name, f"{name} new"), run(name, "old"), run(name, "old", 2, failure="infra")]
    runs[2]["failure_reason"] = name
    comment = package.score(runs, candidate=f"{name} new", baseline="old").to_github()
    shown = []
    html = []
    for token in parsed(comment):
        if token.type == "html_block":
            html.append(token.content.strip())
        shown += names_in(token)
    assert html == [
        "<!-- twoarm report -->",
        "<details>\n<summary>Full report</summary>",
        "</details>",
    ]
    assert f"prefer {visible(name)} new" in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_cannot_leave_their_annotation(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    runs = [run(name, f"{name} new", success=False), run(name, "old")]
    runs[0][name] = 1
    path.write_bytes(lines(runs))
    roles = [f"--candidate={name} new", "--baseline=old"]
    result = twoarm("score", str(path), "--annotate", "--format", "json", *roles)
    assert result.code == 0
    found = result.err.splitlines()
    assert len(found) >= 3
    for line in found:
        assert re.fullmatch(r"::(error|warning|notice) title=[^:,\r\n]*::[^\r\n]+", line), line
        assert line.isprintable()


@pytest.mark.parametrize(
    ("text", "message", "title"),
    [
        ("plain", "plain", "plain"),
        ("100%", "100%25", "100%25"),
        ("%0A", "%250A", "%250A"),
        ("a: b, c", "a: b, c", "a%3A b%2C c"),
        ("one\r\ntwo", "one\\r\\ntwo", "one\\r\\ntwo"),
    ],
)
def test_annotations_are_escaped_as_the_protocol_needs(text: str, message: str, title: str) -> None:
    assert annotation(text) == message
    assert annotation_property(text) == title


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (suite(), []),
        (suite(success=False), ["error", "warning"]),
        (suite(repeats=4), ["warning"]),
    ],
)
def test_only_a_refused_candidate_is_an_error(
    runs: list[dict[str, Any]], expected: list[str]
) -> None:
    found = [
        line.split(" ")[0].removeprefix("::")
        for line in github.annotations(package.score(runs))
        if "title=twoarm caveat" not in line
    ]
    assert found == expected


def test_a_promotion_with_nothing_alarming_warns_of_nothing() -> None:
    """A warning that is always there is not read."""
    with files("twoarm").joinpath("example.jsonl").open("rb") as stream:
        report = package.score(stream)
    assert (report.promotion.verdict, len(report.caveats) > 2) == ("promote", True)
    found = list(github.annotations(report))
    assert {line.split(" ")[0] for line in found} == {"::notice"}
    assert len(found) == len(report.caveats)


def test_what_is_alarming_warns_beside_a_promotion() -> None:
    runs = [one for repeat in range(1, 6) for one in both(repeat=repeat)]
    report = package.score(runs)
    assert report.promotion.verdict == "promote"
    warned = [line for line in github.annotations(report) if line.startswith("::warning")]
    assert len(warned) == 1
    assert "title=twoarm caveat nothing_differs::" in warned[0]


def test_without_a_promotion_every_caveat_is_a_warning() -> None:
    report = package.score(both())
    assert report.promotion.verdict == "not enough data"
    assert {line.split(" ")[0] for line in github.annotations(report)} == {"::warning"}


def test_no_more_annotations_than_github_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github, "MOST_ANNOTATIONS", 2)
    found = list(github.annotations(package.score(suite(repeats=4, success=False))))
    assert len(found) == 3
    assert re.fullmatch(r"::notice title=twoarm::\d+ more in the report", found[-1])


@pytest.mark.parametrize(
    ("runs", "outcomes"),
    [
        (suite(), [None, None, None, None]),
        (suite(success=False, duration_seconds=1), ["failure", None, None, None]),
        (suite(repeats=4, duration_seconds=999), [None, "failure", None, "failure"]),
        (suite(input_tokens=None), [None, None, "skipped", "failure"]),
        ([run()], ["skipped", "skipped", "skipped", "failure"]),
    ],
)
def test_junit_has_a_case_per_gate_and_one_for_adequacy(
    runs: list[dict[str, Any]], outcomes: list[str | None]
) -> None:
    text = package.score(runs, generated_at_utc="2026-11-01T00:00:00Z").to_junit()
    SCHEMA.validate(text)
    (found,) = ElementTree.fromstring(text)
    cases = found.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "gate success rate",
        "gate median duration",
        "gate median non-cache tokens",
        "adequacy",
    ]
    seen = [
        next((kind for kind in ("failure", "skipped") if case.find(kind) is not None), None)
        for case in cases
    ]
    assert seen == outcomes
    assert found.get("tests") == "4"
    assert found.get("failures") == str(outcomes.count("failure"))
    assert found.get("skipped") == str(outcomes.count("skipped"))
    for case in cases:
        assert "".join(case.itertext()).strip()


@pytest.mark.parametrize("name", [*HOSTILE, "\0", "漢字", "\ufffe"])
def test_hostile_names_stay_text_in_junit(name: str) -> None:
    runs = [run(name, f"{name} new"), run(name, "old")]
    text = package.score(runs, candidate=f"{name} new", baseline="old").to_junit()
    SCHEMA.validate(text)
    root = ElementTree.fromstring(text)
    values = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert values["candidate"] == f"{visible(name)} new"
    assert values["decision"] == f"prefer {visible(name)} new"


def test_golden_files_of_ci(
    golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    Path("mixed.jsonl").write_bytes(INPUTS["mixed.jsonl"])
    result = twoarm("score", "mixed.jsonl", "--junit", "deep/junit.xml", "--annotate")
    golden("mixed.junit.xml", Path("deep/junit.xml").read_text(encoding="utf-8"))
    golden("mixed.annotations", result.err.partition("\n")[2])
    golden("mixed.github.md", twoarm("score", "mixed.jsonl", "--format", "github").out)
    golden("demo.github.md", twoarm("demo", "--format", "github").out)


def test_out_adds_to_the_step_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1793520000")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert twoarm("demo").code == 0
    assert summary.read_text() == "before\n"
    assert twoarm("demo", "--out", str(tmp_path / "out")).code == 0
    comment = twoarm("demo", "--format", "github").out
    assert summary.read_text(encoding="utf-8") == f"before\n{comment}"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    result = twoarm("demo", "--out", str(tmp_path / "out"))
    assert result.code == 2
    assert f"twoarm: {tmp_path}/none/summary.md: cannot be written: " in result.err


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("here already")
    out = tmp_path / "out"
    result = twoarm("demo", "--out", str(out), "--junit", str(blocked / "junit.xml"))
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"twoarm: {blocked}/junit.xml: cannot be written: ")
    assert list(out.iterdir()) == []
