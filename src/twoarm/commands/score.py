"""`twoarm score`: options, reports, files, exit code."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE, HELP, OF_VERDICT
from twoarm.commands.progress import progress_bar
from twoarm.commands.score_options import (
    Adder,
    add_counting_options,
    add_files,
    add_report_options,
    add_runs_option,
)
from twoarm.commands.terminal import terminal_paint, terminal_width
from twoarm.compare.decide import number_of_gates
from twoarm.errors import ExtraError, InputError, UsageError
from twoarm.files.write import (
    Output,
    refuse_link,
    refuse_overlap,
    remove_folder,
    write,
    write_folder,
)
from twoarm.options import DEFAULTS, Options, Which
from twoarm.render.report import Report
from twoarm.render.several import Candidates
from twoarm.render.summary import PROMOTED_BY
from twoarm.render.text import Look, plain
from twoarm.runs.runfile import Readable, read
from twoarm.score import compare, compare_candidates
from twoarm.text.escape import counted, named, visible

DESCRIPTION = (
    f"Score run files: {number_of_gates()}, one decision, and the evidence, on one screen."
)
EPILOG = HELP

_OUT_NAMES = ("analysis.json", "analysis.md", "comparison.json", "comparison.md", "report.html")

STANDARD_INPUT = 0
STANDARD_OUTPUT = 1

# The end of the year 9999.
_LAST_SECOND = 253_402_300_799

# What only the evidence looks at.
_OF_THE_EVIDENCE = (
    "level",
    "seed",
    "resamples",
    "primary",
    "guard",
    "allow_broken",
    "margin_success",
    "margin_ratio",
    "interval",
    "looks",
    "r_max",
    "ignore_looks",
)


def add_options(parser: ArgumentParser) -> None:
    """The options of `score`: files, arms, and which runs count."""
    add_files(parser)
    add_report_options(parser)
    add_runs_option(parser, "none")
    option = Adder(parser)
    option(
        "candidate",
        action="append",
        metavar="ARM",
        help="the arm with the change; give it again for several, or only name the baseline for "
        "all of them",
    )
    option("baseline", metavar="ARM", help="the arm without it")
    add_counting_options(parser)


def run(given: Namespace, streams: Streams) -> int:
    """Score run files."""
    options = options_of(given)
    which: Which = given.runs or "none"
    if given.runs is not None and given.out is None:
        raise UsageError("--runs has no effect without --out")
    if which != "none" and "-" in given.files:
        raise UsageError("--runs needs run files: standard input can be read only once")
    refuse_outputs(given, given.files)
    return score_and_show(opened(given.files), options, given, streams, which)


def score_and_show(
    files: "list[str | Readable]",
    options: Options,
    given: Namespace,
    streams: Streams,
    which: Which = "none",
) -> int:
    """Score run files, write and show what was asked for, and give the exit code."""
    names = getattr(given, "candidate", None) or []
    with progress_bar(sys.stderr) as progress:
        runs = read(files, skip_bad=options.skip_bad, times=options.evidence, progress=progress)
        if progress is not None and options.evidence:
            progress("weighing the evidence", 0, None)
        others = [arm for arm in runs.arms if arm != options.baseline]
        if len(names) > 1 or (not names and options.baseline in runs.arms and len(others) > 1):
            if given.exit_code:
                raise UsageError(
                    "--exit-code answers for one candidate: name it with --candidate; found "
                    f"{len(names) or len(others)}"
                )
            if which != "none":
                raise UsageError(
                    "--runs makes pages for one candidate: name it with --candidate; found "
                    f"{len(names) or len(others)}"
                )
            several = compare_candidates(runs, names or None, options, generated_at_utc=_now())
            return _show(several, given, streams)
        report = compare(runs, options=options, generated_at_utc=_now())
    links = None if which == "none" else _write_pages(report, files, given, streams, which)
    return _show(report, given, streams, links)


def _write_pages(
    report: Report,
    files: "list[str | Readable]",
    given: Namespace,
    streams: Streams,
    which: Which,
) -> dict[str, dict[int, str]] | None:
    """The pages of runs, and where they are; None where no record leads to its run."""
    from twoarm.render.page.links import FOLDER
    from twoarm.run_pages.pages import is_page, make_pages, plan_pages, read_records

    plan = plan_pages(report.comparison, which)
    paths = [file for file in files if isinstance(file, str)]
    folder = os.path.join(given.out, FOLDER)
    records = read_records(plan, report.comparison, paths)
    if records and not any(found.record.run_path for found in records.values()):
        # Those of an earlier report would be taken for this one's.
        remove_folder(folder, is_page)
        streams.say("twoarm: no pages of runs: no record has a `run_path`; see docs/records.md")
        return None
    write_folder(folder, make_pages(plan, records, given.out), is_page)
    count, left = len(plan.pages), plan.wanted - len(plan.pages)
    more = f"; {left:,} more would be too many" if left else ""
    streams.say(f"twoarm: wrote {counted(count, 'page')} of runs to {visible(folder)}{more}")
    return plan.links()


def given_options(given: Namespace) -> dict[str, str]:
    """The options that were given, as they are written; one that equals its default is not seen."""
    return {
        name: "--no-evidence" if name == "evidence" else f"--{name.replace('_', '-')}"
        for name, value in vars(given).items()
        if name == "evidence"
        or not (name == "command" or value is None or value is False or value in ([], "text"))
    }


def options_of(given: Namespace, *, used: Collection[str] = ()) -> Options:
    """The options that were given; one that would have no effect is refused.

    `used` are those that the command has a use for beside the evidence.
    """
    said = vars(given)
    if said.get("evidence") is False:
        for name in _OF_THE_EVIDENCE:
            if name in said and name not in used:
                raise UsageError(f"--{name.replace('_', '-')} has no effect with --no-evidence")
    _refuse_idle(said)
    if given.full and given.format != "text":
        raise UsageError(f"--full has no effect with --format {given.format}; it applies to text")
    shown = given.full or given.format == "markdown" or given.out is not None
    if "interval" in said and not shown and "interval" not in used:
        raise UsageError("--interval has no effect without --full, --format markdown or --out")
    _refuse_margins(given, used)
    named = dict(said)
    if isinstance(names := said.get("candidate"), list):
        named["candidate"] = names[0] if len(names) == 1 else None
    return Options(**{key: named[key] for key in Options.__struct_fields__ if key in named})


def _refuse_idle(said: dict[str, object]) -> None:
    """Refuse what the chosen way of promotion does not look at."""
    by = said.get("promote_by", DEFAULTS.promote_by)
    guarded = by == "evidence" and said.get("guard", DEFAULTS.guard) != "none"
    for name, used, needs in (
        ("guard", by == "evidence", "--promote-by evidence"),
        ("allow_broken", guarded, "the guard of --promote-by evidence"),
    ):
        if name in said and not used:
            raise UsageError(f"--{name.replace('_', '-')} has no effect without {needs}")


def _refuse_margins(given: Namespace, used: Collection[str]) -> None:
    """Only some promotions go by a margin, and only the analysis file and the page say it."""
    by = getattr(given, "promote_by", DEFAULTS.promote_by)
    written = given.out is not None or given.format in ("json", "html")
    for name, promotions in (
        ("margin_success", ("margin", "evidence")),
        ("margin_ratio", ("margin",)),
    ):
        if name in vars(given) and by not in promotions and not written and name not in used:
            raise UsageError(
                f"--{name.replace('_', '-')} has no effect without --promote-by "
                f"{' or '.join(promotions)}, --format json or html, or --out"
            )


def refuse_outputs(given: Namespace, files: Sequence[str]) -> None:
    """Refuse outputs that are inputs or each other, before anything is read."""
    outputs: dict[str, str | int] = {"standard output": STANDARD_OUTPUT}
    if given.junit is not None:
        outputs["--junit"] = given.junit
    if given.out is not None:
        outputs |= {f"--out {name}": os.path.join(given.out, name) for name in _OUT_NAMES}
        from twoarm.render.page.links import FOLDER

        refuse_link(os.path.join(given.out, FOLDER))
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            outputs["GITHUB_STEP_SUMMARY"] = summary
    refuse_overlap(outputs, places(files))


def places(files: Sequence[str]) -> list[str | int]:
    """Where the inputs are: paths, or the number of standard input."""
    return [STANDARD_INPUT if file == "-" else file for file in files]


def _show(
    report: Report | Candidates,
    given: Namespace,
    streams: Streams,
    links: dict[str, dict[int, str]] | None = None,
) -> int:
    outputs = list(_outputs(report, given, streams, links))
    write(outputs)
    if written := [visible(output.path) for output in outputs if not output.append]:
        streams.say(f"twoarm: wrote {', '.join(written)}")
    if given.format == "text":
        look = Look(
            full=given.full,
            interval=_interval(given),
            width=terminal_width(),
            paint=terminal_paint() or plain,
        )
        streams.write(report.show(look))
    elif given.format == "markdown":
        streams.write_data(report.to_markdown(interval=_interval(given)))
    else:
        streams.write_data(getattr(report, f"to_{given.format}")())
    if given.annotate:
        from twoarm.render.github import annotations

        for one in report.reports if isinstance(report, Candidates) else (report,):
            for line in annotations(one):
                streams.command(line)
    if not given.exit_code or isinstance(report, Candidates):
        return DONE
    promotion = report.promotion
    by = PROMOTED_BY[report.options.promote_by]
    streams.say(f"twoarm: {promotion.verdict}, by {by}: {'; '.join(promotion.reasons)}")
    return OF_VERDICT[promotion.verdict]


def _interval(given: Namespace) -> Literal["headline", "bootstrap"]:
    return getattr(given, "interval", "headline")


def _outputs(
    report: Report | Candidates,
    given: Namespace,
    streams: Streams,
    links: dict[str, dict[int, str]] | None,
) -> Iterator[Output]:
    """The files that were asked for."""
    texts = {}
    if given.out is not None:
        name = "comparison" if isinstance(report, Candidates) else "analysis"
        texts[f"{name}.json"] = report.to_json()
        texts[f"{name}.md"] = report.to_markdown(interval=_interval(given))
        try:
            texts["report.html"] = (
                report.to_html() if isinstance(report, Candidates) else report.to_html(links)
            )
        except ExtraError as error:
            streams.say(f"twoarm: no report.html: {error}")
    for name, text in texts.items():
        path = os.path.join(given.out, name)
        yield Output(path=path, content=[text.encode()], append=False, named=False)
    if given.junit is not None:
        text = report.to_junit()
        yield Output(path=given.junit, content=[text.encode()], append=False, named=True)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if given.out is not None and summary:
        text = report.to_github()
        yield Output(path=summary, content=[text.encode()], append=True, named=True)


class NamedStream:
    """An open file under a name of our choice."""

    def __init__(self, stream: Readable, name: str) -> None:
        self.name = name
        self.read = stream.read
        # What a stream in non-blocking mode is waited for by.
        self.fileno = getattr(stream, "fileno", None)


def opened(files: list[str]) -> "list[str | Readable]":
    """The files, standard input under a name of its own."""
    if files.count("-") > 1:
        raise InputError("standard input `-` can be read only once")
    standard_input = NamedStream(sys.stdin.buffer, "<stdin>")
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
