"""`twoarm merge`: shards into one run folder like any other."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import journal, records, runs, unaccounted
from tests.support.shards import QUICK, SAME, merged, shard_run, sharded, tasks, timeless
from tests.support.suite_files import suite_of

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize(
    ("names", "repeats", "shards"), [(3, 2, 3), (3, 3, 4), (2, 2, 5), (5, 1, 2)]
)
def test_merged_shards_are_the_whole_run_trial_by_trial(
    tmp_path: Path, names: int, repeats: int, shards: int
) -> None:
    outs = sharded(tmp_path, shards, "--repeats", str(repeats), tasks=tasks(names))
    whole, out = tmp_path / "whole", tmp_path / "all"
    suite = str(tmp_path / "suite" / "suite.json")
    plain = ("--out", str(whole), "--repeats", str(repeats), "--no-evidence", *QUICK)
    assert twoarm("run", suite, *plain).code == 0
    done = merged(out, outs[::-1])
    assert done.code == 0, done.err
    assert f"merged {shards} of {shards} shards" in done.err
    assert runs(out) == runs(whole)
    assert timeless(out) == timeless(whole)
    assert unaccounted(out) == []
    for name in ("schedule.json", "trees.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    for path in whole.glob("runs/*/*/*"):
        assert (out / path.relative_to(whole)).is_file()
    score = ("--no-evidence", "--format", "json")
    assert json.loads(twoarm("score", str(out), *score).out)["decision"]


def test_everything_of_the_shards_is_there(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 3)
    out = tmp_path / "all"
    assert merged(out, outs).code == 0
    for shard in outs:
        for path in (*shard.glob("runs/**/*"), *shard.glob(".attempts/*/*/*")):
            if path.is_file():
                copied = out / path.relative_to(shard)
                assert copied.read_bytes() == path.read_bytes()
                assert copied.stat().st_mode == path.stat().st_mode
    times = [event["at"] for event in journal(out)]
    assert times == sorted(times)
    assert journal(out)[0]["shard"] == 3
    late = tmp_path / "late"
    assert merged(late, outs[::-1]).code == 0
    assert journal(late) == journal(out)
    assert {event["shard"] for event in journal(out)} == {1, 2, 3}
    receipt = json.loads((out / "receipt.json").read_text())
    own = [json.loads((shard / "receipt.json").read_text()) for shard in outs]
    assert (receipt["end"], receipt["done"], receipt["trials"]) == ("done", 12, 12)
    assert receipt["spent_usd"] == pytest.approx(sum(each["spent_usd"] for each in own))
    assert receipt["runs_by_jobs"] == {
        str(own[0]["runs_by_jobs"] and next(iter(own[0]["runs_by_jobs"]))): 12
    }
    files = receipt["files_sha256"]
    assert files == dict.fromkeys(files, "") | {
        **own[0]["files_sha256"],
        **own[1]["files_sha256"],
        **own[2]["files_sha256"],
        "collected.jsonl": sha256((out / "collected.jsonl").read_bytes()).hexdigest(),
    }
    listed = receipt["shards"]
    assert (listed["of"], listed["missing"]) == (3, [])
    assert [each["receipt_sha256"] for each in listed["merged"]] == [
        sha256((shard / "receipt.json").read_bytes()).hexdigest() for shard in outs
    ]


def test_a_merged_folder_is_a_run_folder_like_any_other(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "2")
    out = tmp_path / "all"
    assert merged(out, outs).code == 0
    assert "8 of 8 trials done" in twoarm("run", "--status", str(out)).out
    assert twoarm("show", str(out), "one", "1").code == 0
    assert twoarm("check", str(out)).code == 0
    more = ("--repeats", "3", "--yes", "--no-evidence", "--run-pages", "none", *QUICK)
    grown = twoarm("run", "--resume", str(out), *more)
    assert grown.code == 0, grown.err
    assert len(runs(out)) == 12
    suite = tmp_path / "suite" / "suite.json"
    suite.write_text(suite.read_text().replace("test -f answer.txt", "test -s answer.txt"))
    graded = twoarm("regrade", str(out), "--out", str(tmp_path / "graded"), "--no-evidence", *QUICK)
    assert graded.code == 0, graded.err
    assert len(runs(tmp_path / "graded")) == 12


def test_shards_that_were_graded_again_can_be_merged_if_all_were(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "2")
    suite = tmp_path / "suite" / "suite.json"
    suite.write_text(suite.read_text().replace("test -f answer.txt", "test -f nothing.txt"))
    graded = [tmp_path / f"graded{number}" for number in range(2)]
    for source, target in zip(outs, graded, strict=True):
        assert twoarm("regrade", str(source), "--out", str(target), *QUICK).code == 0
    # As if its suite had not changed since.
    shutil.copytree(graded[1], tmp_path / "plain")
    (tmp_path / "plain" / "regraded.json").unlink()
    mixed = merged(tmp_path / "mixed", [graded[0], tmp_path / "plain"])
    assert mixed.code == 2
    assert "not graded the same way; regrade all shards" in mixed.err
    assert merged(tmp_path / "all", graded).code == 0
    assert {record["success"] for record in records(tmp_path / "all")} == {False}


def test_the_tags_of_tasks_are_in_the_lines_of_missing_shards(tmp_path: Path) -> None:
    tagged = [task | {"tags": ["sql"]} for task in tasks(2)]
    outs, out = sharded(tmp_path, 2, tasks=tagged), tmp_path / "some"
    options = ("--partial", "--run-pages", "none", "--no-evidence")
    assert twoarm("merge", str(outs[0]), "--out", str(out), *options).code == 0
    assert {record["failure"] == "missing" for record in records(out)} == {True, False}
    assert {tuple(record["task_tags"]) for record in records(out)} == {("sql",)}


def test_a_shard_without_a_trial_in_what_was_added_is_whole(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "2", tasks=tasks(1))
    for out in outs:
        assert twoarm("run", "--resume", str(out), "--repeats", "3", "--yes", *QUICK).code == 0
    before = [(out / "collected.jsonl").stat().st_mtime_ns for out in outs]
    for out in outs:
        assert twoarm("check", str(out)).code == 0
    assert [(out / "collected.jsonl").stat().st_mtime_ns for out in outs] == before
    done = merged(tmp_path / "all", outs)
    assert done.code == 0, done.err
    assert runs(tmp_path / "all") == sorted(
        f"{arm}/t0.{n}" for arm in ("with", "without") for n in (1, 2, 3)
    )


def test_a_shard_whose_budget_was_spent_is_finished(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite", SAME.replace("0.01", "0.4"),
                     limits={"budget_usd": 4.0, "trial_usd": 0.4})  # fmt: skip
    outs = [tmp_path / f"out{number}" for number in (1, 2)]
    for number, out in enumerate(outs, 1):
        assert shard_run(suite, out, f"{number}/2").code == 0
    done = merged(tmp_path / "all", outs, "--exit-code")
    assert done.code == 3
    assert json.loads((tmp_path / "all" / "receipt.json").read_text())["end"] == "budget"
    assert unaccounted(tmp_path / "all") == []


def test_a_link_in_a_shard_is_never_followed(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    run = next(outs[0].glob("runs/with/*"))
    (run / "workspace").mkdir()
    (run / "workspace" / "link").symlink_to(secret)
    (run / "pipe").symlink_to("/dev/zero")
    out = tmp_path / "all"
    done = merged(out, outs)
    assert done.code == 0, done.err
    copied = out / run.relative_to(outs[0]) / "workspace" / "link"
    assert copied.is_symlink()
    (outs[0] / "journal.jsonl").unlink()
    (outs[0] / "journal.jsonl").symlink_to(secret)
    refused = merged(tmp_path / "again", outs)
    assert refused.code == 2


def test_what_was_made_anew_elsewhere_is_said(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    path = outs[1] / "receipt.json"
    told = json.loads(path.read_text())
    told["digests"]["trees.one"] = "0" * 64
    told["agent"]["sha256"] = "1" * 64
    path.write_text(json.dumps(told))
    done = merged(tmp_path / "all", outs)
    assert done.code == 0
    assert "caveat: shard 2 of 2: not the same as in shard 1 of 2: `trees.one`; its" in done.err
    assert "the agent's program is not the same file as in shard 1 of 2" in done.err
    receipt = json.loads((tmp_path / "all" / "receipt.json").read_text())
    assert receipt["shards"]["merged"][1]["other_digests"] == {"trees.one": "0" * 64}


def test_several_arms_in_shards(tmp_path: Path) -> None:
    arms = {"with": {"env": {"HINT": "1"}}, "other": {"env": {"HINT": "2"}}, "without": {}}
    outs = sharded(tmp_path, 2, "--repeats", "2", arms=arms)
    done = merged(tmp_path / "all", outs)
    assert done.code == 0, done.err
    assert len(runs(tmp_path / "all")) == 12
    assert (tmp_path / "all" / "comparison.json").exists()
    assert merged(tmp_path / "x", outs, "--exit-code").code == 2


def test_the_verdict_of_the_whole_is_the_exit_code(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2, "--repeats", "5", tasks=tasks(1))
    assert merged(tmp_path / "all", outs, "--exit-code").code in (0, 1)
