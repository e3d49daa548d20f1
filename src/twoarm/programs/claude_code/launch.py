"""Claude Code: `claude -p` with an allow-list of tools; it keeps to a budget of its own."""

import os
from collections.abc import Mapping
from typing import ClassVar

from twoarm.programs.agent import Agent, Habits, Launch, Lines, Meter, Start
from twoarm.programs.claude_code.record import Asking
from twoarm.programs.format import Refusal
from twoarm.programs.installed import Installed
from twoarm.programs.options import Default, options, valued
from twoarm.programs.prices import Prices

# What a task in a workspace needs; everything else is refused, because nobody is there to ask.
TOOLS = "Bash,Edit,Write,Read,Glob,Grep"
OUTPUT = "stream.jsonl"

_MODE = Default(
    ("--permission-mode", "acceptEdits"),
    frozenset({"--permission-mode", "--dangerously-skip-permissions"}),
)


class ClaudeCodeAgent(Installed):
    """Claude Code, not interactive."""

    name: ClassVar[str] = "claude-code"
    oldest: ClassVar[str | None] = "2.1.197"
    executable = "claude"
    habits = Habits(guide="CLAUDE.md", model="claude-sonnet-5", secret="ANTHROPIC_API_KEY")
    # It looks at what it has spent after each turn of the model.
    overshoot = 0.25

    def launch(self, start: Start) -> Launch:
        """Not interactive, everything on standard output, nothing but the model asked."""
        limit = None if start.trial_usd is None else f"{start.trial_usd:.6f}"
        return Launch(
            argv=(
                *("claude", "-p", "--output-format", "stream-json", "--verbose"),
                *options(
                    start.args,
                    _MODE,
                    # More of them add to it.
                    Default(("--allowedTools", TOOLS)),
                    valued("--model", start.model),
                    valued("--max-budget-usd", limit),
                ),
                *("--", start.prompt),
            ),
            output=OUTPUT,
            env={
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "DISABLE_TELEMETRY": "1",
            },
        )

    def meter(self, start: Start, prices: Mapping[str, Prices] | None) -> Meter | None:
        """It keeps to the limit itself; but it asks for minutes with a key that is refused."""
        return _Watch(os.path.join(start.output, OUTPUT))


launch: type[Agent] = ClaudeCodeAgent


class _Watch:
    def __init__(self, path: str) -> None:
        self._lines = Lines(path)
        self._asking = Asking()

    def spent(self) -> float | None:
        """Nothing is known before the end."""
        return None

    def refused(self) -> Refusal | None:
        """What the provider said last, unless it has answered."""
        for line in self._lines.new():
            self._asking.add(line)
        return self._asking.refusal
