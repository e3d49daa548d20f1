"""The command line: parse, call, render, exit code."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from twoarm import __version__
from twoarm.errors import BadRunsError, ExtraError, InputError, TwoarmError
from twoarm.quote import counted, named, visible

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


class _Help(RawDescriptionHelpFormatter):
    """Help of a fixed width: argparse would import much to ask the terminal, for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


_EXIT_CODES = """\
exit codes:
  0  done; with --gate: promote
  1  with --gate: do not promote
  2  bad input or bad usage
  3  with --gate: not enough data to say
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    _open_closed_streams()
    try:
        spelled = _gates_spelled_out(sys.argv[1:] if arguments is None else arguments)
        given = _parser(collecting="collect" in spelled).parse_args(spelled)
        code: int = given.command(given)
    except SystemExit as leaving:
        return _left(leaving)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BadRunsError as error:
        _say(str(error))
        _say(f"twoarm: {counted(error.count, 'problem')}; nothing was scored")
        return BAD
    except TwoarmError as error:
        _say(f"twoarm: {error}")
        return BAD
    return code


def _left(leaving: SystemExit) -> int:
    """The exit code of help, version or bad usage, once all of it is written."""
    try:
        _write_out("")
    except InputError as error:
        _say(f"twoarm: {error}")
        return BAD
    return leaving.code if isinstance(leaving.code, int) else DONE


def _gates_spelled_out(arguments: Sequence[str]) -> list[str]:
    """`--gate` may stand alone, and must not swallow the file that follows it."""
    spelled = list(arguments)
    for i, argument in enumerate(spelled):
        if argument == "--gate":
            named_gate = i + 1 < len(spelled) and spelled[i + 1] in _GATES
            spelled[i] = f"--gate={spelled.pop(i + 1) if named_gate else 'rule'}"
    return spelled


def _parser(*, collecting: bool) -> ArgumentParser:
    """The commands; the options of `collect` are many, and imported only for it."""
    parser = ArgumentParser(
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
    parser.add_argument("--level", type=float, default=0.95, help="of intervals (default: 0.95)")
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


def _score(given: Namespace) -> int:
    from twoarm.score import score

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
    return _report(analysis, given)


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


def _demo(given: Namespace) -> int:
    from importlib.resources import files

    from twoarm.score import score

    example = files("twoarm").joinpath("example.jsonl")
    if given.runs:
        _write_out(example.read_text(encoding="utf-8"))
        return DONE
    with example.open("rb") as stream:
        source = [_Named(stream, "example.jsonl")]
        analysis = score(source, generated_at_utc=_now(), **_weighing(given))
    return _report(analysis, given)


def _check(given: Namespace) -> int:
    from twoarm.check import check

    found = check(_opened(given.files))
    _write_out("".join(f"{problem}\n" for problem in found.problems))
    if found.problems:
        _say(f"twoarm: {counted(len(found.problems), 'problem')}")
        return BAD
    arms = ", ".join(map(named, found.arms))
    counts = f"{counted(found.run_count, 'run')}, {counted(found.task_count, 'task')}"
    _write_out(f"no problems: {counts}, arms {arms}\n")
    for key in found.unknown_keys:
        _write_out(f"unknown key, kept out of scoring: {named(key)}\n")
    return DONE


def _schema(given: Namespace) -> int:
    import json

    from twoarm.analysis import analysis_schema
    from twoarm.collect.sidecar import sidecar_schema
    from twoarm.record import record_schema

    schemas = {"record": record_schema, "analysis": analysis_schema, "sidecar": sidecar_schema}
    _write_out(json.dumps(schemas[given.name](), indent=2) + "\n")
    return DONE


def _collect(given: Namespace) -> int:
    from twoarm import collect_command

    terminal = sys.stderr if sys.stderr.isatty() else None
    return collect_command.run(given, say=_say, write=_write_out, terminal=terminal)


def _report(analysis: "Analysis", given: Namespace) -> int:
    _write_all(_files(analysis, given))
    if given.out is not None and os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(os.environ["GITHUB_STEP_SUMMARY"], analysis.to_github())
    if given.format == "text":
        from twoarm.render import text

        report = text.render(analysis, _paint(), given.interval)
    elif given.format == "markdown":
        report = analysis.to_markdown(interval=given.interval)
    else:
        report = getattr(analysis, f"to_{given.format}")()
    _write_out(report)
    if given.annotate:
        from twoarm.render.github import annotations

        for line in annotations(analysis):
            _say(line)
    if given.gate is None:
        return DONE
    promotion = analysis.promotion
    _say(f"twoarm: gate {given.gate}: {promotion.verdict}: {visible('; '.join(promotion.reasons))}")
    return _GATE_EXIT[promotion.verdict]


def _files(analysis: "Analysis", given: Namespace) -> dict[str, str]:
    """The files that were asked for, by path."""
    texts = {}
    if given.out is not None:
        texts["analysis.json"] = analysis.to_json()
        texts["analysis.md"] = analysis.to_markdown(interval=given.interval)
        try:
            texts["report.html"] = analysis.to_html()
        except ExtraError as error:
            _say(f"twoarm: no report.html: {error}")
    files = {os.path.join(given.out, name): text for name, text in texts.items()}
    if given.junit is not None:
        files[given.junit] = analysis.to_junit()
    return files


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

    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdigit() else datetime.now(UTC)
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


def _write_out(text: str) -> None:
    # A terminal that cannot show a character gets its escape, not a traceback.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough; what was found decides the exit code all the same.
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        raise InputError(f"cannot write to standard output: {error.strerror}") from error


def _write_all(texts: dict[str, str]) -> None:
    """Write every file under a temporary name, then rename: never half a file."""
    written: dict[str, str] = {}
    folder = ""
    try:
        for path, text in texts.items():
            folder, name = os.path.split(path)
            os.makedirs(folder or ".", exist_ok=True)
            temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
            written[temporary] = path
            with open(temporary, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        for temporary in list(written):
            folder = os.path.dirname(written[temporary])
            os.replace(temporary, written.pop(temporary))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write to `{visible(folder or '.')}`: {reason}") from error
    finally:
        for temporary in written:
            if os.path.exists(temporary):
                os.unlink(temporary)
    if texts:
        _say(f"twoarm: wrote {', '.join(map(visible, texts))}")


def _append(path: str, text: str) -> None:
    try:
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write to `{visible(path)}`: {reason}") from error


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Let what is still written go nowhere: Python would complain once more when it closes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_closed_streams() -> None:
    """A stream that the caller closed leads nowhere, and no file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
