"""Output that nobody can read, and odd things beside it: failed runs, and never lost ones."""

import json
import marshal
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.collect_fixtures import FIXTURES, cat
from tests.support.run_folders import QUICK, records, run, runs
from tests.support.suite_files import SOLVE, suite_of
from twoarm.files.safe import OpenFolder
from twoarm.run.attempted import Attempted
from twoarm.run.settle import RunReader, settle

pytestmark = pytest.mark.usefixtures("cache")

STREAMS = {
    "codex": ("events.jsonl", "codex/ok/events.jsonl"),
    "opencode": ("events.jsonl", "opencode/ok/events.jsonl"),
    "claude-code": ("stream.jsonl", "claude-code/real_ok/stream.jsonl"),
    "gemini-cli": ("stream.jsonl", "gemini-cli/ok_stream/stdout.txt"),
}


def suite(folder: Path, name: str, script: str, **changed: Any) -> Path:
    """A suite whose command prints what an agent would."""
    return suite_of(folder, script, agent={"output": STREAMS[name][0], "format": name}, **changed)


@pytest.mark.parametrize("name", STREAMS)
def test_a_plain_line_on_standard_output_costs_no_run(name: str, tmp_path: Path) -> None:
    script = f"echo Loading...; {cat(STREAMS[name][1])}; {SOLVE}"
    out = tmp_path / "out"
    result = run(suite(tmp_path, name, script), out, "--only", "one")
    assert result.code == 0, result.err
    for record in records(out):
        assert (record["success"], record["failure"]) == (True, None)
        # The fixture of codex is one thread, and its tokens are those of the first run.
        repeated = "thread_repeated" in record["tags"]
        assert (record["input_tokens"], repeated) in ((1400, False), (None, True))
        assert "noise_in_output" in record["tags"]
    assert (
        "twoarm: caveat: lines of the output are not events and were skipped (2 lines): 2 runs"
    ) in result.err


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("exit 3", "exited early: no event was printed (exit code 3)"),
        ("echo panic; kill -9 $$", "exited early: no event was printed (exit code "),
        ("sleep 60", "hit the time limit of its runner"),
        ("echo done", "its output cannot be read: no event of NAME in it"),
        ("echo '{\"type\":1}'", "its output cannot be read: expected `str`, got `int`"),
        ("echo '{}'", "its output cannot be read: object missing required field `type`"),
    ],
)
def test_an_agent_that_was_started_and_printed_nothing_of_use_has_failed(
    name: str, end: str, reason: str, tmp_path: Path
) -> None:
    limits = {"timeout_seconds": 0.5, "grace_seconds": 0.2}
    out = tmp_path / "out"
    result = run(suite(tmp_path, name, f"{SOLVE}; {end}", limits=limits), out, "--only", "one")
    assert result.code == 0, result.err
    found = records(out)
    assert len(found) == 2
    for record in found:
        assert (record["success"], record["failure"]) == (False, "agent")
        assert record["failure_reason"].startswith(reason.replace("NAME", name))
    assert not list(out.glob(".attempts/*/*"))


# The folder of an attempt ------------------------------------------------------------------------

FACTS = {
    "setup_exit_code": 0,
    "agent_exit_code": 0,
    "ended_by": "exit",
    "duration_seconds": 1.5,
    "started_at_utc": "2026-11-15T06:00:00.000Z",
    "ended_at_utc": "2026-11-15T06:00:01.500Z",
    "acceptance_exit_code": 0,
    "files": {},
}
ATTEMPTED = Attempted(
    task="t", repeat=1, arm="a", attempt=1, jobs=1, state="running", reserved_usd=None
)


def settled(folder: Path, name: str = "codex", **facts: Any) -> Attempted:
    (folder / "outcome").write_bytes(marshal.dumps({**FACTS, **facts}))
    reader = RunReader(
        format=name,
        prices=None,
        acceptance_commands={"t": "true"},
        graders={"t": "g"},
        models={"a": None},
    )
    with OpenFolder(str(folder)) as at:
        return settle(at, ATTEMPTED, reader)


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    folder = tmp_path / "attempt"
    folder.mkdir()
    for name in ("events.jsonl", "rollout.jsonl"):
        (folder / name).write_bytes((FIXTURES / "codex" / "ok" / name).read_bytes())
    return folder


@pytest.mark.parametrize(
    "name",
    ["usage.json", "export.json", "rollout-2.jsonl", "run.json", "stream.jsonl", "trial.json", "x"],
)
@pytest.mark.parametrize("what", ["folder", "link", "dangling link", "pipe", "link to a pipe"])
def test_what_is_no_file_is_not_read_and_loses_no_run(
    attempt: Path, name: str, what: str, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    canary.write_text("as it was")
    os.mkfifo(tmp_path / "fifo")
    path = attempt / name
    if what == "folder":
        (path / "in it").mkdir(parents=True)
    elif what == "pipe":
        os.mkfifo(path)
    else:
        targets: dict[str, Path | str]
        targets = {"link": canary, "dangling link": tmp_path / "x", "link to a pipe": "../fifo"}
        path.symlink_to(targets[what])
    found = settled(attempt)
    assert (found.state, found.success, found.failure) == ("run", True, None), found.reason
    assert canary.read_text() == "as it was"
    assert not (tmp_path / "x").exists()
    assert os.path.lexists(attempt / f"unread.{name}")


@pytest.mark.parametrize("name", ["events.jsonl", "rollout.jsonl"])
@pytest.mark.parametrize("what", ["folder", "link", "pipe"])
def test_an_output_that_is_no_file_leaves_the_other_to_be_read(
    attempt: Path, name: str, what: str
) -> None:
    (attempt / name).unlink()
    if what == "folder":
        (attempt / name / "in it").mkdir(parents=True)
    elif what == "link":
        (attempt / name).symlink_to(FIXTURES / "codex" / "ok" / name)
    else:
        os.mkfifo(attempt / name)
    found = settled(attempt)
    assert (found.state, found.success) == ("run", True), found.reason


def test_odd_names_are_no_trouble(attempt: Path) -> None:
    long = "n" * 255
    (attempt / "usage.json" / "x").mkdir(parents=True)
    (attempt / "unread.usage.json" / "x").mkdir(parents=True)
    (attempt / long).mkdir()
    (attempt / "a\nb").write_text("")
    os.mkdir(os.path.join(os.fsencode(attempt), b"\xff"))
    with open(os.path.join(os.fsencode(attempt), b"\xfe.txt"), "wb"):
        pass
    found = settled(attempt)
    assert (found.state, found.success) == ("run", True), found.reason
    # It can be written down.
    assert json.loads(json.dumps(found.facts["files"])).keys() == {
        "events.jsonl",
        "rollout.jsonl",
        "run.json",
    }


@pytest.mark.parametrize("name", ["codex", "opencode"])
def test_output_that_cannot_be_read_is_kept_under_another_name(attempt: Path, name: str) -> None:
    """Beside a rollout or an export, which other formats would recognize."""
    (attempt / "events.jsonl").write_text('{"type": 1}\n')
    if name == "opencode":
        (attempt / "rollout.jsonl").unlink()
        export = FIXTURES / "opencode" / "ok" / "export.json"
        (attempt / "export.json").write_bytes(export.read_bytes())
    found = settled(attempt, name)
    assert (found.state, found.success, found.failure) == ("run", False, "agent")
    assert found.reason is not None
    assert found.reason.startswith("its output cannot be read: ")
    assert (attempt / "unread.events.jsonl").read_text() == '{"type": 1}\n'


def test_a_rollout_line_cut_by_the_time_limit_costs_no_run(attempt: Path) -> None:
    path = attempt / "rollout.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    found = settled(attempt, ended_by="timeout")
    assert (found.state, found.failure) == ("run", "agent")
    assert found.reason == "hit the time limit of its runner"
    assert "unread" not in found.facts
    assert settled(attempt).success


@pytest.mark.parametrize("size", [0, 7])
def test_a_file_that_is_not_what_the_supervisor_wrote_loses_the_attempt(
    attempt: Path, size: int
) -> None:
    (attempt / "stderr.log").write_text("x" * size)
    assert settled(attempt, files={"stderr.log": 3}).state == "lost"
    (attempt / "stderr.log").unlink()
    assert settled(attempt, files={"stderr.log": 0}).state == "lost"


# The same mistake again and again ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '{\"prompt_tokens\": 5}' > $TWOARM_USAGE", "usage.json cannot be read"),
        ("echo '{' > $TWOARM_USAGE", "(`Input data was truncated`)"),
    ],
)
def test_counts_that_nobody_can_read_stop_the_run_before_all_of_it_is_paid_for(
    script: str, said: str, tmp_path: Path
) -> None:
    # By a path that is not frozen.
    agent = {"argv": ["sh", str(tmp_path / "agent.sh")]}
    path, out = suite_of(tmp_path, f"{script}; {SOLVE}", agent=agent), tmp_path / "out"
    result = run(path, out, "--repeats", "5", "--jobs", "1")
    assert result.code == 2
    assert "nothing can be read of the first 2 runs of each arm: " in result.err
    assert said in result.err
    assert "fix that, then start over with another --out; " in result.err
    assert len(runs(out)) == 4
    assert len(records(out)) == 20
    # A resume is another chance.
    (tmp_path / "agent.sh").write_text(SOLVE)
    again = twoarm("run", "--resume", str(out), *QUICK)
    assert again.code == 0, again.err
    assert len(runs(out)) == 20


@pytest.mark.parametrize("script", ["echo hello", "exit 1", "echo '{}'"])
def test_output_that_nobody_can_read_stops_it_as_well(script: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(suite(tmp_path, "codex", script), out, "--repeats", "5", "--jobs", "1")
    assert (result.code, len(runs(out))) == (2, 4)
    assert "nothing can be read of the first 2 runs of each arm: " in result.err


def test_a_key_of_the_counts_that_nobody_reads_is_named_once(tmp_path: Path) -> None:
    used = '{"prompt_tokens": 5, "output_tokens": 5, "total_cost_usd": 0.25}'
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, f"echo '{used}' > $TWOARM_USAGE; {SOLVE}"), out)
    assert result.code == 0, result.err
    assert result.err.count("prompt_tokens") == 1
    assert "twoarm: caveat: keys of usage.json that nobody reads (`prompt_tokens`): 4 runs" in (
        result.err
    )
    for record in records(out):
        assert (record["output_tokens"], record["total_cost_usd"]) == (5, 0.25)


@pytest.mark.parametrize(
    "script",
    [
        # One arm alone is what is to be found out.
        f'[ "$HINT" ] && echo "{{" > $TWOARM_USAGE; {SOLVE}',
        # Something could be read.
        f'echo \'{{"prompt_tokens": 5, "output_tokens": 5}}\' > $TWOARM_USAGE; {SOLVE}',
        "exit 1",
    ],
)
def test_other_failures_do_not(script: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--repeats", "3", "--jobs", "1")
    assert (result.code, len(runs(out))) == (0, 12), result.err
