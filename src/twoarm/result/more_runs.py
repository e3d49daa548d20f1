"""Where more runs would help: new tasks, or repeats of these."""

from collections.abc import Iterator

from twoarm.evidence.caveats import FEW_REPEATS_HELP
from twoarm.evidence.means import tasks_within
from twoarm.evidence.results import Evidence, NextRuns, fewest_tasks
from twoarm.options import Options
from twoarm.result.findings import has_standing
from twoarm.result.step import Step, step
from twoarm.runs.metric import BY_NAME, DURATION, SUCCESS
from twoarm.text.escape import counted, counted_tasks, tasks_or_families
from twoarm.text.number_format import dollars

# Above this share of run-to-run noise, more repeats are the cheaper way.
REPEATS_HELP = 0.5


def _part(share: float) -> str:
    return f"about {share:.0%}" if share < 0.95 else "nearly all"


def more_runs(evidence: Evidence, options: Options) -> Iterator[Step]:
    """Where more runs would help, and what it costs to score again with them."""
    steps = tuple(_where(evidence, options))
    yield from steps
    if steps and evidence.looks is None:
        yield step(
            "plan_looks", "this was a look; a second doubles false winners unless it was planned"
        )


def _where(evidence: Evidence, options: Options) -> Iterator[Step]:
    """New tasks, or repeats of these."""
    variance = evidence.variance
    fewest = fewest_tasks(options.level)
    least = tasks_within(options.margin_success, evidence.level)
    unclear = "no clear difference"
    independent = evidence.families or evidence.tasks
    units = "tasks" if evidence.families is None else "families of tasks"
    if independent < fewest:
        yield step(
            "add_tasks",
            "add {}: with {} nothing can be said about others; it takes at least {}",
            units,
            counted_tasks(evidence.tasks, evidence.families),
            fewest,
        )
        if evidence.next_runs is not None:
            yield _planned(evidence.next_runs)
    elif options.promote_by == "margin" and independent < least:
        yield step(
            "add_tasks",
            "add {}: to rule out a drop of {} points for tasks like these takes at least {}, "
            "even if nothing fails",
            units,
            f"{options.margin_success * 100:g}",
            least,
        )
    elif evidence.grade.verdict == "candidate better" and options.promote_by == "evidence":
        yield step("add_repeats", "add repeats: they narrow the range of success on these tasks")
    elif evidence.next_runs is not None:
        yield _planned(evidence.next_runs)
    elif has_standing(evidence, SUCCESS.name, unclear) and not has_standing(
        evidence, DURATION.name, unclear
    ):
        yield step(
            "add_tasks", "add {}: whether success changes is what these runs leave open", units
        )
    elif variance is not None and variance.repeats_share <= REPEATS_HELP:
        yield step(
            "add_tasks",
            "add {}{} repeats: {} of the uncertainty about duration is between {}",
            units,
            ", not" if variance.repeats_share < FEW_REPEATS_HELP else " rather than",
            _part(variance.tasks_share),
            tasks_or_families(evidence.families),
        )
    elif variance is not None:
        yield step(
            "add_repeats",
            "add repeats: {} of the uncertainty about duration is run-to-run noise",
            _part(variance.repeats_share),
        )


def _planned(wanted: NextRuns) -> Step:
    """How many more runs would show a change that matters, and what they cost."""
    size = f"{abs(wanted.detect) * 100:.3g}"
    return step(
        "run_design",
        "to see a {} change in {}: {} x {}, {}",
        f"{size}-point" if wanted.metric == SUCCESS.name else f"{size}%",
        BY_NAME[wanted.metric].short,
        counted_tasks(wanted.tasks, wanted.families),
        counted(wanted.repeats, "repeat"),
        counted(wanted.more_runs, "more run")
        if wanted.usd is None
        else f"{dollars(wanted.usd)} more",
    )
