"""The supervisor: what an attempt leaves behind, which is its folder and nobody."""

import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.seals import bubblewrap_seal
from tests.support.suite_files import SOLVE, Local, Ran, attempt, job_of, processes_with, wait_for
from twoarm.files.safe import OpenFolder
from twoarm.programs.agent import After
from twoarm.run import executors
from twoarm.run.attempted import Attempted
from twoarm.run.settle import RunReader, settle

FOREVER = "sleep 77"


def test_a_good_attempt_keeps_prompt_output_diff_and_acceptance(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "echo said; echo wrong >&2; echo 42 > answer.txt"))
    assert ran.outcome.complete
    assert ran.kept("prompt.txt") == "Do it."
    assert ran.kept("stdout.txt") == "said\n"
    assert ran.kept("stderr.log") == "wrong\n"
    assert "+42" in ran.kept("diff.patch")
    assert ran.facts["agent_exit_code"] == 0
    assert ran.facts["acceptance_exit_code"] == 0
    assert ran.facts["ended_by"] == "exit"
    assert ran.facts["leftovers"] == []
    # By one clock, so that another that is set meanwhile changes nothing.
    began, ended = (
        datetime.fromisoformat(ran.facts[f"{which}_at_utc"]) for which in ("started", "ended")
    )
    assert abs((ended - began).total_seconds() - ran.facts["duration_seconds"]) < 0.002


def test_what_an_agent_took_of_the_machine_is_kept(tmp_path: Path) -> None:
    busy = attempt(job_of(tmp_path, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"))
    assert 0.01 < busy.facts["cpu_seconds"] < 60
    assert busy.facts["peak_rss_mb"] >= 1


@pytest.mark.parametrize(
    "left",
    [
        f"{FOREVER} &",
        f"setsid {FOREVER} &",
        f"(setsid sh -c '{FOREVER} & {FOREVER}' &) &",
        f"env -i setsid -f {FOREVER}",
        f"trap '' TERM HUP INT; {FOREVER} &",
        f"nohup setsid sh -c 'trap \"\" TERM; {FOREVER}' >/dev/null 2>&1 &",
    ],
)
def test_no_child_outlives_its_attempt(tmp_path: Path, left: str) -> None:
    # A time that no other test sleeps, to be found even by a child that cleared its environment.
    seconds = f"77.{os.getpid()}"
    job = job_of(tmp_path, f"{left.replace('77', seconds)}\nsleep 0.05; echo done")
    ran = attempt(job)
    assert ran.facts["ended_by"] == "exit"
    assert ran.kept("stdout.txt").endswith("done\n")
    assert any(seconds in name for name in ran.facts["leftovers"])
    assert processes_with(f"sleep\0{seconds}") == []


def test_an_agent_that_hangs_is_timed_out_whatever_it_ignores(tmp_path: Path) -> None:
    # For ever, as far as the test goes; if the rule is broken, nobody is left for good.
    script = f"trap '' TERM; setsid {FOREVER} & for i in 1 2 3 4 5 6 7; do sleep 10; done"
    job = job_of(tmp_path, script, timeout_seconds=0.3, grace_seconds=0.2)
    ran = attempt(job)
    assert ran.facts["ended_by"] == "timeout"
    assert ran.facts["agent_exit_code"] == 137
    assert ran.facts["acceptance_exit_code"] == 1
    assert ran.facts["duration_seconds"] >= 0.3


def test_an_agent_that_says_success_when_it_is_stopped_was_timed_out(tmp_path: Path) -> None:
    waiting = "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); sleep 0.05; done"
    script = f"trap 'echo 1 > answer.txt; exit 0' TERM; {waiting}"
    ran = attempt(job_of(tmp_path, script, timeout_seconds=0.3))
    assert ran.facts["agent_exit_code"] == 0
    assert ran.facts["ended_by"] == "timeout"


def test_a_few_hundred_children_are_all_found(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 150 ]; do i=$((i+1)); setsid sleep 78 & sleep 78 & done"
    ran = attempt(job_of(tmp_path, script))
    assert ran.outcome.complete


def test_children_that_make_more_children_run_out_of_time(tmp_path: Path) -> None:
    # Bounded: each of 20 replaces itself ten times, a little slower than they can be killed.
    script = """
chain() { [ "$1" -eq 0 ] || (setsid sh -c "sleep 0.01; sleep 79" & chain $(($1 - 1)) & wait); }
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do chain 10 & done
"""
    ran = attempt(job_of(tmp_path, script))
    assert ran.outcome.complete


def test_an_agent_that_prints_without_end_is_stopped(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "exec timeout 60 yes 0123456789", output_bytes=100_000))
    assert ran.facts["ended_by"] == "output"
    assert os.path.getsize(ran.folder / "stdout.txt") == 100_000


def test_the_word_budget_stops_the_agent_and_keeps_its_run(tmp_path: Path) -> None:
    class Dear:
        def spent(self) -> float:
            return 2.0

    job = job_of(tmp_path, f"echo 1 > answer.txt; {FOREVER}")
    executor = Local(1)
    executor.submit("it", job, Dear(), 1.0)
    (outcome,) = executor.completed(30)
    executor.close()
    assert outcome.complete
    assert Ran(job, outcome).facts["ended_by"] == "budget"


def test_a_cancelled_attempt_hands_nothing_over(tmp_path: Path) -> None:
    job = job_of(tmp_path, f"setsid {FOREVER} & {FOREVER}")

    def cancel(executor: Local) -> None:
        wait_for(lambda: len(processes_with(job.marker)) >= 2)
        executor.cancel("it")

    ran = attempt(job, cancel)
    assert ran.outcome.cancelled
    assert ran.outcome.reason == "killed before it ended"
    assert not ran.outcome.complete
    assert list(ran.folder.iterdir()) == []


def test_a_runner_that_is_killed_takes_its_attempts_with_it(tmp_path: Path) -> None:
    job = job_of(tmp_path, f"setsid {FOREVER} & {FOREVER}")
    script = f"""
import sys, msgspec
sys.path[:0] = {sys.path!r}
from twoarm.run.executors.local import Local
from twoarm.run.jobs import Job
executor = Local(1)
executor.submit("it", msgspec.json.decode(sys.stdin.buffer.read(), type=Job), None, None)
list(executor.completed(60))
"""
    import msgspec

    runner = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    assert runner.stdin is not None
    runner.stdin.write(msgspec.json.encode(job))
    runner.stdin.close()
    wait_for(lambda: len(processes_with(f"TWOARM_TRIAL={job.marker}")) >= 2)
    runner.kill()
    runner.wait()
    wait_for(lambda: not processes_with(job.marker) and not os.path.exists(job.scratch))
    assert list(Path(job.folder).iterdir()) == []


def test_an_agent_that_kills_its_supervisor_leaves_nobody(tmp_path: Path) -> None:
    script = f"{FOREVER} & setsid {FOREVER} & kill -9 $PPID; {FOREVER}"
    ran = attempt(job_of(tmp_path, script))
    assert ran.outcome.died
    assert not ran.outcome.complete


def test_a_supervisor_cannot_be_asked_to_end_by_its_agent(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; true"))
    assert ran.outcome.complete


def test_the_agent_gets_signals_as_anybody(tmp_path: Path) -> None:
    # A child of Python inherits what Python ignores, unless somebody cares.
    ran = attempt(job_of(tmp_path, "grep SigIgn /proc/self/status"))
    # Signals above 31 are of the C library, and are as whoever started the tests has them.
    assert int(ran.kept("stdout.txt").split()[1], 16) & 0x7FFFFFFF == 0


def test_standard_input_is_empty_and_no_descriptor_is_inherited(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "cat; ls /proc/self/fd"))
    assert ran.kept("stdout.txt").split() == ["0", "1", "2", "3"]


def test_the_environment_is_built_from_nothing(tmp_path: Path) -> None:
    os.environ["CANARY"] = "seen"
    try:
        ran = attempt(job_of(tmp_path, "env"))
    finally:
        del os.environ["CANARY"]
    names = {line.split("=", 1)[0] for line in ran.kept("stdout.txt").splitlines()}
    own = {"HOME", "TMPDIR", "TWOARM_TRIAL", "GIT_CEILING_DIRECTORIES"}
    assert names - {"_", "OLDPWD", "PWD"} == {"PATH", "LANG", *own}


def test_every_attempt_has_a_home_of_its_own_and_set_up_has_not_been_there(tmp_path: Path) -> None:
    job = job_of(
        tmp_path,
        "cat $HOME/a/b; ls -A $HOME $TMPDIR",
        setup=("touch $HOME/left",),
        home_texts={"a/b": "text"},
    )
    box = f"{job.scratch}/box"
    told = attempt(job).kept("stdout.txt").split()
    assert told == [f"text{box}/home:", "a", f"{box}/tmp:", "prompt.txt"]


def test_what_set_up_changes_is_not_the_agents_change(tmp_path: Path) -> None:
    job = job_of(
        tmp_path, "git log --oneline | wc -l; echo 1 > answer.txt", setup=("echo 1 > made.txt",)
    )
    ran = attempt(job)
    assert ran.kept("stdout.txt").strip() == "1"
    assert "answer.txt" in ran.kept("diff.patch")
    assert "made.txt" not in ran.kept("diff.patch")


def test_a_set_up_that_fails_ends_the_attempt(tmp_path: Path) -> None:
    job = job_of(tmp_path, "touch ran", setup=("echo no; exit 3", "touch later"))
    ran = attempt(job)
    assert ran.facts["setup_exit_code"] == 3
    assert "agent_exit_code" not in ran.facts
    assert ran.kept("setup.log") == "no\n"


def test_an_agent_that_edits_the_tests_does_not_pass_by_it(tmp_path: Path) -> None:
    cheat = "echo true > tests/check.sh; echo x > tests/more"
    assert attempt(job_of(tmp_path, cheat)).facts["acceptance_exit_code"] == 0
    restored = attempt(job_of(tmp_path, cheat, restore=("tests",)))
    assert restored.facts["acceptance_exit_code"] == 1
    assert "tests/check.sh" in restored.kept("diff.patch")


def test_restoring_never_writes_through_a_link_that_the_agent_made(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "check.sh").write_text("mine\n")
    script = f"rm -r tests; ln -s {outside} tests"
    ran = attempt(job_of(tmp_path, script, restore=("tests/check.sh", "tests/gone")))
    assert ran.facts["acceptance_exit_code"] == 1
    assert (outside / "check.sh").read_text() == "mine\n"


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf .git *; true",
        "cd ..; rm -rf work",
        "cd ..; rm -rf work; ln -s /tmp work",
        f"{SOLVE}; cd ..; mv work tmp/aside",
        "cd ..; rm -rf out home tmp; true",
        "mkdir -p a/b; chmod 000 a",
        "rm tests/check.sh",
        "git init -q sub; git -C sub commit -q --allow-empty -m x; true",
        "git config core.fsmonitor 'touch /tmp/never'; git config core.pager false; true",
    ],
)
def test_an_agent_that_breaks_its_folders_has_failed_and_nobody_else(
    tmp_path: Path, script: str
) -> None:
    job = job_of(tmp_path, script, restore=("tests",))
    ran = attempt(job)
    assert ran.outcome.complete
    assert ran.facts["acceptance_exit_code"] != 0


def test_acceptance_has_its_own_time_limit_and_nothing_of_the_agents(tmp_path: Path) -> None:
    job = job_of(tmp_path, "touch $HOME/x", acceptance={"": FOREVER}, acceptance_seconds=0.2)
    ran = attempt(job)
    assert ran.facts["acceptance_exit_code"] == 124
    assert ran.facts["acceptance_ended_by"] == "timeout"
    env = {**job.env, "agent": {**job.env["agent"], "KEY": "value"}}
    script = "env; touch $HOME/agent-was-here"
    job = job_of(tmp_path, script, acceptance={"": "env; ls -A $HOME"}, env=env)
    ran = attempt(job)
    assert "KEY=value" in ran.kept("stdout.txt")
    assert "KEY" not in ran.kept("acceptance.log")
    assert "agent-was-here" not in ran.kept("acceptance.log")


def test_files_of_the_home_and_commands_afterwards_are_kept(tmp_path: Path) -> None:
    script = """
mkdir -p $HOME/.agent/a $HOME/.agent/b
echo old > $HOME/.agent/a/log.jsonl; touch -d 2001-01-01 $HOME/.agent/a/log.jsonl
echo new > $HOME/.agent/b/log.jsonl
echo '{"id":"s1"}'; echo '{"id":"s2"}'; echo '{"id":"s1"}'
"""
    after = After(
        argv=("echo", "exported", "{match}"),
        source="stdout.txt",
        pattern='"id":"(s[0-9])"',
        output="export.json",
        more="export.{match}.json",
    )
    job = job_of(tmp_path, script, keep={".agent/**/*.jsonl": "log.jsonl"}, after=(after,))
    ran = attempt(job)
    assert ran.kept("log.jsonl") == "new\n"
    assert ran.kept("export.json") == "exported s1\n"
    assert ran.kept("export.s2.json") == "exported s2\n"


@pytest.mark.parametrize("end", ["exit 3", "sleep 60"])
def test_half_an_output_of_a_command_afterwards_is_not_kept(end: str, tmp_path: Path) -> None:
    after = After(argv=("sh", "-c", f"echo half; {end}"), output="export.json", seconds=0.5)
    ran = attempt(job_of(tmp_path, "echo answer > answer.txt", after=(after,)))
    assert not (ran.folder / "export.json").exists()
    assert (ran.facts["ended_by"], ran.facts["acceptance_exit_code"]) == ("exit", 0)


def test_what_a_killed_runner_was_writing_is_no_file_of_the_run(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, SOLVE))
    (ran.folder / "trial.json.tmp").write_text("{")
    given = {"acceptance_commands": {"t": "true"}, "graders": {"t": "g"}, "models": {"with": None}}
    reader = RunReader(format="command", prices=None, **given)  # type: ignore[arg-type]
    running = Attempted(
        task="t", repeat=1, arm="with", attempt=1, jobs=1, state="running", reserved_usd=None
    )
    with OpenFolder(str(ran.folder)) as at:
        settled = settle(at, running, reader)
    assert settled.state == "run"
    # It is renamed to `trial.json` right after this.
    assert "run.json" in settled.facts["files"]
    assert "trial.json.tmp" not in settled.facts["files"]


def test_nothing_but_what_is_expected_is_taken_from_the_agent(tmp_path: Path) -> None:
    script = """
out=../../own/out; echo '{}' > $out/outcome; echo '{}' > $out/run.json; echo x > $out/extra
ln -s /etc/passwd $TMPDIR/usage.json
"""
    ran = attempt(job_of(tmp_path, script))
    assert sorted(path.name for path in ran.folder.iterdir()) == [
        "acceptance.log",
        "diff.patch",
        "outcome",
        "prompt.txt",
        "stderr.log",
        "stdout.txt",
    ]
    assert ran.facts["ended_by"] == "exit"


def test_a_workspace_is_kept_where_that_was_asked_for(tmp_path: Path) -> None:
    passing = attempt(job_of(tmp_path, "touch answer.txt", keep_workspace="failed"))
    failing = attempt(job_of(tmp_path, "touch other.txt", keep_workspace="failed"))
    assert not (passing.folder / "workspace").exists()
    assert (failing.folder / "workspace" / "other.txt").exists()
    assert not (failing.folder / "workspace" / ".git").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    job = job_of(tmp_path, "true")
    shutil.rmtree(job.folder)
    executor = Local(1)
    executor.submit("it", job, None, None)
    (outcome,) = executor.completed(30)
    executor.close()
    assert (outcome.complete, outcome.died, outcome.cancelled) == (False, False, False)
    assert "No such file" in outcome.reason


def test_the_supervisor_needs_nothing_but_the_standard_library() -> None:
    here = Path(executors.__file__).parent.parent
    script = f"""
import sys
for name in ("", "/run", "/run/supervisor", "/runs", "/files"):
    module = type(sys)("twoarm" + name.replace("/", "."))
    module.__path__ = [{str(here.parent)!r} + name]
    sys.modules[module.__name__] = module
import twoarm.run.supervisor.main
print(sorted(name for name in sys.modules if name.startswith("twoarm")))
"""
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == str(
        [
            "twoarm",
            "twoarm.files",
            "twoarm.files.safe",
            "twoarm.run",
            "twoarm.run.supervisor",
            "twoarm.run.supervisor.grading",
            "twoarm.run.supervisor.isolation",
            "twoarm.run.supervisor.main",
            "twoarm.run.supervisor.manifest",
            "twoarm.run.supervisor.patch",
            "twoarm.run.supervisor.process_limit",
            "twoarm.run.supervisor.processes",
            "twoarm.run.supervisor.program",
            "twoarm.run.supervisor.redact",
            "twoarm.run.supervisor.scratch",
            "twoarm.runs",
            "twoarm.runs.exit_codes",
        ]
    )


def test_an_agent_can_write_outside_of_a_copy_and_not_out_of_a_sandbox(
    tmp_path: Path, bubblewrap: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    script = (
        f"echo 1 > answer.txt; echo mine > {outside}/here; echo x > $HOME/h; echo x > $TMPDIR/t"
    )
    assert attempt(job_of(tmp_path, script)).facts["agent_exit_code"] == 0
    assert (outside / "here").exists()
    (outside / "here").unlink()
    seal = bubblewrap_seal(tmp_path, bubblewrap)
    ran = attempt(job_of(tmp_path, f"set -e; {script}; true", seal=seal))
    assert ran.facts["acceptance_exit_code"] == 0
    assert ran.facts["agent_exit_code"] != 0
    assert str(outside) in ran.kept("stderr.log")
    assert not (outside / "here").exists()
