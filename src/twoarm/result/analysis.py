"""Analysis: everything that was found, in the shape of the analysis file."""

from typing import Any, Literal

import msgspec

from twoarm.compare.chosen import ChosenTasks
from twoarm.compare.decide import Adequacy, Decision, Gate
from twoarm.compare.pair import Paired
from twoarm.compare.summarize import ArmSummary
from twoarm.compare.tasks import Task
from twoarm.compare.trials import Excluded, Trials
from twoarm.errors import Caveat
from twoarm.evidence.results import Evidence
from twoarm.explain.diagnose import Diagnostics
from twoarm.explain.failures import Failures
from twoarm.explain.tools import ToolUse
from twoarm.explain.uptake import Uptake
from twoarm.options import Options
from twoarm.result.promote import Promotion
from twoarm.result.step import Step
from twoarm.result.tested import Subject
from twoarm.runs.record import tidied
from twoarm.runs.runs import Input
from twoarm.text.escape import counted, inert_json, shortened
from twoarm.text.sentence import Sentence

# 1  2026-11: the first. Within a number, keys are added, never changed or removed.
SCHEMA: Literal["twoarm.analysis/1"] = "twoarm.analysis/1"

# How much of a name a shell shows.
_NAME = 60


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The program that wrote the file."""

    name: str
    version: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What is written as a JSON file."""

    @property
    def file(self) -> "Document":
        """What the file holds."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The file as plain Python values."""
        built: dict[str, Any] = msgspec.to_builtins(self.file, enc_hook=str)
        return built

    def to_json(self) -> str:
        """The file as text."""
        encoded = msgspec.json.encode(self.file, enc_hook=str)
        return f"{inert_json(msgspec.json.format(encoded, indent=2).decode())}\n"


class Analysis(Document, frozen=True, kw_only=True):
    """The two arms, scored."""

    schema: Literal["twoarm.analysis/1"]
    generated_at_utc: str | None
    tool: Tool
    inputs: tuple[Input, ...]
    tested: Subject
    options: Options
    candidate: str
    baseline: str
    run_count: int
    effective_run_count: int
    excluded_infra_failures: int
    task_count: int
    # None if all tasks were asked for.
    chosen_tasks: ChosenTasks | None
    trials: tuple[Trials, Trials]
    arm_summaries: tuple[ArmSummary, ArmSummary]
    paired: Paired
    gates: tuple[Gate, ...]
    decision: Decision
    promotion: Promotion
    # What to do, the most important first.
    next: tuple[Step, ...]
    adequacy: Adequacy
    excluded: tuple[Excluded, ...]
    diagnostics: Diagnostics
    failures: Failures
    # None where no counted run has a count of uses.
    uptake: Uptake | None
    # None where no counted run of one of the arms tells its calls.
    tool_use: ToolUse | None
    evidence: Evidence | None
    tasks: tuple[Task, ...]
    caveats: tuple[Caveat, ...]

    def __repr__(self) -> str:
        decided = shortened(self.decision, _NAME + len("prefer "))
        verdict = self.promotion.verdict
        promotion = f"{verdict} to promote" if verdict == "not enough data" else verdict
        lost = sum(arm.lost for arm in self.trials)
        runs = counted(sum(arm.planned for arm in self.trials), "planned run")
        return (
            f"<twoarm.{type(self).__name__}: {shortened(self.candidate, _NAME)} vs. "
            f"{shortened(self.baseline, _NAME)}: {decided}; {promotion}; "
            f"{counted(self.task_count, 'task')}, {self.effective_run_count:,} of "
            f"{runs if lost else counted(self.run_count, 'run')} counted>"
        )

    @property
    def file(self) -> "Analysis":
        """What the file holds: no more than the keys of this class."""
        return Analysis(**{name: getattr(self, name) for name in Analysis.__struct_fields__})


def schema_file(of: type[Document], description: str) -> dict[str, Any]:
    """The JSON Schema of a file, made from the type that writes it."""
    schema = msgspec.json.schema(of, ref_template="#/$defs/{name}", schema_hook=_schema_of_words)
    root = schema["$defs"].pop(of.__name__)
    # `twoarm.analysis/1` is version 1 of an analysis.
    name = root["properties"]["schema"]["enum"][0].removeprefix("twoarm.").partition("/")[0]
    # Options have defaults where they are given; in the file, every one of them is written out.
    options = schema["$defs"].get("Options")
    if options is not None:
        options["required"] = list(options["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{name}.schema.json",
        "title": f"twoarm {name}",
        "description": description,
        **{key: value for key, value in root.items() if key not in ("title", "description")},
        "$defs": tidied(schema["$defs"]),
    }


def _schema_of_words(kind: type) -> dict[str, Any]:
    assert kind in (Decision, Sentence)
    return {"type": "string"}
