"""A short report as a page: what it says, a chart, and its tables."""

from twoarm.render.html import document, figures, section, sentence_html, table_section
from twoarm.render.page.marks import Chart
from twoarm.render.sheet import Sheet
from twoarm.text.escape import html


def render(sheet: Sheet, title: str, charts: list[Chart]) -> str:
    """The whole page."""
    lines = "\n".join(
        f"<dt>{html(line.label.capitalize())}</dt><dd>{sentence_html(line.text)}</dd>"
        for line in sheet.lines
    )
    caveats = "".join(f"<li>{sentence_html(caveat)}</li>" for caveat in sheet.caveats)
    known = (
        f'<div class="facts"><section><h2>Caveats</h2><ul>{caveats}</ul></section></div>'
        if caveats
        else ""
    )
    banner = f"""<header class="banner">
<p class="faint">{html(sheet.overview)}.</p>
<h1>{sentence_html(sheet.heading)}</h1>
<dl class="lines">
{lines}
</dl>
{known}
<noscript><p>Scripts are off, so no chart is drawn. The text and the tables say the same.</p>
</noscript>
</header>"""
    drawn = section("chart", "Charts" if len(charts) > 1 else "Chart", "", figures(charts))
    return document(
        title=title,
        first="chart",
        body="\n".join((banner, drawn, *map(table_section, sheet.tables))),
        charts={chart.name: chart.spec for chart in charts if chart.spec is not None},
        tool=sheet.tool,
    )
