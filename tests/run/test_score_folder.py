"""A run folder as what is scored: its arms, its seed, and every run that was made in it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import both, lines, twoarm
from tests.support.collect_fixtures import set_keys
from tests.support.pilots import pilot_runs
from tests.support.run_folders import USAGE, committed, records, run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run.ledger import RunFolder

pytestmark = pytest.mark.usefixtures("cache")

PRICES = "[x]\ninput = 1\noutput = 1\ncache_read = 1\ncache_write = 1\n"


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """Two tasks and two repeats, with a seed that is not the default; arms that no name tells."""
    out = tmp_path / "out"
    script = USAGE + f"used 100 0.5; {SOLVE}"
    result = run(suite_of(tmp_path, script), out, "--repeats", "2", "--seed", "7")
    assert result.code == 0, result.err
    return out


def scored(*words: str | Path) -> dict[str, Any]:
    result = twoarm("score", *map(str, words), "--format", "json", "--no-evidence")
    assert result.code == 0, result.err
    return dict(json.loads(result.out))


def without_time(analysis: dict[str, Any]) -> dict[str, Any]:
    return analysis | {"generated_at_utc": None}


def test_a_run_folder_knows_its_arms_and_its_seed(ran: Path) -> None:
    analysis = scored(ran)
    assert without_time(analysis) == without_time(json.loads((ran / "analysis.json").read_text()))
    assert (analysis["candidate"], analysis["baseline"]) == ("with", "without")
    assert analysis["options"]["seed"] == 7
    assert analysis["inputs"][0]["path"] == str(ran / "collected.jsonl")
    # What is given comes first.
    assert scored(ran, "--candidate", "without", "--baseline", "with")["candidate"] == "without"
    again = twoarm("score", str(ran), "--seed", "1", "--format", "json")
    assert json.loads(again.out)["options"]["seed"] == 1


def test_a_run_folder_says_what_was_tested_and_a_copied_run_file_what_it_carries(
    tmp_path: Path,
) -> None:
    suite = suite_of(
        tmp_path,
        USAGE + f"used 100 0.5; {SOLVE}",
        suite_id="greetings",
        description="Does a hint help?",
        workspace={"copy": None, "repo": "app"},
        arms={"with": {"source": {"repo": "app"}, "build_commands": ["true"]}},
    )
    committed(tmp_path / "app")
    out = tmp_path / "out"
    assert run(suite, out).code == 0
    frozen = json.loads((out / "schedule.json").read_text())
    tested = scored(out)["tested"]
    assert tested["suites"] == [
        {
            "suite_id": "greetings",
            "description": "Does a hint help?",
            "agent": "command",
            "version": None,
            "commit": frozen["origin"],
            "sources": {"with": frozen["sources"]["with"]},
            "regraded_at_utc": None,
        }
    ]
    assert tested == json.loads((out / "analysis.json").read_text())["tested"]
    first = twoarm("score", str(out), "--full").out.splitlines()[0]
    assert first.startswith(f"suite `greetings`; `command`; commit `{frozen['origin'][:12]}`; ")
    shutil.copy(out / "collected.jsonl", tmp_path / "copied.jsonl")
    arms = ("--candidate", "with", "--baseline", "without")
    copied = scored(tmp_path / "copied.jsonl", *arms)
    assert copied["tested"] == tested | {"suites": []}


def test_a_folder_that_is_copied_has_no_commit(ran: Path) -> None:
    assert scored(ran)["tested"]["suites"][0]["commit"] is None


def test_python_scores_a_run_folder_as_well(ran: Path) -> None:
    report = package.score(ran)
    assert (report.candidate, report.baseline, report.options.seed) == ("with", "without", 7)
    assert package.score(str(ran), seed=1).options.seed == 1
    assert package.score([ran], package.Options(level=0.9)).candidate == "with"
    assert package.score(ran, package.Options(candidate="without", baseline="with")).candidate == (
        "without"
    )


def test_folders_and_files_are_one_data_set(ran: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.jsonl"
    arms = {"with_skelly": "with", "without_skelly": "without"}
    more.write_bytes(lines([one | {"arm": arms[one["arm"]]} for one in both("other")]))
    analysis = scored(more, ran)
    assert (analysis["task_count"], analysis["run_count"]) == (3, 10)
    assert [given["records"] for given in analysis["inputs"]] == [2, 8]
    assert analysis["candidate"] == "with"


def test_folders_of_other_candidates_are_compared_with_their_one_baseline(
    ran: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for name in ("schedule.json", "collected.jsonl"):
        other.mkdir(exist_ok=True)
        text = (ran / name).read_text().replace('"with"', '"newer"')
        (other / name).write_text(
            "".join(f"{line}\n" for line in text.splitlines() if '"arm":"without"' not in line)
            if name == "collected.jsonl"
            else text
        )
    result = twoarm("score", str(ran), str(other), "--no-evidence")
    assert result.out.splitlines()[:2] == [
        "suite `fake`; `command`",
        "2 candidates vs. without (baseline)",
    ], result.err


@pytest.mark.parametrize("how", ["no file", "an old file", "half a file"])
def test_runs_that_the_run_file_lacks_are_read_from_the_folder(ran: Path, how: str) -> None:
    path = ran / "collected.jsonl"
    before = path.read_bytes()
    if how == "no file":
        path.unlink()
    elif how == "an old file":
        path.write_bytes(b"".join(before.splitlines(keepends=True)[:-1]))
    else:
        path.write_bytes(before[:-100])
    assert scored(ran)["run_count"] == 8
    assert path.read_bytes() == before


def test_a_run_file_that_has_every_run_stays_as_it_is(ran: Path) -> None:
    path = ran / "collected.jsonl"
    made = path.stat().st_mtime_ns
    # What is no longer there has been counted, and is not lost.
    shutil.rmtree(ran / "runs" / "with")
    (ran / "place.json").unlink()
    assert scored(ran)["run_count"] == 8
    assert path.stat().st_mtime_ns == made


def test_what_a_runner_is_at_is_not_yet_run(ran: Path) -> None:
    attempt = ran / ".attempts" / "with" / "one.2.1"
    attempt.parent.mkdir(exist_ok=True, parents=True)
    shutil.move(ran / "runs" / "with" / "one.2", attempt)
    set_keys(attempt / "trial.json", state="running")
    (ran / "collected.jsonl").unlink()
    runner = RunFolder(str(ran))
    runner.hold("0" * 12)
    try:
        analysis = scored(ran)
    finally:
        runner.release()
    assert [arm["missing"] for arm in analysis["trials"]] == [1, 0]
    assert {one["failure_reason"] for one in records(ran) if one["failure"]} == {"not yet run"}
    (step,) = (step for step in analysis["next"] if step["code"] == "wait_for_run")
    assert step["message"] == (
        "wait until the run has ended: 1 of 8 planned runs is missing; "
        f"`twoarm run --status {ran}` says how far it is"
    )
    # Its runner has died since.
    (ran / "collected.jsonl").unlink()
    assert scored(ran)["next"][0]["message"].startswith("finish the run with `twoarm run --resume")
    assert {one["failure_reason"] for one in records(ran) if one["failure"]} == {
        "interrupted: the runner died before it ended"
    }


def test_costs_that_nobody_can_know_again_are_not_made_up(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, SOLVE, limits={"prices": "prices.toml"})
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    out = tmp_path / "out"
    assert run(suite, out).code == 0
    (out / "collected.jsonl").unlink()
    prices.write_text(PRICES.replace("1", "2"))
    told = twoarm("score", str(out)).err
    assert told == (
        f"twoarm: {prices}: the price table has changed, and without it nobody knows what the runs "
        f"in {out} cost that are not in collected.jsonl yet; put it back\n"
    )
    prices.unlink()
    assert "prices.toml: the price table is not there, and" in twoarm("score", str(out)).err
    prices.write_text(PRICES)
    assert scored(out)["run_count"] == 4


def test_a_schedule_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "schedule.json").write_text("{}")
    told = twoarm("score", str(tmp_path)).err
    assert told.startswith(f"twoarm: {tmp_path}/schedule.json: ")
    assert len(told.splitlines()) == 1


def test_check_plan_and_calibrate_take_a_run_folder_and_its_arms_and_seed(ran: Path) -> None:
    runs = ran / "collected.jsonl"
    more = [record | {"arm": record["arm"].split("_")[0]} for record in pilot_runs(6, 4)]
    runs.write_bytes(runs.read_bytes() + lines(more))
    known = ("--candidate", "with", "--baseline", "without", "--seed", "7")
    for command in (
        ("plan", "--detect", "-20%"),
        ("calibrate", "--by", "relabel", "--trials", "100"),
    ):
        of_folder, of_file = (
            twoarm(*command, *map(str, words), "--format", "json")
            for words in ((ran,), (runs, *known))
        )
        assert (of_folder.code, of_folder.err) == (0, "")
        assert json.loads(of_folder.out)["seed"] == 7
        assert without_time(json.loads(of_folder.out)) == without_time(json.loads(of_file.out))
    runs.unlink()
    checked = twoarm("check", str(ran))
    assert checked.out == "no problems: 8 runs, 2 tasks, arms `with`, `without`\n"
    assert runs.exists()


def test_a_library_call_that_reads_run_files_alone_names_the_one_in_the_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "schedule.json").write_text("{}")
    said = f"{tmp_path}: a run folder, not a run file; name {tmp_path}/collected.jsonl"
    with pytest.raises(package.InputError, match=said):
        package.read(tmp_path)
