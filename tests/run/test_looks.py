"""Looks that end a run: when they are taken, what they say, and what is left of them."""

import json
import random
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import twoarm as library
from tests.conftest import Result, twoarm
from tests.support.loop_in_memory import Simulation, terms
from tests.support.run_folders import USAGE, journal, records, runs
from tests.support.suite_files import suite_of
from twoarm.run.attempted import Attempted
from twoarm.run.looks import EarlyEnd, LooksTaken, early_end_told, saved
from twoarm.run.schedule import Trial

pytestmark = pytest.mark.usefixtures("cache")

FREE = terms(budget_usd=None)


def cheap(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
    return "run", 0.1, rng.lognormvariate(0, 0.5)


# The loop.


@pytest.mark.parametrize("slots", [1, 4, 16])
def test_no_trial_starts_before_the_look_that_comes_before_it(slots: int) -> None:
    done = Simulation(FREE, cheap, repeats=6, slots=slots, looks=(2, 3, 6))
    assert done.end == "done"
    # Every trial of its repeats, and nothing else: six tasks in two arms.
    assert done.looked == [(2, 24), (3, 36)]
    assert len(done.folder.published) == 72
    assert done.taken.taken == (2, 3)


def test_a_look_that_knows_the_answer_ends_the_run() -> None:
    done = Simulation(FREE, cheap, repeats=6, looks=(2, 3, 6), judge=lambda _, look: look == 3)
    assert done.end == "decided"
    assert len(done.folder.published) == 36
    # It is written down with the receipt, and not before.
    assert done.taken == LooksTaken(taken=(2,))


def test_what_is_given_up_does_not_hold_up_a_look_and_stays_given_up() -> None:
    def broken(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        bad = attempted.trial.id in ("a/t0.1", "b/t1.5")
        return ("infra" if bad else "run"), 0.1, 1.0

    done = Simulation(FREE, broken, repeats=6, looks=(2, 6), retries=0)
    assert done.looked == [(2, 23)]
    assert done.end == "done"
    later = Simulation(FREE, cheap, repeats=6, looks=(2, 6), taken=LooksTaken(taken=(2,)))
    begun = {attempted.repeat for attempted in later.folder.begun}
    assert (later.looked, begun) == ([], {3, 4, 5, 6})


def test_a_look_waits_for_what_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("twoarm.run.loop.time.monotonic", lambda: clock[0])

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr("twoarm.run.loop.time.sleep", sleep)

    def late(attempted: Attempted, rng: random.Random) -> tuple[str, float | None, float]:
        return ("infra" if attempted.attempt == 1 and attempted.repeat == 2 else "run"), 0.1, 1.0

    done = Simulation(FREE, late, tasks=1, repeats=4, slots=1, retry_seconds=30.0, looks=(2, 4))
    assert (done.end, done.looked) == ("done", [(2, 4)])


def test_a_request_to_stop_is_heard_before_a_look() -> None:
    def enough(simulation: Simulation) -> Any:
        return "finish" if len(simulation.folder.published) >= 24 else "go"

    done = Simulation(FREE, cheap, repeats=6, looks=(2, 6), stop_request=enough)
    assert (done.end, done.looked) == ("stopped", [])


def test_a_budget_that_ends_before_a_look_takes_none() -> None:
    done = Simulation(terms(budget_usd=2.0), cheap, repeats=6, looks=(2, 6))
    assert (done.end, done.looked) == ("budget", [])


def test_runs_of_several_candidates_say_why_for_each() -> None:
    trials = tuple(Trial(task="t", repeat=r, arm=arm) for r in range(1, 5) for arm in "abc")
    frozen: Any = type("Frozen", (), {"trials": trials, "repeats": 4})
    ended = EarlyEnd(after=3, because={"a": "candidate better", "b": "futility"})
    assert saved(frozen, ended) == 3
    assert early_end_told(frozen, ended) == (
        "stopped after 3 of 4 repeats: `a`: candidate better; `b`: a verdict was unlikely; "
        "3 of 12 runs saved"
    )
    alike = EarlyEnd(after=3, because={"a": "futility", "b": "futility"})
    assert early_end_told(frozen, alike).startswith(
        "stopped after 3 of 4 repeats: a verdict was unlikely; 3 of"
    )


# Real runs with a scripted agent.

FASTER = (
    USAGE
    + """
echo fixed > answer.txt
if [ -n "$HINT" ]; then used $((300 + $$ % 9)) 0.1; else sleep 0.05; used $((900 + $$ % 9)) 0.1; fi
"""
)
ALIKE = (
    USAGE
    + """
echo fixed > answer.txt
used $((900 + $$ % 200)) 0.1
"""
)
TASKS = [
    {"id": f"t{number}", "prompt": "p", "acceptance_command": "test -f answer.txt"}
    for number in range(6)
]
# Six tasks leave a wide range of success.
WIDE = ("--margin-success", "0.4")
PLAIN = ("--display", "lines", "--run-pages", "none", "--jobs", "4")


def start(suite: Path, out: Path, *more: str) -> Result:
    return twoarm("run", str(suite), "--out", str(out), *PLAIN, *more)


def analysis(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "analysis.json").read_text())
    return found


def test_a_clear_difference_ends_a_run_at_the_first_look_that_can_be_promoted(
    tmp_path: Path,
) -> None:
    suite, out = suite_of(tmp_path / "s", FASTER, tasks=TASKS), tmp_path / "out"
    result = start(suite, out, "--looks", "2,5,6", "--exit-code", *WIDE)
    assert result.code == 0, result.err
    ended = "stopped after 5 of 6 repeats: candidate better"
    assert f"twoarm: {ended}; 12 of 72 runs saved\n" in result.err
    assert f"{ended}, 12 of 72 runs saved" in " ".join(result.out.split())
    assert len(runs(out)) == 60
    # The same as `twoarm.look` says of the same runs.
    assert {tuple(record["planned_looks"]["looks"]) for record in records(out)} == {(2, 5, 6)}
    assert len(records(out)) == 60
    found = analysis(out)
    looks = found["evidence"]["looks"]
    assert (looks["stop"], looks["stopped"], looks["saved_runs"]) == (
        "candidate better", "candidate better", 12,
    )  # fmt: skip
    assert (found["promotion"]["verdict"], found["options"]["promote_by"]) == (
        "promote", "evidence",
    )  # fmt: skip
    assert "stop" not in [step["code"] for step in found["next"]]
    again = library.look(
        out / "collected.jsonl", margin_success=0.4, candidate="with", baseline="without"
    )
    assert (again.after, again.stop) == (5, "candidate better")
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["end"] == "decided"
    assert receipt["looks"] == {
        "planned": [2, 5, 6], "taken": [2, 5], "saved_runs": 12,
        "because": {"with": "candidate better"},
    }  # fmt: skip
    # What a look said is told nowhere before the end.
    assert [event["after"] for event in journal(out) if event["event"] == "look"] == [2, 5]
    assert {key for event in journal(out) if event["event"] == "look" for key in event} == {
        "at", "event", "after",
    }  # fmt: skip
    status = twoarm("run", "--status", str(out)).out
    assert status.splitlines()[-1] == f"{ended}; 12 of 72 runs saved"
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/*")}
    resumed = twoarm("run", "--resume", str(out), *PLAIN, "--exit-code")
    assert resumed.code == 0, resumed.err
    assert f"twoarm: {ended}; 12 of 72 runs saved; nothing is left to run\n" in resumed.err
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/*")} == before
    assert analysis(out)["evidence"]["looks"] == looks


def test_equal_arms_end_for_futility_or_run_to_the_end(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path / "s", ALIKE, tasks=TASKS), tmp_path / "out"
    result = start(suite, out, "--looks", "2,3,4", "--repeats", "4")
    assert result.code == 0, result.err
    receipt = json.loads((out / "receipt.json").read_text())
    last = receipt["looks"]["taken"][-1]
    assert len(runs(out)) == 12 * last
    for look in (2, 3):
        if look > last:
            break
        seen = [record for record in records(out) if record["repeat"] <= look]
        stop = library.look(seen, candidate="with", baseline="without").stop
        ended_here = receipt["end"] == "decided" and look == last
        assert (stop is not None) == ended_here
    if receipt["end"] == "decided":
        assert set(receipt["looks"]["because"].values()) <= {"futility", "baseline better"}
    else:
        assert (receipt["end"], last) == ("done", 4)
        assert "stopped" not in result.out


def test_between_looks_a_run_shows_counts_alone(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s", FASTER, tasks=TASKS, limits={"trial_usd": 0.1})
    out = tmp_path / "out"
    poor = start(suite, out, "--looks", "1,2,3", "--budget", "3.1")
    assert poor.code == 3, poor.err
    assert poor.out == ""
    assert "raise it to continue: twoarm run --resume" in poor.err
    assert "score out" not in poor.err
    assert (
        "--ignore-looks shows the results so far; that is a look that was not planned" in poor.err
    )
    assert not (out / "analysis.json").exists()
    status = twoarm("run", "--status", str(out)).out
    assert status.splitlines()[-1] == "looks taken after 1 and 2 repeats; planned after 1, 2 and 3"
    rich = twoarm("run", "--resume", str(out), *PLAIN, "--budget", "9")
    assert rich.code == 0, rich.err
    status = twoarm("run", "--status", str(out)).out
    assert status.splitlines()[-1].startswith("looks taken after 1, 2 and 3 repeats")
    assert twoarm("run", "--resume", str(out), *PLAIN).code == 0
    assert [event["after"] for event in journal(out) if event["event"] == "look"] == [1, 2, 3]
    assert analysis(out)["evidence"]["looks"]["after"] == 3


def test_what_was_removed_after_a_look_is_lost_and_not_run_again(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path / "s", FASTER, tasks=TASKS), tmp_path / "out"
    assert start(suite, out, "--looks", "1,2").code == 0
    shutil.rmtree(out / "runs" / "with" / "t0.1")
    resumed = twoarm("run", "--resume", str(out), *PLAIN)
    assert resumed.code == 0, resumed.err
    (missing,) = [record for record in records(out) if record["failure"] == "missing"]
    assert missing["failure_reason"] == "lost: it was removed after a look"
    assert "finish_run" not in [step["code"] for step in analysis(out)["next"]]


def test_trees_that_were_changed_stop_a_run_before_a_look_counts_on_its_runs(
    tmp_path: Path, cache: Path
) -> None:
    change = f"for tree in {cache}/*/trees/tree0; do echo more >> $tree/README.md; done"
    suite, out = suite_of(tmp_path / "s", f"{FASTER}\n{change}\n"), tmp_path / "out"
    result = start(suite, out, "--looks", "1,2")
    assert result.code == 2
    assert "changed the trees that trials start from: " in result.err
    assert {record["repeat"] for record in records(out) if record["failure"] is None} == {1}
    # They can be removed, and made again.
    assert not (out / "looks.json").exists()


# What is refused, before anything is spent.

REFUSED = {
    ("--looks", "3,5,10", "--repeats", "5"):
        "--looks: the last look is after 10 repeats, and --repeats is 5",
    ("--looks", "5,3"): "--looks: expected numbers of repeats that rise, such as 3,5,10, got 5,3",
    ("--looks", "0,3"): "--looks: expected numbers of repeats that rise",
    ("--looks", "3,three"): "expected numbers such as 3,5,10",
    ("--looks", "3,5", "--no-evidence"): "--looks has no effect with --no-evidence",
    ("--looks", "3,5", "--promote-by", "gates"):
        "--promote-by: a run with looks promotes by the evidence, not by gates; leave it out",
    ("--looks", "3,5", "--ignore-looks"): "--ignore-looks: has no effect with looks of your own",
    ("--looks", "5,2000000"): "--looks: expected a number from 1 to 1000000, got 2000000",
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_looks_that_make_no_sense_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    suite, out = suite_of(tmp_path / "s"), tmp_path / "out"
    result = twoarm("run", str(suite), "--out", str(out), *words)
    assert result.code == 2
    assert REFUSED[words] in result.err
    assert not out.exists()


def test_more_tasks_than_looks_can_judge_are_refused(tmp_path: Path) -> None:
    with patch("twoarm.commands.run_looks.MOST_TASKS", 1):
        result = twoarm("run", str(suite_of(tmp_path / "s")), "--looks", "3,5")
    assert result.code == 2
    assert "--looks: planned looks take at most 1 tasks, and the suite has 2" in result.err


def test_looks_that_can_find_nothing_are_refused(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s", tasks=TASKS, arms={"third": {"env": {"HINT": "2"}}})
    result = twoarm("run", str(suite), "--looks", "3,5", "--out", str(tmp_path / "out"))
    assert result.code == 2
    assert result.err == (
        "twoarm: --looks: with 6 tasks no look could find a difference between 2 candidates and "
        "the baseline, however large: it takes 7; add tasks, or leave the option out\n"
    )
    assert not (tmp_path / "out").exists()
    words = ("--looks", "3,5", "--level", "0.9")
    less = twoarm("run", str(suite), *words, "--dry-run")
    assert less.code == 0, less.err
    assert "with 6 tasks a look hardly ever ends a run: it takes about 11" in less.out
    assert all(word in less.out.splitlines()[-1] for word in words)


def test_looks_count_the_families_of_a_suite(tmp_path: Path) -> None:
    tasks = [
        task | {"id": f"{task['id']}-{copy}", "family": task["id"]}
        for task in TASKS
        for copy in range(3)
    ]
    suite = suite_of(tmp_path / "s", tasks=tasks, arms={"third": {"env": {"HINT": "2"}}})
    result = twoarm("run", str(suite), "--looks", "3,5", "--dry-run")
    assert result.code == 2
    assert result.err == (
        "twoarm: --looks: with 6 families of 18 tasks no look could find a difference between 2 "
        "candidates and the baseline, however large: it takes 7; add families of tasks, or leave "
        "the option out\n"
    )
    less = twoarm("run", str(suite), "--looks", "3,5", "--level", "0.9", "--dry-run")
    assert less.code == 0, less.err
    assert "with 6 families of 18 tasks a look hardly ever ends a run" in less.out


def test_looks_are_what_they_were_when_the_run_was_started(tmp_path: Path) -> None:
    suite, out = suite_of(tmp_path / "s", FASTER), tmp_path / "out"
    assert start(suite, out, "--looks", "1", "--level", "0.9").code == 0
    frozen = json.loads((out / "schedule.json").read_text())
    assert (frozen["repeats"], frozen["looks"], frozen["judging"]) == (1, [1], {"level": 0.9})
    refused = {
        ("--looks", "1,2"): "--looks: they were planned after 1 when the run was started, and are "
        "after 1,2 now; looks that are changed later promise nothing",
        ("--level", "0.95"): "--level: it was 0.9 when the run was started, and is 0.95 now; ",
        ("--primary", "tokens"): "--primary: it was not given when the run was started, and is "
        "tokens now; ",
        ("--promote-by", "margin"): "--promote-by: a run with looks promotes by the evidence",
        ("--ignore-looks",): "--ignore-looks: this run is judged at its looks; leave it out",
        ("--no-evidence",): "--no-evidence: this run is judged at its looks; leave it out",
    }
    for words, why in refused.items():
        result = twoarm("run", "--resume", str(out), *words)
        assert (result.code, why in result.err) == (2, True), result.err
    same = twoarm("run", "--resume", str(out), *PLAIN, "--looks", "1", "--level", "0.9")
    assert same.code == 0, same.err
    options = analysis(out)["options"]
    assert (options["level"], options["looks"], options["promote_by"]) == (0.9, [1], "evidence")
    other = tmp_path / "other"
    assert start(suite, other, "--repeats", "1", "--no-evidence").code == 0
    result = twoarm("run", "--resume", str(other), "--looks", "1")
    assert "--looks: they were not planned when the run was started, and are after 1 now" in (
        result.err
    )


def test_a_dry_run_says_how_much_is_run_before_the_first_look(tmp_path: Path) -> None:
    suite = suite_of(tmp_path / "s")
    result = twoarm("run", str(suite), "--dry-run", "--looks", "3,5,10")
    assert result.code == 0, result.err
    assert "looks after 3, 5 and 10 repeats: at most 40 trials, 12 before the first look\n" in (
        result.out
    )
    assert "--looks 3,5,10" in result.out.splitlines()[-1]
