"""Whoever is killed around a container: nobody is left, nothing is lost, and no agent is blamed."""

import os
import signal

import pytest

from tests.support.container_kills import DEAF, Kills
from tests.support.containers import ONE, Podman, contained
from tests.support.run_folders import QUICK, journal, records, unaccounted
from tests.support.suite_files import wait_for
from tests.support.yard import Yard

# Far more than the 3 seconds that it may take (`make bench-run PARTS=gone`), on a machine that does
# much else.
GONE_SECONDS = 20.0


@pytest.fixture
def kills(yard: Yard, podman: Podman) -> Kills:
    return Kills(yard, podman)


@pytest.fixture(params=["podman", "docker"])
def both(kills: Kills, request: pytest.FixtureRequest) -> Kills:
    """The same with either engine."""
    kills.engine = request.param
    if kills.engine == "docker":
        request.getfixturevalue("docker")
    return kills


def test_a_runner_that_is_killed_leaves_nobody(both: Kills) -> None:
    process = both.start()
    os.kill(process.pid, signal.SIGKILL)
    both.yard.ended(process, "the runner")
    wait_for(lambda: not both.left(), GONE_SECONDS)
    both.resumed()


def test_a_client_that_is_killed_is_not_the_failure_of_its_agent(both: Kills) -> None:
    process = both.start()
    os.kill(both.client(), signal.SIGKILL)
    result = both.yard.ended(process, "the runner")
    assert result.code == 2
    assert "the client of the container was killed" in result.err
    wait_for(lambda: not both.left(), GONE_SECONDS)
    assert not list(both.yard.out.glob("runs/*/*"))
    both.resumed()


def test_a_client_that_is_killed_after_its_agent_has_ended_is_not_its_failure_either(
    kills: Kills,
) -> None:
    process = kills.start()
    client = kills.client()
    os.kill(client, signal.SIGSTOP)
    kills.yard.gate.touch()
    wait_for(lambda: kills.podman.containers("--filter", "status=exited"), GONE_SECONDS)
    os.kill(client, signal.SIGKILL)
    result = kills.yard.ended(process, "the runner")
    assert result.code == 2
    assert "the client of the container was killed" in result.err
    assert not list(kills.yard.out.glob("runs/*/*"))
    kills.resumed()


def test_a_supervisor_that_is_killed_leaves_nobody_and_blames_nobody(
    both: Kills,
) -> None:
    process = both.start(limits={"retries": 1})
    first = both.podman.containers()
    os.kill(both.supervisor(), signal.SIGKILL)
    # The runner tries again.
    wait_for(lambda: both.agents() and both.podman.containers() != first, GONE_SECONDS)
    assert not set(first) & set(both.podman.containers())
    both.yard.gate.touch()
    result = both.yard.ended(process, "the runner")
    assert result.code == 0, result.err
    assert unaccounted(both.yard.out) == []
    assert {record["failure"] for record in records(both.yard.out)} == {None}
    told = [event for event in journal(both.yard.out) if event["event"] == "ended attempt"]
    assert (told[0]["state"], told[0]["reason"]) == ("lost", "its supervisor was killed")
    assert both.left() == []


def test_after_everybody_was_killed_at_once_a_resume_leaves_nobody(both: Kills) -> None:
    process = both.start()
    everybody = [both.client(), both.supervisor(), process.pid]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    for pid in everybody:
        os.kill(pid, signal.SIGKILL)
    both.yard.ended(process, "the runner")
    assert len(both.podman.containers()) == 1
    both.resumed()


def test_whoever_is_left_in_set_up_is_gone_when_the_run_is_started_again(kills: Kills) -> None:
    words = ("--out", kills.yard.out, "--repeats", "1", *QUICK)
    suite = kills.killed_in_setup(*words)
    result = kills.yard.twoarm("run", suite, *words)
    assert result.code == 0, result.err
    assert unaccounted(kills.yard.out) == []
    assert kills.left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_runner_that_is_told_to_end_leaves_nobody(kills: Kills, number: signal.Signals) -> None:
    process = kills.start()
    process.send_signal(number)
    result = kills.yard.ended(process, "the runner")
    assert result.code not in (0, 2)
    assert kills.left() == []
    kills.resumed()


def timed_out(kills: Kills, script: str) -> str:
    """What an agent says that does not end by itself."""
    kills.yard.app()
    limits = {"timeout_seconds": 2, "grace_seconds": 3, "retries": 0}
    suite = contained(kills.yard.folder, script, limits=limits)
    result = kills.yard.run(suite)
    assert result.code == 0, result.err
    for record in records(kills.yard.out):
        assert record["failure"] == "agent"
        assert "time" in record["failure_reason"]
    assert kills.left() == []
    return kills.yard.kept("with", "stdout.txt").read_text()


def test_an_agent_that_ignores_sigterm_is_killed_at_its_time_limit(kills: Kills) -> None:
    said = timed_out(kills, f"{DEAF} echo begun; while :; do sleep 1; done; echo done")
    assert said == "begun\n"


def test_an_agent_that_obeys_has_its_grace(kills: Kills) -> None:
    script = "trap 'sleep 1; echo saved; exit 0' TERM; echo begun; while :; do sleep 0.1; done"
    assert timed_out(kills, script) == "begun\nsaved\n"


# What an agent may do to be taken for a container that did not start, or whose client was killed.
FAILS: dict[str, str] = {
    "125": "exit 125",
    "126": "exit 126",
    "127": "exit 127",
    "137": "exit 137",
    "a signal": "kill -KILL $$",
    "everybody": "kill -KILL -1",
    "its init": "kill -KILL 1; kill -TERM 1; sleep 1; exit 137",
    "a program that is not there": "exec /no/such/program",
}


@pytest.mark.parametrize("way", FAILS)
def test_an_agent_that_ends_like_an_engine_has_failed(kills: Kills, way: str) -> None:
    kills.yard.app()
    tasks = [ONE[0] | {"acceptance_command": "false"}]
    result = kills.yard.run(contained(kills.yard.folder, FAILS[way], tasks=tasks))
    assert result.code == 0, result.err
    assert unaccounted(kills.yard.out) == []
    for record in records(kills.yard.out):
        assert record["failure"] in (None, "agent")
        assert not record["success"]
        assert record["agent_exit_code"]
    assert kills.left() == []
