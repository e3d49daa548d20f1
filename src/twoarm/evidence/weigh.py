"""All the evidence, from what scoring found: the two questions, side by side, never on one line."""

import math

import msgspec
import numpy as np

from twoarm.compare.comparison import Comparison
from twoarm.compare.decide import GATES, Decision
from twoarm.evidence import means
from twoarm.evidence.arm_medians import weigh_gate
from twoarm.evidence.by_tag import weigh_tags
from twoarm.evidence.cells import (
    BOUNDED,
    Layout,
    TaskRuns,
    group_pairs,
    lay_out,
    places,
    shared_tasks,
    task_runs,
)
from twoarm.evidence.deltas import weigh_deltas
from twoarm.evidence.design import order_of_arms
from twoarm.evidence.exclusions import audit
from twoarm.evidence.grade import Margins, Tested, grade, margin_rule
from twoarm.evidence.harm import watch
from twoarm.evidence.interval import Frame
from twoarm.evidence.looks import (
    Planned,
    can_be_clear,
    chance_at_the_end,
    clear_at,
    level_alone,
    look,
    planned,
    spending,
)
from twoarm.evidence.next_runs import next_runs
from twoarm.evidence.per_solved import per_solved
from twoarm.evidence.pilot import pair_cost
from twoarm.evidence.relabel import Relabelled, labels_within_tasks, signs_of_tasks
from twoarm.evidence.repeats import both_repeats
from twoarm.evidence.resample import MOST_UNITS, Tables, shared_resamples
from twoarm.evidence.results import (
    FEWEST_TASKS,
    FUTILE,
    DecisionWithout,
    DeltaEvidence,
    Evidence,
    Grade,
    Influence,
    Looks,
    Margin,
    MeanWithout,
    P,
    Scope,
    Stability,
    Variance,
)
from twoarm.evidence.scores import has_scores, weigh_scores
from twoarm.evidence.single_tasks import single_tasks
from twoarm.evidence.solved import among_solved
from twoarm.evidence.stability import (
    decision_stability,
    decision_without,
    mean_without,
    sample,
    without_tasks,
)
from twoarm.options import PRIMARY, Options, refused
from twoarm.runs.arrays import Ints
from twoarm.runs.metric import DURATION, JUDGED, SCORE, SUCCESS
from twoarm.runs.study import StopReason
from twoarm.text.escape import counted

# No table of random draws is larger, in numbers of 8 bytes.
MOST_CELLS = 2**25

# The score comes last, where there is one.
_METRICS = (*JUDGED, SCORE)
_COLUMNS = {metric.name: column for column, metric in enumerate(_METRICS)}
_GATED = [_COLUMNS[gate.metric.name] for gate in GATES]


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What else is looked at besides one candidate: how many there are, and what that leaves.

    `adjusted` holds the p-values of this candidate's gates if all candidates were tested at once.
    """

    candidates: int = 1
    adjusted: dict[str, float] | None = None

    def level_of_each(self, level: float) -> float:
        """The level of one candidate's tests where each has its share."""
        return 1.0 - (1.0 - level) / self.candidates


ALONE = Allowance()


class Tests(msgspec.Struct, frozen=True, kw_only=True):
    """The test that the headline goes by, for every judged metric.

    `clear` holds the look at which each gate's metric became clear, where looks were planned.
    """

    scope: Scope
    relabelled: Relabelled | None
    adjusted: dict[int, float]
    clear: dict[int, int] | None = None

    def p(self, column: int) -> float | None:
        """The p-value of one metric alone."""
        return None if self.relabelled is None else self.relabelled.p(column)


class _Hanging(msgspec.Struct, frozen=True, kw_only=True):
    """How the decision fares on the tasks that both arms have, and what it hangs on."""

    tasks: int
    decision: Decision
    stability: Stability | None
    influence: Influence


def weigh(comparison: Comparison, options: Options, allowance: Allowance = ALONE) -> Evidence:
    """Everything the runs can support."""
    layout, rows = lay_out(comparison)
    plan = planned(comparison, layout, rows, options)
    frame = _frame(options, len(layout.tasks), plan)
    measured = _measured(comparison, layout, rows, options)
    runs = [measure.on_test_scale() for measure in measured]
    tests = headline_tests(runs, frame, options.primary, allowance)
    if plan is not None:
        tests = at_look(runs, tests, plan, frame, options.primary, allowance)
    p = _p_values(runs, tests, frame)
    deltas, without = _metric_by_metric(runs, measured, p, comparison, frame)
    success = deltas[SUCCESS.name].mean
    graded = grade_of(runs, tests, options.primary, frame)
    guard = watch(
        runs[_COLUMNS[SUCCESS.name]],
        comparison.runs.tasks,
        _fewest(runs),
        deltas,
        graded,
        frame.level,
    )
    order, tags_of = order_of_arms(comparison), comparison.runs.tags_by_task
    hanging = _hanging(comparison, frame, without)
    return Evidence(
        level=frame.level,
        seed=options.seed,
        resamples=options.resamples,
        tasks=len(layout.tasks),
        families=None if layout.family is None else layout.families,
        headline=tests.scope,
        deltas=deltas,
        gates={
            gate.name: weigh_gate(gate, comparison, success, frame) for gate in comparison.gates
        },
        shared_tasks=hanging.tasks,
        on_shared_tasks=hanging.decision,
        stability=hanging.stability,
        grade=graded,
        margin=_margin(deltas, graded, options),
        guard=guard,
        exclusions=audit(comparison),
        influence=hanging.influence,
        variance=_variance(runs[_COLUMNS[DURATION.name]]),
        repeats=both_repeats(comparison.screening, len(comparison.runs.tasks)),
        per_solved=per_solved(comparison.screening, comparison.families, frame),
        scores=weigh_scores(comparison, layout, rows, frame),
        tags=weigh_tags(runs, [tags_of[code] for code in layout.tasks.tolist()], frame),
        single_tasks=single_tasks(runs[: len(JUDGED)], comparison.runs.tasks, frame.level),
        order=order,
        next_runs=next_runs(
            runs[: len(JUDGED)],
            graded,
            options,
            (1.0 - frame.tests) / allowance.candidates,
            pair_cost(comparison),
        ),
        looks=None if plan is None else _looks(runs, tests, plan, graded, options, allowance),
    )


def _measured(
    comparison: Comparison, layout: Layout, rows: tuple[Ints, Ints], options: Options
) -> list[TaskRuns]:
    """What is weighed; a score that was named first has its place even if no run has one."""
    scored = has_scores(comparison) or options.primary == SCORE.name
    metrics = _METRICS if scored else JUDGED
    return [task_runs(metric, comparison, layout, rows) for metric in metrics]


def _fewest(runs: list[TaskRuns]) -> dict[str, int]:
    """The fewest measured repeats of a task in an arm, by metric."""
    return {
        measure.metric.name: int(measure.sizes.min())
        if measure.sizes.size and not _free(measure)
        else 0
        for measure in runs
    }


def _free(runs: TaskRuns) -> bool:
    """Whether an arm has nothing but zeros, which measure nothing."""
    return not runs.logs and bool((np.nan_to_num(runs.means) == 0.0).all(axis=1).any())


def _metric_by_metric(
    runs: list[TaskRuns], measured: list[TaskRuns], p: list[P], comparison: Comparison, frame: Frame
) -> tuple[dict[str, DeltaEvidence], dict[str, MeanWithout]]:
    """The intervals of each metric, and its mean without the task that moves it most."""
    deltas: dict[str, DeltaEvidence] = {}
    without: dict[str, MeanWithout] = {}
    passes = runs[_COLUMNS[SUCCESS.name]]
    for scaled, raw, chances in zip(runs, measured, p, strict=True):
        # There may be millions of pairs: one metric at a time.
        pairs = group_pairs(scaled.metric, comparison)
        solved = None if scaled.metric in BOUNDED else among_solved(scaled, passes)
        deltas[scaled.metric.name] = weigh_deltas(scaled, raw, pairs, chances, frame, solved)
        single = mean_without(pairs, comparison.runs.tasks)
        if single is not None:
            without[scaled.metric.name] = single
    return deltas, without


def _margin(deltas: dict[str, DeltaEvidence], graded: Grade, options: Options) -> Margin:
    """What the margin rule says of success and of the ratios of the other gates."""
    ratios = {
        gate.metric.name: deltas[gate.metric.name].ratio
        for gate in GATES
        if gate.metric is not SUCCESS
    }
    margins = Margins(success=options.margin_success, ratio=options.margin_ratio)
    solved = {name: delta.solved for name, delta in deltas.items()}
    return margin_rule(deltas[SUCCESS.name].mean, ratios, solved, graded, margins)


def _frame(options: Options, tasks: int, plan: Planned | None) -> Frame:
    """The level and the draws; more of them than memory should hold are refused.

    At a look, an interval has the level that makes those of all looks hold together.
    """
    # Tasks are drawn in bundles beyond these.
    wide = max(min(tasks, MOST_UNITS), 1)
    if options.resamples * wide > MOST_CELLS:
        raise refused(
            "resamples",
            f"at most {MOST_CELLS // wide} fit into memory for these {counted(tasks, 'task')}, "
            f"got {options.resamples}",
        )
    level = options.level
    if plan is not None:
        level = level_alone(plan.looks[: plan.at + 1], plan.r_max, options.level)
    return Frame(level=level, tests=options.level, seed=options.seed, resamples=options.resamples)


def headline_tests(
    runs: list[TaskRuns], frame: Frame, primary: str | None, allowance: Allowance = ALONE
) -> Tests:
    """Relabel whole families if there are enough for a clear test; otherwise runs inside tasks."""
    layout = runs[0].layout
    scope: Scope = "these_tasks"
    relabelled = None
    if layout.families >= frame.fewest_tasks:
        deltas = np.array([measure.family_deltas for measure in runs])
        # A metric of too few tasks could never be clear.
        deltas[(~np.isnan(deltas)).sum(axis=1) < frame.fewest_tasks] = np.nan
        scope, relabelled = "tasks_like_these", signs_of_tasks(deltas, frame.seed)
    elif len(layout.tasks):
        relabelled = labels_within_tasks(runs, frame.seed)
    first = None if primary is None else _COLUMNS[PRIMARY[primary]]
    adjusted = {} if relabelled is None else relabelled.adjusted(_GATED, first)
    if allowance.adjusted is not None:
        adjusted = {_COLUMNS[name]: p for name, p in allowance.adjusted.items()}
    elif allowance.candidates > 1:
        adjusted = {column: min(1.0, allowance.candidates * p) for column, p in adjusted.items()}
    return Tests(scope=scope, relabelled=relabelled, adjusted=adjusted)


def at_look(
    runs: list[TaskRuns],
    tests: Tests,
    plan: Planned,
    frame: Frame,
    primary: str | None,
    allowance: Allowance,
) -> Tests:
    """The same tests, by what the looks so far may spend."""
    tested = [column for column in range(len(runs)) if column in tests.adjusted]
    named = None if primary is None else _COLUMNS[PRIMARY[primary]]
    if named is not None and named not in tested:
        # Nothing is clear before what was named first, which never differs.
        return msgspec.structs.replace(tests, clear={})
    first = None if named is None else tested.index(named)
    shares = plan.shares(allowance.level_of_each(frame.tests))
    statistics = look([runs[column] for column in tested], plan, frame) if tested else []
    clear = clear_at(statistics, shares, range(len(tested)), first) if tested else {}
    looks = {tested[at]: plan.looks[number] for at, number in clear.items()}
    return msgspec.structs.replace(tests, clear=looks)


def _looks(
    runs: list[TaskRuns],
    tests: Tests,
    plan: Planned,
    graded: Grade,
    options: Options,
    allowance: Allowance,
) -> Looks:
    """Where the runs stand, and whether more repeats are needed to know which arm is better."""
    stop: StopReason | None = None
    assert tests.clear is not None
    if plan.after < plan.r_max:
        if graded.verdict in ("candidate better", "baseline better"):
            stop = graded.verdict
        elif not tests.clear.keys() & set(_GATED) and _in_vain(
            runs, plan, options.level, allowance
        ):
            stop = "futility"
    return Looks(
        looks=plan.looks,
        r_max=plan.r_max,
        after=plan.after,
        level=options.level,
        spent=spending(plan.after, plan.r_max, options.level),
        clear={_METRICS[column].name: after for column, after in tests.clear.items()},
        incomplete=plan.incomplete,
        stop=stop,
        planned_runs=2 * len(runs[0].layout.tasks) * plan.r_max,
        saved_runs=0,
        stopped=None,
    )


def _in_vain(runs: list[TaskRuns], plan: Planned, level: float, allowance: Allowance) -> bool:
    """Whether the last look would hardly tell more."""
    if not can_be_clear(runs[0].layout.families, level, allowance.candidates):
        return True
    alone = allowance.level_of_each(level)
    chances = [chance_at_the_end(runs[column], plan, alone) for column in _GATED]
    known = [chance for chance in chances if chance is not None]
    return bool(known) and max(known) < FUTILE


def _p_values(runs: list[TaskRuns], tests: Tests, frame: Frame) -> list[P]:
    """The p-values of each metric for both questions."""
    here = tests.relabelled
    if tests.scope == "tasks_like_these":
        here = labels_within_tasks(runs, frame.seed)
    return [
        P(
            these_tasks=None if here is None else here.p(column),
            tasks_like_these=None if tests.scope == "these_tasks" else tests.p(column),
            adjusted=tests.adjusted.get(column),
        )
        for column in range(len(runs))
    ]


def grade_of(runs: list[TaskRuns], tests: Tests, primary: str | None, frame: Frame) -> Grade:
    """The verdict on the metrics of the gates."""
    most = 1.0 - frame.tests + 1e-12

    def tested(column: int) -> Tested:
        return Tested(
            metric=_METRICS[column],
            direction=math.fsum(np.nan_to_num(runs[column].family_deltas)),
            p=tests.p(column),
            adjusted=tests.adjusted.get(column),
            clear=column in tests.clear
            if tests.clear is not None
            else tests.adjusted.get(column, 1.0) <= most,
        )

    name = None if primary is None else PRIMARY[primary]
    gated = name is None or _COLUMNS[name] in _GATED
    first = None if name is None or gated else tested(_COLUMNS[name])
    fewest = 1.0 if tests.relabelled is None else tests.relabelled.fewest
    return grade(list(map(tested, _GATED)), first, tests.scope, name, most, fewest)


def _hanging(
    comparison: Comparison, frame: Frame, means_without: dict[str, MeanWithout]
) -> _Hanging:
    names, decision = comparison.runs.tasks, comparison.decision
    shared = shared_tasks(SUCCESS, comparison.screening)
    stability, on_shared = None, decision
    changes: tuple[DecisionWithout, ...] = ()
    if decision.kind != "insufficient" and len(shared):
        ours, theirs = (sample(arm, len(names), shared) for arm in comparison.screening.arms)
        if len(shared) < len(comparison.tasks):
            on_shared = decision_without((ours, theirs), None)
        # Otherwise what is resampled or left out says nothing about the decision.
        if on_shared == decision:
            tables = Tables()
            changes = without_tasks(names, decision, (ours, theirs), tables)
            family = places(comparison.families, shared)
            count = len(shared) if family is None else int(family.max()) + 1
            resampled = shared_resamples(count, frame)
            if resampled is not None and count >= FEWEST_TASKS:
                stability = decision_stability(
                    decision, (ours, theirs), frame, resampled, tables, family
                )
    return _Hanging(
        tasks=len(shared),
        decision=on_shared,
        stability=stability,
        influence=Influence(decision_changes_without=changes, means=means_without),
    )


def _variance(runs: TaskRuns) -> Variance | None:
    """How much of the error over tasks is run-to-run noise: what more repeats could remove."""
    sizes, deltas = runs.sizes[:, runs.shared], runs.independent
    if not runs.logs or len(deltas) < 2 or sizes.max() == 1:
        return None
    within = means.within_tasks(runs.spreads[:, runs.shared], sizes, runs.weights)
    over = means.over_tasks(deltas)
    if within is None or over.variance <= 0.0:
        return None
    repeats = min(1.0, within.variance / over.variance)
    return Variance(metric=runs.metric.name, tasks_share=1.0 - repeats, repeats_share=repeats)
