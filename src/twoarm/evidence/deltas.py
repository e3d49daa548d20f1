"""What the pairs support about one metric: mean, median, ratio, with every interval."""

import math

import msgspec
from msgspec.structs import replace

from twoarm import column
from twoarm.evidence import means, medians
from twoarm.evidence.cells import Pairs
from twoarm.evidence.interval import (
    FLAT_BOOTSTRAP,
    NO_PAIRS,
    NOTHING_TO_RESAMPLE,
    SIX,
    BootstrapEstimate,
    Estimate,
    Frame,
    Interval,
    Scope,
    between,
    no_width,
)
from twoarm.evidence.permute import P, holm, labels_within_tasks, signs_of_tasks
from twoarm.evidence.resample import (
    ALL_UP_TO,
    Resamples,
    every_resample,
    resample_tasks,
    shared_resamples,
)
from twoarm.metric import SUCCESS


class DeltaEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the pairs support about one metric; a ratio of 1 is no change."""

    pairs: int
    mean: BootstrapEstimate
    median: BootstrapEstimate
    ratio: Estimate | None
    p: P


def weigh_deltas(pairs: Pairs, frame: Frame) -> DeltaEvidence:
    """All intervals and tests of one metric; `holm` is left to `with_holm`."""
    if pairs.metric is SUCCESS:
        mean = _success_mean(pairs, frame)
    else:
        mean = means.mean_estimate(pairs, frame)
    resamples = shared_resamples(len(pairs.sizes), frame)
    bootstrap, reason = _bootstrap_mean(pairs, frame, resamples)
    grouped = pairs.grouped
    these = medians.these_tasks(grouped, frame)
    like = medians.tasks_like_these(grouped, frame, resamples)
    # From six tasks on, the interval over tasks is the bootstrap itself.
    same = len(pairs.sizes) >= SIX
    drawn = like if same else medians.bootstrap(grouped, frame, resamples)
    return DeltaEvidence(
        pairs=len(pairs),
        mean=BootstrapEstimate(
            estimate=mean.estimate,
            these_tasks=mean.these_tasks,
            tasks_like_these=mean.tasks_like_these,
            bootstrap=bootstrap,
            caveats=distinct(*mean.caveats, *reason),
        ),
        median=BootstrapEstimate(
            estimate=column.median(pairs.deltas),
            these_tasks=these.interval,
            tasks_like_these=like.interval,
            bootstrap=drawn.interval,
            caveats=distinct(*these.caveats, *like.caveats, *drawn.caveats),
        ),
        ratio=means.ratio_estimate(pairs, frame),
        p=P(
            these_tasks=labels_within_tasks(pairs, frame),
            tasks_like_these=signs_of_tasks(pairs, frame),
            holm=None,
        ),
    )


def with_holm(weighed: dict[str, DeltaEvidence], headline: Scope) -> dict[str, DeltaEvidence]:
    """The metrics with the p-values of the headline question adjusted by Holm."""
    values = holm([getattr(found.p, headline) for found in weighed.values()])
    return {
        name: replace(found, p=replace(found.p, holm=value))
        for (name, found), value in zip(weighed.items(), values, strict=True)
    }


def distinct(*texts: str) -> tuple[str, ...]:
    """Each text once, in the order they came."""
    return tuple(dict.fromkeys(texts))


def _success_mean(pairs: Pairs, frame: Frame) -> Estimate:
    if not len(pairs):
        return means.mean_estimate(pairs, frame)
    mean = column.mean(pairs.deltas)
    assert mean is not None
    ours, theirs = (column.group_totals(side, pairs.starts) for side in (pairs.ours, pairs.theirs))
    return means.success_estimate(
        means.Passes(successes=(ours, theirs), sizes=(pairs.sizes, pairs.sizes)), mean, frame
    )


def _bootstrap_mean(
    pairs: Pairs, frame: Frame, resamples: Resamples | None
) -> tuple[Interval | None, tuple[str, ...]]:
    """Whole tasks drawn again, expanded percentile; with one task its repeats are drawn instead."""
    if not len(pairs):
        return None, (NO_PAIRS,)
    sums, sizes = column.group_totals(pairs.deltas, pairs.starts), pairs.sizes
    over = "tasks"
    if len(sizes) == 1:
        sums, sizes = [float(delta) for delta in pairs.deltas], [1] * len(pairs)
        over = "repeats of one task"
        resamples = shared_resamples(len(sizes), frame)
    units = len(sizes)
    if units == 1:
        return None, (NOTHING_TO_RESAMPLE,)
    tail = medians.expanded_tail(frame, units, units - 1)
    if resamples is None and units > ALL_UP_TO:
        resamples = resample_tasks(units, frame.seed, frame.resamples)
    if resamples is None:
        ends = _listed_ends(sums, sizes, tail)
    else:
        drawn = resamples.sums(sums) / resamples.sums(sizes)
        ends = resamples.percentiles(drawn, tail)
    if no_width(*ends):
        return None, (FLAT_BOOTSTRAP,)
    exact = units <= ALL_UP_TO
    method = f"expanded percentile, {over} resampled{', exact' if exact else ''}"
    return between(low=ends[0], high=ends[1], method=method, caveats=()), ()


def _listed_ends(sums: list[float], sizes: list[int], tail: float) -> tuple[float, float]:
    atoms = sorted(
        (
            math.fsum(w * s for w, s in zip(one.weights, sums, strict=True))
            / sum(w * n for w, n in zip(one.weights, sizes, strict=True)),
            one.chance,
        )
        for one in every_resample(len(sums))
    )
    return _reached(atoms, tail), _reached(atoms, 1.0 - tail)


def _reached(atoms: list[tuple[float, float]], p: float) -> float:
    """The smallest value that is reached with a chance of at least p."""
    below = 0.0
    for value, chance in atoms:
        below += chance
        if below >= p - 1e-12:
            return value
    return atoms[-1][0]
