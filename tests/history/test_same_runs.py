"""A result counts once, however its file was copied, packed or merged."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import lines, twoarm
from tests.support.history_folder import Folder, result
from tests.support.suite_files import suite_of
from twoarm.history.entry import add_entry, entry_of
from twoarm.history.overview import overview

MERGED = "f" * 40
# Runs of which only their success is known.
SILENT: dict[str, Any] = {
    key: 0 for key in result(0)[0] if key.endswith(("_seconds", "_tokens", "_usd"))
} | {"started_at_utc": None}


def add(path: Path, folder: Folder, *words: str) -> str:
    return twoarm("log", "add", str(path), "--to", str(folder.path), *words).err


def packed(path: Path) -> Path:
    target = path.with_name(f"{path.name}.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


def reordered(path: Path) -> Path:
    target = path.with_name("reordered.jsonl")
    target.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True))))
    return target


def with_another_arm(path: Path) -> Path:
    target = path.with_name("more.jsonl")
    target.write_bytes(path.read_bytes() + lines([each | {"arm": "third"} for each in result(1)]))
    return target


def with_later_zone(path: Path) -> Path:
    target = path.with_name("zone.jsonl")
    target.write_bytes(path.read_bytes().replace(b':00:00Z"', b':00:00+00:00"'))
    return target


WAYS = [packed, reordered, with_another_arm, with_later_zone]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_same_runs_in_another_file_are_not_added(
    folder: Folder, tmp_path: Path, way: Any
) -> None:
    arms = ("--candidate", "with_skelly", "--baseline", "without_skelly")
    folder.add(0, *arms)
    (file,) = folder.files
    again = add(way(tmp_path / "runs0.jsonl"), folder, *arms, "--commit", MERGED)
    assert f"{file} already has these runs; nothing was added" in again
    assert folder.files == [file]


@pytest.mark.parametrize("option", ["--keep-infra", "--level=0.9", "--promote-by=margin"])
def test_the_same_runs_judged_in_another_way_are_not_added(folder: Folder, option: str) -> None:
    folder.add(0)
    assert "already has these runs" in folder.add(0, option).err


def test_runs_that_only_say_whether_they_succeeded_may_look_alike(folder: Folder) -> None:
    assert folder.add(0, **SILENT, success=True).code == 0
    assert folder.add(1, **SILENT, success=True, check="another").code == 0
    assert len(overview(str(folder.path)).series[0].results) == 2
    assert "already has these runs" in folder.add(0, **SILENT, success=True).err


def test_runs_in_memory_are_not_taken_for_others(folder: Folder) -> None:
    for number in (0, 1):
        runs = result(number, **SILENT)
        report = package.score(runs, generated_at_utc=f"2026-10-0{number + 1}T00:00:00Z")
        add_entry(str(folder.path), entry_of(report, None, None))
    assert len(overview(str(folder.path)).series[0].results) == 2


def test_a_result_that_two_branches_added_counts_once(tmp_path: Path) -> None:
    ours, theirs = (Folder(tmp_path / name) for name in ("ours", "theirs"))
    for each in (ours, theirs):
        each.path.parent.mkdir()
    ours.fill(4)
    theirs.add(2, "--commit", MERGED)
    (other,) = theirs.files
    shutil.copy(other, ours.path)
    (shown,) = overview(str(ours.path)).series
    assert [each.time_utc[8:10] for each in shown.results] == ["01", "02", "03", "04"]
    assert len(ours.files) == 5
    (second,) = shown.second_files
    kept = next(each.name for each in ours.files if "02020202" in each.name)
    assert (second.file, second.counted_file) == (other.name, kept)
    said = f"`{other.name}` has the same runs as `{kept}` and does not count"
    assert said in " ".join(ours.show("--format", "markdown").out.split())


def test_a_copied_result_is_not_certainty(folder: Folder) -> None:
    folder.fill(5)
    steady = folder.show().out
    assert "no change of the effect is clear in 5 results" in steady
    for file in folder.files:
        entry = json.loads(file.read_text()) | {"commit": MERGED}
        file.with_name(f"copy-{file.name}").write_text(json.dumps(entry))
    assert "no change of the effect is clear in 5 results" in folder.show().out
    assert "CHANGED" not in folder.show().out


def test_results_of_older_files_count_once_if_their_inputs_are_the_same(folder: Folder) -> None:
    folder.fill(3)
    for file in folder.files:
        entry = json.loads(file.read_text())
        del entry["runs_sha256"]
        file.write_text(json.dumps(entry))
    shutil.copy(folder.files[1], folder.path / "copy.json")
    (shown,) = overview(str(folder.path)).series
    assert len(shown.results) == 3
    assert [each.file for each in shown.second_files] == ["copy.json"]


def test_parts_of_a_run_that_grew_are_other_runs(
    folder: Folder, tmp_path: Path, cache: Path
) -> None:
    suite = suite_of(tmp_path, "true", suite_id="mine")
    out = str(tmp_path / "out")
    quiet = ("--display", "quiet", "--run-pages", "none")
    assert twoarm("run", str(suite), "--repeats", "2", "--out", out, *quiet).code == 0
    assert twoarm("run", "--resume", out, "--repeats", "4", *quiet).code == 0
    for part in ("1", "2"):
        added = twoarm("log", "add", out, "--to", str(folder.path), "--part", part)
        assert added.code == 0, added.err
    (shown,) = overview(str(folder.path)).series
    assert len(shown.results) == 2
    assert "already has these runs" in add(Path(out), folder, "--part", "1")
