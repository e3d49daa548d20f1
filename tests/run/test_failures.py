"""What every fault of an agent, a provider or a disk ends in, and what is tried again."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

import twoarm as library
from tests.conftest import twoarm
from tests.support.run_folders import ALL, QUICK, USAGE, records, run, runs
from tests.support.suite_files import SOLVE, processes_with, suite_of
from twoarm.run.ledger import RunFolder

pytestmark = pytest.mark.usefixtures("cache")

# What the agent does; success, failure and its reason in the record.
FAULTS = {
    "times out": ("echo 1 > answer.txt; sleep 60", False, "agent", "time"),
    "says success when stopped": (
        "trap 'echo 1 > answer.txt; exit 0' TERM; i=0; "
        "while [ $i -lt 1000 ]; do i=$((i + 1)); sleep 0.05; done",
        False,
        "agent",
        "time",
    ),
    "prints too much": ("echo 1 > answer.txt; exec timeout 60 yes", False, "agent", "output"),
    "crashes": ("exit 3", False, None, None),
    "is killed": ("kill -9 $$", False, None, None),
    "kills its supervisor": ("kill -9 $PPID; sleep 60", False, "agent", "supervisor"),
    "deletes its test runner": ("cd ..; rm -rf work; true", False, None, None),
    "leaves counts that are none": (f"echo '{{' > $TWOARM_USAGE; {SOLVE}", True, None, None),
    "passes": (SOLVE, True, None, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_an_agent_can_cause_is_its_own_failure_and_never_tried_again(
    tmp_path: Path, name: str
) -> None:
    script, success, failure, reason = FAULTS[name]
    limits = {"timeout_seconds": 0.5, "grace_seconds": 0.2, "output_mb": 1}
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script, limits=limits), out, "--only", "one")
    assert result.code == 0, result.err
    found = records(out)
    assert len(found) == 2
    for record in found:
        assert record["success"] is success
        assert record["failure"] == failure
        assert (reason or "") in (record.get("failure_reason") or "")
    assert not list(out.glob(".attempts/*/*"))
    assert processes_with(str(tmp_path / "cache")) == []


def test_an_infra_failure_is_tried_again_and_reported(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    script = USAGE + f'if [ -e {flag} ]; then {SOLVE}; else touch {flag}; infra "429 busy"; fi'
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--jobs", "1")
    assert result.code == 0, result.err
    assert runs(out) == ALL
    assert len(list(out.glob(".attempts/*/*/trial.json"))) == 1
    assert json.loads(result.out)["excluded_infra_failures"] == 1
    receipt = json.loads((out / "receipt.json").read_text())
    assert [one["reason"] for one in receipt["attempts_without_run"]] == ["429 busy"]


def test_a_provider_that_is_down_stops_everything_and_resume_goes_on(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    script = USAGE + f'if [ -e {flag} ]; then {SOLVE}; else infra "401 no key"; fi'
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--jobs", "1")
    assert result.code == 2
    assert "6 attempts in a row failed" in result.err
    assert f"nothing is lost; continue with twoarm run --resume {out}" in result.err
    assert "401 no key" in result.err
    assert runs(out) == []
    flag.touch()
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    assert runs(out) == ALL
    assert json.loads(result.out)["excluded_infra_failures"] == 6


def test_a_budget_stops_the_run_and_more_of_it_goes_on(tmp_path: Path) -> None:
    script = USAGE + f"used 100 0.5; {SOLVE}"
    out = tmp_path / "out"
    result = run(suite_of(tmp_path, script), out, "--repeats", "2", "--jobs", "1",
                 "--budget", "2", "--trial-budget", "0.5")  # fmt: skip
    assert result.code == 0, result.err
    assert "the budget is soft" in result.err
    assert "the budget does not cover another trial; raise it to continue: " in result.err
    # 1.5 times the dearest is reserved: a second block would need 1.0 + 2 x 0.75.
    assert len(runs(out)) == 2
    assert "can only grow" in twoarm("run", "--resume", str(out), "--budget", "1", *QUICK).err
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert len(runs(out)) == 2
    result = twoarm("run", "--resume", str(out), "--budget", "9", *QUICK)
    assert result.code == 0, result.err
    assert len(runs(out)) == 8
    status = twoarm("run", "--status", str(out)).out
    arms = "`with` 4 of 4, `without` 4 of 4"
    assert f"8 of 8 trials done ({arms}), 0 running, 0 infra, $4.00 of $9.00 spent" in status


def test_a_full_disk_stops_the_run_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    suite = suite_of(tmp_path, SOLVE)
    assert run(suite, out, "--only", "one").code == 0
    shutil.rmtree(out / "runs" / "with" / "one.1")

    def full(self: RunFolder, event: str, **fields: object) -> None:
        raise OSError(28, "No space left on device", self.at("journal.jsonl"))

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "mention", full)
        result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 2
    assert "No space left on device; make room, then use --resume" in result.err
    assert twoarm("run", "--resume", str(out), *QUICK).code == 0
    assert runs(out) == ["with/one.1", "without/one.1"]


def test_what_a_real_run_writes_at_its_time_limit_is_read(tmp_path: Path) -> None:
    demo = tmp_path / "demo"
    shutil.copytree(str(files("twoarm").joinpath("run", "demo")), demo)
    suite = (demo / "suite.toml").read_text().replace("timeout_seconds = 20", "timeout_seconds = 8")
    (demo / "suite.toml").write_text(suite)
    script = (demo / "agent.sh").read_text().replace('"$(draw "$luck")" -ne 0', "0 -eq 0")
    # It has done its work, and does not come to an end without the guide.
    (demo / "agent.sh").write_text(f"{script}\n[ -f AGENTS.md ] || exec sleep 600\n")
    out = tmp_path / "out"
    result = twoarm("run", str(demo / "suite.toml"), "--out", str(out), "--repeats", "1",
                    "--only", "add-tax", "--display", "quiet", "--no-evidence")  # fmt: skip
    assert "FAILED     candidate none of 1; baseline 1 of 1 (timeout)" in result.out, result.err
    assert (
        "CAVEATS    limits aside, success is 100.0% vs. 100.0%, not 100.0% vs. 0.0%" in result.out
    )
    (group,) = library.score(out / "collected.jsonl", evidence=False).failures.baseline.reasons
    assert (group.runs, group.passed_acceptance) == (1, 1)
    assert [text.text for text in group.texts] == ["hit the time limit of its runner"]


def test_what_a_real_run_writes_of_other_failures_is_read(tmp_path: Path) -> None:
    script = """
case $TWOARM_TASK in
one) if [ "$HINT" ]; then exit 3; else echo 1 > answer.txt; exec timeout 60 yes; fi ;;
two) if [ "$HINT" ]; then echo 1 > other.txt; else kill -9 $PPID; sleep 60; fi ;;
esac
"""
    argv = ["sh", "{suite}/agent.sh", "{task_id}"]
    script = script.replace("$TWOARM_TASK", "$1")
    suite = suite_of(tmp_path, script, agent={"argv": argv}, limits={"output_mb": 1})
    out = tmp_path / "out"
    twoarm("run", str(suite), "--out", str(out), "--repeats", "1", "--display", "quiet",
           "--no-evidence")  # fmt: skip
    assert len(records(out)) == 4
    report = library.score(
        out / "collected.jsonl", evidence=False, candidate="with", baseline="without"
    )
    ours, theirs = report.failures.arms
    assert [(group.reason, group.runs, group.passed_acceptance) for group in ours.reasons] == [
        ("acceptance", 1, 0),
        ("crash", 1, 0),
    ]
    assert [(group.reason, group.runs, group.passed_acceptance) for group in theirs.reasons] == [
        ("output_limit", 1, 1),
        ("crash", 1, 0),
    ]
