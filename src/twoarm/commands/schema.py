"""`twoarm schema`: the JSON Schema of a file that twoarm reads or writes."""

import json
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.given import Given
from twoarm.programs.sidecar import sidecar_schema
from twoarm.render.several import CandidatesFile
from twoarm.result.analysis import Analysis, schema_file
from twoarm.result.calibration_file import Calibration
from twoarm.result.history_file import LoggedResult
from twoarm.result.plan_file import Plan
from twoarm.run.suite import suite_schema
from twoarm.runs.record import record_schema
from twoarm.text.escape import series

DESCRIPTION = (
    "Print the JSON Schema of a run record, of the analysis file, of the sidecar run.json that "
    "collect reads, of a suite, or of what plan, calibrate and log write."
)

_SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "record": record_schema,
    "analysis": partial(schema_file, Analysis, "What twoarm found in the runs of two arms."),
    "comparison": partial(
        schema_file,
        CandidatesFile,
        "What twoarm found for several candidates against one baseline.",
    ),
    "sidecar": sidecar_schema,
    "suite": suite_schema,
    "plan": partial(schema_file, Plan, "How much more to run, as twoarm plan says it."),
    "calibration": partial(
        schema_file, Calibration, "How often a suite cries wolf, as twoarm calibrate says it."
    ),
    "history": partial(schema_file, LoggedResult, "One result, as twoarm log add keeps it."),
}


def add_options(parser: ArgumentParser) -> None:
    """Which schema."""
    names = tuple(_SCHEMAS)
    parser.add_argument("name", choices=names, metavar="NAME", help=f"one of {series(names, 'or')}")


def run(given: Given, streams: Streams) -> int:
    """Print one schema."""
    streams.write_data(json.dumps(_SCHEMAS[given["name"]](), indent=2) + "\n")
    return DONE
