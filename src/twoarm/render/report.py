"""Report: an analysis that can be shown, as text, a page, rows, or what CI systems read.

Each way is imported when it is asked for: most of them are not.
"""

from typing import TYPE_CHECKING, Any

from twoarm.compare.comparison import Comparison
from twoarm.render import text
from twoarm.render.sheet import Sheet
from twoarm.render.sheet import markdown as markdown_of
from twoarm.result.analysis import Analysis

if TYPE_CHECKING:
    from twoarm.render.page.links import Links


class Report(Analysis, frozen=True, kw_only=True):
    """An analysis, with what the charts of its page are drawn from."""

    comparison: Comparison

    def task_rows(self) -> list[dict[str, Any]]:
        """A flat row per task, for a frame."""
        from twoarm.render.flat_rows import task_rows

        return task_rows(self.tasks)

    def pair_rows(self) -> list[dict[str, Any]]:
        """A flat row per pair, for a frame: both runs and every delta."""
        from twoarm.render.flat_rows import pair_rows

        return pair_rows(self.comparison)

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary, the gates and what to do next."""
        from twoarm.render import notebook

        return notebook.render(self)

    def to_text(self, *, full: bool = False, width: int = 80) -> str:
        """The report as the terminal shows it, without color."""
        return self.show(text.Look(full=full, width=width))

    def show(self, look: text.Look) -> str:
        """The report as a terminal of this look shows it."""
        return text.render(self, look)

    def to_markdown(self) -> str:
        """The whole report as Markdown."""
        from twoarm.render import markdown

        return markdown.render(self)

    def to_github(self) -> str:
        """The report as a comment on a pull request."""
        from twoarm.render import github

        return github.render(self)

    def to_junit(self) -> str:
        """The gates and adequacy as test cases, in JUnit XML."""
        from twoarm.render import junit

        return junit.render(self)

    def to_html(self, links: "Links | None" = None) -> str:
        """The report as one self-contained page; needs the extra `twoarm[html]`.

        `links` are the pages of runs, by task and repeat.
        """
        from twoarm.render import html
        from twoarm.render.chart_points import chart_points

        return html.render(self, chart_points(self.comparison), links)


class ShortReport:
    """What is shown as a sheet: text and Markdown."""

    __slots__ = ()

    def sheet(self) -> Sheet:
        """The report as data."""
        raise NotImplementedError

    def show(self, look: text.Look) -> str:
        """The report as a terminal of this look shows it."""
        return text.lay_out_sheet(self.sheet(), look)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from twoarm.render import notebook

        return notebook.render_sheet(self.sheet())

    def to_text(self, *, width: int = 80) -> str:
        """The same without color."""
        return self.show(text.Look(width=width))

    def to_markdown(self) -> str:
        """The report as Markdown."""
        return markdown_of(self.sheet())
