"""The report as a notebook shows it: the summary and the gates, without script or style sheet."""

from twoarm.render.html import amounts, sentence_html
from twoarm.render.summary import summarize
from twoarm.result.analysis import Analysis
from twoarm.text.escape import counted, html, shortened

_NAME = 60


def render(analysis: Analysis) -> str:
    """One HTML element; every name in it is escaped."""
    summary = summarize(analysis)
    arms = " vs. ".join(
        f"<b>{html(shortened(arm, _NAME))}</b> ({role})"
        for arm, role in ((summary.candidate, "candidate"), (summary.baseline, "baseline"))
    )
    fails = f"; {html(summary.fails)}" if summary.fails else ""
    why = f": {sentence_html(summary.why)}" if summary.why else ""
    lines = (
        ("Promote", sentence_html(summary.promote)),
        ("Decision", html(shortened(summary.decision, _NAME + len("prefer "))) + why + fails),
        ("Evidence", sentence_html(summary.evidence)),
        ("Caveats", html(counted(len(analysis.caveats), "caveat"))),
    )
    listed = "<br>".join(f"<b>{label}</b>: {text}" for label, text in lines)
    return f"<div><p>{arms}: {html(summary.overview)}</p><p>{listed}</p>{amounts(summary)}</div>"
