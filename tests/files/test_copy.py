"""Copying what somebody else has filled: no link is followed, wherever a folder is moved to."""

import errno
import os
from pathlib import Path

import pytest

from twoarm.files import copy
from twoarm.files.safe import OpenFolder


def copied(source: Path, target: Path) -> None:
    target.mkdir()
    with OpenFolder(str(source)) as at, OpenFolder(str(target)) as to:
        copy.copy_tree(at, to)


def test_links_stay_links_and_modes_stay(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "a" / "empty").mkdir(parents=True)
    (source / "a" / "tool.sh").write_text("exit 0")
    (source / "a" / "tool.sh").chmod(0o750)
    (source / "b").symlink_to("/nowhere")
    (source / "c").symlink_to("a")
    copied(source, target)
    assert (target / "a" / "empty").is_dir()
    assert (target / "a" / "tool.sh").read_text() == "exit 0"
    assert (target / "a" / "tool.sh").stat().st_mode & 0o777 == 0o750
    assert os.readlink(target / "b") == "/nowhere"
    assert os.readlink(target / "c") == "a"


def test_a_folder_that_is_moved_on_the_way_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, other = tmp_path / "source", tmp_path / "target", tmp_path / "other"
    (source / "a" / "b").mkdir(parents=True)
    (other / "precious").mkdir(parents=True)
    plain = copy._copy_files

    def moving(at: OpenFolder, to: OpenFolder) -> list[str]:
        found = plain(at, to)
        if at.path.endswith("/a/b"):
            (source / "a" / "b").rename(other / "b")
        return found

    monkeypatch.setattr(copy, "_copy_files", moving)
    with pytest.raises(OSError, match="moved while it was copied") as caught:
        copied(source, target)
    assert caught.value.errno == errno.ESTALE
    assert not (target / "precious").exists()
