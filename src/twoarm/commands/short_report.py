"""What the commands with a short report share: where it goes, and in which format."""

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from twoarm.commands.console import Streams
from twoarm.commands.exit_codes import DONE
from twoarm.commands.score import STANDARD_OUTPUT, places
from twoarm.commands.score_options import Adder, add_counting_options, number
from twoarm.commands.terminal import terminal_paint, terminal_width
from twoarm.errors import ExtraError
from twoarm.files.write import Output, refuse_overlap, write
from twoarm.render.text import Look, plain
from twoarm.text.escape import visible

if TYPE_CHECKING:
    from twoarm.planning.calibrate import CalibrationReport
    from twoarm.planning.plan import PlanReport


def add_short_report_options(parser: ArgumentParser, name: str) -> None:
    """How to report, and which runs count."""
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown", "html"),
        default="text",
        help="what to write to standard output (default: text)",
    )
    parser.add_argument(
        "--out", metavar="DIR", help=f"also write {', '.join(_names(name))} into DIR"
    )
    option = Adder(parser)
    option("candidate", metavar="ARM", help="the arm with the change")
    option("baseline", metavar="ARM", help="the arm without it")
    add_counting_options(parser)
    option("level", type=number, help="confidence level, 0.5 to 0.9999")
    option("seed", type=int, help="random seed")


def _names(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{ending}" for ending in ("json", "md", "html"))


def refuse_bad_outputs(given: Namespace, name: str, files: list[str]) -> None:
    """Refuse outputs that are inputs, before anything is read."""
    outputs: dict[str, str | int] = {"standard output": STANDARD_OUTPUT}
    if given.out is not None:
        outputs |= {f"--out {one}": os.path.join(given.out, one) for one in _names(name)}
    refuse_overlap(outputs, places(files))


def show(
    report: "PlanReport | CalibrationReport", given: Namespace, name: str, streams: Streams
) -> int:
    """Write and print what was asked for."""
    if given.out is not None:
        texts = [report.to_json(), report.to_markdown()]
        try:
            texts.append(report.to_html())
        except ExtraError as error:
            streams.say(f"twoarm: no {name}.html: {error}")
        outputs = [
            Output(
                path=os.path.join(given.out, one),
                content=[text.encode()],
                append=False,
                named=False,
            )
            for one, text in zip(_names(name), texts, strict=False)
        ]
        write(outputs)
        streams.say(f"twoarm: wrote {', '.join(visible(output.path) for output in outputs)}")
    if given.format == "text":
        streams.write(report.show(Look(width=terminal_width(), paint=terminal_paint() or plain)))
    else:
        streams.write_data(getattr(report, f"to_{given.format}")())
    return DONE
