"""Every planned trial is a line of collected.jsonl: a run, an infra failure, or missing and why."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

import twoarm as package
from tests.conftest import Result, twoarm
from tests.support.collect_fixtures import set_keys
from tests.support.run_folders import ALL, QUICK, USAGE, records, run, runs
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run.attempted import Attempted
from twoarm.run.ledger import RunFolder
from twoarm.run.report import collect_runs
from twoarm.run.supervisor import main as supervisor
from twoarm.run.supervisor.redact import Redactor
from twoarm.run.supervisor.scratch import RunningAttempt

pytestmark = pytest.mark.usefixtures("cache")

# The output of codex, with a thread of the suite's choice.
CODEX = """
echo '{"type":"thread.started","thread_id":"'"$THREAD"'"}'
echo '{"type":"turn.completed","usage":{"input_tokens":100,"output_tokens":10}}'
"""


def lines(out: Path) -> list[tuple[str, str, int, str | None, str | None]]:
    return [
        (one["task_id"], one["arm"], one["repeat"], one["failure"], one.get("failure_reason"))
        for one in records(out)
    ]


def missing(out: Path) -> dict[str, str]:
    """The trials that have no run, with the reason."""
    return {
        f"{arm}/{task}.{repeat}": reason or ""
        for task, arm, repeat, failure, reason in lines(out)
        if failure == "missing"
    }


def test_a_trial_that_was_never_started_is_a_line(tmp_path: Path) -> None:
    script, out = USAGE + f"used 100 0.5; {SOLVE}", tmp_path / "out"
    money = ("--budget", "2", "--trial-budget", "0.5")
    result = run(suite_of(tmp_path, script), out, "--repeats", "2", "--jobs", "1", *money)
    assert result.code == 0, result.err
    done = set(runs(out))
    assert len(done) == 2
    found = lines(out)
    assert found == sorted(found, key=lambda line: line[:3])
    assert len(found) == 8
    assert {f"{arm}/{task}.{repeat}" for task, arm, repeat, failure, _ in found if not failure} == (
        done
    )
    assert list(missing(out).values()) == ["over budget"] * 6
    empty = next(one for one in records(out) if one["failure"] == "missing")
    assert (empty["success"], empty["duration_seconds"]) == (False, 0.0)
    assert [empty[key] for key in ("total_cost_usd", "input_tokens", "output_tokens")] == [None] * 3


def test_a_stop_for_want_of_a_provider_leaves_a_line_for_every_trial(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, f'{USAGE} infra "429 busy"'), out, "--jobs", "1")
    assert result.code == 2
    assert runs(out) == []
    infra = {f"{line[1]}/{line[0]}.{line[2]}" for line in lines(out) if line[3] == "infra"}
    # Every attempt is a line; a trial that ended as infra is not missing as well.
    assert len(lines(out)) == 6 + len(missing(out))
    assert sorted((*infra, *missing(out))) == ALL
    assert set(missing(out).values()) == {"not yet run"}
    assert json.loads((out / "receipt.json").read_text())["end"] == "failed"


def changed(out: Path, name: str, **known: Any) -> None:
    """Take a run back: an attempt that ended otherwise."""
    arm, trial = name.split("/")
    attempt = out / ".attempts" / arm / f"{trial}.1"
    shutil.move(out / "runs" / name, attempt)
    told = json.loads((attempt / "trial.json").read_text())
    (attempt / "trial.json").write_text(json.dumps({**told, **known}))


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    out = tmp_path / "out"
    assert run(suite_of(tmp_path), out).code == 0
    return out


def scored(out: Path) -> Result:
    words = ("--candidate", "with", "--baseline", "without", "--format", "json")
    return twoarm("score", str(out / "collected.jsonl"), *words)


def collect(out: Path) -> frozenset[str]:
    folder = RunFolder(str(out))
    return collect_runs(folder, folder.frozen(), None).arms


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("lost", "disk full", "lost: disk full"),
        ("interrupted", "killed before it ended", "interrupted: killed before it ended"),
        ("running", None, "interrupted: the runner died before it ended"),
    ],
)
def test_an_attempt_that_left_no_run_says_why(
    ran: Path, state: str, reason: str | None, said: str
) -> None:
    changed(ran, "with/two.1", state=state, reason=reason)
    assert collect(ran) == {"with", "without"}
    assert missing(ran) == {"with/two.1": said}
    assert len(lines(ran)) == 4


def test_an_arm_without_any_run_has_its_lines(ran: Path) -> None:
    for name in ("with/one.1", "with/two.1"):
        shutil.rmtree(ran / "runs" / name)
    assert collect(ran) == {"without"}
    assert missing(ran) == dict.fromkeys(("with/one.1", "with/two.1"), "not yet run")


def test_trials_are_counted_and_not_attempts(ran: Path) -> None:
    changed(ran, "with/two.1", state="lost", reason="first")
    again = ran / ".attempts" / "with" / "two.1.2"
    shutil.copytree(ran / ".attempts" / "with" / "two.1.1", again)
    told = json.loads((again / "trial.json").read_text())
    (again / "trial.json").write_text(json.dumps({**told, "attempt": 2, "reason": "second"}))
    collect(ran)
    assert missing(ran) == {"with/two.1": "lost: second"}


@pytest.mark.parametrize("isolation", ["copy", "bwrap"])
@pytest.mark.parametrize("state", ["lost", "interrupted", "infra"])
def test_an_attempt_that_broke_off_is_a_line_where_its_agent_could_end_it(
    ran: Path, isolation: str, state: str
) -> None:
    set_keys(ran / "place.json", isolation=isolation)
    shutil.copytree(ran / "runs" / "with" / "two.1", ran / ".attempts" / "with" / "two.1.1")
    told = ran / ".attempts" / "with" / "two.1.1" / "trial.json"
    set_keys(told, state=state, reason="its supervisor was killed")
    set_keys(ran / "runs" / "with" / "two.1" / "trial.json", attempt=2)
    collect(ran)
    broken = [line for line in lines(ran) if line[3] == "interrupted"]
    assert missing(ran) == {}
    if isolation == "copy" and state != "infra":
        assert broken == [("two", "with", 1, "interrupted", "its supervisor was killed")]
        scored = package.score(str(ran / "collected.jsonl"), candidate="with", baseline="without")
        assert [arm.interrupted for arm in scored.trials] == [1, 0]
    else:
        assert broken == []


def test_lines_of_two_formats_are_sorted_as_one(tmp_path: Path) -> None:
    """Output that cannot be read is no output of its format; its line stays in its place."""
    script = f'if [ $THREAD = one ]; then echo "{{}}"; else {CODEX} fi; {SOLVE}'
    env = {"THREAD": "{task_id}"}
    suite = suite_of(
        tmp_path, script, agent={"output": "events.jsonl", "format": "codex", "env": env}
    )
    out = tmp_path / "out"
    assert run(suite, out).code == 0
    assert [line[3] for line in lines(out)] == ["agent", "agent", None, None]
    assert [line[:2] for line in lines(out)] == [
        ("one", "with"), ("one", "without"), ("two", "with"), ("two", "without"),
    ]  # fmt: skip


# Runs that are odd -------------------------------------------------------------------------------


def test_a_run_folder_that_somebody_spoiled_is_written_as_it_was_settled(ran: Path) -> None:
    (ran / "runs" / "with" / "one.1" / "run.json").write_text("{")
    (ran / "runs" / "without" / "one.1" / "run.json").unlink()
    before = lines(ran)
    made = collect_runs(RunFolder(str(ran)), RunFolder(str(ran)).frozen(), None)
    assert lines(ran) == before
    spoiled = [one for one in records(ran) if one["task_id"] == "one"]
    assert [one["success"] for one in spoiled] == [True, True]
    assert [one["tags"] for one in spoiled] == [["not_read_again"]] * 2
    assert "the files of the run cannot be read any more" in made.caveats[0]
    assert "2 runs, first runs/with/one.1" in made.caveats[0]


def test_a_run_folder_that_claims_to_be_another_is_not_believed(ran: Path) -> None:
    set_keys(ran / "runs" / "with" / "one.1" / "run.json", repeat=7)
    set_keys(ran / "runs" / "without" / "one.1" / "run.json", task_id="two")
    before = lines(ran)
    collect(ran)
    assert lines(ran) == before
    assert scored(ran).code == 0


def test_a_thread_that_repeats_is_a_caveat_and_its_tokens_are_not_known(tmp_path: Path) -> None:
    agent = {"output": "events.jsonl", "format": "codex", "env": {"THREAD": "same"}}
    suite, out = suite_of(tmp_path, CODEX + SOLVE, agent=agent), tmp_path / "out"
    result = run(suite, out, "--jobs", "1")
    assert result.code == 0, result.err
    found = sorted(records(out), key=lambda one: one["started_at_utc"])
    assert [one["success"] for one in found] == [True] * 4
    # Of a thread, the first run has its own tokens, and the others have those before them as well.
    assert [one["input_tokens"] for one in found] == [100, None, None, None]
    assert ["thread_repeated" in one.get("tags", ()) for one in found] == [False, True, True, True]
    assert "caveat: a thread that an earlier run has as well" in result.err
    assert "3 runs, first" in result.err
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    # One that nobody can read takes nothing from the others.
    where = Path(found[3]["run_path"]).parent
    (out / where / "run.json").write_text("{")
    collect(out)
    again = sorted(records(out), key=lambda one: one["started_at_utc"])
    assert [one["input_tokens"] for one in again] == [100, None, None, None]
    assert [one["success"] for one in again] == [True] * 4


def test_another_model_in_one_run_is_a_caveat_and_the_report_counts_both(tmp_path: Path) -> None:
    script = (
        'm=usual; [ "$TASK$HINT" = two1 ] && m=fallback; '
        'printf \'{"model": "%s", "version": "%s", "input_tokens": 5, "output_tokens": 1}\' '
        f"$m $m > $TWOARM_USAGE; {SOLVE}"
    )
    suite = suite_of(tmp_path, script, agent={"env": {"TASK": "{task_id}"}})
    out = tmp_path / "out"
    result = run(suite, out, "--jobs", "1")
    assert result.code == 0, result.err
    odd = {one["model"]: one.get("tags") for one in records(out) if one["arm"] == "with"}
    assert set(odd) == {"usual", "fallback"}
    assert "caveat: another model or version than in the first run of the arm: 1 run" in result.err
    assert "2 models in `with`: `fallback` (1 run), `usual` (1 run)" in scored(out).out
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    # By hand it is refused as ever.
    words = ("--arm", f"with={out}/runs/with", "--arm", f"without={out}/runs/without")
    by_hand = twoarm("collect", "command", *words)
    assert by_hand.code == 2
    assert "--may-differ model" in by_hand.err


# What is in the way ------------------------------------------------------------------------------


def test_a_workspace_that_cannot_be_put_right_is_a_failure_of_the_agent() -> None:
    class Stuck:
        def own_work(self) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        job: ClassVar[dict[str, Any]] = {"acceptance": {"": "true"}}

    facts = supervisor._checked(cast(RunningAttempt, Stuck()), None, Redactor({}))
    assert facts == {"acceptance_exit_code": 126, "broken": "Operation not permitted"}
    Stuck.job["acceptance"] = {"unit": "true", "lint": "true"}
    facts = supervisor._checked(cast(RunningAttempt, Stuck()), None, Redactor({}))
    assert facts["checks"] == {"unit": False, "lint": False}
    assert (facts["acceptance_exit_code"], facts["score"]) == (126, 0.0)


def test_what_lies_where_an_attempt_begins_is_not_part_of_it(tmp_path: Path) -> None:
    left = tmp_path / ".attempts" / "with" / "one.1.1"
    left.mkdir(parents=True)
    (left / "stdout.txt").write_text("of a runner that was killed")
    attempted = Attempted(
        task="one", repeat=1, arm="with", attempt=1, jobs=1, state="running", reserved_usd=None
    )
    RunFolder(str(tmp_path)).begin(attempted)
    assert [path.name for path in left.iterdir()] == ["trial.json"]
