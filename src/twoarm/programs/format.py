"""The interface of a format, and the attempt that it gives for each run it finds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from twoarm.errors import Position, Problem
from twoarm.programs.folder import Folder
from twoarm.programs.tokens import Spend
from twoarm.programs.uptake import Calls
from twoarm.runs.record import Repeat


class Failed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who failed, and why in one line."""

    failure: Literal["agent", "infra"]
    reason: str
    # Whether it was the provider that refused to serve the agent, and the HTTP status of that.
    refused: bool = False
    status: int | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a provider said that refuses to serve an agent, and the HTTP status if that is told."""

    message: str
    status: int | None


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows of a table count: those with a value in a column, or those without it."""

    column: str
    value: str
    equal: bool

    def __str__(self) -> str:
        return f"{self.column}{'=' if self.equal else '!='}{self.value}"


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A row or run that was not asked for, and what of it was not; the words of a summary."""

    noun: str
    why: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user chose for a collection; a format looks at what concerns it."""

    # The score or reward that means success, and the least value of it that does.
    scorer: str | None = None
    threshold: float | None = None
    # Inspect: count the working time, without waiting for rate limits.
    working_time: bool = False
    # Inspect: a run's task is named TASK/ID, for logs of several tasks.
    task_names: bool = False
    # The runs of one schedule, as their runner made them: what is odd about one of them is a
    # caveat of that run, because all of them are paid for.
    scheduled: bool = False
    # Tables: the column of each field, which rows count, whether input tokens include the cache.
    columns: Mapping[str, str] = {}
    where: Sequence[Condition] = ()
    input_includes_cache: bool = False


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run as its source reports it, before its arm and its repeat are settled."""

    where: Position
    task_id: str
    # None where the source does not number its repeats.
    repeat: Repeat | None
    # What the check of the task found; None where only a report beside the source knows. A failure
    # overrides it.
    success: bool | None
    failure: Failed | None
    duration_seconds: float | None
    started: float | None
    ended: float | None
    cost_usd: float | None
    # None where the source has no counts at all.
    spends: tuple[Spend, ...] | None
    # Whether a model was called: zero counts are believed only of a run that called none.
    took_steps: bool
    # What an arm key is looked up in: JSON, or a mapping.
    document: bytes | Mapping[str, Any]
    # What must not differ within an arm: a key, and JSON or a value; None is not known.
    configuration: tuple[tuple[str, Any], ...]
    # Configurations are compared among attempts of one scope.
    scope: str
    # Codes of what could not be known; see caveats.py.
    caveats: tuple[str, ...]
    step_count: int | None = None
    tool_call_count: int | None = None
    # None where the source does not show which tools were called.
    calls: Calls | None = None
    acceptance_cmd_count: int | None = None
    acceptance_first_pass: bool | None = None
    agent_exit_code: int | None = None
    acceptance_exit_code: int | None = None
    setup_exit_code: int | None = None
    arm_setup_exit_code: int | None = None
    # From 0 to 1.
    score: float | None = None
    # What each check of the task found.
    checks: Mapping[str, bool | None] | None = None
    # How its task is tagged.
    task_tags: tuple[str, ...] | None = None
    # The family of the task.
    family: str | None = None
    run_id: str | None = None
    model: str | None = None
    agent: str | None = None
    session_id: str | None = None
    acceptance_command: str | None = None
    # The digest of what decided success.
    grader: str | None = None
    # How many lines of its output are no events.
    skipped_lines: int = 0
    # What a caveat is about, by its code.
    about: Mapping[str, Sequence[str]] = {}


class Format(Protocol):
    """How one program writes down its runs."""

    # The name on the command line.
    name: ClassVar[str]
    # Whether a folder with a claim is one run, so that nothing below it is walked.
    one_run_per_folder: ClassVar[bool]

    def recognizes(self, folder: Folder) -> bool:
        """Whether the files of the folder itself are surely those of this program."""
        ...

    def claims(self, folder: Folder) -> Sequence[str]:
        """The files of the folder, by name, that each hold runs or should; empty if none does."""
        ...

    def read(
        self, folder: Folder, name: str, settings: Settings
    ) -> Iterator[Attempt | Problem | LeftOut]:
        """The runs of one claimed file; raises SourceError if there is no run to be had."""
        ...
