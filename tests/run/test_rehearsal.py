"""How a dry run ends: what to look at last, and then the result in one line."""

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
    assert f"twoarm: {said}\n" in started.err
    assert "no run shows whether it used the change" in started.out
    read: dict[str, Any] = {"agent": {"output": "stream.jsonl", "format": "claude-code"}}
    path = str(suite_of(tmp_path, **asked, **read))
    assert UPTAKE not in twoarm("run", path, "--dry-run").out
    assert UPTAKE not in twoarm("run", str(suite_of(tmp_path)), "--dry-run").out
