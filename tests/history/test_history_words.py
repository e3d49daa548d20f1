"""What `log show` says of the tasks of a series and of its intervals."""

import json
from pathlib import Path

import pytest

from tests.conftest import lines, twoarm
from tests.support.history_folder import TASKS, Folder, result

FORMATS = ("text", "markdown", "html")


def said(folder: Folder, format_name: str) -> str:
    shown = folder.show("--format", format_name)
    assert shown.code == 0
    return " ".join(shown.out.replace("`", "").replace("<code>", "").replace("</code>", "").split())


def add_tagged(folder: Folder, tmp_path: Path, number: int, *words: str) -> None:
    runs = [
        each | {"task_tags": ["sql"] if each["task_id"] in TASKS[:6] else ["other"]}
        for each in result(number)
    ]
    path = tmp_path / f"tagged{number}.jsonl"
    path.write_bytes(lines(runs))
    assert twoarm("log", "add", str(path), "--to", str(folder.path), *words).code == 0


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_series_on_some_tasks_says_which(
    folder: Folder, tmp_path: Path, format_name: str
) -> None:
    add_tagged(folder, tmp_path, 0, "--tag", "sql")
    add_tagged(folder, tmp_path, 0)
    words = said(folder, format_name)
    assert words.count("6 of 8 tasks, those tagged sql") >= 1
    assert words.count("with_skelly vs. without_skelly, opencode") >= 1


def test_the_newest_result_says_how_tasks_were_chosen(folder: Folder, tmp_path: Path) -> None:
    add_tagged(folder, tmp_path, 0, "--tag", "sql")
    add_tagged(folder, tmp_path, 1, "--task", "task-[0-5]")
    words = said(folder, "text")
    assert "1 series" in words
    assert "6 of 8 tasks, those named task-[0-5]" in words
    assert "tagged" not in words


def test_a_choice_of_all_tasks_is_none(folder: Folder) -> None:
    folder.add(0, "--task", "task-*")
    (file,) = folder.files
    assert json.loads(file.read_text())["chosen"] is None
    assert "of 8 tasks" not in said(folder, "text")


@pytest.mark.parametrize("format_name", FORMATS)
def test_intervals_of_another_level_are_named(folder: Folder, format_name: str) -> None:
    folder.add(0)
    folder.add(1)
    assert "intervals hold" not in said(folder, format_name)
    folder.add(2, "--level", "0.8")
    assert "intervals hold 80% since 2026-10-03, and 95% before" in said(folder, format_name)


def test_a_result_goes_by_its_label_where_it_has_no_commit(folder: Folder) -> None:
    folder.add(0, "--label", "v1")
    words = said(folder, "text")
    assert "day label success" in words
    assert "2026-10-01 v1 " in words
    folder.add(1, "--commit", "ab" * 20, "--label", "v2")
    words = said(folder, "text")
    assert "day commit label success" in words


def test_a_result_goes_by_its_commit_where_it_has_one(folder: Folder) -> None:
    folder.add(0, "--commit", "ab" * 20, "--label", "v1")
    words = said(folder, "text")
    assert "day commit success" in words
    assert "v1" not in words
