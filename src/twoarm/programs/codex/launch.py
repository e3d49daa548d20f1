"""Codex: `codex exec` in its sandbox; its cost is the tokens of its rollouts, at given prices."""

from collections.abc import Mapping
from typing import ClassVar

from twoarm.programs.agent import Agent, Cost, Habits, Launch, Meter, Start
from twoarm.programs.codex.record import Tally
from twoarm.programs.installed import Installed
from twoarm.programs.metered import Files, can_price
from twoarm.programs.options import Default, options, valued
from twoarm.programs.prices import Prices, cost_of
from twoarm.programs.tokens import Spend

ROLLOUTS = ".codex/sessions/**/rollout-*.jsonl"

_SANDBOX = Default(
    ("--sandbox", "workspace-write"),
    frozenset(
        {"-s", "--sandbox", "--approve-for-me", "--dangerously-bypass-approvals-and-sandbox"}
    ),
)
_UNBOXED = ("danger-full-access", "--dangerously-bypass-approvals-and-sandbox")
# Plugins are looked up on the network at every start.
_PLUGINS = Default(("--disable", "plugins"), frozenset({"plugins"}))
_QUIET = Default(("-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false"))


class CodexAgent(Installed):
    """Codex, not interactive."""

    name: ClassVar[str] = "codex"
    oldest: ClassVar[str | None] = "0.166.0"
    executable = "codex"
    habits = Habits(model="gpt-5-codex", secret="CODEX_API_KEY")

    @property
    def nests(self) -> bool:
        """Only if the suite has taken its sandbox away: that maps users, and no other lets it."""
        return any(word.endswith(_UNBOXED) for word in self._program.args)

    def cost(self, prices: Mapping[str, Prices] | None) -> Cost:
        """It tells tokens alone."""
        return "held" if can_price(self._program.model, prices, cache_write=1) else "unknown"

    def launch(self, start: Start) -> Launch:
        """Not interactive, in the sandbox that may write to the workspace."""
        return Launch(
            argv=(
                *("codex", "exec", "--json", "--skip-git-repo-check"),
                *options(start.args, _SANDBOX, _PLUGINS, _QUIET, valued("-m", start.model)),
                *("--", start.prompt),
            ),
            output="events.jsonl",
            keep={ROLLOUTS: "rollout.jsonl"},
        )

    def meter(self, start: Start, prices: Mapping[str, Prices] | None) -> Meter | None:
        """The rollouts of the session and of its sub-agents."""
        return None if start.trial_usd is None else _Meter(start.home, prices or {})


launch: type[Agent] = CodexAgent


class _Meter:
    def __init__(self, home: str, prices: Mapping[str, Prices]) -> None:
        self._rollouts = Files(home, ROLLOUTS)
        self._tallies: dict[str, Tally] = {}
        self._prices = prices

    def spent(self) -> float | None:
        """What the tokens so far cost; None if there are none or no prices for them."""
        for path, line in self._rollouts.new():
            self._tallies.setdefault(path, Tally()).add(line)
        spends: list[Spend] = [
            spend for tally in self._tallies.values() if (spend := tally.spend) is not None
        ]
        return cost_of(spends, self._prices) if spends else None
