"""A column of a table may name the family of a task."""

import json
from pathlib import Path

from tests.support.collect_fixtures import collected

HEAD = "task_id,success,duration_seconds,repo\n"


def test_a_column_names_the_family(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEAD}a,true,1,django\nb,true,2,7\nc,true,3,\n")
    found = collected("table", path, settings={"columns": {"family": "repo"}})
    assert [record.get("family") for record in found] == ["django", "7", None]
    plain = collected("table", path)
    assert [record.get("family") for record in plain] == [None] * 3


def test_empty_text_names_no_family(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = {"task_id": "a", "success": True, "duration_seconds": 1, "family": ""}
    path.write_text(json.dumps(row) + "\n")
    (record,) = collected("table", path)
    assert record.get("family") is None
