"""The page of a task and repeat: its runs side by side, in one file without scripts."""

import os
from collections.abc import Iterator
from functools import cache
from urllib.parse import quote

import msgspec

from twoarm.programs.entry import Entries, Entry, Excerpt
from twoarm.programs.tokens import Spend
from twoarm.render.page.head import page_head
from twoarm.render.page.links import INDEX
from twoarm.run_pages.view import RunView, diff_roles
from twoarm.runs.record import Line
from twoarm.text.escape import html, shortened
from twoarm.text.number_format import figure
from twoarm.text.sentence import Name, Sentence

NAME = 120
REPORT = '<a href="../report.html#tasks">Report</a>'


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A page: whose it is, how its runs ended, and whether only one of them passed."""

    task_id: str
    repeat: int
    outcome: str
    page: str
    flip: bool


class BlockView(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one task and repeat, the baseline's last; None where an arm has none."""

    task_id: str
    repeat: int
    runs: tuple[RunView | None, ...]
    # The repeats of the task, this one among them.
    neighbors: tuple[Listed, ...]


def render(block: BlockView, at: str) -> str:
    """The whole page, which will stand in the folder `at`."""
    last = len(block.runs) - 1
    names = ["candidate", *(f"candidate-{number}" for number in range(2, last + 1)), "baseline"]
    runs = "".join(
        _run(view, name, at)
        for name, view in zip(names, block.runs, strict=True)
        if view is not None
    )
    repeats = "".join(_neighbor(neighbor, block.repeat) for neighbor in block.neighbors)
    return document(
        f"{shortened(block.task_id, NAME)}, repeat {block.repeat}",
        f'<nav aria-label="Report and repeats of this task"><ul><li>{REPORT}</li>'
        f'<li><a href="{INDEX}">All runs</a></li>{repeats}</ul></nav>\n'
        f'<div class="pair">\n{runs}\n</div>',
    )


def document(title: str, body: str) -> str:
    """A page of its own: no script, no network, nothing but the style of this file."""
    return f"""{page_head(title, _style())}
<body>
<h1>{html(title)}</h1>
{body}
</body>
</html>
"""


def _neighbor(neighbor: Listed, here: int) -> str:
    label = f"repeat {neighbor.repeat}: {html(neighbor.outcome)}"
    if neighbor.repeat == here:
        return f"<li><strong>{label}</strong></li>"
    return f'<li><a href="{html(quote(neighbor.page))}">{label}</a></li>'


def _run(view: RunView, name: str, at: str) -> str:
    record, role = view.record, name.partition("-")[0]
    why = "".join(f"<li>{_sentence(line)}</li>" for line in view.why)
    facts = "".join(f"<dt>{name}</dt><dd>{html(value)}</dd>" for name, value in facts_of(record))
    parts = [
        f'<section class="run {role}" id="{name}"><h2>{_mark(record)} '
        f'{html(shortened(record.arm, NAME))} <span class="faint">({role})</span></h2>',
        f"<ul>{why}</ul><dl>{facts}</dl>",
    ]
    if view.missing:
        parts.append(f'<p class="bad">Nothing to show: {html(view.missing)}.</p>')
    if view.entries is not None:
        parts += _sections(view, view.entries)
    parts += [
        f"<h3>{html(log.label.capitalize())} {_link(log.path, at)}</h3>"
        f"{_pre(log.text, log.is_diff)}"
        for log in view.logs
    ]
    if view.files:
        listing = "".join(f"<li>{_link(path, at)}</li>" for path in view.files)
        parts.append(f'<h3>Files</h3><ul class="files">{listing}</ul>')
    return "".join(parts) + "</section>"


def _sections(view: RunView, entries: Entries) -> Iterator[str]:
    if view.prompt is not None:
        yield f"<h3>Prompt</h3>{_pre(view.prompt)}"
    if entries.last_words is not None:
        yield f"<h3>Last words</h3>{_pre(entries.last_words)}"
    yield "<h3>What it did</h3>"
    if entries.first:
        yield f'<ol class="events">{"".join(map(_entry, entries.first))}</ol>'
    else:
        yield '<p class="faint">Its output does not say.</p>'
    if entries.left_out:
        yield f'<p class="faint">{entries.left_out:,} events left out; the files have them.</p>'
    if entries.last:
        start = len(entries.first) + entries.left_out + 1
        yield f'<ol class="events" start="{start}">{"".join(map(_entry, entries.last))}</ol>'


def _entry(entry: Entry) -> str:
    about = " · ".join(html(part) for part in about_entry(entry))
    name = f"<code>{html(shortened(entry.tool, NAME))}</code>" if entry.kind == "call" else ""
    failed = ' <strong class="bad">failed</strong>' if entry.failed else ""
    kind = "" if entry.kind in ("call", "message") else f'<span class="faint">{entry.kind}</span>'
    result = ""
    if entry.result is not None and (entry.result.head or entry.result.tail):
        is_open = " open" if entry.failed else ""
        result = f"<details{is_open}><summary>result</summary>{_pre(entry.result)}</details>"
    text = _pre(entry.text) if entry.text.head.strip() else ""
    return f'<li>{name}{kind}{failed} <span class="faint">{about}</span>{text}{result}</li>'


def about_entry(entry: Entry) -> Iterator[str]:
    """When an event was, how long it took, and what it spent, as far as is known."""
    if entry.at is not None:
        yield f"at {entry.at:,.1f} s"
    if entry.seconds is not None:
        yield f"took {entry.seconds:,.2f} s"
    if entry.spend is not None:
        yield _spent(entry.spend)


def _spent(spend: Spend) -> str:
    words = ("input", "output", "cache read", "cache write")
    parts = [f"{count:,} {word}" for count, word in zip(spend.counts, words, strict=True) if count]
    return f"{', '.join(parts)} tokens" if parts else "tokens not counted"


def facts_of(record: Line) -> Iterator[tuple[str, str]]:
    """The figures of a run, and what made it."""
    if record.failure in ("missing", "interrupted"):
        return
    yield "duration", figure(record.duration_seconds, "seconds")
    yield "cost", figure(record.total_cost_usd, "usd")
    yield "non-cache tokens", figure(record.non_cache_tokens, "tokens")
    yield "steps", figure(record.step_count, "count")
    yield "tool calls", figure(record.tool_call_count, "count")
    if record.part is not None and record.part > 1:
        # A run that never grew is all of one part.
        yield "part", str(record.part)
    for name in ("model", "agent", "session_id", "started_at_utc"):
        value = getattr(record, name)
        if value:
            yield name.removesuffix("_utc").replace("_", " "), shortened(value, NAME)


def outcome_of(record: Line) -> str:
    """How a run ended, in one word."""
    if record.failure == "infra":
        return "excluded"
    if record.failure in ("missing", "interrupted"):
        return record.failure
    return "passed" if record.success and record.failure != "agent" else "failed"


def _mark(record: Line) -> str:
    outcome = outcome_of(record)
    role = {"passed": "good", "failed": "bad"}.get(outcome, "faint")
    sign = {"passed": "✓", "failed": "✗"}.get(outcome, "-")
    return f'<span class="{role}">{sign} {outcome}</span>'


def _sentence(sentence: Sentence) -> str:
    return "".join(
        f"<code>{html(shortened(part, 300))}</code>" if isinstance(part, Name) else html(part)
        for part in sentence.parts
    )


def _pre(text: Excerpt, is_diff: bool = False) -> str:
    if not text.head.strip() and not text.tail:
        return '<p class="faint">(empty)</p>'
    gap = ""
    if text.left_out:
        gap = f'</pre><p class="faint">… {text.left_out:,} characters left out …</p><pre>'
    head = _lines(text.head, is_diff, inside=False)
    return f"<pre>{head}{gap}{_lines(text.tail, is_diff, inside=True)}</pre>"


def _lines(text: str, is_diff: bool, *, inside: bool) -> str:
    """Lines as they are, those of a diff in their colors."""
    lines = text.split("\n")
    roles = diff_roles(lines, inside=inside) if is_diff else [""] * len(lines)
    return "\n".join(
        f'<span class="{role}">{html(line)}</span>' if role and line else html(line)
        for role, line in zip(roles, lines, strict=True)
    )


def _link(path: str, at: str) -> str:
    """A link to a file of the run; never to anything but a path."""
    target = quote(os.path.relpath(path, at).replace(os.sep, "/"))
    return f'<a href="./{html(target)}">{html(shortened(os.path.basename(path), NAME))}</a>'


@cache
def _style() -> str:
    from importlib.resources import files

    return files("twoarm.render.page").joinpath("run.css").read_text(encoding="utf-8")
