"""`twoarm schema`: the JSON Schema of a file that twoarm reads or writes."""

import json
from argparse import ArgumentParser

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.given import Given
from twoarm.programs.sidecar import sidecar_schema
from twoarm.render.several import comparison_schema
from twoarm.result.analysis import analysis_schema
from twoarm.result.calibration_file import calibration_schema
from twoarm.result.plan_file import plan_schema
from twoarm.run.suite import suite_schema
from twoarm.runs.record import record_schema

DESCRIPTION = (
    "Print the JSON Schema of a run record, of the analysis file, of the sidecar run.json that "
    "collect reads, of a suite, or of what plan and calibrate write."
)
EPILOG = None

_SCHEMAS = {
    "record": record_schema,
    "analysis": analysis_schema,
    "comparison": comparison_schema,
    "sidecar": sidecar_schema,
    "suite": suite_schema,
    "plan": plan_schema,
    "calibration": calibration_schema,
}


def add_options(parser: ArgumentParser) -> None:
    """Which schema."""
    parser.add_argument("name", choices=tuple(_SCHEMAS))


def run(given: Given, streams: Streams) -> int:
    """Print one schema."""
    streams.write_data(json.dumps(_SCHEMAS[given["name"]](), indent=2) + "\n")
    return DONE
