"""Whole runs in containers: what their steps see and may do there."""

import json
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.containers import ONE, Podman, contained
from tests.support.run_folders import ALL, QUICK, committed, records, run, runs
from tests.support.suite_files import SOLVE

pytestmark = pytest.mark.usefixtures("cache", "podman")


def said(out: Path, arm: str = "with", name: str = "stdout.txt", task: str = "one") -> str:
    """What a step of the first run of a task printed."""
    return (out / "runs" / arm / f"{task}.1" / name).read_text()


def ran(folder: Path, suite: Path, *more: str) -> Path:
    """A run that came to its end."""
    result = run(suite, folder / "out", *more)
    assert result.code == 0, result.err
    return folder / "out"


def accepting(*commands: str) -> list[dict[str, Any]]:
    return [ONE[0] | {"acceptance_command": "; ".join(commands)}]


def test_a_whole_run_in_containers(tmp_path: Path, podman: Podman) -> None:
    # Something is shown, and something in it hidden.
    accept = "test -e {suite}/agent.sh && test -f answer.txt"
    tasks = [ONE[0] | {"id": name, "acceptance_command": accept} for name in ("one", "two")]
    out = ran(tmp_path, contained(tmp_path, tasks=tasks), "--isolation", "podman")
    assert runs(out) == ALL
    assert [record["success"] for record in records(out)] == [True] * 4
    assert json.loads((out / "receipt.json").read_text())["isolation"] == "podman"
    digests = json.loads((out / "schedule.json").read_text())["digests"]
    assert digests["workspace.image"] == podman.id_of()
    assert "+fixed" in said(out, name="diff.patch")
    # What the client of the engine took of the machine is not the agent's.
    facts = json.loads(next(out.glob("runs/*/*/trial.json")).read_text())["facts"]
    assert facts["agent_exit_code"] == 0
    assert not {"cpu_seconds", "peak_rss_mb"} & facts.keys()
    # Nobody says anything beside the agent.
    assert said(out, name="stderr.log") == said(out, name="acceptance.log") == ""
    assert podman.containers() == []


def test_a_suite_with_an_image_is_run_in_containers_unasked(tmp_path: Path) -> None:
    result = twoarm("run", str(contained(tmp_path)), "--dry-run")
    assert result.code == 0, result.err
    assert "isolation podman: agents see their own folders and their image" in result.out


# Signs of where a step runs, and with what.
LOOK = """
echo "home $HOME"; echo "tmp $TMPDIR"; pwd
for at in "$HOME" "$TMPDIR" .; do touch "$at/sign" || echo "cannot write to $at"; done
"""


def test_every_step_has_its_home_and_its_folder_for_temporary_files(tmp_path: Path) -> None:
    out = ran(tmp_path, contained(tmp_path, f"{LOOK} {SOLVE}", tasks=accepting(LOOK)))
    agent, acceptance = (said(out, name=name) for name in ("stdout.txt", "acceptance.log"))
    for text in (agent, acceptance):
        assert "cannot write" not in text
    homes = [text.splitlines()[0] for text in (agent, acceptance)]
    assert homes[0].endswith("/box/home")
    assert "/own/home-" in homes[1]
    assert agent.splitlines()[1].endswith("/box/tmp")
    assert agent.splitlines()[2] == acceptance.splitlines()[2]
    assert agent.splitlines()[2].endswith("/box/work")


def test_an_agent_sees_nothing_of_the_machine_and_cannot_change_its_image(tmp_path: Path) -> None:
    script = f"""
ls / ; ls '{tmp_path}' '{tmp_path}/out' '{Path.home()}' 2> /dev/null
ps | grep -c .
for at in /bin/sign /etc/sign '{tmp_path}/agent.sh'; do
    touch "$at" 2> /dev/null && echo changed
done
env | cut -d= -f1 | sort | tr '\\n' ' '
{SOLVE}
"""
    out = ran(tmp_path, contained(tmp_path, script))
    lines = said(out).splitlines()
    # What is mounted there, and nothing beside it.
    assert "app" not in lines
    assert "runs" not in lines
    assert ".bashrc" not in lines
    assert "changed" not in lines
    # The init, the shell, `ps`, `grep` and a title.
    assert int(next(line for line in lines if line.isdigit())) <= 5
    assert not set(lines[-1].split()) & {"CI", "PYTEST_CURRENT_TEST", "CONTAINERS_CONF", "USER"}


def test_setup_and_builds_run_in_the_image(tmp_path: Path, podman: Podman) -> None:
    podman.image("localhost/twoarm-test-tool:1", "RUN echo inside > /etc/where")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "tool").write_text("#!/bin/sh\necho the tool of a build\n")
    (tmp_path / "source" / "tool").chmod(0o755)
    committed(tmp_path / "source")
    build = {"repo": "source", "ref": "HEAD"}
    where = "cat /etc/where; cp /etc/where"
    arms = {
        "with": {
            "source": build,
            "build_commands": [f"{where} {{build}}/w; cp tool {{build}}/bin"],
        },
        "without": {"setup_commands": [f"{where} of_arm"]},
    }
    script = f"cat of_*; cat $BUILT/w; tool; {SOLVE}"
    suite = contained(
        tmp_path,
        script,
        agent={"env": {"BUILT": "{build}"}},
        workspace={
            "image": "localhost/twoarm-test-tool:1",
            "setup_commands": [f"{where} of_workspace"],
        },
        tasks=[ONE[0] | {"setup_commands": [f"{where} of_task"]}],
        arms=arms,
    )
    out = ran(tmp_path, suite)
    assert said(out) == "inside\ninside\ninside\nthe tool of a build\n"
    assert said(out, "without") == "inside\ninside\ninside\n"


def test_a_task_may_have_an_image_of_its_own(tmp_path: Path, podman: Podman) -> None:
    own = podman.image("localhost/twoarm-test-own:1", "RUN echo own > /etc/which")
    look = "test -e /etc/which && cat /etc/which || echo common"
    tasks = [
        {"id": "one", "prompt": "p", "acceptance_command": look, "setup_commands": [look]},
        {"id": "two", "prompt": "p", "acceptance_command": look, "setup_commands": [look]}
        | {"image": "localhost/twoarm-test-own:1"},
    ]
    out = ran(tmp_path, contained(tmp_path, look, tasks=tasks))
    for task, which in (("one", "common\n"), ("two", "own\n")):
        for name in ("stdout.txt", "acceptance.log"):
            assert said(out, name=name, task=task) == which
        assert (out / "setup" / f"task.{task}" / "setup.log").read_text() == which
    digests = json.loads((out / "schedule.json").read_text())["digests"]
    assert digests["tasks.two.image"] == own
    assert digests["workspace.image"] == podman.id_of()


class Hello(BaseHTTPRequestHandler):
    """Greets whoever comes."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *_: object) -> None:
        """Nothing is told of it."""


@pytest.fixture
def server() -> Iterator[int]:
    """The port of somebody on the loopback of this machine."""
    with HTTPServer(("127.0.0.1", 0), Hello) as serving:
        thread = Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield serving.server_port
        serving.shutdown()
        thread.join()


@pytest.mark.parametrize(("network", "opened"), [("host", True), ("host", False), ("none", True)])
def test_the_agent_has_the_network_that_it_was_given_and_acceptance_one_if_it_was_asked_for(
    tmp_path: Path, server: int, network: str, opened: bool
) -> None:
    ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 127.0.0.1 {server} 2> /dev/null"
    ask += " | grep hello || echo nobody"
    suite = contained(
        tmp_path,
        ask,
        agent={"network": network},
        workspace={"acceptance_network": opened, "setup_commands": ["ls /sys/class/net"]},
        tasks=accepting("ls /sys/class/net", ask),
    )
    out = ran(tmp_path, suite)
    assert said(out) == ("hello\n" if network == "host" else "nobody\n")
    interfaces, _, answer = said(out, name="acceptance.log").rstrip().rpartition("\n")
    # Where the agent has none, acceptance has the one that the engine gives to anybody.
    assert answer == ("hello" if opened and network == "host" else "nobody")
    assert (interfaces.split() == ["lo"]) == (not opened)
    # Set-up fetches what others need.
    assert "eth0" in (out / "setup" / "workspace" / "setup.log").read_text().split()


def test_an_agent_has_the_network_of_the_engine_if_the_suite_says_nothing(tmp_path: Path) -> None:
    suite = contained(tmp_path, "ls /sys/class/net", agent={"network": None})
    assert "eth0" in said(ran(tmp_path, suite)).split()


def test_acceptance_reads_files_of_the_suite_that_no_agent_sees(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    script = f"ls '{folder}'; cat '{folder}/key.txt' || echo unseen; {SOLVE}"
    suite = contained(
        folder,
        script,
        tasks=accepting('test "$(cat answer.txt)" = "$(cat {suite}/key.txt)"'),
    )
    (folder / "key.txt").write_text("fixed\n")
    out = ran(tmp_path, suite)
    assert said(out) == "agent.sh\nunseen\n"
    assert [record["success"] for record in records(out)] == [True, True]


def test_every_step_may_read_what_is_mounted_and_nobody_may_write_to_it(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "notes.txt").write_text("notes\n")
    look = "cat {0}/notes.txt; echo x > {0}/notes.txt || echo kept".format(tmp_path / "shared")
    suite = contained(
        tmp_path / "suite",
        look,
        agent={"mounts": ["../shared"]},
        workspace={"setup_commands": [look]},
        tasks=accepting(look),
    )
    out = ran(tmp_path, suite)
    logs = [said(out), said(out, name="acceptance.log")]
    logs.append((out / "setup" / "workspace" / "setup.log").read_text())
    for log in logs:
        # Both streams of a container come by ways of their own.
        assert "notes\n" in log
        assert "kept" in log
    assert (tmp_path / "shared" / "notes.txt").read_text() == "notes\n"


def test_a_step_has_no_more_memory_and_processes_than_the_suite_says(tmp_path: Path) -> None:
    script = """
dd if=/dev/zero of=/dev/null bs=8M count=1 2> /dev/null && echo little
dd if=/dev/zero of=/dev/null bs=300M count=1 2> /dev/null && echo much
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 3 & done 2> /dev/null
ls -d /proc/[0-9]* | wc -l
"""
    limits = {"memory_mb": 64, "processes": 12, "cpus": 0.5}
    out = ran(tmp_path, contained(tmp_path, script, limits=limits))
    lines = said(out).splitlines()
    assert lines[0] == "little"
    assert "much" not in lines
    # A shell that cannot have another process may end there and then.
    assert len(lines) == 1 or int(lines[1]) <= 12


def test_an_agent_that_is_killed_for_its_memory_has_met_a_limit(tmp_path: Path) -> None:
    # Its work is done by then.
    script = f"{SOLVE}; exec dd if=/dev/zero of=/dev/null bs=300M count=1"
    out = ran(tmp_path, contained(tmp_path / "suite", script, limits={"memory_mb": 64}))
    for record in records(out):
        assert record["failure_reason"] == "hit the memory limit of its runner"
        assert (record["success"], record["acceptance_exit_code"]) == (False, 0)


@pytest.mark.parametrize("linked", [False, True])
def test_nobody_outside_writes_to_where_an_agent_works(tmp_path: Path, linked: bool) -> None:
    # Whoever watches over a container writes down that it had no more memory, through links, too.
    script = f"dd if=/dev/zero of=/dev/null bs=300M count=1; {SOLVE}"
    if linked:
        script = f"ln -s '{tmp_path}/noted' oom; {script}"
    out = ran(tmp_path, contained(tmp_path / "suite", script, limits={"memory_mb": 64}))
    assert not (tmp_path / "noted").exists()
    assert ("b/oom" in said(out, name="diff.patch")) is linked


def test_what_an_agent_leaves_is_kept_if_asked_for(tmp_path: Path) -> None:
    script = f"{SOLVE}; printf 'a\\0b' > data.bin; rm README.md; echo '*.o' > .gitignore; : > x.o"
    out = ran(tmp_path, contained(tmp_path, script), "--keep", "all")
    kept = out / "runs" / "with" / "one.1" / "workspace"
    found = sorted(str(path.relative_to(kept)) for path in kept.rglob("*"))
    assert found == [".gitignore", "answer.txt", "data.bin", "x.o"]
    # By the user who runs it, and nobody else.
    assert {path.lstat().st_uid for path in kept.rglob("*")} == {os.geteuid()}


def test_runs_in_containers_are_graded_again_in_containers(tmp_path: Path, podman: Podman) -> None:
    look = "test -x /bin/busybox && test ! -e /usr/bin/env"
    out = ran(tmp_path, contained(tmp_path, tasks=accepting(look, "false")))
    assert [record["success"] for record in records(out)] == [False, False]
    mended = contained(tmp_path, tasks=accepting(f"{look} && test -f answer.txt"))
    new = tmp_path / "new"
    words = ("--out", str(new), *QUICK, "--run-pages", "none")
    result = twoarm("regrade", str(out), str(mended), *words)
    assert result.code == 0, result.err
    assert [record["success"] for record in records(new)] == [True, True]
    assert json.loads((new / "receipt.json").read_text())["isolation"] == "podman"
    assert podman.containers() == []


def test_checks_and_scores_come_out_of_containers(tmp_path: Path) -> None:
    checks = {"a": "test -f answer.txt", "b": "false", "c": "echo 0.25 > $TWOARM_SCORE"}
    tasks = [{"id": "one", "prompt": "p", "acceptance_commands": checks}]
    found = records(ran(tmp_path, contained(tmp_path, tasks=tasks)))
    assert [record["checks"] for record in found] == [{"a": True, "b": False, "c": True}] * 2
    assert [record["score"] for record in found] == [0.25, 0.25]


def test_a_whole_run_with_the_client_of_docker(tmp_path: Path, docker: Podman) -> None:
    tasks = accepting("ls /sys/class/net", "ls '{suite}'", "test -f answer.txt")
    suite = contained(tmp_path, f"{SOLVE}; echo $HOME; test $HINT || exit 3", tasks=tasks)
    out = ran(tmp_path, suite, "--isolation", "docker")
    assert [record["success"] for record in records(out)] == [True] * 2
    assert [record["agent_exit_code"] for record in records(out)] == [0, 3]
    assert said(out).endswith("/box/home\n")
    assert said(out, name="acceptance.log").split()[0] == "lo"
    assert "+fixed" in said(out, name="diff.patch")
    assert json.loads((out / "receipt.json").read_text())["isolation"] == "docker"
    digests = json.loads((out / "schedule.json").read_text())["digests"]
    assert digests["workspace.image"] == docker.id_of()
    assert docker.containers() == []


@pytest.mark.parametrize("made", [True, False])
def test_a_program_that_setup_did_not_make_stops_the_run(tmp_path: Path, made: bool) -> None:
    """It would have failed in the agent's name."""
    link = "ln -s /bin/busybox touch" if made else "true"
    arms = {"with": {"setup_commands": [link]}, "without": {"setup_commands": [link]}}
    agent = {"argv": ["{workspace}/touch", "answer.txt"]}
    result = run(contained(tmp_path, agent=agent, arms=arms), tmp_path / "out")
    if made:
        assert [record["success"] for record in records(tmp_path / "out")] == [True, True]
        return
    assert result.code != 0
    assert "/touch: " in result.err
    assert {record["failure"] for record in records(tmp_path / "out")} == {"infra", "missing"}
