"""The list of run pages: those with flips first, then all others, by task."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from urllib.parse import quote

from twoarm.run_pages.page import NAME, REPORT, Listed, document
from twoarm.text.escape import counted, html, shortened


def render(listed: Sequence[Listed], wanted: int, *, several: bool) -> str:
    """The whole list, of which `wanted` pages were asked for; there may be several candidates."""
    flips = [row for row in listed if row.flip]
    others = [row for row in listed if not row.flip]
    parts = [f'<nav aria-label="Report"><ul><li>{REPORT}</li></ul></nav>']
    if wanted > len(listed):
        more = html(counted(wanted - len(listed), "more page"))
        parts.append(f'<p class="faint">{more} would not fit.</p>')
    heading = f"Flips: {counted(len(flips), 'pair')}, passed in one arm and failed in the other"
    how = "Gained: only the candidate passed. Lost: only the baseline did."
    order = "The candidate comes first."
    if several:
        repeats = counted(len(flips), "repeat")
        heading = f"Flips: {repeats} in which a candidate did not end like the baseline"
        how = "Gained: the candidate passed, the baseline failed. Lost: the other way around."
        order = "The candidates come first."
    parts.append(_section(heading, how, flips) if flips else _section("Flips: none", "", flips))
    if others:
        parts.append(_section("All other runs", order, others))
    return document("Runs", "".join(parts))


def _section(heading: str, how: str, listed: Iterable[Listed]) -> str:
    by_task = groupby(listed, key=lambda row: row.task_id)
    tasks = "".join(
        f'<li>{html(shortened(task, NAME))}<ul class="files">{"".join(map(_item, rows))}</ul></li>'
        for task, rows in by_task
    )
    return (
        f'<section><h2>{html(heading)}</h2><p class="faint">{html(how)}</p>'
        f"<ul>{tasks}</ul></section>"
    )


def _item(row: Listed) -> str:
    return f'<li><a href="{html(quote(row.page))}">repeat {row.repeat}</a> {html(row.outcome)}</li>'
