"""The command line: parse, call, render, exit code."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from twoarm import __version__
from twoarm.console import Streams
from twoarm.errors import BadRunsError, ExtraError, InputError, TwoarmError, UsageError
from twoarm.interrupt import Terminated, termination_unwinds
from twoarm.quote import counted, named, shortened, visible
from twoarm.write import Output, refuse_overlap, write

if TYPE_CHECKING:
    from twoarm.analysis import Analysis
    from twoarm.render.text import Paint
    from twoarm.runfile import Progress, Readable

DONE = 0
DO_NOT_PROMOTE = 1
BAD = 2
NOT_ENOUGH_DATA = 3
INTERRUPTED = 130

_GATE_EXIT = {
    "promote": DONE,
    "do not promote": DO_NOT_PROMOTE,
    "not enough data": NOT_ENOUGH_DATA,
}


_GATES = ("rule", "evidence", "margin")
_OUT_NAMES = ("analysis.json", "analysis.md", "report.html")

STANDARD_INPUT = 0
STANDARD_OUTPUT = 1

# The end of the year 9999.
_LAST_SECOND = 253_402_300_799


class _Help(RawDescriptionHelpFormatter):
    """Help of a fixed width: argparse would import much to ask the terminal, for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


_EXIT_CODES = """\
exit codes:
  0  done; with --gate: promote
  1  with --gate: do not promote
  2  bad input or bad usage, or anything unforeseen
  3  with --gate: not enough data to say
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    streams = Streams()
    given = Namespace(gate=None)
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
                streams.say("twoarm: out of memory; free some, or give it fewer runs at a time")
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated as ended:
        return 128 + ended.number
    except BaseException as error:  # noqa: BLE001, whatever it is, it must not look like a verdict
        _say_it_is_a_bug(error, streams)
        return BAD
    return streams.settled(code, bad=BAD, gate=given.gate is not None)


def _ran(arguments: Sequence[str], given: Namespace, streams: Streams) -> int:
    spelled = _gates_spelled_out(arguments)
    try:
        _parser(streams, collecting="collect" in spelled).parse_args(spelled, given)
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
        "what TWOARM_TRACEBACK=1 prints"
    )


def _gates_spelled_out(arguments: Sequence[str]) -> list[str]:
    """`--gate` may stand alone, and must not swallow the file that follows it."""
    spelled = list(arguments)
    for i, argument in enumerate(spelled):
        if argument == "--gate":
            named_gate = i + 1 < len(spelled) and spelled[i + 1] in _GATES
            spelled[i] = f"--gate={spelled.pop(i + 1) if named_gate else 'rule'}"
    return spelled


def _parser(streams: Streams, *, collecting: bool) -> ArgumentParser:
    """The commands; the options of `collect` are many, and imported only for it."""

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
    # With `prog` given, argparse does not build a help formatter for every command line.
    commands = parser.add_subparsers(prog="twoarm", required=True, metavar="COMMAND")

    score = commands.add_parser(
        "score",
        help="score run files",
        description="Score run files: arm summaries, paired deltas, three gates, a decision.",
        epilog=_EXIT_CODES,
        formatter_class=_Help,
    )
    _add_files(score)
    _add_report_options(score)
    score.add_argument("--candidate", metavar="ARM", help="the arm with the change")
    score.add_argument("--baseline", metavar="ARM", help="the arm without it")
    score.add_argument(
        "--duplicates",
        choices=("error", "first", "last"),
        default="error",
        help="what to do with two runs of one task, arm and repeat (default: error)",
    )
    score.add_argument(
        "--missing",
        choices=("keep", "zero"),
        default="keep",
        help="null stays null, or is read as 0 as older scripts did (default: keep)",
    )
    score.add_argument(
        "--keep-infra", action="store_true", help="count infra failures as runs of their arm"
    )
    score.add_argument(
        "--skip-bad", action="store_true", help="score the good lines; a caveat counts the bad ones"
    )
    score.set_defaults(command=_score)

    check = commands.add_parser(
        "check",
        help="validate run files",
        formatter_class=_Help,
        description="Validate run files: every bad line as path:line: field: what was found; "
        "what would do.",
    )
    _add_files(check)
    check.set_defaults(command=_check)

    schema = commands.add_parser(
        "schema",
        help="print a JSON Schema",
        formatter_class=_Help,
        description="Print the JSON Schema of a run record, of the analysis file, or of the "
        "sidecar run.json that collect reads.",
    )
    schema.add_argument("name", choices=("record", "analysis", "sidecar"))
    schema.set_defaults(command=_schema)

    collect = commands.add_parser(
        "collect",
        help="turn the results of other programs into run records",
        formatter_class=_Help,
    )
    if collecting:
        from twoarm import collect_command

        collect.description = collect_command.DESCRIPTION
        collect_command.add_options(collect)
        collect.set_defaults(command=_collect)

    demo = commands.add_parser(
        "demo",
        help="score a bundled example",
        formatter_class=_Help,
        description="Score a bundled example: 12 tasks, 10 repeats, two arms, invented figures.",
    )
    _add_report_options(demo)
    demo.add_argument(
        "--runs", action="store_true", help="print the run file of the example instead"
    )
    demo.set_defaults(command=_demo)
    return parser


def _add_files(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSONL, plain, gzip or zstd; several files are one data set; - is standard input",
    )


def _add_report_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown", "html", "github"),
        default="text",
        help="what to write to standard output (default: text)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="also write analysis.json, analysis.md and report.html into DIR; in a GitHub "
        "workflow, add the report to the step summary",
    )
    parser.add_argument(
        "--junit", metavar="FILE", help="also write the gates as test cases, JUnit XML, to FILE"
    )
    parser.add_argument(
        "--annotate",
        action="store_true",
        help="also print GitHub workflow annotations to standard error",
    )
    parser.add_argument(
        "--gate",
        choices=_GATES,
        help="let the exit code say whether to promote: by the rule (the default), the evidence, "
        "or the margin rule; each also wants enough repeats",
    )
    parser.add_argument(
        "--interval",
        choices=("headline", "bootstrap"),
        default="headline",
        help="which intervals text and Markdown show (default: headline)",
    )
    parser.add_argument(
        "--no-evidence", action="store_true", help="only the point estimates and the decision"
    )
    parser.add_argument(
        "--level", type=float, default=0.95, help="of intervals, 0.5 to 0.9999 (default: 0.95)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of resampling (default: 1)")
    parser.add_argument(
        "--resamples", type=int, default=9_999, help="how many to draw (default: 9999)"
    )
    parser.add_argument(
        "--rule",
        choices=("gates", "margin"),
        default="gates",
        help="with `margin`, also apply the margin rule (default: gates)",
    )
    parser.add_argument(
        "--margin-success",
        type=float,
        default=0.10,
        metavar="SHARE",
        help="success may be lower by less than this (default: 0.10, 10 points)",
    )
    parser.add_argument(
        "--margin-ratio",
        type=float,
        default=0.10,
        metavar="SHARE",
        help="time and tokens may be higher by less than this (default: 0.10, 10%%)",
    )


def _score(given: Namespace, streams: Streams) -> int:
    from twoarm.score import score

    _refuse_overlap(given, given.files)
    with _progress() as progress:
        analysis = score(
            _opened(given.files),
            candidate=given.candidate,
            baseline=given.baseline,
            duplicates=given.duplicates,
            missing=given.missing,
            keep_infra=given.keep_infra,
            skip_bad=given.skip_bad,
            generated_at_utc=_now(),
            progress=progress,
            **_weighing(given),
        )
    return _report(analysis, given, streams)


def _weighing(given: Namespace) -> dict[str, Any]:
    return {
        "evidence": not given.no_evidence,
        "level": given.level,
        "seed": given.seed,
        "resamples": given.resamples,
        "rule": given.rule,
        "margin_success": given.margin_success,
        "margin_ratio": given.margin_ratio,
        "gate": given.gate or "rule",
    }


def _demo(given: Namespace, streams: Streams) -> int:
    from importlib.resources import files

    from twoarm.score import score

    _refuse_overlap(given, [])

    example = files("twoarm").joinpath("example.jsonl")
    if given.runs:
        streams.write_data(example.read_text(encoding="utf-8"))
        return DONE
    with example.open("rb") as stream:
        source = [_Named(stream, "example.jsonl")]
        analysis = score(source, generated_at_utc=_now(), **_weighing(given))
    return _report(analysis, given, streams)


def _check(given: Namespace, streams: Streams) -> int:
    from twoarm.check import check

    refuse_overlap({"standard output": STANDARD_OUTPUT}, _places(given.files))
    found = check(_opened(given.files))
    streams.write("".join(f"{problem}\n" for problem in found.problems))
    if found.problems:
        streams.say(f"twoarm: {counted(len(found.problems), 'problem')}")
        return BAD
    arms = ", ".join(map(named, found.arms))
    counts = f"{counted(found.run_count, 'run')}, {counted(found.task_count, 'task')}"
    streams.write(f"no problems: {counts}, arms {arms}\n")
    for key in found.unknown_keys:
        streams.write(f"unknown key, kept out of scoring: {named(key)}\n")
    return DONE


def _schema(given: Namespace, streams: Streams) -> int:
    import json

    from twoarm.analysis import analysis_schema
    from twoarm.collect.sidecar import sidecar_schema
    from twoarm.record import record_schema

    schemas = {"record": record_schema, "analysis": analysis_schema, "sidecar": sidecar_schema}
    streams.write_data(json.dumps(schemas[given.name](), indent=2) + "\n")
    return DONE


def _collect(given: Namespace, streams: Streams) -> int:
    from twoarm import collect_command

    return collect_command.run(given, streams)


def _places(files: Sequence[str]) -> list[str | int]:
    return [STANDARD_INPUT if file == "-" else file for file in files]


def _refuse_overlap(given: Namespace, files: Sequence[str]) -> None:
    """Refuse outputs that are inputs or each other, before anything is read."""
    outputs: dict[str, str | int] = {"standard output": STANDARD_OUTPUT}
    if given.junit is not None:
        outputs["--junit"] = given.junit
    if given.out is not None:
        outputs |= {f"--out {name}": os.path.join(given.out, name) for name in _OUT_NAMES}
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            outputs["GITHUB_STEP_SUMMARY"] = summary
    refuse_overlap(outputs, _places(files))


def _report(analysis: "Analysis", given: Namespace, streams: Streams) -> int:
    outputs = list(_outputs(analysis, given, streams))
    write(outputs)
    if written := [visible(output.path) for output in outputs if not output.append]:
        streams.say(f"twoarm: wrote {', '.join(written)}")
    if given.format == "text":
        from twoarm.render import text

        streams.write(text.render(analysis, _paint(), given.interval))
    elif given.format == "markdown":
        streams.write_data(analysis.to_markdown(interval=given.interval))
    else:
        streams.write_data(getattr(analysis, f"to_{given.format}")())
    if given.annotate:
        from twoarm.render.github import annotations

        for line in annotations(analysis):
            streams.command(line)
    if given.gate is None:
        return DONE
    promotion = analysis.promotion
    streams.say(f"twoarm: gate {given.gate}: {promotion.verdict}: {'; '.join(promotion.reasons)}")
    return _GATE_EXIT[promotion.verdict]


def _outputs(analysis: "Analysis", given: Namespace, streams: Streams) -> Iterator[Output]:
    """The files that were asked for."""
    texts = {}
    if given.out is not None:
        texts["analysis.json"] = analysis.to_json()
        texts["analysis.md"] = analysis.to_markdown(interval=given.interval)
        try:
            texts["report.html"] = analysis.to_html()
        except ExtraError as error:
            streams.say(f"twoarm: no report.html: {error}")
    files = {os.path.join(given.out, name): text for name, text in texts.items()}
    if given.junit is not None:
        files[given.junit] = analysis.to_junit()
    for path, text in files.items():
        yield Output(path=path, content=[text.encode()], append=False)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if given.out is not None and summary:
        yield Output(path=summary, content=[analysis.to_github().encode()], append=True)


def _progress() -> "AbstractContextManager[Progress | None]":
    """A progress bar on a terminal; nothing when standard error is piped."""
    if not sys.stderr.isatty():
        return nullcontext()
    from twoarm.bar import Bar

    return Bar(sys.stderr)


class _Named:
    """An open file under a name of our choice."""

    def __init__(self, stream: "Readable", name: str) -> None:
        self.name = name
        self.read = stream.read
        # What a stream in non-blocking mode is waited for by.
        self.fileno = getattr(stream, "fileno", None)


def _opened(files: list[str]) -> "list[str | Readable]":
    if files.count("-") > 1:
        raise InputError("standard input `-` can be read only once")
    standard_input = _Named(sys.stdin.buffer, "<stdin>")
    return [standard_input if file == "-" else file for file in files]


def _now() -> str:
    """The time of the report; SOURCE_DATE_EPOCH fixes it for builds that must repeat."""
    from datetime import UTC, datetime

    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    if not fixed:
        moment = datetime.now(UTC)
    elif fixed.isascii() and fixed.isdigit() and len(fixed) < 20 and int(fixed) <= _LAST_SECOND:
        moment = datetime.fromtimestamp(int(fixed), UTC)
    else:
        raise UsageError(
            "SOURCE_DATE_EPOCH: expected whole seconds since 1970, at most "
            f"{_LAST_SECOND}, got {named(fixed)}"
        )
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _paint() -> "Paint | None":
    """Colour for a terminal that wants it; rich is not imported for anything else."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return None
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.style import Style

    if Console().color_system is None:
        return None
    styles = {
        "strong": Style(bold=True),
        "good": Style(color="green", bold=True),
        "bad": Style(color="red", bold=True),
        "faint": Style(dim=True),
    }

    def paint(role: str, text: str) -> str:
        style = styles.get(role)
        return style.render(text, color_system=ColorSystem.STANDARD) if style else text

    return paint
