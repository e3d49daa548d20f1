"""Report: an analysis that can be shown, as text, a page, or what CI systems read.

Each way is imported when it is asked for: most of them are not.
"""

from twoarm.analysis import Analysis
from twoarm.comparison import Comparison
from twoarm.render import text
from twoarm.render.evidence import Shown


class Report(Analysis, frozen=True, kw_only=True):
    """An analysis, with what the charts of its page are drawn from."""

    comparison: Comparison

    def to_text(self, *, full: bool = False, interval: Shown = "headline", width: int = 80) -> str:
        """The report as the terminal shows it, without color."""
        return text.render(self, text.Look(full=full, interval=interval, width=width))

    def to_markdown(self, *, interval: Shown = "headline") -> str:
        """The whole report as Markdown."""
        from twoarm.render import markdown

        return markdown.render(self, interval)

    def to_github(self) -> str:
        """The report as a comment on a pull request."""
        from twoarm.render import github

        return github.render(self)

    def to_junit(self) -> str:
        """The gates and adequacy as test cases, in JUnit XML."""
        from twoarm.render import junit

        return junit.render(self)

    def to_html(self) -> str:
        """The report as one self-contained page; needs the extra `twoarm[html]`."""
        from twoarm.chart_points import chart_points
        from twoarm.render import html

        return html.render(self, chart_points(self.comparison))
