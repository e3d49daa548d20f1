"""Shards: how blocks are dealt, what a share of a run does, and that it shows no verdict."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.deterministic import given, settings, st
from tests.support.run_folders import USAGE, WITHOUT_PAGE, records, runs
from tests.support.shards import QUICK, SAME, shard_run, sharded, tasks
from tests.support.suite_files import present, suite_of, wait_for
from twoarm.run.schedule import arrange
from twoarm.run.shard import Shard, dealt

pytestmark = pytest.mark.usefixtures("cache")


# Dealing.


@settings(max_examples=150)
@given(
    st.integers(1, 25),
    st.integers(1, 10),
    st.integers(1, 12),
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_blocks_are_dealt_whole_and_evenly(
    names: int, repeats: int, shards: int, arms: int, seed: int
) -> None:
    blocks = arrange([f"t{n}" for n in range(names)], [f"a{n}" for n in range(arms)], repeats, seed)
    shares = dealt(blocks, shards)
    assert sorted(map(str, chain(*shares))) == sorted(map(str, blocks))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    for share in shares:
        # In the order of the whole run.
        assert share == sorted(share, key=blocks.index)
    for task in {block[0].task for block in blocks}:
        counts = [sum(block[0].task == task for block in share) for share in shares]
        assert max(counts) - min(counts) <= 2
    if repeats >= 2 * shards:
        for share in shares:
            assert len({block[0].task for block in share}) == names


@pytest.mark.parametrize(("names", "repeats", "shards", "most"), [(20, 5, 5, 6), (20, 5, 3, 7)])
def test_each_arm_is_first_about_equally_often_in_every_shard(
    names: int, repeats: int, shards: int, most: int
) -> None:
    worst = 0
    for seed in range(60):
        blocks = arrange([f"t{n}" for n in range(names)], ("a", "b"), repeats, seed)
        for share in dealt(blocks, shards):
            first = Counter(block[0].arm for block in share)
            worst = max(worst, abs(first["a"] - first["b"]))
            assert len({block[0].task for block in share}) == names
    assert worst <= most


def test_a_share_is_always_the_same() -> None:
    blocks = arrange(["x", "y", "z"], ("a", "b"), 4, 1)
    first = [[(block[0].task, block[0].repeat) for block in share] for share in dealt(blocks, 2)]
    assert sorted(first[0] + first[1]) == [(t, r) for t in "xyz" for r in (1, 2, 3, 4)]
    assert [len(share) for share in first] == [6, 6]
    assert dealt(blocks, 2) == dealt(blocks, 2)


# Running.


def test_shards_have_the_schedule_of_the_whole_run(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 3)
    whole = tmp_path / "whole"
    suite = tmp_path / "suite" / "suite.json"
    assert twoarm("run", str(suite), "--out", str(whole), "--repeats", "3", *QUICK,
                  "--no-evidence").code == 0  # fmt: skip
    texts = {(out / "schedule.json").read_bytes() for out in (*outs, whole)}
    assert len(texts) == 1
    assert sorted(chain(*map(runs, outs))) == runs(whole)
    # Two tasks and three repeats in three shards.
    assert [len(runs(out)) for out in outs] == [4, 4, 4]
    for out in outs:
        pairs = Counter(name.partition("/")[2] for name in runs(out))
        assert set(pairs.values()) == {2}, "a block is whole"


def test_a_shard_says_what_it_made_and_nothing_about_who_is_ahead(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, SAME)
    done = shard_run(suite, tmp_path / "out", "2/3")
    assert (done.code, done.out) == (0, "")
    assert "shard 2 of 3: 4 of 4 trials done (`with` 2 of 2, `without` 2 of 2)" in done.err
    assert "a shard shows no verdict; for one, twoarm merge DIR... --out ALL" in done.err
    assert not (tmp_path / "out" / "analysis.json").exists()
    assert len(records(tmp_path / "out")) == 4
    status = twoarm("run", "--status", str(tmp_path / "out")).out
    assert "out, shard 2 of 3: not running\n4 of 4 trials done" in status
    for command in ("score", "plan", "calibrate", "comment"):
        more = ("--detect", "-20%") if command == "plan" else ()
        refused = twoarm(command, str(tmp_path / "out"), *more)
        assert refused.code == 2
        assert "is shard 2 of 3, which shows no verdict" in refused.err
    assert twoarm("check", str(tmp_path / "out")).code == 0
    (shown,) = [name for name in runs(tmp_path / "out") if name.startswith("with/")][:1]
    task, _, repeat = shown.removeprefix("with/").rpartition(".")
    assert twoarm("show", str(tmp_path / "out"), task, repeat).code == 0


@pytest.mark.parametrize("shards", [1, 7])
def test_there_may_be_one_shard_or_more_than_blocks(tmp_path: Path, shards: int) -> None:
    outs = sharded(tmp_path, shards)
    assert sum(len(runs(out)) for out in outs) == 12
    if shards == 7:
        assert runs(outs[6]) == []
        assert json.loads((outs[6] / "receipt.json").read_text())["end"] == "done"


def test_a_shard_has_its_share_of_the_budget(tmp_path: Path) -> None:
    limits = {"budget_usd": 12.0, "trial_usd": 0.5}
    suite = suite_of(tmp_path, SAME, limits=limits, tasks=tasks(5))
    done = shard_run(suite, tmp_path / "out", "1/4", "--repeats", "2")
    assert done.code == 0, done.err
    # 3 of 10 blocks: 3.60 of 12 dollars.
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert receipt["budget"]["usd"] == pytest.approx(3.6)
    assert json.loads((tmp_path / "out" / "place.json").read_text())["budget_usd"] == 12.0
    status = twoarm("run", "--status", str(tmp_path / "out")).out
    assert "$0.06 of $3.60 spent (its share of $12.00)\n" in status
    assert "$0.06 of $3.60 spent\n" in done.err
    small = suite_of(tmp_path / "small", SAME, limits={"budget_usd": 1.0, "trial_usd": 0.5})
    refused = shard_run(small, tmp_path / "small-out", "1/3")
    assert refused.code == 2
    assert "shard 1 of 3 has 4 of 12 trials and so $0.33 of the budget" in refused.err


def test_a_shard_whose_share_is_spent_has_come_to_its_end(tmp_path: Path) -> None:
    script = USAGE + "echo fixed > answer.txt; used 100 0.4"
    suite = suite_of(tmp_path, script, limits={"budget_usd": 2.0, "trial_usd": 0.4})
    done = shard_run(suite, tmp_path / "out", "1/2", "--repeats", "2")
    assert done.code == 0
    assert "the budget does not cover another trial" in done.err
    assert json.loads((tmp_path / "out" / "receipt.json").read_text())["end"] == "budget"
    reasons = Counter(record.get("failure_reason") for record in records(tmp_path / "out"))
    assert len(reasons) == 2
    assert sum(reasons.values()) == 4


REFUSED: list[tuple[list[str], str]] = [
    (["--shard", "0/3"], "--shard: expected a share such as 2/5, the second of five, got `0/3`"),
    (["--shard", "4/3"], "got `4/3`"),
    (["--shard", "2"], "got `2`"),
    (["--shard", "a/b"], "got `a/b`"),
    (["--shard", "1/99999"], "got `1/99999`"),
    (["--shard", "1/2", "--looks", "3,5"], "--looks has no effect with --shard"),
    (["--shard", "1/2", "--exit-code"], "--exit-code has no effect with --shard"),
    (["--shard", "1/2", "--promote-by", "evidence"], "give it to twoarm merge"),
    (["--shard", "1/2", "--format", "json"], "give it to twoarm merge"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_a_shard_cannot_be_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    refused = twoarm("run", str(suite_of(tmp_path)), *words, "--out", str(tmp_path / "out"))
    assert refused.code == 2
    assert message in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [["--exit-code"], ["--promote-by", "evidence"], ["--junit", "x.xml"], ["--full"]]
)
def test_whoever_goes_on_with_a_shard_cannot_ask_it_for_a_verdict(
    tmp_path: Path, words: list[str]
) -> None:
    (shard,) = sharded(tmp_path, 1, "--repeats", "1")
    before = sorted(path for path in shard.rglob("*"))
    told = f"{words[0]} has no effect on a shard, which shows no verdict; give it to twoarm merge"
    resumed = twoarm("run", "--resume", str(shard), *words, *QUICK)
    assert (resumed.code, resumed.out) == (2, "")
    assert told in resumed.err
    assert sorted(path for path in shard.rglob("*")) == before
    graded = twoarm("regrade", str(shard), "--out", str(tmp_path / "graded"), *words, *QUICK)
    assert (graded.code, graded.out) == (2, "")
    assert told in graded.err
    assert runs(shard)
    assert not (tmp_path / "graded" / "receipt.json").exists()


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=b", "-c", "init.defaultBranch=main")
    return subprocess.check_output(["git", *who, "-C", folder, *words], text=True).strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(2):
        git(folder, "commit", "-q", "--allow-empty", "-m", str(number))
    git(folder, "tag", "v1")
    return folder


@pytest.mark.parametrize("ref", ["main", "v1", "main~1", "@"])
def test_a_ref_that_may_move_is_refused_with_the_commit_to_write(
    tmp_path: Path, repository: Path, ref: str
) -> None:
    place = {"copy": None, "repo": str(repository), "ref": ref}
    suite = suite_of(tmp_path / "suite", SAME, workspace=place)
    refused = shard_run(suite, tmp_path / "out", "1/2")
    assert refused.code == 2
    assert f"--shard: workspace.ref is `{ref}`" in refused.err
    assert f'write ref = "{git(repository, "rev-parse", ref)}"' in refused.err
    assert twoarm("run", str(suite), "--dry-run").code == 0, "without shards it may be anything"


@pytest.mark.parametrize("ref", ["HEAD", "HEAD^1", "HEAD~1", "HEAD^", "commit"])
def test_a_ref_that_means_the_same_everywhere_will_do(
    tmp_path: Path, repository: Path, ref: str
) -> None:
    ref = git(repository, "rev-parse", "HEAD") if ref == "commit" else ref
    place = {"copy": None, "repo": str(repository), "ref": ref}
    suite = suite_of(tmp_path / "suite", SAME, workspace=place)
    assert twoarm("run", str(suite), "--shard", "1/2", "--dry-run").code == 0


def test_the_source_of_an_arm_may_not_move_either(tmp_path: Path, repository: Path) -> None:
    arms = {"with": {"source": {"repo": str(repository), "ref": "v1"}}}
    suite = suite_of(tmp_path / "suite", SAME, arms=arms)
    refused = shard_run(suite, tmp_path / "out", "1/2")
    assert "--shard: arms.with.source.ref is `v1`" in refused.err


def test_a_dry_run_of_a_shard_is_about_its_share(tmp_path: Path) -> None:
    told = twoarm("run", str(suite_of(tmp_path)), "--shard", "1/3", "--repeats", "3", "--dry-run")
    assert told.code == 0, told.err
    assert "4 trials" in told.out
    assert "--shard 1/3" in told.out


def test_a_shard_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"{SAME}\nif [ $TASK = t1 ]; then while [ ! -e '{gate}' ]; do sleep 0.02; done; fi"
    agent = {"env": {"TASK": "{task_id}"}}
    suite = suite_of(tmp_path / "suite", script, agent=agent, tasks=tasks(3))
    out = tmp_path / "out"
    words = ("run", str(suite), "--shard", "2/2", "--out", str(out), "--repeats", "2", *QUICK)
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PAGE, *words],
        stderr=subprocess.PIPE,
        env={**os.environ},
    )
    wait_for(lambda: present(out, ".attempts/*/t1*") and process.poll() is None, 30)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    gate.touch()
    again = twoarm("run", "--resume", str(out), *QUICK)
    assert (again.code, again.out) == (0, "")
    assert "shard 2 of 2: 6 of 6 trials done" in again.err
    assert len(runs(out)) == 6
    # Which share it is cannot change.
    changed = twoarm("run", "--resume", str(out), "--shard", "1/2", *QUICK)
    assert changed.code == 2
    assert "--shard cannot change once a run has started" in changed.err


def test_shards_grow_each_by_its_share_of_what_is_added(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "2", tasks=tasks(3))
    before = [set(runs(out)) for out in outs]
    for out in outs:
        done = twoarm("run", "--resume", str(out), "--repeats", "4", "--yes", *QUICK)
        assert done.code == 0, done.err
    after = [set(runs(out)) for out in outs]
    assert [len(each) for each in after] == [12, 12]
    assert all(earlier <= later for earlier, later in zip(before, after, strict=True))
    assert not after[0] & after[1]
    assert len({(out / "schedule.json").read_bytes() for out in outs}) == 1


def test_a_shard_is_graded_again_on_its_own(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "2")
    suite = tmp_path / "suite" / "suite.json"
    suite.write_text(suite.read_text().replace("test -f answer.txt", "test -f nothing.txt"))
    graded = tmp_path / "graded"
    done = twoarm("regrade", str(outs[0]), "--out", str(graded), *QUICK)
    assert done.code == 0, done.err
    assert done.out == ""
    assert runs(graded) == runs(outs[0])
    assert {record["success"] for record in records(graded)} == {False}
    assert json.loads((graded / "place.json").read_text())["shard"] == {"number": 1, "of": 2}


def test_a_shard_is_written_in_words() -> None:
    assert str(Shard(number=2, of=5)) == "shard 2 of 5"
