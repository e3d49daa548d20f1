"""The page people send each other: one file, no network, readable with scripts switched off."""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from twoarm.errors import ExtraError
from twoarm.quote import counted, html, html_script, html_sentence, shortened
from twoarm.render import sections
from twoarm.render.page import charts, tables
from twoarm.render.page.charts import Chart
from twoarm.render.page.provenance import command, facts
from twoarm.render.page.tables import Cell, Table
from twoarm.render.reading import Amount, read

if TYPE_CHECKING:
    from twoarm.analysis import Analysis

_MARKS = {"promote": "✓", "do not promote": "✗", "not enough data": "…"}
_STANDINGS = {"better": "▲ better", "worse": "▼ worse"}


def render(analysis: "Analysis") -> str:
    """The whole page."""
    scripts = _scripts()
    forest = list(charts.forest(analysis))
    success, cost, when = (
        charts.successes(analysis),
        charts.costs(analysis),
        charts.timeline(analysis),
    )
    deltas, spreads = list(charts.deltas(analysis)), list(charts.spreads(analysis))
    drawn = [*forest, *deltas, success, *spreads, cost, when]
    body = "\n".join(
        (
            _banner(analysis),
            _section(
                "gates",
                "The three gates",
                "Each gate compares one figure of the two arms. The mark is the difference; a bar "
                "is the range that fits the runs, for the tasks it names. A bar that crosses zero "
                "means that there may be no difference.",
                _figures(forest, "thirds"),
            ),
            _section(
                "tasks-chart",
                "Task by task",
                "What the candidate changed in each task.",
                _figures([success, *deltas]),
            ),
            _section(
                "runs-chart",
                "Run by run",
                "How the runs of each arm spread, what they cost, and when they were made.",
                _figures(spreads, "thirds") + _figures([cost, when]),
            ),
            *(_table(table) for table in tables.tables(analysis)),
            _provenance(analysis),
        )
    )
    payload = _json(
        {
            "config": charts.CONFIG,
            "charts": {chart.name: chart.spec for chart in drawn if chart.spec is not None},
        }
    )
    return _document(analysis, body, payload, scripts)


def _document(analysis: "Analysis", body: str, payload: str, scripts: tuple[str, str]) -> str:
    style = _text_of("style.css")
    hashes = " ".join(map(_hash, scripts))
    # The policy allows what stands in this file, word for word, and nothing else.
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    tool = analysis.tool
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>twoarm: {html(analysis.decision)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#gates">Skip to the gates</a>
<main>
{body}
</main>
<footer class="faint">{html(tool.name)} {html(tool.version)}</footer>
<script type="application/json" id="charts">{payload}</script>
<script type="module">{scripts[0]}</script>
<script type="module">{scripts[1]}</script>
</body>
</html>
"""


def _banner(analysis: "Analysis") -> str:
    reading = read(analysis)
    verdict = reading.verdict
    steps = "".join(f"<li>{html_sentence(step)}</li>" for step in reading.steps)
    amounts = "".join(map(_amount, reading.amounts))
    reasons = "".join(f"<li>{html_sentence(reason)}</li>" for reason in reading.reasons)
    candidate = html(shortened(analysis.candidate, 60))
    baseline = html(shortened(analysis.baseline, 60))
    return f"""<header class="banner {verdict.replace(" ", "-")}">
<p class="faint">{candidate} (candidate) against {baseline} (baseline)</p>
<h1>{html(reading.decision)}</h1>
<p><span class="pill">{_MARKS[verdict]} {verdict}</span> {html_sentence(reading.why)}</p>
<p class="how">{html(sections.overview(analysis))}.</p>
<div class="facts">
<section><h2>By how much</h2><ul class="plain">{amounts}</ul></section>
<section><h2>How sure is that?</h2>
<p><b>Evidence:</b> {html_sentence(reading.evidence)}.</p><ul>{reasons}</ul>
<p><b>Stability:</b> {html_sentence(reading.stability)}.</p></section>
<section><h2>What to do next</h2><ol>{steps}</ol></section>
</div>
<ul class="legend">
<li>{_SYMBOLS["candidate"]}{candidate}, the candidate, or what favours it</li>
<li>{_SYMBOLS["baseline"]}{baseline}, the baseline, or what favours it</li>
<li>{_SYMBOLS["tied"]}no difference</li>
</ul>
<nav aria-label="Sections"><ul>
<li><a href="#gates">Gates</a></li>
<li><a href="#tasks-chart">Task by task</a></li>
<li><a href="#runs-chart">Run by run</a></li>
<li><a href="#deltas">Deltas</a></li>
<li><a href="#arms">Arms</a></li>
<li><a href="#tasks">Tasks</a></li>
<li><a href="#excluded">Excluded</a></li>
<li><a href="#caveats">{html(counted(len(analysis.caveats), "caveat"))}</a></li>
<li><a href="#provenance">Provenance</a></li>
</ul></nav>
<noscript><p>Scripts are off, so no chart is drawn. The text under each heading and the tables
say the same.</p></noscript>
</header>"""


_SYMBOLS = {
    "candidate": '<svg viewBox="0 0 14 14" aria-hidden="true" class="candidate">'
    '<circle cx="7" cy="7" r="6"/></svg>',
    "baseline": '<svg viewBox="0 0 14 14" aria-hidden="true" class="baseline">'
    '<rect x="1" y="1" width="12" height="12"/></svg>',
    "tied": '<svg viewBox="0 0 14 14" aria-hidden="true" class="tied">'
    '<path d="M7 0L14 7L7 14L0 7Z"/></svg>',
}


def _amount(amount: Amount) -> str:
    # The difference says `tied` or `not measured` itself.
    standing = _STANDINGS.get(amount.standing, "")
    figures = f": {html(amount.figures)}" if amount.figures else ""
    interval = f'<span class="small">{html(amount.interval)}</span>' if amount.interval else ""
    return (
        f'<li><span class="big">{html(amount.difference)}</span> '
        f'<span class="{html(amount.standing.replace(" ", "-"))}">{html(standing)}</span>'
        f'<span class="small"><b>{html(_sentence(amount.label))}</b>{figures}</span>'
        f"{interval}</li>"
    )


def _section(name: str, heading: str, intro: str, content: str) -> str:
    return (
        f'<section id="{name}"><h2>{html(heading)}</h2><p class="how">{html(intro)}</p>'
        f"{content}</section>"
    )


def _figures(drawn: Iterable[Chart], kind: str = "") -> str:
    return f'<div class="charts {kind}">{"".join(map(_figure, drawn))}</div>'


def _figure(chart: Chart) -> str:
    how = f'<p class="how">{html(_sentence(chart.how))}</p>' if chart.how else ""
    place = ""
    if chart.spec is not None:
        place = (
            f'<div class="chart" id="chart-{chart.name}" role="img" '
            f'aria-label="{html(chart.shows)}"></div>'
        )
    return (
        f'<figure class="card{" wide" if chart.wide else ""}"><figcaption>'
        f"<h3>{html(_sentence(chart.heading))}</h3>{how}</figcaption>{place}"
        f'<p class="shows">{html_sentence(chart.shows)}</p></figure>'
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _table(table: Table) -> str:
    note = f'<p class="how">{html_sentence(table.note)}</p>' if table.note else ""
    if not table.rows:
        return f'<section id="{table.name}"><h2>{html(table.heading)}</h2>{note}</section>'
    head = "".join(
        f'<th scope="col" class="{kind}"><button type="button">{html(label)}</button></th>'
        for label, kind in table.head
    )
    kinds = [kind for _, kind in table.head]
    rows = "\n".join(f"<tr>{''.join(map(_cell, row, kinds))}</tr>" for row in table.rows)
    tall = " tall" if len(table.rows) > 40 else ""
    return (
        f'<section id="{table.name}"><h2>{html(table.heading)}</h2>{note}'
        f'<div class="scroll{tall}" role="region" tabindex="0" aria-label="{html(table.heading)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div></section>"
    )


def _cell(cell: Cell, kind: str) -> str:
    key = "" if cell.key is None else f' data-key="{html(str(cell.key))}"'
    return f'<td class="{kind}"{key}>{cell.html}</td>'


def _provenance(analysis: "Analysis") -> str:
    entries = "".join(
        f"<dt>{html(name)}</dt><dd>{html(value)}</dd>" for name, value in facts(analysis)
    )
    made = command(analysis)
    again = (
        f"<p>The same input and options give the same figures:</p><pre><code>{html(made)}"
        "</code></pre>"
        if made is not None
        else "<p>The runs came from memory: no command reads them again.</p>"
    )
    return (
        '<section id="provenance"><h2>Provenance</h2><div class="card">'
        f"<dl>{entries}</dl>{again}</div></section>"
    )


def _json(payload: dict[str, object]) -> str:
    import msgspec

    return html_script(msgspec.json.encode(payload).decode())


@cache
def _scripts() -> tuple[str, str]:
    """Vega with all it needs, from the installed package, and the page's own script."""
    try:
        import altair  # noqa: F401
        import vl_convert
    except ImportError as error:
        raise ExtraError(f'the page needs `{error.name}`: pip install "twoarm[html]"') from error
    vega = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_convert.get_vegalite_versions()[-1]
    )
    # Nothing in a script may end its element.
    return tuple(
        text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
        for text in (vega, _text_of("page.js"))
    )  # type: ignore[return-value]


@cache
def _text_of(name: str) -> str:
    from importlib.resources import files

    return files("twoarm.render.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    from base64 import b64encode
    from hashlib import sha256

    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
