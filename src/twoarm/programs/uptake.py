"""Uptake: whether a run used the change, by patterns over the tools that the agent called."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any, Literal, get_args

import msgspec

from twoarm.errors import UsageError
from twoarm.programs.script import Words
from twoarm.programs.shell import commands
from twoarm.runs.record import MOST_TOOLS, OTHER_TOOLS
from twoarm.text.escape import named

# What a pattern is matched on.
Kind = Literal["tool", "command", "skill"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The tools that take a shell command, and the argument that holds it, whatever the program.
_COMMAND_TOOLS: dict[str, tuple[str, ...]] = {
    "Bash": ("command",),
    "bash": ("command", "cmd"),
    "bash_command": ("keystrokes",),
    "bash_session": ("input",),
    "command_execution": ("command",),
    "exec_command": ("cmd",),
    "execute_bash": ("command",),
    "run_shell_command": ("command",),
    "shell": ("command",),
    "shell_command": ("command",),
}
# The tools that are asked for a skill, and the argument that names it.
_SKILL_TOOLS: dict[str, tuple[str, ...]] = {
    "Skill": ("skill", "command"),
    "activate_skill": ("name",),
    "skill": ("name", "command"),
}
_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])
# Longer names say no more.
_LONGEST_NAME = 200


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool that the agent called; `failed` is None where the output does not say."""

    name: str
    failed: bool | None = None
    # The arguments: JSON, a mapping, or the shell command itself.
    asked: Any = None
    # How often, where the output only counts.
    times: int = 1

    def argument(self, tools: Mapping[str, tuple[str, ...]]) -> str | None:
        """The argument of a tool that is in a table; None if it is not, or has none."""
        keys = tools.get(self.name)
        if keys is None:
            return None
        asked = self.asked
        if isinstance(asked, str):
            return asked
        if isinstance(asked, msgspec.Raw):
            try:
                asked = _ARGUMENTS.decode(asked)
            except (ValueError, RecursionError):
                # What a tool is given is anything; it is looked into only if it can be.
                return None
        if not isinstance(asked, Mapping):
            return None
        value = next((asked[key] for key in keys if key in asked), None)
        return value if isinstance(value, str) else None

    @property
    def command(self) -> str | None:
        """The shell command, if the tool takes one."""
        return self.argument(_COMMAND_TOOLS)

    @property
    def skill(self) -> str | None:
        """The skill that was asked for, if the tool is asked for skills."""
        return self.argument(_SKILL_TOOLS)


class Calls(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything that an agent called, as far as its output shows it."""

    made: tuple[Call, ...]
    # What of them the output shows.
    shows: tuple[Kind, ...]
    # Whether it tells which calls failed.
    tells_failures: bool
    # Those of sub-agents that the source counts apart.
    below: tuple[Call, ...] = ()
    # Whether sub-agents ran whose calls are not in the source.
    hidden: bool = False


def looked_into(name: str | None) -> bool:
    """Whether anything is made of the arguments of a tool."""
    return name in _COMMAND_TOOLS or name in _SKILL_TOOLS


def takes_command(name: str) -> bool:
    """Whether a tool takes a shell command."""
    return name in _COMMAND_TOOLS


class Pattern:
    """`tool:mcp__search__*`, `command:skelly *` or `skill:pdf`, as a shell would match it."""

    def __init__(self, text: str) -> None:
        kind, _, wanted = text.partition(":")
        if kind not in KINDS or not wanted:
            raise UsageError(
                f"uptake {named(text)}: write tool:NAME, command:COMMAND or skill:NAME; "
                "* matches anything, as in tool:mcp__search__*"
            )
        self.text = text
        self.kind: Kind = kind
        # `skelly *` is also `skelly` with no arguments at all.
        either = [wanted, wanted[:-2]] if kind == "command" and wanted.endswith(" *") else [wanted]
        self._matches = re.compile("|".join(map(translate, either))).match
        # A part of the command that has to be there, as it is without quotes.
        self._part = max(re.split(r"\[!?.[^\]]*\]|[*?\s\\'\"]", wanted), key=len)

    def matches(self, call: Call) -> bool:
        """Whether a call is a use of what the pattern is for."""
        if self.kind == "tool":
            return self._matches(call.name) is not None
        text = call.command if self.kind == "command" else call.skill
        if text is None:
            return False
        if self.kind == "skill":
            return self._matches(text) is not None
        bare = text.replace("\\\n", "").translate(_QUOTES)
        return self._part in bare and any(map(self._runs, commands(text)))

    def _runs(self, words: Words) -> bool:
        program, rest = words[0].rpartition("/")[2], words[1:]
        return any(self._matches(" ".join([name, *rest])) for name in {words[0], program})


_QUOTES = str.maketrans(dict.fromkeys("'\"\\"))


class Uses(msgspec.Struct, frozen=True, kw_only=True):
    """How often a run used the change, and how often that failed; None where nothing shows it."""

    count: int | None
    failed: int | None
    # Calls by the text of the pattern that they match.
    by_pattern: dict[str, int]


def count_uses(calls: Calls | None, patterns: Sequence[Pattern]) -> Uses:
    """The calls that match a pattern; one that matches several is one use."""
    if calls is None:
        return Uses(count=None, failed=None, by_pattern={})
    by_pattern: Counter[str] = Counter()
    count = failed = 0
    for call in (*calls.made, *calls.below):
        matched = [pattern.text for pattern in patterns if pattern.matches(call)]
        count += call.times if matched else 0
        failed += call.times if matched and call.failed else 0
        for text in matched:
            by_pattern[text] += call.times
    seen = all(pattern.kind in calls.shows for pattern in patterns)
    # What a sub-agent did out of sight may have been a use.
    if not seen or (calls.hidden and not count):
        return Uses(count=None, failed=None, by_pattern=by_pattern)
    return Uses(count=count, failed=failed if calls.tells_failures else None, by_pattern=by_pattern)


def tally(calls: Iterable[Call]) -> dict[str, int]:
    """How often each tool was called: the tools called most, and the others together."""
    counts: Counter[str] = Counter()
    for call in calls:
        counts[call.name[:_LONGEST_NAME] or OTHER_TOOLS] += call.times
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ranked) <= MOST_TOOLS:
        return dict(sorted(ranked))
    kept = dict(sorted(ranked[: MOST_TOOLS - 1]))
    rest = sum(count for _, count in ranked[MOST_TOOLS - 1 :])
    kept[OTHER_TOOLS] = kept.get(OTHER_TOOLS, 0) + rest
    return kept


def tally_failed(calls: Calls, tools: Mapping[str, int]) -> dict[str, int] | None:
    """How often a call of each tool failed, under the names of `tools`; None if nobody tells."""
    if not calls.tells_failures:
        return None
    counts: Counter[str] = Counter()
    for call in calls.made:
        if call.failed:
            name = call.name[:_LONGEST_NAME]
            counts[name if name in tools else OTHER_TOOLS] += call.times
    return dict(sorted(counts.items()))
