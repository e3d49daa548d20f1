"""docs/harbor.md: its suite is the example, and every command of it is run with a stand-in."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.documents import DOCS, ROOT, bash, blocks
from tests.support.harbor_suites import stand_in, task_folder
from tests.support.run_folders import records

DOCUMENT = DOCS / "harbor.md"
EXAMPLE = ROOT / "examples" / "cluster" / "harbor.toml"
# The arm with the skill solves its task, if the skill is where the suite says.
SKILLED = """begin
case "$asked" in
*"--agent claude-code --skill "*) [ -e "${asked##*--skill }/greet/SKILL.md" ] && reward 1.0 ;;
*"--agent claude-code"*) reward 0.0 ;;
esac
echo '{"steps": [{"source": "user", "message": "Do it."}]}' > "$at/agent/trajectory.json"
"""


@pytest.fixture
def here(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page speaks of: a dataset, a skill, the suite, and Harbor on PATH."""
    folder = tmp_path / "here"
    for name in ("fix-dates", "paginate"):
        task_folder(folder / "dataset", name)
    (folder / "skills" / "greet").mkdir(parents=True)
    (folder / "skills" / "greet" / "SKILL.md").write_text("Be kind.\n")
    (folder / "harbor.toml").write_text(EXAMPLE.read_text())
    stand_in(tmp_path / "bin", SKILLED)
    programs = (str(tmp_path / "bin"), str(Path(sys.executable).parent))
    monkeypatch.setenv("PATH", os.pathsep.join((*programs, os.environ["PATH"])))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key-at-all")
    return folder


def test_the_suite_of_the_page_is_the_example() -> None:
    assert blocks(DOCUMENT, "toml") == [EXAMPLE.read_text()]


def test_every_command_of_the_page_works(here: Path) -> None:
    scripts = blocks(DOCUMENT, "sh")
    assert len(scripts) == 2
    for script in scripts:
        bash(script, here)
    for out in ("all", "merged"):
        found = {(run["arm"], run["success"], run["score"]) for run in records(here / out)}
        assert found == {("with_skill", True, 1.0), ("without_skill", False, 0.0)}
