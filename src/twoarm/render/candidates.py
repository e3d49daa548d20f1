"""Several candidates against one baseline: a row for each and each of its gates, then details."""

from collections.abc import Iterator, Sequence

from twoarm.compare.decide import number_of_gates
from twoarm.compare.trials import Trials
from twoarm.render import github as comment
from twoarm.render import markdown as pages
from twoarm.render.evidence import level
from twoarm.render.summary import ANSWERS, PROMOTED_BY, others_said, summarize
from twoarm.render.tables import Cell, Column, Table, number, of_planned, why_lost, words
from twoarm.render.text import Look, lay_out, render
from twoarm.result.analysis import Analysis
from twoarm.result.findings import DIFFERS, NOT_HOW_MUCH
from twoarm.result.promote import here
from twoarm.result.tested import tested_said, tested_together
from twoarm.runs.study import STOPPED_FOR
from twoarm.text.escape import WHOLE_NAME, counted, counted_tasks, html, inert_lines, shortened
from twoarm.text.number_format import NOT_MEASURED
from twoarm.text.sentence import Name, Sentence, joined, listed, say


def overview(analyses: Sequence[Analysis]) -> tuple[Table, Table]:
    """Whether each candidate may be promoted, and what its gates show."""
    return _promotions(analyses), _gates(analyses)


def tested_of(analyses: Sequence[Analysis]) -> Sentence | None:
    """What all of them were tested on, in one line; None if nobody knows."""
    return tested_said(tested_together([analysis.tested for analysis in analyses]))


def _promotions(analyses: Sequence[Analysis]) -> Table:
    by = PROMOTED_BY[analyses[0].options.promote_by]
    lost = any(arm.lost for analysis in analyses for arm in analysis.trials)
    return Table(
        name="candidates",
        heading=f"May each be promoted, by {by}?",
        columns=(
            Column("candidate", "text"),
            Column("promote", "text"),
            Column("decision", "text"),
            Column("evidence", "text"),
            *((Column("planned runs"),) if lost else ()),
            Column("why", "text", brief=False),
        ),
        rows=tuple(
            (
                words(Name(analysis.candidate)),
                Cell(
                    ANSWERS[analysis.promotion.verdict],
                    analysis.promotion.verdict,
                    {"promote": "good", "do not promote": "bad"}.get(analysis.promotion.verdict),  # type: ignore[arg-type]
                ),
                words(Name(analysis.decision)),
                words(
                    NOT_MEASURED if analysis.evidence is None else analysis.evidence.grade.verdict
                ),
                *((_counted(analysis.trials[0]),) if lost else ()),
                words(joined(analysis.promotion.reasons, "; ")),
            )
            for analysis in analyses
        ),
        notes=(
            *_stopped(analyses),
            *map(_other_ways, (a for a in analyses if a.promotion.others)),
            *(_of_the_baseline(analyses) if lost else ()),
            *_serious(analyses),
        ),
    )


def _stopped(analyses: Sequence[Analysis]) -> Iterator[Sentence]:
    """Where the run ended early, why for each candidate, and what that saved."""
    why = []
    for analysis in analyses:
        looks = None if analysis.evidence is None else analysis.evidence.looks
        if looks is not None and looks.stopped is not None:
            why.append(say("{}: {}", Name(analysis.candidate), STOPPED_FOR[looks.stopped]))
            where = f"{looks.after} of {counted(looks.r_max, 'repeat')}"
            saved = f"{looks.saved_runs:,} of {counted(looks.planned_runs, 'run')}"
    if why:
        yield say("The run stopped after {}: {}; {} saved.", where, joined(why, "; "), saved)


def _serious(analyses: Sequence[Analysis]) -> Iterator[Sentence]:
    """What to know before any of it is quoted, and of which candidates it holds."""
    serious: dict[Sentence, list[str]] = {}
    for analysis in analyses:
        for caveat in analysis.caveats:
            if caveat.severity == "serious":
                serious.setdefault(caveat.message, []).append(analysis.candidate)
    for message, candidates in serious.items():
        whose = say("{}: ", listed(candidates)) if len(candidates) < len(analyses) else ""
        yield say("Caveat: {}{}.", whose, message)


def _of_the_baseline(analyses: Sequence[Analysis]) -> Iterator[Sentence]:
    """How many of its planned runs are counted, which may depend on the candidate beside it."""
    trials: dict[Trials, list[str]] = {}
    for analysis in analyses:
        trials.setdefault(analysis.trials[1], []).append(analysis.candidate)
    for baseline, candidates in trials.items():
        beside = say(" beside {}", listed(candidates)) if len(trials) > 1 else ""
        why = f": {', '.join(why_lost([baseline]))}" if baseline.lost else ""
        counts = of_planned(baseline)
        yield say("Of the baseline, {} planned runs are counted{}{}.", counts, beside, why)


def _other_ways(analysis: Analysis) -> Sentence:
    """What other ways to promote would say of a candidate."""
    others = others_said(analysis.promotion).removeprefix("; ")
    return say("{}, {}", Name(analysis.candidate), others)


def _counted(arm: Trials) -> Cell:
    why = f" ({', '.join(why_lost([arm]))})" if arm.lost else ""
    return number(f"{of_planned(arm)}{why}", arm.counted / arm.planned if arm.planned else None)


def _gates(analyses: Sequence[Analysis]) -> Table:
    first = analyses[0].evidence
    rows: list[tuple[Cell, ...]] = []
    for analysis in analyses:
        for amount in summarize(analysis).amounts:
            if amount.gate is None:
                continue
            rows.append(
                (
                    words(Name(analysis.candidate)),
                    words(amount.label),
                    number(amount.change, None),
                    number(amount.interval, None),
                    Cell(amount.mark, amount.mark, amount.role),
                )
            )
    note = (
        f"Better and worse allow for looking at {len(analyses)} candidates and {number_of_gates()} "
        f"at once; ~ is no clear difference. Intervals are for each row alone{_whose(analyses)}."
    )
    if any(row[-1].text == DIFFERS for row in rows):
        note += f" Where a row {DIFFERS}, {NOT_HOW_MUCH}."
    return Table(
        name="candidates-gates",
        heading="Every candidate and gate",
        columns=(
            Column("candidate", "text"),
            Column("gate", "text"),
            Column("mean change"),
            Column(level(first) if first is not None else "interval"),
            Column("clear?", "text"),
        ),
        rows=tuple(rows),
        notes=(note,) if first is not None else (),
    )


def _whose(analyses: Sequence[Analysis]) -> str:
    """Which tasks all intervals are for; nothing where candidates differ in that."""
    scopes = set()
    for analysis in analyses:
        evidence = analysis.evidence
        if evidence is not None and evidence.tasks:
            count = counted_tasks(evidence.tasks, evidence.families)
            like = evidence.headline == "tasks_like_these"
            scopes.add(f"tasks like these ({count})" if like else f"{here(evidence)} only")
    return f", and for {scopes.pop()}" if len(scopes) == 1 else ""


def text(analyses: Sequence[Analysis], look: Look) -> str:
    """For a terminal."""
    count = counted(len(analyses), "candidate")
    baseline = shortened(analyses[0].baseline, max(look.width - len(count) - 16, 20))
    heading = f"{count} vs. {inert_lines(baseline)} (baseline)"
    lines = lay_out(tested_of(analyses), heading, overview(analyses), look)
    if look.full:
        for analysis in analyses:
            lines += ["", "", render(analysis, look).rstrip("\n")]
    else:
        lines += ["", "Each candidate in detail: --full, or --candidate with its name."]
    return "\n".join(lines) + "\n"


def markdown(analyses: Sequence[Analysis]) -> str:
    """The overview, then each report."""
    return "\n\n".join((*_opening(analyses), *(pages.render(analysis) for analysis in analyses)))


def _opening(analyses: Sequence[Analysis]) -> list[str]:
    """What was tested, and the overview."""
    tested = tested_of(analyses)
    first = [] if tested is None else [f"{tested}."]
    return [*first, *(pages.laid_out(table) for table in overview(analyses))]


def github(analyses: Sequence[Analysis]) -> str:
    """A comment: the overview; each report is folded away as long as there is room."""
    first = "\n\n".join((comment.MARKER, *_opening(analyses)))
    whole = first
    for analysis in analyses:
        folded = comment.folded(
            pages.render(analysis), html(shortened(analysis.candidate, WHOLE_NAME))
        )
        if len(f"{whole}\n\n{folded}\n".encode()) > comment.LONGEST:
            return f"{first}\n\nThe full reports are too long for a comment; see the files.\n"
        whole = f"{whole}\n\n{folded}"
    return f"{whole}\n"
