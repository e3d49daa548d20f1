"""What the real Harbor says of options, when it is asked as the dry run asks."""

import os
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.harbor_suites import harbor_suite, installed, task_folder


def test_the_dry_run_finds_an_option_that_it_does_not_know(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{installed().parent}{os.pathsep}{os.environ['PATH']}")
    task_folder(tmp_path / "tasks", "one")
    known = ["--env", "docker", "--skill", "x", "--agent-kwarg", "a=1", "--no-delete"]
    dry = twoarm("run", str(harbor_suite(tmp_path, agent={"args": known})), "--dry-run")
    assert dry.code == 0, dry.err
    unknown = harbor_suite(tmp_path, agent={"args": [*known, "--agentt", "x"]})
    dry = twoarm("run", str(unknown), "--dry-run")
    assert dry.code == 2
    assert "`harbor` does not take the args of arm `oracle`: No such option: --agentt" in dry.err
