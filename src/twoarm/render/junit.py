"""The gates as test cases, so that any CI shows them: JUnit XML."""

from collections.abc import Iterator

import msgspec

from twoarm.compare.decide import Gate
from twoarm.render.summary import PROMOTED_BY, Amount, Summary, summarize
from twoarm.render.tables import overview, runs_counted
from twoarm.result.analysis import Analysis
from twoarm.result.findings import failed_said
from twoarm.text.escape import counted, xml
from twoarm.text.number_format import NOT_MEASURED, figure

SUITE = "twoarm"
_PROMOTION = {"promote": "passed", "do not promote": "failure", "not enough data": "skipped"}


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One test case: it passed, failed, or could not be judged."""

    name: str
    outcome: str
    message: str
    details: str = ""


def render(*analyses: Analysis) -> str:
    """A suite for each candidate: a test case per gate, one for adequacy, and one for losses if
    there are any; one more for a promotion by anything but the gates."""
    suites = [(analysis, list(cases(analysis))) for analysis in analyses]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="{SUITE}" {_counts([c for _, tested in suites for c in tested])} '
        'time="0">',
        *(line for analysis, tested in suites for line in _suite(analysis, tested)),
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _counts(tested: list[Case]) -> str:
    failures = sum(case.outcome == "failure" for case in tested)
    skipped = sum(case.outcome == "skipped" for case in tested)
    return f'tests="{len(tested)}" failures="{failures}" errors="0" skipped="{skipped}"'


def _suite(analysis: Analysis, tested: list[Case]) -> Iterator[str]:
    when = ""
    if analysis.generated_at_utc is not None:
        when = f' timestamp="{xml(analysis.generated_at_utc.removesuffix("Z"))}"'
    properties = {
        "decision": analysis.decision,
        "promotion": analysis.promotion.verdict,
        "candidate": analysis.candidate,
        "baseline": analysis.baseline,
    }
    for other in analysis.promotion.others:
        properties[f"promotion by {PROMOTED_BY[other.by]}"] = other.verdict
    if any(arm.at_risk for arm in analysis.trials):
        properties["runs"] = runs_counted(analysis)
    if analysis.chosen_tasks is not None:
        properties["tasks"] = overview(analysis)
    for amount in summarize(analysis).amounts:
        if amount.points and amount.gate is None:
            properties[amount.label] = f"{amount.candidate} vs. {amount.baseline}"
    failed = failed_said(analysis.failures)
    if failed is not None:
        properties["failed"] = failed
    yield f'  <testsuite name="{SUITE}" {_counts(tested)} time="0"{when}>'
    yield "    <properties>"
    for name, value in properties.items():
        yield f'      <property name="{name}" value="{xml(value)}"/>'
    yield "    </properties>"
    for case in tested:
        yield from _lines(case)
    yield "  </testsuite>"


def cases(analysis: Analysis) -> Iterator[Case]:
    """What is tested, in the order of the report."""
    by = analysis.options.promote_by
    # A gate that the promotion does not go by cannot fail the build.
    fails = "failure" if by == "gates" else "skipped"
    summary = summarize(analysis)
    for amount in summary.amounts:
        if amount.gate is not None:
            yield Case(
                name=f"gate {amount.gate.rule.label}",
                outcome={True: "passed", False: fails, None: "skipped"}[amount.gate.holds],
                message=_message(amount.gate),
                details=_details(amount, summary),
            )
    adequacy = analysis.adequacy
    short = adequacy.short
    enough = adequacy.status != "below minimum"
    yield Case(
        name="adequacy",
        outcome="passed" if enough else "failure",
        message=f"{counted(short, 'task')} with fewer than {adequacy.minimum_repeats} measured "
        f"repeats in an arm (the fewest: {adequacy.fewest_repeats})",
    )
    withheld = analysis.promotion.withheld
    if withheld or any(arm.at_risk for arm in analysis.trials):
        yield Case(
            name="losses",
            outcome="failure" if withheld else "passed",
            message="; ".join(analysis.promotion.reasons[: len(withheld)])
            or runs_counted(analysis),
        )
    if by != "gates":
        yield Case(
            name=f"promotion by {PROMOTED_BY[by]}",
            outcome=_PROMOTION[analysis.promotion.verdict],
            message="; ".join(analysis.promotion.reasons),
        )


def _message(gate: Gate) -> str:
    unit = gate.rule.metric.unit
    if gate.candidate is None or gate.baseline is None:
        return "not measured in at least one arm"
    return f"{gate.direction}: {figure(gate.candidate, unit)} vs. {figure(gate.baseline, unit)}"


def _details(amount: Amount, summary: Summary) -> str:
    if amount.change == NOT_MEASURED:
        return amount.why
    interval = f", {summary.level} {amount.interval}" if amount.interval != NOT_MEASURED else ""
    moved = f"{summary.change} {amount.change}{interval}"
    return "\n".join(filter(None, (moved, amount.why or summary.scope)))


def _lines(case: Case) -> Iterator[str]:
    opening = f'    <testcase classname="{SUITE}" name="{xml(case.name)}" time="0"'
    body = "\n".join(filter(None, (case.message, case.details)))
    yield f"{opening}>"
    if case.outcome == "passed":
        yield f"      <system-out>{_text(body)}</system-out>"
    else:
        kind = f' type="{case.name.split()[0]}"' if case.outcome == "failure" else ""
        yield (
            f'      <{case.outcome} message="{xml(case.message)}"{kind}>'
            f"{_text(body)}</{case.outcome}>"
        )
    yield "    </testcase>"


def _text(body: str) -> str:
    return "\n".join(map(xml, body.split("\n")))
