"""Names are never commands to a CI runner, in whatever line of whatever output they stand."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twoarm as package
from tests.conftest import run, twoarm
from tests.support.ci_runners import commands
from tests.support.collect_fixtures import copied, sidecar
from tests.support.planned_runs import missing
from twoarm.render.sheet import Sheet
from twoarm.render.text import Look, lay_out_sheet
from twoarm.result.analysis import Tool
from twoarm.text.escape import columns, inert_json, inert_lines, visible
from twoarm.text.sentence import Sentence

COMMANDS = [
    "::error::owned",
    "::set-output name=x::y",
    "::stop-commands::token",
    "::add-mask::e",
    "::ERROR file=a,line=1::owned",
    "##[error]owned",
    "##[add-mask]e",
    "##vso[task.setvariable variable=x;isSecret=true]y",
    "##vso[task.complete result=Succeeded;]",
    "##teamcity[buildStatus status='SUCCESS']",
]


def disguised(command: str) -> list[str]:
    """The command as a name may bring it along."""
    return [
        command,
        f"  {command}",
        f"\t{command}",
        f"\u3000{command}",
        f"x\n{command}",
        f"x\r{command}",
        f"x {command}",
        f"x{command}",
        f"#{command}",
        f":{command}",
        f"\ufe0f{command}",
        f"\x00{command}",
        "\ufe0f".join(command),
        "\u200b".join(command),
        "\u034f".join(command[:4]) + command[4:],
        f"{'x' * 87}{command}",
        f"{'x' * 98}{command}",
        f"{'x ' * 40}{command} {'y ' * 50}{command}",
    ]


NAMES = [
    *COMMANDS,
    *(
        name
        for command in ("::error::owned", "##[error]owned", "##vso[task.debug]owned")
        for name in disguised(command)[1:]
    ),
]


def test_the_rules_of_the_runners_are_the_ones_known() -> None:
    for line, found in [
        ("::error::x", ["::error"]),
        (" \t\u3000::warning file=a::x", ["::warning"]),
        ("x ::error::x", []),
        (":: error::x", []),
        ("::error:x", []),
        ("::nothing::x", []),
        ("##[error]x", ["##[error]"]),
        ("before ##[error a=b]x", ["##[error]"]),
        ("##[error", []),
        ("##[nothing]x", []),
        ("##vso[task.debug]x", ["##vso[task.debug]"]),
        ("a##vso[task.debug x=y]x", ["##vso[task.debug]"]),
        ("##vso[task]x", []),
        ("a\n::error::b\n##[group]c", ["::error", "##[group]"]),
        ("a\r::error::b", ["::error"]),
        ("#\ufe0f#\u200b[error]", ["##[error]"]),
    ]:
        assert commands(line) == found, line
    assert all(commands(command) for command in COMMANDS)


def hostile(name: str, **changed: Any) -> list[dict[str, Any]]:
    """Runs with the name wherever a name can stand, and a gate that fails."""
    made = [
        run(task, arm, repeat, **({"success": arm == "old"} | changed))
        for task in (name, f"{name}2", "t")
        for repeat in (1, 2)
        for arm in (name, "old")
    ]
    made += [run(name, name, 3, failure="infra"), run("only here", name, 1)]
    made[-2]["failure_reason"] = name
    made += [missing(name, "old", 3, name), missing("t", name, 3, f"lost: {name}")]
    made[0] |= {name: name, "model": name, "agent": name}
    made[1] |= {"model": "other", "agent": "other"}
    return made


def lines_of(runs: list[dict[str, Any]]) -> bytes:
    """Run lines as another program might write them, with every character as it is."""
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in runs)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_a_command_in_any_report(name: str) -> None:
    found = package.score(hostile(name), candidate=name, baseline="old", skip_bad=True)
    text = found.to_text()
    assert max(map(columns, text.splitlines())) <= 80
    for made in (
        text,
        found.to_text(full=True),
        found.to_text(full=True, width=60),
        found.to_markdown(),
        found.to_github(),
        found.to_json(),
        found.to_junit(),
    ):
        assert commands(made) == []
    again = json.loads(found.to_json())
    assert again["candidate"] == name
    assert name in {task["task_id"] for task in again["tasks"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_is_a_command_in_the_page(name: str) -> None:
    page = package.score(hostile(name), candidate=name, baseline="old").to_html()
    assert commands(page) == []


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_a_command_on_either_stream(name: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines_of(hostile(name)))
    roles = [f"--candidate={name}", "--baseline=old"]
    told = [
        twoarm("score", str(path), *roles, "--exit-code", "--no-evidence"),
        twoarm("score", str(path), f"--candidate={name}!", "--baseline=old"),
        twoarm("score", str(path)),
        twoarm("check", str(path)),
        twoarm("score", str(path), f"--format={name}"),
        twoarm("score", str(path), f"--level={name}"),
        twoarm(name),
    ]
    path.write_bytes(lines_of(hostile(name, success=name)) + name.encode() + b"\n")
    told += [twoarm("check", str(path)), twoarm("score", str(path))]
    path.write_bytes(lines_of([*hostile(name), *hostile(name)]))
    told += [twoarm("check", str(path)), twoarm("score", str(path))]
    for result in told:
        assert commands(result.out) == [], result.out
        assert commands(result.err) == [], result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_name_is_a_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"{command.replace('/', '_')}.jsonl"
    Path(name).write_bytes(b"[]\n")
    assert commands(f"{name}:1: x")
    for result in (
        twoarm("check", name),
        twoarm("score", name),
        twoarm("score", f"{name}.missing"),
        twoarm("score", name, "--junit", name),
        twoarm("collect", "auto", "--arm", f"a={name}"),
        twoarm("collect", "table", "--arm", f"{name}={name}", "--map", f"{name}=x"),
        twoarm("demo", "--no-evidence", "--out", name),
        twoarm("demo", "--no-evidence", "--junit", f"{name}.xml"),
    ):
        assert commands(result.out) == []
        assert commands(result.err) == []


@pytest.mark.parametrize("name", NAMES)
def test_collect_repeats_no_command(name: str, tmp_path: Path) -> None:
    folder = copied("opencode/ok", tmp_path / "runs")
    other = copied("opencode/killed_timeout", tmp_path / "runs")
    sidecar(folder, task_id=name, failure="infra", failure_reason=name)
    sidecar(other, task_id=name)
    table = tmp_path / "t.csv"
    rows = [{"task_id": name, "success": 1, "duration_seconds": 1}] * 2
    table.with_suffix(".jsonl").write_bytes(lines_of(rows))
    for arguments in (
        ("opencode", "--arm", f"{name}={folder.parent}", "--may-differ=model"),
        ("table", "--arm", f"{name}={tmp_path}/t.jsonl"),
        ("table", f"{tmp_path}/t.jsonl", "--arm-key", "task_id"),
        ("table", f"{tmp_path}/t.jsonl", "--arm-key", "task_id", "--arm-map", f"{name}={name}"),
        (name, "--arm", f"a={tmp_path}/t.jsonl"),
    ):
        result = twoarm("collect", *arguments)
        assert commands(result.out) == []
        assert commands(result.err) == [], result.err
        if result.code == 0:
            assert {json.loads(line)["task_id"] for line in result.out.splitlines()} == {name}
    path = tmp_path / "collected.jsonl"
    assert twoarm("collect", "table", "--arm", f"a={table.with_suffix('.jsonl')}", "-o", str(path))
    assert commands(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", NAMES)
def test_annotations_are_the_only_commands_and_say_what_they_should(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines_of(hostile(name)))
    roles = [f"--candidate={name}", "--baseline=old", "--no-evidence"]
    result = twoarm("score", str(path), *roles, "--annotate", "--exit-code")
    found = result.err.splitlines()
    ours = [line for line in found if line.startswith("::")]
    assert ours
    assert commands(result.err) == [line.split(" ")[0] for line in ours]
    # None is also a command to a runner that looks inside the line.
    assert commands("\n".join(f"x{line}" for line in ours)) == []


def test_random_text_is_made_inert_and_keeps_its_lines() -> None:
    pieces = [":", "::", "#", "##", "[", "]", "vso", "error", "::error::", " ", "\n", "\ufe0f", "x"]
    rng = random.Random(1)
    for _ in range(20_000):
        text = "".join(rng.choices(pieces, k=rng.randint(1, 9))) + "error]::"
        assert commands(inert_lines(text)) == [], text
        assert inert_lines(text).count("\n") == text.count("\n")
        assert commands(f"x{visible(text)}") == []
        assert json.loads(inert_json(json.dumps(text, ensure_ascii=False))) == text
        assert commands(f'"{inert_json(json.dumps(text, ensure_ascii=False))}"') == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_word_cut_anywhere_is_no_command(command: str) -> None:
    tool = Tool(name="twoarm", version="1")
    for before in range(40, 62):
        heading = Sentence(["x" * before + command])
        sheet = Sheet(heading=heading, overview="", lines=(), tables=(), caveats=(), tool=tool)
        assert commands(lay_out_sheet(sheet, Look(width=60))) == []


def test_ordinary_names_stay_as_they_are() -> None:
    for name in ("std::vector", "C#", "a ## b", "#1", "x::y::z", "a[0]", "# [x]"):
        assert visible(name) == name
        assert inert_lines(f"task {name}: 1") == f"task {name}: 1"
        assert inert_json(f'"{name}"') == f'"{name}"'


def test_an_exception_with_a_command_in_it_is_no_command(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from twoarm.commands import cli, score as score_command\n"
        "def broken(*given, **named): raise ZeroDivisionError('x\\n::error::y\\n##[error]z')\n"
        "score_command.compare = broken\n"
        "sys.exit(cli.main(['demo']))\n"
    )
    for extra in ({}, {"TWOARM_TRACEBACK": "1"}):
        ended = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            env={**os.environ, **extra},
            check=False,
        )
        assert ended.returncode == 2
        assert commands(ended.stderr.decode()) == []
