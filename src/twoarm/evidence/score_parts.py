"""What graders said of the runs besides success: scores by arm and task, and checks; plain data."""

import msgspec

from twoarm.evidence.losses import OneSided


class ArmScore(msgspec.Struct, frozen=True, kw_only=True):
    """How many counted runs of an arm have a score, and the mean of its task means.

    The mean is over the tasks in which both arms have a score; families of them weigh alike.
    """

    arm: str
    runs: int
    scored: int
    mean: float | None


class TaskScore(msgspec.Struct, frozen=True, kw_only=True):
    """The mean score of one task in both arms; null where no run of an arm has one."""

    task_id: str
    candidate: float | None
    baseline: float | None


class CheckShift(msgspec.Struct, frozen=True, kw_only=True):
    """One check over the `tasks` in which runs of both arms have it.

    The shares that pass are means over these tasks, in which families weigh alike, and so is their
    difference. `adjusted_p` allows for looking at all checks that are compared; null where too few
    tasks, or families, have the check.
    """

    check: str
    tasks: int
    candidate: float
    baseline: float
    difference: float
    adjusted_p: float | None
    differs: bool


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """Which checks differ most, for tasks like these; a diagnostic.

    `names` counts all checks that both arms have in some task, `compared` those that were tested
    together: the ones that most tasks have.
    """

    names: int
    compared: int
    largest: tuple[CheckShift, ...]


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of both arms; their difference is among the deltas.

    `one_sided` says whether one arm clearly lacks more scores; null if not. `checks` is null where
    no check is known in both arms.
    """

    tasks: int
    arms: tuple[ArmScore, ArmScore]
    one_sided: OneSided | None
    by_task: tuple[TaskScore, ...]
    checks: Checks | None
