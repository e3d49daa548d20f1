"""`twoarm log`: results over time."""

import os
from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE
from twoarm.commands.given import Given, taken
from twoarm.commands.outputs import HISTORY, Outputs, show
from twoarm.commands.score import judged_alone
from twoarm.commands.score_options import (
    add_counting_options,
    add_format_and_out,
    add_judging_options,
    add_option,
    add_part_option,
)
from twoarm.errors import BadRunsError, UsageError
from twoarm.text.escape import counted, visible

DESCRIPTION = (
    "Keep results over time, and see whether the effect of a change is still what it was. "
    "`log add` scores run files as twoarm score does and keeps one small file; `log show` prints "
    "and draws every series of such files, and says where an effect has changed."
)
EPILOG = """\
examples:
  twoarm log add out --to history --label v1.4
  twoarm log show history
  twoarm log show history --format html > history.html
"""


def add_options(parser: ArgumentParser) -> None:
    """What to do, with which files, and how to judge and show them."""
    what = parser.add_argument_group("what to do")
    what.add_argument("action", choices=("add", "show"), metavar="ACTION", help="add or show")
    what.add_argument(
        "files",
        nargs="+",
        metavar="PATH",
        help="add: run files, or the folder of a run; show: a folder of results",
    )
    added = parser.add_argument_group("add")
    added.add_argument("--to", metavar="DIR", help="the folder of results")
    added.add_argument(
        "--commit", metavar="SHA", help="what was tested (default: the commit of the run folder)"
    )
    added.add_argument("--label", metavar="TEXT", help="a name for it, such as a version")
    add_option(added, "candidate", action="append", metavar="ARM", help="the arm with the change")
    add_option(added, "baseline", metavar="ARM", help="the arm without it")
    add_counting_options(added)
    add_part_option(added)
    add_judging_options(parser)
    shown = parser.add_argument_group("show")
    shown.add_argument("--series", metavar="ID", help="only this series; its first digits will do")
    add_format_and_out(
        shown,
        ("text", "json", "markdown", "html"),
        f"also write {', '.join(HISTORY)} into DIR",
    )


def run(given: Given, streams: Streams) -> int:
    """Add a result to a folder, or show one."""
    adds = given["action"] == "add"
    try:
        return _add(given, streams) if adds else _show(given, streams)
    except BadRunsError as error:
        streams.say(str(error))
        problems = counted(error.count, "problem")
        streams.say(f"twoarm: {problems}; nothing was {'added' if adds else 'shown'}")
        return BAD


def _add(given: Given, streams: Streams) -> int:
    from twoarm.history.entry import add_entry, entry_of

    folder = given.get("to")
    if folder is None:
        raise UsageError("--to: missing; which folder of results?")
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"--to: {visible(folder)} is not a folder")
    report = judged_alone(given)
    entry = entry_of(report, given.get("commit"), given.get("label"))
    path = add_entry(folder, entry)
    streams.say(f"twoarm: added {visible(path)} to series {entry.series}")
    return DONE


def _show(given: Given, streams: Streams) -> int:
    from twoarm.history.overview import overview

    folders: list[str] = given["files"]
    if len(folders) > 1:
        raise UsageError("log show takes one folder of results")
    outputs = taken(Outputs, given)
    if outputs.out is not None and os.path.realpath(outputs.out) == os.path.realpath(folders[0]):
        raise UsageError(
            f"--out: {visible(outputs.out)} is the folder of results; reports in it would be taken "
            "for results, so choose another"
        )
    options = {"level": given["level"]} if "level" in given else {}
    report = overview(folders[0], only=given.get("series"), **options)
    show(report, HISTORY, outputs, streams)
    return DONE
