"""The report for a terminal: one screen, or everything; readable without color."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import msgspec

from twoarm.render.evidence import report_tables
from twoarm.render.sheet import Sheet
from twoarm.render.summary import Amount, Summary, summarize
from twoarm.render.tables import Cell, Table
from twoarm.result.analysis import Analysis
from twoarm.text.escape import WHOLE_NAME, columns, fitting, inert_lines, shortened, visible
from twoarm.text.number_format import NOT_MEASURED
from twoarm.text.sentence import Name, Sentence, Whole

NARROWEST = 60
# Beyond, lines are hard to read.
WIDEST = 120
_LISTED = 20
_NAME_WIDTH = 42
_HEAD_WIDTH = 24
# How much of a name a sentence of the first screen shows.
_SAID_NAME = 32
_SHORTEST_NAME = 9
# What points are called, and where there is no room for that.
_POINTS = (" points", " pts")
_LABEL = 11
# The lines of one screen.
_SCREEN = 24
# Which columns of the amounts are shown, the first choice that fits; all have a label and a mark.
_CHOICES = (
    ("candidate", "baseline", "change", "interval"),
    ("change", "interval"),
    ("interval",),
    ("change",),
)
_MORE = "…"

# Takes a role (`good`, `bad`, `strong`, `faint`) and a text, and gives the text in that look.
Paint = Callable[[str, str], str]


def plain(role: str, text: str) -> str:
    """No color at all."""
    return text


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How much to show, how wide, and in which color."""

    full: bool = False
    width: int = 80
    paint: Paint = plain


def render(analysis: Analysis, look: Look) -> str:
    """One screen; with `full`, also every table and every caveat."""
    screen = _Screen(look)
    summary = summarize(analysis)
    lines = screen.first(summary, full=look.full)
    if look.full:
        lines += screen.everything(analysis, summary)
    return "\n".join(lines) + "\n"


def lay_out(
    tested: Sentence | None, heading: str, tables: Sequence[Table], look: Look
) -> list[str]:
    """What was tested, a heading and some tables."""
    screen = _Screen(look)
    below = (line for table in tables for line in ("", *screen.laid_out(table)))
    return [*screen.tested(tested, full=look.full), heading, *below]


def lay_out_sheet(sheet: Sheet, look: Look) -> str:
    """A short report: labeled lines, tables and caveats."""
    return "\n".join(_Screen(look).sheet(sheet)) + "\n"


class _Screen:
    """Lays lines out for a terminal of one width."""

    def __init__(self, look: Look) -> None:
        self._width = min(max(look.width, NARROWEST), WIDEST)
        self._paint = look.paint

    def first(self, summary: Summary, *, full: bool) -> list[str]:
        """What everyone reads: the lines above the figures, the figures, and what fits below."""
        opening = self._opening(summary, full=full)
        overview = self._wrapped(summary.overview if full else summary.brief)
        above = [*self._verdicts(summary, full=full), *self._amounts(summary)]
        scope, missing, notes = self._footnotes(summary)
        blocks, caveats = self._next(summary, full=full), self._caveats(summary)
        steps = [line for block in blocks for line in block]
        failed, broken = self._failed(summary, full=full), list[str]()
        if summary.broken is not None:
            broken = self._labelled("BROKEN", summary.broken, "", full=full)
        if full:
            below = [*scope, *missing, *notes, *failed, *broken, *steps]
            return [*opening, *overview, *above, "", *below]
        parts = (caveats, broken, steps, failed, scope, missing)
        room = _SCREEN - len(opening) - len(above) - len(notes)
        # Two lines of it, if every other part has one.
        overview = self._cut(overview, 2 if room - 2 >= sum(map(bool, parts)) else 1)
        room -= len(overview)
        if room < sum(map(bool, parts)) and summary.amounts[-1].gate is None:
            # A figure that no gate looks at gives way to what has to be said.
            fewer = msgspec.structs.replace(summary, amounts=summary.amounts[:-1])
            return self.first(fewer, full=False)
        # A line of each comes first, two of what is serious and of steps; then all of FAILED, ...
        sizes = [len(part) for part in parts]
        at_first = (1 + summary.serious, 1 + summary.names_broken, 2, 1, room, room)
        most = _shared_out(list(map(min, sizes, at_first)), room)
        # FAILED once more, because NEXT gives back the lines that no whole step fits into.
        for number in (3, 2, 3, 1, 0):
            most[number] += min(room - sum(most), sizes[number] - most[number])
            if number == 2:
                steps = self._whole(blocks, most[2])
                most[2] = len(steps)
        return [
            *opening,
            *overview,
            *above,
            *([""] if sum(most) < room else []),
            *(scope if most[4] >= len(scope) else self._first_part(summary.scope)[: most[4]]),
            *self._cut(missing, most[5]),
            *notes,
            *self._cut(failed, most[3]),
            *self._cut(broken, most[1]),
            *steps,
            *self._caveats(summary, most[0]),
        ]

    def _verdicts(self, summary: Summary, *, full: bool) -> list[str]:
        """Three answers, between blank lines."""
        role = {"promote": "good", "do not promote": "bad"}.get(summary.verdict, "strong")
        decision = shortened(summary.decision, WHOLE_NAME if full else self._width - _LABEL)
        fails = f"; {summary.fails}" if summary.fails else ""
        why = f": {summary.why}" if summary.why else ""
        others = summary.others
        return [
            "",
            *self._labelled("PROMOTE", summary.promote, role, full=full, end=others, most=3),
            *self._labelled("DECISION", f"{decision}{why}{fails}", "strong", full=full),
            *self._labelled("EVIDENCE", summary.evidence, "strong", full=full),
            "",
        ]

    def _failed(self, summary: Summary, *, full: bool) -> list[str]:
        """One line, if one of the two ways to say it fits."""
        if summary.failed is None or summary.failed_brief is None:
            return []
        lines = self._labelled("FAILED", summary.failed, "", full=full)
        if full or len(lines) == 1:
            return lines
        return self._labelled("FAILED", summary.failed_brief, "", full=False)

    def everything(self, analysis: Analysis, summary: Summary) -> list[str]:
        """The rest of the report."""
        lines = self._labelled("STABILITY", summary.stability, "", full=True)
        for number, table in enumerate(report_tables(analysis, _LISTED)):
            lines += ["", *self.laid_out(table)]
            if number == 0:
                for explanation in analysis.diagnostics.explanations:
                    lines += self._wrapped(explanation, first="  failed gate: ", rest="    ")
        lines += self._numbered_caveats([caveat.message for caveat in analysis.caveats])
        return lines

    def sheet(self, sheet: Sheet) -> list[str]:
        """A short report."""
        lines = [*self._wrapped(sheet.heading), *self._wrapped(sheet.overview), ""]
        for line in sheet.lines:
            lines += self._labelled(
                line.label, line.text, "strong" if line.first else "", full=True
            )
        for table in sheet.tables:
            lines += ["", *self.laid_out(table)]
        return [*lines, *self._numbered_caveats(sheet.caveats)]

    def _numbered_caveats(self, caveats: Sequence[Sentence]) -> list[str]:
        if not caveats:
            return []
        lines = ["", self._paint("strong", "Caveats")]
        for number, caveat in enumerate(caveats, 1):
            first = f"{number:>3}. "
            lines += self._wrapped(caveat, first=first, rest=" " * len(first))
        return lines

    def _opening(self, summary: Summary, *, full: bool) -> list[str]:
        """What was tested, and the arms."""
        return [*self.tested(summary.tested, full=full), *self._heading(summary)]

    def tested(self, tested: Sentence | None, *, full: bool) -> list[str]:
        """What was tested, in one line unless all is wanted."""
        if tested is None:
            return []
        lines = self._wrapped(tested if full else _brief(tested))
        return lines if full else self._cut(lines, 1)

    def _heading(self, summary: Summary) -> list[str]:
        ends = " (candidate) vs. ", " (baseline)"
        room = (self._width - sum(map(len, ends))) // 2
        names = [shortened(name, room) for name in (summary.candidate, summary.baseline)]
        return [f"{inert_lines(names[0])}{ends[0]}{names[1]}{ends[1]}"]

    def _labelled(
        self, label: str, text: str, role: str, *, full: bool, end: str = "", most: int = 2
    ) -> list[str]:
        """A label and a text beside it, painted; cut after `most` lines unless all is wanted.

        What is cut is cut before the `end`.
        """
        indent = _LABEL if label else 0
        beside = partial(self._wrapped, first=f"{label:<{indent}}", rest=" " * indent)
        shown = text if full else _brief(text)
        lines = beside(f"{shown}{end}")
        words = shown.split(" ") if end and not full else []
        while len(lines) > most and words:
            words.pop()
            lines = beside(f"{' '.join(words)} {_MORE}{end}")
        first, *others = lines if full else self._cut(lines, most)
        return [first[:indent] + self._paint(role, first[indent:]), *others]

    def _cut(self, lines: list[str], most: int) -> list[str]:
        """The first lines, the last of them short enough to say that there was more."""
        if len(lines) <= most or not most:
            return lines[:most]
        last = lines[most - 1]
        indent = len(last) - len(last.lstrip(" "))
        while columns(last) > self._width - 2:
            word = last.rfind(" ")
            last = last[:word] if word > indent else last[: fitting(last, self._width - 2)]
        return [*lines[: most - 1], f"{last} {_MORE}"]

    def _first_part(self, text: str) -> list[str]:
        """What stands before a semicolon: half of an interval after it says nothing."""
        return self._wrapped(f"{text.partition(';')[0]}; {_MORE}")

    def _whole(self, blocks: list[list[str]], most: int) -> list[str]:
        """As many steps as there is room for: half of one says nothing, unless it is the first."""
        lines: list[str] = []
        for block in blocks:
            if lines and len(lines) + len(block) > most:
                break
            lines += block
        return self._cut(lines, most)

    def _next(self, summary: Summary, *, full: bool) -> list[list[str]]:
        """The lines of each step."""
        blocks: list[list[str]] = []
        for step in summary.steps:
            label = "" if blocks else "NEXT"
            shown = step if full else _brief(step)
            blocks.append(self._wrapped(shown, first=f"{label:<{_LABEL}}", rest=" " * _LABEL))
        return blocks

    def _caveats(self, summary: Summary, most: int = 2) -> list[str]:
        """As much of the first caveat as there is room for, and how many more there are."""
        if not summary.caveats or not most:
            return []
        rest = len(summary.caveats) - 1
        others = f" ({rest} more with --full)" if rest else ""
        return self._labelled("CAVEATS", summary.caveats[0], "", full=False, end=others, most=most)

    def _amounts(self, summary: Summary) -> list[str]:
        notes = _numbered(summary.amounts)
        heads = {"change": summary.change, "interval": summary.level}
        choices: Sequence[Sequence[str]] = _CHOICES
        if all(amount.interval == NOT_MEASURED for amount in summary.amounts):
            choices = [[name for name in choice if name != "interval"] for choice in choices]
        for choice, label in product(choices, ("label", "short")):
            head = ("", *(heads.get(name, name) for name in choice), "")
            rows = [
                (
                    _marked(getattr(amount, label), notes.get(amount.label_note)),
                    *(getattr(amount, name) for name in choice),
                    _marked(amount.mark, notes.get(amount.mark_note)),
                )
                for amount in summary.amounts
            ]
            widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
            if max(len(_row(row, widths)) for row in (head, *rows)) <= self._width:
                break
        lines = [self._paint("faint", _row(head, widths))]
        for amount, row in zip(summary.amounts, rows, strict=True):
            line = _row(row, widths)
            mark = row[-1]
            if amount.role is not None and mark:
                line = line[: -len(mark)] + self._paint(amount.role, mark)
            lines.append(line)
        return lines

    def _footnotes(self, summary: Summary) -> list[list[str]]:
        """What has to be said about the figures: for which tasks, what is missing, the notes."""
        notes = [f"({n}) {text}" for text, n in _numbered(summary.amounts).items()]
        # Without a number, which would cost the table its widest columns.
        solved = ", ".join(amount.solved for amount in summary.amounts if amount.solved)
        notes += [f"solved runs: {solved}"] if solved else []
        texts = (summary.scope, summary.missing, "  ".join(notes))
        return [self._wrapped(text) if text else [] for text in texts]

    def _wrapped(self, text: str, *, first: str = "", rest: str = "") -> list[str]:
        """The text in lines no wider than the terminal; a word too wide for one is cut."""
        lines, line, room = [], first, self._width - len(first)
        for word in visible(text).split(" "):
            if columns(word) > room and line.strip(" "):
                lines.append(line.rstrip(" "))
                line, room = rest, self._width - len(rest)
            if not line.strip(" "):
                word = inert_lines(word)
            while columns(word) > room:
                cut = fitting(word, room)
                lines.append(line + word[:cut])
                word = inert_lines(word[cut:])
            line += word + " "
            room -= columns(word) + 1
        return [*lines, line.rstrip(" ")]

    def laid_out(self, table: Table) -> list[str]:
        """A table with its heading and notes."""
        shown = [number for number, column in enumerate(table.columns) if column.brief]
        kinds = [table.columns[number].kind for number in shown]
        cells = [[row[number] for number in shown] for row in table.rows]
        for unit, longest in product(_POINTS, range(_NAME_WIDTH, _SHORTEST_NAME - 1, -1)):
            rows = [_inert([_text(cell, longest, unit) for cell in row]) for row in cells]
            head = _inert(_head([table.columns[n].head for n in shown], min(longest, _HEAD_WIDTH)))
            widths = [max(map(columns, column)) for column in zip(head, *rows, strict=True)]
            if sum(widths) + 2 * len(widths) <= self._width:
                break

        def line(texts: list[str], roles: Sequence[str | None]) -> str:
            parts = []
            for text, width, kind, role in zip(texts, widths, kinds, roles, strict=True):
                pad = " " * (width - columns(text))
                padded = text + pad if kind == "text" else pad + text
                parts.append(self._paint(role, padded) if role else padded)
            return "  " + "  ".join(parts).rstrip()

        lines = [self._paint("strong", text) for text in self._wrapped(table.heading, rest="  ")]
        lines.append(line(head, ["faint"] * len(head)))
        lines += [
            line(texts, [cell.role for cell in row]) for texts, row in zip(rows, cells, strict=True)
        ]
        for note in table.notes:
            lines += self._wrapped(note, first="  ", rest="    ")
        return lines


def _shared_out(wanted: list[int], room: int) -> list[int]:
    """How many lines each part gets: none, then one more in turn, to those that want it."""
    given = [0] * len(wanted)
    while sum(given) < min(room, sum(wanted)):
        for part, lines in enumerate(wanted):
            if given[part] < lines and sum(given) < room:
                given[part] += 1
    return given


def _numbered(amounts: tuple[Amount, ...]) -> dict[str, int]:
    """The footnotes, numbered in the order they come up."""
    notes = (note for amount in amounts for note in (amount.label_note, amount.mark_note) if note)
    return {note: number for number, note in enumerate(dict.fromkeys(notes), 1)}


def _brief(text: str) -> str:
    """A sentence whose names leave room for what it says of them."""
    if not isinstance(text, Sentence):
        return text
    return Sentence(
        [
            Name(shortened(part, _SAID_NAME))
            if isinstance(part, Name) and not isinstance(part, Whole)
            else part
            for part in text.parts
        ]
    )


def _marked(text: str, note: int | None) -> str:
    return text if note is None else f"{text} ({note})".strip()


def _row(cells: Sequence[str], widths: list[int]) -> str:
    first, *figures, mark = cells
    parts = [f"{text:>{width}}" for text, width in zip(figures, widths[1:-1], strict=True)]
    return f"{first:<{widths[0]}}  {'  '.join(parts)}   {mark}".rstrip()


def _inert(cells: list[str]) -> list[str]:
    """The cells of a line, whichever of them it begins with."""
    first = next((at for at, cell in enumerate(cells) if cell.strip()), 0)
    return [*cells[:first], inert_lines(cells[first]), *cells[first + 1 :]]


def _head(heads: Sequence[str | Name], longest: int) -> list[str]:
    """The heads of the columns; names that look alike when cut lose the beginning they share."""
    names = [head for head in heads if isinstance(head, Name)]
    if len({shortened(name, longest) for name in names}) == len(set(names)):
        return [_text(Cell(head), longest) for head in heads]
    differ = (at for at, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1)
    alike = next(differ, min(map(len, names)))
    return [
        _text(Cell(Name(f"…{head[alike:]}") if isinstance(head, Name) else head), longest)
        for head in heads
    ]


def _text(cell: Cell, width: int, points: str = _POINTS[0]) -> str:
    if isinstance(cell.text, Name):
        return shortened(cell.text, width)
    return cell.text.replace(_POINTS[0], points)
