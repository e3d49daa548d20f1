"""Several candidates against one baseline: an analysis of each, in one file and one report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from twoarm.render.report import Report
from twoarm.render.text import Look
from twoarm.result.analysis import Analysis, Document

if TYPE_CHECKING:
    from twoarm.render.page.links import Links

# 1  2026-11: the first. Within a number, keys are added, never changed or removed.
SCHEMA: Literal["twoarm.comparison/1"] = "twoarm.comparison/1"


class CandidatesFile(Document, frozen=True, kw_only=True):
    """What the file holds."""

    schema: Literal["twoarm.comparison/1"]
    baseline: str
    comparisons: tuple[Analysis, ...]


class Candidates:
    """Each candidate's report; the tests of each allow for looking at all of them."""

    def __init__(self, reports: Sequence[Report]) -> None:
        self.reports = tuple(reports)
        self.baseline = reports[0].baseline

    def __len__(self) -> int:
        return len(self.reports)

    def __repr__(self) -> str:
        names = ", ".join(repr(report.candidate) for report in self.reports)
        return f"<Candidates {names} vs. {self.baseline!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for every candidate, and one for each of its gates."""
        from twoarm.render import notebook

        return notebook.render_several(self.reports)

    def __getitem__(self, candidate: str) -> Report:
        """The report of one candidate."""
        for report in self.reports:
            if report.candidate == candidate:
                return report
        raise KeyError(candidate)

    @property
    def file(self) -> CandidatesFile:
        """The file as a value."""
        analyses = tuple(report.file for report in self.reports)
        return CandidatesFile(schema=SCHEMA, baseline=self.baseline, comparisons=analyses)

    def to_dict(self) -> dict[str, Any]:
        """The file as plain Python values."""
        return self.file.to_dict()

    def to_json(self) -> str:
        """The file as text."""
        return self.file.to_json()

    def to_text(self, *, full: bool = False, width: int = 80) -> str:
        """A row for every candidate and gate; with `full`, each candidate in detail."""
        return self.show(Look(full=full, width=width))

    def show(self, look: Look) -> str:
        """The candidates as a terminal of this look shows them."""
        from twoarm.render import candidates

        return candidates.text(self.reports, look)

    def to_markdown(self) -> str:
        """All candidates, then each in detail, as Markdown."""
        from twoarm.render import candidates

        return candidates.markdown(self.reports)

    def to_github(self) -> str:
        """The candidates as a comment on a pull request."""
        from twoarm.render import candidates

        return candidates.github(self.reports)

    def to_junit(self) -> str:
        """A suite of test cases for each candidate, in JUnit XML."""
        from twoarm.render import junit

        return junit.render(*self.reports)

    def to_html(self, links: "Links | None" = None) -> str:
        """All candidates on one self-contained page; needs the extra `twoarm[html]`."""
        from twoarm.render import html
        from twoarm.render.chart_points import chart_points

        return html.render_several(
            [(report, chart_points(report.comparison)) for report in self.reports], links
        )
