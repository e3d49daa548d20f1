"""A run folder remembers that its runs were judged, and says so once it has grown."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import twoarm as package
from tests.conftest import twoarm
from tests.support.run_folders import QUICK, USAGE, run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run.ledger import RunFolder
from twoarm.run.reported import looks_before_runs

pytestmark = pytest.mark.usefixtures("cache")
TASK = {"id": "one", "prompt": "p", "acceptance_command": "test -f answer.txt"}


def notes(out: Path) -> list[dict[str, Any]]:
    path = out / "reports.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def scored(out: Path, *more: str) -> dict[str, Any]:
    result = twoarm("score", str(out), "--format", "json", "--no-evidence", *more)
    assert result.code == 0, result.err
    return dict(json.loads(result.out))


def codes(analysis: dict[str, Any]) -> set[str]:
    return {item["code"] for item in (*analysis["caveats"], *analysis["next"])}


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """One task with five repeats: enough for a verdict."""
    suite, out = suite_of(tmp_path, USAGE + f"used 100 0.5; {SOLVE}", tasks=[TASK]), tmp_path / "o"
    result = run(suite, out, "--repeats", "5", "--jobs", "2")
    assert result.code == 0, result.err
    return out


def test_a_folder_that_was_reported_on_and_then_grew_says_so(ran: Path) -> None:
    (note,) = notes(ran)
    assert note["runs"] == {"1": 10}
    assert note["verdicts"] in (["promote"], ["do not promote"])
    # The same runs are the same look, whoever asks.
    assert "looked_before" not in codes(scored(ran))
    package.score(ran, evidence=False)
    assert notes(ran) == [note]
    grow = ("run", "--resume", str(ran), "--repeats", "10", "--jobs", "2", *QUICK)
    assert twoarm(*grow).code == 0
    assert {"looked_before", "score_new_part"} <= codes(
        json.loads((ran / "analysis.json").read_text())
    )
    assert [entry["runs"] for entry in notes(ran)] == [{"1": 10}, {"1": 10, "2": 10}]
    assert "looked_before" in codes(scored(ran))
    alone = scored(ran, "--part", "2")
    assert codes(alone).isdisjoint({"looked_before", "score_new_part"})
    assert alone["effective_run_count"] == 10
    assert notes(ran)[2]["runs"] == {"2": 10}
    told = twoarm("score", str(ran), "--part", "3").err
    assert told == "twoarm: --part: no run of part 3; parts found: 1, 2\n"
    assert "expected parts such as 2 or 1,2" in twoarm("score", str(ran), "--part", "x").err
    # The run file has it as well.
    words = ("--candidate", "with", "--baseline", "without", "--part", "1,2")
    copied = scored(ran / "collected.jsonl", *words)
    assert copied["effective_run_count"] == 20
    assert copied["options"]["part"] == [1, 2]
    # So it has that somebody had looked, wherever it goes.
    file = ran.parent / "sent.jsonl"
    file.write_bytes((ran / "collected.jsonl").read_bytes())
    arms = ("--candidate", "with", "--baseline", "without")
    (told, folder) = (
        next(c["message"] for c in scored(path, *arms)["caveats"] if c["code"] == "looked_before")
        for path in (file, ran)
    )
    assert told == folder
    assert "looked_before" not in codes(scored(file, *arms, "--part", "2"))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(line["part"], line.get("looked_before")) for line in lines} == {(1, None), (2, 1)}


def test_a_folder_that_takes_no_notes_is_scored(ran: Path) -> None:
    (ran / "reports.jsonl").unlink()
    (ran / "reports.jsonl").mkdir()
    assert scored(ran)["run_count"] == 10
    (ran / "reports.jsonl").rmdir()
    (ran / "reports.jsonl").symlink_to(ran.parent / "elsewhere")
    assert scored(ran)["run_count"] == 10
    assert not (ran.parent / "elsewhere").exists()


def test_planned_looks_are_not_noted_and_half_a_note_is_none(ran: Path) -> None:
    (ran / "reports.jsonl").write_text('{"at_utc": "2026')
    assert twoarm("score", str(ran), "--looks", "5,10", "--resamples", "99").code == 0
    assert (ran / "reports.jsonl").read_text() == '{"at_utc": "2026'
    assert "looked_before" not in codes(scored(ran))
    torn, whole = (ran / "reports.jsonl").read_text().splitlines()
    assert (torn, json.loads(whole)["runs"]) == ('{"at_utc": "2026', {"1": 10})


# How many trials are made before somebody stops the run, whether they are scored then, and what the
# report on all of them says.
STOPPED = [(4, True, True), (4, False, False), (1, True, False)]


@pytest.mark.parametrize(("done", "looked", "said"), STOPPED)
def test_to_score_a_run_that_was_stopped_is_a_look(
    tmp_path: Path, done: int, looked: bool, said: bool
) -> None:
    out, made = tmp_path / "o", tmp_path / "made"
    stop = f"echo >> {made}; [ $(wc -l < {made}) -ne {done} ] || touch {out}/stop"
    suite = suite_of(tmp_path, USAGE + f"{stop}; used 100 0.5; {SOLVE}", tasks=[TASK])
    assert run(suite, out, "--repeats", "3", "--jobs", "1").code == 3
    assert notes(out) == []
    if looked:
        # One arm alone shows no decision.
        assert scored(out)["promotion"]["verdict"] == "not enough data"
        (note,) = notes(out)
        assert (note["runs"], note["decided"]) == ({"1": done}, done > 1)
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert ("looked_before" in codes(json.loads((out / "analysis.json").read_text()))) == said


def test_the_report_of_a_spent_budget_is_a_look_if_the_run_goes_on(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path, USAGE + f"used 100 0.5; {SOLVE}", tasks=[TASK]), tmp_path / "o"
    spent = ("--budget", "2", "--trial-budget", "0.5")
    assert run(suite, out, "--repeats", "3", "--jobs", "1", *spent).code == 0
    assert [note["runs"] for note in notes(out)] == [{"1": 2}]
    assert "looked_before" not in codes(scored(out))
    assert twoarm("run", "--resume", str(out), "--budget", "9", *QUICK).code == 0
    assert "looked_before" in codes(json.loads((out / "analysis.json").read_text()))


def test_the_runs_that_ended_last_came_after_a_report_on_the_others(ran: Path) -> None:
    note = {"at_utc": "2026-11-16T08:00:00Z", "runs": {"1": 4}, "verdicts": ["promote"]}
    (ran / "reports.jsonl").write_text(json.dumps(note))
    folder = RunFolder(str(ran))
    frozen, runs = folder.frozen(), list(folder.runs())
    # Whatever their numbers and names are.
    ends = {run.trial: 10 - number for number, run in enumerate(sorted(runs, key=lambda r: r.id))}
    runs = [
        msgspec.structs.replace(run, facts={"ended_at_utc": f"2026-11-16T07:{end:02}:00Z"})
        for run, end in ((run, ends[run.trial]) for run in runs)
    ]
    counts = looks_before_runs(folder, frozen, runs)
    assert {trial: int(end > 4) for trial, end in ends.items()} == counts
    planned = msgspec.structs.replace(frozen, looks=(5,))
    assert looks_before_runs(folder, planned, runs) == {}
    folder.release()
