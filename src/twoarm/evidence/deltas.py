"""What the runs support about one metric: mean, ratio and paired median, with every interval."""

from twoarm.evidence import means, medians
from twoarm.evidence.cells import Pairs, TaskRuns
from twoarm.evidence.interval import (
    FEW_TO_RESAMPLE,
    FLAT_BOOTSTRAP,
    NO_PAIRS,
    Frame,
    between,
    no_width,
)
from twoarm.evidence.medians import Answer, expanded_tail
from twoarm.evidence.resample import shared_resamples
from twoarm.evidence.results import FEWEST_TASKS, Bootstrap, DeltaEvidence, Estimate, P, Withheld
from twoarm.runs.arrays import mean, median, sums
from twoarm.runs.metric import SUCCESS


def weigh_deltas(runs: TaskRuns, raw: TaskRuns, pairs: Pairs, p: P, frame: Frame) -> DeltaEvidence:
    """All intervals of one metric, from the runs on the scale of the tests and as they are."""
    grouped = pairs.grouped
    these = medians.these_tasks(grouped, frame)
    like = medians.tasks_like_these(grouped, frame)
    found = Estimate(
        estimate=median(pairs.deltas),
        these_tasks=these.interval,
        tasks_like_these=like.interval,
        withheld=distinct(*these.withheld, *like.withheld),
    )
    return DeltaEvidence(
        tasks=int(runs.shared.sum()),
        pairs=len(pairs),
        mean=means.success_estimate(raw, frame)
        if raw.metric is SUCCESS
        else means.mean_estimate(raw, frame),
        median=found,
        ratio=means.ratio_estimate(runs, frame),
        bootstrap=_bootstrap(pairs, like, frame),
        p=p,
    )


def distinct(*reasons: Withheld) -> tuple[Withheld, ...]:
    """Each reason once, in the order they came."""
    return tuple(dict.fromkeys(reasons))


def _bootstrap(pairs: Pairs, over_tasks: Answer, frame: Frame) -> Bootstrap:
    """For the median, the exact interval over tasks is the bootstrap itself."""
    found = _bootstrap_mean(pairs, frame)
    many = len(pairs.sizes) >= FEWEST_TASKS
    return Bootstrap(
        mean=mean(pairs.deltas),
        mean_interval=found.interval,
        median=median(pairs.deltas),
        median_interval=over_tasks.interval if many else None,
        withheld=distinct(*found.withheld, *(over_tasks.withheld if many else ())),
    )


def _bootstrap_mean(pairs: Pairs, frame: Frame) -> Answer:
    """Whole tasks drawn again, expanded percentile."""
    if not len(pairs):
        return Answer(interval=None, withheld=(NO_PAIRS,))
    tasks = len(pairs.sizes)
    resamples = shared_resamples(tasks, frame)
    if tasks < FEWEST_TASKS or resamples is None:
        return Answer(interval=None, withheld=(FEW_TO_RESAMPLE,))
    drawn = resamples.sums(sums(pairs.deltas, pairs.starts)) / resamples.sums(pairs.sizes)
    low, high = resamples.percentiles(drawn, expanded_tail(frame, tasks, tasks - 1))
    if no_width(low, high):
        return Answer(interval=None, withheld=(FLAT_BOOTSTRAP,))
    exact = ", exact" if resamples.exact else ""
    method = f"expanded percentile, tasks resampled{exact}"
    return Answer(interval=between(low=low, high=high, method=method, caveats=()), withheld=())
