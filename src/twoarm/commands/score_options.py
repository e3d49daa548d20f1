"""The options of commands that score: which runs count, how to promote, the evidence, the output.

An option that was not given is absent: the parser of every command leaves it out.
"""

from argparse import ArgumentParser, ArgumentTypeError, _ArgumentGroup
from functools import partial
from typing import Any, get_args

from twoarm.options import DEFAULTS, PRIMARY, Duplicates, GuardBy, Missing, PromoteBy, Which
from twoarm.text.escape import named


def add_option(group: _ArgumentGroup, name: str, *, help: str, **how: Any) -> None:
    """Add the option of a field of `Options`; its help says the default."""
    default = getattr(DEFAULTS, name)
    shown = "" if default is None or default is False else f" (default: {default})"
    group.add_argument(f"--{name.replace('_', '-')}", help=help + shown, **how)


def add_counting_options(group: _ArgumentGroup) -> None:
    """Which runs count."""
    option = partial(add_option, group)
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
    option(
        "tag",
        action="append",
        metavar="NAME",
        help="only tasks with this tag; give it again for tasks with any of several",
    )
    option(
        "task",
        action="append",
        metavar="GLOB",
        help="only tasks with such a name, such as 'sql-*'; give it again for more",
    )
    option(
        "family",
        metavar="REGEX",
        help="the family of a task is the first group of REGEX in its task_id, such as "
        "'^(.+?)__'; it takes the place of the families in the records",
    )


def add_run_pages_option(group: _ArgumentGroup, default: str) -> None:
    """Which runs get a page of their own."""
    group.add_argument(
        "--run-pages",
        choices=get_args(Which),
        help="also write pages of what the runs did into DIR/run-pages, with links from the "
        "report: of all, of pairs that ended differently, or of none "
        f"(default: {default})",
    )


_OUT = (
    "also write analysis.json, analysis.md and report.html into DIR; in a GitHub workflow, add the "
    "report to the step summary"
)


def add_report_options(parser: ArgumentParser, *, out: str = _OUT) -> _ArgumentGroup:
    """How to promote, the evidence, and the output; that group is returned for more."""
    add_judging_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--full", action="store_true", help="print every table and caveat, not just one screen"
    )
    add_format_and_out(output, ("text", "json", "markdown", "html", "github"), out)
    output.add_argument(
        "--junit", metavar="FILE", help="also write the gates to FILE as test cases (JUnit XML)"
    )
    output.add_argument(
        "--annotate",
        action="store_true",
        help="also print GitHub workflow annotations to standard error",
    )
    output.add_argument(
        "--exit-code",
        action="store_true",
        help="make the exit code say whether to promote",
    )
    return output


def add_judging_options(parser: ArgumentParser) -> None:
    """How to promote, and the evidence."""
    _add_promotion_options(parser.add_argument_group("how to promote"))
    _add_evidence_options(parser.add_argument_group("evidence"))


def add_format_and_out(group: _ArgumentGroup, formats: tuple[str, ...], out: str) -> None:
    """Where a report goes."""
    group.add_argument(
        "--format", choices=formats, help="what to write to standard output (default: text)"
    )
    group.add_argument("--out", metavar="DIR", help=out)


def add_short_report_options(
    parser: ArgumentParser, compared: _ArgumentGroup, names: tuple[str, ...]
) -> None:
    """Which runs count, how sure to be, and where a short report goes."""
    add_option(compared, "candidate", metavar="ARM", help="the arm with the change")
    add_option(compared, "baseline", metavar="ARM", help="the arm without it")
    add_counting_options(compared)
    _add_level_and_seed(parser.add_argument_group("evidence"))
    add_format_and_out(
        parser.add_argument_group("output"),
        ("text", "json", "markdown", "html"),
        f"also write {', '.join(names)} into DIR",
    )


def _add_promotion_options(group: _ArgumentGroup) -> None:
    option = partial(add_option, group)
    option(
        "promote_by",
        choices=get_args(PromoteBy),
        help="what decides a promotion; every way also requires enough repeats",
    )
    option(
        "guard",
        choices=get_args(GuardBy),
        help="under --promote-by evidence, also require that success holds on these very tasks, "
        "that a gain is there among solved runs, that no tasks break, and that cost is not clearly "
        "worse; under evidence and margin, that the arms ran side by side",
    )
    option(
        "allow_broken",
        type=whole_number,
        metavar="N",
        help="let the guard pass a candidate that breaks up to N tasks",
    )
    add_margin_options(group, " and the guard")


def add_margin_options(group: _ArgumentGroup, also: str = "") -> None:
    """How much worse is still good enough; `also` names what else uses the first margin."""
    option = partial(add_option, group)
    option(
        "margin_success",
        type=number,
        metavar="SHARE",
        help=f"how far success may drop under the margin rule{also}; 0.10 is 10 points",
    )
    option(
        "margin_ratio",
        type=number,
        metavar="SHARE",
        help="how far time and tokens may rise under the margin rule; 0.10 is 10%%",
    )


def _add_evidence_options(group: _ArgumentGroup) -> None:
    option = partial(add_option, group)
    group.add_argument(
        "--no-evidence",
        dest="evidence",
        action="store_false",
        help="skip the evidence: point estimates and the decision only",
    )
    option(
        "primary",
        choices=tuple(PRIMARY),
        help="the metric you care about most, tested first at the full level; name it before you "
        "see the data",
    )
    _add_level_and_seed(group)
    option("resamples", type=whole_number, help="number of resamples")
    option(
        "looks",
        type=_looks,
        metavar="R,R,...",
        help="after how many repeats the runs were to be judged, as planned before the first run; "
        "the last look is after all of them",
    )
    group.add_argument(
        "--ignore-looks",
        action="store_true",
        help="judge runs that declare planned looks as if they had none; a caveat says so",
    )


def _add_level_and_seed(group: _ArgumentGroup) -> None:
    add_option(group, "level", type=number, help="confidence level, 0.5 to 0.9999")
    add_option(group, "seed", type=whole_number, help="random seed")


def add_part_option(group: _ArgumentGroup) -> None:
    """Which parts of a run that grew."""
    add_option(
        group,
        "part",
        type=_parts,
        metavar="N,...",
        help="only runs of these parts of a run that grew",
    )


def _parts(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"expected parts such as 2 or 1,2, got {named(text)}") from None


def _looks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError(f"expected numbers such as 3,5,10, got {text!r}") from None


def whole_number(text: str) -> int:
    """A whole number from the command line."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"expected a whole number, got {named(text)}") from None


def number(text: str) -> float:
    """A number from the command line; the error for a percentage suggests the share."""
    try:
        return float(text)
    except ValueError:
        share = text.removesuffix("%")
        meant = f"; did you mean {float(share) / 100:g}?" if share.isdecimal() else ""
        raise ArgumentTypeError(f"expected a number, got {named(text)}{meant}") from None
