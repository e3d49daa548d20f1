"""The files of a trial of Harbor, and what its runner knows of it that Harbor does not."""

import msgspec

from twoarm.programs.failure import infra, judged
from twoarm.programs.folder import Folder
from twoarm.programs.format import Attempt, Failed, Settings
from twoarm.programs.moment import seconds
from twoarm.programs.sidecar import NAME, Sidecar

RESULT = "result.json"
CONFIG = "config.json"
TRAJECTORY = "agent/trajectory.json"
# Where `twoarm run` keeps it: its run folders have no folders in them.
KEPT_TRAJECTORY = "trajectory.json"
_ERRORS = "stderr.log"
# What its boxes are drawn with.
_FRAME = dict.fromkeys(map(ord, "\u2502\u2570\u2500"))


def trajectory_of(folder: Folder) -> str:
    """Where the trajectory of a trial is, if there is one."""
    return KEPT_TRAJECTORY if KEPT_TRAJECTORY in folder else TRAJECTORY


def planned(attempt: Attempt, sidecar: Sidecar) -> Attempt:
    """A trial of a schedule, which knows its task and its repeat."""
    return msgspec.structs.replace(
        attempt,
        task_id=sidecar.task_id,
        repeat=sidecar.repeat,
        run_id=sidecar.run_id,
        model=attempt.model or sidecar.model,
        agent_exit_code=sidecar.agent_exit_code,
        grader=sidecar.grader,
    )


def stopped(failure: Failed, sidecar: Sidecar, *, begun: bool, verifying: bool) -> Failed:
    """What a failure is in light of how the trial was ended: the agent's while that worked."""
    if sidecar.ended_by in (None, "exit"):
        return failure
    if verifying or not begun:
        when = "after" if begun else "before"
        return infra(f"the runner ended the trial ({sidecar.ended_by}) {when} the agent worked")
    return judged(failure, cut=True, waiting=None, ended_by=sidecar.ended_by) or failure


def without_result(folder: Folder, sidecar: Sidecar | None, settings: Settings) -> Attempt:
    """A trial that left no result: it never began, or its runner ended it; else it is refused."""
    none = folder.refuse(f"no {RESULT}; the trial did not finish")
    if sidecar is None or not settings.scheduled:
        raise none
    if CONFIG not in folder:
        code = f" (exit code {sidecar.agent_exit_code})" if sidecar.agent_exit_code else ""
        failure = infra(f"harbor did not begin the trial{code}{_why_not_begun(folder)}")
    elif sidecar.ended_by in (None, "exit"):
        raise none
    else:
        ended = judged(None, cut=True, waiting=None, ended_by=sidecar.ended_by)
        failure = ended or infra(f"no {RESULT}")
    started, ended_at = seconds(sidecar.started_at_utc), seconds(sidecar.ended_at_utc)
    attempt = Attempt(
        where=folder.where(NAME),
        task_id=sidecar.task_id,
        repeat=sidecar.repeat,
        success=False,
        failure=failure,
        duration_seconds=sidecar.duration_seconds,
        started=started,
        ended=ended_at,
        cost_usd=None,
        spends=None,
        took_steps=False,
        document=folder.read(NAME),
        configuration=(),
        scope="",
        caveats=("duration_whole_trial",),
    )
    return planned(attempt, sidecar)


def _why_not_begun(folder: Folder) -> str:
    if _ERRORS not in folder:
        return ""
    words = last_words(folder.read(_ERRORS).decode("utf-8", "replace"))
    return f": {words}" if words else ""


def last_words(text: str) -> str:
    """What Harbor said last: below the last box that it has drawn, or in it."""
    above, _, below = text.rpartition("\u256f")
    inside = above.rpartition("\u256e")[2].translate(_FRAME)
    return " ".join((below if below.strip() else inside).split())
