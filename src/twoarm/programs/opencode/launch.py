"""opencode: `opencode run`, its sessions exported at the end; its cost is what it tells."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import msgspec

from twoarm.programs.agent import After, Agent, Habits, Launch, Lines, Meter, Start
from twoarm.programs.installed import Installed
from twoarm.programs.opencode.log import LOG
from twoarm.programs.opencode.record import EVENTS, EXPORT, OpencodeStep, step_of
from twoarm.programs.options import Default, options, valued
from twoarm.programs.prices import Prices, cost_of
from twoarm.programs.tokens import Count, Quantity, Spend, model_name

DATABASE = ".local/share/opencode/opencode.db"

# Without a title it asks a model for one.
_TITLE = Default(("--title", "twoarm"), frozenset({"--title"}))

# The sessions of sub-agents; their steps are no events of the run.
_CHILDREN = """
    select cost, tokens_input, tokens_output + tokens_reasoning, tokens_cache_read,
           tokens_cache_write, model
    from session where parent_id is not null
"""


class OpencodeAgent(Installed):
    """opencode, not interactive."""

    name: ClassVar[str] = "opencode"
    oldest: ClassVar[str | None] = "1.18.33"
    executable = "opencode"
    habits = Habits(model="openai/gpt-5-mini", secret="OPENAI_API_KEY")

    def launch(self, start: Start) -> Launch:
        """Not interactive, with its own rules for tools, and the sessions exported."""
        return Launch(
            argv=(
                *("opencode", "run", "--format", "json"),
                *options(start.args, _TITLE, valued("--model", start.model)),
                # It would put quotes around a word with spaces, and joins words by a space.
                *("--", *start.prompt.split(" ")),
            ),
            output=EVENTS,
            keep={".local/share/opencode/log/*.log": LOG},
            env={
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
            },
            after=(
                After(
                    argv=("opencode", "export", "{match}"),
                    source=EVENTS,
                    # The session of the run comes first; then those of its sub-agents.
                    pattern=r'"session(?:ID|Id)":"(ses_\w+)"',
                    output=EXPORT,
                    more="export.{match}.json",
                ),
            ),
        )

    def meter(self, start: Start, prices: Mapping[str, Prices] | None) -> Meter | None:
        """The steps of the run, and the sessions of its sub-agents."""
        return None if start.trial_usd is None else _Meter(start, prices)


launch: type[Agent] = OpencodeAgent


class _Meter:
    def __init__(self, start: Start, prices: Mapping[str, Prices] | None) -> None:
        self._events = Lines(os.path.join(start.output, EVENTS))
        self._database = Path(start.home, DATABASE)
        self._model = start.model
        self._prices = prices
        self._own: list[OpencodeStep] = []
        self._below: list[OpencodeStep] = []

    def spent(self) -> float | None:
        """What it tells; at given prices where it knows none and tells nothing but zeros."""
        self._own += filter(None, (step_of(line, self._model) for line in self._events.new()))
        self._below = _children(self._database) or self._below
        steps = [*self._own, *self._below]
        if not steps:
            return None
        told = sum(step.cost for step in steps)
        if told or self._prices is None:
            return told
        return cost_of([step.spend for step in steps], self._prices)


class _Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    provider_id: str = msgspec.field(name="providerID")


_Row = tuple[Quantity, Count, Count, Count, Count, str]


def _children(path: Path) -> list[OpencodeStep]:
    """The sessions of sub-agents; none while the database cannot be read."""
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0)) as database:
            # The agent may have put anything there: the query is not to go on for ever.
            database.set_progress_handler(lambda: 1, 1_000_000)
            rows = msgspec.convert(database.execute(_CHILDREN).fetchall(), list[_Row])
        return [_step(row) for row in rows]
    except (sqlite3.Error, ValueError):
        return []


def _step(row: _Row) -> OpencodeStep:
    cost, fresh, output, read, written, text = row
    model = msgspec.json.decode(text, type=_Model)
    name = model_name(model.provider_id, model.id)
    return OpencodeStep(
        cost=cost,
        spend=Spend(model=name, input=fresh, output=output, cache_read=read, cache_write=written),
    )
