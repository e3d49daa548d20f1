"""A command imports what it needs, and no more: starting is most of the time of a small score."""

import subprocess
import sys
from pathlib import Path

import pytest

import twoarm
from twoarm.collect.gather import gather
from twoarm.commands import cli

NEVER = (
    "numpy.ma",
    "rich",
    "shutil",
    "tempfile",
    "twoarm.collect",
    "twoarm.programs",
    "twoarm.run",
    "scipy",
    "vl_convert",
)
REPORTS = ("render.chart_points", "render.page", "render.html", "render.github", "render.junit")
COMMANDS = {f"twoarm.commands.{name}" for name in cli._COMMANDS}
EXAMPLE = str(Path(twoarm.__file__).parent / "example.jsonl")
PROGRAM = """
import sys
from twoarm.commands.cli import main
code = main(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def imported(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def test_a_score_as_text_imports_no_other_report_and_no_other_command() -> None:
    found = imported("score", EXAMPLE, "--no-evidence")
    unwanted = {*NEVER, *(f"twoarm.{report}" for report in REPORTS)}
    assert found & unwanted == set()
    assert [name for name in found if name in COMMANDS] == ["twoarm.commands.score"]


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        (["--help"], []),
        (["demo", "--print"], ["twoarm.commands.demo", "twoarm.commands.score"]),
        (["schema", "record"], ["twoarm.commands.schema"]),
    ],
)
def test_a_command_is_imported_when_it_is_asked_for(
    arguments: list[str], commands: list[str]
) -> None:
    assert sorted(COMMANDS & {*imported(*arguments)}) == commands


def test_gather_is_there_for_whoever_asks() -> None:
    assert twoarm.gather is gather
    with pytest.raises(AttributeError, match="no attribute 'collected'"):
        twoarm.collected  # noqa: B018
