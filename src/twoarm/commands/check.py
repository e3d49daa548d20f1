"""`twoarm check`: every bad line of run files."""

from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE
from twoarm.commands.given import Given
from twoarm.commands.inputs import add_files, opened, places
from twoarm.commands.outputs import STANDARD_OUTPUT
from twoarm.compare.check import check
from twoarm.files.write import refuse_overlap
from twoarm.score import open_folders
from twoarm.text.escape import counted, named

DESCRIPTION = (
    "Validate run files and list every bad line as path:line: field: what was found; how to fix it."
)


def add_options(parser: ArgumentParser) -> None:
    """The run files."""
    add_files(parser.add_argument_group("what to check"))


def run(given: Given, streams: Streams) -> int:
    """List what is wrong, or say what the files hold."""
    files = open_folders(given["files"], shards=True).files
    refuse_overlap({"standard output": STANDARD_OUTPUT}, places(files))
    result = check(opened(files))
    streams.write("".join(f"{problem}\n" for problem in result.problems))
    if result.problems:
        streams.say(f"twoarm: {counted(len(result.problems), 'problem')}")
        return BAD
    arms = ", ".join(map(named, result.arms))
    runs = counted(result.run_count - result.missing_count, "run")
    missing = f"{result.missing_count:,} missing, " if result.missing_count else ""
    counts = f"{runs}, {missing}{counted(result.task_count, 'task')}"
    streams.write(f"no problems: {counts}, arms {arms}\n")
    for key in result.unknown_keys:
        streams.write(f"unknown key, ignored: {named(key)}\n")
    if result.unread_times is not None:
        streams.write(f"{result.unread_times.said}\n")
    return DONE
