"""What `twoarm merge` refuses: shards that are missing, not whole or of another run."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import committed, records, runs, unaccounted
from tests.support.shards import (
    QUICK,
    SAME,
    changed_place,
    merged,
    shard_run,
    sharded,
    vouched,
)
from tests.support.suite_files import suite_of
from twoarm.run.tree import commit_of

pytestmark = pytest.mark.usefixtures("cache")


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 4)
    refused = merged(tmp_path / "all", [outs[1], outs[3]])
    assert refused.code == 2
    assert "twoarm: shards 1 and 3 of 4 are missing; name every shard, or merge" in refused.err
    assert not (tmp_path / "all").exists()
    partial = twoarm("merge", str(outs[1]), str(outs[3]), "--out", str(tmp_path / "some"),
                     "--partial", "--run-pages", "none", "--full")  # fmt: skip
    assert partial.code == 0
    assert "merged 2 of 4 shards" in partial.err
    told = " ".join(partial.out.split())
    assert "shards 1 and 3 of 4 are missing; merge again with them, or run their trials" in told
    assert unaccounted(tmp_path / "some") == []
    reasons = {each.get("failure_reason") for each in records(tmp_path / "some")}
    assert reasons >= {
        "not yet run: shard 1 of 4 is missing",
        "not yet run: shard 3 of 4 is missing",
    }
    # The trials of the others can be run here as well.
    more = ("--no-evidence", "--run-pages", "none", *QUICK)
    assert twoarm("run", "--resume", str(tmp_path / "some"), *more).code == 0
    assert len(runs(tmp_path / "some")) == 12


def test_one_shard_twice(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    copy = tmp_path / "copy"
    shutil.copytree(outs[0], copy)
    refused = merged(tmp_path / "all", [outs[0], outs[1], copy])
    assert refused.code == 2
    assert f"{outs[0]} and {copy}: both are shard 1 of 2" in refused.err


def test_shards_of_other_numbers(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    suite = tmp_path / "suite" / "suite.json"
    other = tmp_path / "other"
    assert shard_run(suite, other, "3/3").code == 0
    refused = merged(tmp_path / "all", [outs[0], other])
    assert f"{other} is shard 3 of 3, but {outs[0]} is shard 1 of 2" in refused.err


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "prompt": (
        {"tasks": [{"id": "one", "prompt": "another", "acceptance_command": "true"}]},
        "tasks.one.acceptance_command is true, but test -f answer.txt",
    ),
    "limit": ({"limits": {"timeout_seconds": 21}}, "limits.timeout_seconds is 21, but 20"),
    "arm": ({"arms": {"with": {"env": {"HINT": "2"}}}}, "arms.with.env.HINT is 2, but 1"),
    "file": ({}, "digests.workspace.copy is "),
}


@pytest.mark.parametrize("what", CHANGES)
def test_another_schedule_is_refused_by_the_key_that_differs(tmp_path: Path, what: str) -> None:
    folder, once = tmp_path / "suite", ("--repeats", "1")
    assert shard_run(suite_of(folder, SAME), tmp_path / "one", "1/2", *once).code == 0
    changed, message = CHANGES[what]
    if what == "file":
        (folder / "app" / "README.md").write_text("another app\n")
    assert shard_run(suite_of(folder, SAME, **changed), tmp_path / "two", "2/2", *once).code == 0
    refused = merged(tmp_path / "all", [tmp_path / "one", tmp_path / "two"])
    assert refused.code == 2
    assert f"{tmp_path / 'two'}: {message}" in refused.err
    assert "these shards have different schedules" in refused.err


@pytest.mark.parametrize("key", ["workspace.ref", "arms.with.source.ref"])
def test_another_commit_is_refused_by_the_key_of_its_ref(tmp_path: Path, key: str) -> None:
    repo = committed(tmp_path / "repo")
    place = {"repo": str(repo), "ref": "HEAD"}
    changed: dict[str, Any] = {"workspace": {"copy": None, **place}}
    if key != "workspace.ref":
        changed = {"arms": {"with": {"source": place}}}
    suite = suite_of(tmp_path / "suite", SAME, **changed)
    commits = []
    for number, name in enumerate(("one", "two"), 1):
        committed(repo)
        done = shard_run(suite, tmp_path / name, f"{number}/2", "--repeats", "1")
        assert done.code == 0, done.err
        commits.append(commit_of(str(repo), "HEAD"))
    refused = merged(tmp_path / "all", [tmp_path / "one", tmp_path / "two"])
    assert refused.code == 2
    assert f"{tmp_path / 'two'}: {key} is {commits[1]}, but {commits[0]} in" in refused.err


def test_another_seed_or_number_of_repeats_is_another_schedule(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite", SAME)
    assert shard_run(suite, tmp_path / "one", "1/2").code == 0
    assert shard_run(suite, tmp_path / "two", "2/2", "--seed", "2").code == 0
    refused = merged(tmp_path / "all", [tmp_path / "one", tmp_path / "two"])
    assert "seed is 2, but 1 in" in refused.err


def test_an_unfinished_shard(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    # A run that was stopped.
    gone = next(outs[1].glob("runs/with/*"))
    name = f"with/{gone.name}"
    shutil.rmtree(gone)
    collected = outs[1] / "collected.jsonl"
    lines = [json.loads(line) for line in collected.read_text().splitlines()]
    for line in lines:
        if f"{line['arm']}/{line['task_id']}.{line['repeat']}" == name:
            line |= {"run_id": None, "failure": "missing"}
    collected.write_text("".join(json.dumps(line) + "\n" for line in lines))
    vouched(outs[1], end="stopped")
    refused = merged(tmp_path / "all", outs)
    assert refused.code == 2
    assert (
        "shard 2 of 2 is not finished, with 1 of 6 trials not done; finish it with twoarm run"
        in refused.err
    )
    partial = merged(tmp_path / "some", outs, "--partial")
    assert partial.code == 0, partial.err


def test_a_shard_that_was_killed_is_finished_or_left_out(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    for name in ("receipt.json", "collected.jsonl"):
        (outs[1] / name).unlink()
    told = f"{outs[1]}: shard 2 of 2 ended before it wrote receipt.json; finish it with twoarm run"
    for more in ([], ["--partial"]):
        refused = merged(tmp_path / "all", outs, *more)
        assert refused.code == 2
        assert f"{told} --resume {outs[1]}, or leave it out with --partial" in refused.err
    assert merged(tmp_path / "some", outs[:1], "--partial").code == 0
    assert twoarm("run", "--resume", str(outs[1]), *QUICK).code == 0
    assert merged(tmp_path / "all", outs).code == 0


def test_a_shard_that_was_resumed_and_killed_is_finished_or_left_out(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    attempt = next(outs[1].glob(".attempts/with"))
    shutil.copytree(next(outs[1].glob("runs/with/*")), attempt / "more")
    trial = json.loads((attempt / "more" / "trial.json").read_text())
    trial |= {"attempt": 2, "state": "running"}
    (attempt / "more" / "trial.json").write_text(json.dumps(trial))
    os.rename(attempt / "more", attempt / f"{trial['task']}.{trial['repeat']}.2")
    for more in ([], ["--partial"]):
        refused = merged(tmp_path / "all", outs, *more)
        assert refused.code == 2
        assert "shard 2 of 2 ended before it wrote receipt.json again; finish it" in refused.err


def test_a_shard_that_was_stopped_and_went_on(tmp_path: Path) -> None:
    outs = [tmp_path / f"shard{number}" for number in (1, 2)]
    stop = f"[ -e '{outs[1]}/place.json' ] && [ ! -e '{tmp_path}/told' ]"
    script = f"{SAME}\nif {stop}; then touch '{outs[1]}/stop' '{tmp_path}/told'; fi"
    agent = {"env": {"TASK": "{task_id}"}}
    suite = suite_of(tmp_path / "suite", script, agent=agent)
    assert shard_run(suite, outs[0], "1/2").code == 0
    stopped = shard_run(suite, outs[1], "2/2")
    assert (stopped.code, stopped.out) == (3, "")
    done = len(runs(outs[1]))
    assert 0 < done < 6
    refused = merged(tmp_path / "all", outs)
    assert refused.code == 2
    assert f"shard 2 of 2 is not finished, with {6 - done} of 6 trials not done" in refused.err
    some = merged(tmp_path / "some", outs, "--partial")
    assert some.code == 0, some.err
    assert len(runs(tmp_path / "some")) == 6 + done
    assert json.loads((tmp_path / "some" / "receipt.json").read_text())["end"] == "stopped"
    assert twoarm("run", "--resume", str(outs[1]), *QUICK).code == 0
    assert merged(tmp_path / "all", outs).code == 0
    assert len(runs(tmp_path / "all")) == 12
    assert unaccounted(tmp_path / "all") == []


def test_a_shard_that_is_still_running(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    import fcntl

    with (outs[0] / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = merged(tmp_path / "all", outs)
    assert refused.code == 2
    assert "a run is going on there; wait until it ends" in refused.err


def test_other_isolation(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    changed_place(outs[1], isolation="bwrap")
    refused = merged(tmp_path / "all", outs)
    assert f"{outs[1]}: isolation is bwrap, but copy in {outs[0]}" in refused.err


def test_a_whole_run_is_no_shard(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    changed_place(outs[1], shard=None)
    refused = merged(tmp_path / "all", outs)
    assert f"{outs[1]}: a whole run, not a shard" in refused.err
    assert twoarm("merge", str(tmp_path / "suite"), "--out", "x").code == 2
    assert twoarm("merge", str(outs[0])).err.startswith("twoarm: --out: missing")


def test_a_run_that_is_not_its_own(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    stray = next(outs[1].glob("runs/with/*"))
    shutil.copytree(stray, outs[0] / "runs" / "with" / stray.name)
    refused = merged(tmp_path / "all", outs)
    assert f"with/{stray.name} is not a trial of shard 1 of 2" in refused.err


# As long as it was, where nothing but a digest tells; longer, where that is all there is.
CHANGED = {
    "collected.jsonl": ('"success":true', '"success": 1 '),
    "trees.json": ("0", "1"),
    "runs/with/*/run.json": ("1", "2"),
    "runs/with/*/trial.json": ('"cost_usd": 0.01', '"cost_usd": 0.09'),
    "runs/with/*/prompt.txt": ("Do", "Do?"),
    "runs/with/*/usage.json": ("}", "} "),
}


def test_files_that_were_changed(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    for name, change in CHANGED.items():
        path = next(outs[0].glob(name))
        text = path.read_text()
        path.write_text(text.replace(*change, 1))
        assert path.read_text() != text
        refused = merged(tmp_path / "all", outs)
        assert (refused.code, refused.out) == (2, "")
        assert f"twoarm: {path}: " in refused.err
        assert "put it back, or " in refused.err
        assert not (tmp_path / "all").exists()
        path.unlink()
        assert f"twoarm: {path.parent}/" in merged(tmp_path / "all", outs, "--partial").err
        path.write_text(text)
    assert merged(tmp_path / "all", outs).code == 0


def test_records_that_were_changed_are_collected_again_if_that_is_wanted(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "1")
    path = outs[0] / "collected.jsonl"
    text = path.read_text()
    path.write_text(text.replace('"success":true', '"success":false'))
    told = f"{path}: changed since receipt.json was written; put it back, or let twoarm run"
    assert f"{told} --resume {outs[0]} collect" in merged(tmp_path / "all", outs).err
    assert twoarm("run", "--resume", str(outs[0]), *QUICK).code == 0
    assert path.read_text() == text
    assert merged(tmp_path / "all", outs).code == 0


def test_a_folder_that_is_there(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    for out in (outs[0], tmp_path / "suite"):
        before = sorted(path.name for path in out.iterdir())
        refused = merged(out, outs)
        assert refused.code == 2
        assert sorted(path.name for path in out.iterdir()) == before
