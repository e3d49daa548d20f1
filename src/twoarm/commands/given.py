"""What was given on the command line, and which options would have no effect."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from twoarm.errors import UsageError
from twoarm.options import DEFAULTS
from twoarm.text.escape import visible

# By name; options that were not given are absent.
Given = Mapping[str, Any]
Struct = TypeVar("Struct", bound=msgspec.Struct)

# How arguments are written if not as --name.
_WRITTEN = {
    "action": "log",
    "evidence": "--no-evidence",
    "files": "FILE",
    "folder": "DIR",
    "repeat": "REPEAT",
    "suite": "SUITE",
}
_DEFAULTS = {"format": "text", "guard": DEFAULTS.guard}


class Rule(NamedTuple):
    """Options that do nothing without one of several others, next to another one, or both."""

    options: tuple[str, ...] = ()
    # The values that will do; if none are listed, any will.
    without: Mapping[str, tuple[str, ...]] = {}
    beside: str = ""
    # In place of `options`: all but these.
    all_but: tuple[str, ...] | None = None
    why: str = ""

    def refuse(self, given: Given) -> None:
        """Raise an error for the first option that would have no effect."""
        idle = (not self.beside or self.beside in given) and not self._met(given)
        for name in given if idle else ():
            listed = name in self.options if self.all_but is None else name not in self.all_but
            if listed and name != self.beside:
                raise UsageError(f"{written(name)} {self.why or self._reason()}")

    def _met(self, given: Given) -> bool:
        return any(
            given.get(name, _DEFAULTS.get(name)) in values if values else name in given
            for name, values in self.without.items()
        )

    def _reason(self) -> str:
        if self.beside:
            return f"has no effect with {written(self.beside)}"
        *others, last = (
            " ".join([written(name), *([" or ".join(values)] if values else [])])
            for name, values in self.without.items()
        )
        return f"has no effect without {', '.join(others)}{', or ' if others else ''}{last}"


# What the answer of a look depends on, besides the runs.
JUDGING = (
    "level",
    "resamples",
    "primary",
    "guard",
    "allow_broken",
    "margin_success",
    "margin_ratio",
)
_OF_THE_EVIDENCE = (*JUDGING, "looks", "ignore_looks")
_REPORT = (
    Rule(_OF_THE_EVIDENCE, beside="evidence"),
    Rule(("allow_broken",), without={"guard": ("all",)}),
    Rule(("full",), without={"format": ("text",)}),
)
# In a run its seed always has an effect: it sets the order.
_SHOWN = (Rule(("seed",), beside="evidence"), *_REPORT)
_SCORE = (*_SHOWN, Rule(("run_pages",), without={"out": ()}))
_COUNTING = (
    *("candidate", "baseline", "duplicates", "missing", "keep_infra", "skip_bad"),
    *("family", "tag", "task"),
)
_ADDING = ("to", "commit", "label")
_OF_THE_ORDER = ("repeats", "seed", "trial_budget", "only", "tag", "isolation", "shard")
# What is shown and written where there is a verdict.
_OF_A_VERDICT = (
    *("promote_by", "evidence", *_OF_THE_EVIDENCE),
    *("full", "format", "junit", "annotate", "exit_code", "run_pages"),
)
_OF_A_SHARD = Rule(
    _OF_A_VERDICT, why="has no effect on a shard, which shows no verdict; give it to twoarm merge"
)
OF_A_DRY_RUN = ("suite", "jobs", "executor", "budget", "looks", "level", *_OF_THE_ORDER)

RULES = {
    "score": _SCORE,
    "comment": _SCORE,
    "log": (
        Rule(
            (*_ADDING, *_COUNTING, "seed", "evidence", "promote_by", *_OF_THE_EVIDENCE[1:], "part"),
            without={"action": ("add",)},
        ),
        Rule(("series", "format", "out"), without={"action": ("show",)}),
        *_SHOWN[:-1],
    ),
    "demo": (Rule(beside="print", all_but=()), *_SHOWN),
    "plan": (Rule(_COUNTING, without={"files": ()}),),
    "show": (Rule(("arm",), without={"repeat": ()}),),
    "run": (
        Rule(
            _OF_A_VERDICT,
            beside="shard",
            why="has no effect with --shard, which shows no verdict; give it to twoarm merge",
        ),
        Rule(beside="status", all_but=()),
        Rule(beside="stop", all_but=()),
        Rule(beside="dry_run", all_but=OF_A_DRY_RUN),
        Rule(
            ("level",),
            without={"looks": ()},
            beside="dry_run",
            why="has no effect with --dry-run without --looks",
        ),
        Rule(("suite", "resume"), beside="demo"),
        Rule(
            (*(name for name in _OF_THE_ORDER if name != "repeats"), "keep", "out"),
            beside="resume",
            why="cannot change once a run has started; leave it out",
        ),
        *_REPORT,
    ),
    "merge": (
        Rule(("seed",), beside="shards", why="is that of the shards; leave it out"),
        *_REPORT,
    ),
    "regrade": (
        Rule(("seed",), beside="folder", why="is that of the run folder; leave it out"),
        *_REPORT,
    ),
}


def refuse_idle(command: str, given: Given) -> None:
    """Refuse an option that would have no effect, before anything is done."""
    for rule in RULES.get(command, ()):
        rule.refuse(given)


def refuse_verdict(given: Given) -> None:
    """Refuse what asks for a verdict: the run folder turned out to be a shard."""
    _OF_A_SHARD.refuse(given)


def written(name: str) -> str:
    """An option as it is written."""
    return _WRITTEN.get(name) or f"--{name.replace('_', '-')}"


def listed(value: object) -> str:
    """The value of an option as it is written."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def taken(kind: type[Struct], given: Given, **more: object) -> Struct:
    """A value with those of its fields that were given, and with `more`."""
    return kind(**{name: given[name] for name in kind.__struct_fields__ if name in given} | more)


def typed(*words: str) -> str:
    """A command as one would type it."""
    import shlex

    return visible(shlex.join(words))
