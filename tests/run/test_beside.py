"""What an agent or an arm names beside the suite is frozen: the change may be there."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import Result, twoarm
from tests.support.run_folders import QUICK, run, runs
from tests.support.shards import shard_run
from tests.support.suite_files import SOLVE, suite_of
from twoarm.run.ledger import RunFolder
from twoarm.run.parts import sealed_anew
from twoarm.run.schedule import frozen_bytes

pytestmark = pytest.mark.usefixtures("cache")

SKILL = "skills/dates/SKILL.md"


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def resumed(out: Path, *more: str) -> Result:
    return twoarm("run", "--resume", str(out), *QUICK, *more)


def keys(out: Path) -> list[str]:
    """What is frozen by its digest, but for the prompts."""
    digests = json.loads((out / "schedule.json").read_text())["digests"]
    return sorted(key for key in digests if not key.startswith("prompts."))


SHELL = {"argv": ["sh", "-c", SOLVE, "sh"]}
NAMED: list[tuple[dict[str, Any], str, str]] = [
    ({"agent": {"argv": ["sh", "{suite}/agent.sh"]}}, "agent.sh", "agent.argv.agent.sh"),
    ({"agent": {"argv": ["./agent.sh"]}}, "agent.sh", "agent.argv.agent.sh"),
    ({"agent": {"args": ["--mcp-config={suite}/mcp.json"]}}, "mcp.json", "agent.args.mcp.json"),
    ({"agent": {"env": {"A": "x:{suite}/lib:y"}}}, "lib/a.sh", "agent.env.lib"),
    ({"arms": {"with": {"args": ["{suite}/skills"]}}}, SKILL, "arms.with.args.skills"),
    ({"arms": {"with": {"env": {"A": "{suite}/skills/"}}}}, SKILL, "arms.with.env.skills"),
    (
        {"arms": {"with": {"model": "m", "args": ["{suite}/for-{model}.txt"]}}},
        "for-m.txt",
        "arms.with.args.for-m.txt",
    ),
    (
        {"arms": {"with": {"args": ["{suite}/hints/{task_id}.md"]}}},
        "hints/one.md",
        "arms.with.args.hints/one.md",
    ),
    (
        {"arms": {"with": {"prompt_template": "{prompt} See {suite}/help.md, please."}}},
        "help.md",
        "arms.with.prompt_template.help.md",
    ),
    (
        {"arms": {"with": {"setup_commands": ["to=$HOME; cp {suite}/note.md ${to}"]}}},
        "note.md",
        "arms.with.setup_commands.note.md",
    ),
    (
        {"arms": {"with": {"args": ["{suite}/../other/x.md"]}}},
        "../other/x.md",
        "arms.with.args.../other/x.md",
    ),
]


@pytest.mark.parametrize(("changed", "file", "key"), NAMED, ids=[key for _, _, key in NAMED])
def test_what_is_named_beside_the_suite_may_not_change(
    tmp_path: Path, changed: dict[str, Any], file: str, key: str
) -> None:
    if "argv" not in changed.get("agent", {}):
        changed = {**changed, "agent": {**SHELL, **changed.get("agent", {})}}
    folder, out = tmp_path / "suite", tmp_path / "out"
    suite = suite_of(folder, **changed)
    named = written(folder / file, f"#!/bin/sh\n{SOLVE}\n")
    named.chmod(0o755)
    begun = run(suite, out, "--only", "one")
    assert begun.code == 0, begun.err
    assert keys(out) == [key]
    assert resumed(out).code == 0
    named.write_text(f"#!/bin/sh\n{SOLVE} # otherwise\n")
    refused = resumed(out, "--repeats", "2")
    assert refused.code == 2
    assert f"twoarm: digests.{key} has changed since the schedule was frozen: " in refused.err
    assert runs(out) == ["with/one.1", "without/one.1"]
    # No agent runs, so that only the setup of its arm matters.
    named.unlink()
    graded = twoarm("regrade", str(out), "--out", str(tmp_path / "graded"), *QUICK)
    of_agents = "setup_commands" not in key
    assert graded.code == (0 if of_agents else 2), graded.err
    assert (f"twoarm: digests.{key} has changed since" in graded.err) != of_agents


def test_shards_of_two_skills_are_not_merged(tmp_path: Path) -> None:
    arms = {"with": {"args": ["--skill", "{suite}/skills"]}}
    folder = tmp_path / "suite"
    suite = suite_of(folder, arms=arms)
    outs = [tmp_path / "1", tmp_path / "2"]
    for number, out in enumerate(outs, 1):
        written(folder / SKILL, f"Use version {number}.\n")
        assert shard_run(suite, out, f"{number}/2").code == 0
    merged = twoarm("merge", *map(str, outs), "--out", str(tmp_path / "all"), "--no-evidence")
    assert merged.code == 2
    assert f"twoarm: {outs[1]}: digests.arms.with.args.skills is " in merged.err
    assert f"in {outs[0]}: these shards have different schedules" in merged.err
    assert not (tmp_path / "all").exists()


def test_what_running_leaves_in_a_folder_is_no_change(tmp_path: Path) -> None:
    arms = {"with": {"args": ["{suite}/skills"]}}
    suite = suite_of(tmp_path, arms=arms)
    written(tmp_path / SKILL, "Use it.\n")
    out = tmp_path / "skills" / "out"
    # Its own run folder, too.
    assert run(suite, out).code == 0
    for made in (".git/HEAD", "dates/__pycache__/a.pyc", "old/schedule.json", "old/runs/x"):
        written(tmp_path / "skills" / made, "made\n")
    result = resumed(out, "--repeats", "2")
    assert result.code == 0, result.err
    written(tmp_path / "skills" / "new" / "SKILL.md", "Another one.\n")
    assert "digests.arms.with.args.skills has changed" in resumed(out, "--repeats", "3").err


def test_what_was_not_there_at_the_start_is_not_frozen(tmp_path: Path) -> None:
    """An agent may write to a path that it is given."""
    script = f"echo x >> $1; {SOLVE}"
    suite = suite_of(tmp_path, script, agent={"argv": ["sh", "{suite}/agent.sh", "{suite}/log"]})
    out = tmp_path / "out"
    # In a sandbox it would have no such folder.
    assert run(suite, out, "--isolation", "copy").code == 0
    assert (tmp_path / "log").exists()
    assert keys(out) == ["agent.argv.agent.sh"]
    result = resumed(out, "--repeats", "2")
    assert result.code == 0, result.err


def test_a_folder_from_before_such_digests_were_kept_goes_on(tmp_path: Path) -> None:
    arms = {"with": {"args": ["{suite}/skills"]}}
    suite, out = suite_of(tmp_path, arms=arms), tmp_path / "out"
    written(tmp_path / SKILL, "Use it.\n")
    assert run(suite, out).code == 0
    frozen = RunFolder(str(out)).frozen()
    digests = {key: digest for key, digest in frozen.digests.items() if key.startswith("prompts.")}
    older = sealed_anew(replace(frozen, digests=digests))
    (out / "schedule.json").write_bytes(frozen_bytes(older))
    result = resumed(out, "--repeats", "2")
    assert result.code == 0, result.err
    assert len(runs(out)) == 8
    assert keys(out) == []


def test_a_task_that_is_added_may_have_a_file_that_is_named_for_it(tmp_path: Path) -> None:
    arms = {"with": {"args": ["{suite}/hints/{task_id}.md"]}}
    suite, out = suite_of(tmp_path, arms=arms), tmp_path / "out"
    for name in ("one", "two", "three"):
        written(tmp_path / "hints" / f"{name}.md", "Look.\n")
    assert run(suite, out).code == 0
    text = json.loads(suite.read_text())
    text["tasks"].append({**text["tasks"][0], "id": "three"})
    suite.write_text(json.dumps(text))
    result = resumed(out)
    assert result.code == 0, result.err
    assert len(runs(out)) == 6


def test_the_whole_folder_of_a_suite_is_not_frozen_and_that_is_said(tmp_path: Path) -> None:
    arms = {"with": {"env": {"SUITE": "{suite}", "ALSO": "x:{suite}/"}}}
    suite, out = suite_of(tmp_path, arms=arms), tmp_path / "out"
    begun = run(suite, out)
    assert begun.code == 0
    said = (
        "twoarm: warning: arms.with.env names the whole folder of the suite, which is not frozen: "
    )
    assert begun.err.count(said) == 1
    assert "agent.argv names" not in begun.err
    (tmp_path / "more.txt").write_text("more\n")
    assert resumed(out, "--repeats", "2").code == 0
    assert keys(out) == ["agent.argv.agent.sh"]
