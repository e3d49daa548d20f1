"""The jobs in docs/ci.md and the scripts that set a machine up do what they say."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import both, lines, twoarm
from tests.support.scriptless import scriptless
from twoarm.render import github

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
    programs = ("podman", "runc", "catatonit", "busybox", "docker")
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
        "catatonit busybox-static docker.io bubblewrap"
    )


def test_one_line_says_which_tests_were_skipped_and_how_to_have_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-k", "version_is_kept", "tests/run/test_agents.py"],
        cwd=DOCUMENT.parent.parent,
        env={"PATH": os.environ["PATH"], "TWOARM_AGENTS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if "tests skipped" in line] == [
        f"4 tests skipped in tests/run/test_agents.py: no agents in {tmp_path}; "
        "to test with real ones, `make agents` (1.3 GB)"
    ]


def workflows() -> list[dict[str, Any]]:
    text = DOCUMENT.read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, flags=re.S)]


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=scriptless(
            PATH=f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}", **environment
        ),
        capture_output=True,
        check=False,
    )


def test_the_github_workflow_of_the_document_does_what_it_says(tmp_path: Path) -> None:
    steps = {
        step["name"]: step for step in workflows()[0]["jobs"]["score"]["steps"] if "name" in step
    }
    (tmp_path / "collected.jsonl").write_text(twoarm("demo", "--print").out, encoding="utf-8")
    summary = tmp_path / "summary.md"
    score = steps["Score the runs"]["run"]
    result = shell(score, tmp_path, GITHUB_STEP_SUMMARY=str(summary))
    assert result.returncode == 0, result.stderr.decode()
    assert sorted(os.listdir(tmp_path / "results")) == [
        "analysis.json",
        "analysis.md",
        "comment.md",
        "junit.xml",
        "report.html",
    ]
    assert b"::notice title=twoarm caveat" in result.stderr
    comment = (tmp_path / "results" / "comment.md").read_text(encoding="utf-8")
    assert comment == summary.read_text(encoding="utf-8")

    # A stand-in for GitHub's client: says which comment is there, and keeps what it was asked.
    client = tmp_path / "gh"
    client.write_text(
        '#!/bin/sh\necho "$@" >> asked\ncase "$*" in *--jq*) cat comments 2>/dev/null;; esac\n'
    )
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    names = {"REPOSITORY": "some/where", "NUMBER": "7", "GH_TOKEN": "none"}
    assert set(names) == set(steps["Comment on the pull request"]["env"])
    step = steps["Comment on the pull request"]["run"]
    assert shell(step, tmp_path, **names).returncode == 0
    (tmp_path / "comments").write_text("42\n43\n")
    assert shell(step, tmp_path, **names).returncode == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line for line in asked if "--method" in line] == [
        "api --method POST repos/some/where/issues/7/comments -F body=@results/comment.md",
        "api --method PATCH repos/some/where/issues/comments/42 -F body=@results/comment.md",
    ]
    assert github.MARKER in step


def test_the_gitlab_job_of_the_document_does_what_it_says(tmp_path: Path) -> None:
    job = workflows()[1]["twoarm"]
    (tmp_path / "collected.jsonl").write_bytes(lines([*both(), *both("t", 2)]))
    result = shell(job["script"][1], tmp_path)
    assert result.returncode in job["allow_failure"]["exit_codes"]
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).is_file()
