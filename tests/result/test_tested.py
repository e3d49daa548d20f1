"""What was tested: the suite, the agent, the model, the commit and the dates, before all else."""

import json
from typing import Any

import msgspec
import pytest

import twoarm as package
from tests.conftest import WITH, WITHOUT, both, run
from tests.support.planned_runs import missing
from twoarm.render.summary import summarize
from twoarm.result.tested import SubjectSuite
from twoarm.runs.study import Study

DAY = "2026-11-0{}T08:00:00Z"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def study(**changed: Any) -> Study:
    known: dict[str, Any] = {
        "path": "out",
        "suite_id": "search",
        "description": "Does the search tool help?",
        "agent": "claude-code",
        "version": "2.1.325",
        "commit": COMMIT,
        "sources": {},
        "candidates": (WITH,),
        "baseline": WITHOUT,
        "seed": 1,
        "unfinished": False,
        "running": False,
        "made": {},
        "reports": (),
        "planned_looks": False,
    }
    return Study(**(known | changed))


def scored(runs: list[dict[str, Any]], *studies: Study, **keywords: Any) -> package.Report:
    read = package.read(runs)
    keywords = {"candidate": WITH, "baseline": WITHOUT} | keywords
    return package.compare(msgspec.structs.replace(read, studies=studies), **keywords)


def made(**changed: Any) -> list[dict[str, Any]]:
    """Runs on two days, by one agent and one model."""
    known = {"agent": "claude-code", "model": "sonnet"} | changed
    return [
        one | known | {"started_at_utc": DAY.format(repeat)}
        for repeat in (1, 3)
        for one in both("t", repeat)
    ]


def said(report: package.Report) -> str | None:
    return summarize(report).tested


def test_a_run_folder_says_all_of_it_in_one_line() -> None:
    report = scored(made(), study())
    line = (
        "suite `search`; `claude-code 2.1.325` with `sonnet`; commit `0123456789ab`; 2026-11-01 to "
        "2026-11-03; `Does the search tool help?`"
    )
    assert said(report) == line
    first = report.to_text(width=80).splitlines()[0]
    assert first.endswith(" …")
    assert line.startswith(first.removesuffix(" …"))
    for text in (report.to_text(full=True), report.to_markdown(), report.to_github()):
        assert line in " ".join(text.split())
    assert " ".join(report.to_text(full=True).split()).startswith(line)
    html = "Suite <code>search</code>; <code>claude-code 2.1.325</code> with <code>sonnet</code>; "
    assert html in report.to_html()
    assert report.to_html().index(html) < report.to_html().index("<h1>")
    assert "<code>Does the search tool help?</code>" in report._repr_html_()
    assert report.tested.suites == (
        SubjectSuite(
            suite_id="search",
            description="Does the search tool help?",
            agent="claude-code",
            version="2.1.325",
            commit=COMMIT,
            sources={},
            regraded_at_utc=None,
        ),
    )
    assert json.loads(report.to_json())["tested"] == {
        "suites": [msgspec.to_builtins(report.tested.suites[0])],
        "agents": ["claude-code"],
        "models": ["sonnet"],
        "first_started_at_utc": DAY.format(1),
        "last_started_at_utc": DAY.format(3),
    }


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, "`claude-code` with `sonnet`; 2026-11-01 to 2026-11-03"),
        ({"agent": None}, "`sonnet`; 2026-11-01 to 2026-11-03"),
        ({"model": None}, "`claude-code`; 2026-11-01 to 2026-11-03"),
    ],
)
def test_records_alone_say_what_they_carry(changed: dict[str, Any], line: str) -> None:
    assert said(scored(made(**changed))) == line


def test_what_nobody_says_is_not_there() -> None:
    report = scored(both())
    assert said(report) is None
    assert report.to_text().startswith(f"{WITH} (candidate)")
    assert report.tested.first_started_at_utc is None
    # Times are not even read without the evidence.
    quick = package.score(made(), evidence=False)
    assert (said(quick), quick.tested.last_started_at_utc) == ("`claude-code` with `sonnet`", None)


def test_only_the_arms_that_are_compared_are_spoken_of() -> None:
    third = run("t", "third", 9, agent="other", model="other", started_at_utc=DAY.format(9))
    assert said(scored([*made(), third])) == said(scored(made()))


def test_one_day_is_named_once_and_arms_may_have_commits_of_their_own() -> None:
    runs = [one | {"started_at_utc": DAY.format(1)} for one in both()]
    built = study(commit=None, description="", sources={"main": COMMIT, "faster": COMMIT[::-1]})
    assert str(said(scored(runs, study(description="With a guide.\n")))).endswith("`With a guide`")
    assert said(scored(runs, built)) == (
        "suite `search`; `claude-code 2.1.325`; `faster` at `76543210fedc`; `main` at "
        "`0123456789ab`; 2026-11-01"
    )


def test_several_folders_are_all_named_and_equal_ones_once() -> None:
    other = study(suite_id="other", path="b", version=None, agent="codex", description="")
    runs = [one | {"agent": agent} for agent, one in zip(("claude-code", "codex"), both(),
                                                         strict=True)]  # fmt: skip
    report = scored(runs, study(), study(path="again", seed=3), other)
    assert [suite.suite_id for suite in report.tested.suites] == ["search", "other"]
    assert said(report) == (
        "suites `search`, `other`; `claude-code 2.1.325`, `codex`; commit `0123456789ab`; "
        "`Does the search tool help?`"
    )


def test_a_time_that_no_calendar_has_stops_nothing() -> None:
    early = [one | {"started_at_utc": "0001-01-01T00:00:00+14:00"} for one in both()]
    assert said(scored(early)) == "0000-12-31"


def test_a_description_is_text_and_nothing_else() -> None:
    hostile = "<script>alert(1)</script> `x` ::error::\n[a](http://b) " + "long " * 5000
    report = scored(made(), study(description=hostile, suite_id="::error::<b>", version="\x1b[31m"))
    for width in (60, 80, 120):
        shown = report.to_text(width=width)
        assert len(shown.splitlines()) <= 24
        assert max(map(len, shown.splitlines())) <= width
        assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]
    assert "\x1b" not in report.to_text(full=True)
    assert len(report.to_text(full=True)) < 20_000
    for page in (report.to_html(), report._repr_html_()):
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page
    assert "``<script>alert(1)</script> `x` ::error::\\n[a](http://b) long" in report.to_markdown()


@pytest.mark.parametrize("path", ["out", "a folder/out", "x" * 50])
def test_the_command_that_finishes_a_run_is_shown_whole(path: str) -> None:
    runs = [*made(), missing("t", WITH, 4)]
    report = scored(runs, study(path="done"), study(path=path, unfinished=True))
    words = f"'{path}'" if " " in path else path
    step = f"finish the run with `twoarm run --resume {words}`: 1 of 5 planned runs is missing"
    assert report.next[0].message == step
    shown = report.to_text(width=80)
    assert words.replace(" ", "") in "".join(shown.split())
    assert f"twoarm run --resume {words.replace(chr(39), '&#39;')}</code>" in report.to_html()


def test_the_overview_keeps_its_second_line_where_there_is_room() -> None:
    report = scored([one | {"uptake_count": 1} for one in made()], study())
    brief = summarize(report).brief
    assert len(brief) > 80
    assert brief in " ".join(report.to_text(width=80).split())


def test_several_candidates_are_tested_on_what_each_of_them_was() -> None:
    third = [
        run | {"arm": "with_third", "model": "opus", "started_at_utc": DAY.format(9)}
        for run in made()
        if run["arm"] == WITH
    ]
    runs = msgspec.structs.replace(package.read([*made(), *third]), studies=(study(),))
    several = package.compare_candidates(runs, baseline=WITHOUT)
    first = several.to_text(full=True, width=200).splitlines()[0]
    assert "`opus`, `sonnet`" in first
    days = [DAY.format(day).partition("T")[0] for day in (1, 9)]
    assert " to ".join(days) in first
