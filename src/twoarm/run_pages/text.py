"""A run for a terminal: what its page shows, in plain lines."""

from collections.abc import Iterator
from textwrap import wrap

from twoarm.programs.entry import Entry, Excerpt
from twoarm.render.text import Paint, plain
from twoarm.run_pages.page import about_entry, facts_of, outcome_of
from twoarm.run_pages.view import RunView, diff_roles
from twoarm.text.escape import inert_lines, shortened, visible, visible_lines


def render(view: RunView, width: int, paint: Paint = plain) -> str:
    """Everything there is to see of a run; what it wrote keeps its lines, however wide."""
    return inert_lines("\n".join(_lines(view, width, paint))) + "\n"


def _lines(view: RunView, width: int, paint: Paint) -> Iterator[str]:
    record = view.record
    task, arm = shortened(record.task_id, 120), shortened(record.arm, 120)
    yield f"{task}, repeat {record.repeat}, {arm}: {outcome_of(record)}"
    facts = "; ".join(f"{name} {visible(value)}" for name, value in facts_of(record))
    for sentence in (*map(visible, view.why), facts):
        yield from _folded(sentence, width, "  ")
    if view.missing:
        yield f"nothing to show: {visible(view.missing)}"
    if view.prompt is not None:
        yield from _titled("PROMPT", view.prompt)
    entries = view.entries
    if entries is not None:
        yield "WHAT IT DID"
        number = 0
        for number, entry in enumerate(entries.first, 1):
            yield from _entry(number, entry, width)
        if entries.left_out:
            yield f"  ... {entries.left_out:,} events left out ..."
        for more, entry in enumerate(entries.last, number + entries.left_out + 1):
            yield from _entry(more, entry, width)
        if entries.last_words is not None:
            yield from _titled("LAST WORDS", entries.last_words)
    for log in view.logs:
        yield from _titled(log.label.upper(), log.text, paint if log.is_diff else None)
    for path in view.files:
        yield f"file: {visible(path)}"


def _titled(title: str, text: Excerpt, paint_diff: Paint | None = None) -> Iterator[str]:
    yield title
    yield from _indented(text, "  ", paint_diff)


def _entry(number: int, entry: Entry, width: int) -> Iterator[str]:
    what = shortened(entry.tool, 120) if entry.kind == "call" else entry.kind
    about = ", ".join(about_entry(entry))
    head = f"{number}. {what}{' FAILED' if entry.failed else ''}{f' ({about})' if about else ''}"
    yield from _folded(head, width, "  ", "     ")
    if entry.text.head.strip():
        yield from _indented(entry.text, "     ")
    if entry.result is not None and (entry.result.head.strip() or entry.result.tail):
        yield "     ->"
        yield from _indented(entry.result, "     ")


def _folded(text: str, width: int, indent: str, more: str | None = None) -> list[str]:
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=more or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indented(text: Excerpt, indent: str, paint_diff: Paint | None = None) -> Iterator[str]:
    if not text.head.strip() and not text.tail:
        yield f"{indent}(empty)"
        return
    for part in (text.head, text.tail):
        if part is text.tail and text.left_out:
            yield f"{indent}... {text.left_out:,} characters left out ..."
        if part.strip():
            lines = visible_lines(part.rstrip("\n")).split("\n")
            if paint_diff is not None:
                roles = diff_roles(lines, inside=part is text.tail)
                lines = [
                    paint_diff(role, line) if role and line else line
                    for role, line in zip(roles, lines, strict=True)
                ]
            yield from (f"{indent}{line}" for line in lines)
