"""Sheet: a short report as data: labeled lines, tables and caveats; each format lays it out."""

import msgspec

from twoarm.render.tables import Table
from twoarm.result.analysis import Tool
from twoarm.text.escape import inert_lines
from twoarm.text.sentence import Sentence


class SheetLine(msgspec.Struct, frozen=True, kw_only=True):
    """A label and what it says; the `first` one is what most people came for."""

    label: str
    text: Sentence
    first: bool = False


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """What a short report says."""

    heading: Sentence
    overview: str
    lines: tuple[SheetLine, ...]
    tables: tuple[Table, ...]
    caveats: tuple[Sentence, ...]
    tool: Tool


def markdown(sheet: Sheet) -> str:
    """The sheet as GitHub-flavored Markdown."""
    from twoarm.render.markdown import laid_out

    lines = "\n".join(f"- **{line.label.capitalize()}**: {line.text}." for line in sheet.lines)
    parts = [f"## {sheet.heading}", f"{sheet.overview}.", lines, *map(laid_out, sheet.tables)]
    if sheet.caveats:
        numbered = (f"{number}. {caveat}" for number, caveat in enumerate(sheet.caveats, 1))
        parts += ["### Caveats", "\n".join(numbered)]
    parts.append(f"<sub>{sheet.tool.name} {sheet.tool.version}</sub>")
    return inert_lines("\n\n".join(parts) + "\n")
