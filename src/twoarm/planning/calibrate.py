"""How often a suite cries wolf: trials without a difference on its own runs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Unpack, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from twoarm._version import __version__
from twoarm.compare.families import Families, find_families
from twoarm.compare.screen import ArmRuns, Arms, Screening, choose_arms, screen
from twoarm.errors import Caveat, UsageError
from twoarm.evidence.cells import places
from twoarm.evidence.grade import Margins
from twoarm.evidence.interval import Frame
from twoarm.evidence.results import fewest_tasks
from twoarm.options import AskedOfRuns, CountingKeywords, Options, either, refuse_unknown, refused
from twoarm.planning.calibration import Pool, deal, drift
from twoarm.render.report import ShortReport
from twoarm.render.sheet import Sheet
from twoarm.result.analysis import Tool
from twoarm.result.calibration_file import SCHEMA, By, Calibration, Drift, FalseWinners, Share
from twoarm.result.chosen_tasks import chosen_caveats
from twoarm.runs.arrays import Flags, Ints
from twoarm.runs.metric import JUDGED
from twoarm.runs.runfile import Progress, Source, read
from twoarm.runs.runs import Runs
from twoarm.text.escape import counted, tasks_or_families

FEWEST_TRIALS, MOST_TRIALS = 50, 20_000
# Fewer repeats leave arms of two, in which nothing looks as it does in a real comparison.
FEWEST_TO_SPLIT = 6
# How far the share of one suite may lie from that of others like it, besides the error of trials.
_BETWEEN_SUITES = {"gates": 0.10, "evidence": 0.02, "margin": 0.02}
# Evidence that names a winner more often than this is not what it says it is.
_TOO_OFTEN = 0.07


class CalibrateOptions(AskedOfRuns, frozen=True, kw_only=True):
    """How runs are dealt to two arms, and how often."""

    by: By = "split"
    trials: int = 400

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            listed = ", ".join(f"`{choice}`" for choice in get_args(By))
            raise refused("by", f"expected one of {listed}, got {self.by!r}")
        if not FEWEST_TRIALS <= self.trials <= MOST_TRIALS:
            raise refused(
                "trials",
                f"expected an integer from {FEWEST_TRIALS} to {MOST_TRIALS}, got {self.trials}",
            )


class CalibrateKeywords(CountingKeywords, total=False):
    """The options of a calibration as keywords of a function."""

    by: By
    trials: int
    margin_success: float
    margin_ratio: float


class CalibrationReport(ShortReport, Calibration, frozen=True, kw_only=True):
    """A calibration that can be shown, as text, Markdown or a page."""

    def sheet(self) -> Sheet:
        """The calibration as a short report."""
        from twoarm.render.calibrate import sheet_of

        return sheet_of(self)

    def to_html(self) -> str:
        """The calibration as one self-contained page; needs the extra `twoarm[html]`."""
        from twoarm.render.page import calibration_page

        return calibration_page.render(self)


def calibrate(
    source: Source,
    options: CalibrateOptions | None = None,
    *,
    progress: Progress | None = None,
    **keywords: Unpack[CalibrateKeywords],
) -> CalibrationReport:
    """Deal the runs of a suite to two arms at random, again and again, and see who wins.

    The options are one value, or keywords of it.
    """
    options = chosen_calibration(options, keywords)
    scoring = options.scoring
    runs = read(source, skip_bad=scoring.skip_bad, times=True, progress=progress)
    if progress is not None:
        progress("dealing runs to two arms", 0, None)
    dealt = _split(runs, scoring) if options.by == "split" else _relabel(runs, scoring)
    frame = Frame(
        level=scoring.level, tests=scoring.level, seed=scoring.seed, resamples=scoring.resamples
    )
    margins = Margins(success=scoring.margin_success, ratio=scoring.margin_ratio)
    trials = deal(dealt.pool, options.trials, frame, margins)
    drifted = Drift(p=drift(dealt.in_order, options.trials, scoring.seed))
    winners = FalseWinners(
        gates=_share(trials.gates, "gates"),
        evidence=_share(trials.evidence, "evidence"),
        margin=_share(trials.margin, "margin"),
    )
    return CalibrationReport(
        schema=SCHEMA,
        tool=Tool(name="twoarm", version=__version__),
        inputs=runs.inputs,
        arms=dealt.arms,
        by=options.by,
        trials=options.trials,
        tasks=dealt.pool.tasks,
        chosen_tasks=dealt.screening.chosen_tasks,
        families=dealt.pool.families,
        repeats=round(2.0 * dealt.pool.tasks / float((1.0 / dealt.pool.deal).sum())),
        false_winners=winners,
        noise_floor=trials.noise_floor(),
        drift=drifted,
        caveats=tuple(_caveats(options, dealt, winners, drifted)),
        level=scoring.level,
        seed=scoring.seed,
        margin_success=scoring.margin_success,
        margin_ratio=scoring.margin_ratio,
    )


def chosen_calibration(
    options: CalibrateOptions | None, keywords: Mapping[str, Any]
) -> CalibrateOptions:
    """The options given as one value, as keywords, or as a value with some of them changed."""
    refuse_unknown(keywords, CalibrateKeywords.__optional_keys__)
    return (options or CalibrateOptions()).changed(keywords)


def _share(hits: Flags, name: str) -> Share:
    """A share of all trials, with their error and the difference between suites like this one."""
    share = float(hits.mean())
    trials = 1.96 * (share * (1.0 - share) / len(hits)) ** 0.5
    reach = (trials**2 + _BETWEEN_SUITES[name] ** 2) ** 0.5
    return Share(share=share, low=max(0.0, share - reach), high=min(1.0, share + reach))


class _Dealt(msgspec.Struct, frozen=True, kw_only=True):
    """The runs to deal, those of one arm in the order they were made, and what was left out."""

    pool: Pool
    in_order: Pool
    arms: tuple[str, ...]
    screening: Screening
    left_out: int


def _split(runs: Runs, scoring: Options) -> _Dealt:
    """The baseline's repeats of each task, in two halves."""
    arm = scoring.baseline
    if arm is None and len(runs.arms) == 1:
        (arm,) = runs.arms
    if arm is None or len(runs.arms) > 1:
        arms = choose_arms(runs.arms, scoring.candidate, scoring.baseline)
    else:
        # One arm is all that a split needs.
        arms = Arms(candidate="", baseline=arm)
    screening = screen(runs, arms, scoring)
    baseline = screening.baseline
    sizes = np.bincount(baseline.task, minlength=len(runs.tasks))
    enough = sizes >= FEWEST_TO_SPLIT
    if int(enough.sum()) < 2:
        other = either(flag="--by relabel", argument='`by="relabel"`')
        raise UsageError(
            f"a split takes at least {FEWEST_TO_SPLIT} repeats of 2 tasks in the baseline, which "
            f"has {counted(int(enough.sum()), 'such task')} (the most repeats: "
            f"{int(sizes.max(initial=0))}); use {other}, or run more repeats"
        )
    families = find_families(runs, scoring.family)
    pool = _pool(runs, families, [baseline], enough, np.tile(sizes[enough] // 2, (2, 1)))
    left_out = int(((sizes > 0) & ~enough).sum())
    return _Dealt(
        pool=pool,
        in_order=pool,
        arms=(arms.baseline,),
        screening=screening,
        left_out=left_out,
    )


def _relabel(runs: Runs, scoring: Options) -> _Dealt:
    """The runs of both arms, with their labels exchanged inside each task."""
    arms = choose_arms(runs.arms, scoring.candidate, scoring.baseline)
    screening = screen(runs, arms, scoring)
    sides = list(screening.arms)
    sizes = np.array([np.bincount(side.task, minlength=len(runs.tasks)) for side in sides])
    shared = sizes.min(axis=0) > 0
    if int(shared.sum()) < 2:
        raise UsageError(
            f"a calibration takes at least 2 tasks that both arms have, found {int(shared.sum())}"
        )
    if int(sizes[:, shared].max()) < 2:
        raise UsageError(
            "a calibration takes at least 2 repeats of a task, found 1: with one run in each arm "
            "nothing says how much repeats differ"
        )
    families = find_families(runs, scoring.family)
    return _Dealt(
        pool=_pool(runs, families, sides, shared, sizes[:, shared]),
        in_order=_pool(runs, families, sides[1:], shared, np.tile(sizes[1, shared] // 2, (2, 1))),
        arms=arms.both,
        screening=screening,
        left_out=int((sizes.max(axis=0) > 0).sum() - shared.sum()),
    )


def _pool(runs: Runs, families: Families, sides: list[ArmRuns], tasks: Flags, dealt: Ints) -> Pool:
    """The runs of some tasks, in the order in which they were made as far as that is known."""
    place = np.cumsum(tasks) - 1
    rows = [np.flatnonzero(tasks[side.task]) for side in sides]

    def joined(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([column[at] for column, at in zip(columns, rows, strict=True)])

    task = place[joined(side.task for side in sides)]
    started = runs.started[joined(side.rows for side in sides)]
    # Runs of an arm stand in order of repeat, which is the next best.
    when = np.arange(len(task)) if np.isnan(started).any() else started
    order = np.lexsort((when, task))
    return Pool(
        task=task[order],
        values={
            metric.name: joined(side.values[metric.name] for side in sides)[order]
            for metric in JUDGED
        },
        deal=dealt,
        family=places(families, np.flatnonzero(tasks)),
    )


def _caveats(
    options: CalibrateOptions, dealt: _Dealt, winners: FalseWinners, drifted: Drift
) -> Iterator[Caveat]:
    yield from chosen_caveats(dealt.screening, options.scoring, verdict=False)
    if winners.evidence.share > _TOO_OFTEN:
        yield Caveat.say(
            "evidence_cries_wolf",
            "the evidence names a winner in {} of trials without a difference, where at most "
            "{} is nominal: do not promote by it on this suite before that is understood",
            f"{winners.evidence.share:.1%}",
            f"{1.0 - options.scoring.level:.0%}",
        )
    if drifted.beyond_chance:
        yield Caveat.say(
            "drift",
            "first and second halves of the repeats differ more than chance allows for (p = "
            "{}): something changed while they ran; interleave the arms",
            f"{drifted.p:.3f}",
        )
    if dealt.left_out:
        why = (
            f"fewer than {FEWEST_TO_SPLIT} repeats"
            if options.by == "split"
            else "runs in one arm only"
        )
        yield Caveat.say("tasks_left_out", "{} left out: {}", counted(dealt.left_out, "task"), why)
    fewest = fewest_tasks(options.scoring.level)
    families = dealt.pool.families
    if (families or dealt.pool.tasks) < fewest:
        yield Caveat.say(
            "these_tasks",
            "with fewer than {} {} the evidence is about these very tasks only",
            fewest,
            tasks_or_families(families),
        )
    if options.by == "split":
        yield Caveat.say(
            "half_the_repeats",
            "a split has half of the repeats: with all of them the noise floor is about 0.7 "
            "times as high",
        )
    else:
        yield Caveat.say(
            "both_arms",
            "labels are exchanged between both arms, so a difference between them counts as "
            "noise: the floor is an upper limit",
        )
