"""Where a report goes: its files, standard output, and pages of its runs."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from twoarm.commands.console import Streams
from twoarm.commands.inputs import places
from twoarm.commands.terminal import terminal_paint, terminal_width
from twoarm.errors import ExtraError
from twoarm.files.write import (
    Output,
    refuse_link,
    refuse_overlap,
    remove_folder,
    write,
    write_folder,
)
from twoarm.options import Which
from twoarm.render.report import Report
from twoarm.render.several import Candidates
from twoarm.render.text import Look, plain
from twoarm.text.escape import counted, visible

if TYPE_CHECKING:
    from twoarm.history.overview import HistoryReport
    from twoarm.planning.calibrate import CalibrationReport
    from twoarm.planning.plan import PlanReport
    from twoarm.render.page.links import Links

STANDARD_OUTPUT = 1

# What --out DIR holds: data, Markdown and a page.
ANALYSIS = ("analysis.json", "analysis.md", "report.html")
COMPARISON = ("comparison.json", "comparison.md", "report.html")
PLAN = ("plan.json", "plan.md", "plan.html")
CALIBRATION = ("calibration.json", "calibration.md", "calibration.html")
HISTORY = ("history.json", "history.md", "history.html")


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """What to write and print."""

    out: str | None = None
    format: Literal["text", "json", "markdown", "html", "github"] = "text"
    full: bool = False
    junit: str | None = None
    annotate: bool = False
    exit_code: bool = False


def refuse_score_outputs(outputs: Outputs, files: Sequence[str]) -> None:
    """Refuse what a score cannot write, before anything is read."""
    if outputs.out is not None:
        from twoarm.render.page.links import FOLDER

        refuse_link(os.path.join(outputs.out, FOLDER))
    refuse_outputs(outputs, files, (*ANALYSIS, *COMPARISON[:2]), _step_summary(outputs))


def refuse_outputs(
    outputs: Outputs, files: Sequence[str], names: Sequence[str], summary: str | None = None
) -> None:
    """Refuse outputs that are also inputs, or that are the same file."""
    named = {"--junit": outputs.junit, "GITHUB_STEP_SUMMARY": summary}
    if outputs.out is not None:
        named |= {f"--out {name}": os.path.join(outputs.out, name) for name in names}
    given = {name: path for name, path in named.items() if path is not None}
    refuse_overlap({"standard output": STANDARD_OUTPUT, **given}, places(files))


def _step_summary(outputs: Outputs) -> str | None:
    """The summary file of a GitHub workflow, which is written with --out."""
    return None if outputs.out is None else os.environ.get("GITHUB_STEP_SUMMARY") or None


def show(
    report: "Report | Candidates | PlanReport | CalibrationReport | HistoryReport",
    names: Sequence[str],
    outputs: Outputs,
    streams: Streams,
    links: "Links | None" = None,
) -> None:
    """Write and print what was asked for; `names` are the names of the files in --out."""
    files = list(_files(report, names, outputs, streams, links))
    write(files)
    if paths := [visible(file.path) for file in files if not file.append]:
        streams.say(f"twoarm: wrote {', '.join(paths)}")
    if outputs.format == "text":
        look = Look(
            full=outputs.full,
            width=terminal_width(),
            paint=terminal_paint() or plain,
        )
        streams.write(report.show(look))
    else:
        streams.write_data(getattr(report, f"to_{outputs.format}")())
    if outputs.annotate and isinstance(report, Report | Candidates):
        from twoarm.render.github import annotations

        for each in report.reports if isinstance(report, Candidates) else (report,):
            for line in annotations(each):
                streams.command(line)


def _files(
    report: "Report | Candidates | PlanReport | CalibrationReport | HistoryReport",
    names: Sequence[str],
    outputs: Outputs,
    streams: Streams,
    links: "Links | None",
) -> Iterator[Output]:
    """The files that were asked for."""
    if outputs.out is not None:
        texts = [report.to_json(), report.to_markdown()]
        try:
            if isinstance(report, Report | Candidates):
                texts.append(report.to_html(links))
            else:
                texts.append(report.to_html())
        except ExtraError as error:
            streams.say(f"twoarm: no {names[-1]}: {error}")
        for name, text in zip(names, texts, strict=False):
            path = os.path.join(outputs.out, name)
            yield Output(path=path, content=[text.encode()], append=False, named=False)
    if not isinstance(report, Report | Candidates):
        return
    if outputs.junit is not None:
        text = report.to_junit()
        yield Output(path=outputs.junit, content=[text.encode()], append=False, named=True)
    if (summary := _step_summary(outputs)) is not None:
        text = report.to_github()
        yield Output(path=summary, content=[text.encode()], append=True, named=True)


def write_run_pages(
    reports: Sequence[Report], files: Sequence[object], out: str, which: Which, streams: Streams
) -> "Links | None":
    """Write the pages of runs and return where they are; None if no record leads to its run."""
    from twoarm.render.page.links import FOLDER
    from twoarm.run_pages.pages import is_page, make_pages, plan_pages, read_records

    plan = plan_pages([report.comparison for report in reports], which)
    paths = [file for file in files if isinstance(file, str)]
    folder = os.path.join(out, FOLDER)
    records = read_records(plan, reports[0].comparison, paths)
    if records and not any(entry.record.run_path for entry in records.values()):
        # Pages left by an earlier report would be mistaken for this one's.
        remove_folder(folder, is_page)
        streams.say("twoarm: no pages of runs: no record has a `run_path`; see docs/records.md")
        return None
    write_folder(folder, make_pages(plan, records, out), is_page)
    count, left = len(plan.pages), plan.wanted - len(plan.pages)
    more = f"; {left:,} more would be too many" if left else ""
    streams.say(f"twoarm: wrote {counted(count, 'page')} of runs to {visible(folder)}{more}")
    return plan.links()
