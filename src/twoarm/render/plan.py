"""A plan in words: what to run, what it costs, and what it rests on."""

from collections.abc import Iterator

from twoarm.compare.decide import MINIMUM_REPEATS
from twoarm.render.sheet import Sheet, SheetLine
from twoarm.render.summary import SCOPES
from twoarm.render.tables import Cell, Column, Table, number, words
from twoarm.result.plan_advice import often, percent, recommended
from twoarm.result.plan_file import Plan, PlanKind, PlanOption, Spreads
from twoarm.runs.metric import BY_NAME, COST, SUCCESS
from twoarm.text.escape import counted
from twoarm.text.number_format import NOT_MEASURED, dollars, figure, share
from twoarm.text.sentence import Name, Sentence, say

_KINDS: dict[PlanKind, str] = {
    "repeats": "more repeats",
    "tasks": "more tasks",
    "cheapest": "cheapest",
}


def sheet_of(plan: Plan) -> Sheet:
    """The plan as a short report."""
    heading = say("Plan to see a change of {} in {}", amount(plan, plan.detect), label(plan))
    if plan.candidate is not None and plan.baseline is not None:
        heading = say("{}, {} vs. {}", heading, Name(plan.candidate), Name(plan.baseline))
    design = f"{counted(plan.tasks, 'task')} x {counted(plan.repeats, 'repeat')}"
    basis = "No pilot: assumed spreads" if plan.assumed else f"Pilot of {design}"
    where = "" if not plan.assumed else f"; {design}"
    return Sheet(
        heading=heading,
        overview=f"{basis}{where}; verdicts on {SCOPES[plan.scope]}, at {plan.level:.0%}",
        lines=tuple(_lines(plan)),
        tables=tuple(_tables(plan)),
        caveats=tuple(caveat.message for caveat in plan.caveats),
        tool=plan.tool,
    )


def label(plan: Plan) -> str:
    """What the planned metric is called."""
    return BY_NAME[plan.metric].label


def amount(plan: Plan, change: float | None) -> str:
    """A change: in percent, of success in points."""
    if change is None:
        return NOT_MEASURED
    if plan.metric == SUCCESS.name:
        return f"{change * 100:+.3g} points"
    return share(change, 0 if abs(change * 100 - round(change * 100)) < 1e-9 else 1)


def _lines(plan: Plan) -> Iterator[SheetLine]:
    yield SheetLine(label="PLAN", text=recommended(plan), first=True)
    chance = say(
        "{} chance that {} x {} show it{}",
        percent(plan.power),
        counted(plan.tasks, "task"),
        counted(plan.repeats, "repeat"),
        _down_to(plan),
    )
    yield SheetLine(label="NOW", text=chance)
    plans = (plan, plan.upper_limits) if plan.upper_limits is not None else (plan,)
    ends = dict.fromkeys(amount(plan, variant.smallest_detectable) for variant in plans)
    smallest = (
        say("no change is large enough to be seen {}", often(plan))
        if plan.smallest_detectable is None
        else say("{} is the smallest change they show {}", " to ".join(ends), often(plan))
    )
    yield SheetLine(label="SMALLEST", text=smallest)
    if plan.within_budget is not None and plan.budget_usd is not None:
        yield SheetLine(label="BUDGET", text=_budget(plan))


def _down_to(plan: Plan) -> str:
    """The chance if the spreads are at their upper limits, where that is less."""
    least = plan.upper_limits.power if plan.upper_limits is not None else 1.0
    if least >= plan.power or percent(least) == percent(plan.power):
        return ""
    return f" ({percent(least)} if the spreads are at their upper limits)"


def _budget(plan: Plan) -> Sentence:
    affordable = plan.within_budget
    assert affordable is not None
    assert plan.budget_usd is not None
    if not affordable.more_runs:
        return say("{} buys no more runs", dollars(plan.budget_usd))
    return say(
        "{} buys {} x {}: {} chance to see it, for about {}",
        dollars(plan.budget_usd),
        counted(affordable.tasks, "task"),
        counted(affordable.repeats, "repeat"),
        percent(affordable.power),
        dollars(affordable.usd),
    )


def _tables(plan: Plan) -> Iterator[Table]:
    if plan.options:
        yield _options(plan, plan.options, "options", f"Ways to a power of {plan.wanted_power:.0%}")
    if plan.upper_limits is not None and plan.upper_limits.options:
        heading = "The same if the spreads are at their 80% upper limits"
        yield _options(plan, plan.upper_limits.options, "upper-limits", heading)
    yield _rests_on(plan)


def _options(plan: Plan, options: tuple[PlanOption, ...], name: str, heading: str) -> Table:
    kept = [
        option
        for option in options
        if not plan.assumed and option.repeats < plan.repeats and option.tasks > plan.tasks
    ]
    notes = []
    if kept:
        pilot = counted(plan.tasks, "task")
        notes.append(f"The {pilot} of the pilot keep their {plan.repeats} repeats.")
    prices = {
        option.kind: option.more_runs if option.usd is None else option.usd for option in options
    }
    if any(price < prices.get("cheapest", 0) for price in prices.values()):
        notes.append(
            f"Cheapest is the least costly way with the {MINIMUM_REPEATS} repeats that a promotion "
            "needs, and with enough tasks for a verdict on tasks like these."
        )
    return Table(
        name=name,
        heading=heading,
        columns=(
            Column("way", "text"),
            Column("tasks"),
            Column("repeats"),
            Column("power"),
            Column("more tasks"),
            Column("more runs"),
            Column("dollars"),
        ),
        rows=tuple(_row(option) for option in options),
        notes=tuple(notes),
    )


def _row(option: PlanOption) -> tuple[Cell, ...]:
    return (
        words(_KINDS[option.kind]),
        number(f"{option.tasks:,}", option.tasks),
        number(f"{option.repeats:,}", option.repeats),
        number(percent(option.power), option.power),
        number(f"{option.more_tasks:,}", option.more_tasks),
        number(f"{option.more_runs:,}", option.more_runs),
        number(NOT_MEASURED if option.usd is None else dollars(option.usd), option.usd),
    )


def _rests_on(plan: Plan) -> Table:
    spreads: tuple[Spreads, ...] = (plan.spreads,)
    if plan.upper_limits is not None:
        spreads += (plan.upper_limits.spreads,)
    scale = "points" if plan.metric == SUCCESS.name else "log scale"
    rows = [
        (f"spread of the runs of a task ({scale})", _spread(plan, [each.run for each in spreads])),
        (
            f"spread of the change between tasks ({scale})",
            _spread(plan, [each.task for each in spreads]),
        ),
        ("level of the test beside the other gates", f"{plan.tested_at:.4f}"),
        ("power with endless repeats", percent(plan.power_with_endless_repeats)),
        (
            "how the power was found",
            "500 simulated verdicts" if plan.method == "trials" else plan.method,
        ),
    ]
    if plan.pair_cost_usd is not None:
        rows.append(("cost of a pair of runs", figure(plan.pair_cost_usd, COST.unit)))
    if plan.best_repeats is not None:
        rows.append(("repeats that are worth their money", f"{plan.best_repeats:.1f}"))
    return Table(
        name="basis",
        heading="What it rests on",
        columns=(Column("what", "text"), Column("value")),
        rows=tuple((words(name), number(shown, None)) for name, shown in rows),
    )


def _spread(plan: Plan, values: list[float]) -> str:
    success = plan.metric == SUCCESS.name
    shown = [f"{value * 100:.1f}" if success else f"{value:.2f}" for value in values]
    return " to ".join(dict.fromkeys(shown))
