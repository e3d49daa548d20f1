"""The canaries see whatever is done to a file, and are quiet if nothing is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.canaries import differences, plant, snapshot


def _same_length(home: Path) -> None:
    path = home / "docs" / "hard.txt"
    before = path.stat()
    path.write_text("BY two names\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _put_back(home: Path) -> None:
    path = home / "docs" / "hard.txt"
    before, text = path.stat(), path.read_text()
    path.rename(home / "aside")
    path.write_text(text)
    (home / "aside").unlink()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _retargeted(home: Path) -> None:
    (home / "links" / "folder").unlink()
    (home / "links" / "folder").symlink_to("../docz")


def _pipe_to_file(home: Path) -> None:
    (home / "docs" / "pipe").unlink()
    (home / "docs" / "pipe").touch()


def _used(home: Path) -> None:
    (home / "docs" / "x").touch()
    (home / "docs" / "x").unlink()


DEEDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file is gone": (lambda home: (home / ".ssh" / "id_rsa").unlink(), "gone: .*id_rsa"),
    "a file is new": (lambda home: (home / "docs" / "new").touch(), "new: .*docs/new"),
    "bytes of the same length": (_same_length, "hard.txt.*content"),
    "a right": (lambda home: (home / ".gitconfig").chmod(0o600), "gitconfig.*mode"),
    "a time": (lambda home: os.utime(home / ".gitconfig", ns=(1, 1)), "gitconfig.*mtime_ns"),
    "a second name": (
        lambda home: (home / "x").hardlink_to(home / ".gitconfig"),
        "gitconfig.*names",
    ),
    "another file in its place": (_put_back, "hard.txt.*inode"),
    "where a link leads": (_retargeted, "links/folder.*content"),
    "a kind": (_pipe_to_file, "docs/pipe.*kind"),
    "a folder that was used": (_used, "docs'.*mtime_ns"),
    "a name that is no text": (
        lambda home: os.unlink(os.fsencode(home) + b"/odd/latin-\xe9"),
        r"gone: .*latin-\\udce9",
    ),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_every_deed_is_seen_and_told(tmp_path: Path, deed: str) -> None:
    plant(tmp_path)
    before = snapshot(tmp_path)
    assert differences(before, snapshot(tmp_path)) == []
    act, told = DEEDS[deed]
    act(tmp_path)
    with pytest.raises(AssertionError, match=told):
        assert not (found := differences(before, snapshot(tmp_path))), "\n".join(found)


def test_what_is_left_out_is_not_looked_at(tmp_path: Path) -> None:
    plant(tmp_path)
    before = snapshot(tmp_path, (tmp_path / "docs",))
    (tmp_path / "docs" / "new").touch()
    assert differences(before, snapshot(tmp_path, (tmp_path / "docs",))) == []
