"""How a dry run ends: what to look at last, and then the result in one line."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import twoarm
from tests.support.suite_files import suite_of

pytestmark = pytest.mark.usefixtures("cache")

UPTAKE = "uptake cannot be seen: what a command prints is read only with agent.output and"


def last(text: str, count: int = 1) -> list[str]:
    return text.splitlines()[-count:]


def test_a_good_dry_run_ends_with_the_command_that_starts_it(tmp_path: Path) -> None:
    path = suite_of(tmp_path / "a suite")
    result = twoarm("run", str(path), "--dry-run")
    assert (result.code, result.err) == (0, "")
    assert last(result.out) == [f"ready: no problems; start it with twoarm run '{path}'"]
    more = ("--repeats", "7", "--only", "one,two", "--trial-budget", "0.5")
    assert last(twoarm("run", str(path), "--dry-run", *more).out) == [
        f"ready: no problems; start it with twoarm run '{path}' "
        "--repeats 7 --only one,two --trial-budget 0.5"
    ]


def test_warnings_come_last_and_are_counted(tmp_path: Path) -> None:
    tasks = [
        {"id": name, "prompt": "p", "acceptance_command": "true", "tags": ["x"]}
        for name in ("one", "two")
    ]
    path = suite_of(tmp_path, tasks=tasks)
    result = twoarm("run", str(path), "--dry-run", "--only", "one")
    assert last(result.out, 2) == [
        "warning: task `one`: acceptance passes on the untouched workspace",
        f"ready, with 1 warning; start it with twoarm run {path} --only one",
    ]
    path = suite_of(tmp_path, tasks=tasks, agent={"format": "none"})
    result = twoarm("run", str(path), "--dry-run", "--tag", "x", "--tag", "y")
    assert result.err == ""
    assert [line.partition(":")[0] for line in last(result.out, 4)] == [
        "warning",
        "warning",
        "warning",
        f"ready, with 3 warnings; start it with twoarm run {path} --tag x --tag y",
    ]


@pytest.mark.parametrize(
    "asked", [{"uptake": ["command:mytool *"]}, {"arms": {"with": {"uptake": ["tool:x"]}}}]
)
def test_uptake_that_nothing_will_show_is_a_warning(tmp_path: Path, asked: dict[str, Any]) -> None:
    said = f"{UPTAKE} agent.format; see docs/explain.md for what each format shows"
    path = str(suite_of(tmp_path, **asked))
    assert f"warning: {said}\n" in twoarm("run", path, "--dry-run").out
    started = twoarm("run", path, "--out", str(tmp_path / "out"), "--repeats", "1", "--no-evidence")
    assert f"twoarm: warning: {said}\n" in started.err
    assert "no run shows whether it used the change" in started.out
    read: dict[str, Any] = {"agent": {"output": "stream.jsonl", "format": "claude-code"}}
    path = str(suite_of(tmp_path, **asked, **read))
    assert UPTAKE not in twoarm("run", path, "--dry-run").out
    assert UPTAKE not in twoarm("run", str(suite_of(tmp_path)), "--dry-run").out


def test_what_acceptance_says_of_the_untouched_workspace_is_shown(tmp_path: Path) -> None:
    """A command that is wrong fails as one does where nothing was done."""
    tasks = [
        {"id": "typo", "prompt": "p", "acceptance_command": "echo first; sh grading/chek.sh"},
        {"id": "quiet", "prompt": "p", "acceptance_command": "test -f answer.txt"},
        *({"id": f"t{i}", "prompt": "p", "acceptance_command": "exit 3"} for i in range(11)),
    ]
    lines = twoarm("run", str(suite_of(tmp_path, tasks=tasks)), "--dry-run").out.splitlines()
    at = lines.index("acceptance where nothing was done yet:")
    assert re.match(r"  typo: exit code \d+: sh: .*grading/chek.sh.*", lines[at + 1])
    assert lines[at + 2 : at + 4] == ["  quiet: exit code 1", "  t0: exit code 3"]
    assert lines[at + 13 : at + 15] == ["  and 1 more", "ready: no problems; start it with "
                                        f"twoarm run {tmp_path}/suite.json"]  # fmt: skip


def test_files_to_restore_that_no_workspace_has_are_told(tmp_path: Path) -> None:
    """A name that is misspelled restores nothing, and its tests are the agent's to write."""
    tasks = [
        {
            "id": "one",
            "prompt": "p",
            "acceptance_command": "test -f answer.txt",
            "acceptance_files": ["REEDME.md", "README.md", "guide.md"],
        }
    ]
    arms = {"with": {"files": {"guide.md": "agent.sh"}}, "without": {}}
    suite = str(suite_of(tmp_path, tasks=tasks, arms=arms, acceptance_files=["tets"]))
    for more in (["--dry-run"], ["--out", str(tmp_path / "out"), "--repeats", "1"]):
        told = twoarm("run", suite, *more)
        warnings = re.findall(
            r"warning: (\S*acceptance_files) names `(.*)`, which", told.out + told.err
        )
        assert warnings == [
            ("tasks.one.acceptance_files", "REEDME.md"),
            ("acceptance_files", "tets"),
        ]
