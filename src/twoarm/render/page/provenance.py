"""Where the figures come from, and the command that makes them again."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from twoarm.quote import visible

if TYPE_CHECKING:
    from twoarm.analysis import Analysis, Options

STANDARD_INPUT = "<stdin>"
MEMORY = "<memory>"

# What `twoarm score` does when it is told nothing; only other choices belong in the command.
_USUAL = {
    "candidate": None,
    "baseline": None,
    "duplicates": "error",
    "missing": "keep",
    "keep_infra": False,
    "skip_bad": False,
    "evidence": True,
    "level": 0.95,
    "seed": 1,
    "resamples": 9_999,
    "rule": "gates",
    "margin_success": 0.10,
    "margin_ratio": 0.10,
    "gate": "rule",
}


def facts(analysis: "Analysis") -> Iterator[tuple[str, str]]:
    """What the figures depend on, name by name."""
    yield "version", f"{analysis.tool.name} {analysis.tool.version}"
    if analysis.generated_at_utc is not None:
        yield "written", analysis.generated_at_utc
    for given in analysis.inputs:
        yield "input", f"{visible(given.path)}, {given.records:,} runs"
        if given.sha256 is not None:
            yield "SHA-256", given.sha256
    for name, value in msgspec.to_builtins(analysis.options).items():
        yield (
            name.replace("_", " "),
            "told by the names of the arms" if value is None else _said(value),
        )


def _said(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def command(analysis: "Analysis") -> str | None:
    """The command that gives the same figures; None if the runs were never in a file."""
    paths = [given.path for given in analysis.inputs]
    if MEMORY in paths:
        return None
    words = ["twoarm", "score"]
    words += ["-" if path == STANDARD_INPUT else path for path in paths]
    words += _options(analysis.options)
    return shlex.join(map(visible, words))


def _options(options: "Options") -> Iterator[str]:
    for name, value in msgspec.to_builtins(options).items():
        if value == _USUAL.get(name):
            continue
        flag = f"--{name.replace('_', '-')}"
        if name == "evidence":
            yield "--no-evidence"
        elif value is True:
            yield flag
        else:
            # One word, so that a name that begins with a dash is no option.
            yield f"{flag}={value}"
