"""Whether a run may end at a planned look: where the answer is known, and could be promoted."""

from collections.abc import Iterator

from msgspec.structs import replace

from twoarm.compare.comparison import Comparison
from twoarm.evidence.results import FUTILE, Evidence, Looks
from twoarm.options import Options
from twoarm.result.promote import Promotion, verdict_by
from twoarm.result.step import Step, step
from twoarm.runs.study import STOPPED_FOR
from twoarm.text.escape import counted


def known_at_look(
    evidence: Evidence, promotion: Promotion, comparison: Comparison, options: Options
) -> Evidence:
    """The evidence with what a look says: a better candidate ends nothing before it could be
    promoted by the evidence. Why a run did end there is in its folder."""
    looks = evidence.looks
    if looks is None:
        return evidence
    stop = looks.stop
    if stop == "candidate better" and verdict_by("evidence", promotion, options) != "promote":
        stop = None
    saved = looks.planned_runs * (looks.r_max - looks.after) // looks.r_max
    looks = replace(looks, stop=stop, saved_runs=saved if stop else 0)
    if looks.after < looks.r_max:
        for study in comparison.runs.studies:
            if stopped := study.ended_for(*comparison.arms.both):
                planned, saved = study.planned_runs, study.saved_runs
                looks = replace(looks, stopped=stopped, planned_runs=planned, saved_runs=saved)
    return replace(evidence, looks=looks)


def stopped_said(evidence: Evidence | None) -> str:
    """Where a run ended early, why, and what that saved; nothing if it did not."""
    looks = None if evidence is None else evidence.looks
    if looks is None or looks.stopped is None:
        return ""
    return (
        f"stopped after {looks.after} of {counted(looks.r_max, 'repeat')}: "
        f"{STOPPED_FOR[looks.stopped]}, {looks.saved_runs:,} of "
        f"{counted(looks.planned_runs, 'run')} saved"
    )


def look_steps(looks: Looks) -> Iterator[Step]:
    """Whether to go on to the next look; a run that ended there says so elsewhere."""
    if looks.stopped is not None:
        return
    if looks.stop == "futility":
        yield step(
            "stop_for_futility",
            "stop if you like: even after all {} repeats a verdict is unlikely (below {}; this "
            "advice is not binding)",
            looks.r_max,
            f"{FUTILE:.0%}",
        )
    elif looks.stop is not None:
        yield step(
            "stop",
            "stop: {} is clear after {} of {} repeats",
            looks.stop,
            looks.after,
            looks.r_max,
        )
    elif looks.after < looks.r_max:
        following = next(look for look in looks.looks if look > looks.after)
        yield step("run_to_next_look", "run on to the next look, after {} repeats", following)
