"""What a trial of `twoarm run` works in: repositories, builds, set-up, and what arms change."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import ALL, QUICK, USAGE, committed, journal, run, runs
from tests.support.suite_files import SOLVE, suite_of

pytestmark = pytest.mark.usefixtures("cache")


def test_a_repository_is_exported_at_its_commit_without_history(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / ".gitattributes").write_text("kept.txt export-ignore\n")
    (app / "kept.txt").write_text("kept\n")
    committed(app)
    (app / "kept.txt").write_text("changed\n")
    (app / "new.txt").write_text("not in git\n")
    script = "cat kept.txt; ls; git log --format=%an%ad%s; git rev-list --all --count; pwd"
    out = tmp_path / "out"
    suite = suite_of(tmp_path, script, workspace={"copy": None, "repo": "app"})
    result = run(suite, out)
    assert result.code == 0, result.err
    assert "uncommitted changes in `app` are ignored; trials start from" in result.err
    lines = (out / "runs" / "with" / "one.1" / "stdout.txt").read_text().splitlines()
    assert lines[:3] == ["kept", "kept.txt", "some.txt"]
    assert lines[3] == "twoarmSat Jan 1 00:00:00 2000 +0000start"
    assert lines[4] == "1"
    assert "with" not in lines[5].replace(str(tmp_path), "")


def test_submodules_and_lfs_pointers_are_refused_with_a_way_out(tmp_path: Path) -> None:
    app, other = tmp_path / "app", committed(tmp_path / "other")
    suite = suite_of(tmp_path, workspace={"copy": None, "repo": "app"})
    committed(app)
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", "-C", str(app), "submodule", "add", "-q",
         str(other), "sub"], check=True, capture_output=True,
    )  # fmt: skip
    committed(app)
    told = run(suite, tmp_path / "out").err
    assert "`sub` is a submodule, which is not exported; " in told
    assert "workspace.copy" in told
    shutil.rmtree(app)
    app.mkdir()
    (app / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    committed(app)
    assert "`big.bin` is in LFS" in run(suite, tmp_path / "out2").err


def test_arms_differ_in_files_and_home_and_prompt(tmp_path: Path) -> None:
    here = tmp_path / "suite"
    here.mkdir()
    (here / "AGENTS.md").write_text("be good\n")
    (here / "rc").write_text("rc\n")
    path = suite_of(
        here,
        "cat AGENTS.md $HOME/.rc README.md; printf '%s' \"$1\"",
        agent={"argv": ["sh", "{suite}/agent.sh", "{prompt}"]},
        arms={
            "with": {
                "env": None,
                "files": {"AGENTS.md": "AGENTS.md"},
                "home": {".rc": "rc"},
                "prompt_template": "First. {prompt} ({acceptance_command})",
            },
            "without": {"remove": ["README.md"]},
        },
    )
    out = tmp_path / "out"
    assert run(path, out).code == 0
    said = (out / "runs" / "with" / "one.1" / "stdout.txt").read_text()
    assert said == "be good\nrc\nan app\nFirst. Do one. (test -f answer.txt)"
    assert (out / "runs" / "with" / "one.1" / "prompt.txt").read_text().startswith("First. ")
    without = out / "runs" / "without" / "one.1"
    assert (without / "stdout.txt").read_text() == "Do one."
    # What an arm changes is in the commit: it is not the agent's change.
    assert (without / "diff.patch").read_text() == ""


def test_an_arm_may_be_a_branch_of_a_tool(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.mkdir()
    (tool / "tool.sh").write_text("#!/bin/sh\necho old\n")
    committed(tool)
    subprocess.run(["git", "-C", str(tool), "checkout", "-qb", "faster"], check=True)
    (tool / "tool.sh").write_text("#!/bin/sh\necho new\n")
    committed(tool)
    subprocess.run(["git", "-C", str(tool), "checkout", "-q", "-"], check=True)
    build = ["mkdir -p {build}/bin && install tool.sh {build}/bin/tool"]
    path = suite_of(
        tmp_path,
        "tool; cat made",
        arms={
            "with": {"env": None, "source": {"repo": "tool", "ref": "faster"},
                     "build_commands": build, "setup_commands": ["tool > made"]},
            "without": {"source": {"repo": "tool", "ref": "HEAD"}, "build_commands": build,
                        "setup_commands": ["tool > made"]},
        },
    )  # fmt: skip
    out = tmp_path / "out"
    result = run(path, out)
    assert result.code == 0, result.err
    assert (out / "runs" / "with" / "one.1" / "stdout.txt").read_text() == "new\nnew\n"
    assert (out / "runs" / "without" / "one.1" / "stdout.txt").read_text() == "old\nold\n"


def test_a_build_that_fails_stops_everything(tmp_path: Path) -> None:
    committed(tmp_path / "tool")
    arm = {"source": {"repo": "tool"}, "build_commands": ["echo broken; exit 4"], "env": None}
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, arms={"with": arm}), out)
    assert result.code == 2
    assert "build of arm `with` failed with exit code 4; see " in result.err
    assert (out / "setup" / "build.with" / "setup.log").read_text() == "broken\n"


def test_set_up_runs_once_per_task_and_every_trial_has_a_copy(tmp_path: Path) -> None:
    count = tmp_path / "count"
    once = f"echo x >> {count}; echo made > made.txt"
    path = suite_of(
        tmp_path, "cat made.txt; echo spoiled > made.txt", workspace={"setup_commands": [once]}
    )
    out = tmp_path / "out"
    assert run(path, out, "--repeats", "2").code == 0
    assert count.read_text() == "x\n"
    said = {(path / "stdout.txt").read_text() for path in out.glob("runs/*/*")}
    assert said == {"made\n"}
    told = run(suite_of(tmp_path, workspace={"setup_commands": ["exit 3"]}), tmp_path / "no").err
    assert "setup of the workspace failed with exit code 3; see " in told


def test_an_arm_whose_set_up_keeps_failing_stops_everything(tmp_path: Path) -> None:
    path = suite_of(tmp_path, arms={"with": {"setup_commands": ["echo no; exit 5"]}})
    out = tmp_path / "out"
    result = run(path, out)
    assert result.code == 2
    assert "the setup of arm `with` keeps failing (exit code 5); see " in result.err
    assert (
        "setup.log; if setup_commands have to change, start over with another --out" in result.err
    )
    assert {record["attempt"].split("/")[0] for record in journal(out) if "attempt" in record} >= {
        "with"
    }
    assert not [name for name in runs(out) if name.startswith("with/")]


def test_trees_that_were_cleared_are_made_anew(tmp_path: Path, cache: Path) -> None:
    flag, out = tmp_path / "flag", tmp_path / "out"
    script = USAGE + f'if [ -e {flag} ]; then {SOLVE}; else infra "no network"; fi'
    assert run(suite_of(tmp_path, script), out, "--jobs", "1").code == 2
    (tree,) = cache.glob("*/trees/tree0")
    shutil.rmtree(tree)
    flag.touch()
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert runs(out) == ALL


def test_a_suite_inside_its_own_repository_is_said(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, workspace={"copy": None, "repo": "."})
    (tmp_path / ".gitignore").write_text("out*\ncache\n")
    committed(tmp_path)
    assert "the suite is committed in the repository" in run(suite, tmp_path / "out").err
    assert (tmp_path / "out" / "collected.jsonl").exists()
    suite_of(tmp_path, workspace={"copy": None, "repo": "app"})
    told = run(suite, tmp_path / "out2").err
    assert f"{tmp_path}/app is inside the repository {tmp_path}; name its root" in told


def test_a_suite_that_every_arm_takes_away_is_no_danger(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    hidden = {"with": {"remove": ["evals"]}, "without": {"remove": ["evals/"]}}
    shown = hidden | {"without": {"remove": ["evals/app", "eva", "docs"]}}
    for arms, told in ((hidden, False), (shown, True)):
        for place in ({"copy": None, "repo": ".."}, {"copy": ".."}):
            suite = suite_of(repository / "evals", workspace=place, arms=arms)
            if not (repository / ".git").exists():
                committed(repository)
            note = twoarm("run", str(suite), "--dry-run", "--repeats", "1")
            assert note.code == 0, note.err
            text = note.out + note.err
            assert ("so agents of all arms can read it" in text) is told
            assert ('or write remove = ["evals"] in every arm' in text) is told


def test_a_bare_repository_will_do(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "cat some.txt README.md", workspace={"copy": None, "repo": "bare"})
    committed(tmp_path / "app")
    subprocess.run(["git", "clone", "-q", "--bare", str(tmp_path / "app"), str(tmp_path / "bare")],
                   check=True)  # fmt: skip
    result = run(suite, tmp_path / "out", "--only", "one")
    assert result.code == 0, result.err
    assert "the suite is committed" not in result.err
    said = tmp_path / "out" / "runs" / "with" / "one.1" / "stdout.txt"
    assert said.read_text() == "an app\n"
