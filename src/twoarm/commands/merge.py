"""`twoarm merge`: the shards of a run into one run folder, then the report."""

import os
from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import HELP, OF_VERDICT
from twoarm.commands.given import Given, taken
from twoarm.commands.outputs import Outputs, refuse_score_outputs
from twoarm.commands.score_options import add_report_options, add_run_pages_option
from twoarm.errors import UsageError
from twoarm.options import Options
from twoarm.text.escape import counted, visible

DESCRIPTION = (
    "Put the shards of a run together: the folders that twoarm run SUITE --shard I/N made, on as "
    "many machines as there were. The result is a run folder like any other, and is scored."
)
EPILOG = HELP
# The files of a shard that no report may overwrite.
_READ = ("schedule.json", "place.json", "collected.jsonl", "receipt.json", "journal.jsonl")


def add_options(parser: ArgumentParser) -> None:
    """The shards, and the options of every report."""
    group = parser.add_argument_group("what to merge")
    group.add_argument("shards", nargs="+", metavar="DIR", help="the run folder of each shard")
    group.add_argument(
        "--partial",
        action="store_true",
        help="merge what is there, though shards are missing or were stopped; one that was killed "
        "has to be resumed or left out",
    )
    output = add_report_options(parser, out="the run folder to make")
    add_run_pages_option(output, "all")


def run(given: Given, streams: Streams) -> int:
    """Check the shards, merge them, and report."""
    from twoarm.commands.run_to_end import refuse_exit_code, report_folder
    from twoarm.run.merge import differing, merge, open_shards, refuse_target
    from twoarm.run.session import refuse_other_systems

    refuse_other_systems()
    out = given.get("out")
    if out is None:
        raise UsageError("--out: missing; which folder is to hold the whole run?")
    shards = open_shards(given["shards"], partial="partial" in given)
    frozen = shards[0].frozen
    refuse_exit_code(given, frozen.candidates)
    refuse_target(shards, out)
    inputs = [os.path.join(shard.path, name) for shard in shards for name in _READ]
    refuse_score_outputs(taken(Outputs, given), inputs)
    merged = merge(shards, out)
    done = sum(len(shard.runs) for shard in shards)
    streams.say(
        f"twoarm: merged {len(merged.merged)} of {counted(merged.of, 'shard')} into "
        f"{visible(out)}: {done:,} of {counted(len(frozen.trials), 'trial')} done"
    )
    for text in differing(shards):
        streams.say(f"twoarm: caveat: {text}")
    arms = frozenset(run.arm for shard in shards for run in shard.runs.values())
    code = report_folder(frozen, given, taken(Options, given), arms, streams)
    return OF_VERDICT["not enough data"] if code is None else code
