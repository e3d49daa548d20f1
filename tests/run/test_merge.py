"""`twoarm merge`: shards into one run folder like any other, and whatever does not fit refused."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result, twoarm
from tests.run.test_shards import QUICK, SAME, shard_run, sharded, tasks
from tests.support.run_folders import journal, records, runs, unaccounted
from tests.support.suite_files import suite_of

pytestmark = pytest.mark.usefixtures("cache")
# What differs from machine to machine and from day to day.
TIMED = ("duration_seconds", "started_at_utc", "ended_at_utc")


def merged(out: Path, shards: list[Path], *more: str) -> Result:
    return twoarm("merge", *map(str, shards), "--out", str(out), "--run-pages", "none",
                  "--no-evidence", *more)  # fmt: skip


def timeless(out: Path) -> list[dict[str, Any]]:
    return [{key: each[key] for key in each if key not in TIMED} for each in records(out)]


@pytest.mark.parametrize(
    ("names", "repeats", "shards"), [(4, 3, 3), (4, 5, 5), (5, 3, 4), (2, 2, 5), (7, 1, 3)]
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
    assert (
        receipt["run_json_sha256"]
        == own[0]["run_json_sha256"] | own[1]["run_json_sha256"] | own[2]["run_json_sha256"]
    )
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
    assert "not graded alike; grade all shards again" in mixed.err
    assert merged(tmp_path / "all", graded).code == 0
    assert {record["success"] for record in records(tmp_path / "all")} == {False}


# What is refused.


def test_the_tags_of_tasks_are_in_the_lines_of_missing_shards(tmp_path: Path) -> None:
    tagged = [task | {"tags": ["sql"]} for task in tasks(2)]
    outs, out = sharded(tmp_path, 2, tasks=tagged), tmp_path / "some"
    options = ("--partial", "--run-pages", "none", "--no-evidence")
    assert twoarm("merge", str(outs[0]), "--out", str(out), *options).code == 0
    assert {record["failure"] == "missing" for record in records(out)} == {True, False}
    assert {tuple(record["task_tags"]) for record in records(out)} == {("sql",)}


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 4)
    refused = merged(tmp_path / "all", [outs[1], outs[3]])
    assert refused.code == 2
    assert "twoarm: shards 1 and 3 of 4 are missing; give all of them" in refused.err
    assert not (tmp_path / "all").exists()
    partial = twoarm("merge", str(outs[1]), str(outs[3]), "--out", str(tmp_path / "some"),
                     "--partial", "--run-pages", "none", "--full")  # fmt: skip
    assert partial.code == 0
    assert "merged 2 of 4 shards" in partial.err
    told = " ".join(partial.out.split())
    assert "2 of 4 shards are missing: 1 and 3; merge all of them" in told
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
    assert f"{other} is shard 3 of 3, and {outs[0]} is shard 1 of 2" in refused.err


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "prompt": (
        {"tasks": [{"id": "one", "prompt": "another", "acceptance_command": "true"}]},
        "tasks.one.acceptance_command is true, and test -f answer.txt",
    ),
    "limit": ({"limits": {"timeout_seconds": 21}}, "limits.timeout_seconds is 21, and 20"),
    "arm": ({"arms": {"with": {"env": {"HINT": "2"}}}}, "arms.with.env.HINT is 2, and 1"),
    "file": ({}, "origin is "),
}


@pytest.mark.parametrize("what", CHANGES)
def test_another_schedule_is_refused_by_the_key_that_differs(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "suite"
    assert shard_run(suite_of(folder, SAME), tmp_path / "one", "1/2").code == 0
    changed, message = CHANGES[what]
    if what == "file":
        (folder / "app" / "README.md").write_text("another app\n")
    assert shard_run(suite_of(folder, SAME, **changed), tmp_path / "two", "2/2").code == 0
    refused = merged(tmp_path / "all", [tmp_path / "one", tmp_path / "two"])
    assert refused.code == 2
    assert f"{tmp_path / 'two'}: {message}" in refused.err
    assert "these are shards of different schedules" in refused.err


def test_another_seed_or_number_of_repeats_is_another_schedule(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "suite", SAME)
    assert shard_run(suite, tmp_path / "one", "1/2").code == 0
    assert shard_run(suite, tmp_path / "two", "2/2", "--seed", "2").code == 0
    refused = merged(tmp_path / "all", [tmp_path / "one", tmp_path / "two"])
    assert "seed is 2, and 1 in" in refused.err


def test_an_unfinished_shard(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    receipt = outs[1] / "receipt.json"
    text = receipt.read_text()
    # A run that was stopped.
    gone = next(outs[1].glob("runs/with/*"))
    name = f"with/{gone.name}"
    shutil.rmtree(gone)
    told = json.loads(text)
    told["end"] = "stopped"
    del told["run_json_sha256"][name]
    receipt.write_text(json.dumps(told))
    collected = outs[1] / "collected.jsonl"
    lines = [json.loads(line) for line in collected.read_text().splitlines()]
    for line in lines:
        if f"{line['arm']}/{line['task_id']}.{line['repeat']}" == name:
            line |= {"run_id": None, "failure": "missing"}
    collected.write_text("".join(json.dumps(line) + "\n" for line in lines))
    refused = merged(tmp_path / "all", outs)
    assert refused.code == 2
    assert "1 of 6 trials are not done; finish it with twoarm run --resume" in refused.err
    partial = merged(tmp_path / "some", outs, "--partial")
    assert partial.code == 0, partial.err
    receipt.unlink()
    refused = merged(tmp_path / "all", outs)
    assert "shard 2 of 2 did not come to its end; finish it with twoarm run --resume" in refused.err


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
    assert f"shard 2 of 2 has not ended: {6 - done} of 6 trials are not done" in refused.err
    some = merged(tmp_path / "some", outs, "--partial")
    assert some.code == 0, some.err
    assert len(runs(tmp_path / "some")) == 6 + done
    assert json.loads((tmp_path / "some" / "receipt.json").read_text())["end"] == "stopped"
    assert twoarm("run", "--resume", str(outs[1]), *QUICK).code == 0
    assert merged(tmp_path / "all", outs).code == 0
    assert len(runs(tmp_path / "all")) == 12
    assert unaccounted(tmp_path / "all") == []


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


def test_a_shard_that_is_still_running(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    import fcntl

    with (outs[0] / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = merged(tmp_path / "all", outs)
    assert refused.code == 2
    assert "a run is going on there; wait for its end" in refused.err


def changed_place(out: Path, **changed: Any) -> None:
    path = out / "place.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def test_other_isolation(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    changed_place(outs[1], isolation="bwrap")
    refused = merged(tmp_path / "all", outs)
    assert f"{outs[1]}: isolation is bwrap, and copy in {outs[0]}" in refused.err


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
    assert f"with/{stray.name} is no trial of shard 1 of 2" in refused.err


@pytest.mark.parametrize("name", ["run.json", "stdout.txt", "usage.json", "trial.json"])
def test_files_that_were_changed(tmp_path: Path, name: str) -> None:
    outs = sharded(tmp_path, 2)
    path = next(outs[0].glob(f"runs/with/*/{name}"))
    # As long as it was, where nothing but a digest tells; longer, where that is all there is.
    text = path.read_text()
    path.write_text(text.replace("1", "2", 1) if name == "run.json" else f"{text} ?")
    refused = merged(tmp_path / "all", outs)
    assert refused.code == 2
    assert name in refused.err
    assert not (tmp_path / "all").exists()


def test_a_folder_that_is_there(tmp_path: Path) -> None:
    outs = sharded(tmp_path, 2)
    for out in (outs[0], tmp_path / "suite"):
        before = sorted(path.name for path in out.iterdir())
        refused = merged(out, outs)
        assert refused.code == 2
        assert sorted(path.name for path in out.iterdir()) == before


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
    assert "caveat: shard 2 of 2: not the same as in shard 1 of 2: `trees.one`; what" in done.err
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
    outs = sharded(tmp_path, 2, "--repeats", "5")
    assert merged(tmp_path / "all", outs, "--exit-code").code in (0, 1)
