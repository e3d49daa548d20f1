"""`twoarm check`: every bad line of run files."""

from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE
from twoarm.commands.given import Given
from twoarm.commands.inputs import add_files, opened, places
from twoarm.commands.outputs import STANDARD_OUTPUT
from twoarm.compare.check import check
from twoarm.files.write import refuse_overlap
from twoarm.text.escape import counted, named

DESCRIPTION = (
    "Validate run files and list every bad line as path:line: field: what was found; how to fix it."
)
EPILOG = None


def add_options(parser: ArgumentParser) -> None:
    """The run files."""
    add_files(parser.add_argument_group("what to check"))


def run(given: Given, streams: Streams) -> int:
    """List what is wrong, or say what the files hold."""
    refuse_overlap({"standard output": STANDARD_OUTPUT}, places(given["files"]))
    found = check(opened(given["files"]))
    streams.write("".join(f"{problem}\n" for problem in found.problems))
    if found.problems:
        streams.say(f"twoarm: {counted(len(found.problems), 'problem')}")
        return BAD
    arms = ", ".join(map(named, found.arms))
    runs = counted(found.run_count - found.missing_count, "run")
    missing = f"{found.missing_count:,} missing, " if found.missing_count else ""
    counts = f"{runs}, {missing}{counted(found.task_count, 'task')}"
    streams.write(f"no problems: {counts}, arms {arms}\n")
    for key in found.unknown_keys:
        streams.write(f"unknown key, ignored: {named(key)}\n")
    return DONE
