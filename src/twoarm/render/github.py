"""The comment on a pull request, and the annotations of a workflow run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twoarm.quote import WHOLE_NAME, annotation, annotation_property, markdown_code, shortened
from twoarm.render import markdown
from twoarm.render.reading import read

if TYPE_CHECKING:
    from twoarm.analysis import Analysis

# A bot finds its own comment by this line; no name from a record can be in it.
MARKER = "<!-- twoarm report -->"
# GitHub refuses a longer comment.
LONGEST = 65_536
# GitHub shows no more than so many warnings of one step.
MOST_ANNOTATIONS = 10

_ICONS = {"promote": "✅", "do not promote": "❌", "not enough data": "⏳"}


def render(analysis: "Analysis") -> str:
    """Decision, gates and what to do next; the whole report is folded away."""
    reading = read(analysis)
    first = [
        MARKER,
        f"## twoarm: {markdown_code(shortened(analysis.decision, WHOLE_NAME))}",
        f"{_ICONS[reading.verdict]} **{reading.verdict.capitalize()}**: {reading.why}.",
        f"{markdown_code(shortened(analysis.candidate, WHOLE_NAME))} (candidate) against "
        f"{markdown_code(shortened(analysis.baseline, WHOLE_NAME))} (baseline).",
        "\n".join(
            (
                "| gate | difference | standing | how sure |",
                "| --- | --- | --- | --- |",
                *(
                    f"| {amount.label} | {amount.difference}"
                    f"{f' ({amount.figures})' if amount.figures else ''} | {amount.standing} | "
                    f"{amount.interval} |"
                    for amount in reading.amounts
                ),
            )
        ),
        f"**Evidence:** {reading.evidence}.",
        f"**Stability:** {reading.stability}.",
    ]
    if reading.steps:
        numbered = (f"{number}. {step}" for number, step in enumerate(reading.steps, 1))
        first.append("**What to do next**\n\n" + "\n".join(numbered))
    report = markdown.render(analysis)
    folded = _folded(report)
    text = "\n\n".join((*first, folded)) + "\n"
    if len(text.encode()) > LONGEST:
        first.append("The whole report is too long for a comment; `analysis.md` has it.")
        text = "\n\n".join(first) + "\n"
    return text


def _folded(report: str) -> str:
    # The blank lines make GitHub read what is between the tags as Markdown.
    return f"<details>\n<summary>The whole report</summary>\n\n{report}\n</details>"


def annotations(analysis: "Analysis") -> Iterator[str]:
    """Workflow commands: an error if the candidate may not go, a warning for what is in doubt."""
    found = list(_annotations(analysis))
    yield from found[:MOST_ANNOTATIONS]
    if len(found) > MOST_ANNOTATIONS:
        more = f"{len(found) - MOST_ANNOTATIONS} more in the report"
        yield _command("notice", "twoarm", more)


def _annotations(analysis: "Analysis") -> Iterator[str]:
    reading = read(analysis)
    if reading.verdict != "promote":
        level = "error" if reading.verdict == "do not promote" else "warning"
        title = f"twoarm: {shortened(analysis.decision, WHOLE_NAME)}"
        yield _command(level, title, f"{reading.verdict}: {reading.why}")
    for amount in reading.amounts:
        if amount.standing == "worse":
            message = f"{amount.label} is worse: {amount.difference}, {amount.figures}"
            yield _command("warning", "twoarm gate", message)
    for caveat in analysis.caveats:
        yield _command("warning", f"twoarm caveat {caveat.code}", caveat.message)


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title={annotation_property(title)}::{annotation(message)}"
