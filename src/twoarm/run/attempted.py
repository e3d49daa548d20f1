"""An attempt at a trial: what is known of it before it starts and after it has ended."""

from typing import Any, Literal

import msgspec

from twoarm.run.schedule import Trial

AttemptState = Literal["running", "run", "infra", "interrupted", "lost"]


class Attempted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`trial.json`: one attempt, before it starts and after it ended."""

    task: str
    repeat: int
    arm: str
    attempt: int
    # How many trials ran at a time.
    jobs: int
    state: AttemptState
    # What it may cost at most; None where nothing limits it.
    reserved_usd: float | None
    # Which machine of a cluster; None for the runner's own.
    node: str | None = None
    reason: str | None = None
    # None where nobody knows.
    cost_usd: float | None = None
    # What counts against the budget: a cost that is not known is what was reserved.
    charged_usd: float | None = None
    # The format of `collect` that reads the folder.
    format: str | None = None
    success: bool | None = None
    failure: str | None = None
    # Whatever the supervisor told.
    facts: dict[str, Any] = {}

    @property
    def trial(self) -> Trial:
        """The trial that this is an attempt at."""
        return Trial(task=self.task, repeat=self.repeat, arm=self.arm)

    @property
    def started(self) -> str:
        """When the agent was started."""
        return str(self.facts.get("started_at_utc", "never"))

    @property
    def id(self) -> str:
        """The name of the attempt."""
        return f"{self.trial.id}.{self.attempt}"
