"""Which isolation a run takes, what it says of it, and what a sandbox allows."""

import json
import os
import re
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import twoarm
from tests.support.run_folders import records
from tests.support.seals import bubblewrap_seal
from tests.support.suite_files import SOLVE, attempt, job_of, suite_of
from twoarm.run.sealing import Sealer
from twoarm.run.supervisor.seccomp import call_filter

DOCUMENT = (Path(__file__).parents[2] / "docs" / "run.md").read_text(encoding="utf-8")
QUICK = ("--repeats", "1", "--display", "quiet", "--no-evidence", "--run-pages", "none")


@pytest.fixture(autouse=True)
def _cache(cache: Path) -> None:
    """Away from the user's own."""


RESULT = json.dumps(
    {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "duration_ms": 1,
     "session_id": "HOME", "total_cost_usd": 0.1, "usage": {"input_tokens": 1, "output_tokens": 1}}
)  # fmt: skip
CLAUDE = f"""\
#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.325 (Claude Code)'; exit; fi
echo fixed > answer.txt
sed "s|HOME|$HOME|" <<'END'
{RESULT}
END
"""


@pytest.fixture
def claude(bubblewrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An agent that tells its version, as a suite names it: what it needs can be tried."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "claude").write_text(CLAUDE)
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return {"program": "claude-code", "argv": None}


def unseen(path: Path) -> str:
    """A path in a shell command that nobody can read there."""
    return f"'{str(path)[:9]}''{str(path)[9:]}'"


@pytest.mark.parametrize("above", ["/tmp", "/var/tmp"])
def test_the_cache_may_be_in_a_folder_for_temporary_files(
    above: str, tmp_path: Path, bubblewrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir=above) as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TWOARM_CACHE", folder)
        told = twoarm(
            "run", str(suite_of(tmp_path, SOLVE)), "--out", str(tmp_path / "out"),
            "--isolation", "bwrap", *QUICK,
        )  # fmt: skip
        assert told.code == 0, told.err


def started(suite: Path, out: Path, *more: str) -> str:
    result = twoarm("run", str(suite), "--out", str(out), *QUICK, *more)
    assert result.code == 0, result.err
    return result.err


def taken(out: Path) -> set[str]:
    return {
        json.loads((out / name).read_text())["isolation"] for name in ("place.json", "receipt.json")
    }


def test_a_sandbox_is_the_default_where_everything_works_in_it(
    tmp_path: Path, claude: dict[str, Any]
) -> None:
    out = tmp_path / "out"
    told = started(suite_of(tmp_path, agent=claude), out)
    assert "twoarm: isolation bwrap: agents see their own folders and " in told
    assert taken(out) == {"bwrap"}
    dry = twoarm("run", str(suite_of(tmp_path, agent=claude)), "--dry-run")
    assert "isolation bwrap: agents see their own folders and " in dry.out


def test_what_a_command_needs_cannot_be_tried(tmp_path: Path, bubblewrap: str) -> None:
    told = started(suite_of(tmp_path), tmp_path / "out")
    assert "(bwrap: twoarm cannot know what a command needs; try --isolation bwrap)" in told
    assert taken(tmp_path / "out") == {"copy"}


def test_who_asks_for_no_network_has_a_sandbox_or_no_run(tmp_path: Path, bubblewrap: str) -> None:
    told = started(suite_of(tmp_path, agent={"network": "none"}), tmp_path / "out")
    assert (
        "isolation bwrap: agents see their own folders and what programs need; agents have no "
        in (told)
    )


def test_without_a_sandbox_a_run_says_that_nothing_holds_the_agent_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = started(suite_of(tmp_path), out)
    assert (
        "twoarm: isolation copy: nothing holds an agent back; it can read, write and kill "
        "whatever you can (bwrap: not allowed on this machine: not for this test)"
    ) in told
    assert taken(out) == {"copy"}
    again = twoarm("run", "--resume", str(out), "--repeats", "2", *QUICK[2:], "--yes")
    assert "isolation copy: nothing holds an agent back" in again.err
    asked = started(suite_of(tmp_path), tmp_path / "asked", "--isolation", "copy")
    assert "whatever you can\n" in asked


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat {needed}; test -f answer.txt", "prints something different inside"),
        ("test -f {needed} || exit 3; test -f answer.txt",
         "ends differently inside: exit code 1 outside, 3 inside"),
        ("{grade}", "ends differently inside: exit code 1 outside, 127 inside"),
    ],
)  # fmt: skip
def test_acceptance_that_behaves_otherwise_inside_is_left_in_the_open(
    tmp_path: Path, claude: dict[str, Any], command: str, said: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "needed").write_text("this is needed\n")
    (outside / "grade").write_text("#!/bin/sh\ntest -f answer.txt\n")
    (outside / "grade").chmod(0o755)
    command = command.format(needed=unseen(outside / "needed"), grade=unseen(outside / "grade"))
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": command}]
    suite = suite_of(tmp_path / "suite", tasks=tasks, agent=claude)
    told = started(suite, tmp_path / "out")
    assert f"(bwrap: acceptance of task `one` {said}" in told
    assert taken(tmp_path / "out") == {"copy"}
    assert [record["success"] for record in records(tmp_path / "out")] == [True, True]
    # Who asks for the sandbox has it, and is told.
    for more in (["--dry-run"], ["--out", str(tmp_path / "asked"), *QUICK]):
        asked = twoarm("run", str(suite), "--isolation", "bwrap", *more)
        if "127" in said:
            assert "its acceptance command cannot be run (exit code 127)" in asked.err
        else:
            assert asked.code == 0, asked.err
            assert f"warning: acceptance of task `one` {said}" in asked.out + asked.err
            assert "put whatever else it needs into agent.mounts\n" in asked.out + asked.err
    # With a mount it can be the sandbox.
    agent = {**claude, "mounts": [str(outside)]}
    told = started(suite_of(tmp_path / "suite", tasks=tasks, agent=agent), tmp_path / "mounted")
    assert "isolation bwrap" in told
    again = started(tmp_path / "suite" / "suite.json", tmp_path / "b", "--isolation", "bwrap")
    assert "acceptance of task" not in told + again
    assert [record["success"] for record in records(tmp_path / "mounted")] == [True, True]


def test_an_acceptance_whose_sandbox_does_not_start_stays_outside(
    tmp_path: Path, claude: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(tmp_path / "gone")
    monkeypatch.setattr(Sealer, "_acceptance_reads", lambda sealer, task: [gone])
    told = started(suite_of(tmp_path / "suite", agent=claude), tmp_path / "out")
    assert "(bwrap: acceptance of task `one`: the sandbox did not start: " in told
    assert taken(tmp_path / "out") == {"copy"}
    result = twoarm(
        "run", str(suite_of(tmp_path / "suite", agent=claude)), "--out", str(tmp_path / "asked"),
        "--isolation", "bwrap", *QUICK,
    )  # fmt: skip
    assert result.code == 2
    assert "--isolation bwrap: the sandbox did not start: " in result.err


def test_a_sandbox_that_was_asked_for_is_taken_or_nothing_runs(
    tmp_path: Path, bubblewrap: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "grade").write_text("#!/bin/sh\ntrue\n")
    (outside / "grade").chmod(0o755)
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": unseen(outside / "grade")}]
    suite = suite_of(tmp_path / "suite", tasks=tasks)
    result = twoarm(
        "run", str(suite), "--out", str(tmp_path / "out"), "--isolation", "bwrap", *QUICK
    )
    assert result.code == 2
    assert "task `one`: its acceptance command cannot be run (exit code 127)" in result.err
    # What it names is shown to it.
    tasks[0]["acceptance_command"] = f"{outside}/grade"
    suite = suite_of(tmp_path / "suite", tasks=tasks)
    started(suite, tmp_path / "named", "--isolation", "bwrap")


def test_an_agent_that_does_not_start_inside_runs_in_the_open(
    tmp_path: Path, bubblewrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, parts = tmp_path / "programs", tmp_path / "parts"
    programs.mkdir()
    parts.mkdir()
    (parts / "version").write_text("2.1.325 (Claude Code)\n")
    script = (
        f"#!/bin/sh\n[ \"$1\" = --version ] || echo hi > answer.txt\nexec cat '{parts}/version'\n"
    )
    (programs / "claude").write_text(script)
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    agent: dict[str, Any] = {"program": "claude-code", "argv": None}
    dry = twoarm("run", str(suite_of(tmp_path / "suite", agent=agent)), "--dry-run")
    assert dry.code == 0, dry.err
    assert (
        f"(bwrap: {programs}/claude does not start inside: cat: {parts}/version: No such" in dry.out
    )
    agent["mounts"] = [str(parts)]
    dry = twoarm("run", str(suite_of(tmp_path / "suite", agent=agent)), "--dry-run")
    assert "isolation bwrap: " in dry.out


def test_a_sandbox_inside_a_sandbox_is_refused_or_left_alone(
    tmp_path: Path, bubblewrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "codex").write_text("#!/bin/sh\necho codex-cli 0.166.0\n")
    (programs / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    agent: dict[str, Any] = {"program": "codex", "argv": None}
    suite = suite_of(tmp_path / "suite", agent=agent)
    refused = twoarm("run", str(suite), "--dry-run", "--isolation", "bwrap")
    assert refused.code == 2
    assert "--isolation bwrap: `codex` has a sandbox of its own" in refused.err
    dry = twoarm("run", str(suite), "--dry-run")
    assert "isolation copy: nothing holds an agent back" in dry.out
    assert "(bwrap: `codex` has a sandbox of its own" in dry.out
    agent["args"] = ["--sandbox", "danger-full-access"]
    dry = twoarm("run", str(suite_of(tmp_path / "suite", agent=agent)), "--dry-run")
    assert "isolation bwrap: " in dry.out


def test_a_sandbox_that_does_not_start_is_nobodys_failure(tmp_path: Path, bubblewrap: str) -> None:
    seal = bubblewrap_seal(tmp_path, bubblewrap)
    words = {**seal.words, "agent": (*seal.words["agent"], "--ro-bind", "/no/such", "/no/such")}
    broken = msgspec.structs.replace(seal, words=words)
    ran = attempt(job_of(tmp_path, SOLVE, seal=broken))
    assert ran.facts["not_started"].startswith("the sandbox did not start: bwrap: ")
    assert "acceptance_exit_code" not in ran.facts
    words = {**seal.words, "acceptance": words["agent"]}
    ran = attempt(job_of(tmp_path, SOLVE, seal=msgspec.structs.replace(seal, words=words)))
    assert ran.facts["not_judged"].startswith("the sandbox did not start: bwrap: ")
    assert "acceptance_exit_code" not in ran.facts


def test_an_agent_in_a_sandbox_cannot_pretend_that_it_did_not_start(
    tmp_path: Path, bubblewrap: str
) -> None:
    script = "for fd in /proc/self/fd/*; do (: > $fd); done; kill -KILL 1; kill -KILL 0"
    ran = attempt(job_of(tmp_path, script, seal=bubblewrap_seal(tmp_path, bubblewrap)))
    assert "not_started" not in ran.facts
    assert ran.facts["agent_exit_code"] == 137


def test_a_sandbox_has_no_user_namespaces_and_no_keys(tmp_path: Path, bubblewrap: str) -> None:
    seal = bubblewrap_seal(tmp_path, bubblewrap)
    # The numbers of `add_key` and `unshare`, by machine.
    add_key, unshare = (248, 272) if os.uname().machine == "x86_64" else (217, 97)
    script = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for words in (({unshare}, 0x10000000), ({add_key}, b"user", b"name", b"x", 1, -4)):
    print(libc.syscall(*words), os.strerror(ctypes.get_errno()))
print("started", os.system("true"))
"""
    ran = attempt(job_of(tmp_path, f"python3 -c '{script}'", seal=seal))
    told = ran.kept("stdout.txt") + ran.kept("stderr.log")
    assert told.count("-1 Operation not permitted") == 2, told
    assert "started 0" in told


def answer(machine: int, number: int, first: int) -> int:
    """What the filter says of a call, step by step as a kernel reads it."""
    fields = {0: number, 4: machine, 16: first}
    steps = list(struct.iter_unpack("=HBBI", call_filter()))
    at = loaded = 0
    while True:
        what, so, otherwise, value = steps[at]
        if what == 0x06:
            return int(value)
        at += 1
        if what == 0x20:
            loaded = fields[value]
        else:
            met = loaded == value if what == 0x15 else loaded & value
            at += so if met else otherwise


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="its numbers are of another machine")
def test_a_filter_refuses_namespaces_of_users_keys_and_other_kinds_of_calls() -> None:
    ours, user, thread = 0xC000003E, 0x10000000, 0x00010F00
    allowed, refused, unknown = 0x7FFF0000, 0x00050001, 0x00050026
    assert answer(ours, 0, 0) == answer(ours, 272, 0x00020000) == allowed
    assert answer(ours, 56, thread) == answer(ours, 231, user) == allowed
    assert answer(ours, 272, user) == answer(ours, 56, user | thread) == refused
    assert [answer(ours, number, 0) for number in (248, 249, 250)] == [refused] * 3
    assert answer(ours, 435, 0) == answer(ours, 0x40000000, 0) == unknown
    assert answer(0x40000003, 310, user) == unknown


def test_an_agent_in_a_sandbox_has_its_grace(tmp_path: Path, bubblewrap: str) -> None:
    script = "trap 'sleep 0.3; echo obeyed; exit 7' TERM; while :; do sleep 0.05; done"
    job = job_of(tmp_path, script, seal=bubblewrap_seal(tmp_path, bubblewrap), timeout_seconds=0.5)
    ran = attempt(job)
    assert ran.facts["ended_by"] == "timeout"
    assert ran.kept("stdout.txt") == "obeyed\n"


def test_nothing_of_an_agent_is_left_in_a_sandbox(tmp_path: Path, bubblewrap: str) -> None:
    script = f"(setsid sleep 600 &) ; (trap '' TERM; sleep 600) & {SOLVE}"
    ran = attempt(job_of(tmp_path, script, seal=bubblewrap_seal(tmp_path, bubblewrap)))
    assert ran.facts["acceptance_exit_code"] == 0


def test_acceptance_in_a_sandbox_reads_the_agents_home_and_does_not_write_to_it(
    tmp_path: Path, bubblewrap: str
) -> None:
    grader = 'cat ../home/tool && ! touch ../home/sign && touch "$HOME/sign" && test -f answer.txt'
    job = job_of(
        tmp_path,
        f"echo made > $HOME/tool; {SOLVE}",
        acceptance={"": grader},
        seal=bubblewrap_seal(tmp_path, bubblewrap),
    )
    assert attempt(job).facts["acceptance_exit_code"] == 0


def test_the_example_of_the_document_cannot_be_cheated_from_the_workspace(
    tmp_path: Path, bubblewrap: str
) -> None:
    command = re.search(r'acceptance_command = "(python3 -I .*)"', DOCUMENT)
    script = re.search(r"```python\n(# grading/check\.py.*?)```", DOCUMENT, re.DOTALL)
    assert command is not None
    assert script is not None
    folder = tmp_path / "suite"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": command[1]}]
    cheat = "\n".join(
        f"echo 'raise SystemExit(0)' > {name}.py"
        for name in ("conftest", "pytest", "sitecustomize", "usercustomize", "subprocess")
    )
    honest = "echo 'echo \"Hello, $1!\"' > greet.sh"
    for number, (done, success) in enumerate(((cheat, False), (f"{cheat}\n{honest}", True))):
        suite = suite_of(folder, done, tasks=tasks)
        (folder / "grading").mkdir(exist_ok=True)
        (folder / "grading" / "check.py").write_text(script[1])
        out = tmp_path / f"out{number}"
        started(suite, out, "--isolation", "bwrap")
        assert {record["success"] for record in records(out)} == {success}


def test_what_grades_from_the_suite_is_frozen(tmp_path: Path) -> None:
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/grade.sh"}]
    suite, out = suite_of(tmp_path, tasks=tasks), tmp_path / "out"
    (tmp_path / "grade.sh").write_text("test -f answer.txt\n")
    started(suite, out)
    graders = {record["grader"] for record in records(out)}
    assert len(graders) == 1
    (tmp_path / "grade.sh").write_text("test ! -f answer.txt\n")
    refused = twoarm("run", "--resume", str(out), "--repeats", "2", *QUICK[2:])
    assert refused.code == 2
    assert "what grades task `one` has changed since the schedule was frozen" in refused.err
    new = tmp_path / "new"
    regraded = twoarm("regrade", str(out), "--out", str(new), "--display", "quiet", "--no-evidence")
    assert regraded.code == 0, regraded.err
    assert {record["success"] for record in records(new)} == {False}
    assert {record["grader"] for record in records(new)} != graders


def test_a_resume_keeps_the_isolation_or_does_not_go_on(
    tmp_path: Path, bubblewrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, out = suite_of(tmp_path), tmp_path / "out"
    started(suite, out, "--only", "one", "--isolation", "bwrap")
    more = ("--repeats", "2", *QUICK[2:], "--yes")
    monkeypatch.setenv("PATH", str(Path(__file__).parents[1] / "support" / "no_bubblewrap"), ":")
    refused = twoarm("run", "--resume", str(out), *more)
    assert refused.code == 2
    assert "--isolation bwrap: not allowed on this machine: not for this test" in refused.err
    monkeypatch.undo()
    assert taken(out) == {"bwrap"}


def test_what_was_not_settled_before_a_kill_is_settled_by_the_resume(
    tmp_path: Path, claude: dict[str, Any], cache: Path
) -> None:
    suite, out = suite_of(tmp_path, agent=claude), tmp_path / "out"
    started(suite, out)
    shutil.rmtree(out / "runs")
    shutil.rmtree(cache)
    place = json.loads((out / "place.json").read_text())
    (out / "place.json").write_text(json.dumps(place | {"isolation": ""}))
    resumed = twoarm("run", "--resume", str(out), *QUICK[2:])
    assert resumed.code == 0, resumed.err
    assert "isolation bwrap: " in resumed.err
    assert taken(out) == {"bwrap"}
