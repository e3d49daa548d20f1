"""What the end of a client or a sandbox says: of the program in it, or of what is around that."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.suite_files import SOLVE, attempt, job_of
from twoarm.errors import InputError
from twoarm.run.engine import Engine, last_line
from twoarm.run.isolation import ChosenIsolation, clear_containers
from twoarm.run.jobs import Seal

# What a client answers to `run`, `inspect` and `ps`, and what is told of it; nothing for the exit
# code of an agent.
ENDS: dict[str, tuple[str, str, str, str]] = {
    "was refused": (
        "echo unable to upgrade to tcp, received 409 >&2; exit 1",
        "echo created 0",
        "",
        "the container did not start: unable to upgrade to tcp, received 409",
    ),
    "was never made": ("echo no room >&2; exit 1", "exit 1", "", "the container did not start"),
    "lost its engine": (
        "echo error waiting for container: unexpected EOF >&2; exit 125",
        "exit 1",
        "exit 1",
        "the engine of the container does not answer: error waiting for container: unexpected EOF",
    ),
    "failed by itself": (
        "echo no connection >&2; exit 1",
        "echo exited 0",
        "",
        "the client of the container was killed, or failed (exit code 1): no connection",
    ),
    "failed while the program ran": (
        "exit 1",
        "echo running 0",
        "",
        "the client of the container was killed, or failed (exit code 1)",
    ),
    "handed it on": ("exit 1", "echo exited 1", "", ""),
}


def clients(folder: Path, step: str, run: str, inspect: str, ps: str) -> dict[str, tuple[str, ...]]:
    """What every step is started with, of which one answers otherwise."""
    words: dict[str, tuple[str, ...]] = {}
    for kind in ("agent", "acceptance"):
        client = folder / kind
        asked = run if kind == step else "exit 0"
        client.write_text(
            f'#!/bin/sh\ncase "$1" in\nrun) {asked};;\ninspect) {inspect};;\nps) {ps};;\nesac\n'
        )
        client.chmod(0o755)
        words[kind] = (str(client), "run")
    return words


@pytest.mark.parametrize("way", ENDS)
@pytest.mark.parametrize("step", ["agent", "acceptance"])
def test_what_a_client_ends_with_is_not_what_its_program_ends_with(
    tmp_path: Path, way: str, step: str
) -> None:
    run, inspect, ps, told = ENDS[way]
    words = clients(tmp_path, step, run, inspect, ps)
    seal = Seal(isolation="docker", words=words, last=dict.fromkeys(words, ()), image="it")
    facts: dict[str, Any] = attempt(job_of(tmp_path, SOLVE, seal=seal)).facts
    why = facts.get("not_started" if step == "agent" else "not_judged", "")
    if told:
        assert why.startswith(told)
        assert "acceptance_exit_code" not in facts
    else:
        assert why == ""
        assert facts[f"{step}_exit_code"] == 1


@pytest.mark.parametrize(
    ("inspect", "ps", "told"),
    [
        ("exit 1", "", "the container did not start in time"),
        ("echo created 0", "", "the container did not start in time"),
        ("exit 1", "exit 1", "the engine of the container does not answer"),
        ("echo running 0", "", ""),
        ("echo exited 143", "", ""),
    ],
)
@pytest.mark.parametrize("step", ["agent", "acceptance"])
def test_time_is_up_only_for_what_has_begun(
    tmp_path: Path, inspect: str, ps: str, told: str, step: str
) -> None:
    """An engine may be busy for as long as its program may run."""
    words = clients(tmp_path, step, "exec sleep 30", inspect, ps)
    seal = Seal(isolation="docker", words=words, last=dict.fromkeys(words, ()), image="it")
    seconds = {f"{'timeout' if step == 'agent' else 'acceptance'}_seconds": 0.3}
    facts = attempt(job_of(tmp_path, SOLVE, seal=seal, grace_seconds=0.2, **seconds)).facts
    why = facts.get("not_started" if step == "agent" else "not_judged", "")
    assert why == told
    if not told:
        ended = facts["ended_by" if step == "agent" else "acceptance_ended_by"]
        assert ended == "timeout"


@pytest.mark.parametrize(
    ("run", "inspect", "ended"),
    [
        ("exit 137", "echo exited 137 true", "memory"),
        # Not every engine says so; then whoever watches over a container leaves this.
        ("touch oom; exit 137", "echo exited 137 false", "memory"),
        ("exit 137", "echo exited 137 false", "exit"),
        ("touch oom; exit 1", "echo exited 1 true", "exit"),
        ("touch oom; exit 0", "exit 1", "exit"),
    ],
)
def test_who_is_killed_for_the_memory_it_takes_has_met_a_limit(
    tmp_path: Path, run: str, inspect: str, ended: str
) -> None:
    """One of the programs that it started may have been, too, without being its end."""
    for step, key in (("agent", "ended_by"), ("acceptance", "acceptance_ended_by")):
        words = clients(tmp_path, step, run, inspect, "")
        seal = Seal(isolation="docker", words=words, last=dict.fromkeys(words, ()), image="it")
        facts = attempt(job_of(tmp_path, SOLVE, seal=seal)).facts
        assert facts[key] == ended, facts


def test_what_one_step_left_says_nothing_of_the_next(tmp_path: Path) -> None:
    ends = {"agent": ("touch oom; exit 0", ""), "acceptance": ("exit 137", "echo exited 137 false")}
    words = {}
    for step, (run, inspect) in ends.items():
        (folder := tmp_path / f"for {step}").mkdir()
        words[step] = clients(folder, step, run, inspect, "")[step]
    seal = Seal(isolation="docker", words=words, last=dict.fromkeys(words, ()), image="it")
    facts = attempt(job_of(tmp_path, SOLVE, seal=seal)).facts
    assert (facts["ended_by"], facts["acceptance_ended_by"]) == ("exit", "exit")


@pytest.mark.parametrize(
    ("said", "told"), [("", "the sandbox did not start in time"), ('{"child-pid": 7}', "")]
)
@pytest.mark.parametrize("step", ["agent", "acceptance"])
def test_time_is_up_only_for_a_sandbox_that_has_begun(
    tmp_path: Path, said: str, told: str, step: str
) -> None:
    """A machine may be busy for as long as a step may run."""
    words: dict[str, tuple[str, ...]] = {}
    for kind in ("agent", "acceptance"):
        says, then = (said, "exec sleep 30") if kind == step else ('{"exit-code": 0}', "exit 0")
        sandbox = tmp_path / kind
        # As bubblewrap does, it tells on a descriptor how far it has come.
        to_status = 'while [ "$1" != --json-status-fd ]; do shift; done; exec 9> "/proc/self/fd/$2"'
        sandbox.write_text(f"#!/bin/sh\n{to_status}\necho '{says}' >&9\n{then}\n")
        sandbox.chmod(0o755)
        words[kind] = (str(sandbox),)
    seal = Seal(isolation="bwrap", words=words, last=dict.fromkeys(words, ()))
    seconds = {f"{'timeout' if step == 'agent' else 'acceptance'}_seconds": 0.3}
    facts = attempt(job_of(tmp_path, SOLVE, seal=seal, grace_seconds=0.2, **seconds)).facts
    assert facts.get("not_started" if step == "agent" else "not_judged", "") == told
    if not told:
        assert facts["ended_by" if step == "agent" else "acceptance_ended_by"] == "timeout"


def engine(folder: Path, script: str) -> Engine:
    """A client that answers what a script says, and keeps what it was asked."""
    client = folder / "client"
    client.write_text(f'#!/bin/sh\necho "$*" >> "{folder}/asked"\n{script}\n')
    client.chmod(0o755)
    return Engine(name="podman", path=str(client))


def test_what_is_only_stopped_at_first_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.write_text("c1\n")
    first = f"if test -e {tmp_path}/again; then rm {left}; else touch {tmp_path}/again; false; fi"
    answers = f'case "$1" in ps) cat {left} 2> /dev/null; true;; rm) {first};; esac'
    assert engine(tmp_path, answers).clear("twoarm.run=x") is None
    assert not left.exists()


def test_containers_that_cannot_be_removed_stop_whoever_resumes(tmp_path: Path) -> None:
    client = engine(tmp_path, 'case "$1" in ps) echo c1;; rm) echo busy >&2; exit 1;; esac')
    chosen = ChosenIsolation(name="podman", tool=client.path)
    with pytest.raises(InputError, match="are still there: busy; remove them .*label=twoarm.run=x"):
        clear_containers(chosen, "x")


def test_the_image_of_a_dockerfile_is_the_one_that_was_built(tmp_path: Path) -> None:
    """Whatever somebody else builds of the same file meanwhile."""
    answers = 'case "$1" in build) echo sha256:0123456789abcdef;; image) echo "$6";; esac'
    assert engine(tmp_path, answers).build("key", f"{tmp_path}/Dockerfile") == "0123456789abcdef"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == f"build -q -f {tmp_path}/Dockerfile {tmp_path}"
    assert asked[1] == "tag 0123456789abcdef twoarm-suite:0123456789ab"


def test_the_reason_is_not_where_help_is(tmp_path: Path) -> None:
    text = b"no such network: x\n\nRun 'docker run --help' for more information\n"
    assert last_line(text) == "no such network: x"
