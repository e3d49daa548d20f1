"""A command imports what it needs, and no more: starting is most of the time of a small score."""

import os
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
from twoarm.__main__ import main
code = main()
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


def test_whoever_asks_for_the_version_waits_for_nothing() -> None:
    found = imported("--version")
    assert found & {"msgspec", "argparse", "twoarm.commands"} == set()
    assert {name for name in found if name.startswith("twoarm")} == {
        *("twoarm", "twoarm.__main__", "twoarm._version"),
    }


def told(code: str, **variables: str) -> str:
    """What a new Python prints, with these variables and none that says how many threads."""
    kept = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=kept | variables, capture_output=True, text=True, check=True)
    return done.stdout


def test_every_public_name_is_there_for_whoever_asks() -> None:
    assert twoarm.gather is gather
    told(f"from twoarm import {', '.join(twoarm.__all__)}")
    told("from twoarm import *; score, compare, Report")
    assert set(twoarm.__all__) <= set(dir(twoarm))
    with pytest.raises(AttributeError, match="no attribute 'collected'"):
        twoarm.collected  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("first", ["", "import twoarm.score, twoarm.compare.check"])
@pytest.mark.parametrize("last", ["", "import twoarm.score, twoarm.compare.check"])
def test_a_function_is_not_replaced_by_the_module_of_its_name(first: str, last: str) -> None:
    code = f"{first}\nimport twoarm\ntwoarm.score, twoarm.compare\n{last}\n"
    names = "*(f.__name__ for f in (twoarm.score, twoarm.compare))"
    assert told(f"{code}print({names})") == "score compare\n"


AFTER_SCORE = """
import os
from twoarm.commands.cli import main
main(["--version"])
print(os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def test_the_command_has_one_thread_for_numpy_unless_the_user_says_otherwise() -> None:
    assert told(AFTER_SCORE).split()[-1] == "1"
    assert told(AFTER_SCORE, OPENBLAS_NUM_THREADS="3").split()[-1] == "3"
    assert told(AFTER_SCORE, OMP_NUM_THREADS="2").split()[-1] == "None"


def test_numpy_sees_it() -> None:
    # The threads of a process are the folders of /proc/PID/task.
    code = f"""
import os
from twoarm.commands.cli import main
main(["score", {EXAMPLE!r}, "--format", "json"])
import numpy
numpy.ones((600, 600)) @ numpy.ones((600, 600))
print(len(os.listdir("/proc/self/task")))
"""
    assert told(code).split()[-1] == "1"
