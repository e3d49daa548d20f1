"""Frames in and rows out: pandas, polars and Arrow, with the real libraries."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import twoarm
from tests.conftest import WITH, WITHOUT, both, run
from tests.conftest import twoarm as command
from tests.support.effect_runs import suite

Make = Callable[[list[dict[str, Any]]], Any]


def of_pandas(rows: list[dict[str, Any]]) -> Any:
    return pandas.DataFrame(rows)


def of_masked_pandas(rows: list[dict[str, Any]]) -> Any:
    return pandas.DataFrame(rows).convert_dtypes()


def of_polars(rows: list[dict[str, Any]]) -> Any:
    return polars.DataFrame(rows, infer_schema_length=None)


def of_batch(rows: list[dict[str, Any]]) -> Any:
    return pyarrow.RecordBatch.from_pylist(rows)


def of_stream(rows: list[dict[str, Any]]) -> Any:
    return pyarrow.Table.from_pylist(rows).to_reader()


def of_arrow(rows: list[dict[str, Any]]) -> Any:
    return pyarrow.Table.from_pylist(rows)


FRAMES = [of_pandas, of_masked_pandas, of_polars, of_arrow, of_batch, of_stream]
every_frame = pytest.mark.parametrize("frame", FRAMES)


def study() -> list[dict[str, Any]]:
    """Runs in which something of every kind is not measured."""
    runs = []
    for task in ("a", "b"):
        for repeat in (1, 2, 3):
            for arm, seconds in ((WITH, 90.5), (WITHOUT, 100.0)):
                runs.append(
                    run(
                        task,
                        arm,
                        repeat,
                        duration_seconds=seconds + repeat,
                        success=repeat > 1 or arm == WITHOUT,
                        total_cost_usd=None if repeat == 2 else 0.5,
                        cache_write_tokens=None,
                        input_tokens=None if (task, repeat) == ("b", 3) else 1000,
                        step_count=None if repeat == 1 else 7,
                        agent_exit_code=None if repeat == 1 else 0,
                        failure="infra" if (arm, repeat) == (WITH, 3) and task == "b" else None,
                        model=None if task == "a" else "large",
                        started_at_utc=f"2026-11-01T10:0{repeat}:00+00:00",
                    )
                )
    return runs


@every_frame
def test_a_frame_is_scored_like_the_same_runs_in_a_file(frame: Make) -> None:
    made = frame(study())
    assert twoarm.score(made).to_json() == twoarm.score(study()).to_json()


@every_frame
def test_nothing_in_a_number_is_not_measured_and_never_zero(frame: Make) -> None:
    rows = [*both(total_cost_usd=None), *both(repeat=2, total_cost_usd=3.0)]
    summary = twoarm.score(frame(rows)).arm_summaries[0]
    assert (summary.missing["cost_usd"], summary.median_cost_usd) == (1, 3.0)


def test_nan_in_a_polars_number_is_not_measured_either() -> None:
    rows = [*both(total_cost_usd=math.nan), *both(repeat=2, total_cost_usd=3.0)]
    summary = twoarm.score(of_polars(rows)).arm_summaries[0]
    assert (summary.missing["cost_usd"], summary.median_cost_usd) == (1, 3.0)


@every_frame
def test_a_column_that_may_hold_null_may_be_missing(frame: Make) -> None:
    rows = [
        {key: value for key, value in one.items() if key not in ("total_cost_usd", "input_tokens")}
        for one in both()
    ]
    report = twoarm.score(frame(rows))
    assert report.decision == "insufficient data"
    assert report.arm_summaries[0].missing["cost_usd"] == 1
    assert "never_measured" in {caveat.code for caveat in report.caveats}


@every_frame
def test_a_column_that_every_run_needs_is_missed(frame: Make) -> None:
    rows = [{key: value for key, value in one.items() if key != "success"} for one in both()]
    with pytest.raises(twoarm.BadRunsError, match="^row:1: success: missing\nrow:2: success: "):
        twoarm.score(frame(rows))


@every_frame
def test_bad_cells_are_problems_with_row_and_column(frame: Make) -> None:
    rows = [*both(), *both(repeat=2)]
    rows[1]["duration_seconds"] = -1.5
    rows[2]["duration_seconds"] = None
    rows[3]["arm"] = ""
    found = twoarm.check(frame(rows)).problems
    assert [(one.source, one.line, one.field) for one in found] == [
        ("row", 2, "duration_seconds"),
        ("row", 3, "duration_seconds"),
        ("row", 4, "arm"),
    ]
    assert str(found[0]) == (
        "row:2: duration_seconds: expected a number from 0 to 9007199254740991, got -1.5"
    )
    assert str(found[1]).endswith("got null")


def test_a_column_of_mixed_types_is_a_problem_of_its_bad_rows_only() -> None:
    rows = [*both(), *both(repeat=2)]
    rows[2]["success"] = "yes"
    found = twoarm.check(of_pandas(rows)).problems
    assert list(map(str, found)) == ['row:3: success: expected true or false, got "yes"']


def test_whole_numbers_that_pandas_made_floats_are_whole_numbers() -> None:
    rows = [*both(agent_exit_code=86), *both(repeat=2, agent_exit_code=None)]
    frame = pandas.DataFrame(rows).astype({"repeat": float})
    assert str(frame["agent_exit_code"].dtype) == "float64"
    report = twoarm.score(frame)
    assert (report.excluded_infra_failures, report.paired.paired_runs) == (2, 1)
    with pytest.raises(twoarm.BadRunsError, match="row:1: repeat: expected an integer .* got 1.5"):
        twoarm.score(frame.assign(repeat=1.5))


def test_objects_categories_and_times_are_read_as_what_they_hold() -> None:
    when = datetime(2026, 11, 1, 10, tzinfo=UTC)
    rows = [
        one | {"started_at_utc": when, "total_cost_usd": np.float64(1), "repeat": np.int64(1)}
        for one in both()
    ]
    frame = pandas.DataFrame(rows).astype({"arm": "category", "total_cost_usd": object})
    text = [one | {"started_at_utc": when.isoformat()} for one in both()]
    assert twoarm.score(frame).to_json() == twoarm.score(text).to_json()
    assert twoarm.score(of_polars(rows)).to_json() == twoarm.score(text).to_json()


@every_frame
def test_an_unknown_column_is_named_once(frame: Make) -> None:
    report = twoarm.score(frame(both(colour="red")))
    (found,) = [caveat for caveat in report.caveats if caveat.code == "unknown_keys"]
    assert "`colour`" in found.message


def test_the_index_of_a_frame_does_not_count() -> None:
    frame = of_pandas(both()).set_index(pandas.Index([7, 7]))
    assert twoarm.score(frame).paired.paired_runs == 1


def test_many_rows_are_all_read() -> None:
    rows = [one for repeat in range(1, 5_001) for one in both(repeat=repeat)]
    rows[-1]["success"] = None
    (problem,) = twoarm.check(of_polars(rows)).problems
    assert (problem.line, problem.field) == (10_000, "success")
    assert len(twoarm.read(of_polars(rows[:-1]))) == 9_999


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            polars.LazyFrame(both()),
            "a frame that is in memory, or an iterable of runs, got one `La",
        ),
        (pandas.Series([1]), "expected a frame with a column per key, got one `Series`"),
        (polars.Series([1]), "expected a frame with a column per key, got one `Series`"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "two columns of the frame have the same"),
        (of_pandas([]), "<memory>: no runs; expected a row or mapping per run"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_frame_of_runs_is_refused_in_words(source: Any, message: str) -> None:
    with pytest.raises(twoarm.TwoarmError) as caught:
        twoarm.score(source)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_column_names_that_are_no_text_are_unknown_keys() -> None:
    report = twoarm.score(of_pandas(both()).assign(x=1).rename(columns={"x": 0}))
    assert "unknown_keys" in {caveat.code for caveat in report.caveats}


def test_without_narwhals_the_error_says_what_to_install() -> None:
    script = """
import sys
sys.modules["narwhals"] = None
import pandas, twoarm
try:
    twoarm.score(pandas.DataFrame({"task_id": ["a"]}))
except twoarm.ExtraError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert (
        found.stdout.decode()
        == "a frame needs `narwhals`: install twoarm with its extra `frames`\n"
    )


def test_scoring_a_file_imports_no_frame_library() -> None:
    script = """
import io, sys, twoarm
from importlib.resources import files
twoarm.score(files("twoarm").joinpath("example.jsonl").open("rb"))
print([name for name in ("narwhals", "pandas", "polars", "pyarrow") if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert found.stdout.decode() == "[]\n"


# Rows out -----------------------------------------------------------------------------------------


def test_tasks_are_rows_with_plain_values() -> None:
    runs = [
        *both("a", total_cost_usd=None),
        run("a", WITH, 2, duration_seconds=80.0),
        run("a", WITHOUT, 2, duration_seconds=100.0, success=False),
        run("b", WITH, 1, family="f"),
    ]
    a, b = twoarm.score(runs).task_rows()
    assert (a["family"], b["family"]) == (None, "f")
    assert {key: a[key] for key in list(a)[:8]} == {
        "task_id": "a",
        "standing": "higher",
        "pairs": 2,
        "gained": 1,
        "lost": 0,
        "candidate_runs": 2,
        "candidate_successes": 2,
        "candidate_median_cost_usd": 1.0,
    }
    assert (a["baseline_median_duration_seconds"], a["mean_duration_delta_seconds"]) == (100, -10)
    assert (a["mean_cost_delta_usd"], a["high_variance"]) == (0.0, "success")
    assert (b["standing"], b["baseline_median_cost_usd"], b["high_variance"]) == (None, None, "")
    assert (b["candidate_missing_non_cache_tokens"], a["baseline_runs"]) == (0, 2)
    assert a.keys() == b.keys()


def test_pairs_are_rows_of_both_runs_and_their_deltas() -> None:
    runs = [
        run("a", WITH, 3, duration_seconds=80.0, total_cost_usd=None, success=False),
        run("a", WITHOUT, 3, duration_seconds=100.0),
        *both("b", 1),
        run("c", WITH, 1),
    ]
    first, second = twoarm.score(runs).pair_rows()
    assert (first["task_id"], first["repeat"]) == ("a", 3)
    assert (first["candidate_success"], first["baseline_success"]) == (False, True)
    assert first["pass_delta"] == -1
    assert (first["candidate_cost_usd"], first["cost_delta_usd"]) == (None, None)
    assert (first["candidate_duration_seconds"], first["duration_delta_seconds"]) == (80.0, -20.0)
    assert (second["task_id"], second["baseline_tokens"], second["token_delta"]) == ("b", 6600, 0)


@pytest.mark.parametrize("made", [pandas.DataFrame, polars.DataFrame, pyarrow.Table.from_pylist])
def test_rows_make_frames_with_a_number_in_every_number_column(made: Callable[..., Any]) -> None:
    report = twoarm.score(study())
    tasks, pairs = made(report.task_rows()), made(report.pair_rows())
    assert len(tasks) == report.task_count
    assert len(pairs) == report.paired.paired_runs
    found = pandas.DataFrame(report.pair_rows())
    mean = found["duration_delta_seconds"].astype(float).mean()
    assert mean == report.paired.mean_duration_delta_seconds


# In a notebook ------------------------------------------------------------------------------------


def test_a_report_in_a_shell_is_one_short_line() -> None:
    rows = [one for task in range(300) for one in both(f"a rather long name of a task {task}")]
    report = twoarm.score(rows)
    assert repr(report) == (
        "<twoarm.Report: with_skelly vs. without_skelly: prefer with_skelly; not enough data to "
        "promote; 300 tasks, 600 of 600 runs counted>"
    )
    assert repr(twoarm.read(rows)) == (
        "<twoarm.Runs: 600 runs, 300 tasks, arms `with_skelly`, `without_skelly`>"
    )


def test_a_hostile_name_stays_inside_the_line_and_the_fragment() -> None:
    evil = "<script>alert(1)</script>\x1b[31m\n" + "x" * 500
    runs = [one | {"arm": evil if one["arm"] == WITH else WITHOUT} for one in both("<b>t</b>")]
    report = twoarm.score(runs, candidate=evil, baseline=WITHOUT)
    assert "\n" not in repr(report)
    assert "\x1b" not in repr(report)
    assert len(repr(report)) < 400
    html = report._repr_html_()
    assert "<script>" not in html
    assert "<b>t" not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;" in html


def test_a_notebook_shows_the_summary_the_gates_and_what_to_do_next() -> None:
    report = twoarm.score([one for n in range(1, 7) for one in both(repeat=n)])
    html = report._repr_html_()
    for part in ("Promote", "prefer with_skelly", "success rate", "median duration", "100.0%"):
        assert part in html
    assert html.count("<li>") == len(report.next) > 0
    assert f"<li>{report.next[-1].message.partition('`')[0]}" in html
    assert "<script" not in html
    assert len(html) < 10_000


def test_a_notebook_shows_candidates_plans_and_calibrations() -> None:
    evil = "<script>x</script>"
    runs = suite(6, 6)
    runs += [one | {"arm": evil} for one in runs if one["arm"] == WITH]
    several = twoarm.compare_candidates(twoarm.read(runs), baseline=WITHOUT)
    two = [one for one in runs if one["arm"] != evil]
    reports = {
        several._repr_html_(): ("2 candidates", WITHOUT, "&lt;script&gt;", "mean change", WITH),
        twoarm.plan(two, detect="-10%")._repr_html_(): ("<b>Plan", "<table>", "repeats"),
        twoarm.calibrate(two, trials=100)._repr_html_(): ("<table>", "gates"),
    }
    for html, parts in reports.items():
        assert [part for part in parts if part not in html] == []
        assert html.startswith("<div>")
        assert html.endswith("</div>")
        assert "<script" not in html


def test_the_example_of_the_documents_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    (tmp_path / "collected.jsonl").write_text(command("demo", "--print").out, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, check=False
    )
    assert found.returncode == 0, found.stderr.decode()
    assert "migrate-settings" in found.stdout.decode()
