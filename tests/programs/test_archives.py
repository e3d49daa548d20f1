"""Archives that are collected: however they were packed, unless they are bombs, cut or foreign."""

import zipfile
from pathlib import Path

import pytest

from tests.support.collect_fixtures import collected, collection, refusal
from tests.support.inspect_archives import EVAL, archive, members
from twoarm.files.zstd import zipfile as zstd_zipfile
from twoarm.programs import folder as folder_module
from twoarm.programs.inspect import archive as inspect_archive


@pytest.mark.parametrize(
    "method",
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zstd_zipfile.ZIP_ZSTANDARD],
)
def test_an_archive_is_read_however_it_was_packed(method: int, tmp_path: Path) -> None:
    archive(tmp_path / "log.eval", members(EVAL), method)
    assert collected("inspect", tmp_path) == collected("inspect", EVAL)


def test_the_fixture_is_packed_as_inspect_packs() -> None:
    with zstd_zipfile.ZipFile(EVAL) as found:
        assert {member.compress_type for member in found.infolist()} == {93}


@pytest.mark.parametrize("name", ["header.json", "samples/sum-1_epoch_1.json"])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zstd_zipfile.ZIP_ZSTANDARD])
def test_a_zip_bomb_is_refused(name: str, method: int, tmp_path: Path) -> None:
    bomb = members(EVAL) | {name: b" " * (inspect_archive.LARGEST_MEMBER + 1)}
    path = tmp_path / "log.eval"
    archive(path, bomb, method)
    assert path.stat().st_size < 2**20
    text = refusal("inspect", path)
    assert text.startswith(f"{path}: {name} unpacks to more than an archive may: 256 MiB")


def test_many_members_together_are_a_bomb_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LEAST_UNPACKED", 2**16)
    monkeypatch.setattr(folder_module, "LARGEST_RATIO", 1)
    bomb = members(EVAL) | {f"samples/{n}.json": b" " * 2**15 for n in range(9)}
    path = tmp_path / "log.eval"
    archive(path, bomb)
    assert "it may be a decompression bomb" in refusal("inspect", path)


def test_a_size_that_the_archive_claims_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("header.json", b" " * (inspect_archive.LARGEST_MEMBER + 1))
    text = path.read_bytes()
    size = (inspect_archive.LARGEST_MEMBER + 1).to_bytes(4, "little")
    path.write_bytes(text.replace(size, (100).to_bytes(4, "little")))
    refusal("inspect", path)


def test_an_encrypted_or_foreign_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    archive(path, {"readme.txt": b"hello"})
    assert "not a log of Inspect: it has neither a header nor a journal" in refusal("inspect", path)
    text = bytearray(EVAL.read_bytes())
    # The flag of encryption, in the entries of the directory.
    start = 0
    while (start := text.find(b"PK\x01\x02", start)) >= 0:
        text[start + 8] |= 1
        start += 4
    path.write_bytes(text)
    assert "cannot be unpacked" in refusal("inspect", path)


def test_an_archive_without_a_header_is_read_from_its_journal(tmp_path: Path) -> None:
    found = members(EVAL)
    found.pop("header.json")
    archive(tmp_path / "log.eval", found)
    with collection("inspect", tmp_path) as made:
        assert made.runs == 6
        assert "log_unfinished" in [caveat.code for caveat in made.caveats]


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes(EVAL.read_bytes()[:-100])
    assert "damaged archive" in refusal("inspect", path)


def test_a_bad_sample_does_not_stop_the_others(tmp_path: Path) -> None:
    found = members(EVAL)
    found["samples/sum-1_epoch_2.json"] = b"{"
    path = tmp_path / "log.eval"
    archive(path, found)
    assert refusal("inspect", path) == (
        f"{path}:samples/sum-1_epoch_2.json: not JSON: input data was truncated"
    )
    with collection("inspect", path, skip_bad=True) as made:
        assert made.runs == 5
        assert len(made.problems) == 1


def test_a_parquet_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    rows = [{"task_id": "t" * 10_000 + str(n)} for n in range(100)]
    write_table(pyarrow.Table.from_pylist(rows), path, compression="zstd")
    monkeypatch.setattr(folder_module, "LEAST_UNPACKED", 1000)
    monkeypatch.setattr(folder_module, "LARGEST_RATIO", 1)
    assert "it may be a decompression bomb" in refusal("table", path)
