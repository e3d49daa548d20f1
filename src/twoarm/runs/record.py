"""Run: one attempt of one arm at one task; its types and bounds are defined here, once."""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from twoarm.errors import Position, Problem
from twoarm.text.escape import named, nearest, value_in_words

# The largest whole number that a double holds together with all smaller ones.
LARGEST = 2**53 - 1

NonEmptyText = Annotated[str, Meta(min_length=1)]
Repeat = Annotated[int, Meta(ge=1, le=LARGEST)]
Number = Annotated[float, Meta(ge=0, le=LARGEST)]
MaybeNumber = Number | None
MaybeText = str | None
MaybeName = NonEmptyText | None
MaybeFlag = bool | None
MaybeExitCode = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)] | None
# A missing run is a planned one that was never made, or of which nothing was kept. An interrupted
# one broke off where its agent may have had a hand in it; the same run may have been made again.
Failure = Literal["agent", "infra", "missing", "interrupted"] | None
MaybeFailure = Failure | UnsetType

# Why a planned run is missing that was never begun: it still may be, or the budget ended the run.
NOT_YET_RUN, OVER_BUDGET = "not yet run", "over budget"

# A record names no more tools than this; calls of the others are under one name of their own.
MOST_TOOLS = 50
OTHER_TOOLS = "(other)"
# The tag of a run whose uses of the change were to be counted, but whose output does not tell.
UPTAKE_NOT_SHOWN = "uptake_not_shown"
# The tag of a run that passed what was asked of it, and counts as failed because its agent failed.
PASSED_DESPITE_FAILURE = "passed_despite_failure"
# A record names no more checks than this, and no more tags of its task.
MOST_CHECKS = 50
MOST_TASK_TAGS = 50
MaybeScore = Annotated[float, Meta(ge=0, le=1)] | None
MaybePart = Annotated[int, Meta(ge=1, le=LARGEST)] | None
MaybeChecks = Annotated[dict[NonEmptyText, bool | None], Meta(max_length=MOST_CHECKS)] | None
MaybeTaskTags = Annotated[tuple[NonEmptyText, ...], Meta(max_length=MOST_TASK_TAGS)] | None
MaybeCount = Annotated[int, Meta(ge=0, le=LARGEST)] | None
MaybeCounts = (
    Annotated[
        dict[NonEmptyText, Annotated[int, Meta(ge=0, le=LARGEST)]],
        Meta(max_length=MOST_TOOLS),
    ]
    | None
)


class PlannedLooks(msgspec.Struct, frozen=True, kw_only=True):
    """After which repeats the runs were to be judged, as declared before the first of them.

    The last look is after all planned repeats.
    """

    looks: tuple[Repeat, ...]


MaybeLooks = PlannedLooks | None


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a run file. `None` means "not measured", never zero."""

    task_id: NonEmptyText
    arm: NonEmptyText
    repeat: Repeat
    success: bool
    duration_seconds: Number
    total_cost_usd: MaybeNumber
    input_tokens: MaybeNumber
    output_tokens: MaybeNumber
    cache_read_tokens: MaybeNumber
    cache_write_tokens: MaybeNumber
    step_count: MaybeNumber = None
    tool_call_count: MaybeNumber = None
    # How often each tool was called, and how often a call of it failed.
    tool_calls: MaybeCounts = None
    failed_tool_calls: MaybeCounts = None
    # How often the change was used, and how often that failed; None where it cannot be seen.
    uptake_count: MaybeCount = None
    failed_uptake_count: MaybeCount = None
    # How much of what was asked was done, and which of its parts; never decides success.
    score: MaybeScore = None
    checks: MaybeChecks = None
    acceptance_cmd_count: MaybeNumber = None
    acceptance_first_pass: MaybeFlag = None
    agent_exit_code: MaybeExitCode = None
    acceptance_exit_code: MaybeExitCode = None
    setup_exit_code: MaybeExitCode = None
    arm_setup_exit_code: MaybeExitCode = None
    failure: MaybeFailure = UNSET
    failure_reason: MaybeText = None
    run_id: MaybeText = None
    model: MaybeText = None
    agent: MaybeText = None
    session_id: MaybeText = None
    started_at_utc: MaybeText = None
    ended_at_utc: MaybeText = None
    prompt_file: MaybeText = None
    acceptance_command: MaybeText = None
    workspace: MaybeText = None
    # The file that the run was read from, relative to the one that the record is in.
    run_path: MaybeText = None
    # What was odd about the run; and how its task is tagged in the suite.
    tags: Any = None
    task_tags: MaybeTaskTags = None
    # Tasks that are alike, such as those of one repository, have the same family in all their runs.
    family: MaybeName = None
    # Which part of a run that grew, and the digest of what decided its success.
    part: MaybePart = None
    grader: MaybeText = None
    planned_looks: MaybeLooks = None
    # How many reports on other runs of its folder had a verdict before it was made.
    looked_before: MaybeCount = None
    schema: MaybeText = None

    @property
    def total_tokens(self) -> float | None:
        """All four token counts together."""
        parts = (self.non_cache_tokens, self.cache_read_tokens, self.cache_write_tokens)
        known = [part for part in parts if part is not None]
        return reduce(add, known) if len(known) == len(parts) else None

    @property
    def non_cache_tokens(self) -> float | None:
        """Input and output tokens together."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


class Line(Run, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """A run as a file spells it: `opencode_exit_code` is the older name of `agent_exit_code`."""

    opencode_exit_code: MaybeExitCode = None


class OpenLine(Line, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """A line that takes any unknown key."""


# What many lines have under each key. A line that lacks an optional key has None or UNSET there;
# for `failure` it is UNSET. A key that no line has may be left out.
LineColumns: TypeAlias = Mapping[str, Sequence[Any]]


def columns_of(lines: Sequence[Line]) -> LineColumns:
    """The values of some lines, key by key."""
    return dict(zip(Line.__struct_fields__, zip(*map(astuple, lines), strict=True), strict=True))


_WORDS: dict[Any, str] = {
    NonEmptyText: "a non-empty string",
    Repeat: f"an integer from 1 to {LARGEST}",
    bool: "true or false",
    Number: f"a number from 0 to {LARGEST}",
    MaybeNumber: f"a number from 0 to {LARGEST}, or null if it was not measured",
    MaybeText: "a string or null",
    MaybeName: "a non-empty string, or null if there is none",
    MaybeFlag: "true, false or null",
    MaybeExitCode: "an integer or null",
    MaybeFailure: '"agent", "infra", "missing", "interrupted" or null',
    MaybeLooks: 'an object such as {"looks": [3, 5, 10]}, or null',
    MaybeScore: "a number from 0 to 1, or null if there is none",
    MaybePart: f"an integer from 1 to {LARGEST}, or null",
    MaybeChecks: f"an object of at most {MOST_CHECKS} names, each with true, false or null, "
    "or null if there are none",
    MaybeTaskTags: f"a list of at most {MOST_TASK_TAGS} strings that are not empty, or null",
    MaybeCount: f"a whole number from 0 to {LARGEST}, or null if it cannot be seen",
    MaybeCounts: f"an object of at most {MOST_TOOLS} names, each with a whole number from 0, "
    "or null if it was not measured",
}


def explain(document: object, where: Position) -> list[Problem]:
    """Everything that keeps a decoded line from being a run, one problem per field."""
    if not isinstance(document, Mapping):
        message = f"expected a JSON object, got {value_in_words(document)}"
        return [where.problem(message, mistake=f"got {_kind(document)}")]
    problems = []
    unknown = [key for key in document if key not in Line.__struct_fields__]
    for field in msgspec.structs.fields(Line):
        if field.name not in document:
            if field.required:
                nullable = field.type == MaybeNumber
                message = "missing" + ("; write null if it was not measured" if nullable else "")
                typo = nearest(field.name, unknown)
                if typo is not None:
                    message = f"missing; {named(typo)} looks like it"
                problems.append(where.problem(message, field.name))
            continue
        value = document[field.name]
        try:
            msgspec.convert(value, field.type)
        except (ValueError, OverflowError):
            message = f"expected {_WORDS[field.type]}, got {value_in_words(value)}"
            problems.append(where.problem(message, field.name, f"got {_kind(value)}"))
    return problems


def _kind(value: object) -> str:
    """What values that come from the same mistake have in common."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return type(value).__name__


def tidied(schema: Any) -> Any:
    """A schema whose descriptions are one line each: Python 3.13 indents docstrings otherwise."""
    if isinstance(schema, list):
        return [tidied(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: " ".join(value.split())
        if key == "description" and isinstance(value, str)
        else tidied(value)
        for key, value in schema.items()
    }


def record_schema() -> dict[str, Any]:
    """The JSON Schema of one line of a run file, made from the type that decodes it."""
    definitions = msgspec.json.schema_components([Line], ref_template="#/$defs/{name}")[1]
    body: dict[str, Any] = definitions.pop("Line")
    body.pop("title")
    body.pop("description")
    body["additionalProperties"] = True
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "run_record.schema.json",
        "title": "twoarm run record",
        "description": "One attempt of one arm at one task: one line of a run file. "
        "null means not measured. Keys not named here are ignored.",
        **body,
        "$defs": tidied(definitions),
    }
