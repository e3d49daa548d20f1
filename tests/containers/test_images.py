"""Images of a suite: built or named, known by their ids, and the same as long as a run lasts."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Result, twoarm
from tests.support.containers import IMAGE, ONE, Podman, contained
from tests.support.run_folders import QUICK, records, run, runs

pytestmark = pytest.mark.usefixtures("cache")

WHICH = "cat /etc/which > answer.txt; cat answer.txt"
MOVING = "localhost/twoarm-test-moving:1"


def digests(out: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((out / "schedule.json").read_text())["digests"]
    return found


def said(out: Path, arm: str) -> str:
    return (out / "runs" / arm / "one.1" / "stdout.txt").read_text()


def again(out: Path, arm: str) -> Result:
    """The run of an arm once more."""
    shutil.rmtree(out / "runs" / arm)
    return twoarm("run", "--resume", str(out), *QUICK)


def dockerfile(folder: Path, word: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "word.txt").write_text(f"{word}\n")
    path = folder / "Dockerfile"
    path.write_text(f"FROM {IMAGE}\nCOPY word.txt /etc/which\n")
    return path


def test_a_dockerfile_is_built_and_its_image_used_by_its_id(tmp_path: Path, podman: Podman) -> None:
    dockerfile(tmp_path / "image", "built")
    place = {"image": None, "dockerfile": "image/Dockerfile"}
    suite, out = contained(tmp_path, WHICH, workspace=place), tmp_path / "out"
    result = run(suite, out)
    assert result.code == 0, result.err
    assert [said(out, arm) for arm in ("with", "without")] == ["built\n"] * 2
    (name,) = [
        line
        for line in podman.ask("images", "--format", "{{.Repository}}:{{.Tag}}").splitlines()
        if "twoarm-suite" in line
    ]
    assert digests(out)["workspace.image"] == podman.id_of(name)
    # Whatever else is in its folder by now.
    dockerfile(tmp_path / "image", "other")
    result = again(out, "with")
    assert result.code == 0, result.err
    assert said(out, "with") == "built\n"


def test_a_dockerfile_that_was_changed_is_refused_by_its_key(
    tmp_path: Path, podman: Podman
) -> None:
    path = dockerfile(tmp_path / "image", "built")
    place = {"image": None, "dockerfile": "image/Dockerfile"}
    suite, out = contained(tmp_path, WHICH, workspace=place), tmp_path / "out"
    assert run(suite, out).code == 0
    path.write_text(path.read_text() + "RUN touch /more\n")
    result = again(out, "with")
    assert result.code == 2
    assert "workspace.dockerfile" in result.err
    assert runs(out) == ["without/one.1"]


def test_a_run_that_is_resumed_has_the_image_of_then_whatever_its_name_is_now(
    tmp_path: Path, podman: Podman
) -> None:
    then = podman.image(MOVING, "RUN echo then > /etc/which")
    suite, out = contained(tmp_path, WHICH, workspace={"image": MOVING}), tmp_path / "out"
    assert run(suite, out).code == 0
    now = podman.image(MOVING, "RUN echo now > /etc/which")
    assert then != now
    result = again(out, "with")
    assert result.code == 0, result.err
    assert said(out, "with") == "then\n"
    assert digests(out)["workspace.image"] == then


def test_another_image_is_refused_by_its_key(tmp_path: Path, podman: Podman) -> None:
    podman.image(MOVING, "RUN echo then > /etc/which")
    out = tmp_path / "out"
    assert run(contained(tmp_path), out).code == 0
    contained(tmp_path, workspace={"image": MOVING})
    result = again(out, "with")
    assert result.code == 2
    assert "workspace.image" in result.err


def test_a_run_whose_image_is_gone_says_which_it_needs(tmp_path: Path, podman: Podman) -> None:
    then = podman.image(MOVING, "RUN echo then > /etc/which")
    suite, out = contained(tmp_path, WHICH, workspace={"image": MOVING}), tmp_path / "out"
    assert run(suite, out).code == 0
    podman.ask("rmi", "-f", then)
    result = again(out, "with")
    assert result.code == 2
    assert f"podman no longer has the image of the runs that are there, {then[:12]}; " in result.err


def test_an_image_of_a_dockerfile_that_is_gone_is_named_by_its_key(
    tmp_path: Path, podman: Podman
) -> None:
    dockerfile(tmp_path / "image", "built")
    place = {"image": None, "dockerfile": "image/Dockerfile"}
    suite, out = contained(tmp_path, WHICH, workspace=place), tmp_path / "out"
    assert run(suite, out).code == 0
    then = digests(out)["workspace.image"]
    podman.ask("rmi", "-f", then)
    result = again(out, "with")
    assert result.code == 2
    told = "workspace.dockerfile: podman no longer has the image of the runs that are there, "
    assert told + then[:12] in result.err


def test_runs_in_another_image_have_another_grader(tmp_path: Path, podman: Podman) -> None:
    podman.image(MOVING, "RUN echo other > /etc/which")
    graders = set()
    for name, image in (("one", IMAGE), ("two", MOVING)):
        place = {"image": image}
        assert run(contained(tmp_path / name, workspace=place), tmp_path / name / "out").code == 0
        graders |= {record["grader"] for record in records(tmp_path / name / "out")}
    assert len(graders) == 2


def test_every_image_has_the_same_agent(tmp_path: Path, podman: Podman) -> None:
    """Otherwise tasks would be compared with different agents."""
    for name, version in (("old", "2.1.325"), ("new", "2.1.326")):
        script = f"#!/bin/sh\\necho '{version} (Claude Code)'\\n"
        line = f'RUN printf "{script}" > /bin/claude && chmod +x /bin/claude'
        podman.image(f"localhost/twoarm-test-{name}:1", line)
    suite = contained(
        tmp_path,
        agent={"program": "claude-code", "argv": None},
        workspace={"image": "localhost/twoarm-test-old:1"},
        tasks=[*ONE, ONE[0] | {"id": "two", "image": "localhost/twoarm-test-new:1"}],
    )
    result = twoarm("run", str(suite), "--dry-run")
    assert result.code == 2
    assert "agent `claude-code`: not the same in every image: 2.1.325 in " in result.err
