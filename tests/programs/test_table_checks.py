"""`collect table`: scores, checks and tags, in columns and in objects."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.collect_fixtures import collected, refused
from twoarm.errors import UsageError

ROW = {"task_id": "t", "repeat": 1, "success": True, "duration_seconds": 1.5}


def table(folder: Path, *rows: dict[str, Any], kind: str = "csv") -> Path:
    path = folder / f"t.{kind}"
    whole = [ROW | {"repeat": number} | row for number, row in enumerate(rows, 1)]
    if kind == "csv":
        cells = [[("" if cell is None else str(cell)) for cell in row.values()] for row in whole]
        path.write_text("".join(",".join(line) + "\n" for line in [[*whole[0]], *cells]))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in whole))
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_columns_named_so_are_the_score_and_the_checks(kind: str, tmp_path: Path) -> None:
    path = table(
        tmp_path,
        {"score": 0.5, "checks.unit": True, "checks.lint": "no"},
        {"score": None, "checks.unit": 1, "checks.lint": None},
        {"score": 1, "checks.unit": None, "checks.lint": None},
        kind=kind,
    )
    first, second, third = collected("table", path)
    assert (first["score"], first["checks"]) == (0.5, {"unit": True, "lint": False})
    assert "score" not in second
    assert second["checks"] == {"unit": True, "lint": None}
    assert third["score"] == 1.0
    assert "checks" not in third


def test_an_object_of_checks_is_read_as_it_is(tmp_path: Path) -> None:
    checks = {"unit": True, "a.b": False, "lint": None, "": True}
    path = table(tmp_path, {"checks": checks}, {"checks": 12}, kind="jsonl")
    first, second = collected("table", path)
    assert first["checks"] == {"unit": True, "a.b": False, "lint": None}
    assert "checks" not in second


def test_any_column_may_be_mapped_to_a_check(tmp_path: Path) -> None:
    path = table(tmp_path, {"tests": "yes", "share": 0.75})
    columns = {"checks.unit": "tests", "score": "share"}
    (record,) = collected("table", path, settings={"columns": columns})
    assert (record["score"], record["checks"]) == (0.75, {"unit": True})


def test_tags_are_a_list_or_have_commas_between_them(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        {"labels": "sql, slow,"},
        {"labels": ["sql", "a, b"]},
        {"labels": None},
        {"labels": " "},
        kind="jsonl",
    )
    columns = {"task_tags": "labels"}
    records = collected("table", path, settings={"columns": columns})
    tags = [["sql", "slow"], ["sql", "a, b"], None, None]
    assert [record.get("task_tags") for record in records] == tags
    path = table(tmp_path, {"task_tags": "sql"})
    assert [record["task_tags"] for record in collected("table", path)] == [["sql"]]
    for wrong in (3, [1], {"sql": True}):
        path = table(tmp_path, {"task_tags": wrong}, kind="jsonl")
        assert "expected tags with commas between them, or a list, got" in refused("table", path)


def tags_in_cells(folder: Path, *cells: str) -> Path:
    """A CSV with a cell of tags for each run, quoted as a program that writes CSV does."""
    path = folder / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*ROW, "labels"])
        writer.writerows([*(ROW | {"repeat": n}).values(), cell] for n, cell in enumerate(cells, 1))
    return path


def test_tags_of_a_cell_are_a_list_in_json(tmp_path: Path) -> None:
    path = tags_in_cells(tmp_path, '["sql", "a, b"]', " [ ]", '["a]"]', "a [b], c")
    records = collected("table", path, settings={"columns": {"task_tags": "labels"}})
    tags = [["sql", "a, b"], None, ["a]"], ["a [b]", "c"]]
    assert [record.get("task_tags") for record in records] == tags


@pytest.mark.parametrize("cell", ['["sql", ', "[sql]", '["sql", 1]', '["sql"] x', "[" * 100_000])
def test_a_cell_that_is_no_list_in_json_is_refused_with_line_and_column(
    cell: str, tmp_path: Path
) -> None:
    path = tags_in_cells(tmp_path, "sql", cell)
    told = refused("table", path, settings={"columns": {"task_tags": "labels"}})
    expected = "t.csv:3: labels: expected tags with commas between them, or a list, got `"
    assert expected in told
    assert len(told) < 1_000


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"score": 87}, "score: expected a score from 0 to 1, got `87`"),
        ({"score": -1}, "score: expected a score from 0 to 1, got `-1`"),
        ({"score": "much"}, "score: expected a score, got `much`"),
        ({"score": "nan"}, "score: expected a score from 0 to 1, got `nan`"),
        ({"checks.unit": "maybe"}, "checks.unit: expected true or false, 1 or 0, yes or no"),
        ({f"checks.c{i}": True for i in range(51)}, "checks: expected an object of at most 50"),
    ],
)
def test_what_is_no_score_and_no_check_is_refused_by_row(
    row: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = table(tmp_path, row)
    assert f"t.csv:2: {message}" in refused("table", path)


def test_the_fields_of_a_mapping_tell_of_checks(tmp_path: Path) -> None:
    path = table(tmp_path, {"x": 1})
    for field in ("checks", "checks.", "check.unit"):
        with pytest.raises(UsageError, match=r"no such field .*, checks\.NAME"):
            collected("table", path, settings={"columns": {field: "x"}})
