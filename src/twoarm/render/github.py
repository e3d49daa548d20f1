"""The comment on a pull request, and the annotations of a workflow run."""

from collections.abc import Iterator

from twoarm.render import markdown
from twoarm.render.summary import promotion_said, summarize
from twoarm.result.analysis import Analysis
from twoarm.text.escape import WHOLE_NAME, annotation, annotation_property, shortened
from twoarm.text.number_format import figure

# A bot finds its own comment by this line; no name from a record can be in it.
MARKER = "<!-- twoarm report -->"
# GitHub refuses a comment of more than 65,536 characters, and `twoarm comment` adds a line.
LONGEST = 65_000
# GitHub shows no more than this many warnings for a step.
MOST_ANNOTATIONS = 10
# How many caveats stand outside of the folded report.
CAVEATS = 3


def render(analysis: Analysis) -> str:
    """The summary; the whole report is folded away."""
    summary = summarize(analysis)
    first = [MARKER, *markdown.first_screen(summary)]
    if summary.caveats:
        listed = "\n".join(f"- {caveat}" for caveat in summary.caveats[:CAVEATS])
        first.append(f"**Caveats** ({len(summary.caveats)})\n{listed}")
    text = "\n\n".join((*first, folded(markdown.render(analysis), "Full report"))) + "\n"
    if len(text.encode()) > LONGEST:
        first.append("The full report is too long for a comment; see `analysis.md`.")
        text = "\n\n".join(first) + "\n"
    return text


def marker(key: str | None) -> str:
    """The first line of a comment, where a pull request has several."""
    return MARKER if key is None else f"<!-- twoarm report {key} -->"


def folded(report: str, title: str) -> str:
    """A report that opens when its title is clicked."""
    # The blank lines make GitHub read what is between the tags as Markdown.
    return f"<details>\n<summary>{title}</summary>\n\n{report}\n</details>"


def annotations(analysis: Analysis) -> Iterator[str]:
    """Workflow commands: an error if the candidate is not promoted, a warning for doubts."""
    commands = list(_annotations(analysis))
    yield from commands[:MOST_ANNOTATIONS]
    if len(commands) > MOST_ANNOTATIONS:
        more = f"{len(commands) - MOST_ANNOTATIONS} more in the report"
        yield _command("notice", "twoarm", more)


def _annotations(analysis: Analysis) -> Iterator[str]:
    promotion = analysis.promotion
    if promotion.verdict != "promote":
        level = "error" if promotion.verdict == "do not promote" else "warning"
        title = f"twoarm: {shortened(analysis.decision, WHOLE_NAME)}"
        yield _command(level, title, promotion_said(promotion))
    for gate in analysis.gates:
        if gate.standing == "worse":
            unit = gate.rule.metric.unit
            figures = f"{figure(gate.candidate, unit)} vs. {figure(gate.baseline, unit)}"
            yield _command(
                "warning", "twoarm gate", f"{gate.rule.label} is {gate.direction}: {figures}"
            )
    for caveat in analysis.caveats:
        # A warning with every promotion would not be read when it matters.
        calm = promotion.verdict == "promote" and caveat.severity != "serious"
        yield _command(
            "notice" if calm else "warning", f"twoarm caveat {caveat.code}", caveat.message
        )


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={annotation_property(title)}::{annotation(message)}"
