"""Gemini CLI: `gemini -p` with an allow-list; its cost is the tokens of its chats, at prices."""

import json
from collections.abc import Mapping
from typing import ClassVar

from twoarm.errors import Position
from twoarm.programs.agent import Agent, Cost, Habits, Launch, Meter, Start
from twoarm.programs.gemini_cli.record import chat_spend
from twoarm.programs.installed import Installed
from twoarm.programs.metered import Files, can_price
from twoarm.programs.options import Default, options, valued
from twoarm.programs.prices import Prices, cost_of
from twoarm.programs.tokens import Spend

CHATS = ".gemini/tmp/*/chats/**/*.jsonl"

_MODE = Default(("--approval-mode", "auto_edit"), frozenset({"--approval-mode", "--yolo", "-y"}))
# Without it the shell is refused in silence. More of them add to it.
_SHELL = Default(("--allowed-tools", "run_shell_command"))
# The workspace is the suite's own, and nobody is there to be asked about it.
_TRUST = Default(("--skip-trust",), frozenset({"--skip-trust"}))

_SETTINGS = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}


class GeminiCliAgent(Installed):
    """Gemini CLI, not interactive."""

    name: ClassVar[str] = "gemini-cli"
    oldest: ClassVar[str | None] = "0.61.0"
    executable = "gemini"
    habits = Habits(guide="GEMINI.md", model="gemini-3-pro", secret="GEMINI_API_KEY")

    def cost(self, prices: Mapping[str, Prices] | None) -> Cost:
        """It tells tokens alone."""
        return "held" if can_price(self._program.model, prices, cache_write=None) else "unknown"

    def launch(self, start: Start) -> Launch:
        """Not interactive, edits and the shell allowed."""
        return Launch(
            argv=(
                *("gemini", "--output-format", "stream-json"),
                *options(start.args, _MODE, _SHELL, _TRUST, valued("-m", start.model)),
                f"--prompt={start.prompt}",
            ),
            output="stream.jsonl",
            home={".gemini/settings.json": json.dumps(_SETTINGS, indent=2) + "\n"},
        )

    def meter(self, start: Start, prices: Mapping[str, Prices] | None) -> Meter | None:
        """The chats of the session and of its sub-agents."""
        return None if start.trial_usd is None else _Meter(start.home, prices or {})


launch: type[Agent] = GeminiCliAgent


class _Meter:
    def __init__(self, home: str, prices: Mapping[str, Prices]) -> None:
        self._chats = Files(home, CHATS)
        # A message is written again with the results of its tools.
        self._spends: dict[str, Spend] = {}
        self._prices = prices

    def spent(self) -> float | None:
        """What the tokens so far cost; None if there are none or no prices for them."""
        for path, line in self._chats.new():
            self._spends |= chat_spend(line, Position(path))
        return cost_of(list(self._spends.values()), self._prices) if self._spends else None
