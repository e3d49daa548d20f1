"""Analysis: everything that was found, in the shape of the analysis file."""

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from twoarm.decide import Adequacy, Gate, Promotion
from twoarm.diagnose import Diagnostics
from twoarm.drawing import Drawing
from twoarm.errors import Caveat
from twoarm.pair import Paired
from twoarm.quote import inert_json
from twoarm.record import tidied
from twoarm.runs import Input
from twoarm.screen import Duplicates, Excluded, Missing
from twoarm.summarize import ArmSummary
from twoarm.tasks import Task

if TYPE_CHECKING:
    from twoarm.evidence.weigh import Evidence
    from twoarm.render.weighed import Shown

# 1  2026-11: the first. Within a number, keys are added, never changed or removed.
SCHEMA: Literal["twoarm.analysis/1"] = "twoarm.analysis/1"


Rule = Literal["gates", "margin"]
# What a gate goes by; each also wants enough repeats.
GateBy = Literal["rule", "evidence", "margin"]


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
    gate: GateBy


class AnalysisFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the analysis file holds."""

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
    evidence: "Evidence | None"
    tasks: tuple[Task, ...]
    caveats: tuple[Caveat, ...]


class Analysis(AnalysisFile, frozen=True, kw_only=True):
    """The two arms, scored. `to_dict` is the analysis file; `drawing` is for charts only."""

    drawing: Drawing

    @property
    def file(self) -> AnalysisFile:
        """The part that the analysis file holds."""
        return AnalysisFile(
            **{name: getattr(self, name) for name in AnalysisFile.__struct_fields__}
        )

    def to_dict(self) -> dict[str, Any]:
        """The analysis file as plain Python values."""
        built: dict[str, Any] = msgspec.to_builtins(self.file)
        return built

    def to_json(self) -> str:
        """The analysis file as text."""
        text = msgspec.json.format(msgspec.json.encode(self.file), indent=2).decode()
        return f"{inert_json(text)}\n"

    def to_github(self) -> str:
        """The report as a comment on a pull request."""
        from twoarm.render import github

        return github.render(self)

    def to_junit(self) -> str:
        """The gates and adequacy as test cases, in JUnit XML."""
        from twoarm.render import junit

        return junit.render(self)

    def to_html(self) -> str:
        """The report as one self-contained page; needs the extra `twoarm[html]`."""
        from twoarm.render import html

        return html.render(self)

    def to_markdown(self, *, interval: "Shown" = "headline") -> str:
        """The report as Markdown, for a pull request."""
        from twoarm.render import markdown

        return markdown.render(self, interval)

    def to_text(self, *, interval: "Shown" = "headline") -> str:
        """The report as the terminal shows it, without colour."""
        from twoarm.render import text

        return text.render(self, shown=interval)


def analysis_schema() -> dict[str, Any]:
    """The JSON Schema of the analysis file, made from the type that writes it."""
    from twoarm.evidence.weigh import Evidence

    # Only here is the type needed: a small file is scored faster than it is imported.
    globals()["Evidence"] = Evidence
    schema = msgspec.json.schema(AnalysisFile, ref_template="#/$defs/{name}")
    root = schema["$defs"].pop("AnalysisFile")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "analysis.schema.json",
        "title": "twoarm analysis",
        "description": "What twoarm found in the runs of two arms.",
        **{key: value for key, value in root.items() if key not in ("title", "description")},
        "$defs": tidied(schema["$defs"]),
    }
