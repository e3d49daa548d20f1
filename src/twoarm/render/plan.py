"""A plan in words: what to run, what it costs, and what it rests on."""

from collections.abc import Iterator

from twoarm.compare.decide import MINIMUM_REPEATS
from twoarm.render.sheet import Sheet, SheetLine
from twoarm.render.summary import SCOPES
from twoarm.render.tables import Cell, Column, Table, number, tasks_counted, words
from twoarm.result.plan_advice import often, percent, what_to_run
from twoarm.result.plan_file import Plan, PlanKind, PlanOption, UpperLimits
from twoarm.runs.metric import BY_NAME, COST, SUCCESS
from twoarm.text.escape import counted, counted_tasks, tasks_or_families
from twoarm.text.number_format import NOT_MEASURED, dollars, figure, share
from twoarm.text.sentence import Name, Sentence, say

_KINDS: dict[PlanKind, str] = {
    "repeats": "more repeats",
    "tasks": "more tasks",
    "cheapest": "cheapest",
}
_CHEAPEST = (
    f"Cheapest is the least costly way with the {MINIMUM_REPEATS} repeats that a promotion needs, "
    "and with enough tasks for a verdict on tasks like these."
)


def sheet_of(plan: Plan) -> Sheet:
    """The plan as a short report."""
    heading = say("Plan to see a change of {} in {}", amount(plan, plan.detect), label(plan))
    if plan.candidate is not None and plan.baseline is not None:
        heading = say("{}, {} vs. {}", heading, Name(plan.candidate), Name(plan.baseline))
    tasks = tasks_counted(plan.tasks, plan.families, plan.chosen_tasks)
    design = f"{tasks} x {counted(plan.repeats, 'repeat')}"
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
    yield SheetLine(label="PLAN", text=what_to_run(plan), first=True)
    limits = plan.upper_limits
    chance = say(
        "{} chance that {} x {} show it{}",
        percent(plan.power),
        counted_tasks(plan.tasks, plan.families),
        counted(plan.repeats, "repeat"),
        _to_be_sure(percent(plan.power), None if limits is None else percent(limits.power)),
    )
    yield SheetLine(label="NOW", text=chance)
    yield SheetLine(label="SMALLEST", text=_smallest(plan))
    if plan.within_budget is not None and plan.budget_usd is not None:
        yield SheetLine(label="BUDGET", text=_budget(plan))


def _smallest(plan: Plan) -> Sentence:
    if plan.smallest_detectable is None:
        return say("no change is large enough to be seen {}", often(plan))
    expected, limits = amount(plan, plan.smallest_detectable), plan.upper_limits
    sure = None if limits is None else amount(plan, limits.smallest_detectable)
    if sure == NOT_MEASURED:
        sure = "none"
    return say(
        "{}{} is the smallest change they show {}",
        expected,
        _to_be_sure(expected, sure),
        often(plan),
    )


def _to_be_sure(expected: str, sure: str | None) -> str:
    """The same with the spreads at their upper limits, where it is another figure."""
    return "" if sure is None or sure == expected else f" (to be sure: {sure})"


def _budget(plan: Plan) -> Sentence:
    affordable = plan.within_budget
    assert affordable is not None
    assert plan.budget_usd is not None
    if not affordable.more_runs:
        return say("{} buys no more runs", dollars(plan.budget_usd))
    chance, sure = percent(affordable.power), affordable.power_to_be_sure
    return say(
        "{} buys {} x {}: {} chance to see it{}, for about {}",
        dollars(plan.budget_usd),
        counted_tasks(affordable.tasks, affordable.families),
        counted(affordable.repeats, "repeat"),
        chance,
        _to_be_sure(chance, None if sure is None else percent(sure)),
        dollars(affordable.usd),
    )


def _tables(plan: Plan) -> Iterator[Table]:
    if plan.upper_limits is not None and (plan.options or plan.upper_limits.options):
        yield _side_by_side(plan, plan.upper_limits)
    elif plan.options:
        yield _options(plan)
    yield _rests_on(plan)


def _heading(plan: Plan) -> str:
    return f"Ways to a power of {plan.wanted_power:.0%}"


def _side_by_side(plan: Plan, limits: UpperLimits) -> Table:
    """Every way as expected, and to be sure."""
    expected, sure = (
        {option.kind: option for option in options} for options in (plan.options, limits.options)
    )
    notes = [*_kept(plan, (*plan.options, *limits.options))]
    if not expected:
        notes.append("These runs are expected to be enough; what is listed is to be sure.")
    else:
        notes.append(
            "Plans as expected turn out too small about half of the time, plans to be sure less "
            "than one time in five."
        )
    if _not_the_least(plan.options) or _not_the_least(limits.options):
        notes.append(_CHEAPEST)
    half = (Column("more runs"), Column("dollars"))
    return Table(
        name="options",
        heading=_heading(plan),
        columns=(
            *(Column("way", "text"), Column("expected"), *half),
            *(Column("to be sure"), *half),
        ),
        rows=tuple(
            (words(name), *_half(expected.get(kind)), *_half(sure.get(kind)))
            for kind, name in _KINDS.items()
            if kind in expected or kind in sure
        ),
        notes=tuple(notes),
    )


def _half(option: PlanOption | None) -> tuple[Cell, ...]:
    if option is None:
        return (number(NOT_MEASURED, None),) * 3
    return (
        number(f"{option.tasks:,} x {option.repeats:,}", option.tasks * option.repeats),
        number(f"{option.more_runs:,}", option.more_runs),
        _dollars(option),
    )


def _kept(plan: Plan, options: tuple[PlanOption, ...]) -> Iterator[str]:
    """Tasks of the pilot that have more repeats than a design asks for, or come in families."""
    if plan.families is not None:
        yield "Other families are taken to have as many tasks as those of the pilot."
    if any(way.repeats < plan.repeats and way.tasks > plan.tasks for way in options):
        pilot = counted(plan.tasks, "task")
        yield f"The {pilot} of the pilot keep their {plan.repeats} repeats."


def _not_the_least(options: tuple[PlanOption, ...]) -> bool:
    """Whether what is called the cheapest is not what costs least."""
    prices = {
        option.kind: option.more_runs if option.usd is None else option.usd for option in options
    }
    return any(price < prices.get("cheapest", 0) for price in prices.values())


def _options(plan: Plan) -> Table:
    """Every way, where spreads are assumed."""
    return Table(
        name="options",
        heading=_heading(plan),
        columns=(
            Column("way", "text"),
            Column("tasks"),
            Column("repeats"),
            Column("power"),
            Column("more tasks"),
            Column("more runs"),
            Column("dollars"),
        ),
        rows=tuple(_row(option) for option in plan.options),
        notes=(_CHEAPEST,) if _not_the_least(plan.options) else (),
    )


def _row(option: PlanOption) -> tuple[Cell, ...]:
    return (
        words(_KINDS[option.kind]),
        number(f"{option.tasks:,}", option.tasks),
        number(f"{option.repeats:,}", option.repeats),
        number(percent(option.power), option.power),
        number(f"{option.more_tasks:,}", option.more_tasks),
        number(f"{option.more_runs:,}", option.more_runs),
        _dollars(option),
    )


def _dollars(option: PlanOption) -> Cell:
    return number(NOT_MEASURED if option.usd is None else dollars(option.usd), option.usd)


def _rests_on(plan: Plan) -> Table:
    limits = plan.upper_limits
    scale = "points" if plan.metric == SUCCESS.name else "log scale"
    units = tasks_or_families(plan.families)
    rows = [
        (
            f"spread of the runs of a task ({scale})",
            _spread(plan, plan.spreads.run, None if limits is None else limits.spreads.run),
        ),
        (
            f"spread of the change between {units} ({scale})",
            _spread(plan, plan.spreads.task, None if limits is None else limits.spreads.task),
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


def _spread(plan: Plan, expected: float, sure: float | None) -> str:
    """A spread, and its upper limit."""
    success = plan.metric == SUCCESS.name
    values = [expected] if sure is None else [expected, sure]
    shown = [f"{value * 100:.1f}" if success else f"{value:.2f}" for value in values]
    return f"{shown[0]}{_to_be_sure(shown[0], shown[-1])}"
