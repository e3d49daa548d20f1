"""Parquet files that claim more than they hold, or hold more than they claim."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.collect_fixtures import (
    changed,
    collected,
    collection,
    copied,
    left_out,
    only,
    refusal,
    sidecar,
)
from twoarm.programs import folder as folder_module
from twoarm.programs.table import parquet

MEASURE = """
import resource, sys
from twoarm.programs.table import parquet
from twoarm.collect.gather import ArmPath, gather
from twoarm.errors import BadRunsError
import pyarrow.parquet
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with gather("table", [ArmPath(arm="a", path=sys.argv[1])]) as found:
        print(found.runs, "runs")
except BadRunsError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def measured(path: Path) -> tuple[str, int]:
    """What a collection says, and the MiB that its memory grew by at most."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    said, grown = done.stdout.rstrip().rsplit("\n", 1)
    return said, int(grown)


def bomb(path: Path, kind: str) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    rows = {"delta": 300, "page": 1}.get(kind, 1200)
    text = "x" * 2_000_000
    # Made without ever holding the text more than once, but for the kind that cannot be.
    codes = pyarrow.array([0] * rows, pyarrow.int32())
    task = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array([text]))
    columns: dict[str, Any] = {
        "task_id": pyarrow.repeat(text[: 2**20], rows) if kind == "delta" else task,
        "success": pyarrow.array([True] * rows),
        "duration_seconds": pyarrow.array([1.0] * rows),
        "repeat": pyarrow.array(range(1, rows + 1)),
    }
    options: dict[str, Any] = {"use_dictionary": True}
    if kind == "nested":
        columns["task_id"] = pyarrow.array([str(n) for n in range(rows)])
        columns["note"] = pyarrow.StructArray.from_arrays([task], names=["text"])
    if kind == "list":
        columns["task_id"] = pyarrow.array([str(n) for n in range(rows)])
        ends = pyarrow.array([0] + [rows] * rows, pyarrow.int32())
        columns["note"] = pyarrow.ListArray.from_arrays(ends, task)
    if kind == "page":
        columns["task_id"] = pyarrow.array(["x" * (300 * 2**20)])
        options = {"use_dictionary": False}
    if kind == "delta":
        options = {"use_dictionary": False, "column_encoding": {"task_id": "DELTA_BYTE_ARRAY"}}
    write_table(pyarrow.table(columns), path, compression="zstd", write_statistics=False, **options)


@pytest.mark.parametrize("kind", ["text", "nested", "delta", "page"])
def test_a_small_parquet_file_that_unpacks_to_a_long_text_is_refused(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    bomb(path, kind)
    assert path.stat().st_size < 64 * 2**10
    said, grown = measured(path)
    assert "unpacks to more than 268,435,456 bytes" in said
    assert grown < 500


def test_a_list_in_a_parquet_row_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    bomb(path, "list")
    said, grown = measured(path)
    assert said == "1200 runs"
    assert grown < 200


# Sizes that a Parquet file only claims -----------------------------------------------------------


def varint(number: int, width: int = 0) -> bytes:
    """A number as Parquet spells it, in at least so many bytes."""
    left, made = number * 2, bytearray()
    while left > 127 or len(made) + 1 < width:
        made.append(left & 127 | 128)
        left >>= 7
    return bytes([*made, left])


def test_the_sizes_that_a_parquet_file_claims_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetFile, write_table

    path = tmp_path / "t.parquet"
    texts = pyarrow.array(["x" * 8_000_000, "t"])
    # No row has the long text, so that nothing but its page tells that it is there.
    task = pyarrow.DictionaryArray.from_arrays(pyarrow.array([1], pyarrow.int32()), texts)
    columns = {"task_id": task, "success": [True], "duration_seconds": [1.0]}
    write_table(pyarrow.table(columns), path, compression="zstd", write_statistics=False)
    group = ParquetFile(path).metadata.row_group(0)
    text = path.read_bytes()
    for size in {group.total_byte_size, group.column(0).total_uncompressed_size}:
        text = text.replace(varint(size), varint(100, len(varint(size))))
    path.write_bytes(text)
    assert ParquetFile(path).metadata.row_group(0).total_byte_size == 100
    assert only("table", path)["task_id"] == "t"
    monkeypatch.setattr(folder_module, "LEAST_UNPACKED", 2**20)
    assert "unpacks to more than 1,0" in refusal("table", path)
    assert "it may be a decompression bomb" in refusal("table", path)


SIZE = b"\x15" + varint(0) + b"\x15" + varint(2**20) + b"\x15"


@pytest.mark.parametrize(
    ("header", "wrong"),
    [
        (SIZE + varint(0) + b"\x05" + varint(2) + varint(1), "is damaged"),
        (SIZE + varint(0) + b"\x05" + varint(2**16 + 2) + varint(1), "is damaged"),
        (SIZE + varint(2**32), "without a size"),
        (SIZE + varint(0) + b"\x19\x05", "is damaged"),
        (SIZE + varint(0) + b"\x1c" * 9, "is damaged"),
        (SIZE + b"\xff" * 20, "is damaged"),
        (b"\x15", "without a size"),
    ],
    ids=["two sizes", "a field beyond 16 bits", "32 bits", "a list", "deep", "endless", "cut off"],
)
def test_a_parquet_page_whose_size_can_be_read_in_two_ways_is_refused(
    header: bytes, wrong: str
) -> None:
    chunk = SimpleNamespace(
        data_page_offset=0, has_dictionary_page=False, total_compressed_size=100
    )
    with pytest.raises(ValueError, match=wrong):
        list(parquet._pages(io.BytesIO(header + b"\0"), chunk))


def test_the_pages_of_every_kind_of_parquet_file_are_found(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    rows = [
        {"task_id": str(n), "success": n % 2 == 0, "duration_seconds": n / 7, "note": {"a": [n]}}
        for n in range(5000)
    ]
    table = pyarrow.Table.from_pylist(rows)
    path = tmp_path / "t.parquet"
    for options in (
        {},
        {"compression": "none", "use_dictionary": False},
        {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 700},
        {"compression": "brotli", "data_page_size": 100, "write_page_index": True},
        {"write_page_checksum": True, "write_statistics": True, "version": "1.0"},
    ):
        write_table(table, path, **options)
        assert len(collected("table", path)) == 5000


def test_a_parquet_file_of_lists_has_no_rows(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    write_table(pyarrow.table({"task_id": [["a"]]}), path)
    assert refusal("table", path) == f"{path}: every column holds lists"


def test_categories_of_any_type_are_read_from_parquet(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    columns = {
        "task_id": pyarrow.array(["t", None, "u"]).dictionary_encode(),
        "repeat": pyarrow.array([1, 2, 3]).dictionary_encode(),
        "success": [True, True, False],
        "duration_seconds": [1.0, 1.0, 1.0],
    }
    write_table(pyarrow.table(columns), path)
    with collection("table", path, skip_bad=True) as found:
        kept = [json.loads(line) for line in found.lines()]
        assert [str(problem) for problem in found.problems] == [
            f"{path}:2: no task_id; column `task_id` is empty"
        ]
    assert [(one["task_id"], one["repeat"]) for one in kept] == [("t", 1), ("u", 3)]


@pytest.mark.parametrize("task", [None, 3, ["a"], {"b": 1}])
def test_a_log_of_inspect_whose_task_has_no_name_is_told(task: Any, tmp_path: Path) -> None:
    folder = copied("inspect/ok", tmp_path)
    changed(folder / "ok.json", lambda log: log["eval"].update(task=task))
    text = refusal("inspect", folder, settings={"task_names": True})
    assert text.endswith("sample 1: no task name in eval.task, which `task_names=` needs")


def test_a_resumed_run_that_cannot_be_read_is_a_problem_of_the_run_that_resumed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = copied("codex/ok", tmp_path / "good")
    bad = copied("codex/nousage", tmp_path / "bad")
    (bad / "earlier").mkdir()
    sidecar(bad, resumed_from="earlier")
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if path.endswith("earlier"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    text = left_out("codex", good, bad)
    assert text == (
        f"{bad}/run.json: resumed_from: {bad}/earlier: cannot be read: Permission denied"
    )
