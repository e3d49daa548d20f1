"""The family of a task goes from the suite into the records of its runs."""

from pathlib import Path

import pytest

from tests.support.run_folders import records, run
from tests.support.suite_files import suite_of

pytestmark = pytest.mark.usefixtures("cache")


def test_records_name_the_family_of_their_task(tmp_path: Path) -> None:
    tasks = [
        {"id": name, "prompt": "p", "acceptance_command": "test -f answer.txt"}
        for name in ("one", "two", "three")
    ]
    tasks[0]["family"] = tasks[1]["family"] = "sql"
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, tasks=tasks), out)
    assert result.code == 0, result.err
    named = {(record["task_id"], record.get("family")) for record in records(out)}
    assert named == {("one", "sql"), ("two", "sql"), ("three", None)}


def test_an_empty_family_is_refused(tmp_path: Path) -> None:
    task = {"id": "one", "prompt": "p", "acceptance_command": "true", "family": ""}
    result = run(suite_of(tmp_path, tasks=[task]), tmp_path / "out")
    assert result.code == 2
    assert "family" in result.err
