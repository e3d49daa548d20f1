"""What the runs support about one metric: mean, ratio and paired median, with every interval."""

from twoarm.evidence import means, medians
from twoarm.evidence.cells import Grouped, TaskRuns
from twoarm.evidence.interval import (
    FLAT_BOOTSTRAP,
    NO_PAIRS,
    Answer,
    Frame,
    between,
    estimated,
    few_to_resample,
    no_width,
    withheld,
)
from twoarm.evidence.resample import shared_resamples
from twoarm.evidence.results import FEWEST_TASKS, Bootstrap, DeltaEvidence, Interval, P, SolvedRuns
from twoarm.runs.arrays import mean, median, sums
from twoarm.runs.metric import SCORE, SUCCESS

_ESTIMATES = {SUCCESS.name: means.bounded_estimate, SCORE.name: means.score_estimate}


def weigh_deltas(
    runs: TaskRuns, raw: TaskRuns, pairs: Grouped, p: P, frame: Frame, solved: SolvedRuns | None
) -> DeltaEvidence:
    """All intervals of one metric, from the runs on the scale of the tests and as they are."""
    these, like = medians.these_tasks(pairs, frame), medians.tasks_like_these(pairs, frame)
    estimate = _ESTIMATES.get(raw.metric.name, means.mean_estimate)
    return DeltaEvidence(
        tasks=int(runs.shared.sum()),
        pairs=len(pairs),
        zeros=raw.zeros,
        mean=estimate(raw, frame),
        median=estimated(median(pairs.values), these, like),
        ratio=means.ratio_estimate(runs, frame),
        bootstrap=_bootstrap(pairs, like, frame),
        p=p,
        solved=solved,
    )


def _bootstrap(pairs: Grouped, of_median: Answer, frame: Frame) -> Bootstrap:
    """For the median, the exact interval over tasks is the bootstrap itself."""
    of_mean = _bootstrap_mean(pairs, frame)
    many = len(pairs.by_family.sizes) >= FEWEST_TASKS
    return Bootstrap(
        mean=mean(pairs.values),
        mean_interval=of_mean if isinstance(of_mean, Interval) else None,
        median=median(pairs.values),
        median_interval=of_median if many and isinstance(of_median, Interval) else None,
        withheld=withheld(of_mean, of_median) if many else withheld(of_mean),
    )


def _bootstrap_mean(pairs: Grouped, frame: Frame) -> Answer:
    """Whole tasks, or families, drawn again, expanded percentile."""
    if not len(pairs):
        return NO_PAIRS
    noun, pairs = pairs.noun, pairs.by_family
    tasks = len(pairs.sizes)
    resamples = shared_resamples(tasks, frame)
    if tasks < FEWEST_TASKS or resamples is None:
        return few_to_resample(noun)
    drawn = resamples.sums(sums(pairs.values, pairs.starts)) / resamples.sums(pairs.sizes)
    low, high = resamples.percentiles(drawn, medians.expanded_tail(frame, tasks, tasks - 1))
    if no_width(low, high):
        return FLAT_BOOTSTRAP
    exact = ", exact" if resamples.exact else ""
    method = f"expanded percentile, {medians.resampled(noun)}{exact}"
    return between(low=low, high=high, method=method, caveats=())
