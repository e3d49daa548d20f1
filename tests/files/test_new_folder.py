"""A new folder of files: whole, or not there."""

from pathlib import Path
from typing import Any

import pytest

from twoarm.errors import OutputError
from twoarm.files.write import write_new_folder


@pytest.mark.parametrize("there", [False, True])
def test_a_new_folder_is_whole_or_not_there(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "new"
    if there:
        target.mkdir()
    half: Any = {"a/b.txt": b"b", "c.txt": None}
    with pytest.raises(TypeError):
        write_new_folder(str(target), half)
    assert sorted(path.name for path in tmp_path.rglob("*")) == (["new"] if there else [])
    write_new_folder(str(target), {"a/b.txt": b"b", "c.txt": b"c"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b.txt", "c.txt", "new"]
    assert (target / "a" / "b.txt").read_bytes() == b"b"


def test_a_new_folder_where_nobody_may_write_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file/new: cannot be written: Not a directory"):
        write_new_folder(str(tmp_path / "file" / "new"), {"a": b""})
