"""Where workspaces are: below no instructions that an agent would read."""

import os
import tempfile
from pathlib import Path

import pytest

from twoarm.errors import InputError
from twoarm.run.place import choose_place


@pytest.mark.parametrize(
    "name", ["CLAUDE.md", "AGENTS.md", ".claude/CLAUDE.md", ".claude/rules/a.md"]
)
def test_workspaces_are_below_no_instructions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    (home / name).parent.mkdir(parents=True)
    (home / name).write_text("be kind")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(tempfile, "tempdir", str(other))
    assert choose_place("0123456789ab", {}).path.startswith(str(other))


def test_settings_of_the_user_are_no_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text("{}")
    assert choose_place("0123456789ab", {}).path.startswith(str(tmp_path))


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(InputError, match="belongs to another user"):
        choose_place("0123456789ab", {"TWOARM_CACHE": str(tmp_path)})
