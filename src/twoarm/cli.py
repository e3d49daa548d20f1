"""The command line: which command, and how it ends."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence

from twoarm import __version__, collect_command, run_command, score_command
from twoarm.analysis import analysis_schema
from twoarm.check import check
from twoarm.collect.sidecar import sidecar_schema
from twoarm.console import Streams
from twoarm.decide import number_of_gates
from twoarm.errors import BadRunsError, TwoarmError
from twoarm.escape import counted, named, shortened
from twoarm.interrupt import Terminated, termination_unwinds
from twoarm.record import record_schema
from twoarm.run.suite import suite_schema
from twoarm.write import refuse_overlap

DONE = 0
BAD = 2
INTERRUPTED = 130

_EXIT_CODES = """\
exit codes:
  0  done; with --exit-code: promote
  1  with --exit-code: do not promote
  2  bad input, bad usage, or an unexpected error
  3  with --exit-code: not enough data to say
"""
_SCHEMAS = {
    "record": record_schema,
    "analysis": analysis_schema,
    "sidecar": sidecar_schema,
    "suite": suite_schema,
}


class _Help(RawDescriptionHelpFormatter):
    """Help of a fixed width: argparse would import much to ask the terminal, for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    streams = Streams()
    given = Namespace(exit_code=False)
    code = BAD
    try:
        with termination_unwinds():
            try:
                code = _ran(sys.argv[1:] if arguments is None else arguments, given, streams)
            except BadRunsError as error:
                streams.say(str(error))
                streams.say(f"twoarm: {counted(error.count, 'problem')}; nothing was scored")
            except TwoarmError as error:
                streams.say(f"twoarm: {error}")
            except MemoryError:
                streams.say(
                    "twoarm: out of memory; free some memory, or score fewer runs at a time"
                )
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated as ended:
        return 128 + ended.number
    except BaseException as error:  # noqa: BLE001, whatever it is, it must not look like a verdict
        _say_it_is_a_bug(error, streams)
        return BAD
    return streams.settled(code, bad=BAD, gate=given.exit_code)


def _ran(arguments: Sequence[str], given: Namespace, streams: Streams) -> int:
    try:
        _parser(streams).parse_args(arguments, given)
    except SystemExit as leaving:
        # Help, the version or bad usage.
        return leaving.code if isinstance(leaving.code, int) else DONE
    code: int = given.command(given, streams)
    return code


def _say_it_is_a_bug(error: BaseException, streams: Streams) -> None:
    from traceback import format_exception, format_exception_only

    if os.environ.get("TWOARM_TRACEBACK"):
        streams.say("".join(format_exception(error)).rstrip("\n"))
    what = " ".join("".join(format_exception_only(error)).split())
    streams.say(
        f"twoarm: a bug in twoarm {__version__}: {shortened(what, 200)}; please report it, with "
        "the traceback that TWOARM_TRACEBACK=1 prints"
    )


def _parser(streams: Streams) -> ArgumentParser:
    class Parser(ArgumentParser):
        # All that argparse prints goes through here: help, the version, bad usage.
        def _print_message(self, message: str, file: object = None) -> None:
            if file is sys.stdout:
                streams.write(message)
            else:
                streams.say(message.rstrip("\n"))

    parser = Parser(
        prog="twoarm",
        description="Score the runs of a coding agent with and without a change.",
        epilog=_EXIT_CODES,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"twoarm {__version__}")
    _add_commands(parser)
    return parser


def _add_commands(parser: ArgumentParser) -> None:
    # With `prog` given, argparse does not build a help formatter for every command line.
    commands = parser.add_subparsers(prog="twoarm", required=True, metavar="COMMAND")

    def command(name: str, short: str, long: str, **more: str) -> ArgumentParser:
        return commands.add_parser(
            name,
            help=short,
            description=long,
            formatter_class=_Help,
            **more,  # type: ignore[arg-type]
        )

    score = command(
        "score",
        "score run files",
        f"Score run files: {number_of_gates()}, one decision, and the evidence, on one screen.",
        epilog=_EXIT_CODES,
    )
    score_command.add_score_options(score)
    score.set_defaults(command=score_command.run_score)
    checking = command(
        "check",
        "validate run files",
        "Validate run files and list every bad line as path:line: field: what was "
        "found; how to fix it.",
    )
    score_command.add_files(checking)
    checking.set_defaults(command=_check)
    schema = command(
        "schema",
        "print a JSON Schema",
        "Print the JSON Schema of a run record, of the analysis file, of the sidecar run.json that "
        "collect reads, or of a suite.",
    )
    schema.add_argument("name", choices=tuple(_SCHEMAS))
    schema.set_defaults(command=_schema)
    collect = command(
        "collect",
        "turn other programs' results into run records",
        collect_command.DESCRIPTION,
    )
    collect_command.add_options(collect)
    collect.set_defaults(command=collect_command.run)
    running = command(
        "run",
        "run a suite of tasks in two arms, then score the runs",
        run_command.DESCRIPTION,
        epilog=_EXIT_CODES,
    )
    run_command.add_options(running)
    running.set_defaults(command=run_command.run)
    demo = command(
        "demo",
        "score a bundled example",
        "Score a bundled example with made-up numbers: 12 tasks, 10 repeats, two arms.",
    )
    score_command.add_demo_options(demo)
    demo.set_defaults(command=score_command.run_demo)


def _check(given: Namespace, streams: Streams) -> int:
    outputs: dict[str, str | int] = {"standard output": score_command.STANDARD_OUTPUT}
    refuse_overlap(outputs, score_command.places(given.files))
    found = check(score_command.opened(given.files))
    streams.write("".join(f"{problem}\n" for problem in found.problems))
    if found.problems:
        streams.say(f"twoarm: {counted(len(found.problems), 'problem')}")
        return BAD
    arms = ", ".join(map(named, found.arms))
    counts = f"{counted(found.run_count, 'run')}, {counted(found.task_count, 'task')}"
    streams.write(f"no problems: {counts}, arms {arms}\n")
    for key in found.unknown_keys:
        streams.write(f"unknown key, ignored: {named(key)}\n")
    return DONE


def _schema(given: Namespace, streams: Streams) -> int:
    import json

    streams.write_data(json.dumps(_SCHEMAS[given.name](), indent=2) + "\n")
    return DONE
