"""The commands of docs/collect.md, run as they are written, and its tables held to the code."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.collect_fixtures import FIXTURES, cat
from twoarm.programs import folder, run_folder
from twoarm.programs.caveats import CAVEATS
from twoarm.programs.inspect import archive as inspect_archive
from twoarm.programs.registry import load_formats
from twoarm.programs.sidecar import Sidecar

DOCUMENT = (Path(__file__).parents[2] / "docs" / "collect.md").read_text()
BLOCKS = re.findall(r"^## (.+?)$|^```console\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """The console blocks, by the heading they stand under."""
    found = []
    heading = ""
    for title, block in BLOCKS:
        heading = title or heading
        if block:
            found.append((heading, block))
    return found


# What each agent prints, told by the fixture that stands for it.
AGENTS = {
    "claude": cat("claude-code/ok/stream.jsonl"),
    "codex": cat("codex/ok/events.jsonl"),
    "gemini": cat("gemini-cli/ok_stream/stdout.txt"),
    "my-agent": "echo done",
    "opencode": f'if [ "$1" = export ]; then {cat("opencode/ok/export.json")}; '
    f"else {cat('opencode/ok/events.jsonl')}; fi",
}


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with what the document speaks of: agents, results, the script, a price table."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, says in AGENTS.items():
        (programs / name).write_text(f"#!/bin/sh\ntouch hello.txt\n{says}\n")
        (programs / name).chmod(0o755)
    (programs / "twoarm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m twoarm "$@"\n')
    (programs / "twoarm").chmod(0o755)
    script = re.search(r"^```sh\n(# record\.sh.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    prices = re.search(r"^```toml\n(# prices\.toml.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    mapping = re.search(r"^```toml\n(# mapping\.toml.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    workspaces = re.search(r"^```sh\n(# workspaces\.sh.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert script
    assert prices
    assert mapping
    assert workspaces
    (tmp_path / "mapping.toml").write_text(mapping[1])
    subprocess.run(["sh", "-c", workspaces[1]], cwd=tmp_path, check=True)
    (tmp_path / "record.sh").write_text(script[1])
    (tmp_path / "prices.toml").write_text(prices[1])
    shutil.copytree(FIXTURES / "harbor", tmp_path / "jobs")
    shutil.copytree(FIXTURES / "inspect" / "eval", tmp_path / "logs")
    shutil.copytree(FIXTURES / "table", tmp_path / "table")
    session = tmp_path / "codex" / "sessions" / "2026" / "11" / "15"
    session.mkdir(parents=True)
    shutil.copy(FIXTURES / "codex" / "ok" / "rollout.jsonl", session / "rollout-2026.jsonl")
    for arm, key in (("with_x", "resolved_ids"), ("without_x", "unresolved_ids")):
        trajectories = tmp_path / "trajectories" / arm
        trajectories.mkdir(parents=True)
        shutil.copy(FIXTURES / "mini-swe-agent" / "ok" / "ok.traj.json", trajectories)
        report = {"schema_version": 2, "resolved_ids": [], key: ["ok"]}
        (tmp_path / f"{arm}.report.json").write_text(json.dumps(report))
    return tmp_path


@pytest.mark.parametrize(("heading", "block"), examples(), ids=[name for name, _ in examples()])
def test_a_worked_example_does_what_it_shows(heading: str, block: str, workplace: Path) -> None:
    shown = ""
    for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
        result = subprocess.run(
            ["sh", "-c", command],
            cwd=workplace,
            env={
                "PATH": f"{workplace / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "CODEX_HOME": str(workplace / "codex"),
                "HOME": str(workplace),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert result.returncode == 0, result.stdout.decode()
        assert result.stdout.decode() == output, command
        shown += output
    assert shown, "an example without output shows nothing"


def test_the_arms_of_an_example_differ_in_the_change_and_are_accepted_alike() -> None:
    recorded = 0
    for heading, block in examples():
        arms: dict[str, list[list[str]]] = {}
        for line in re.findall(r"^\$ sh record\.sh (.*)$", block, re.MULTILINE):
            folder, *given = shlex.split(line)
            arms.setdefault(folder.split("/")[1], []).append(given)
        if not arms:
            continue
        ours, theirs = arms["with_x"], arms["without_x"]
        for (task, repeat, template, acceptance, output, *agent), other in zip(
            ours, theirs, strict=True
        ):
            recorded += 1
            assert [task, repeat, acceptance, output] == [*other[:2], *other[3:5]], heading
            assert template.startswith("workspaces/"), heading
            assert [template, *agent] != [other[2], *other[5:]], f"{heading}: nothing differs"
    assert recorded >= 5


def test_no_run_of_the_script_starts_where_another_left_off(workplace: Path) -> None:
    given = ["sh", "record.sh", "runs/a/1", "t", "1", "workspaces/with_x", "test ! -e left"]
    first = subprocess.run([*given, "stdout.txt", "touch", "left.txt"], cwd=workplace, check=False)
    assert first.returncode == 0
    assert (workplace / "runs/a/1/workspace/left.txt").exists()
    assert not (workplace / "workspaces/with_x/left.txt").exists()
    assert (workplace / "runs/a/1/workspace/AGENTS.md").exists()
    again = subprocess.run([*given, "stdout.txt", "true"], cwd=workplace, capture_output=True)
    assert again.returncode == 1
    assert b"runs/a/1: already there" in again.stderr


def test_every_format_has_a_worked_example() -> None:
    collected = {
        name
        for _, block in examples()
        for name in re.findall(r"^\$ twoarm collect (\S+)", block, re.MULTILINE)
    }
    assert collected == set(load_formats().known)


def test_every_key_of_the_sidecar_is_documented() -> None:
    section = DOCUMENT.split("## The sidecar")[1].split("\n## ")[0]
    for key in Sidecar.__struct_fields__:
        assert f"`{key}`" in section
    for name in run_folder.OUTPUTS:
        assert f"`{name}`" in section


def test_every_tag_is_documented() -> None:
    tags = DOCUMENT.split("**Caveats.**")[1].split("\n## ")[0]
    for code in set(CAVEATS) - {"no_start_time"}:
        assert f"`{code}`" in tags, code


def test_the_limits_are_those_of_the_code() -> None:
    limits = DOCUMENT.split("## Bad input and limits")[1].split("\n## ")[0]
    assert f"| one JSON document | {folder.LARGEST_DOCUMENT // 2**30} GiB |" in limits
    assert f"| {folder.LONGEST_LINE // 2**20} MiB |" in limits
    assert f"unpacked | {inspect_archive.LARGEST_MEMBER // 2**20} MiB |" in limits
    assert f"{folder.LARGEST_RATIO} times the file" in limits
    assert f"| folders in folders | {folder.DEEPEST} |" in limits


def test_the_example_of_the_library_works(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.search(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert code
    for arm in ("with_x", "without_x"):
        shutil.copytree(FIXTURES / "opencode" / "ok", workplace / "runs" / arm / "hello-1")
    monkeypatch.chdir(workplace)
    names: dict[str, list[bytes]] = {}
    exec(code[1], names)
    assert len(names["lines"]) == 2
    assert "repeats numbered by start time" in capsys.readouterr().out
