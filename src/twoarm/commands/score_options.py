"""The options of commands that score: files, which runs count, what to report, and the evidence."""

from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from typing import get_args

from twoarm.options import DEFAULTS, PRIMARY, Duplicates, GuardBy, Missing, PromoteBy, Which
from twoarm.text.escape import named


def add_counting_options(parser: ArgumentParser) -> None:
    """Which runs count."""
    option = Adder(parser)
    option(
        "duplicates",
        choices=get_args(Duplicates),
        help="refuse two runs of one task, arm and repeat, or count the first or the last",
    )
    option(
        "missing",
        choices=get_args(Missing),
        help="keep null as not measured, or read it as 0, as older scripts did",
    )
    option("keep_infra", action="store_true", help="count infra failures as runs of their arm")
    option(
        "skip_bad",
        action="store_true",
        help="score the good lines; a caveat says how many were bad",
    )


def add_runs_option(parser: ArgumentParser, usual: str) -> None:
    """Which runs get a page of their own."""
    parser.add_argument(
        "--runs",
        choices=get_args(Which),
        help="also write pages of what the runs did into DIR/run-pages, with links from the "
        "report: of all, of pairs that ended differently, or of none "
        f"(default: {usual})",
    )


def add_files(parser: ArgumentParser) -> None:
    """The run files."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSONL, plain or packed with gzip or zstd; several files are one data set; - is "
        "standard input",
    )


_OUT = (
    "also write analysis.json, analysis.md and report.html into DIR; in a GitHub workflow, add the "
    "report to the step summary"
)


def add_report_options(parser: ArgumentParser, *, out: str = _OUT) -> None:
    """What to report, how, and where."""
    parser.add_argument(
        "--full", action="store_true", help="print every table and caveat, not just one screen"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown", "html", "github"),
        default="text",
        help="what to write to standard output (default: text)",
    )
    parser.add_argument("--out", metavar="DIR", help=out)
    parser.add_argument(
        "--junit", metavar="FILE", help="also write the gates to FILE as test cases (JUnit XML)"
    )
    parser.add_argument(
        "--annotate",
        action="store_true",
        help="also print GitHub workflow annotations to standard error",
    )
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="make the exit code say whether to promote",
    )
    _add_evidence_options(parser)
    _add_look_options(parser)
    _add_number_options(parser)


def _add_evidence_options(parser: ArgumentParser) -> None:
    option = Adder(parser)
    option(
        "promote_by",
        choices=get_args(PromoteBy),
        help="what decides a promotion; every way also requires enough repeats",
    )
    parser.add_argument(
        "--interval",
        choices=("headline", "bootstrap"),
        default=SUPPRESS,
        help="which intervals the tables show (default: headline)",
    )
    parser.add_argument(
        "--no-evidence",
        dest="evidence",
        action="store_false",
        default=SUPPRESS,
        help="skip the evidence: point estimates and the decision only",
    )
    option(
        "primary",
        choices=tuple(PRIMARY),
        help="the metric you care about most, tested first at the full level; name it before you "
        "see the data",
    )
    option(
        "guard",
        choices=get_args(GuardBy),
        help="under --promote-by evidence, also require that success holds on these tasks, that no "
        "tasks break, and that cost is not clearly worse",
    )
    option(
        "allow_broken",
        type=int,
        metavar="N",
        help="let the guard pass a candidate that breaks up to N tasks",
    )


def _add_look_options(parser: ArgumentParser) -> None:
    option = Adder(parser)
    option(
        "looks",
        type=_looks,
        metavar="R,R,...",
        help="after how many repeats the runs were to be judged, as planned before the first run",
    )
    option("r_max", type=int, metavar="R", help="the planned repeats: the last look")
    parser.add_argument(
        "--ignore-looks",
        action="store_true",
        default=SUPPRESS,
        help="judge runs that declare planned looks as if they had none; a caveat says so",
    )


def _add_number_options(parser: ArgumentParser) -> None:
    option = Adder(parser)
    option("level", type=number, help="confidence level, 0.5 to 0.9999")
    option("seed", type=int, help="random seed")
    option("resamples", type=int, help="number of resamples")
    option(
        "margin_success",
        type=number,
        metavar="SHARE",
        help="how far success may drop under the margin rule and the guard; 0.10 is 10 points",
    )
    option(
        "margin_ratio",
        type=number,
        metavar="SHARE",
        help="how far time and tokens may rise under the margin rule; 0.10 is 10%%",
    )


def _looks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"expected numbers such as 3,5,10, got {text!r}") from None


def number(text: str) -> float:
    """A number from the command line; a percentage is asked about."""
    try:
        return float(text)
    except ValueError:
        share = text.removesuffix("%")
        meant = f"; did you mean {float(share) / 100:g}?" if share.isdecimal() else ""
        raise ArgumentTypeError(f"expected a number, got {named(text)}{meant}") from None


class Adder:
    """Adds options that are fields of `Options`; their help says the default."""

    def __init__(self, parser: ArgumentParser) -> None:
        self._parser = parser

    def __call__(self, name: str, *, help: str, **given: object) -> None:
        """Add the option of a field."""
        usual = getattr(DEFAULTS, name)
        said = "" if usual in (None, False) else f" (default: {usual})"
        # What is not given is not there, so that an option without effect can be told.
        flag = f"--{name.replace('_', '-')}"
        self._parser.add_argument(flag, default=SUPPRESS, help=help + said, **given)  # type: ignore[arg-type]
