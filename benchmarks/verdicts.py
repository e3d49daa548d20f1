"""Verdicts and promotions, simulated from runs to the end: who is promoted, and who should not be.

log duration and log tokens of a run = task + arm * (effect + task effect) + noise; the noise of the
two has a correlation of .8, their task effects one of .7. Success has a logit per task. Every
figure that a generator draws stands in `Arms`; the docs show them beside the tables.
"""

import math
from typing import NamedTuple

import numpy as np

from benchmarks.generators import logistic
from twoarm.compare.decide import decide, figures, judge
from twoarm.compare.screen import Arms as Roles
from twoarm.evidence.cells import Layout, TaskRuns
from twoarm.evidence.grade import Margins, margin_rule
from twoarm.evidence.harm import broken_tasks
from twoarm.evidence.interval import Frame
from twoarm.evidence.kernel import normal_quantile
from twoarm.evidence.means import bounded_estimate, ratio_estimate
from twoarm.evidence.results import Estimate, Grade, Margin
from twoarm.evidence.solved import among_solved, gain_survives
from twoarm.evidence.weigh import Tests, grade_of, headline_tests
from twoarm.runs.arrays import Floats
from twoarm.runs.metric import (
    COST,
    DURATION,
    JUDGED,
    NON_CACHE_TOKENS,
    SUCCESS,
    TOKENS,
    Better,
    Metric,
)

RUN_SD = 0.45
RUN_CORRELATION, TASK_CORRELATION = 0.8, 0.7
MARGIN = 0.10
MARGINS = Margins(success=MARGIN, ratio=MARGIN)
# Points at which rates are averaged over all tasks.
_NODES = 2_001
RATIOS = (DURATION.name, NON_CACHE_TOKENS.name)
ROLES = Roles(candidate="candidate", baseline="baseline")
# What a run that dies at once has of a usual one: 1 of 150 seconds, 20 of 12,000 tokens.
DEAD = (1 / 150, 20 / 12_000, 20 / 12_000)
FALLEN_RATE = 0.2


class Arms(NamedTuple):
    """What the candidate changes; success is None where every run succeeds.

    `dies`: a share of its runs dies at once. `falls`: the success of its first task. `drift`: how
    far a day strays from the one before; every repeat takes a day, and the candidate's come last.
    `unsolved`: a share of tasks that neither arm ever solves; `gives_up`: the candidate dies there.
    """

    duration: float = 0.0
    tokens: float = 0.0
    cost: float = 0.0
    success: tuple[float, float] | None = (1.5, 1.5)
    success_effect: tuple[float, float] = (0.0, 0.5)
    broken: float = 0.0
    task_sd: float = 0.20
    dies: float = 0.0
    falls: bool = False
    drift: float = 0.0
    unsolved: float = 0.0
    gives_up: bool = False


FASTER = math.log(0.8)
PROMOTIONS = {
    "arms equal on average": Arms(),
    "fails fast": Arms(duration=-0.22, tokens=-0.22, success_effect=(-0.75, 0.5)),
    "breaks 1 task in 10": Arms(
        duration=-0.36, tokens=-0.36, success=(5.0, 0.5), success_effect=(0.0, 0.0), broken=0.1
    ),
    "costs 40% more": Arms(duration=FASTER, tokens=FASTER, cost=math.log(1.4), success=None),
    "-20%, everything passes": Arms(duration=FASTER, tokens=FASTER, success=None),
    "-20%, 97% pass": Arms(duration=FASTER, tokens=FASTER, success=(4.0, 0.7)),
    "-15/-20%, mixed success": Arms(duration=math.log(0.85), tokens=FASTER),
}
_SAME, _EASY = (0.0, 0.0), (3.8, 0.7)
SLOWER = math.log(1.05)
GUARDED = {
    "V1 2% die at once": Arms(success=_EASY, success_effect=_SAME, dies=0.02),
    "V2 4% die at once": Arms(success=_EASY, success_effect=_SAME, dies=0.04),
    "V3 4% die, otherwise 5% slower": Arms(
        duration=SLOWER, tokens=SLOWER, success=_EASY, success_effect=_SAME, dies=0.04
    ),
    "V4 -20%, one task falls to 20%": Arms(
        duration=FASTER, tokens=FASTER, success=_EASY, success_effect=_SAME, falls=True
    ),
    "V5 equal arms in blocks, days drift": Arms(success=_EASY, success_effect=_SAME, drift=0.08),
    "V6 honest -20%, 97% pass": Arms(
        duration=FASTER, tokens=FASTER, success=_EASY, success_effect=_SAME
    ),
    "V7 honest -20%, 20 to 80% pass": Arms(
        duration=FASTER, tokens=FASTER, success=(0.0, 0.7), success_effect=_SAME
    ),
    "V8 half of the tasks never solved, given up at once": Arms(
        success=_EASY, success_effect=_SAME, unsolved=0.5, gives_up=True
    ),
    "V9 honest -20%, half of the tasks never solved": Arms(
        duration=FASTER, tokens=FASTER, success=_EASY, success_effect=_SAME, unsolved=0.5
    ),
    "V10 2% die, otherwise 5% slower": Arms(
        duration=SLOWER, tokens=SLOWER, success=_EASY, success_effect=_SAME, dies=0.02
    ),
}


class Trial(NamedTuple):
    """One drawn data set: values by metric, of shape arm, task, repeat."""

    values: dict[str, Floats]
    broken: int


def normals(draw: np.random.Generator, count: int, shape: tuple[int, ...], common: float) -> Floats:
    """So many standard normals with a common correlation."""
    shared = draw.normal(size=shape)
    own = draw.normal(size=(count, *shape))
    return math.sqrt(common) * shared + math.sqrt(1.0 - common) * own


def success_shift(points: float) -> float:
    """The mean change of the log odds that changes the success of `Arms()` by this much."""
    arms = Arms()
    assert arms.success is not None
    nodes = normal_quantile((np.arange(_NODES) + 0.5) / _NODES)
    (middle, spread), between = arms.success, arms.success_effect[1]
    wanted = float(logistic(middle + spread * nodes).mean()) + points
    low, high = -10.0, 10.0
    for _ in range(60):
        shift = (low + high) / 2.0
        reached = float(logistic(middle + shift + math.hypot(spread, between) * nodes).mean())
        low, high = (shift, high) if reached < wanted else (low, shift)
    return low


def trial(arms: Arms, tasks: int, repeats: int, draw: np.random.Generator) -> Trial:
    noise = RUN_SD * normals(draw, 3, (2, tasks, repeats), RUN_CORRELATION)
    between = arms.task_sd * normals(draw, 3, (tasks,), TASK_CORRELATION)
    shifts = np.array([arms.duration, arms.tokens, arms.cost])
    noise[:, 0] += (shifts[:, None] + between)[:, :, None]
    broken = np.zeros(tasks, dtype=bool)
    if arms.success is None:
        passed = np.ones((2, tasks, repeats))
    else:
        level = draw.normal(*arms.success, tasks)
        changed = level + draw.normal(*arms.success_effect, tasks)
        rates = np.array([logistic(changed), logistic(level)])
        broken = draw.random(tasks) < arms.broken
        rates[0, broken] = 0.0
        if arms.falls:
            rates[0, 0] = FALLEN_RATE
        passed = (draw.random((2, tasks, repeats)) < rates[:, :, None]).astype(np.float64)
    if arms.drift:
        days = np.cumsum(draw.normal(0.0, arms.drift, 2 * repeats)).reshape(2, 1, repeats)
        noise += days[::-1]
    never = np.arange(tasks) >= round(tasks * (1.0 - arms.unsolved))
    passed[:, never] = 0.0
    if arms.gives_up:
        noise[:, 0, never] = np.log(DEAD)[:, None, None]
    if arms.dies:
        dead = draw.random((tasks, repeats)) < arms.dies
        passed[0, dead] = 0.0
        noise[:, 0, dead] = np.log(DEAD)[:, None]
    duration, tokens, cost = np.exp(noise)
    return Trial(
        values={
            SUCCESS.name: passed,
            DURATION.name: duration,
            NON_CACHE_TOKENS.name: tokens,
            TOKENS.name: tokens,
            COST.name: cost,
        },
        broken=int(broken.sum()),
    )


def runs_of(values: dict[str, Floats], metrics: tuple[Metric, ...] = JUDGED) -> list[TaskRuns]:
    """Some metrics of a data set with as many runs in every task and arm."""
    _, tasks, repeats = values[SUCCESS.name].shape
    layout = Layout(tasks=np.arange(tasks), sizes=np.full((2, tasks), repeats))
    return [
        TaskRuns(
            metric=metric,
            logs=False,
            values=np.swapaxes(values[metric.name], 0, 1).ravel(),
            layout=layout,
        ).on_test_scale()
        for metric in metrics
    ]


def frame() -> Frame:
    return Frame(level=0.95, tests=0.95, seed=1, resamples=1_999)


def verdict(runs: list[TaskRuns], primary: str | None = None) -> Grade:
    here = frame()
    return grade_of(runs, headline_tests(runs, here, primary), primary, here)


class Judged(NamedTuple):
    """What is said of a data set; `guarded` leaves out solved runs, which `survives` is about."""

    grade: Grade
    guarded: bool
    survives: bool
    margin: Margin


def judged(runs: list[TaskRuns], tests: Tests) -> Judged:
    """The verdict, whether the guard lets it through, and the margin rule."""
    here, by_name = frame(), {measure.metric.name: measure for measure in runs}
    grade = grade_of(runs, tests, None, here)
    passes = by_name[SUCCESS.name]
    success = bounded_estimate(passes, here)
    ratios = {name: ratio_estimate(by_name[name], here) for name in RATIOS}
    solved = {SUCCESS.name: None} | {name: among_solved(by_name[name], passes) for name in RATIOS}
    gains = (entry.metric for entry in grade.findings if entry.standing == "better")
    return Judged(
        grade=grade,
        guarded=grade.scope == "tasks_like_these" and _guarded(by_name, success),
        survives=gain_survives(gains, solved) is True,
        margin=margin_rule(success, ratios, solved, grade, MARGINS),
    )


def _beaten(values: dict[str, Floats]) -> bool:
    """Whether the gates prefer the baseline, which nothing overrules."""
    ours, theirs = (
        figures({name: column[arm].ravel() for name, column in values.items()}) for arm in (0, 1)
    )
    return decide(judge(ours, theirs), ROLES).kind == "baseline"


def _guarded(by_name: dict[str, TaskRuns], success: Estimate) -> bool:
    """Whether success, broken tasks and cost let the candidate through."""
    passes = by_name[SUCCESS.name]
    if not passes.means[0].any():
        return False
    if success.these_tasks is None or success.these_tasks.low <= -MARGIN:
        return False
    names = tuple(map(str, range(len(passes.layout.tasks))))
    if broken_tasks(passes, names, frame().level).beyond_chance:
        return False
    cost = ratio_estimate(by_name[COST.name], frame())
    assert cost is not None
    assert cost.tasks_like_these is not None
    return cost.tasks_like_these.low <= 1.0


def holm_verdict(runs: list[TaskRuns], tests: Tests) -> str:
    """The first edition: three sign tests, adjusted by Holm, and nothing else."""
    columns = [
        (tests.p(column), measure)
        for column, measure in enumerate(runs)
        if measure.metric in (SUCCESS, DURATION, NON_CACHE_TOKENS)
    ]
    known = sorted((p, rank, entry) for rank, (p, entry) in enumerate(columns) if p is not None)
    standings, highest = set(), 0.0
    for rank, (p, _, measure) in enumerate(known):
        highest = max(highest, (len(known) - rank) * p)
        if highest <= 0.05:
            higher = measure.deltas.sum() > 0
            standings.add(higher == (measure.metric.better is Better.HIGHER))
    return "candidate better" if standings == {True} else "other"


class Promoted(NamedTuple):
    """Who is promoted, without the rules about solved runs and blocks of time and with them."""

    before: bool
    now: bool


def promoted(arms: Arms, values: dict[str, Floats], outcome: Judged) -> dict[str, Promoted]:
    """By the evidence and by the margins, as `compare` has it, for a hundredth of the time."""
    beaten, apart = _beaten(values), arms.drift > 0
    better = outcome.grade.verdict == "candidate better" and outcome.guarded and not beaten
    within = outcome.margin.verdict == "candidate" and not beaten
    survives = outcome.margin.gain_survives is True
    return {
        "the evidence": Promoted(before=better, now=better and outcome.survives and not apart),
        "the margins": Promoted(before=within, now=within and survives and not apart),
    }


def promotion_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    draw = np.random.default_rng([41, len(name), tasks, repeats])
    counts = dict.fromkeys(ROWS, 0)
    for _ in range(datasets):
        drawn = trial(PROMOTIONS[name], tasks, repeats, draw)
        runs = runs_of(drawn.values)
        tests = headline_tests(runs, frame(), None)
        outcome = judged(runs, tests)
        decided = promoted(PROMOTIONS[name], drawn.values, outcome)
        seen = (
            decided["the evidence"].now,
            outcome.grade.verdict == "candidate better",
            verdict(runs, "tokens").verdict == "candidate better",
            decided["the margins"].now,
            outcome.margin.verdict == "no difference",
            holm_verdict(runs, tests) == "candidate better",
            not drawn.broken,
        )
        for row, hit in zip(ROWS, seen, strict=True):
            counts[row] += hit
    return {row: [hits, datasets] for row, hits in counts.items()}


ROWS = (
    "promoted by the evidence",
    "candidate better (without the guard)",
    "candidate better, tokens named first",
    "promoted by the margins",
    "no difference beyond the margins",
    "first edition: promoted by the evidence",
    "no broken task was drawn",
)


def verdicts_cell(name: str, tasks: int, repeats: int, datasets: int) -> dict[str, list[float]]:
    draw = np.random.default_rng([41, len(name), tasks, repeats])
    rows = (f"promoted by {way}{part}" for way in WAYS for part in ("", ", before"))
    counts = dict.fromkeys(rows, 0)
    for _ in range(datasets):
        values = trial(GUARDED[name], tasks, repeats, draw).values
        runs = runs_of(values)
        outcome = judged(runs, headline_tests(runs, frame(), None))
        for way, decided in promoted(GUARDED[name], values, outcome).items():
            counts[f"promoted by {way}"] += decided.now
            counts[f"promoted by {way}, before"] += decided.before
    return {row: [hits, datasets] for row, hits in counts.items()}


WAYS = ("the evidence", "the margins")
