"""The page people send each other: one file, no network, readable with scripts switched off."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from twoarm.compare.decide import number_of_gates
from twoarm.errors import ExtraError, extra_needed
from twoarm.render.candidates import overview, tested_of
from twoarm.render.chart_points import ChartPoints
from twoarm.render.evidence import report_tables
from twoarm.render.page import gate_charts, run_charts, single_charts, task_charts
from twoarm.render.page.gate_charts import page_label
from twoarm.render.page.head import page_head
from twoarm.render.page.links import FOLDER, INDEX, NO_LINKS, Links, link_charts, task_url
from twoarm.render.page.marks import CONFIG, Chart
from twoarm.render.page.provenance import command, facts
from twoarm.render.summary import Amount, Summary, summarize
from twoarm.render.tables import Cell, Column, Table, words
from twoarm.result.analysis import Analysis, Tool
from twoarm.text.escape import WHOLE_NAME, counted, html, html_script, shortened
from twoarm.text.sentence import Name, Sentence, Whole

# A page with more rows than this opens slowly; the analysis file holds them all.
MOST_ROWS = 1_000
_NAME = 120
# What the first column is called where the terminal leaves its head blank.
_UNNAMED = "metric"
_MARKS = {"promote": "✓", "do not promote": "✗", "not enough data": "…"}
# Tables whose heading a section of charts has as well.
_LINKS = {"gates-table": "Gates as a table"}
_STANDINGS = {"better": "▲ better", "worse": "▼ worse", "~": "~ no clear difference"}


def render(analysis: Analysis, points: ChartPoints, links: Links | None = None) -> str:
    """The whole page; with `links`, its marks and tasks open the pages of their runs."""
    require_extra()
    body, drawn = _parts(analysis, points, links or {})
    return document(
        title=analysis.promotion.verdict,
        first="gates",
        body=body,
        charts=drawn,
        tool=analysis.tool,
    )


def render_several(
    reports: Sequence[tuple[Analysis, ChartPoints]], pages: Links | None = None
) -> str:
    """One page for several candidates: all of them first, then each in detail."""
    require_extra()
    analyses = [analysis for analysis, _ in reports]
    links = "".join(
        f'<li><a href="#c{number}">{html(shortened(analysis.candidate, 60))}</a></li>'
        for number, analysis in enumerate(analyses, 1)
    )
    parts = [
        f'<header class="banner">{_tested(tested_of(analyses))}'
        f"<h1>{html(counted(len(analyses), 'candidate'))} vs. "
        f"{html(shortened(analyses[0].baseline, 60))}</h1>"
        f'<nav aria-label="Candidates"><ul>{links}</ul></nav></header>',
        *map(table_section, overview(analyses)),
    ]
    charts: dict[str, Any] = {}
    for number, (analysis, points) in enumerate(reports, 1):
        body, drawn = _parts(analysis, points, pages or {})
        parts.append(f'<article id="c{number}">{_apart(body, f"c{number}-")}</article>')
        charts |= {f"c{number}-{name}": spec for name, spec in drawn.items()}
    return document(
        title=f"{len(analyses)} candidates",
        first="candidates",
        body="\n".join(parts),
        charts=charts,
        tool=analyses[0].tool,
    )


def _apart(body: str, prefix: str) -> str:
    """The same elements under names of their own. No text can hold a quote that is not escaped."""
    body = body.replace(' id="chart-', f' \0id="chart-{prefix}')
    body = body.replace(' id="', f' id="{prefix}').replace(' href="#', f' href="#{prefix}')
    return body.replace("\0", "")


def _parts(analysis: Analysis, points: ChartPoints, links: Links) -> tuple[str, dict[str, Any]]:
    """What stands on the page of one candidate, and its charts."""
    summary = summarize(analysis)
    first = gate_charts.changes(summary)
    gates = list(gate_charts.forest(analysis))
    singles = list(single_charts.single_tasks(analysis))
    tasks = [task_charts.successes(points), *task_charts.deltas(points)]
    spreads = list(run_charts.spreads(analysis, points))
    runs = [run_charts.costs(analysis, points), run_charts.timeline(analysis, points)]
    tables = [*report_tables(analysis, MOST_ROWS), _caveats(analysis)]
    body = "\n".join(
        (
            _banner(analysis, summary, first),
            _contents(summary, tables, links),
            section(
                "gates",
                f"The {number_of_gates()}",
                "Each gate compares one number between the two arms. The mark is the difference; a "
                "bar is its interval, for the tasks it names. A bar that crosses zero means that "
                "there may be no difference; its mark is gray.",
                figures(gates, "thirds"),
            ),
            section(
                "tasks-chart",
                "Task by task",
                "What the candidate changed in each task.",
                (figures(singles, "thirds") if singles else "") + figures(tasks),
            ),
            section(
                "runs-chart",
                "Run by run",
                "How the runs of each arm spread, what they cost, and when they started.",
                figures(spreads, "thirds") + figures(runs),
            ),
            *(table_section(table, links) for table in tables),
            _provenance(analysis),
        )
    )
    link_charts((*tasks, *spreads, *runs), points, links)
    drawn = {
        chart.name: chart.spec
        for chart in (first, *gates, *singles, *tasks, *spreads, *runs)
        if chart.spec is not None
    }
    return body, drawn


def _caveats(analysis: Analysis) -> Table:
    return Table(
        name="caveats",
        heading="Caveats",
        columns=(Column("what to know", "text"), Column("code", "text")),
        rows=tuple(
            (words(caveat.message), words(Name(caveat.code))) for caveat in analysis.caveats
        ),
        notes=() if analysis.caveats else ("None.",),
    )


def sentence_html(text: str) -> str:
    """A sentence in HTML: its names are code elements."""
    parts = text.parts if isinstance(text, Sentence) else (text,)
    return "".join(
        f"<code>{html(shortened(part, WHOLE_NAME if isinstance(part, Whole) else 60))}</code>"
        if isinstance(part, Name)
        else html(part)
        for part in parts
    )


def document(*, title: str, first: str, body: str, charts: dict[str, Any], tool: Tool) -> str:
    """A whole page: its style, its scripts, the charts they draw, and a policy that allows no more.

    `first` is the part that a reader with a keyboard may skip to.
    """
    scripts = _scripts()
    payload = html_script(msgspec.json.encode({"config": CONFIG, "charts": charts}).decode())
    return f"""{page_head(f"twoarm: {title}", _text_of("style.css"), scripts)}
<body>
<a class="skip" href="#{first}">Skip to the {first}</a>
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


def _banner(analysis: Analysis, summary: Summary, chart: Chart) -> str:
    verdict = summary.verdict
    candidate, baseline = (
        html(shortened(arm, 60)) for arm in (summary.candidate, summary.baseline)
    )
    fails = f"; {html(summary.fails)}" if summary.fails else ""
    why = f": {sentence_html(summary.why)}" if summary.why else ""
    steps = "".join(f"<li>{_capital(sentence_html(step))}.</li>" for step in summary.steps)
    steps = f"<section><h2>Next</h2><ol>{steps}</ol></section>" if steps else ""
    # Below the figures: on a phone, these are to be on the first screen.
    failed = (
        f'<dl class="lines"><dt>Failed</dt><dd>{html(summary.failed)}</dd></dl>'
        if summary.failed
        else ""
    )
    broken = (
        f"<dt>Broken</dt><dd>{sentence_html(summary.broken)}</dd>"
        if summary.broken is not None
        else ""
    )
    return f"""<header class="banner {verdict.replace(" ", "-")}">
{_tested(summary.tested)}
<p class="faint">{candidate} (candidate) vs. {baseline} (baseline): {html(summary.overview)}.</p>
<h1>{_MARKS[verdict]} {html(verdict.capitalize())}</h1>
<dl class="lines">
<dt>Promote</dt><dd>{sentence_html(summary.promote)}{html(summary.others)}</dd>
<dt>Decision</dt><dd>{html(summary.decision)}{why}{fails}</dd>
<dt>Evidence</dt><dd>{sentence_html(summary.evidence)}</dd>
{broken}
<dt>Caveats</dt><dd id="first-caveat">{_first_caveat(analysis, summary)}</dd>
</dl>
<div class="first">
<div>{amounts(summary)}</div>
{_figure(chart)}
</div>
{failed}
<div class="facts">
{steps}
<section><h2>Stability</h2><p>{html(summary.stability)}.</p></section>
</div>
<noscript><p>Scripts are off, so no chart is drawn. The text under each heading and the tables
say the same.</p></noscript>
</header>"""


def _tested(tested: Sentence | None) -> str:
    """What was tested, if anybody knows."""
    if tested is None:
        return ""
    return f'<p class="faint">{_capital(sentence_html(tested))}.</p>'


def _first_caveat(analysis: Analysis, summary: Summary) -> str:
    """What should be known first, and a way to the others."""
    if not summary.caveats:
        return "none" if not analysis.caveats else '<a href="#caveats">said above</a>'
    caveat = f'<span class="clamped">{sentence_html(summary.caveats[0])}</span>'
    rest = len(analysis.caveats) - 1
    more = f' <a href="#caveats">and {html(counted(rest, "more caveat"))}</a>' if rest else ""
    return f"{caveat}{more}"


def _contents(summary: Summary, tables: list[Table], pages: Links) -> str:
    """What the colors mean, and where everything is."""
    candidate, baseline = (
        html(shortened(arm, 60)) for arm in (summary.candidate, summary.baseline)
    )
    links = "".join(
        f'<li><a href="#{table.name}">{html(_LINKS.get(table.name, table.heading.split(":")[0]))}'
        "</a></li>"
        for table in tables
    )
    runs = f'<li><a href="{FOLDER}/{INDEX}">Runs, flips first</a></li>' if pages else ""
    return f"""<ul class="legend">
<li>{_SYMBOLS["candidate"]}{candidate}, the candidate, or what favors it</li>
<li>{_SYMBOLS["baseline"]}{baseline}, the baseline, or what favors it</li>
<li>{_SYMBOLS["tied"]}no clear difference</li>
</ul>
<nav aria-label="Sections"><ul>
<li><a href="#gates">Gates</a></li>
<li><a href="#tasks-chart">Task by task</a></li>
<li><a href="#runs-chart">Run by run</a></li>
{links}{runs}
<li><a href="#provenance">Provenance</a></li>
</ul></nav>"""


def amounts(summary: Summary) -> str:
    """The figures of the summary, a row per gate."""
    rows = "".join(map(_amount, summary.amounts))
    heads = ("", "candidate", "baseline", summary.change, summary.level, "")
    head = "".join(f'<th scope="col">{html(text)}</th>' for text in heads)
    below = "".join(
        f'<p class="how">{html(text)}</p>' for text in (summary.scope, summary.missing) if text
    )
    return (
        '<div class="scroll"><table class="amounts"><thead><tr>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>{below}"
    )


_SYMBOLS = {
    "candidate": '<svg viewBox="0 0 14 14" aria-hidden="true" class="candidate">'
    '<circle cx="7" cy="7" r="6"/></svg>',
    "baseline": '<svg viewBox="0 0 14 14" aria-hidden="true" class="baseline">'
    '<rect x="1" y="1" width="12" height="12"/></svg>',
    "tied": '<svg viewBox="0 0 14 14" aria-hidden="true" class="tied">'
    '<path d="M7 0L14 7L7 14L0 7Z"/></svg>',
}


def _amount(amount: Amount) -> str:
    about = f'<span class="small">{html(amount.label_note)}</span>' if amount.label_note else ""
    mark = _STANDINGS.get(amount.mark, amount.mark)
    note = f'<span class="small">{html(amount.notes)}</span>' if amount.notes else ""
    figures = "".join(
        f'<td class="number">{html(text)}</td>'
        for text in (amount.candidate, amount.baseline, amount.change)
    )
    return (
        f'<tr><th scope="row">{html(page_label(amount))}{about}</th>{figures}'
        f'<td class="number">{html(amount.interval)}</td>'
        f'<td class="{amount.role or "tied"}">{html(mark)}{note}</td></tr>'
    )


def section(name: str, heading: str, intro: str, content: str) -> str:
    """A part of the page under a heading, and how to read it."""
    return (
        f'<section id="{name}"><h2>{html(heading)}</h2><p class="how">{html(intro)}</p>'
        f"{content}</section>"
    )


def figures(drawn: Iterable[Chart], kind: str = "") -> str:
    """Charts side by side."""
    return f'<div class="charts {kind}">{"".join(map(_figure, drawn))}</div>'


def _figure(chart: Chart) -> str:
    how = f'<p class="how">{html(_capital(chart.how))}</p>' if chart.how else ""
    place = ""
    if chart.spec is not None:
        place = (
            f'<div class="chart" id="chart-{chart.name}" role="img" '
            f'aria-label="{html(chart.shows)}"></div>'
        )
    # In words only where nothing is drawn: screen readers read out the label of a chart.
    shows = f'<p class="shows">{sentence_html(chart.shows)}</p>'
    if chart.spec is not None:
        shows = f"<noscript>{shows}</noscript>"
    return (
        f'<figure class="card{" wide" if chart.wide else ""}"><figcaption>'
        f"<h3>{html(_capital(chart.heading))}</h3>{how}</figcaption>{place}{shows}</figure>"
    )


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def table_section(table: Table, links: Links = NO_LINKS) -> str:
    """A table that can be sorted, under its heading."""
    notes = "".join(f'<p class="how">{sentence_html(note)}</p>' for note in table.notes)
    if not table.rows:
        return f'<section id="{table.name}"><h2>{html(table.heading)}</h2>{notes}</section>'
    head = "".join(
        f'<th scope="col" class="{column.kind}"><button type="button">'
        f"{html(shortened(column.head or _UNNAMED, 40))}</button></th>"
        for column in table.columns
    )
    rows = "\n".join(
        f"<tr>{''.join(_cell(*cell, links) for cell in zip(row, table.columns, strict=True))}</tr>"
        for row in table.rows
    )
    tall = " tall" if len(table.rows) > 40 else ""
    return (
        f'<section id="{table.name}"><h2>{html(table.heading)}</h2>{notes}'
        f'<div class="scroll{tall}" role="region" tabindex="0" aria-label="{html(table.heading)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div></section>"
    )


def _cell(cell: Cell, column: Column, links: Links) -> str:
    key = "" if cell.key is None else f' data-key="{html(str(cell.key))}"'
    shown = (
        html(shortened(cell.text, _NAME))
        if isinstance(cell.text, Name)
        else sentence_html(cell.text)
    )
    url = task_url(links, cell.text) if column.head == "task" else None
    if url is not None:
        shown = f'<a href="{html(url)}">{shown}</a>'
    role = f" {cell.role}" if cell.role else ""
    return f'<td class="{column.kind}{role}"{key}>{shown}</td>'


def _provenance(analysis: Analysis) -> str:
    entries = "".join(
        f"<dt>{html(name)}</dt><dd>{html(value)}</dd>" for name, value in facts(analysis)
    )
    made = command(analysis)
    again = (
        f"<p>The same input and options give the same numbers:</p><pre><code>{html(made)}"
        "</code></pre>"
        if made is not None
        else "<p>The runs came from memory, so no command can read them again.</p>"
    )
    return (
        '<section id="provenance"><h2>Provenance</h2><div class="card">'
        f"<dl>{entries}</dl>{again}</div></section>"
    )


def require_extra() -> None:
    """Say what is not installed, before a chart is drawn with it."""
    _scripts()


@cache
def _scripts() -> tuple[str, str]:
    """Vega with all it needs, from the installed package, and the page's own script."""
    try:
        import vl_convert
    except ImportError as error:
        raise ExtraError(extra_needed("the page", str(error.name), "html")) from error
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
