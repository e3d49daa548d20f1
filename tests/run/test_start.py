"""A program that cannot be started: found before any trial, and never a failed run of the agent."""

import json
from pathlib import Path

import pytest

from tests.conftest import twoarm
from tests.support.run_folders import ALL, QUICK, committed, records, run, runs
from tests.support.seals import bubblewrap_seal
from tests.support.suite_files import SOLVE, attempt, job_of, suite_of

pytestmark = pytest.mark.usefixtures("cache")

SCRIPT = f"#!/bin/sh\n{SOLVE}\n"

# What is there; what the dry run says of it.
UNFIT = {
    "not there": (None, "no such file"),
    "a folder": ("folder", "a folder, not a program"),
    "not executable": ("plain", "not executable; chmod +x would make it so"),
    "no first line": (SOLVE, "a script without a first line such as `#!/bin/sh`"),
    "no interpreter": ("#!/no/such/shell -e\n", "its first line names `/no/such/shell`"),
    "line ends of Windows": ("#!/bin/sh\r\necho\r\n", "its first line names `/bin/sh\\r`"),
}


def placed(path: Path, what: str | None) -> None:
    """A program as a test wants it."""
    if what == "folder":
        path.mkdir()
    elif what is not None:
        path.write_text(SCRIPT if what == "plain" else what)
        path.chmod(0o644 if what == "plain" else 0o755)


@pytest.mark.parametrize("name", UNFIT)
def test_a_dry_run_and_a_run_name_the_file_that_cannot_be_started(
    tmp_path: Path, name: str
) -> None:
    what, said = UNFIT[name]
    path = suite_of(tmp_path, agent={"argv": ["{suite}/agnt.sh", "{prompt}"]})
    placed(tmp_path / "agnt.sh", what)
    for words in (["--dry-run"], ["--out", str(tmp_path / "out")]):
        result = twoarm("run", str(path), *words)
        assert (result.code, result.out) == (2, ""), result.err
        assert f"agent `command`: {tmp_path}/agnt.sh: {said}" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("spelled", ["{suite}/agnt.sh", "./agnt.sh", "sub/../agnt.sh"])
def test_a_program_is_looked_up_beside_the_suite_when_it_is_checked_and_when_it_starts(
    tmp_path: Path, spelled: str
) -> None:
    path = suite_of(tmp_path, agent={"argv": [spelled]})
    placed(tmp_path / "agnt.sh", SCRIPT)
    assert twoarm("run", str(path), "--dry-run").code == 0
    result = run(path, tmp_path / "out")
    assert result.code == 0, result.err
    assert [record["success"] for record in records(tmp_path / "out")] == [True] * 4


def test_what_is_in_the_workspace_is_looked_up_there(tmp_path: Path) -> None:
    path = suite_of(tmp_path, agent={"argv": ["{workspace}/bin/it"]})
    for words in (["--dry-run"], ["--out", str(tmp_path / "out"), *QUICK]):
        result = twoarm("run", str(path), *words)
        assert result.code == 2
        assert "arm `with`, task `one`: {workspace}/bin/it: no such file" in result.err
    assert runs(tmp_path / "out") == []
    (tmp_path / "app" / "bin").mkdir()
    placed(tmp_path / "app" / "bin" / "it", SCRIPT)
    assert twoarm("run", str(path), "--dry-run").code == 0


def test_what_an_arm_makes_for_itself_is_not_looked_for_too_early(tmp_path: Path) -> None:
    make = [f"printf '%s' '{SCRIPT}' > it; chmod +x it"]
    path = suite_of(
        tmp_path,
        agent={"argv": ["{workspace}/it"]},
        arms={"with": {"setup_commands": make}, "without": {"setup_commands": make}},
    )
    assert twoarm("run", str(path), "--dry-run").code == 0
    assert run(path, tmp_path / "out", "--only", "one").code == 0


def test_what_an_arm_builds_is_looked_up_once_it_is_built(tmp_path: Path) -> None:
    tool = committed(tmp_path / "tool")
    builds = {
        "source": {"repo": str(tool)},
        "build_commands": ["cp /bin/true {build}/bin/it"],
    }
    without = {**builds, "build_commands": ["cp /bin/true {build}/bin/ti"]}
    arms = {"with": builds, "without": without}
    path = suite_of(tmp_path, agent={"argv": ["{build}/bin/it"]}, arms=arms)
    result = twoarm("run", str(path), "--dry-run")
    assert result.code == 2
    assert "arm `without`, task `one`: {build}/bin/it: no such file" in result.err


def test_a_program_that_is_gone_stops_the_run_and_is_no_run_of_the_agent(tmp_path: Path) -> None:
    out = tmp_path / "out"
    # By a path that is not frozen.
    path = suite_of(tmp_path, agent={"argv": [str(tmp_path / "agnt.sh")]})
    gone = f"{SCRIPT}mv {tmp_path}/agnt.sh {tmp_path}/kept.sh\n"
    placed(tmp_path / "agnt.sh", gone)
    result = run(path, out, "--jobs", "1")
    assert (result.code, result.out) == (2, "")
    assert f"the agent could not be run: {tmp_path}/agnt.sh: no such file" in result.err
    assert f"nothing is lost; continue with twoarm run --resume {out}" in result.err
    assert len(runs(out)) == 1
    assert not (out / "analysis.json").exists()
    (trial,) = out.glob(".attempts/*/*/trial.json")
    told = json.loads(trial.read_text())
    assert (told["state"], told["charged_usd"]) == ("infra", 0.0)
    placed(tmp_path / "agnt.sh", SCRIPT)
    result = twoarm("run", "--resume", str(out), *QUICK)
    assert result.code == 0, result.err
    assert runs(out) == ALL
    assert json.loads(result.out)["excluded_infra_failures"] == 1


def test_what_only_the_kernel_refuses_is_not_started_either(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(b"\x7fELF\0\0 nothing of the kind")
    odd.chmod(0o755)
    ran = attempt(job_of(tmp_path, "", argv=(str(odd),)))
    assert ran.facts["not_started"] == f"{odd}: Exec format error"
    assert "acceptance_exit_code" not in ran.facts


def test_a_program_behind_a_sandbox_is_looked_for_as_well(tmp_path: Path, bubblewrap: str) -> None:
    seal = bubblewrap_seal(tmp_path, bubblewrap)
    for program in ("no-such-agent", f"{tmp_path}/no-such-agent"):
        ran = attempt(job_of(tmp_path, "", seal=seal, argv=(program,)))
        assert ran.facts["not_started"] == f"{program}: no such file"


def test_an_agent_that_exits_with_127_has_failed_itself(tmp_path: Path) -> None:
    ran = attempt(job_of(tmp_path, "exit 127"))
    assert "not_started" not in ran.facts
    assert ran.facts["agent_exit_code"] == 127


def test_a_file_of_the_suite_that_an_argument_names_and_that_is_not_there_is_a_warning(
    tmp_path: Path,
) -> None:
    path = suite_of(
        tmp_path,
        agent={"argv": ["sh", "{suite}/agnt.sh", "{suite}/{task_id}", "{suite}/agent.sh"]},
        arms={"with": {"args": ["{suite}/search.json"]}},
    )
    result = twoarm("run", str(path), "--dry-run")
    assert result.code == 0, result.err
    for key, name in (("agent.argv", "agnt.sh"), ("arms.with.args", "search.json")):
        assert f"{key} names {{suite}}/{name}, and there is no such file" in result.out
    assert result.out.count("no such file") == 2


def test_a_file_of_the_suite_that_acceptance_names_and_that_is_not_there_is_a_warning(
    tmp_path: Path,
) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "grade.sh").touch()
    there = "sh {suite}/agent.sh && sh '{suite}/a b/grade.sh' && ls {suite}/*.py {suite}/$TASK"
    commands = {"one": f"{there};sh {{suite}}/grading/chek.sh||true", "two": "sh {suite}/chek.sh"}
    tasks = [{"id": id, "prompt": "p", "acceptance_command": text} for id, text in commands.items()]
    result = twoarm("run", str(suite_of(tmp_path, tasks=tasks)), "--dry-run")
    assert result.code == 0, result.err
    for name in ("grading/chek.sh", "chek.sh"):
        told = f"warning: acceptance names {{suite}}/{name}, and there is no such file"
        assert told in result.out
    assert result.out.count("acceptance names") == 2
