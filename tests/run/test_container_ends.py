"""What the end of a container's client says: of its program, or of the client and its engine."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.suite_files import SOLVE, attempt, job_of
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


@pytest.mark.parametrize("way", ENDS)
@pytest.mark.parametrize("step", ["agent", "acceptance"])
def test_what_a_client_ends_with_is_not_what_its_program_ends_with(
    tmp_path: Path, way: str, step: str
) -> None:
    run, inspect, ps, told = ENDS[way]
    words: dict[str, tuple[str, ...]] = {}
    for kind in ("agent", "acceptance"):
        client = tmp_path / kind
        asked = run if kind == step else "exit 0"
        client.write_text(
            f'#!/bin/sh\ncase "$1" in\nrun) {asked};;\ninspect) {inspect};;\nps) {ps};;\nesac\n'
        )
        client.chmod(0o755)
        words[kind] = (str(client), "run")
    seal = Seal(isolation="docker", words=words, last=dict.fromkeys(words, ()), image="it")
    facts: dict[str, Any] = attempt(job_of(tmp_path, SOLVE, seal=seal)).facts
    why = facts.get("not_started" if step == "agent" else "not_judged", "")
    if told:
        assert why.startswith(told)
        assert "acceptance_exit_code" not in facts
    else:
        assert why == ""
        assert facts[f"{step}_exit_code"] == 1
