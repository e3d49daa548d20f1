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
from benchmarks import study
from tests.support.documents import ROOT, bash, block_with

AGENTS = ("a", "b")
TASKS = ("first", "second")


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


def test_a_heap_knows_no_tasks() -> None:
    ours, theirs = [5, 40, 2.5], [10, 20, 10]
    welch = stats.ttest_ind(
        [math.log(value) for value in ours], [math.log(value) for value in theirs], equal_var=False
    )
    change = readings.pooled(ROWS, "mcp", readings.seconds)
    assert change.estimate == pytest.approx((0.5 * 2 * 0.25) ** (1 / 3))
    assert change.low == pytest.approx(math.exp(welch.confidence_interval().low))
    # A run that nobody measured is in no heap.
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


def test_the_tables_are_made_from_a_table_like_that_of_the_study(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    rows = [
        row(task, agent, arm, second, **measured(repeat + len(arm) + len(task)))
        for task in TASKS
        for agent in AGENTS
        for arm in readings.ARMS
        for repeat, second in enumerate((0, 1, 2))
    ]
    left_out = [
        {**rows[0], "baseline_run": "True"},
        {**rows[0], "scenario": "mcp_unprimed_v2"},
    ]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([*rows, *left_out])
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(study.MAPPING, tmp_path / "benchmarks")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = bash(block_with(study.PAGE, "twoarm collect table"), tmp_path, PATH=programs)
    assert "families" in told
    tables = study.judged(table, tmp_path / "study.jsonl")
    assert len((tmp_path / "study.jsonl").read_text().splitlines()) == len(rows)
    page = study.with_tables(study.PAGE.read_text(encoding="utf-8"), tables)
    for name, text in tables.items():
        assert f"<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->" in page
    assert [line.split(" |")[0] for line in tables["families"].splitlines()[2:]] == [
        "| `first`",
        "| `second`",
    ]
    assert tables["ways"].count("\n") == 1 + len(study.CANDIDATES) * len(study.MEASURES)


def test_another_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("task_id\n", encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.study", str(tmp_path / "runs.csv")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert result.returncode == 2
    assert b"is not the table that was published" in result.stderr


def test_the_page_has_every_table() -> None:
    page = study.PAGE.read_text(encoding="utf-8")
    for name in ("families", "ways", "nulls"):
        text = re.search(rf"<!-- {name} -->\n\n(.+?)\n\n<!-- /{name} -->", page, re.S)
        assert text is not None
        assert text[1].count("\n") >= 5
