"""What the pairs support about one metric: mean, median, ratio, with every interval."""

import msgspec
import numpy as np
from msgspec.structs import replace

from twoarm.arrays import median, sums
from twoarm.evidence import means, medians
from twoarm.evidence.cells import Pairs
from twoarm.evidence.interval import (
    FEWEST_TASKS,
    FLAT_BOOTSTRAP,
    NO_PAIRS,
    NOTHING_TO_RESAMPLE,
    BootstrapEstimate,
    Estimate,
    Frame,
    Scope,
    Withheld,
    between,
    no_width,
)
from twoarm.evidence.medians import Answer, expanded_tail
from twoarm.evidence.permute import P, holm, labels_within_tasks, signs_of_tasks
from twoarm.evidence.resample import Resamples, shared_resamples
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
    bootstrap = _bootstrap_mean(pairs, frame, resamples)
    grouped = pairs.grouped
    these = medians.these_tasks(grouped, frame)
    like = medians.tasks_like_these(grouped, frame)
    # From six tasks on, the interval over tasks is the bootstrap itself.
    same = len(pairs.sizes) >= FEWEST_TASKS
    drawn = like if same else medians.bootstrap(grouped, frame)
    return DeltaEvidence(
        pairs=len(pairs),
        mean=BootstrapEstimate(
            estimate=mean.estimate,
            these_tasks=mean.these_tasks,
            tasks_like_these=mean.tasks_like_these,
            bootstrap=bootstrap.interval,
            withheld=distinct(*mean.withheld, *bootstrap.withheld),
        ),
        median=BootstrapEstimate(
            estimate=median(pairs.deltas),
            these_tasks=these.interval,
            tasks_like_these=like.interval,
            bootstrap=drawn.interval,
            withheld=distinct(*these.withheld, *like.withheld, *drawn.withheld),
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


def distinct(*reasons: Withheld) -> tuple[Withheld, ...]:
    """Each reason once, in the order they came."""
    return tuple(dict.fromkeys(reasons))


def _success_mean(pairs: Pairs, frame: Frame) -> Estimate:
    if not len(pairs):
        return means.mean_estimate(pairs, frame)
    successes = sums(pairs.ours, pairs.starts), sums(pairs.theirs, pairs.starts)
    passes = means.Passes(successes=successes, sizes=(pairs.sizes, pairs.sizes))
    return means.success_estimate(passes, float(pairs.deltas.mean()), frame)


def _bootstrap_mean(pairs: Pairs, frame: Frame, resamples: Resamples | None) -> Answer:
    """Whole tasks drawn again, expanded percentile; with one task its repeats are drawn instead."""
    if not len(pairs):
        return Answer(interval=None, withheld=(NO_PAIRS,))
    totals, sizes, over = sums(pairs.deltas, pairs.starts), pairs.sizes, "tasks"
    if len(sizes) == 1:
        totals, sizes, over = pairs.deltas, np.ones(len(pairs), np.int64), "repeats of one task"
        resamples = shared_resamples(len(pairs), frame)
    if resamples is None:
        return Answer(interval=None, withheld=(NOTHING_TO_RESAMPLE,))
    units = len(sizes)
    drawn = resamples.sums(totals) / resamples.sums(sizes)
    low, high = resamples.percentiles(drawn, expanded_tail(frame, units, units - 1))
    if no_width(low, high):
        return Answer(interval=None, withheld=(FLAT_BOOTSTRAP,))
    exact = ", exact" if resamples.exact else ""
    method = f"expanded percentile, {over} resampled{exact}"
    return Answer(interval=between(low=low, high=high, method=method, caveats=()), withheld=())
