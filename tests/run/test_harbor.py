"""Tasks of Harbor in a run, with a stand-in for Harbor: what is asked, read, refused and left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.harbor_suites import BY_AGENT, harbor_suite, stand_in, task_folder
from tests.support.run_folders import QUICK, records, run
from tests.support.suite_files import job_of, processes_with, wait_for
from twoarm.run.executors.local import Local
from twoarm.run.harbor_tasks import agent_seconds
from twoarm.run.suite_file import SuiteError, read_suite
from twoarm.run.supervisor.leftovers import remove_named


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite folder with two tasks, and the stand-in first on PATH."""
    path = tmp_path / "suite"
    for name in ("one", "two"):
        task_folder(path / "tasks", name)
    stand_in(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return path


def by_trial(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(record["task_id"], record["arm"]): record for record in records(out)}


def mistakes(folder: Path, **changed: Any) -> list[str]:
    with pytest.raises(SuiteError) as refused:
        read_suite(str(harbor_suite(folder, **changed)))
    return [str(problem).partition(": ")[2] for problem in refused.value.problems]


# What is read ------------------------------------------------------------------------------------


def test_a_folder_of_tasks_is_run_in_two_arms(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(harbor_suite(folder), out, "--jobs", "2")
    assert result.code == 0, result.err
    found = by_trial(out)
    assert list(found) == [(t, arm) for t in ("one", "two") for arm in ("nop", "oracle")]
    solved, left = found["one", "oracle"], found["one", "nop"]
    assert (solved["success"], solved["score"]) == (True, 1.0)
    assert (left["success"], left["score"], left["tags"]) == (False, 0.25, ["partial_reward"])
    figures = ("duration_seconds", "total_cost_usd", "input_tokens", "cache_read_tokens")
    assert [solved[figure] for figure in figures] == [4.0, 0.5, 80, 20]
    assert (solved["repeat"], solved["failure"]) == (1, None)
    assert "acceptance_command" not in solved
    digests = json.loads((out / "schedule.json").read_text())["digests"]
    assert solved["grader"] == digests["tasks.one.harbor"]
    assert left["run_id"] != "of-harbor"
    kept = {path.name for path in (out / "runs" / "nop" / "one.1").iterdir()}
    assert {"result.json", "config.json", "harbor.log", "run.json", "prompt.txt"} <= kept
    prompt = out / "runs" / "nop" / "one.1" / "prompt.txt"
    assert prompt.read_text() == "Do one: write /app/answer.txt.\n"


def test_a_trial_has_its_own_copy_of_the_task_under_its_name(folder: Path, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", f'echo x >> "$path/instruction.md"; echo "$path"; {BY_AGENT}')
    out = tmp_path / "out"
    assert run(harbor_suite(folder), out).code == 0
    (log,) = out.glob("runs/oracle/two.1/harbor.log")
    assert log.read_text().endswith("/box/work/two\n")
    assert "x" not in (folder / "tasks" / "two" / "instruction.md").read_text().splitlines()


def test_telemetry_is_off_and_secrets_are_in_the_environment(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "a-key-of-nobody")
    said = 'echo "t=$HARBOR_TELEMETRY k=${#SOME_KEY} $SOME_KEY"'
    stand_in(tmp_path / "bin", f"{said}; {BY_AGENT}")
    harbor = tmp_path / "bin" / "harbor"
    asked = f'echo "$HARBOR_TELEMETRY" >> {tmp_path}/asked'
    harbor.write_text(harbor.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{asked}\n", 1))
    out = tmp_path / "out"
    assert run(harbor_suite(folder, agent={"secrets": ["SOME_KEY"]}), out).code == 0
    logs = [log.read_text() for log in out.glob("runs/*/*/harbor.log")]
    assert len(logs) == 4
    assert (tmp_path / "asked").read_text() == "0\n" * 5
    assert all(log.startswith("t=0 k=15 ") and "nobody" not in log for log in logs)


@pytest.mark.parametrize(
    ("script", "state", "reason"),
    [
        ("begin; raised ApiRateLimitError", "infra", "ApiRateLimitError"),
        ("begin; raised AgentTimeoutError", "agent", "AgentTimeoutError"),
        ("begin; exit 3", "agent", "its output cannot be read: no result.json; the trial did not"),
        ("begin; echo '{' > $at/result.json", "agent", "its output cannot be read: not JSON"),
        (
            "printf 'a \\342\\225\\257\\nValueError: no agent\\n  of that name\\n' >&2; exit 1",
            "infra",
            "harbor did not begin the trial (exit code 1): ValueError: no agent of that name",
        ),
    ],
)
def test_a_trial_without_a_reward_says_why(
    folder: Path, tmp_path: Path, script: str, state: str, reason: str
) -> None:
    stand_in(tmp_path / "bin", script)
    out = tmp_path / "out"
    run(harbor_suite(folder), out, "--only", "one")
    found = records(out)
    assert {record["failure"] for record in found} == {state}
    assert all(record["failure_reason"].startswith(reason) for record in found)
    assert not any(record["success"] for record in found)


@pytest.mark.parametrize(
    ("phases", "state", "reason"),
    [
        ("CancelledError", "agent", "hit the time limit of its runner"),
        ("CancelledError null", "infra", "the runner ended the trial (timeout) before the agent"),
        (
            'CancelledError "$(phase 2 6)" "$(phase 6 7)"',
            "infra",
            "the runner ended the trial (timeout) after the agent",
        ),
    ],
)
def test_a_trial_at_its_limit_is_the_agents_failure_while_that_worked(
    folder: Path, tmp_path: Path, phases: str, state: str, reason: str
) -> None:
    stand_in(tmp_path / "bin", f"begin; trap 'raised {phases}; exit 130' INT; sleep 60 & wait")
    out = tmp_path / "out"
    run(harbor_suite(folder, limits={"timeout_seconds": 0.4}), out, "--only", "one")
    found = records(out)
    assert {record["failure"] for record in found} == {state}
    assert all(record["failure_reason"].startswith(reason) for record in found)


def test_a_run_page_shows_the_trajectory(folder: Path, tmp_path: Path) -> None:
    step = '{"steps": [{"source": "user", "message": "Do it."}, {"message": "I did it."}]}'
    wrote = f"echo '{step}' > $at/agent/trajectory.json"
    stand_in(tmp_path / "bin", f"{BY_AGENT}; {wrote}")
    out = tmp_path / "out"
    assert run(harbor_suite(folder), out, "--only", "one").code == 0
    shown = twoarm("show", str(out), "one", "1", "--arm", "oracle")
    assert "I did it." in shown.out, (shown.out, shown.err)


# What is refused ---------------------------------------------------------------------------------


TASK = {"id": "x", "prompt": "p", "acceptance_command": "true"}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"tasks": [{"harbor": "gone"}]}, "tasks[0].harbor: no folder `gone`; paths are relative"),
    ({"tasks": [{"harbor": "empty"}]}, "tasks[0].harbor: no task in `empty`; each is a folder"),
    ({"tasks": [{"harbor": "tasks", "id": "x"}]}, "tasks[0].id: `tasks` is a folder of tasks"),
    ({"tasks": [{"harbor": "half"}]}, "tasks[0].harbor: `a` has instruction.md but no task.toml"),
    ({"tasks": [{"harbor": "mute"}]}, "tasks[0].harbor: `mute/instruction.md` is missing or empty"),
    (
        {"tasks": [{"harbor": "latin"}]},
        "tasks[0].harbor: `latin/instruction.md` is not UTF-8; save",
    ),
    ({"tasks": [{"harbor": "nil"}]}, "tasks[0].harbor: `nil/instruction.md` has a zero byte in it"),
    ({"tasks": [{"harbor": "dir"}]}, "tasks[0].harbor: `dir/instruction.md` cannot be read: Is a"),
    ({"tasks": [{"harbor": "odd"}]}, "tasks[0].harbor: `odd/task.toml` is not TOML: "),
    ({"tasks": [{"harbor": "a b"}]}, "tasks[0].harbor: `a b` cannot be the id of a task"),
    ({"tasks": [{"harbor": "linked"}]}, "tasks[0].harbor: `linked/more` links out of the task"),
    (
        {"tasks": [{"harbor": "tasks"}, {"harbor": "tasks/one"}]},
        "tasks[1].id: `one` appears twice",
    ),
    (
        {"tasks": [{"harbor": "tasks", "prompt": "p"}]},
        "tasks[0].prompt: a task of Harbor brings its own; leave it out",
    ),
    (
        {"tasks": [{"harbor": "tasks", "acceptance_command": "true"}]},
        "tasks[0].acceptance_command: a task of Harbor brings its own",
    ),
    ({"tasks": [TASK]}, "tasks[0]: not a task of Harbor; with program ="),
    ({"workspace": {"copy": "tasks"}}, "workspace: tasks of Harbor bring their own; leave it out"),
    ({"acceptance_files": ["x"]}, "acceptance_files: tasks of Harbor bring their own"),
    (
        {"agent": {"program": "codex"}},
        'tasks[0].harbor: a task of Harbor; only with program = "harbor"',
    ),
    ({"arms": {"nop": {"remove": ["x"]}}}, "arms.nop.remove: no effect: the workspace is Harbor's"),
    ({"agent": {"args": ["--path=x"]}}, "agent.args: `--path=x`: twoarm gives this option"),
    ({"arms": {"nop": {"args": ["-p/x"]}}}, "arms.nop.args: `-p/x`: twoarm gives this option for"),
    ({"tasks": [{}]}, "tasks[0].id: missing"),
]


@pytest.mark.parametrize(("changed", "said"), BAD, ids=[said for _, said in BAD])
def test_mistakes_are_told_by_key(folder: Path, changed: dict[str, Any], said: str) -> None:
    (folder / "empty").mkdir()
    for name in ("mute", "latin", "nil", "dir", "odd", "a b", "linked"):
        task_folder(folder, name)
    (folder / "mute" / "instruction.md").write_text("\n")
    (folder / "latin" / "instruction.md").write_bytes(b"R\xe9pare-le.\n")
    (folder / "nil" / "instruction.md").write_bytes(b"Do it.\0\n")
    (folder / "dir" / "instruction.md").unlink()
    (folder / "dir" / "instruction.md").mkdir()
    (folder / "odd" / "task.toml").write_text("= 1")
    (folder / "linked" / "more").symlink_to(folder / "tasks")
    task_folder(folder / "half", "a")
    (folder / "half" / "a" / "task.toml").unlink()
    assert any(text.startswith(said) for text in mistakes(folder, **changed))


def test_a_task_in_steps_has_a_prompt_for_each(folder: Path) -> None:
    task = task_folder(folder, "steps")
    (task / "instruction.md").unlink()
    config = task / "task.toml"
    config.write_text(f'{config.read_text()}[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n')
    for name in ("a", "b"):
        (task / "steps" / name).mkdir(parents=True)
        (task / "steps" / name / "instruction.md").write_text(f"Do {name}.\n")
    checked = read_suite(str(harbor_suite(folder, tasks=[{"harbor": "steps", "id": "own"}])))
    assert checked.prompts == {"own": "Do a.\n\nDo b.\n"}


def test_tasks_of_another_file_are_found_beside_it(folder: Path) -> None:
    (folder / "more").mkdir()
    task_folder(folder / "more" / "tasks", "three")
    (folder / "more" / "tasks.json").write_text('{"tasks": [{"harbor": "tasks"}]}')
    checked = read_suite(str(harbor_suite(folder, tasks_from="more/tasks.json")))
    assert [task.id for task in checked.tasks] == ["three", "one", "two"]
    assert checked.at(checked.tasks[0].harbor or "") == str(folder / "more" / "tasks" / "three")


def test_a_task_that_was_changed_is_refused_by_its_key(folder: Path, tmp_path: Path) -> None:
    out, suite = tmp_path / "out", harbor_suite(folder)
    assert run(suite, out).code == 0
    (folder / "tasks" / "two" / "tests" / "test.sh").write_text("echo 1\n")
    refused = twoarm("run", "--resume", str(out), *QUICK)
    assert refused.code == 2
    assert "digests.tasks.two.harbor has changed since the schedule was frozen" in refused.err


def test_a_task_that_is_added_is_run(folder: Path, tmp_path: Path) -> None:
    out, suite = tmp_path / "out", harbor_suite(folder)
    assert run(suite, out).code == 0
    task_folder(folder / "tasks", "three")
    grown = twoarm("run", "--resume", str(out), "--yes", *QUICK)
    assert grown.code == 0, grown.err
    assert {record["task_id"] for record in records(out)} == {"one", "two", "three"}


def test_runs_of_harbor_are_not_graded_again(folder: Path, tmp_path: Path) -> None:
    out, suite = tmp_path / "out", harbor_suite(folder)
    assert run(suite, out).code == 0
    refused = twoarm("regrade", str(out), "--out", str(tmp_path / "again"))
    assert refused.code == 2
    assert "graded by the verifiers of Harbor's tasks, in containers that are gone" in refused.err


def test_the_dry_run_says_how_it_is_isolated_and_asks_harbor(folder: Path, tmp_path: Path) -> None:
    config = folder / "tasks" / "one" / "task.toml"
    config.write_text(f"{config.read_text()}[agent]\ntimeout_sec = 600.0\n")
    suite = harbor_suite(folder)
    dry = twoarm("run", str(suite), "--dry-run")
    assert dry.code == 0, dry.err
    assert "agent `harbor` 0.24.0: " in dry.out
    assert "workspaces by Harbor, " in dry.out
    said = "isolation copy: nothing holds an agent back; it can read, write and kill whatever you"
    assert said in dry.out
    assert "(bwrap: `harbor` starts containers of its own, which nothing inside" in dry.out
    assert "warning: task `one`: its task.toml gives the agent 600 s, and the whole" in dry.out
    contained = twoarm("run", str(suite), "--dry-run", "--isolation", "podman")
    assert contained.err.startswith("twoarm: --isolation podman: `harbor` starts containers of")
    (tmp_path / "bin" / "harbor").write_text("#!/bin/sh\necho 0.23.1\n")
    old = twoarm("run", str(suite), "--dry-run")
    assert "is 0.23.1; the oldest supported version is 0.24.0" in old.err


def test_a_task_that_says_nothing_of_time(tmp_path: Path) -> None:
    assert agent_seconds(str(task_folder(tmp_path, "one"))) is None
    assert agent_seconds(str(tmp_path / "gone")) is None


# What is left ------------------------------------------------------------------------------------


ENGINE = """#!/bin/sh
echo "$(basename "$0") $*" >> LOG
case "$1 $2" in "ps -a") echo c1 c2 ;; "network ls") echo n1 ;; esac
"""


def engine(tmp_path: Path, name: str) -> Path:
    log = tmp_path / "engine.log"
    path = tmp_path / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(ENGINE.replace("LOG", str(log)))
    path.chmod(0o755)
    return log


def test_what_is_left_in_an_engine_is_removed_by_name(folder: Path, tmp_path: Path) -> None:
    log = engine(tmp_path, "docker")
    out = tmp_path / "out"
    assert run(harbor_suite(folder), out, "--only", "one").code == 0
    token = json.loads((out / "place.json").read_text())["token"]
    asked = log.read_text().splitlines()
    assert len(asked) == 12
    first = [line.replace(token, "T") for line in asked[:6]]
    name = first[0].partition("name=")[2]
    assert name.startswith("T-")
    assert first == [
        f"docker ps -a -q --filter name={name}",
        "docker kill c1 c2",
        "docker rm -f -v c1 c2",
        f"docker network ls -q --filter name={name}",
        "docker network rm n1",
        f"docker volume ls -q --filter name={name}",
    ]


def test_nothing_is_removed_by_a_name_that_others_might_have() -> None:
    with pytest.raises(ValueError, match="short"):
        remove_named(("docker",), "short", {})


def test_what_cannot_be_removed_is_told(tmp_path: Path) -> None:
    engine(tmp_path, "docker")
    path = tmp_path / "bin" / "docker"
    path.write_text(f'{path.read_text()}[ "$1" != rm ] || {{ echo busy >&2; exit 1; }}\n')
    told = remove_named(("docker", "podman"), "x" * 12, {"PATH": f"{tmp_path / 'bin'}:/bin"})
    assert told == ["docker rm -f -v: busy"]


CLEANS = 'trap \'echo "$(date +%s) cleaned" >> "$SIGN"; exit 130\' INT; : > "$SIGN"; '
CLEANS += "while :; do sleep 0.05; done"


def job(tmp_path: Path, script: str = CLEANS, **changed: Any) -> Any:
    made = job_of(tmp_path, script, stop_signal=signal.SIGINT, **changed)
    made.env["agent"]["SIGN"] = str(tmp_path / "sign")
    return made


def test_a_runner_that_wants_no_more_lets_it_clean_up(tmp_path: Path) -> None:
    executor = Local(1)
    submitted = job(tmp_path)
    executor.submit("it", submitted, None, None)
    wait_for((tmp_path / "sign").exists)
    executor.cancel("it")
    (outcome,) = executor.completed(30)
    executor.close()
    assert outcome.cancelled
    assert (tmp_path / "sign").read_text().count("cleaned") == 1
    assert processes_with(submitted.marker) == []


def test_it_has_its_grace_and_no_more(tmp_path: Path) -> None:
    deaf = "trap '' INT; : > \"$SIGN\"; while :; do sleep 0.05; done"
    executor = Local(1)
    submitted = job(tmp_path, deaf, grace_seconds=0.5)
    executor.submit("it", submitted, None, None)
    wait_for((tmp_path / "sign").exists)
    executor.cancel("it")
    (outcome,) = executor.completed(30)
    executor.close()
    assert outcome.cancelled
    assert processes_with(submitted.marker) == []


def test_it_is_asked_once_even_if_the_runner_goes_while_it_cleans_up(tmp_path: Path) -> None:
    slow = 'trap \'echo asked >> "$SIGN"\' INT; : > "$SIGN"; while :; do sleep 0.05; done'
    executor = Local(1)
    executor.submit("it", job(tmp_path, slow, timeout_seconds=0.2, grace_seconds=2), None, None)
    wait_for(lambda: (tmp_path / "sign").exists() and "asked" in (tmp_path / "sign").read_text())
    executor.cancel("it")
    list(executor.completed(30))
    executor.close()
    assert (tmp_path / "sign").read_text() == "asked\n"


def test_the_grace_of_a_trial_is_at_least_that_of_its_agent(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, float]] = []
    submit = Local.submit

    def seeing(self: Local, attempt: str, job: Any, *rest: Any) -> Any:
        seen.append((job.stop_signal, job.grace_seconds))
        return submit(self, attempt, job, *rest)

    monkeypatch.setattr(Local, "submit", seeing)
    assert run(harbor_suite(folder), tmp_path / "out", "--only", "one").code == 0
    assert seen == [(signal.SIGINT, 10.0)] * 2


def killed_while_running(folder: Path, tmp_path: Path) -> Path:
    """A run whose runner and supervisor are killed while its first trial is running."""
    stand_in(tmp_path / "bin", f": > {tmp_path}/begun; sleep 60; {BY_AGENT}")
    out = tmp_path / "out"
    words = ["run", str(harbor_suite(folder)), "--out", str(out), "--only", "one", *QUICK]
    process = subprocess.Popen(
        [sys.executable, "-m", "twoarm", *words, "--repeats", "1", "--jobs", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for((tmp_path / "begun").exists, 30)
    (found,) = [line for line in processes_with(str(out.parent)) if "supervisor.main" in line]
    for pid in (process.pid, int(found.partition(":")[0])):
        os.kill(pid, signal.SIGSTOP)
    for pid in (int(found.partition(":")[0]), process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    return out


def test_a_resume_removes_what_a_killed_runner_has_left(folder: Path, tmp_path: Path) -> None:
    out = killed_while_running(folder, tmp_path)
    stand_in(tmp_path / "bin")
    log = engine(tmp_path, "docker")
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    token = json.loads((out / "place.json").read_text())["token"]
    asked = log.read_text().splitlines()
    assert asked[:3] == [
        f"docker ps -a -q --filter name={token}",
        "docker kill c1 c2",
        "docker rm -f -v c1 c2",
    ]
    assert processes_with(token) == []


def test_a_supervisor_that_is_killed_leaves_nothing_in_an_engine(tmp_path: Path) -> None:
    log = engine(tmp_path, "docker")
    executor = Local(1)
    submitted = job(tmp_path, engines=("docker",))
    submitted.env["agent"]["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    executor.submit("it", submitted, None, None)
    wait_for((tmp_path / "sign").exists)
    (found,) = [line for line in processes_with(submitted.marker) if "supervisor.main" in line]
    os.kill(int(found.partition(":")[0]), signal.SIGKILL)
    (outcome,) = executor.completed(30)
    executor.close()
    assert outcome.died
    assert f"docker ps -a -q --filter name={submitted.marker}" in log.read_text().splitlines()
    assert processes_with(submitted.marker) == []
