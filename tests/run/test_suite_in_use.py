"""A suite that is changed while its trials run: whoever did it, the run says so."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result, twoarm
from tests.support.run_folders import QUICK, records, run, runs
from tests.support.suite_files import SOLVE, suite_of

GRADER = "test -f answer.txt"
TASKS = [{"id": "one", "prompt": "p", "acceptance_command": "sh {suite}/grading/check.sh"}]


@pytest.fixture(autouse=True)
def _cache(cache: Path) -> None:
    """Away from the user's own."""


def suite_with(folder: Path, script: str, **changed: Any) -> Path:
    (folder / "grading").mkdir(parents=True, exist_ok=True)
    (folder / "grading" / "check.sh").write_text(f"{GRADER}\n")
    (folder / "home.txt").write_text("for HOME\n")
    return suite_of(folder, script, **{"tasks": TASKS, **changed})


def cheating(folder: Path, change: str, **changed: Any) -> Result:
    """A run whose agents change something of the suite in the arm with the change."""
    script = f'if [ "$HINT" ]; then {change.format(suite=folder / "suite")}; fi; {SOLVE}'
    return run(suite_with(folder / "suite", script, **changed), folder / "out")


HOME = {"agent": {"home": {".settings": "home.txt"}}}
CHANGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a grader": ("echo exit 0 > {suite}/grading/check.sh", {}, "what grades task `one` "
                 "(`grading/check.sh`)"),
    "a grader that is gone": ("rm {suite}/grading/check.sh", {}, "what grades task `one` (gone)"),
    "the agent": ("echo true >> {suite}/agent.sh", {}, "agent.argv.agent.sh"),
    "a file of HOME": ("echo more >> {suite}/home.txt", HOME, "agent.home..settings"),
    "a file of HOME that is gone": ("rm {suite}/home.txt", HOME, "agent.home..settings"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_trials_use_of_the_suite_may_not_change_meanwhile(tmp_path: Path, what: str) -> None:
    change, changed, named = CHANGES[what]
    result = cheating(tmp_path, change, **changed)
    assert result.code == 2
    done = runs(tmp_path / "out")
    assert f"changed the suite while trials ran: {named}" in result.err
    assert f"{len(done)} run{'s' * (len(done) > 1)} since the last check may have" in result.err
    assert "put it back, and remove their folders below" in result.err
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert receipt["doubtful_runs"] == done
    # Whoever scores them is told, too.
    out = tmp_path / "out"
    scored = twoarm("score", str(out), "--no-evidence", "--format", "json")
    told = {each["code"]: each for each in json.loads(scored.out)["caveats"]}
    assert told["runs_in_doubt"]["severity"] == "serious"
    assert all(run in told["runs_in_doubt"]["message"] for run in done)


def test_what_is_put_back_can_be_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cheating(tmp_path, "echo exit 0 > {suite}/grading/check.sh").code == 2
    refused = twoarm("run", "--resume", str(out), *QUICK)
    assert refused.code == 2
    assert "what grades task `one` has changed since the schedule was frozen: " in refused.err
    assert "; grade the runs again with `twoarm regrade`, change it back, or " in refused.err
    # By what is there now, which nobody changes any more; what starts agents is no matter.
    script = tmp_path / "suite" / "agent.sh"
    text = script.read_text()
    script.write_text("another\n")
    again = twoarm("regrade", str(out), "--out", str(tmp_path / "again"))
    assert again.code == 0, again.err
    script.write_text(text)
    (tmp_path / "suite" / "grading" / "check.sh").write_text(f"{GRADER}\n")
    for name in runs(out):
        shutil.rmtree(out / "runs" / name)
    resumed = twoarm("run", "--resume", str(out), *QUICK)
    # They do it again.
    assert resumed.code == 2
    assert "changed the suite while trials ran: what grades task `one`" in resumed.err


def test_a_grader_that_changes_while_runs_are_graded_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    suite = suite_with(tmp_path / "suite", SOLVE)
    assert run(suite, out).code == 0
    # It changes itself, so that the second run has another.
    check = tmp_path / "suite" / "grading" / "check.sh"
    check.write_text(f"echo true >> {check}; {GRADER}\n")
    result = twoarm("regrade", str(out), "--out", str(tmp_path / "again"))
    assert result.code == 2
    assert "changed the suite while trials ran: what grades task `one`" in result.err


def test_what_python_keeps_of_a_grader_is_no_change(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    suite = suite_with(
        folder,
        SOLVE,
        tasks=[TASKS[0] | {"acceptance_command": "PYTHONPATH={suite}/grading python3 -m check"}],
    )
    (folder / "grading" / "check.py").write_text("import more\n")
    (folder / "grading" / "more.py").write_text("open('answer.txt')\n")
    result = run(suite, tmp_path / "out")
    assert result.code == 0, result.err
    assert (folder / "grading" / "__pycache__").is_dir()
    assert [record["success"] for record in records(tmp_path / "out")] == [True, True]
    resumed = twoarm("run", "--resume", str(tmp_path / "out"), *QUICK)
    assert resumed.code == 0, resumed.err
