"""Where the figures come from, and the command that makes them again."""

import shlex
from collections.abc import Iterator

import msgspec

from twoarm.options import DEFAULTS, Options
from twoarm.result.analysis import Analysis
from twoarm.text.escape import visible

STANDARD_INPUT = "<stdin>"
MEMORY = "<memory>"


# What an option that was not given means, where that is not "none".
_INFERRED = "inferred from the arm names"
_NOT_GIVEN = {
    **dict.fromkeys(("candidate", "baseline"), _INFERRED),
    **dict.fromkeys(("part", "tag", "task"), "all"),
}


def facts(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """What the figures depend on, name by name."""
    yield "version", f"{analysis.tool.name} {analysis.tool.version}"
    if analysis.generated_at_utc is not None:
        yield "written", analysis.generated_at_utc
    for given in analysis.inputs:
        yield "input", f"{visible(given.path)}, {given.records:,} runs"
        if given.sha256 is not None:
            yield "SHA-256", given.sha256
    for name, value in msgspec.to_builtins(analysis.options).items():
        shown = _NOT_GIVEN.get(name, "none") if value is None else _shown(value)
        yield name.replace("_", " "), shown


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else _written(value)


def _written(value: object) -> str:
    """A value as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def command(analysis: Analysis) -> str | None:
    """The command that gives the same figures; None if the runs were never in a file."""
    paths = [given.path for given in analysis.inputs]
    if MEMORY in paths:
        return None
    words = ["twoarm", "score"]
    words += ["-" if path == STANDARD_INPUT else path for path in paths]
    words += _options(analysis.options)
    return shlex.join(map(visible, words))


def _options(options: Options) -> Iterator[str]:
    for name, value in msgspec.to_builtins(options).items():
        # Only what was not the default belongs in the command.
        if value == getattr(DEFAULTS, name):
            continue
        flag = f"--{name.replace('_', '-')}"
        if name == "evidence":
            yield "--no-evidence"
        elif value is True:
            yield flag
        elif name in ("tag", "task"):
            # Each may hold a comma.
            yield from (f"{flag}={each}" for each in value)
        else:
            # One word, so that a name that begins with a dash is not taken for an option.
            yield f"{flag}={_written(value)}"
