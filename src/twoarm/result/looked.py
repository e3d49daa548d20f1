"""Runs that were made after a report on the others: a second look, and how to be sure after it."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.errors import Caveat
from twoarm.evidence.results import Evidence
from twoarm.options import Options
from twoarm.result.step import Step, step
from twoarm.runs.study import Study
from twoarm.text.sentence import Whole

# How often arms that are equal on average have had a false winner by the first, second and third
# look, in percent: the table in docs/plan.md.
_FALSE_WINNERS = (4.7, 9.2, 9.6)
_ORDINALS = {1: "a second look", 2: "a third look"}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier reports with a decision have had of the runs of a folder."""

    looks: int
    # The runs that none of them had.
    new: int
    runs: int
    # The parts that none of them had a run of.
    fresh: tuple[int, ...]


def seen_before(study: Study, parts: Sequence[int] | None) -> Seen | None:
    """What was seen of some parts before they were complete, or of all; None if nothing was.

    The same runs reported on again are the same look, and to judge later parts alone is no look at
    all of them.
    """
    now = {part: count for part, count in study.made.items() if parts is None or part in parts}
    looks = {
        tuple(report.runs.get(part, 0) for part in now)
        for report in study.reports
        if report.decided
    }
    before = [
        look
        for look in looks
        if 0 < sum(look) < sum(now.values())
        and all(earlier or not later for earlier, later in pairwise(look))
    ]
    if study.planned_looks or not before:
        return None
    return Seen(
        looks=len(before),
        new=sum(now.values()) - max(map(sum, before)),
        runs=sum(now.values()),
        fresh=tuple(
            part
            for at, part in enumerate(now)
            if now[part] and not any(look[at] for look in before)
        ),
    )


def looked_caveats(
    comparison: Comparison, evidence: Evidence | None, options: Options
) -> Iterator[Caveat]:
    """That runs were made after a report on the others, and what that does to false winners."""
    if evidence is not None and evidence.looks is not None:
        return
    studies = comparison.runs.studies
    known = [seen_before(study, options.part) for study in studies] or [_told(comparison)]
    for seen in filter(None, known):
        last = len(_FALSE_WINNERS) - 1
        yield Caveat.say(
            "looked_before",
            "{} at these runs: {} of {} came after a report on the others, which turns {}% false "
            "winners into {}{}%",
            _ORDINALS.get(seen.looks, f"look number {seen.looks + 1}"),
            f"{seen.new:,}",
            f"{seen.runs:,}",
            _FALSE_WINNERS[0],
            "at least " if seen.looks > last else "",
            _FALSE_WINNERS[min(seen.looks, last)],
        )


def _told(comparison: Comparison) -> Seen | None:
    """The same by what the records say, where nobody knows their folder."""
    rows = np.concatenate([arm.rows for arm in comparison.screening.arms])
    counts = comparison.runs.looked_before[rows]
    if not len(counts) or counts.min() == counts.max():
        return None
    last = counts.max()
    return Seen(
        looks=int(last - counts.min()), new=int((counts == last).sum()), runs=len(counts), fresh=()
    )


def score_alone(
    comparison: Comparison, evidence: Evidence | None, options: Options
) -> Iterator[Step]:
    """How to judge the runs that nobody has seen, where they are enough to be judged alone."""
    if options.part is not None or (evidence is not None and evidence.looks is not None):
        return
    for study in comparison.runs.studies:
        seen = seen_before(study, None)
        if seen is None or not seen.fresh or not _enough(comparison, seen.fresh):
            continue
        parts = ",".join(map(str, seen.fresh))
        words = ["twoarm", "score", study.path, "--part", parts]
        yield step(
            "score_new_part",
            "to be sure, judge the new runs alone: {}",
            Whole(shlex.join(words)),
        )


def _enough(comparison: Comparison, parts: Sequence[int]) -> bool:
    """Whether every task of these parts has the repeats in both arms that a promotion takes."""
    runs = comparison.runs
    counts = []
    for arm in comparison.screening.arms:
        rows = arm.rows[np.isin(runs.part[arm.rows], parts)]
        counts.append(np.bincount(runs.task[rows], minlength=len(runs.tasks)))
    ours, theirs = counts
    tasks = (ours + theirs) > 0
    return bool(tasks.any()) and int(np.minimum(ours, theirs)[tasks].min()) >= (
        comparison.adequacy.minimum_repeats
    )
