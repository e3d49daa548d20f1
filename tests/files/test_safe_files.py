"""Writing, moving and removing where somebody has laid links: nothing outside is ever touched."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twoarm.files.safe import OpenFolder, find, parts_of, same_place


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What nobody may touch."""
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    (folder / "file").write_text("precious")
    (folder / "deep" / "file").write_text("precious, too")
    return folder


@pytest.fixture
def inside(tmp_path: Path) -> OpenFolder:
    (tmp_path / "inside").mkdir()
    return OpenFolder(str(tmp_path / "inside"))


def unchanged(outside: Path) -> bool:
    found = {str(path.relative_to(outside)) for path in outside.rglob("*")}
    return (
        found == {"file", "deep", "deep/file"}
        and (outside / "file").read_text() == "precious"
        and (outside / "deep" / "file").read_text() == "precious, too"
    )


@pytest.mark.parametrize("path", ["", ".", "..", "a/../b", "/etc", "a//b", "./a", "a/.", "a\0b"])
def test_a_path_that_could_lead_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(OSError, match="not a plain relative path"):
        parts_of(path)


@pytest.mark.parametrize("name", ["../outside/new", "a/b", "..", "."])
def test_a_name_that_leads_elsewhere_is_refused(
    inside: OpenFolder, outside: Path, name: str
) -> None:
    Path(inside.path, "a").mkdir()
    for act in (inside.create, inside.remove, inside.made, inside.open, inside.look, inside.enter):
        with pytest.raises(OSError, match="not a plain name"):
            act(name)
    with pytest.raises(OSError, match="not a plain name"):
        inside.create(str(outside / "new"))
    with pytest.raises(OSError, match="not a plain name"):
        inside.rename("a", inside, name)
    assert unchanged(outside)


def test_a_plain_path_may_end_with_a_slash() -> None:
    assert parts_of("a/b c/-d/") == ["a", "b c", "-d"]


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: folder.within("link"),
        lambda folder: folder.within("link/deep"),
        lambda folder: folder.within("link/new", make=True),
        lambda folder: folder.parent_of("link/deep/file"),
        lambda folder: folder.made("link"),
        lambda folder: folder.enter("link"),
    ],
)
def test_no_folder_is_entered_through_a_link(
    inside: OpenFolder, outside: Path, act: Callable[[OpenFolder], object]
) -> None:
    Path(inside.path, "link").symlink_to(outside)
    with pytest.raises(NotADirectoryError, match="a link, which is not followed"):
        act(inside)
    assert unchanged(outside)


def test_a_link_on_the_way_gives_way_to_a_folder_where_that_is_asked_for(
    inside: OpenFolder, outside: Path
) -> None:
    Path(inside.path, "link").symlink_to(outside)
    with inside.within("link/deep", make=True, replace=True) as made:
        made.write("file", b"ours")
    assert unchanged(outside)
    assert Path(inside.path, "link", "deep", "file").read_text() == "ours"


@pytest.mark.parametrize("name", ["file", "file.tmp"])
@pytest.mark.parametrize("how", ["link", "dangling", "hard", "pipe", "folder"])
def test_a_file_takes_the_place_of_whatever_is_there(
    inside: OpenFolder, outside: Path, how: str, name: str
) -> None:
    lay(Path(inside.path, name), how, outside)
    inside.write("file", b"ours")
    assert inside.read("file") == b"ours"
    assert inside.names() == ["file"]
    assert unchanged(outside)


def lay(path: Path, how: str, outside: Path) -> None:
    """Something in the way."""
    match how:
        case "link":
            path.symlink_to(outside / "file")
        case "dangling":
            path.symlink_to(outside / "new")
        case "hard":
            path.hardlink_to(outside / "file")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            (path / "deep").mkdir(parents=True)
            (path / "deep" / "link").symlink_to(outside)


@pytest.mark.parametrize("how", ["link", "dangling", "hard", "pipe"])
def test_a_file_is_added_to_only_if_it_is_nobody_elses(
    inside: OpenFolder, outside: Path, how: str
) -> None:
    lay(Path(inside.path, "journal"), how, outside)
    with pytest.raises(OSError, match="not a file of its own"):
        inside.open_own("journal", append=True)
    assert unchanged(outside)
    descriptor = inside.open_own("other", append=True)
    os.write(descriptor, b"one")
    os.close(descriptor)
    assert inside.read("other") == b"one"


@pytest.mark.parametrize("how", ["link", "pipe"])
def test_nothing_but_a_file_is_read(inside: OpenFolder, outside: Path, how: str) -> None:
    lay(Path(inside.path, "file"), how, outside)
    with pytest.raises(OSError, match="not a file of its own"):
        inside.read("file")


@pytest.mark.parametrize("how", ["link", "dangling", "hard", "pipe", "folder"])
def test_what_is_removed_is_the_name_and_not_what_it_leads_to(
    inside: OpenFolder, outside: Path, how: str
) -> None:
    lay(Path(inside.path, "it"), how, outside)
    Path(inside.path, "to").symlink_to(outside)
    inside.remove("it")
    inside.remove("to")
    inside.remove("never there")
    assert inside.names() == []
    assert unchanged(outside)


def test_folders_without_rights_are_removed_as_well(inside: OpenFolder) -> None:
    below = Path(inside.path, "a", "b")
    below.mkdir(parents=True)
    (below / "file").touch()
    below.chmod(0)
    below.parent.chmod(0o500)
    inside.remove("a")
    assert inside.names() == []


def test_a_folder_that_moves_while_it_is_removed_is_left_alone(
    inside: OpenFolder, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(inside.path, "a", "b").mkdir(parents=True)
    whole: Any = os.scandir

    def moved(at: int) -> Any:
        below = Path(inside.path, "a", "b")
        if below.exists():
            below.rename(outside / "b")
        return whole(at)

    # On its way back up it would be among what is outside.
    with monkeypatch.context() as patched:
        calls = iter([whole, moved])
        patched.setattr(os, "scandir", lambda at: next(calls, whole)(at))
        with pytest.raises(OSError, match="moved while it was removed"):
            inside.remove("a")
    assert (outside / "b").exists()
    (outside / "b").rmdir()
    assert unchanged(outside)


def test_what_is_mounted_inside_is_not_removed(tmp_path: Path) -> None:
    if os.getuid() or shutil.which("unshare") is None:
        assert not os.environ.get("CI"), "this test needs root"
        pytest.skip("mounting takes root")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    (tmp_path / "inside" / "tree" / "mounted").mkdir(parents=True)
    script = f"""
import subprocess
from twoarm.files.safe import OpenFolder
# The same file system, so that only the mount tells it from a folder.
subprocess.run(["mount", "--bind", "outside", "inside/tree/mounted"], check=True)
try:
    OpenFolder({str(tmp_path / "inside")!r}).remove("tree")
except OSError as error:
    print(error.strerror)
try:
    OpenFolder({str(tmp_path / "inside")!r}).parent_of("tree/mounted/file", make=True, replace=True)
except OSError as error:
    print(error.strerror)
"""
    told = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == [
        "a mount point, which is not removed",
        "a mount point, behind which nothing is written",
    ]
    assert (tmp_path / "outside" / "file").exists()


def test_a_folder_is_the_same_whatever_its_path_comes_to_mean(
    inside: OpenFolder, outside: Path, tmp_path: Path
) -> None:
    with OpenFolder(str(tmp_path)) as above:
        assert same_place(above, "inside", inside)
        Path(inside.path).rename(tmp_path / "elsewhere")
        Path(inside.path).symlink_to(outside)
        assert not same_place(above, "inside", inside)
    inside.write("file", b"ours")
    assert unchanged(outside)
    assert (tmp_path / "elsewhere" / "file").read_text() == "ours"


def test_a_glob_finds_files_and_follows_no_link(inside: OpenFolder, outside: Path) -> None:
    root = Path(inside.path)
    for name in ("a/x.log", "a/b/x.log", "a/b/c/y.log", "x.log", "a/b/.x.log"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "a" / "link").symlink_to(outside)
    (root / "a" / "f.log").symlink_to(outside / "file")
    (root / "folder.log").mkdir()
    assert find(inside, "a/**/x.log") == ["a/b/x.log", "a/x.log"]
    assert find(inside, "**/y.log") == ["a/b/c/y.log"]
    assert find(inside, "*.log") == ["x.log"]
    assert find(inside, "a/*/*") == ["a/b/.x.log", "a/b/x.log"]
    assert find(inside, "a/link/*") == []
    assert find(inside, "a/f.log") == []
