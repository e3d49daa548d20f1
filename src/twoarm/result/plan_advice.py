"""What to run, by a plan: one recommendation, in words."""

from twoarm.result.plan_file import Plan, PlanOption
from twoarm.text.escape import counted
from twoarm.text.number_format import dollars
from twoarm.text.sentence import Sentence, say


def recommended(plan: Plan) -> Sentence:
    """What to do, in one sentence."""
    if plan.power >= plan.wanted_power and plan.scope == "tasks_like_these":
        if plan.upper_limits is None or plan.upper_limits.power >= plan.wanted_power:
            return say("nothing more: these runs are enough to see it {}", often(plan))
        safe = _best(plan.upper_limits.options)
        if safe is not None:
            return say("nothing more, or to be safe {}", _design(safe, not plan.assumed))
    best = _best(plan.options)
    if best is None:
        return say("no number of tasks or repeats that anyone would run shows it {}", often(plan))
    parts = [_design(best, not plan.assumed)]
    if plan.upper_limits is not None:
        safe = _best(plan.upper_limits.options)
        if safe is not None and safe != best:
            parts.append(f"to be safe {_design(safe, not plan.assumed)}")
    designs = ", or ".join(parts)
    if plan.scope == "these_tasks":
        return say("{}, to see it on tasks like these", designs)
    if any(option.kind == "repeats" for option in plan.options):
        return say("{}", designs)
    return say(
        "{}; no number of repeats of {}{} gets beyond a chance of {}",
        designs,
        "" if plan.assumed else "these ",
        counted(plan.tasks, "task"),
        percent(plan.power_with_endless_repeats),
    )


def _best(options: tuple[PlanOption, ...]) -> PlanOption | None:
    by_kind = {option.kind: option for option in options}
    for kind in ("cheapest", "tasks", "repeats"):
        if kind in by_kind:
            return by_kind[kind]
    return None


def _design(option: PlanOption, more: bool) -> str:
    design = f"{counted(option.tasks, 'task')} x {counted(option.repeats, 'repeat')}"
    if option.usd is None:
        return f"{design}, {option.more_runs:,} more runs"
    return f"{design} for about {dollars(option.usd)}{' more' if more else ''}"


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
