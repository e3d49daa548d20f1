"""The report for a terminal: 100 columns, and readable without colour."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from twoarm.quote import WHOLE_NAME, columns, fitting, inert_lines, shortened, visible
from twoarm.render import sections, weighed
from twoarm.render.sections import Name, Table

if TYPE_CHECKING:
    from twoarm.analysis import Analysis

WIDTH = 100
_NAME_WIDTH = 42
_HEAD_WIDTH = 24
_SHORTEST_NAME = 9

# Takes a role (`good`, `bad`, `strong`, `faint`) and a text, and gives the text in that look.
Paint = Callable[[str, str], str]

_ROLES = {
    "better": "good",
    "holds": "good",
    "promote": "good",
    "worse": "bad",
    "fails": "bad",
    "do not promote": "bad",
}


def render(
    analysis: "Analysis", paint: Paint | None = None, shown: weighed.Shown = "headline"
) -> str:
    """The whole report."""
    look = paint or (lambda role, text: text)
    promotion = analysis.promotion
    lines = [
        *_wrapped(
            f"{shortened(analysis.candidate, WHOLE_NAME)} (candidate) against "
            f"{shortened(analysis.baseline, WHOLE_NAME)} (baseline)"
        ),
        *_wrapped(sections.overview(analysis)),
        "",
        *_labelled("DECISION   ", shortened(analysis.decision, WHOLE_NAME), look, "strong"),
        *_labelled(
            "PROMOTION  ",
            f"{promotion.verdict}: {'; '.join(promotion.reasons)}",
            look,
            _ROLES.get(promotion.verdict, "strong"),
        ),
    ]
    if analysis.evidence is not None:
        lines += _labelled("EVIDENCE   ", weighed.verdict(analysis), look, "strong")
        lines += _labelled("STABILITY  ", weighed.stability(analysis), look, "strong")
        rule = weighed.margin(analysis)
        if rule is not None:
            lines += _labelled("MARGIN     ", rule, look, "strong")
    for table in weighed.with_evidence(analysis, shown):
        lines += ["", *_laid_out(table, look)]
        if table.heading == "Gates":
            for explanation in analysis.diagnostics.explanations:
                lines += _wrapped(explanation, first="  failed: ", rest="    ")
    if analysis.caveats:
        lines += ["", look("strong", "Caveats")]
        for number, caveat in enumerate(analysis.caveats, 1):
            first = f"{number:>3}. "
            lines += _wrapped(caveat.message, first=first, rest=" " * len(first))
    return "\n".join(lines) + "\n"


def _wrapped(text: str, *, first: str = "", rest: str = "") -> list[str]:
    """The text in lines no wider than the terminal, by columns; a word too wide for one is cut."""
    lines, line, room = [], first, WIDTH - len(first)
    for word in visible(text).split(" "):
        if columns(word) > room and line.strip(" "):
            lines.append(line.rstrip(" "))
            line, room = rest, WIDTH - len(rest)
        if not line.strip(" "):
            word = inert_lines(word)
        while columns(word) > room:
            cut = fitting(word, room)
            lines.append(line + word[:cut])
            word = inert_lines(word[cut:])
        line += word + " "
        room -= columns(word) + 1
    return [*lines, line.rstrip(" ")]


def _labelled(label: str, text: str, look: Paint, role: str) -> list[str]:
    first, *others = _wrapped(text, first=label, rest=" " * len(label))
    return [label + look(role, first[len(label) :]), *others]


def _laid_out(table: Table, look: Paint) -> list[str]:
    for longest in range(_NAME_WIDTH, _SHORTEST_NAME - 1, -1):
        rows = [_inert([_cell(cell, longest) for cell in row]) for row in table.rows]
        head = _inert(_head(table.head, min(longest, _HEAD_WIDTH)))
        widths = [max(map(columns, cells)) for cells in zip(head, *rows, strict=True)]
        if sum(widths) + 2 * len(widths) <= WIDTH:
            break

    def line(cells: list[str], painted: Callable[[str, str], str]) -> str:
        parts = []
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            pad = " " * (width - columns(cell))
            padded = cell + pad if number < table.text_columns else pad + cell
            parts.append(painted(cell, padded))
        return "  " + "  ".join(parts).rstrip()

    lines = [look("strong", table.heading), line(head, lambda _, padded: look("faint", padded))]
    lines += [line(row, lambda cell, padded: look(_ROLES.get(cell, ""), padded)) for row in rows]
    for note in table.notes:
        lines += _wrapped(note, first="  ", rest="    ")
    return lines


def _inert(cells: list[str]) -> list[str]:
    """The cells of a line, whichever of them it begins with."""
    first = next((at for at, cell in enumerate(cells) if cell.strip()), 0)
    return [*cells[:first], inert_lines(cells[first]), *cells[first + 1 :]]


def _head(cells: tuple[str | Name, ...], longest: int) -> list[str]:
    """The heads of the columns; names that look alike when cut lose what they begin alike with."""
    names = [cell.text for cell in cells if isinstance(cell, Name)]
    if len({shortened(name, longest) for name in names}) == len(set(names)):
        return [_cell(cell, longest) for cell in cells]
    differ = (at for at, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1)
    alike = next(differ, min(map(len, names)))
    told_apart = [
        Name(f"…{cell.text[alike:]}") if isinstance(cell, Name) else cell for cell in cells
    ]
    return [_cell(cell, longest) for cell in told_apart]


def _cell(cell: str | Name, width: int) -> str:
    return shortened(cell.text, width) if isinstance(cell, Name) else cell
