"""Looks of a run: how they are asked for, what they are judged by, and how one is judged."""

import io
from typing import TYPE_CHECKING

from msgspec.structs import replace

from twoarm.commands.given import JUDGING, Given, listed, written
from twoarm.errors import ArmsError, UsageError
from twoarm.evidence.looks import MOST_TASKS, can_be_clear
from twoarm.evidence.results import fewest_tasks
from twoarm.options import Options
from twoarm.runs.runfile import read
from twoarm.runs.study import StopReason
from twoarm.score import compare, compare_candidates
from twoarm.text.escape import counted, counted_tasks

if TYPE_CHECKING:
    from twoarm.run.looks import Judge
    from twoarm.run.schedule import Frozen
    from twoarm.run.session import Session


def judging(given: Given) -> dict[str, str | int | float]:
    """What the looks are judged by, as far as it was given; frozen with the schedule."""
    return {name: given[name] for name in JUDGING if name in given} if "looks" in given else {}


def repeats_of(given: Given) -> int | None:
    """The repeats that were asked for: the last look is after all of them."""
    repeats: int | None = given.get("repeats")
    if "looks" not in given:
        return repeats
    last: int = given["looks"][-1]
    if repeats is not None and repeats != last:
        raise UsageError(
            f"--looks: the last look is after {counted(last, 'repeat')}, and --repeats is {repeats}"
        )
    return last


def refuse_in_vain(frozen: "Frozen", options: Options) -> None:
    """Refuse looks that could not be judged, or never know an answer, before anything is spent."""
    tasks, families = len(frozen.suite.tasks), frozen.suite.families
    candidates = len(frozen.candidates)
    if not frozen.looks:
        return
    if tasks > MOST_TASKS:
        raise UsageError(
            f"--looks: planned looks take at most {MOST_TASKS:,} tasks, and the suite has {tasks:,}"
        )
    if not can_be_clear(families or tasks, options.level, candidates):
        enough = fewest_tasks(1.0 - (1.0 - options.level) / candidates)
        raise UsageError(
            f"--looks: with {counted_tasks(tasks, families)} no look could find a difference "
            f"between {counted(candidates, 'candidate')} and the baseline, however large: it takes "
            f"{enough}; add {'tasks' if families is None else 'families of tasks'}, or leave the "
            "option out"
        )


def refuse_changed(frozen: "Frozen", given: Given) -> None:
    """Refuse other looks than those of the schedule, and to judge them by something else."""
    if "looks" in given and given["looks"] != frozen.looks:
        planned = f"planned after {listed(frozen.looks)}" if frozen.looks else "not planned"
        raise UsageError(
            f"--looks: they were {planned} when the run was started, and are after "
            f"{listed(given['looks'])} now; looks that are changed later promise nothing, so leave "
            "the option out"
        )
    if not frozen.looks:
        return
    for name in JUDGING:
        then, now = frozen.judging.get(name), given.get(name)
        if now is not None and now != then:
            before = "not given" if then is None else then
            raise UsageError(
                f"{written(name)}: it was {before} when the run was started, and is {now} now; the "
                "looks are judged by what was planned, so leave the option out"
            )
    for name in ("evidence", "ignore_looks"):
        if name in given:
            raise UsageError(f"{written(name)}: this run is judged at its looks; leave it out")


def with_looks(options: Options, frozen: "Frozen", given: Given) -> Options:
    """The options of a run: with looks, it promotes by the evidence."""
    if not frozen.looks:
        return options
    if given.get("promote_by", "evidence") != "evidence":
        raise UsageError(
            f"--promote-by: a run with looks promotes by the evidence, not by "
            f"{given['promote_by']}; leave it out"
        )
    return replace(options, looks=frozen.looks, promote_by="evidence", **frozen.judging)


def judge_of(session: "Session", options: Options) -> "Judge":
    """Judges the trials before a look as `twoarm.look` does: the answer is known where it is known
    for every candidate."""
    frozen = session.setting.frozen
    candidates = list(frozen.candidates)
    options = replace(options, baseline=frozen.baseline, seed=frozen.seed)

    def judge(look: int) -> dict[str, StopReason] | None:
        try:
            runs = read(io.BytesIO(b"".join(session.lines_before(look))))
            reports = (
                compare_candidates(runs, candidates, options).reports
                if len(candidates) > 1
                else [compare(runs, options=replace(options, candidate=candidates[0]))]
            )
        except (ArmsError, UsageError):
            # Too much was lost for an answer: an arm has no run, or a whole repeat.
            return None
        because: dict[str, StopReason] = {}
        for report in reports:
            looks = report.evidence.looks if report.evidence is not None else None
            if looks is None or looks.stop is None:
                return None
            because[report.candidate] = looks.stop
        return because

    return judge
