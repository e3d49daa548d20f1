"""Why runs failed, in a table."""

from collections.abc import Iterator

from twoarm.explain.failures import FailureGroup, Failures
from twoarm.render.tables import Column, Table, number, words
from twoarm.runs.endings import FAILURE_CODES, FAILURE_WORDS, FailureCode
from twoarm.text.sentence import Name, listed

# How many texts of records a row quotes.
_QUOTED = 3


def failure_tables(failures: Failures) -> Iterator[Table]:
    """A row for each reason, the most frequent first; nothing if no run failed."""
    ours, theirs = ({group.reason: group for group in arm.reasons} for arm in failures.arms)
    rows = []
    for code in sorted(
        ours.keys() | theirs.keys(),
        key=lambda code: (-_runs(ours, code) - _runs(theirs, code), FAILURE_CODES.index(code)),
    ):
        groups = [side[code] for side in (ours, theirs) if code in side]
        passed = [side[code].passed_acceptance if code in side else 0 for side in (ours, theirs)]
        rows.append(
            (
                words(FAILURE_WORDS[code]),
                *(number(f"{_runs(side, code):,}", _runs(side, code)) for side in (ours, theirs)),
                number(" vs. ".join(f"{count:,}" for count in passed), sum(passed)),
                words(listed(_texts(groups), _QUOTED)),
            )
        )
    if not rows:
        return
    heads = [f"{arm.failed:,} of {arm.runs:,}" for arm in failures.arms]
    yield Table(
        name="failures",
        heading=f"Failed runs: {heads[0]} in the candidate, {heads[1]} in the baseline",
        columns=(
            Column("reason", "text"),
            *(Column(Name(arm.arm)) for arm in failures.arms),
            Column("passed acceptance"),
            Column("as the records say", "text", brief=False),
        ),
        rows=tuple(rows),
    )


def _runs(groups: dict[FailureCode, FailureGroup], code: FailureCode) -> int:
    return groups[code].runs if code in groups else 0


def _texts(groups: list[FailureGroup]) -> list[str]:
    """What the records of both arms say, the most frequent first."""
    counts: dict[str, int] = {}
    for group in groups:
        for text in group.texts:
            counts[text.text] = counts.get(text.text, 0) + text.runs
    return sorted(counts, key=lambda text: (-counts[text], text))
