"""What cannot be run in a container is found before any trial, and one line says what to do."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.containers import IMAGE, ONE, Podman, contained, need
from tests.support.suite_files import suite_of
from twoarm.errors import InputError
from twoarm.run.engine import Engine, Sought, look_into

pytestmark = pytest.mark.usefixtures("cache", "podman")

OWN = "localhost/twoarm-test-own:1"
# A program that would take away what is looked for, if anybody started it.
PROGRAM = "RUN printf '#!/bin/sh\\nrm -f *\\n' > /bin/own && chmod +x /bin/own"


def refused(suite: Path, *more: str) -> str:
    """What the dry run and the run say, which is the same line; and nothing is left."""
    out = suite.parent / "out"
    said = []
    for words in (("--dry-run",), ("--out", str(out))):
        result = twoarm("run", str(suite), *words, *more)
        assert (result.code, result.out) == (2, ""), result.err
        # The folder may have been made; what is told is one line.
        lines = [line for line in result.err.splitlines() if "run folder" not in line]
        assert len(lines) == 1, lines
        said += lines
    assert not list(out.glob("runs/*")), "nothing was run"
    assert said[0] == said[1]
    return said[0].removeprefix("twoarm: ")


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_an_engine_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to("/usr/bin/git")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    said = refused(contained(tmp_path), "--isolation", engine)
    assert said == f"--isolation {engine}: {engine} is not installed; see your package manager"


def test_an_engine_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    said = refused(contained(tmp_path), "--isolation", "docker")
    assert said.startswith("--isolation docker: it does not answer: ")
    assert f"{tmp_path}/nobody.sock" in said


def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    assert refused(contained(tmp_path, workspace={"image": "localhost/nosuch:1"})) == (
        "workspace.image: podman has no image `localhost/nosuch:1`; get it with "
        "`podman pull localhost/nosuch:1`, or build it"
    )
    assert "workspace.image: podman has no image `--help`; " in refused(
        contained(tmp_path, workspace={"image": "--help"})
    )
    tasks = [ONE[0] | {"image": "localhost/nosuch:2"}]
    assert refused(contained(tmp_path, tasks=tasks)).startswith(
        "tasks.one.image: podman has no image `localhost/nosuch:2`; get it with "
    )


def test_a_suite_without_an_image(tmp_path: Path) -> None:
    said = refused(suite_of(tmp_path), "--isolation", "podman")
    assert said == "--isolation podman: task `one` has no image; name workspace.image"


def test_a_dockerfile_that_is_not_there_or_cannot_be_built(tmp_path: Path) -> None:
    place = {"image": None, "dockerfile": "Dockerfile"}
    suite = contained(tmp_path, workspace=place)
    missing = "workspace.dockerfile: no file `Dockerfile`; paths are relative to the suite"
    assert f"{suite}: {missing}\n" in twoarm("run", str(suite), "--dry-run").err
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo broken; false\n")
    said = refused(suite)
    assert said.startswith(f"workspace.dockerfile: {tmp_path}/Dockerfile cannot be built: ")
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN nosuch\n")
    # What went wrong comes before where it did.
    assert "/bin/sh: nosuch: not found / Error: " in refused(suite)


def test_acceptance_that_an_image_cannot_run_is_told_with_the_image(
    tmp_path: Path, podman: Podman
) -> None:
    podman.image(OWN, "RUN touch /own")
    tasks = [ONE[0] | {"acceptance_command": "nosuch"}]
    for image, own in ((IMAGE, {}), (OWN, {"image": OWN})):
        told = twoarm("run", str(contained(tmp_path, tasks=[tasks[0] | own])), "--dry-run")
        which = f"its acceptance command in image `{image}` cannot be run (exit code 127): "
        assert f"task `one`: {which}" in told.err, told.err


def test_an_image_without_a_shell(tmp_path: Path, podman: Podman) -> None:
    podman.image(OWN, 'RUN ["/bin/busybox", "rm", "/bin/sh"]')
    said = refused(contained(tmp_path, workspace={"image": OWN}))
    assert said == f"image `{OWN}` has no /bin/sh, which every step is started with"


def test_an_image_without_the_program_of_the_agent(tmp_path: Path) -> None:
    said = refused(contained(tmp_path, agent={"argv": ["nosuch", "{prompt}"]}))
    assert said == f"image `{IMAGE}` has no program `nosuch`; install it in the image"


def test_the_program_is_looked_for_in_the_image_of_every_task(
    tmp_path: Path, podman: Podman
) -> None:
    podman.image(OWN, PROGRAM)
    tasks = [*ONE, ONE[0] | {"id": "two", "image": IMAGE}]
    place = {"image": OWN}
    said = refused(contained(tmp_path, agent={"argv": ["own"]}, workspace=place, tasks=tasks))
    assert said == f"image `{IMAGE}` has no program `own`; install it in the image"


NOTHING = Sought(name="", has_version=False, path="")
INTERPRETERS = {
    "#!/bin/env -S X=1 nosuch -u": "nosuch",
    # In this image it is elsewhere.
    "#!/usr/bin/env sh": "/usr/bin/env",
    "#! /usr/bin/nosuch": "/usr/bin/nosuch",
    "#!/bin/sh -e": None,
    "#!/bin/env sh": None,
    "echo": None,
}


def script_of(at: Path, first: str) -> str:
    (at / "agent").write_text(f"{first}\n")
    (at / "agent").chmod(0o755)
    return "{suite}/agent"


@pytest.mark.parametrize("first", INTERPRETERS)
def test_what_a_script_is_started_with_is_looked_for(tmp_path: Path, first: str) -> None:
    suite = contained(tmp_path, agent={"argv": [script_of(tmp_path, first)]})
    if missing := INTERPRETERS[first]:
        assert refused(suite) == (
            f"image `{IMAGE}` has no program `{missing}`, which {tmp_path}/agent is started "
            "with; install it in the image"
        )
    else:
        assert twoarm("run", str(suite), "--dry-run").code == 0


def test_the_loader_of_a_program_is_looked_for(tmp_path: Path) -> None:
    """As where a program was built for another kind of Linux than its image."""
    program = tmp_path / "agent"
    shutil.copy(os.path.realpath(shutil.which("true") or ""), program)
    loader = re.search(rb"/[^\0]*/ld-[^\0]*", program.read_bytes())
    assert loader is not None
    there = contained(tmp_path, agent={"argv": [str(program)], "mounts": [str(program)]})
    assert refused(there) == (
        f"image `{IMAGE}` has no program `{loader[0].decode()}`, which {program} is started with; "
        "install it in the image"
    )
    # Text may have anything in it.
    program.write_bytes(b"#!/bin/sh\n\0/no/ld-such\0")
    assert twoarm("run", str(there), "--dry-run").code == 0


def test_what_a_script_is_started_with_may_be_where_the_suite_says(tmp_path: Path) -> None:
    script = script_of(tmp_path, "#!/bin/env own")
    agent = {"argv": [script], "env": {"PATH": "/bin:/usr/bin:{workspace}"}}
    suite = contained(tmp_path, agent=agent)
    assert twoarm("run", str(suite), "--dry-run").code == 0
    absolute = contained(tmp_path, agent=agent | {"argv": [script_of(tmp_path, "#!/own")]})
    assert "has no program `/own`, which" in refused(absolute)


def test_a_program_may_be_where_the_suite_says(tmp_path: Path, podman: Podman) -> None:
    podman.image(OWN, "RUN mkdir /own && ln -s /bin/busybox /own/touch && ln /own/touch /own/mine")
    suites = [
        contained(
            tmp_path / str(at),
            agent={"argv": ["mine", "answer.txt"], "env": {"PATH": path}},
            workspace={"image": OWN},
        )
        for at, path in enumerate(("{workspace}/bin:/own:/bin", "/bin:/sbin"))
    ]
    assert twoarm("run", str(suites[0]), "--dry-run").code == 0
    suite = suites[1]
    assert refused(suite) == f"image `{OWN}` has no program `mine`; install it in the image"


@pytest.mark.parametrize("way", ["not executable", "on PATH", "a folder", "ours"])
def test_what_cannot_be_started_is_no_program(tmp_path: Path, podman: Podman, way: str) -> None:
    podman.image(OWN, "RUN mkdir -p /own/folder && echo true > /own/mine")
    names = {
        "not executable": "/own/mine",
        "on PATH": "mine",
        "a folder": "/own/folder",
        "ours": "{suite}/agent.sh",
    }
    agent = {"argv": [names[way]], "env": {"PATH": "/own:/bin"}}
    suite = contained(tmp_path, agent=agent, workspace={"image": OWN})
    found = {"on PATH": "/own/mine", "ours": f"{tmp_path}/agent.sh"}.get(way, names[way])
    said = refused(suite)
    if way == "on PATH" and "has no program `mine`" in said:
        # Some shells do not even find it.
        return
    assert said == (
        f"image `{OWN}` has {found}, and that is no program which can be started; make it an "
        "executable file (chmod +x) in the image, or name another"
    )


def test_a_program_is_looked_for_where_each_arm_says(tmp_path: Path, podman: Podman) -> None:
    podman.image(OWN, "RUN mkdir /own && ln -s /bin/busybox /own/touch && ln /own/touch /own/mine")
    agent = {"argv": ["mine", "answer.txt"], "env": {"PATH": "/own:/bin"}}
    arms = {"with": {"env": {"HINT": "1"}}, "without": {"env": {"PATH": "/bin"}}}
    suite = contained(tmp_path, agent=agent, workspace={"image": OWN}, arms=arms)
    assert refused(suite) == f"image `{OWN}` has no program `mine`; install it in the image"


def test_a_command_is_looked_for_and_not_started(tmp_path: Path, podman: Podman) -> None:
    podman.image(OWN, PROGRAM)
    suite = contained(tmp_path, agent={"argv": ["own"]}, workspace={"image": OWN})
    result = twoarm("run", str(suite), "--dry-run")
    assert result.code == 0, result.err
    assert "agent `command`: /bin/own\n" in result.out


def test_an_image_whose_user_is_another(tmp_path: Path, podman: Podman) -> None:
    podman.image(OWN, "USER 1234")
    said = refused(contained(tmp_path, workspace={"image": OWN}))
    ours = os.geteuid()
    # As root it may write to our folders all the same.
    why = f": what it writes belongs to user 1234, and not to {ours}, who runs twoarm"
    if ours != 0:
        why = f" runs as user 1234, who cannot write to folders of user {ours}"
    assert said == f"image `{OWN}`{why}; add `USER {ours}` to the image"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount folders for others")
@pytest.mark.parametrize("unseen", ["cache", "temporary"])
def test_an_engine_that_does_not_see_the_folders_of_this_machine(
    tmp_path: Path, podman: Podman, monkeypatch: pytest.MonkeyPatch, unseen: str
) -> None:
    need("docker")
    for name in ("cache", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    suite = contained(tmp_path / "suite")
    with podman.served(tmp_path / unseen) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        if unseen == "cache":
            assert refused(suite, "--isolation", "docker") == (
                f"--isolation docker: docker does not see {tmp_path}/cache, where workspaces are; "
                "it must run on this machine, or share that folder"
            )
        else:
            result = twoarm("run", str(suite), "--dry-run", "--isolation", "docker")
            assert (result.code, result.err) == (0, "")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_engine_that_sees_a_copy_of_the_folders_of_this_machine(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    mark = "echo --twoarm--"
    client.write_text(f"#!/bin/sh\n{mark}; echo 0; {mark}; echo seen; echo written; {mark}\n")
    client.chmod(0o755)
    engine = Engine(name="docker", path=str(client))
    with pytest.raises(InputError, match=f"docker does not see {tmp_path}, where workspaces are"):
        look_into(engine, ["docker", "run"], "it", "it", NOTHING, str(tmp_path))


def test_an_engine_that_lacks_a_program_of_its_own(tmp_path: Path) -> None:
    client = tmp_path / "podman"
    says = 'Error: could not find slirp4netns: exec: "slirp4netns": executable file not found'
    client.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 127\n")
    client.chmod(0o755)
    engine = Engine(name="podman", path=str(client))
    with pytest.raises(InputError) as raised:
        look_into(engine, ["podman", "run"], "it", "it", NOTHING, str(tmp_path))
    assert (
        str(raised.value)
        == f"--isolation podman: no container of image `it` can be started: {says}"
    )


def test_an_engine_in_which_we_are_somebody_else(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    mark = "echo --twoarm--"
    client.write_text(f"#!/bin/sh\n{mark}; id -u; {mark}; echo seen; {mark}\n")
    client.chmod(0o755)
    engine = Engine(name="docker", path=str(client))
    with pytest.raises(InputError) as raised:
        look_into(engine, ["docker", "run"], "it", "it", NOTHING, str(tmp_path))
    assert str(raised.value) == (
        f"image `it`: its engine takes user {os.geteuid()} for another, who cannot write to your "
        "folders; use --isolation podman"
    )


@pytest.mark.parametrize("limit", ["memory_mb", "cpus", "processes"])
def test_a_limit_that_the_engine_ignores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    client = tmp_path / "bin" / "podman"
    client.parent.mkdir()
    says = "Resource limits are not supported and ignored on cgroups V1 rootless systems"
    client.write_text(f"#!/bin/sh\necho '{says}' >&2\nexec {shutil.which('podman')} \"$@\"\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(client.parent), ":")
    suite = tmp_path / "suite"
    assert refused(contained(suite, limits={limit: 64})) == (
        f"limits.{limit}: podman ignores it, since you are not root and this system has cgroups "
        "v1; leave it out, or run as root"
    )
    assert twoarm("run", str(contained(suite)), "--dry-run").code == 0


@pytest.mark.parametrize("path", ["/bin", "/run"])
def test_a_mount_in_place_of_what_an_image_has(tmp_path: Path, path: str) -> None:
    assert refused(contained(tmp_path, agent={"mounts": [path]})) == (
        f"agent.mounts: {path} would take the place of the {path} of the image; name the folders "
        "in it that agents need"
    )


def test_a_mount_that_nobody_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (secret := tmp_path / "secret").mkdir()
    # Root may read anything.
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(secret))
    assert refused(contained(tmp_path, agent={"mounts": ["secret"]})) == (
        f"agent.mounts: {secret}: you may not read it, and so nobody could inside; change its "
        "permissions, or leave it out"
    )


def test_docker_is_taken_where_there_is_no_podman(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("git", "docker"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert refused(contained(tmp_path)).startswith("--isolation docker: it does not answer: ")


def test_setup_needs_an_image_even_if_every_task_has_one(tmp_path: Path) -> None:
    place = {"image": None, "setup_commands": ["true"]}
    suite = contained(tmp_path, workspace=place, tasks=[ONE[0] | {"image": IMAGE}])
    said = refused(suite)
    assert said == "--isolation podman: setup and builds have no image; name workspace.image"


def test_a_mount_that_does_not_exist(tmp_path: Path) -> None:
    said = refused(contained(tmp_path, agent={"mounts": ["shared"]}))
    assert said == (
        f"agent.mounts: {tmp_path}/shared: no such file or folder; name one that is there"
    )


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/1", "root"])
def test_a_mount_that_shows_the_machine(tmp_path: Path, path: str) -> None:
    (tmp_path / "root").symlink_to("/")
    said = refused(contained(tmp_path, agent={"mounts": [path]}))
    assert said == (
        f"agent.mounts: {tmp_path / path} would show agents the whole machine; name the folders "
        "that they need"
    )


def test_a_network_that_does_not_exist(tmp_path: Path) -> None:
    said = refused(contained(tmp_path, agent={"network": "nosuch"}))
    assert said.startswith("agent.network: podman has no network `nosuch`: ")
    assert said.endswith('; write "none", "host" or one that `podman network ls` names')


CONTAINERS_ONLY: dict[str, dict[str, Any]] = {
    "workspace.image": {"workspace": {"image": IMAGE}},
    "workspace.dockerfile": {"workspace": {"dockerfile": "Dockerfile"}},
    "tasks.one.image": {"tasks": [ONE[0] | {"image": IMAGE}]},
    "workspace.acceptance_network": {"workspace": {"acceptance_network": True}},
    "limits.memory_mb": {"limits": {"memory_mb": 100}},
    "limits.cpus": {"limits": {"cpus": 1}},
    "agent.network": {"agent": {"network": "own"}},
}


@pytest.mark.parametrize("isolation", ["copy", "bwrap"])
@pytest.mark.parametrize("key", CONTAINERS_ONLY)
def test_what_takes_a_container_is_refused_without_one(
    tmp_path: Path, key: str, isolation: str
) -> None:
    (tmp_path / "Dockerfile").touch()
    suite = suite_of(tmp_path, **CONTAINERS_ONLY[key])
    way = "use --isolation podman" if "image" in key or "file" in key else "name workspace.image"
    said = refused(suite, "--isolation", isolation)
    more = ""
    if key == "agent.network":
        more = ' (a sandbox knows "none" and "host")'
    assert said == f"--isolation {isolation}: {key} needs a container{more}; {way}"


@pytest.mark.parametrize("where", ["suite", "out", "cache", "mounts"])
def test_a_path_with_a_colon_is_refused_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    odd = tmp_path / "a:b"
    odd.mkdir()
    mounts = ["../a:b"] if where == "mounts" else []
    suite = contained(odd if where == "suite" else tmp_path / "s", agent={"mounts": mounts})
    if where == "cache":
        monkeypatch.setenv("TWOARM_CACHE", str(odd))
    out = (odd if where == "out" else tmp_path) / "out"
    words = ("--out", str(out)) if where == "out" else ("--dry-run",)
    result = twoarm("run", str(suite), *words)
    assert (result.code, result.out) == (2, ""), result.err
    assert f"{odd}" in result.err
    assert "a path with a colon cannot be mounted into a container; choose another" in result.err
    assert not list(out.glob("runs/*"))
