"""What to run, by a plan: one recommendation, in words."""

from twoarm.evidence.power import MOST_REPEATS
from twoarm.result.plan_file import Plan, PlanOption
from twoarm.text.escape import counted, counted_tasks
from twoarm.text.number_format import dollars
from twoarm.text.sentence import Sentence, say


def best(options: tuple[PlanOption, ...]) -> PlanOption | None:
    """The cheapest way that is good for tasks like these and a promotion, if there is one."""
    by_kind = {option.kind: option for option in options}
    for kind in ("cheapest", "tasks", "repeats"):
        if kind in by_kind:
            return by_kind[kind]
    return None


def what_to_run(plan: Plan) -> Sentence:
    """What to do, in one sentence."""
    least = plan.power if plan.upper_limits is None else plan.upper_limits.power
    if least >= plan.wanted_power and plan.scope == "tasks_like_these":
        return say("nothing more: these runs are enough to see it {}", often(plan))
    if plan.recommended is None and best(plan.options) is None:
        return say("no number of tasks or repeats that anyone would run shows it {}", often(plan))
    designs = _designs(plan)
    if plan.scope == "these_tasks":
        return say("{}, to see it on tasks like these", designs)
    if plan.power >= plan.wanted_power or any(way.kind == "repeats" for way in plan.options):
        return say("{}", designs)
    return say("{}; {}", designs, _limit_of_repeats(plan))


def _designs(plan: Plan) -> str:
    """What is recommended, and what is expected to be enough where that is less."""
    expected, more = best(plan.options), not plan.assumed
    if plan.recommended is None:
        assert expected is not None
        design = _design(expected, more)
        return f"{design} are expected to be enough; nothing that anyone would run is sure to be"
    design = _design(plan.recommended, more)
    if plan.upper_limits is None or plan.recommended == expected:
        return design
    enough = "these runs" if expected is None else _design(expected, more)
    return f"{design}, to be sure ({enough} are expected to be enough)"


def _design(option: PlanOption, more: bool) -> str:
    tasks = counted_tasks(option.tasks, option.families)
    design = f"{tasks} x {counted(option.repeats, 'repeat')}"
    if option.usd is None:
        return f"{design}, {option.more_runs:,} {'more ' if more else ''}runs"
    return f"{design} for about {dollars(option.usd)}{' more' if more else ''}"


def _limit_of_repeats(plan: Plan) -> str:
    """Why more repeats of the same tasks are no way to it."""
    tasks = f"{'' if plan.assumed else 'these '}{counted_tasks(plan.tasks, plan.families)}"
    endless = plan.power_with_endless_repeats
    if endless >= plan.wanted_power:
        return f"{tasks} alone would take more than {MOST_REPEATS} repeats"
    chance = percent(endless)
    if chance == percent(plan.wanted_power):
        chance = f"just under {chance}"
    return f"no number of repeats of {tasks} gets beyond a chance of {chance}"


def often(plan: Plan) -> str:
    """How often is often enough: `4 times out of 5`."""
    if abs(plan.wanted_power - 0.8) < 1e-9:
        return "4 times out of 5"
    return f"with a power of {plan.wanted_power:.0%}"


def percent(power: float) -> str:
    """A chance in whole percent; what is not certain is not called so."""
    if 0.995 <= power < 1.0:
        return "over 99%"
    return f"{power:.0%}"
