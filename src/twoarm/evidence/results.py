"""What the evidence says, as plain data: the shape of `evidence` in the analysis file."""

import math
from typing import Literal

import msgspec

from twoarm.compare.decide import Decision
from twoarm.evidence.losses import Exclusions
from twoarm.evidence.score_parts import Scores
from twoarm.evidence.single_parts import SingleTask
from twoarm.evidence.tag_parts import Tags
from twoarm.runs.study import StopReason

Scope = Literal["these_tasks", "tasks_like_these"]
TestStanding = Literal["better", "worse", "no clear difference", "no test"]
EvidenceVerdict = Literal[
    "candidate better", "baseline better", "trade-off", "no clear difference", "too few tasks"
]
MarginVerdict = Literal["candidate", "baseline", "no difference", "inconclusive"]

# The smallest number of tasks about which anything can be said at 95 % without assuming a shape:
# all six on one side has a chance of 2 / 2^6 = 3.1 %, all five 2 / 2^5 = 6.25 %.
FEWEST_TASKS = 6
# Too rare to be chance: this many tasks in which one arm ran first, ...
BLOCKS_BY_CHANCE = 0.01
# ... and this many that the candidate seems to have broken.
BROKEN_BY_CHANCE = 0.05
# Below this chance of a verdict after all planned repeats, going on is not worth it.
FUTILE = 0.20


def fewest_tasks(level: float) -> int:
    """How many tasks it takes to say anything about others at this level."""
    return max(FEWEST_TASKS, math.ceil(1.0 - math.log2(1.0 - level)))


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A range that should hold the true value at the level of the analysis."""

    low: float
    high: float
    method: str
    caveats: tuple[str, ...]


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no interval, or what limits it, for one question or (None) for both."""

    code: str
    scope: Scope | Literal["bootstrap"] | None
    message: str


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure and what the runs can support about it; `withheld` says why an interval is null."""

    estimate: float | None
    these_tasks: Interval | None
    tasks_like_these: Interval | None
    withheld: tuple[Withheld, ...]

    def reasons(self, scope: Scope) -> tuple[str, ...]:
        """Why there is no interval for one question."""
        return tuple(reason.message for reason in self.withheld if reason.scope in (None, scope))


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """The paired deltas of the scoring rules, over pairs, with whole tasks drawn again."""

    mean: float | None
    mean_interval: Interval | None
    median: float | None
    median_interval: Interval | None
    withheld: tuple[Withheld, ...]


class P(msgspec.Struct, frozen=True, kw_only=True):
    """Two-sided p-values of "no difference": on these tasks, over tasks like these, and adjusted.

    `adjusted` is that of the headline question, allowing for looking at all gates; null for a
    metric that is not a gate's and was not named to be tested first.
    """

    these_tasks: float | None
    tasks_like_these: float | None
    adjusted: float | None


class SolvedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The change over all runs and over solved runs, on the tasks with solved runs in both arms.

    Both are ratios where the metric has one. `survives`: at least half of the change is there among
    solved runs, and half of that over all tasks, also those that an arm never solves; `differs`:
    more than a third of the larger is not; null where fewer than three tasks can tell.
    `failed_runs`: whether failed runs are shorter or longer than solved ones.
    """

    tasks: int
    all_runs: float | None
    solved_runs: float | None
    survives: bool | None
    differs: bool | None
    failed_runs: Literal["short", "long"] | None


class DeltaEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs support about one metric; a ratio of 1 is no change.

    Mean and ratio see every counted run of the tasks that both arms have, each task weighed alike;
    `median` is that of the paired deltas; `solved` is null for success and score. `zeros` are
    the candidate's and the baseline's values of zero: where there is a ratio, each is taken for
    half of the smallest other value of its task.
    """

    tasks: int
    pairs: int
    zeros: tuple[int, int]
    mean: Estimate
    median: Estimate
    ratio: Estimate | None
    bootstrap: Bootstrap
    p: P
    solved: SolvedRuns | None

    @property
    def change(self) -> Estimate:
        """The figure that the reports show and the tests are about."""
        return self.mean if self.ratio is None else self.ratio

    @property
    def unchanged(self) -> float:
        """The value of `change` that means no difference."""
        return 0.0 if self.ratio is None else 1.0


class GateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The difference on the tasks that both arms have, and its intervals."""

    difference: Estimate


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What the test of one gate's metric shows; `adjusted_p` allows for looking at all of them."""

    metric: str
    p: float | None
    adjusted_p: float | None
    standing: TestStanding


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What the evidence supports, for which tasks, and what that rests on.

    `primary` is the metric that was named to be tested first; `first` is what its test shows where
    no gate looks at it, and is null otherwise.
    """

    verdict: EvidenceVerdict
    scope: Scope
    primary: str | None
    first: Finding | None
    findings: tuple[Finding, ...]


class MarginRange(msgspec.Struct, frozen=True, kw_only=True):
    """An interval compared with its margin: a difference of success, or a ratio less one.

    `beyond` says that the whole interval is worse by more than the margin.
    """

    metric: str
    low: float | None
    high: float | None
    beyond: bool


class Margin(msgspec.Struct, frozen=True, kw_only=True):
    """The margin rule: not worse by more than the margins anywhere, and better somewhere.

    `gain_survives`: what makes the winner better is there among solved runs, too; null where there
    is no winner, or too few tasks can tell.
    """

    verdict: MarginVerdict
    scope: Scope
    margin_success: float
    margin_ratio: float
    ranges: tuple[MarginRange, ...]
    gain_survives: bool | None


class BrokenTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that the candidate solves at most half as often, beyond what its runs allow for."""

    task_id: str
    candidate: float
    baseline: float
    p: float


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """A task that passes less often with the candidate: the counts of both arms, its own first."""

    task_id: str
    passed: tuple[int, int]
    runs: tuple[int, int]


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks that the candidate broke, and the chance of naming this many between equal arms.

    `watched` tasks pass often enough in the baseline that a break would be seen; `could_break` is
    the share of tasks like these that could still break where none of them did.
    `largest_drop` is named whatever its chance; it is null where no task got worse.
    """

    tasks: tuple[BrokenTask, ...]
    p: float | None
    watched: int
    got_worse: int
    could_break: float | None
    largest_drop: Drop | None

    @property
    def beyond_chance(self) -> bool:
        """Whether this many tasks would seldom be named between equal arms."""
        return self.p is not None and self.p <= BROKEN_BY_CHANCE


class Paid(msgspec.Struct, frozen=True, kw_only=True):
    """What people pay for, at the headline question; `metric` is null where nothing was measured
    well enough, `change` where nothing varies between tasks."""

    metric: str | None
    ratio: bool
    estimate: float | None
    change: Interval | None
    worse: bool


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """What a promotion by the evidence needs besides the verdict; null is not known.

    `gain_survives`: success is clearly better, or a clear gain is there among solved runs, too.
    """

    successes: int
    gain_survives: bool | None
    success_low: float | None
    success_high: float | None
    broken: Broken
    paid: Paid


class Stability(msgspec.Struct, frozen=True, kw_only=True):
    """The share of resamples with each decision: stability, not the probability of being right."""

    decision_share: float
    shares: dict[str, float]
    resamples: int
    method: str


class MeanWithout(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a mean delta when one task is left out, and the task that drives it, if any."""

    low: float
    low_without: str
    high: float
    high_without: str
    driven_by: str | None
    mean_without_it: float | None


class DecisionWithout(msgspec.Struct, frozen=True, kw_only=True):
    """A task without which the decision would be different."""

    task_id: str
    decision: Decision


class Influence(msgspec.Struct, frozen=True, kw_only=True):
    """What hangs on single tasks."""

    decision_changes_without: tuple[DecisionWithout, ...]
    means: dict[str, MeanWithout]


class Variance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the uncertainty over tasks like these comes from."""

    metric: str
    tasks_share: float
    repeats_share: float


class PassRates(msgspec.Struct, frozen=True, kw_only=True):
    """The chance that at least one of k attempts succeeds, and that all of them do, over tasks."""

    k: int
    at_least_one: float
    all: float


class ArmRepeats(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's success over several attempts."""

    arm: str
    pass_rates: tuple[PassRates, ...]


class ArmsPerSolved(msgspec.Struct, frozen=True, kw_only=True):
    """All that an arm's measured runs took, failed ones included, over how many of them solved.

    `ratio` is candidate to baseline, over the `tasks` that both arms have.
    """

    tasks: int
    candidate: Estimate
    baseline: Estimate
    ratio: Estimate


class PerSolved(msgspec.Struct, frozen=True, kw_only=True):
    """What a solved task takes."""

    cost_usd: ArmsPerSolved
    duration_minutes: ArmsPerSolved


class RunOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Whether time and arm can be told apart; `known` is false where start times are missing.

    `ran_first` is the arm whose runs all started before the other's, if one's did; `in_blocks`
    counts the tasks of which every run of one arm started before every run of the other, `timed`
    those of which that can be said, `p` the chance of this many if the order were random.
    """

    known: bool
    ran_first: str | None
    in_blocks: int
    timed: int
    p: float | None

    @property
    def in_separate_blocks(self) -> bool:
        """Whether an arm ran before the other, or did so in more tasks than chance allows for."""
        return self.ran_first is not None or (self.p is not None and self.p <= BLOCKS_BY_CHANCE)


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """Where the runs stand among the looks that were planned.

    `after` is the number of repeats judged, `level` how often the intervals of all looks together
    hold the truth, `spent` the share of false alarms that may have come so far, `clear` the look
    at which a metric became clear, `incomplete` how many tasks lack a repeat in an arm, and `stop`
    why no more repeats are needed. Of the `planned_runs` of both arms, that saves `saved_runs`;
    `stopped` is why the run did end there, and then both are of all its arms.
    """

    looks: tuple[int, ...]
    r_max: int
    after: int
    level: float
    spent: float
    clear: dict[str, int]
    incomplete: int
    stop: StopReason | None
    planned_runs: int
    saved_runs: int
    stopped: StopReason | None


class NextRuns(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to see a change of this size as often as wanted: a design, and what is missing.

    `detect` is a relative change, of success a difference. `usd` is null where no cost is known,
    `families` where tasks have none; others are taken to have as many tasks as these.
    """

    metric: str
    detect: float
    power: float
    tasks: int
    families: int | None
    repeats: int
    more_tasks: int
    more_runs: int
    usd: float | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the data can support beyond the point estimates.

    `on_shared_tasks` is the decision of the gates on the tasks that both arms have; `next_runs` is
    null where nothing can be planned, or nothing more is needed. `scores` is null where no counted
    run has a score or a check, `tags` where no tag tells tasks apart; `single_tasks` are none where
    there are too few. `families` is null where no two tasks are of one family; otherwise they are
    what is a sample of others.
    """

    level: float
    seed: int
    resamples: int
    tasks: int
    families: int | None
    headline: Scope
    deltas: dict[str, DeltaEvidence]
    gates: dict[str, GateEvidence]
    shared_tasks: int
    on_shared_tasks: Decision
    stability: Stability | None
    grade: Grade
    margin: Margin
    guard: Guard
    exclusions: Exclusions
    influence: Influence
    variance: Variance | None
    repeats: tuple[ArmRepeats, ArmRepeats]
    per_solved: PerSolved
    scores: Scores | None
    tags: Tags | None
    single_tasks: tuple[SingleTask, ...]
    order: RunOrder
    next_runs: NextRuns | None
    looks: Looks | None
