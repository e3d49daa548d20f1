"""What is started in a container, and one that does not start is nobody's failure."""

import shutil
from pathlib import Path

import msgspec
import pytest

from tests.support.containers import IMAGE, Podman, contained
from tests.support.suite_files import SOLVE, attempt, job_of
from twoarm.run.isolation import ChosenIsolation, sealer_of
from twoarm.run.sealing import WORKSPACE_IMAGE
from twoarm.run.suite_file import read_suite

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
