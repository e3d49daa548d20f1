"""Containers of dry runs that were killed with their supervisors, and engines that hang."""

import signal

import pytest

from tests.support.container_kills import Kills
from tests.support.containers import Podman, contained
from tests.support.suite_files import suite_of, wait_for
from tests.support.yard import Yard

# What stands in for an engine that is asked for its containers, and what is told about it.
HINDERED = {
    "hangs": ("exec sleep 20", "does not answer"),
    "fails": ("echo no storage >&2; exit 125", "no storage"),
}


@pytest.fixture
def kills(yard: Yard, podman: Podman) -> Kills:
    return Kills(yard, podman)


def test_the_next_run_removes_the_container_of_a_dry_run_that_was_killed(kills: Kills) -> None:
    kills.killed_in_setup("--dry-run", "--isolation", "podman")
    # Of another suite, which takes no container.
    result = kills.yard.dry_run(suite_of(kills.yard.made / "other"))
    assert (result.code, result.err) == (0, "")
    assert kills.left() == []
    assert list(kills.yard.cache.iterdir()) == []


@pytest.mark.parametrize("how", HINDERED)
def test_an_engine_that_hinders_is_told_in_a_line_and_stops_no_run(
    kills: Kills, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, why = HINDERED[how]
    yard = kills.yard
    kills.killed_in_setup("--dry-run", "--isolation", "podman")
    (left,) = yard.cache.iterdir()
    podman = yard.bin / "podman"
    podman.write_text(f"#!/bin/sh\n{script}\n")
    podman.chmod(0o755)
    other = suite_of(yard.made / "other")
    with monkeypatch.context() as patched:
        patched.setattr("twoarm.run.abandoned._ENGINE_SECONDS", 0.2 if how == "hangs" else 60)
        for _ in range(2):
            result = yard.dry_run(other)
            assert result.code == 0
            assert result.err == (
                f"twoarm: podman: {why}; what a killed dry run left in {left} stays until the next "
                "run\n"
            )
            assert len(kills.podman.containers()) == 1
    podman.unlink()
    assert yard.dry_run(other).err == ""
    assert list(yard.cache.iterdir()) == []
    assert kills.left() == []


def test_whoever_looks_into_an_image_and_is_ended_leaves_no_container(
    yard: Yard, podman: Podman
) -> None:
    image = "localhost/twoarm-test-hangs:1"
    script = "#!/bin/sh\\ntrap : TERM\\nwhile :; do sleep 600; done\\n"
    podman.image(image, f"RUN printf '{script}' > /bin/claude && chmod +x /bin/claude")
    agent = {"program": "claude-code", "argv": None}
    suite = contained(yard.folder, agent=agent, workspace={"image": image})
    process = yard.start("run", suite, "--dry-run")
    wait_for(lambda: any("sleep" in line for line in podman.inside()), 60)
    process.send_signal(signal.SIGTERM)
    result = yard.ended(process, "the dry run")
    assert result.code not in (0, 2)
    assert podman.containers() == []
