"""What the texts of a suite name: paths in its folder, whole paths elsewhere, patterns."""

import os
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.suite_files import suite_of
from twoarm.run.shown import absolute_in, around_patterns, named_in
from twoarm.run.suite_file import read_suite


def test_whole_paths_are_found_in_texts(tmp_path: Path) -> None:
    for path in ("a b/c", "a/b", "d"):
        (tmp_path / path).mkdir(parents=True)

    def names(text: str) -> list[str]:
        paths = absolute_in([text.replace("~", str(tmp_path))], [])
        return [os.path.relpath(path, tmp_path) for path in paths]

    assert names("python3 '~/a b/c' ~/a/b") == ["a b/c", "a/b"]
    assert names("X=~/a b/c:~/a/b; ls ~/d/*.py") == ["a b/c", "a/b", "d"]
    assert names("~/missing ~/a/b/../b ~/a bx") == ["a/b", "a"]
    assert names("https://a/b / //") == []


def test_what_a_text_names_in_a_folder(tmp_path: Path) -> None:
    suite = tmp_path / "my suite"
    (suite / "a b").mkdir(parents=True)
    (suite / "x.json").touch()
    (suite / "a b" / "c").touch()
    (tmp_path / "my suite 2").mkdir()

    def names(text: str) -> list[str]:
        return [os.path.relpath(path, suite) for path in named_in([text], str(suite))]

    assert names(f"--config={suite}/x.json") == ["x.json"]
    assert names(f"{suite}/a b/c") == ["a b/c"]
    assert names(f'{{"mcp": "{suite}/x.json", "more": "{suite}/a b"}}') == ["x.json", "a b"]
    assert names(f"{suite}/x.json:{suite}/a b") == ["x.json", "a b"]
    assert names(str(suite)) == names(f"{suite}/") == names(f"cd {suite}; ls") == ["."]
    assert names(f"sh {suite}/'x.json'") == names(f"sh '{suite}'/x.json") == ["x.json"]
    assert names(f"-I{suite}/a b @{suite}/x.json file://{suite}/x.json") == ["a b", *["x.json"] * 2]
    # Neither the end of another path,
    for before in (
        "/box",
        "..",
        "{build}",
        "$HOME",
        "${HOME}",
        "$(pwd)",
        "a/*",
        "https://example.org",
    ):
        assert names(f"{before}{suite}/x.json") == []
    # nor a folder above what is missing, nor another folder.
    assert names(f"{suite}/a b/missing") == names(f"{suite}/missing") == []
    assert names(f"{suite} 2") == ["."]
    assert names(f"{suite}2/x.json") == []


PATTERNS = {
    "for t in {suite}/checks/*.sh; do sh $t; done": ["checks"],
    "sh {suite}/checks/$(echo a).sh": ["checks"],
    "sh {suite}/checks/a.s?": ["checks"],
    "sh {suite}/che'cks'/a.sh": ["."],
    "sh {suite}/ch*/a.sh": ["."],
    "V=1; sh {suite}/checks-$V/a.sh": ["."],
    "sh {suite}/g\\rade.sh": ["."],
    "sh {suite}$PART": ["."],
    "sh {suite}/grade.sh": [],
    "sh \"{suite}/grade.sh\" '{suite}/missing.sh'": ["."],
    "sh {suite}/missing.sh": [],
    "sh {suite}2/*.sh": [],
}


@pytest.mark.parametrize("text", PATTERNS)
def test_patterns_are_in_the_innermost_folder_that_is_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "suite" / "checks").mkdir(parents=True)
    (tmp_path / "suite2").mkdir()
    (tmp_path / "suite" / "grade.sh").touch()
    folder = str(tmp_path / "suite")
    paths = around_patterns([text.replace("{suite}", folder)], folder)
    assert [os.path.relpath(path, folder) for path in paths] == PATTERNS[text]


@pytest.mark.parametrize(
    ("command", "graders"),
    [
        ("for t in {suite}/checks/*.sh; do sh $t || exit 1; done", ["checks"]),
        ("sh {suite}/checks/a.sh", ["checks/a.sh"]),
        ("cd {suite} && sh checks/a.sh", []),
        ("sh {suite}/ch*/a.sh", []),
    ],
)
def test_what_grades_by_a_pattern_is_frozen_or_told(
    tmp_path: Path, cache: Path, command: str, graders: list[str]
) -> None:
    folder = tmp_path / "suite"
    (folder / "checks").mkdir(parents=True)
    (folder / "checks" / "a.sh").write_text("test -f answer.txt\n")
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": command}]
    suite = suite_of(folder, tasks=tasks)
    checked = read_suite(str(suite))
    assert checked.graders(checked.tasks[0]) == [str(folder / name) for name in graders]
    told = twoarm("run", str(suite), "--dry-run").out
    warning = "acceptance of task one names the whole folder of the suite, which is not frozen"
    assert (warning in told) is (not graders)
