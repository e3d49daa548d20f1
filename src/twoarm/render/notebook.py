"""Reports as a notebook shows them: what they say first, without script or style sheet."""

from collections.abc import Iterable, Sequence

from twoarm.render.candidates import overview, tested_of
from twoarm.render.html import amounts, sentence_html
from twoarm.render.sheet import Sheet
from twoarm.render.summary import summarize
from twoarm.render.tables import Table
from twoarm.result.analysis import Analysis
from twoarm.text.escape import counted, html, shortened
from twoarm.text.sentence import Name, Sentence

_NAME = 60


def render(analysis: Analysis) -> str:
    """The summary, the gates and what to do next: one HTML element, every name in it escaped."""
    summary = summarize(analysis)
    arms = " vs. ".join(
        f"<b>{html(shortened(arm, _NAME))}</b> ({role})"
        for arm, role in ((summary.candidate, "candidate"), (summary.baseline, "baseline"))
    )
    fails = f"; {html(summary.fails)}" if summary.fails else ""
    why = f": {sentence_html(summary.why)}" if summary.why else ""
    lines = (
        ("Promote", sentence_html(summary.promote) + html(summary.others)),
        ("Decision", html(shortened(summary.decision, _NAME + len("prefer "))) + why + fails),
        ("Evidence", sentence_html(summary.evidence)),
        ("Caveats", html(counted(len(analysis.caveats), "caveat"))),
    )
    heading = f"{_tested(summary.tested)}<p>{arms}: {html(summary.overview)}</p>"
    steps = _listed("Next", summary.steps)
    return f"<div>{heading}{_labelled(lines)}{amounts(summary)}{steps}</div>"


def render_several(analyses: Sequence[Analysis]) -> str:
    """Whether each candidate may be promoted, and what its gates show."""
    baseline = html(shortened(analyses[0].baseline, _NAME))
    heading = f"{html(counted(len(analyses), 'candidate'))} vs. <b>{baseline}</b> (baseline)"
    tested = _tested(tested_of(analyses))
    return f"<div>{tested}<p>{heading}</p>{''.join(map(_table, overview(analyses)))}</div>"


def render_sheet(sheet: Sheet) -> str:
    """A short report, such as a plan."""
    lines = ((line.label.capitalize(), sentence_html(line.text)) for line in sheet.lines)
    return (
        f"<div><p><b>{sentence_html(sheet.heading)}</b><br>{html(sheet.overview)}</p>"
        f"{_labelled(lines)}{''.join(map(_table, sheet.tables))}"
        f"{_listed('Caveats', sheet.caveats)}</div>"
    )


def _tested(tested: Sentence | None) -> str:
    return "" if tested is None else f"<p>{sentence_html(tested)}</p>"


def _labelled(lines: Iterable[tuple[str, str]]) -> str:
    """Labels, and what is said of each in HTML."""
    return f"<p>{'<br>'.join(f'<b>{html(label)}</b>: {text}' for label, text in lines)}</p>"


def _listed(label: str, sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{sentence_html(sentence)}</li>" for sentence in sentences)
    return f"<p><b>{label}</b></p><ul>{items}</ul>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_cell(column.head)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{_cell(cell.text)}</td>' for cell in row)}</tr>" for row in table.rows
    )
    notes = "".join(f"<p>{sentence_html(note)}</p>" for note in table.notes)
    return (
        f"<p><b>{html(table.heading)}</b></p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{notes}"
    )


def _cell(text: str) -> str:
    return html(shortened(text, _NAME)) if isinstance(text, Name) else sentence_html(text)
