"""What travels between machines: it comes out as it was, and leads nowhere else."""

import hashlib
import io
import marshal
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twoarm.files.safe import OpenFolder
from twoarm.run.executors import parcel
from twoarm.run.executors.parcel import PIECE_BYTES, digesting, pack, unpack


def packed(path: Path, last: str = "") -> bytes:
    with OpenFolder(str(path.parent)) as above:
        return b"".join(pack(above, path.name, last=last))


def unpacked(text: bytes, path: Path) -> None:
    with OpenFolder(str(path.parent)) as above:
        unpack(io.BytesIO(text), above, path.name)


def look(path: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder: kind, permissions, time and content."""
    told: dict[str, tuple[object, ...]] = {}
    for each in (path, *path.rglob("*")):
        status = each.lstat()
        content: object = None
        if each.is_symlink():
            content = os.readlink(each)
        elif each.is_file():
            content = each.read_bytes()
        told[str(each.relative_to(path))] = (status.st_mode, status.st_mtime_ns, content)
    return told


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a bit of everything."""
    path = tmp_path / "tree"
    (path / "empty").mkdir(parents=True)
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "b" / "run.sh").write_text("#!/bin/sh\n")
    (path / "a" / "b" / "run.sh").chmod(0o755)
    (path / "a" / "odd\udcff\nname").write_bytes(b"\0\xff")
    (path / "large").write_bytes(os.urandom(PIECE_BYTES + 5))
    (path / "nothing").write_bytes(b"")
    (path / "link").symlink_to("a/b")
    (path / "away").symlink_to("/etc")
    (path / "broken").symlink_to("nowhere")
    for number, each in enumerate(sorted(path.rglob("*"))):
        if not each.is_symlink():
            os.utime(each, ns=(0, 1_700_000_000_000_000_000 + number * 1_000_003))
    (path / "a").chmod(0o500)
    return path


@pytest.fixture(autouse=True)
def writable(tmp_path: Path) -> Iterator[None]:
    yield
    for path in tmp_path.rglob("a"):
        path.chmod(0o700)


def test_a_folder_comes_out_as_it_was(tree: Path, tmp_path: Path) -> None:
    unpacked(packed(tree), tmp_path / "copy")
    assert look(tmp_path / "copy") == look(tree)


def test_a_file_is_a_parcel_too(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    (tmp_path / "key").chmod(0o600)
    unpacked(packed(tmp_path / "key"), tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "k"
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree" / "pipe")
    unpacked(packed(tmp_path / "tree"), tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


def test_the_last_is_the_last(tmp_path: Path) -> None:
    """Whoever sees it knows that all the others are there."""
    (tmp_path / "tree").mkdir()
    for name in "axz":
        (tmp_path / "tree" / name).write_text(f"<{name}>")
    text = packed(tmp_path / "tree", last="a")
    assert text.index(b"<x>") < text.index(b"<z>") < text.index(b"<a>")


def test_pieces_are_small_and_the_same_content_has_the_same_digest(
    tree: Path, tmp_path: Path
) -> None:
    def told() -> tuple[str, tuple[int, ...]]:
        with OpenFolder(str(tmp_path)) as above:
            return digesting(pack(above, "tree"), len)

    digest, sizes = told()
    assert told() == (digest, sizes)
    assert len(sizes) == 2
    assert max(sizes) <= 2 * PIECE_BYTES
    (tree / "nothing").write_bytes(b"1")
    assert told()[0] != digest


def test_a_parcel_replaces_what_is_there_and_follows_no_link(tmp_path: Path) -> None:
    """Somebody has laid links where files of an attempt will come."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "kept").write_text("precious")
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "kept").write_text("new")
    (tmp_path / "tree" / "kept").write_text("new")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "sub").symlink_to(tmp_path / "real")
    (tmp_path / "copy" / "kept").symlink_to(tmp_path / "real" / "kept")
    with OpenFolder(str(tmp_path / "copy")) as folder:
        unpack(io.BytesIO(packed(tmp_path / "tree")), folder, None)
    assert (tmp_path / "real" / "kept").read_text() == "precious"
    assert (tmp_path / "copy" / "sub" / "kept").read_text() == "new"
    assert not (tmp_path / "copy" / "sub").is_symlink()
    assert not (tmp_path / "copy" / "kept").is_symlink()


def entry(kind: int, name: bytes = b"", size: Any = 0, leads: bytes = b"") -> bytes:
    text = marshal.dumps((kind, name, 0o644, 0, size, leads))
    return struct.pack("<I", len(text)) + text


ENTER, LEAVE, FILE, LINK, END = range(5)


@pytest.mark.parametrize("name", [b"..", b".", b"", b"a/b", b"/etc/x", b"a\0b"])
@pytest.mark.parametrize("kind", [ENTER, FILE, LINK])
def test_no_name_leads_elsewhere(tmp_path: Path, name: bytes, kind: int) -> None:
    text = entry(ENTER, b"top") + entry(kind, name) + entry(LEAVE) + entry(LEAVE) + entry(END)
    (tmp_path / "in").mkdir()
    with pytest.raises(OSError, match="a name that leads elsewhere"):
        unpacked(text, tmp_path / "in" / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xff\xff\xff",
        entry(ENTER, b"top"),
        entry(ENTER, b"top") + entry(FILE, b"a", size=10) + b"123",
        entry(ENTER, b"top") + entry(LEAVE),
        entry(ENTER, b"top") + entry(LEAVE) + entry(LEAVE),
        entry(ENTER, b"top") + entry(7, b"a") + entry(LEAVE) + entry(END),
        entry(ENTER, b"top") + entry(FILE, b"a", size=-1) + entry(LEAVE) + entry(END),
        entry(ENTER, b"top") + entry(FILE, b"a", size="1") + entry(LEAVE) + entry(END),
        struct.pack("<I", 3) + b"abc",
        struct.pack("<I", 5) + marshal.dumps(1),
    ],
)
def test_what_is_damaged_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(OSError, match="a damaged parcel"):
        unpacked(text, tmp_path / "copy")


def test_a_single_file_is_no_folder_of_an_attempt(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    text = packed(tmp_path / "file")
    with (
        OpenFolder(str(tmp_path)) as folder,
        pytest.raises(OSError, match="no folder in it"),
    ):
        unpack(io.BytesIO(text), folder, None)


def test_a_file_that_is_cut_short_meanwhile_has_the_length_that_was_told(tmp_path: Path) -> None:
    path = tmp_path / "tree" / "log"
    path.parent.mkdir()
    path.write_bytes(b"x" * (2 * PIECE_BYTES))
    with OpenFolder(str(tmp_path)) as above:
        pieces = pack(above, "tree")
        first = next(pieces)
        os.truncate(path, 0)
        text = first + b"".join(pieces)
    unpacked(text, tmp_path / "copy")
    assert (tmp_path / "copy" / "log").stat().st_size == 2 * PIECE_BYTES


def test_folders_may_be_nested_deeper_than_a_path(tmp_path: Path) -> None:
    folder = OpenFolder(str(tmp_path)).made("tree")
    for _ in range(1500):
        with folder:
            folder = folder.made("d")
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=folder.descriptor))
    folder.close()
    text = packed(tmp_path / "tree")
    assert text.count(b"leaf") == 1
    unpacked(text, tmp_path / "copy")
    for name in ("tree", "copy"):
        with OpenFolder(str(tmp_path)) as above:
            above.remove(name)
    assert parcel._DEEPEST > 1500


def test_pieces_are_read_as_one_file() -> None:
    pieces = parcel.Pieces(iter([b"abc", b"de", b"f"]))
    assert [pieces.read(2), pieces.read(2), pieces.read(9), pieces.read(1)] == [
        b"ab",
        b"cd",
        b"ef",
        b"",
    ]
    assert pieces.digest() == hashlib.sha256(b"abcdef").hexdigest()
