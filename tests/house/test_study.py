"""The study of docs/study.md can be judged again: its script works, and its readings are right."""

import csv
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scipy import stats

from benchmarks import other_readings as readings
from benchmarks import study, study_figures, study_runs
from tests.support.documents import ROOT, bash, block_with

AGENTS = ("a", "b")
TASKS = ("first", "hn_settings_deeplink")


def row(task: str, agent: str, arm: str, second: int, **cells: str) -> readings.Row:
    """A row as the study publishes it."""
    return {
        "task_id": task,
        "agent_id": agent,
        "scenario": readings.ARMS[arm],
        "baseline_run": "False",
        "success": "True",
        "ts_start": f"2026-01-20T00:{second:02}:00+00:00",
        "ts_end": f"2026-01-20T00:{second:02}:30+00:00",
        "model": "",
        "wall_time_sec": "10",
        "uncached_input_tokens": "100",
        "cached_read_tokens": "800",
        "cache_write_tokens": "50",
        "output_tokens": "100",
        "billed_cost_usd": "0.5",
        "cold_equivalent_cost_usd": "2",
        **cells,
    }


NO_COUNTS = {"uncached_input_tokens": "", "output_tokens": "", "cold_equivalent_cost_usd": ""}
# A run of each arm: two tasks, of which the second is done by one agent in no time with `mcp`.
ROWS = [
    row("first", "a", "shell", 0),
    row("first", "b", "shell", 1, wall_time_sec="20"),
    row("second", "a", "shell", 2),
    row("first", "a", "mcp", 3, wall_time_sec="5"),
    row("first", "b", "mcp", 4, wall_time_sec="40"),
    row("second", "a", "mcp", 5, wall_time_sec="2.5", **NO_COUNTS),
]
HALVES = [math.log(0.5), math.log(2), math.log(0.25)]


def t_interval(values: list[float]) -> tuple[float, ...]:
    mean, reach = sum(values) / len(values), stats.t.ppf(0.975, len(values) - 1)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    reach *= spread / math.sqrt(len(values))
    return tuple(math.exp(end) for end in (mean, mean - reach, mean + reach))


def test_every_pair_is_a_task_where_repeats_are_taken_for_tasks() -> None:
    change = readings.each_pair_a_task(ROWS, "mcp", readings.seconds)
    assert change == pytest.approx(t_interval(HALVES))
    # The pair with a run that nobody measured has no tokens to compare.
    assert readings.each_pair_a_task(ROWS, "mcp", readings.non_cache_tokens).estimate == 1


def test_a_family_counts_once_however_many_agents_did_it() -> None:
    change = readings.over_families(ROWS, "mcp", readings.seconds)
    assert change == pytest.approx(t_interval([(HALVES[0] + HALVES[1]) / 2, HALVES[2]]))


def test_runs_that_are_pooled_have_no_tasks() -> None:
    ours, theirs = [5, 40, 2.5], [10, 20, 10]
    welch = stats.ttest_ind(
        [math.log(value) for value in ours], [math.log(value) for value in theirs], equal_var=False
    )
    change = readings.pooled(ROWS, "mcp", readings.seconds)
    assert change.estimate == pytest.approx((0.5 * 2 * 0.25) ** (1 / 3))
    assert change.low == pytest.approx(math.exp(welch.confidence_interval().low))
    # A run that nobody measured is left out.
    lost = row("second", "a", "mcp", 6, wall_time_sec="")
    assert readings.pooled([*ROWS, lost], "mcp", readings.seconds) == change


def test_a_null_that_is_read_as_zero_makes_a_run_cheap() -> None:
    assert readings.mean_tokens(ROWS, "mcp", as_zero=False) == 1000
    assert readings.mean_tokens(ROWS, "mcp", as_zero=True) == pytest.approx((1000 + 1000 + 800) / 3)
    cheap = [*ROWS, row("second", "b", "mcp", 6, **NO_COUNTS)]
    assert readings.median_cold_usd(cheap, "mcp", as_zero=False) == 2
    assert readings.median_cold_usd(cheap, "mcp", as_zero=True) == 1


def measured(step: int) -> dict[str, str]:
    """Different in every run."""
    names = ("wall_time_sec", "uncached_input_tokens", "output_tokens", "cached_read_tokens")
    costs = ("billed_cost_usd", "cold_equivalent_cost_usd")
    return {name: str(10 + step * 3 % 7 + step) for name in (*names, *costs)}


def published(folder: Path) -> Path:
    """A table like that of the study: of each task and agent one arm was run after the others."""
    rows = [
        row(task, agent, arm, second, **measured(repeat + len(arm) + len(task)))
        for task in TASKS
        for agent in AGENTS
        for arm in readings.ARMS
        for repeat, second in enumerate((9, 10, 11) if arm == "mcp" else (0, 1, 2))
    ]
    left_out = [
        {**rows[0], "baseline_run": "True"},
        {**rows[0], "scenario": "mcp_unprimed_v2"},
    ]
    table = folder / "runs.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([*rows, *left_out])
    return table


def test_the_page_is_made_from_a_table_like_that_of_the_study(tmp_path: Path) -> None:
    table = published(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(study_runs.MAPPING, tmp_path / "benchmarks")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = bash(block_with(study.PAGE, "twoarm collect table"), tmp_path, PATH=programs)
    assert "families" in told
    judged = study_runs.judge(table, tmp_path / "study.jsonl")
    count = len(TASKS) * len(AGENTS) * len(readings.ARMS) * 3
    assert len((tmp_path / "study.jsonl").read_text().splitlines()) == count
    tables = study.tables(judged)
    page = study.with_tables(study.PAGE.read_text(encoding="utf-8"), tables)
    for name, text in tables.items():
        assert f"<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->" in page
    assert [line.split(" |")[0] for line in tables["families"].splitlines()[2:]] == [
        f"| `{task}`" for task in sorted(TASKS)
    ]
    measures = len(study_runs.CANDIDATES) * len(study_runs.MEASURES)
    assert tables["ways"].count("\n") == 1 + measures
    figures = study_figures.figures(judged)
    page = study_figures.with_figures(page, figures)
    words = " ".join(page.split())
    assert f"ran {count} trials, and" in words
    assert f"The published table has {count + 2} rows." in words
    assert "There are two tasks, neither 4 nor 36: two agents that" in words
    assert "In 0 of the 4 pairs of task and agent for `primed`, and in 4 for `mcp`, every" in words
    time = study_runs.change_of(judged.alike["mcp"], study_runs.TIME, "these_tasks")
    assert time is not None
    assert f"`mcp` takes {abs(time.estimate - 1):.1%} less (" in words
    # Another table shows little of what the page claims.
    assert False in study_figures.claims(judged).values()


def test_every_figure_of_the_page_is_one_that_the_script_checks() -> None:
    page = study.PAGE.read_text(encoding="utf-8")
    for sentence in study_figures.SAID:
        assert len(re.findall(study_figures.pattern_of(sentence), page)) == 1, sentence
        page = re.sub(study_figures.pattern_of(sentence), "", page)
    for marked in (r"<!-- (\w+) -->.+?<!-- /\1 -->", r"```.+?```", r"`[^`]*`", r"\]\(.+?\)"):
        page = re.sub(marked, "", page, flags=re.S)
    assert re.findall(r"\w*\d[\w.,%]*", page) == ["2026", "95%", "95%"]


def test_every_claim_of_the_page_is_one_that_the_script_checks() -> None:
    words = " ".join(study.PAGE.read_text(encoding="utf-8").split())
    for claim in study_figures.CLAIMED:
        assert words.count(claim) == 1, claim


def test_a_figure_that_has_no_place_is_not_forgotten() -> None:
    with pytest.raises(SystemExit, match="the page says 0 times, not once: ran {trials}"):
        study_figures.with_figures("", {})


def refused(table: Path) -> str:
    command = [sys.executable, "-m", "benchmarks.study", str(table)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    return result.stderr


def test_another_table_is_refused_in_one_line(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    where = f"{table}: No such file or directory; docs/study.md says where to get it\n"
    assert refused(table) == where
    table.write_text("task_id\n", encoding="utf-8")
    assert refused(table) == f"{table}: not the table that was published; see docs/study.md\n"


def test_the_page_has_every_table() -> None:
    page = study.PAGE.read_text(encoding="utf-8")
    for name in ("families", "ways", "nulls"):
        text = re.search(rf"<!-- {name} -->\n\n(.+?)\n\n<!-- /{name} -->", page, re.S)
        assert text is not None
        assert text[1].count("\n") >= 5
