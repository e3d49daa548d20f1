"""How much more to run: from a pilot, or from spreads that are assumed, to a plan."""

import math
from collections.abc import Iterator
from typing import Literal, Unpack

import msgspec
import numpy as np

from twoarm._version import __version__
from twoarm.compare.comparison import Comparison, set_side_by_side
from twoarm.compare.decide import MINIMUM_REPEATS
from twoarm.compare.screen import choose_arms
from twoarm.errors import Caveat, UsageError
from twoarm.evidence.cells import lay_out, task_runs
from twoarm.evidence.pilot import FEW_TASKS, Pilot, assumed_pilot, lacking, pair_cost, pilot_of
from twoarm.evidence.power import MOST_REPEATS, MOST_TASKS, Aim, Design, Outlook, UnitCosts
from twoarm.evidence.results import Scope
from twoarm.options import option, refused
from twoarm.planning.plan_options import ASSUMED, METRICS, PlanKeywords, PlanOptions, chosen_plan
from twoarm.planning.planner import Planner
from twoarm.render.report import ShortReport
from twoarm.render.sheet import Sheet
from twoarm.result.analysis import Tool
from twoarm.result.chosen_tasks import chosen_caveats
from twoarm.result.plan_advice import best
from twoarm.result.plan_file import (
    SCHEMA,
    Affordable,
    Plan,
    PlanKind,
    PlanOption,
    Point,
    Spreads,
    UpperLimits,
)
from twoarm.runs.metric import JUDGED, SUCCESS, Metric
from twoarm.runs.runfile import Progress, Source, read
from twoarm.text.escape import counted_tasks, series, tasks_or_families

# Points of a line of the chart: fewer where each of them has to be tried.
_POINTS, _TRIED_POINTS = 16, 6
# How far the chart reaches beyond the plan, and how many times over what there is without one.
_BEYOND, _TIMES = 1.5, 4.0


class PlanReport(ShortReport, Plan, frozen=True, kw_only=True):
    """A plan that can be shown, as text, Markdown or a page."""

    def sheet(self) -> Sheet:
        """The plan as a short report."""
        from twoarm.render.plan import sheet_of

        return sheet_of(self)

    def to_html(self) -> str:
        """The plan as one self-contained page; needs the extra `twoarm[html]`."""
        from twoarm.render.page import plan_page

        return plan_page.render(self)


def plan(
    source: Source | None = None,
    options: PlanOptions | None = None,
    *,
    progress: Progress | None = None,
    **keywords: Unpack[PlanKeywords],
) -> PlanReport:
    """Plan for a change: from the runs of a pilot, or without one from assumed spreads.

    The options are one value, or keywords of it.
    """
    options = chosen_plan(options, keywords)
    if source is None:
        return _planned(_assumed(options), options)
    for name in ASSUMED:
        if getattr(options, name) is not None:
            raise refused(name, "has no effect with a pilot, which says it itself")
    scoring = options.scoring
    runs = read(source, skip_bad=scoring.skip_bad, times=False, progress=progress)
    arms = choose_arms(runs.arms, scoring.candidate, scoring.baseline)
    if progress is not None:
        progress("planning", 0, None)
    return _planned(_measured(set_side_by_side(runs, arms, scoring), options), options)


# The pilot ----------------------------------------------------------------------------------------


class _Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan starts from."""

    pilot: Pilot
    design: Design
    comparison: Comparison | None
    pair_usd: float | None


def _assumed(options: PlanOptions) -> _Basis:
    values = {name: getattr(options, name) for name in ASSUMED}
    missing = [option(name) for name, value in values.items() if value is None]
    if missing:
        raise UsageError(f"without a run file a plan needs {', '.join(missing)}")
    metric = METRICS[options.metric]
    if metric is SUCCESS:
        raise refused(
            "metric",
            "success needs the runs of a pilot: how much it varies depends on how often "
            "each task passes",
        )
    return _Basis(
        pilot=assumed_pilot(metric, values["spread"], values["task_spread"]),
        design=Design(tasks=values["tasks"], repeats=values["repeats"]),
        comparison=None,
        pair_usd=options.pair_cost,
    )


def _measured(comparison: Comparison, options: PlanOptions) -> _Basis:
    metric = METRICS[options.metric]
    layout, rows = lay_out(comparison)
    runs = [task_runs(judged, comparison, layout, rows).on_test_scale() for judged in JUDGED]
    reason = lacking(next(measure for measure in runs if measure.metric is metric))
    if reason is not None:
        raise UsageError(
            f"no plan from this pilot: {reason}; or assume spreads, with "
            f"{series([option(name) for name in ASSUMED])} in place of a file"
        )
    pilot = pilot_of(runs, metric)
    if metric is SUCCESS:
        _refuse_unreachable(pilot, options.relative)
    return _Basis(
        pilot=pilot,
        design=Design(tasks=pilot.tasks, repeats=pilot.repeats),
        comparison=comparison,
        pair_usd=pair_cost(comparison) if options.pair_cost is None else options.pair_cost,
    )


def _refuse_unreachable(pilot: Pilot, change: float) -> None:
    rate = float(pilot.rates.mean())
    if not 0.0 < rate + change < 1.0:
        way = "rise" if change > 0 else "fall"
        raise refused(
            "detect",
            f"success is {rate:.1%} in the pilot and cannot {way} by {abs(change) * 100:g} points",
        )


# The plan -----------------------------------------------------------------------------------------


def _planned(basis: _Basis, options: PlanOptions) -> PlanReport:
    metric = basis.pilot.metric
    change = options.relative if metric is SUCCESS else math.log1p(options.relative)
    aim = Aim(
        change=change,
        alpha=1.0 - options.scoring.level,
        power=options.power,
        first=options.primary,
    )
    prices, unpriced = _prices(basis, options), basis.pair_usd is None
    outlook = Outlook(pilot=basis.pilot, aim=aim)
    planner = Planner(outlook, prices, options.scoring.seed)
    designs = _Designs(basis, planner, unpriced)
    power = planner.power(basis.design)
    options_found = designs.options(power)
    sure = None if basis.comparison is None else _to_be_sure(basis, planner)
    limits = None if sure is None else _upper_limits(sure, power, unpriced)
    smallest = planner.detectable(basis.design)
    return PlanReport(
        schema=SCHEMA,
        tool=Tool(name="twoarm", version=__version__),
        inputs=() if basis.comparison is None else basis.comparison.runs.inputs,
        candidate=None if basis.comparison is None else basis.comparison.arms.candidate,
        baseline=None if basis.comparison is None else basis.comparison.arms.baseline,
        metric=metric.name,
        detect=options.relative,
        scope=_scope(basis.design, outlook),
        tasks=basis.pilot.whole_tasks(basis.design.tasks),
        chosen_tasks=None if basis.comparison is None else basis.comparison.screening.chosen_tasks,
        families=basis.pilot.families(basis.design.tasks),
        repeats=basis.design.repeats,
        power=power,
        smallest_detectable=_as_relative(smallest, change, metric),
        power_with_endless_repeats=planner.endless_repeats(basis.design.tasks),
        options=options_found,
        caveats=tuple(_caveats(basis, outlook, options)),
        wanted_power=options.power,
        level=options.scoring.level,
        seed=options.scoring.seed,
        primary=options.primary,
        tested_at=outlook.level,
        method="trials" if planner.by_trials(basis.design.tasks) else "closed form",
        assumed=basis.comparison is None,
        spreads=_spreads(basis.pilot),
        pair_cost_usd=basis.pair_usd,
        task_cost_usd=options.task_cost,
        best_repeats=None if unpriced else outlook.best_repeats(prices),
        budget_usd=options.budget,
        within_budget=None if options.budget is None else designs.affordable(options.budget, sure),
        upper_limits=limits,
        recommended=best(options_found if limits is None else limits.options),
        curve=tuple(designs.curve(options_found)),
    )


def _prices(basis: _Basis, options: PlanOptions) -> UnitCosts:
    """What a pair and a task cost; without a price, pairs are counted. A family has several."""
    each = basis.pilot.each
    if basis.pair_usd is not None:
        return UnitCosts(pair=each * (basis.pair_usd or 1e-9), task=each * options.task_cost)
    priced = option("pair_cost")
    if options.budget is not None:
        raise refused("budget", f"no cost is known; say what a pair costs with {priced}")
    if options.task_cost:
        raise refused(
            "task_cost", f"has no effect without a cost; say what a pair costs with {priced}"
        )
    return UnitCosts(pair=1.0, task=0.0)


def _scope(design: Design, outlook: Outlook) -> Scope:
    return "these_tasks" if design.tasks < outlook.fewest_tasks else "tasks_like_these"


def _as_relative(size: float | None, change: float, metric: Metric) -> float | None:
    """A size on the scale of the test as a change in the direction that is asked for."""
    if size is None:
        return None
    signed = math.copysign(size, change)
    return signed if metric is SUCCESS else math.expm1(signed)


def _spreads(pilot: Pilot) -> Spreads:
    return Spreads(
        run=math.sqrt(float(pilot.run_variance[pilot.at]) / pilot.shrunk / 2.0),
        task=math.sqrt(float(pilot.task_variance[pilot.at])),
    )


class _Sure(msgspec.Struct, frozen=True, kw_only=True):
    """The same start, with spreads at their upper limits."""

    basis: _Basis
    planner: Planner


def _to_be_sure(basis: _Basis, planner: Planner) -> _Sure:
    above = msgspec.structs.replace(basis, pilot=basis.pilot.with_upper_limits())
    return _Sure(basis=above, planner=planner.for_pilot(above.pilot))


def _upper_limits(sure: _Sure, expected: float, unpriced: bool) -> UpperLimits:
    planner, design, aim = sure.planner, sure.basis.design, sure.planner.outlook.aim
    # Trials have an error, but no change is more often clear where runs and tasks vary more.
    power = min(expected, planner.power(design))
    return UpperLimits(
        spreads=_spreads(sure.basis.pilot),
        power=power,
        smallest_detectable=_as_relative(
            planner.detectable(design), aim.change, sure.basis.pilot.metric
        ),
        power_with_endless_repeats=planner.endless_repeats(design.tasks),
        options=_Designs(sure.basis, planner, unpriced).options(power),
    )


class _Designs:
    """The designs that a planner finds, as they are reported."""

    def __init__(self, basis: _Basis, planner: Planner, unpriced: bool) -> None:
        self._basis, self._planner, self._unpriced = basis, planner, unpriced

    def options(self, power: float) -> tuple[PlanOption, ...]:
        """What reaches the power, if the present design does not.

        What is enough for these very tasks says nothing about others.
        """
        planner, have = self._planner, self._basis.design
        enough = power >= planner.outlook.aim.power
        if enough and _scope(have, planner.outlook) == "tasks_like_these":
            return ()
        designs: dict[PlanKind, Design | None] = {
            "repeats": None if enough else planner.repeats_for(have.tasks, have.repeats + 1),
            "tasks": planner.tasks_for(max(have.repeats, 2), have.tasks),
        }
        designs["cheapest"] = self._cheapest([*designs.values()])
        return tuple(
            self._option(kind, design) for kind, design in designs.items() if design is not None
        )

    def _cheapest(self, others: list[Design | None]) -> Design | None:
        """The cheapest that a grid or another way finds, for tasks like these and a promotion."""
        planner = self._planner
        designs = [planner.cheapest(self._basis.pilot.tasks), *others]
        fit = [
            design
            for design in designs
            if design is not None
            and design.repeats >= MINIMUM_REPEATS
            and _scope(design, planner.outlook) == "tasks_like_these"
        ]
        return min(fit, key=planner.usd, default=None)

    def _option(self, kind: PlanKind, design: Design) -> PlanOption:
        planner = self._planner
        scope = _scope(design, planner.outlook)
        # Trials of these very tasks take long, and the closed form is good.
        power = planner.about(design) if scope == "these_tasks" else planner.power(design)
        pilot = self._basis.pilot
        return PlanOption(
            kind=kind,
            tasks=pilot.whole_tasks(design.tasks),
            families=pilot.families(design.tasks),
            repeats=design.repeats,
            power=power,
            usd=self._usd(design),
            more_tasks=pilot.whole_tasks(design.tasks - pilot.tasks),
            more_runs=self._more_runs(design),
            scope=scope,
        )

    def affordable(self, budget: float, sure: _Sure | None) -> Affordable:
        """The most power for the money."""
        design = self._planner.within(budget)
        power = self._planner.power(design) if design.tasks and design.repeats else 0.0
        pilot = self._basis.pilot
        return Affordable(
            tasks=pilot.whole_tasks(design.tasks),
            families=pilot.families(design.tasks),
            repeats=design.repeats,
            power=power,
            usd=self._planner.usd(design),
            more_tasks=pilot.whole_tasks(design.tasks - pilot.tasks),
            more_runs=self._more_runs(design),
            power_to_be_sure=None if sure is None else min(power, sure.planner.power(design)),
        )

    def curve(self, options: tuple[PlanOption, ...]) -> Iterator[Point]:
        """Power against money, by more repeats of these tasks and by more tasks."""
        have, pilot = self._basis.design, self._basis.pilot
        runs = max((option.more_runs for option in options), default=0) * _BEYOND / pilot.each
        pairs = max(runs / 2.0, (_TIMES - 1.0) * have.tasks * have.repeats)
        used = pilot.tasks * pilot.repeats
        lines: dict[Literal["repeats", "tasks"], tuple[float, float]] = {
            "repeats": (have.repeats, min((pairs + used) / have.tasks, MOST_REPEATS)),
            "tasks": (have.tasks, min((pairs + used) / have.repeats, MOST_TASKS)),
        }
        for kind, (first, last) in lines.items():
            tried = self._planner.by_trials(have.tasks)
            steps = np.geomspace(first, max(last, first + 1), _TRIED_POINTS if tried else _POINTS)
            for step in dict.fromkeys(np.rint(steps).astype(int).tolist()):
                design = (
                    Design(tasks=have.tasks, repeats=step)
                    if kind == "repeats"
                    else Design(tasks=step, repeats=have.repeats)
                )
                yield Point(
                    kind=kind,
                    tasks=pilot.whole_tasks(design.tasks),
                    repeats=design.repeats,
                    power=self._planner.about(design),
                    usd=self._usd(design),
                    more_runs=self._more_runs(design),
                )

    def _usd(self, design: Design) -> float | None:
        return None if self._unpriced else self._planner.usd(design)

    def _more_runs(self, design: Design) -> int:
        outlook = self._planner.outlook
        return 2 * outlook.pilot.whole_tasks(
            int(outlook.pairs_to_add(design.tasks, design.repeats))
        )


def _caveats(basis: _Basis, outlook: Outlook, options: PlanOptions) -> Iterator[Caveat]:
    design, pilot = basis.design, basis.pilot
    units = tasks_or_families(pilot.families(pilot.tasks))
    if basis.comparison is not None:
        screening = basis.comparison.screening
        yield from chosen_caveats(screening, options.scoring, verdict=False)
    if basis.comparison is None:
        yield Caveat.say(
            "assumed_spreads",
            "the spreads are assumed, and so is that the gates' metrics are unrelated; a pilot "
            "of {} tasks would tell",
            FEW_TASKS,
        )
    elif pilot.tasks < FEW_TASKS:
        yield Caveat.say(
            "small_pilot",
            "a pilot of {} says little about how much {} differ, so that being sure takes "
            "many more runs; one of {} or more says it better",
            counted_tasks(pilot.whole_tasks(pilot.tasks), pilot.families(pilot.tasks)),
            units,
            FEW_TASKS,
        )
    if design.tasks < outlook.fewest_tasks:
        yield Caveat.say(
            "these_tasks",
            "with fewer than {} {} the power is that of a verdict on these very tasks; it "
            "says nothing about others",
            outlook.fewest_tasks,
            units,
        )
    if basis.comparison is not None and not pilot.task_variance[pilot.at]:
        yield Caveat.say(
            "no_task_spread",
            "no difference between {} was seen beyond that of their runs: repeats look as good "
            "as {}, which can be luck",
            units,
            units,
        )
    if basis.pair_usd is None:
        yield Caveat.say("no_cost", "no cost is known: dollars are left out")
    if design.repeats < MINIMUM_REPEATS:
        yield Caveat.say(
            "few_repeats",
            "a promotion needs at least {} repeats of every task, whatever the power",
            MINIMUM_REPEATS,
        )
