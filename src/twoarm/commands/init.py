"""`twoarm init`: a small suite to start from."""

import os
from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.given import Given, typed
from twoarm.errors import TwoarmError, UsageError
from twoarm.files.write import write_new_folder
from twoarm.text.escape import visible

DESCRIPTION = (
    "Write a small suite that runs as it is: two tasks, both arms, limits, and comments that say "
    "what each is."
)
EPILOG = """\
examples:
  twoarm init first
  twoarm init first --agent claude-code
"""


def add_options(parser: ArgumentParser) -> None:
    """Where, and for which agent."""
    group = parser.add_argument_group("what to write")
    group.add_argument("folder", metavar="DIR", help="a new folder, or an empty one")
    group.add_argument(
        "--agent",
        metavar="NAME",
        help="opencode, codex, claude-code, gemini-cli, harbor, another that is installed, or "
        "command for any program (default: the one that is on PATH)",
    )


# What is said of each thing in the folder, in this order.
_WRITTEN = {
    "suite.toml": "the tasks, the arms and the limits: read it first",
    "guide.md": "the change: one arm has it, the other does not",
    "tasks": "two tasks of Harbor, each a folder with all it needs",
    "app": "what every trial starts from",
    "agent.sh": "stands in for an agent: it asks no model and costs nothing",
}


def run(given: Given, streams: Streams) -> int:
    """Write the suite; say what is in it, how to go on, and what is still in the way."""
    from twoarm.run.first_suite import SUITE, first_suite, only_agent
    from twoarm.run.session import refuse_other_systems
    from twoarm.run.setting import RunOptions, set_up

    refuse_other_systems()
    agent: str = given.get("agent") or only_agent()
    folder: str = given["folder"]
    if not folder:
        raise UsageError("which folder? write twoarm init DIR")
    files = first_suite(agent)
    write_new_folder(folder, files)
    suite, out = os.path.join(folder, SUITE), os.path.join(folder, "run")
    names = [name for name in _WRITTEN if any(path.split("/")[0] == name for path in files)]
    width = max(map(len, names))
    lines = [
        f"wrote {visible(folder)}, a suite for {agent}:",
        *(f"  {name:<{width}}  {_WRITTEN[name]}" for name in names),
        "next:",
        f"  {typed('twoarm', 'run', suite, '--dry-run')}",
        f"  {typed('twoarm', 'run', suite, '--out', out)}",
        f"  {typed('twoarm', 'score', out)}",
    ]
    streams.write("".join(f"{line}\n" for line in lines))
    try:
        set_up(suite, RunOptions(), os.environ)
    except TwoarmError as error:
        streams.say(f"twoarm: not ready yet: {error}")
    return DONE
