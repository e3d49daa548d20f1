"""Analysis: everything that was found, in the shape of the analysis file."""

from typing import Any, Literal

import msgspec

from twoarm.decide import Adequacy, Gate, Promotion
from twoarm.diagnose import Diagnostics
from twoarm.errors import Caveat
from twoarm.evidence.weigh import Evidence
from twoarm.pair import Paired
from twoarm.runs import Input
from twoarm.screen import Duplicates, Excluded, Missing
from twoarm.summarize import ArmSummary
from twoarm.tasks import Task

# 1  2026-11: the first. Within a number, keys are added, never changed or removed.
SCHEMA: Literal["twoarm.analysis/1"] = "twoarm.analysis/1"


Rule = Literal["gates", "margin"]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """The program that wrote the file."""

    name: str
    version: str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; with the inputs, all that the figures depend on."""

    candidate: str | None
    baseline: str | None
    duplicates: Duplicates
    missing: Missing
    keep_infra: bool
    skip_bad: bool
    evidence: bool
    level: float
    seed: int
    resamples: int
    rule: Rule
    margin_success: float
    margin_ratio: float


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """The two arms, scored. `to_dict` is the analysis file."""

    schema: Literal["twoarm.analysis/1"]
    generated_at_utc: str | None
    tool: Tool
    inputs: tuple[Input, ...]
    options: Options
    candidate: str
    baseline: str
    run_count: int
    effective_run_count: int
    excluded_infra_failures: int
    task_count: int
    arm_summaries: tuple[ArmSummary, ArmSummary]
    paired: Paired
    gates: tuple[Gate, Gate, Gate]
    decision: str
    promotion: Promotion
    adequacy: Adequacy
    excluded: tuple[Excluded, ...]
    diagnostics: Diagnostics
    evidence: Evidence | None
    tasks: tuple[Task, ...]
    caveats: tuple[Caveat, ...]

    def to_dict(self) -> dict[str, Any]:
        """The analysis file as plain Python values."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    def to_json(self) -> str:
        """The analysis file as text."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    def to_markdown(self) -> str:
        """The report as Markdown, for a pull request."""
        from twoarm.render import markdown

        return markdown.render(self)

    def to_text(self) -> str:
        """The report as the terminal shows it, without colour."""
        from twoarm.render import text

        return text.render(self)


def analysis_schema() -> dict[str, Any]:
    """The JSON Schema of the analysis file, made from the type that writes it."""
    schema = msgspec.json.schema(Analysis, ref_template="#/$defs/{name}")
    root = schema["$defs"].pop("Analysis")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "analysis.schema.json",
        "title": "twoarm analysis",
        "description": "What twoarm found in the runs of two arms.",
        **{key: value for key, value in root.items() if key not in ("title", "description")},
        "$defs": schema["$defs"],
    }
