"""What somebody may have done to a shard before it is merged, and to a merge before its end."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import twoarm
from tests.support.run_folders import WITHOUT_PAGE, journal, records, runs
from tests.support.shards import (
    QUICK,
    changed_place,
    changed_receipt,
    merged,
    sharded,
    tasks,
    vouched,
)
from tests.support.suite_files import wait_for
from twoarm.run.parts import sealed_anew
from twoarm.run.schedule import frozen_bytes, thaw
from twoarm.run.tree import file_digest

pytestmark = pytest.mark.usefixtures("cache")


def refused(tmp_path: Path, outs: list[Path], message: str, *more: str) -> None:
    """In one line, before anything is written."""
    done = merged(tmp_path / "all", outs, *more)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "a bug in twoarm" not in done.err
    assert not (tmp_path / "all").exists()


# Where it is written.


@pytest.mark.parametrize("inside", ["all", "runs/with/all", "runs"])
def test_nothing_is_written_into_a_shard(tmp_path: Path, inside: str) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    before = sorted(outs[0].rglob("*"))
    done = merged(outs[0] / inside, outs)
    assert done.code == 2
    assert f"inside {outs[0]}, and nothing is written to a shard" in done.err
    assert sorted(outs[0].rglob("*")) == before


def test_a_report_does_not_overwrite_a_file_of_a_shard(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    receipt = (outs[0] / "receipt.json").read_bytes()
    refused(tmp_path, outs, "--junit", "--junit", str(outs[0] / "receipt.json"))
    assert (outs[0] / "receipt.json").read_bytes() == receipt


def test_a_shard_without_trials_is_not_overwritten(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 3, "--repeats", "1")
    assert runs(outs[2]) == []
    place = (outs[2] / "place.json").read_bytes()
    done = merged(outs[2], outs[:2], "--partial")
    assert done.code == 2
    assert f"{outs[2]} is not empty" in done.err
    assert (outs[2] / "place.json").read_bytes() == place


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    (tmp_path / "all").mkdir()
    assert merged(tmp_path / "all", outs).code == 0


# A merge that did not come to its end.


@pytest.mark.parametrize("step", ["_copy_runs", "_merge_files"])
def test_a_killed_merge_looks_like_nothing_else(tmp_path: Path, step: str) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    out = tmp_path / "all"
    script = WITHOUT_PAGE.replace(
        "from twoarm.commands.cli",
        "import time, twoarm.run.merge as merge\n"
        f"merge.{step} = lambda *given: (open('there', 'x').close(), time.sleep(60))\n"
        "from twoarm.commands.cli",
    )
    words = ["merge", *map(str, outs), "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-c", script, *words], cwd=tmp_path)
    try:
        wait_for(lambda: (tmp_path / "there").exists() or process.poll() is not None, 30)
        assert "a merge into it" in merged(out, outs).err
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    message = "a merge into it did not finish; remove the folder, and merge again"
    for words in (
        ["score", str(out)],
        ["run", "--status", str(out)],
        ["run", "--resume", str(out)],
        ["merge", *map(str, outs), "--out", str(out)],
        ["show", str(out), "one", "1"],
    ):
        told = twoarm(*words)
        assert told.code == 2, words
        assert message in told.err, words
    assert not (out / "collected.jsonl").exists()
    shutil.rmtree(out)
    assert merged(out, outs).code == 0
    assert not (out / "merging").exists()


def test_a_merge_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "all" / "runs"))

    monkeypatch.setattr("twoarm.run.merge._merge_files", full)
    refused(tmp_path, outs, "No space left on device; nothing was merged")
    (tmp_path / "all").mkdir()
    assert merged(tmp_path / "all", outs).code == 2
    assert list((tmp_path / "all").iterdir()) == []


# Files that somebody has changed.

RECEIPTS: dict[str, Any] = {
    "end": ["done"],
    "agent": [1],
    "digests": [1],
    "files_sha256": 3,
    "budget": 3,
    "twoarm": 7,
}


@pytest.mark.parametrize("key", RECEIPTS)
def test_a_receipt_that_is_none(tmp_path: Path, key: str) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    changed_receipt(outs[1], **{key: RECEIPTS[key]})
    refused(tmp_path, outs, f"{outs[1]}/receipt.json: ")
    # As its advice says.
    assert twoarm("run", "--resume", str(outs[1]), *QUICK).code == 0
    assert merged(tmp_path / "all", outs).code == 0


def test_a_schedule_that_was_changed(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    for out in outs:
        path = out / "schedule.json"
        path.write_text(path.read_text().replace("Do one.", "Do all."))
    refused(tmp_path, outs, f"{outs[0]}/schedule.json: part 1 is not what was frozen")


def test_a_layout_from_before_there_were_shards(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    path = outs[0] / "schedule.json"
    told = json.loads(path.read_text())
    told["schema"], (part,) = "twoarm.schedule/1", told.pop("parts")
    (candidate,) = told.pop("candidates")
    path.write_text(json.dumps(told | {"trials": part["trials"], "candidate": candidate}))
    refused(tmp_path, outs, f"{outs[0]}: schedule.json is from a version of twoarm")


def test_another_limit_for_a_trial(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    changed_place(outs[1], trial_usd=2.5)
    refused(tmp_path, outs, f"{outs[1]}: trial_usd is 2.5, but ")


def test_numbers_are_those_of_the_runs_and_not_of_a_receipt(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 3)
    changed_receipt(outs[1], done="x", spent_usd=None, runs_by_jobs=7, attempts_without_run="y",
                    doubtful_runs=4, trials=[], parts=None, costs_not_known="z")  # fmt: skip
    assert merged(tmp_path / "all", outs).code == 0
    told = json.loads((tmp_path / "all" / "receipt.json").read_text())
    assert (told["done"], told["trials"], told["runs_by_jobs"]) == (12, 12, {"1": 12})
    assert told["spent_usd"] == pytest.approx(0.12)
    (part,) = told["parts"]
    assert (part["trials"], part["done"]) == (12, 12)
    started = sorted(each["started_at_utc"] for each in records(tmp_path / "all"))
    assert (part["first_started_at_utc"], part["last_started_at_utc"]) == (started[0], started[-1])


@pytest.mark.parametrize(("number", "of"), [(0, 2), (3, 2), (-1, 2), (1, 0), (1, 10**9)])
def test_a_share_that_is_none(tmp_path: Path, number: int, of: int) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    changed_place(outs[1], shard={"number": number, "of": of})
    refused(tmp_path, outs, f"{outs[1]}/place.json: ")
    assert "place.json" in twoarm("run", "--status", str(outs[1])).err


def with_line(out: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    lines = records(out)
    change(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (out / "collected.jsonl").write_text(text)
    vouched(out)


def test_lines_that_are_not_of_its_runs(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    text = (outs[0] / "collected.jsonl").read_text()
    (other, *_), (own, *_) = records(outs[1]), records(outs[0])
    unmade = {key: value for key, value in own.items() if key != "run_id"}
    changes: list[tuple[Callable[[list[dict[str, Any]]], None], str]] = [
        (lambda lines: lines.append(other), "is not a trial of shard 1 of 2"),
        (lambda lines: lines.append(own), "is in it twice"),
        (lambda lines: lines.append(own | {"run_id": "x"}), "is not of any run in the folder"),
        (lambda lines: lines.append(unmade), "is not of any run in the folder"),
    ]
    for change, message in changes:
        with_line(outs[0], change)
        refused(tmp_path, outs, message)
        (outs[0] / "collected.jsonl").write_text(text)
        vouched(outs[0])
    with_line(outs[0], lambda lines: lines.clear())
    refused(tmp_path, outs, "does not have all of its runs")


def test_a_run_that_is_gone_is_not_done(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    shutil.rmtree(next(outs[0].glob("runs/with/*")))
    refused(tmp_path, outs, "1 of 6 trials not done")
    done = merged(tmp_path / "all", outs, "--partial")
    assert "/run.json: changed since receipt.json was written" in done.err
    # As its advice says.
    assert twoarm("run", "--resume", str(outs[0]), *QUICK).code == 0
    assert merged(tmp_path / "all", outs).code == 0


def test_a_shard_that_grew_and_was_killed_is_not_done(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    grown = twoarm("run", "--resume", str(outs[0]), "--repeats", "2", "--yes", *QUICK)
    assert grown.code == 0, grown.err
    # Before it began with what was added.
    shutil.copy(outs[0] / "schedule.json", outs[1])
    refused(tmp_path, outs, "ended before it wrote receipt.json again; finish it with twoarm run")


def test_no_file_of_a_run_comes_from_another_shard(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    own = next(outs[0].glob("runs/with/*"))
    forged = outs[1] / own.relative_to(outs[0])
    forged.mkdir()
    (forged / "run.json").write_text("forged")
    (outs[1] / "runs" / "nobody" / "x").mkdir(parents=True)
    out = tmp_path / "all"
    assert merged(out, outs).code == 0
    assert (out / own.relative_to(outs[0]) / "run.json").read_bytes() == (
        own / "run.json"
    ).read_bytes()
    assert not (out / "runs" / "nobody").exists()


def test_an_attempt_at_the_trial_of_another(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    other = next(outs[1].glob("runs/with/*"))
    shutil.copytree(other, outs[0] / ".attempts" / "with" / f"{other.name}.1")
    refused(tmp_path, outs, f"with/{other.name} is not a trial of shard 1 of 2")


def test_a_journal_with_any_time_in_it(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    with (outs[0] / "journal.jsonl").open("a") as file:
        file.write('{"at": "x", "event": "a"}\n{"at": null, "event": "b"}\n[]\n{"half')
    assert merged(tmp_path / "all", outs).code == 0
    assert {"a", "b"} <= {event["event"] for event in journal(tmp_path / "all")}


@pytest.mark.parametrize("name", ["trees.json", "doubts.json", "unchecked.json"])
def test_a_table_that_is_none(tmp_path: Path, name: str) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    (outs[1] / name).write_text('{"trees.one": [1]}')
    refused(tmp_path, outs, f"{outs[1]}/{name}: ")


# What an agent may have left.


def test_folders_deeper_than_anybody_looks(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    run = next(outs[0].glob("runs/with/*"))
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(run)
        for _ in range(1500):
            os.mkdir("deep")
            os.chdir("deep")
        Path("end").write_text("here")
    finally:
        os.fchdir(before)
        os.close(before)
    out = tmp_path / "all"
    assert merged(out, outs).code == 0
    found = subprocess.check_output(["find", str(out / "runs"), "-name", "end"], text=True)
    assert found.count("/deep") == 1500
    for folder in (out, outs[0]):
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_a_file_of_holes_takes_no_room(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    big = next(outs[0].glob("runs/with/*")) / "big"
    with big.open("wb") as file:
        file.write(b"first")
        file.seek(1 << 26)
        file.write(b"last")
        file.truncate(1 << 27)
    out = tmp_path / "all"
    assert merged(out, outs).code == 0
    copied = out / big.relative_to(outs[0])
    assert copied.stat().st_size == 1 << 27
    assert copied.stat().st_blocks < 1 << 10
    with copied.open("rb") as file:
        assert file.read(6) == b"first\0"
        file.seek(1 << 26)
        assert file.read(5) == b"last\0"


def test_neither_pipes_nor_names_do_any_harm(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    run = next(outs[0].glob("runs/with/*"))
    os.mkfifo(run / "pipe")
    (run / "\x1b[31m\n").write_text("red")
    (run / "locked").write_text("mine")
    (run / "locked").chmod(0o606)
    assert merged(tmp_path / "all", outs).code == 0
    copied = tmp_path / "all" / run.relative_to(outs[0])
    assert not (copied / "pipe").exists()
    assert (copied / "\x1b[31m\n").read_text() == "red"
    assert (copied / "locked").stat().st_mode & 0o777 == 0o606


# What a merged folder knows of its shards later on.


def test_a_missing_shard_is_missing_until_its_trials_are_run(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 3, "--repeats", "1", tasks=tasks(3))
    out = tmp_path / "some"
    more = ("--run-pages", "none", "--no-evidence")
    assert (
        "shard 2 of 3 is missing; merge again with it, or run its"
        in merged(out, [outs[0], outs[2]], "--partial").out
    )
    digests = json.loads((out / "receipt.json").read_text())["shards"]["merged"]
    done = twoarm("run", "--resume", str(out), *more, *QUICK)
    assert done.code == 0
    assert "is missing" not in done.out
    assert "is missing" not in twoarm("score", str(out), "--no-evidence", "--full").out
    # Where most of the runs are from is still in the receipt.
    told = json.loads((out / "receipt.json").read_text())["shards"]
    assert told == {"of": 3, "missing": [2], "merged": digests}


def test_another_budget_is_said(tmp_path: Path) -> None:
    limits = {"budget_usd": 12.0, "trial_usd": 0.5}
    outs = sharded(tmp_path, 2, "--repeats", "1", limits=limits)
    changed_place(outs[1], budget_usd=24.0)
    done = merged(tmp_path / "all", outs)
    assert done.code == 0
    assert (
        "caveat: shard 2 of 2 was run with a budget of $24, and shard 1 of 2 with a budget of $12"
        in (done.err)
    )
    assert json.loads((tmp_path / "all" / "receipt.json").read_text())["budget"]["usd"] == 24.0


def test_shares_of_the_budget_are_the_whole(tmp_path: Path) -> None:
    limits = {"budget_usd": 14.0, "trial_usd": 0.5}
    outs = sharded(tmp_path, 4, "--repeats", "1", limits=limits, tasks=tasks(5))
    told = [json.loads((out / "receipt.json").read_text())["budget"]["usd"] for out in outs]
    assert sum(told) == pytest.approx(14.0)
    assert len(set(told)) == 2, "five blocks in four shards"
    assert merged(tmp_path / "all", outs).code == 0
    assert json.loads((tmp_path / "all" / "receipt.json").read_text())["budget"]["usd"] == 14.0


@pytest.mark.parametrize("key", ["twoarm", "version"])
def test_another_version_of_twoarm_or_of_the_agent(tmp_path: Path, key: str) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    path = outs[1] / "schedule.json"
    there = sealed_anew(replace(thaw(path.read_bytes()), **{key: "9\x1b[31m"}))
    path.write_bytes(frozen_bytes(there))
    changed_receipt(outs[1], schedule_sha256=file_digest(str(path)))
    refused(tmp_path, outs, rf"{outs[1]}: {key} is 9\x1b[31m, but ")
