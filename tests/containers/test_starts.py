"""What is started in a container, and one that does not start is nobody's failure."""

import shutil
from pathlib import Path

import msgspec
import pytest

from tests.conftest import twoarm
from tests.support.containers import IMAGE, Podman, contained
from tests.support.run_folders import records, run
from tests.support.suite_files import SOLVE, attempt, job_of
from twoarm.files.safe import OpenFolder
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.sealing import WORKSPACE_IMAGE
from twoarm.run.suite_file import read_suite
from twoarm.run.supervisor.isolation import Contained

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(params=["podman", "docker"])
def engine(request: pytest.FixtureRequest, podman: Podman) -> str:
    """Either engine, which have the same images."""
    name: str = request.param
    if name == "docker":
        request.getfixturevalue("docker")
    return name


def test_a_container_that_does_not_start_is_nobodys_failure(tmp_path: Path, engine: str) -> None:
    chosen = ChosenIsolation(
        name=engine,  # type: ignore[arg-type]
        tool=shutil.which(engine) or "",
        images={WORKSPACE_IMAGE: IMAGE},
    )
    checked = read_suite(str(contained(tmp_path / "suite")))
    seal = sealer_of(checked, chosen).for_agent("one", "", [])
    for step, why in (("agent", "not_started"), ("acceptance", "not_judged")):
        # Engines see only when they start it that nobody has this name.
        words = seal.words | {step: (*seal.words[step], "--user", "nosuchuser")}
        job = job_of(tmp_path, SOLVE, seal=msgspec.structs.replace(seal, words=words))
        facts = attempt(job).facts
        assert facts[why].startswith("the container did not start: "), facts
        assert f"{step}_exit_code" not in facts


def test_the_program_that_an_image_starts_by_itself_is_not_started(
    tmp_path: Path, engine: str, podman: Podman
) -> None:
    image = "localhost/twoarm-test-entry:1"
    podman.image(
        image,
        "RUN printf '#!/bin/sh\\necho banner\\n' > /bin/own && chmod +x /bin/own",
        'ENTRYPOINT ["/bin/own"]',
    )
    suite = contained(tmp_path, workspace={"image": image, "setup_commands": ["echo set up"]})
    out = tmp_path / "out"
    result = run(suite, out, "--isolation", engine)
    assert result.code == 0, result.err
    assert [record["success"] for record in records(out)] == [True, True]
    assert (out / "setup" / "workspace" / "setup.log").read_text() == "set up\n"
    for name in ("stdout.txt", "acceptance.log"):
        assert (out / "runs" / "with" / "one.1" / name).read_text() == ""


def test_what_is_kept_back_is_hidden_in_what_is_shown(tmp_path: Path, engine: str) -> None:
    folder, out = tmp_path / "suite", tmp_path / "suite" / "out"
    (tmp_path / "notes.txt").touch()
    (tmp_path / "cache" / "of another run").mkdir(parents=True)
    look = f"ls '{tmp_path}'; echo --; ls '{folder}'; echo --; ls '{out}'"
    command = f"{look}; echo --; ls '{tmp_path}'/cache/*"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": command}]
    suite = contained(folder, look, tasks=tasks, agent={"mounts": [".."]})
    result = run(suite, out, "--isolation", engine)
    assert result.code == 0, result.err
    attempt = out / "runs" / "with" / "one.1"
    around, own, kept_back = (attempt / "stdout.txt").read_text().split("--\n")
    assert {"notes.txt", "suite"} <= set(around.split())
    assert (own, kept_back) == ("agent.sh\n", "")
    around, own, kept_back, cache = (attempt / "acceptance.log").read_text().split("--\n")
    assert "notes.txt" in around
    assert set(own.split()) == {"agent.sh", "app", "out", "suite.json"}
    # And of the cache the way to the folders of the attempt.
    assert (kept_back, cache) == ("", "t\n")
    again = twoarm("regrade", str(out), "--out", str(folder / "again"), "--display", "quiet")
    assert again.code == 0, again.err
    graded = folder / "again" / "runs" / "with" / "one.1" / "acceptance.log"
    assert graded.read_text().split("--\n")[2] == ""


def test_a_container_that_its_engine_only_stops_at_first_is_removed(tmp_path: Path) -> None:
    asked = []

    def call(words: list[str]) -> tuple[int, str]:
        asked.append(words[1:3])
        return (1 if len(asked) == 1 else 0), ""

    with OpenFolder(str(tmp_path)) as own:
        container = Contained(["podman", "run", "image"], "marker", own, "", call)
        container.command(["true"], {})
        container.ended(0)
    assert asked == [["rm", "-f"]] * 2


@pytest.mark.parametrize(("asked", "most"), [(None, "8192"), (40, "40")])
def test_processes_have_a_limit_whether_or_not_the_suite_says_one(
    tmp_path: Path, engine: str, asked: int | None, most: str
) -> None:
    # With one tree of groups in the kernel, or with several.
    look = "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2> /dev/null; true"
    tasks = [{"id": "one", "prompt": "p", "acceptance_command": look}]
    suite = contained(tmp_path, look, tasks=tasks, limits={"processes": asked})
    out = tmp_path / "out"
    result = run(suite, out, "--isolation", engine)
    assert result.code == 0, result.err
    for name in ("stdout.txt", "acceptance.log"):
        assert (out / "runs" / "with" / "one.1" / name).read_text() == f"{most}\n"
