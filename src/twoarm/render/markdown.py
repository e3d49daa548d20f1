"""The whole report as GitHub-flavored Markdown."""

from twoarm.render.evidence import report_tables
from twoarm.render.summary import Amount, Summary, summarize
from twoarm.render.tables import Table
from twoarm.result.analysis import Analysis
from twoarm.text.escape import WHOLE_NAME, markdown_cell, markdown_code, shortened
from twoarm.text.sentence import Name

_NAME_WIDTH = 80
_LISTED = 20
ICONS = {"promote": "✅", "do not promote": "❌", "not enough data": "⏳"}


def render(analysis: Analysis) -> str:
    """The summary, then every table; names are code spans."""
    summary = summarize(analysis)
    parts = first_screen(summary)
    parts.append(f"**Stability**: {summary.stability}.")
    if analysis.diagnostics.explanations:
        parts.append(
            "\n".join(f"- Failed gate: {text}" for text in analysis.diagnostics.explanations)
        )
    if analysis.caveats:
        numbered = (f"{n}. {caveat.message}" for n, caveat in enumerate(analysis.caveats, 1))
        parts += ["### Caveats", "\n".join(numbered)]
    parts += [laid_out(table) for table in report_tables(analysis, _LISTED)]
    parts.append(f"<sub>{analysis.tool.name} {analysis.tool.version}</sub>")
    return "\n\n".join(parts) + "\n"


def first_screen(summary: Summary) -> list[str]:
    """What everyone reads."""
    fails = f"; {summary.fails}" if summary.fails else ""
    why = f": {summary.why}" if summary.why else ""
    tested = "" if summary.tested is None else f"{summary.tested}. "
    parts = [
        f"## {ICONS[summary.verdict]} {summary.verdict.capitalize()}",
        f"{tested}{_whole(summary.candidate)} (candidate) vs. "
        f"{_whole(summary.baseline)} (baseline): {summary.overview}.",
        f"- **Promote**: {summary.promote}{summary.others}.\n"
        f"- **Decision**: {_whole(summary.decision)}{why}{fails}.\n"
        f"- **Evidence**: {summary.evidence}."
        + (f"\n- **Failed**: {summary.failed}." if summary.failed is not None else "")
        + (f"\n- **Broken**: {summary.broken}." if summary.broken is not None else ""),
        "\n".join(
            (
                f"| | candidate | baseline | {summary.change} | {summary.level} | |",
                "| --- | ---: | ---: | ---: | ---: | --- |",
                *map(_amount, summary.amounts),
            )
        ),
    ]
    if summary.scope:
        parts.append(summary.scope)
    if summary.steps:
        parts.append("\n".join(("**Next**", *(f"- {step}" for step in summary.steps))))
    return parts


def _whole(name: str) -> str:
    return markdown_code(shortened(name, WHOLE_NAME))


def _amount(amount: Amount) -> str:
    notes = {amount.label: amount.label_note, amount.mark: amount.notes}
    label, mark = (f"{text} ({note})" if note else text for text, note in notes.items())
    why = amount.interval if not amount.why else f"{amount.interval} ({amount.why})"
    return _line([label, amount.candidate, amount.baseline, amount.change, why, mark])


def laid_out(table: Table) -> str:
    """A table with its heading and notes."""
    lines = [f"### {table.heading}", ""]
    lines.append(_line([_cell(column.head) for column in table.columns]))
    kinds = (" --- |" if column.kind == "text" else " ---: |" for column in table.columns)
    lines.append("|" + "".join(kinds))
    lines += [_line([_cell(cell.text) for cell in row]) for row in table.rows]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    if isinstance(text, Name):
        return markdown_cell(shortened(text, _NAME_WIDTH))
    # Names inside a sentence may hold what would end the cell.
    return text.replace("|", "\\|")
