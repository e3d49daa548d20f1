"""The tags of a suite's tasks are in every record of a run, and score goes by them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import records, run
from tests.support.suite_files import suite_of

TASKS: list[dict[str, Any]] = [
    {"id": "one", "prompt": "Do it.", "acceptance_command": "true", "tags": ["sql", "slow"]},
    {"id": "two", "prompt": "Do it.", "acceptance_command": "true"},
]


def test_the_tags_of_a_task_are_in_its_records_and_in_those_of_missing_runs(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path, tasks=TASKS), tmp_path / "out"
    assert run(suite, out).code == 0
    tags = {(r["task_id"], tuple(r.get("task_tags", ()))) for r in records(out)}
    assert tags == {("one", ("sql", "slow")), ("two", ())}
    shutil.rmtree(out / "runs" / "with" / "one.1")
    (out / "collected.jsonl").unlink()
    done = twoarm("score", str(out), "--tag", "sql", "--no-evidence")
    assert "1 of 2 tasks x" in done.out
    (missing,) = (r for r in records(out) if r["failure"] == "missing")
    assert missing["task_tags"] == ["sql", "slow"]


def test_tasks_that_were_run_by_tag_are_all_of_the_report(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path, tasks=TASKS), tmp_path / "out"
    done = run(suite, out, "--tag", "slow")
    report = json.loads(done.out)
    assert (report["task_count"], report["chosen_tasks"]) == (1, None)


@pytest.mark.parametrize("tags", [[""], ["x"] * 51])
def test_a_suite_has_tags_that_records_can_have(tags: list[str], tmp_path: Path) -> None:
    suite = suite_of(tmp_path, tasks=[TASKS[1] | {"tags": tags}])
    done = twoarm("run", str(suite), "--dry-run")
    assert done.code == 2
    assert "tags" in done.err
