"""Every call of podman and docker has its limit: one that hangs holds up nothing for ever."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.containers import contained
from twoarm.errors import InputError
from twoarm.run.engine import Engine
from twoarm.run.supervisor.leftovers import remove_named
from twoarm.run.supervisor.processes import call

pytestmark = pytest.mark.usefixtures("cache")

SECONDS = 0.2
HANGS = """
import sys, time
time.sleep(10)
print("it")
sys.exit(sys.argv[1] == "rm")
"""


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A `podman` that hangs, with more to say if it is let; and limits that are soon over."""
    path = tmp_path / "bin" / "podman"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable} -IS\n{HANGS}")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("engine._SECONDS", "engine._BUILD_SECONDS", "supervisor.leftovers._SECONDS"):
        monkeypatch.setattr(f"twoarm.run.{name}", SECONDS)
    monkeypatch.setattr("twoarm.run.supervisor.processes._CLIENT_SECONDS", SECONDS)
    return str(path)


def test_a_dry_run_and_a_run_end_with_a_line_that_names_the_engine(
    tmp_path: Path, hung: str
) -> None:
    suite = contained(tmp_path)
    for words in (["--dry-run"], ["--out", str(tmp_path / "out")]):
        result = twoarm("run", str(suite), *words, "--isolation", "podman")
        assert (result.code, result.err) == (
            2,
            "twoarm: --isolation podman: podman version has not answered within 0.2 s; "
            "restart podman, or take another isolation\n",
        )


def test_every_question_has_its_limit(tmp_path: Path, hung: str) -> None:
    engine = Engine(name="podman", path=hung)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    questions: list[Callable[[], object]] = [
        lambda: engine.image_id("workspace.image", "it"),
        lambda: engine.build("workspace.dockerfile", str(tmp_path / "Dockerfile")),
        lambda: engine.clear("label=it"),
        lambda: engine.clear("label=it", 0.1),
    ]
    for ask in questions:
        with pytest.raises(InputError, match=r"podman \w+ has not answered within 0\.[12] s"):
            ask()


def test_a_supervisor_waits_for_no_engine_that_hangs(hung: str) -> None:
    assert call([hung, "ps"]) == (-signal.SIGKILL, "")


def test_nor_does_what_removes_containers_by_their_name(hung: str) -> None:
    assert remove_named(["podman"], "0123456789ab", {"PATH": os.environ["PATH"]}) == []
