"""`twoarm regrade`: acceptance again on what each run of a run folder left."""

import os
from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, RUN_HELP
from twoarm.commands.given import Given, refuse_verdict, taken
from twoarm.commands.outputs import Outputs, refuse_score_outputs
from twoarm.commands.score_options import add_report_options, add_run_pages_option, whole_number
from twoarm.errors import UsageError
from twoarm.options import Options
from twoarm.text.escape import counted

# The most jobs.
_MOST = 1_000_000

DESCRIPTION = (
    "Grade the runs of a run folder again, into a new one: acceptance as the suite has it now, on "
    "what each run left, without an agent; then score them."
)
EPILOG = RUN_HELP


def add_options(parser: ArgumentParser) -> None:
    """The arguments of `twoarm regrade`, with those of every report."""
    group = parser.add_argument_group("what to grade")
    group.add_argument("folder", metavar="DIR", help="a run folder, which stays as it is")
    group.add_argument(
        "suite",
        nargs="?",
        metavar="SUITE",
        help="the suite with the acceptance to use (default: the one that was run, as it is now)",
    )
    group.add_argument("--jobs", type=whole_number, metavar="N", help="runs at a time")
    output = add_report_options(parser, out="the new run folder; given again, it is continued")
    add_run_pages_option(output, "all")
    output.add_argument(
        "--display",
        choices=("live", "lines", "quiet"),
        help="how to show progress (default: live on a terminal, otherwise lines)",
    )


def run(given: Given, streams: Streams) -> int:
    """Grade, and report as a run does."""
    from twoarm.commands.run_looks import refuse_changed, with_looks
    from twoarm.commands.run_to_end import finish, refuse_exit_code
    from twoarm.run.ledger import unwritable
    from twoarm.run.regrade import start_regrading
    from twoarm.run.session import refuse_other_systems
    from twoarm.run.suite_file import SuiteError

    refuse_other_systems()
    folder, suite, jobs = given["folder"], given.get("suite"), given.get("jobs")
    if "out" not in given:
        raise UsageError("where to? name a new run folder with --out")
    if jobs is not None and not 1 <= jobs <= _MOST:
        raise UsageError(f"--jobs: expected a number from 1 to {_MOST}, got {jobs}")
    out: str = given["out"]
    options = taken(Options, given)
    refuse_score_outputs(taken(Outputs, given), [suite] if suite else [])
    again = ["twoarm", "regrade", folder, *([suite] if suite else []), "--out", out]
    try:
        session = start_regrading(folder, suite, out, jobs, os.environ)
        frozen = session.setting.frozen
        try:
            if session.machine.shard is not None:
                refuse_verdict(given)
            refuse_exit_code(given, frozen.candidates)
            refuse_changed(frozen, given)
            options = with_looks(options, frozen, given)
        except BaseException:
            session.close(finished=False)
            raise
        return finish(session, given, options, streams, again)
    except SuiteError as error:
        streams.say(str(error))
        streams.say(f"twoarm: {counted(len(error.problems), 'problem')}; nothing was graded")
        return BAD
    except OSError as error:
        raise unwritable(str(error.filename or out), error) from error
