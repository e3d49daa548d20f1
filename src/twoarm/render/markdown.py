"""The report for a pull request: GitHub-flavoured Markdown."""

from typing import TYPE_CHECKING

from twoarm.quote import WHOLE_NAME, markdown_cell, markdown_code, shortened
from twoarm.render import sections, weighed
from twoarm.render.sections import Name, Table

if TYPE_CHECKING:
    from twoarm.analysis import Analysis

_NAME_WIDTH = 80


def render(analysis: "Analysis", shown: weighed.Shown = "headline") -> str:
    """The whole report; the decision and the gates come first."""
    promotion = analysis.promotion
    first, *others = weighed.with_evidence(analysis, shown)
    parts = [
        f"## twoarm: {markdown_code(shortened(analysis.decision, WHOLE_NAME))}",
        f"**{promotion.verdict.capitalize()}**: {'; '.join(promotion.reasons)}.",
        f"{markdown_code(shortened(analysis.candidate, WHOLE_NAME))} (candidate) against "
        f"{markdown_code(shortened(analysis.baseline, WHOLE_NAME))} (baseline). "
        f"{sections.overview(analysis)}.",
        _laid_out(first, heading=False),
    ]
    if analysis.evidence is not None:
        parts.append(f"**Evidence**: {weighed.verdict(analysis)}.")
        parts.append(f"**Stability**: {weighed.stability(analysis)}.")
        rule = weighed.margin(analysis)
        if rule is not None:
            parts.append(f"**Margin rule**: {markdown_code(rule)}")
    if analysis.diagnostics.explanations:
        parts.append(
            "\n".join(f"- Moved with it: {text}" for text in analysis.diagnostics.explanations)
        )
    if analysis.caveats:
        numbered = (f"{n}. {caveat.message}" for n, caveat in enumerate(analysis.caveats, 1))
        parts += ["### Caveats", "\n".join(numbered)]
    parts += [_laid_out(table, heading=True) for table in others]
    tool = analysis.tool
    parts.append(f"<sub>{tool.name} {tool.version}</sub>")
    return "\n\n".join(parts) + "\n"


def _laid_out(table: Table, *, heading: bool) -> str:
    lines = [f"### {table.heading}", ""] if heading else []
    lines.append(_line(table.head))
    figures = len(table.head) - table.text_columns
    lines.append("|" + " --- |" * table.text_columns + " ---: |" * figures)
    lines += [_line(row) for row in table.rows]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines)


def _line(cells: tuple[str | Name, ...]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(cell: str | Name) -> str:
    return markdown_cell(shortened(cell.text, _NAME_WIDTH)) if isinstance(cell, Name) else cell
