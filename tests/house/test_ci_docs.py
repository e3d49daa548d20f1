"""The jobs in docs/ci.md and the scripts that set a machine up do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "ci.md"


def tool(name: str, path: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A script of the project, run by root on a Debian whose apt-get only writes down its words."""
    for command, text in {
        "id": "echo 0",
        "dirname": f"echo {DOCUMENT.parent.parent / 'tools'}",
        "apt-get": f'echo "$@" >> {path}/asked',
    }.items():
        (path / command).write_text(f"#!/bin/sh\n{text}\n")
        (path / command).chmod(0o755)
    if not (path / "sh").exists():
        (path / "sh").symlink_to("/bin/sh")
    script = DOCUMENT.parent.parent / "tools" / name
    return subprocess.run(
        ["/bin/sh", script],
        env={**environment, "PATH": str(path)},
        capture_output=True,
        check=False,
    )


def test_a_machine_without_a_browser_is_told_so_and_ci_fails(tmp_path: Path) -> None:
    result = tool("chromium.sh", tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith(b"no chromium: the tests of the page are skipped")
    assert b"tools/install-chromium.sh" in result.stderr
    assert not (tmp_path / "asked").exists(), "nothing is installed unasked"
    assert tool("chromium.sh", tmp_path, CHROMIUM="/somewhere").stderr == b""


def test_a_browser_is_installed_when_asked_for_and_only_if_there_is_none(tmp_path: Path) -> None:
    assert tool("install-chromium.sh", tmp_path, CHROMIUM="/somewhere").returncode == 0
    assert not (tmp_path / "asked").exists()
    assert tool("install-chromium.sh", tmp_path).returncode == 0
    asked = (tmp_path / "asked").read_text()
    assert asked == "install -y --no-install-recommends chromium\n"


def test_what_isolation_is_tested_with_is_installed_as_far_as_it_is_not_there(
    tmp_path: Path,
) -> None:
    programs = ("podman", "runc", "catatonit", "busybox", "newuidmap", "docker")
    for name in programs:
        (tmp_path / name).symlink_to("/bin/true")
    assert tool("install-podman.sh", tmp_path).returncode == 0
    for name in programs:
        (tmp_path / name).unlink()
    assert tool("install-podman.sh", tmp_path).returncode == 0
    some, everything = (tmp_path / "asked").read_text().splitlines()
    assert some == "install -y --no-install-recommends bubblewrap"
    assert everything == (
        "install -y --no-install-recommends podman containernetworking-plugins iptables runc "
        "catatonit busybox-static uidmap docker.io bubblewrap"
    )


def test_one_line_says_which_tests_were_skipped_and_how_to_have_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-k", "version_is_kept", "tests/agents/test_real.py"],
        cwd=DOCUMENT.parent.parent,
        env={"PATH": os.environ["PATH"], "TWOARM_AGENTS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if "tests skipped" in line] == [
        f"4 tests skipped in tests/agents/test_real.py: no agents in {tmp_path}; "
        "to test with real ones, `make agents` (1.3 GB)"
    ]


def test_nobody_is_told_to_install_a_name_that_is_not_registered() -> None:
    root = DOCUMENT.parent.parent
    files = [root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md"]
    files += [*root.glob("docs/**/*.md"), *root.rglob("src/**/*.py"), *root.glob("examples/**/*")]
    told = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in files
        if path.is_file()
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\b(pip|pipx|uv|uvx)\b.*\btwoarm\b", line)
        and not re.search(r"twoarm(\[\w+\])? @ git\+https://", line)
    ]
    assert told == []
