"""The cells of a table: CSV, JSONL and Parquet give the same run, and a bad one is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import collected, only, refused
from twoarm.errors import BadRunsError

ROWS = (
    "task_id,success,duration_seconds,input_tokens,output_tokens,reasoning_tokens,failure\n"
    "a,yes,1.5,10,5,2,\n"
    "b,0,2,,,,infra\n"
)


def test_a_csv_row_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ROWS)
    first, second = collected("table", tmp_path)
    assert (first["success"], first["input_tokens"], first["output_tokens"]) == (True, 10, 7)
    assert (second["success"], second["input_tokens"], second["failure"]) == (False, None, "infra")


def test_jsonl_and_parquet_give_the_records_of_the_csv(tmp_path: Path) -> None:

    import pyarrow
    from pyarrow import parquet

    rows: list[dict[str, Any]] = [
        {
            "task_id": "a",
            "success": True,
            "duration_seconds": 1.5,
            "input_tokens": 10,
            "output_tokens": 5,
            "reasoning_tokens": 2,
            "failure": None,
        },
        {
            "task_id": "b",
            "success": False,
            "duration_seconds": 2.0,
            "input_tokens": None,
            "output_tokens": None,
            "reasoning_tokens": None,
            "failure": "infra",
        },
    ]
    (tmp_path / "t.csv").write_text(ROWS)
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    csv, jsonl, columns = (
        collected("table", tmp_path / f"t.{kind}") for kind in ("csv", "jsonl", "parquet")
    )
    assert csv == jsonl == columns


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(Exception, match="Parquet needs `pyarrow`: install twoarm with its extra"):
        collected("table", tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",1,1,1,1", "no task_id; column `task_id` is empty"),
        ("t,,1,1,1", "no success; column `success` is empty"),
        ("t,1,,1,1", "no duration; column `duration_seconds` is empty"),
        ("t,maybe,1,1,1", "success: expected true or false, 1 or 0, yes or no, got `maybe`"),
        ("t,1,soon,1,1", "duration_seconds: expected a number, got `soon`"),
        ("t,1,-1,1,1", "duration_seconds: expected a number from 0 to"),
        ("t,1,nan,1,1", "duration_seconds: expected a number from 0 to"),
        ("t,1,1,1.5,1", "input_tokens: expected a whole number, got `1.5`"),
        ("t,1,1,1", "4 cells in a table of 5 columns"),
        ("t,1,1,2100,1", None),
    ],
)
def test_a_bad_cell_is_named_with_its_line(row: str, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"task_id,success,duration_seconds,input_tokens,output_tokens\n{row}\n")
    if message is None:
        assert only("table", path)["input_tokens"] == 2100
        return
    text = refused("table", path)
    assert text.startswith(f"{path}:2: ")
    assert message in text


@pytest.mark.parametrize(
    ("failure", "tags"), [("agent", ["passed_despite_failure"]), ("infra", None)]
)
def test_a_failure_overrides_the_success_of_a_row(
    failure: str, tags: list[str] | None, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"task_id,success,duration_seconds,failure\nt,1,1,{failure}\n")
    record = only("table", path)
    assert (record["success"], record["failure"], record.get("tags")) == (False, failure, tags)


def test_both_times_of_a_row_are_a_duration(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "task_id,success,started_at_utc,ended_at_utc\n"
        "t,1,2026-11-15T06:00:00.1Z,2026-11-15T08:00:10.4+02:00\n"
    )
    assert only("table", path)["duration_seconds"] == 10.3


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ROWS)
    with pytest.raises(BadRunsError, match="no column `missing` for task_id"):
        collected("table", tmp_path, settings={"columns": {"task_id": "missing"}})
    with pytest.raises(Exception, match="`columns=`: no such field `nonsense`"):
        collected("table", tmp_path, settings={"columns": {"nonsense": "x"}})


def test_columns_inside_objects_are_found_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"test": {"name": "t", "ok": true}, "latency": 3, "kind": {"arm": "b"}}\n'
    )
    columns = {"task_id": "test.name", "success": "test.ok", "duration_seconds": "latency"}
    record = only(
        "table",
        tmp_path,
        arm_key="kind.arm",
        arm_map={"b": "with_x"},
        settings={"columns": columns},
    )
    assert (record["task_id"], record["arm"], record["success"]) == ("t", "with_x", True)
