"""The command line: which command, and how it ends."""

import os
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentError,
    ArgumentParser,
    HelpFormatter,
    RawDescriptionHelpFormatter,
    _StoreAction,
    _SubParsersAction,
)
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from twoarm._version import __version__
from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import BAD, DONE, HELP, INTERRUPTED
from twoarm.commands.given import Given, refuse_idle
from twoarm.commands.terminal import terminal_width
from twoarm.errors import BadRunsError, TwoarmError
from twoarm.files.interrupt import Terminated, termination_unwinds
from twoarm.options import flags_named
from twoarm.text.escape import counted, did_you_mean, named, series, shortened

# What `--help` says about each command, by what people want to do. The rest is in the module of the
# same name, imported for that command only: starting takes longer than scoring a few hundred runs.
_GROUPS = {
    "judge": {
        "demo": "score a bundled example",
        "collect": "turn other programs' results into run records",
        "check": "validate run files",
        "score": "score run files or the folder of a run",
        "show": "print what the runs of one task and repeat did",
    },
    "run": {
        "init": "write a small suite to start from",
        "run": "run a suite of tasks in two arms or more, then score the runs",
        "merge": "put the shards of a run together, then score them",
        "regrade": "grade the runs of a run folder again, without an agent",
    },
    "plan": {
        "plan": "say how much more to run, and what that costs",
        "calibrate": "see how often a suite names a winner where there is none",
    },
    "ship": {
        "comment": "keep one comment with the result on a pull request",
        "log": "keep results over time, and see where an effect has changed",
        "schema": "print a JSON Schema",
    },
}
_COMMANDS = {name: short for group in _GROUPS.values() for name, short in group.items()}
# Where numpy looks for the number of its threads.
_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# No help is wider, and none narrower.
_WIDEST_HELP, _NARROWEST_HELP = 100, 50


class _Help(RawDescriptionHelpFormatter):
    """Help as wide as the terminal, which argparse would import a lot to ask for every option."""

    def __init__(self, prog: str) -> None:
        width = max(_NARROWEST_HELP, min(_WIDEST_HELP, terminal_width()))
        super().__init__(prog, width=width, max_help_position=min(24, width // 3))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """A paragraph is as wide as everything else; a list stays as it is."""
        kind = RawDescriptionHelpFormatter if "\n  " in text else HelpFormatter
        return kind._fill_text(self, text, width, indent)


class _Once(_StoreAction):
    """An option with a value: given twice with two of them, neither is what was meant."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Any,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        earlier = getattr(namespace, self.dest, values)
        if option_string is not None and earlier is not values and earlier != values:
            first, second = named(str(earlier)), named(str(values))
            raise ArgumentError(self, f"given twice, as {first} and {second}; give it once")
        super().__call__(parser, namespace, values, option_string)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    streams = Streams()
    code, gate = BAD, False
    if not any(map(os.environ.get, _THREADS)):
        # The products are small, and threads that wait for each other by spinning take the time of
        # everything else; numpy looks once, when it is imported.
        os.environ[_THREADS[0]] = "1"
    try:
        with termination_unwinds(), flags_named():
            try:
                code, gate = _ran(sys.argv[1:] if arguments is None else arguments, streams)
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
    return streams.settled(code, bad=BAD, gate=gate)


def _ran(arguments: Sequence[str], streams: Streams) -> tuple[int, bool]:
    """The exit code, and whether it is a verdict."""
    try:
        command, given = _parse(arguments, streams)
    except SystemExit as leaving:
        # Help, the version or bad usage.
        return leaving.code if isinstance(leaving.code, int) else DONE, False
    refuse_idle(command, given)
    code: int = _module(command).run(given, streams)
    return code, "exit_code" in given


def _parse(arguments: Sequence[str], streams: Streams) -> tuple[str, Given]:
    """The command, and what was given to it."""
    parser, commands = _parsers(arguments, streams)
    if not arguments:
        parser.error("which command? to begin with, twoarm demo scores a bundled example")
    first = arguments[0]
    if first.startswith("-") and first.partition("=")[0] not in _flags(parser):
        _refuse(parser, first)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        option = next((word for word in unknown if word.startswith("-")), None)
        _refuse(commands[parsed.command], option or unknown[0], parsed.command)
    given = {name: value for name, value in vars(parsed).items() if value is not None}
    return given.pop("command"), given


def _module(command: str) -> Any:
    return import_module(f"twoarm.commands.{command}")


def _flags(parser: ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


def _refuse(parser: ArgumentParser, word: str, command: str | None = None) -> NoReturn:
    """Exit, naming what was not understood, and where it belongs or what is closest to it."""
    if not word.startswith("-"):
        parser.error(f"unexpected argument {named(word)}")
    option, flags = shortened(word.partition("=")[0], 60), _flags(parser)
    begun = [flag for flag in flags if flag.startswith(option) and len(option) > 2]
    if owners := [name for name in _COMMANDS if name != command and _has(name, option)]:
        hint = f"; it belongs to twoarm {series(owners)}"
    elif begun:
        hint = f"; did you mean {series(begun, 'or')}?"
    else:
        hint = did_you_mean(option, flags).replace("`", "")
    parser.error(f"no option {option}{hint}")


def _has(command: str, option: str) -> bool:
    """Whether a command has an option of this name."""
    parser = ArgumentParser(prog="twoarm", add_help=False)
    _module(command).add_options(parser)
    return option in _flags(parser)


def _say_it_is_a_bug(error: BaseException, streams: Streams) -> None:
    from traceback import format_exception, format_exception_only

    if os.environ.get("TWOARM_TRACEBACK"):
        streams.say("".join(format_exception(error)).rstrip("\n"))
    what = " ".join("".join(format_exception_only(error)).split())
    streams.say(
        f"twoarm: a bug in twoarm {__version__}: {shortened(what, 200)}; please report it, with "
        "the traceback that TWOARM_TRACEBACK=1 prints"
    )


def _parsers(
    arguments: Sequence[str], streams: Streams
) -> tuple[ArgumentParser, Mapping[str, ArgumentParser]]:
    """The main parser, and the parser of each command by name."""

    class Parser(ArgumentParser):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **{**named, "allow_abbrev": False})
            for kind in (None, "store"):
                self.register("action", kind, _Once)

        # Everything argparse prints goes through here: help, the version, bad usage.
        def _print_message(self, message: str, file: object = None) -> None:
            if file is sys.stdout:
                streams.write(message)
            else:
                streams.say(message.rstrip("\n"))

        # The usage of a command is a dozen lines long, and would bury what is wrong.
        def error(self, message: str) -> NoReturn:
            self.exit(BAD, f"twoarm: {message} (see {self.prog} --help)\n")

        def _check_value(self, action: Action, value: Any) -> None:
            choices = [] if action.choices is None else list(map(str, action.choices))
            if not choices or value in choices:
                return
            if isinstance(action, _SubParsersAction):
                near = did_you_mean(value, choices) or f"; the commands are {', '.join(choices)}"
                raise ArgumentError(None, f"no command {named(value)}{near}")
            near = did_you_mean(value, choices) or f"; expected one of {', '.join(choices)}"
            raise ArgumentError(action, f"got {named(value)}{near}")

    parser = Parser(
        prog="twoarm",
        usage="twoarm COMMAND ...",
        description=f"Score the runs of a coding agent with and without a change.\n\n{_listing()}",
        epilog=HELP,
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"twoarm {__version__}")
    # With `prog` given, argparse does not build a help formatter for every command line.
    commands = parser.add_subparsers(
        prog="twoarm", dest="command", required=True, metavar="COMMAND", help=SUPPRESS
    )
    for name in _COMMANDS:
        # An option that was not given is absent, so nobody has to guess.
        command = commands.add_parser(name, formatter_class=_Help, argument_default=SUPPRESS)
        if name in arguments:
            module = _module(name)
            command.description = module.DESCRIPTION
            command.epilog = getattr(module, "EPILOG", None)
            module.add_options(command)
    return parser, commands.choices


def _listing() -> str:
    """The commands, by what people want to do."""
    wide = max(map(len, _COMMANDS))
    groups = (
        "\n".join([f"{title}:", *(f"  {name:{wide}}  {short}" for name, short in group.items())])
        for title, group in _GROUPS.items()
    )
    return "\n\n".join(groups)
