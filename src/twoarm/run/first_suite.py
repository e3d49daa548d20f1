"""A first suite for an agent, to be read and changed; and the demo's, for whoever has run it."""

import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template

from twoarm.errors import UsageError
from twoarm.programs.agent import Habits, agent_names, load_agent
from twoarm.programs.command.launch import CommandAgent
from twoarm.programs.settings import Program
from twoarm.run.harbor_tasks import HARBOR
from twoarm.text.escape import named, series

# The name of a suite in its folder.
SUITE = "suite.toml"

_STAND_IN = "agent.sh"
# Where the comments of the template begin.
_COLUMN = 38


def only_agent() -> str:
    """The one agent whose program is on PATH."""
    there = [name for name in agent_names() if _is_on_path(name)]
    if len(there) == 1:
        return there[0]
    if there:
        listing = series([named(name) for name in there])
        raise UsageError(f"which agent? {listing} are on PATH; name one with --agent")
    listing = ", ".join(agent_names())
    raise UsageError(f"which agent? none is on PATH; name one with --agent: {listing}")


def _is_on_path(name: str) -> bool:
    if name == CommandAgent.name:
        return False
    try:
        return shutil.which(load_agent(Program(program=name)).executable) is not None
    except UsageError:
        # Of another package, and broken; whoever names it is told how.
        return False


def first_suite(agent: str) -> dict[str, bytes]:
    """The files of a suite for an agent, by their paths; the suite itself comes last."""
    if agent == HARBOR:
        return dict(_bundled("first_harbor"))
    bundled = dict(_bundled("first"))
    template = Template(bundled.pop(SUITE).decode())
    if agent != CommandAgent.name:
        del bundled[_STAND_IN]
    loaded = load_agent(Program(program=agent))
    habits: Habits = getattr(loaded, "habits", Habits())
    suite = template.substitute(
        agent="\n".join(_agent_lines(agent, habits)),
        limits="\n".join(_limit_lines(agent, held=loaded.cost(None) == "held")),
        guide=habits.guide,
    )
    return {**bundled, SUITE: suite.encode()}


def demo_suite() -> dict[str, bytes]:
    """The files of the demo's suite, by their paths."""
    return dict(_bundled("demo"))


def _agent_lines(agent: str, habits: Habits) -> Iterator[str]:
    if agent == CommandAgent.name:
        yield _line("program", "command", "any program")
        words = ["sh", f"{{suite}}/{_STAND_IN}", "{prompt}"]
        yield _line("argv", words, "the program and its arguments")
        return
    yield f"program = {json.dumps(agent)}"
    line = _line("model", habits.model or "MODEL", "the model, unless the arm names one")
    yield line if habits.model else _out(line)
    meaning = "names; the values are redacted from every kept file"
    line = _line("secrets", [habits.secret or "API_KEY"], meaning)
    yield line if habits.secret else _out(line)


def _limit_lines(agent: str, *, held: bool) -> Iterator[str]:
    """Timeouts for all; money for those whose trials cost what is known."""
    yield _line("timeout_seconds", 600, "how long the agent may take")
    if agent == CommandAgent.name:
        return
    if not held:
        meaning = "a price table, for agents that report tokens and no dollars"
        yield _out(_line("prices", "prices.toml", meaning))
    for line in (
        _line("budget_usd", 5.0, "what all trials together may cost"),
        _line("trial_usd", 0.5, "what one trial may cost"),
    ):
        yield line if held else _out(line)


def _line(key: str, value: object, meaning: str) -> str:
    return f"{f'{key} = {json.dumps(value)}':<{_COLUMN - 2}}  # {meaning}"


def _out(line: str) -> str:
    """A line that the user may take in, its comment where the others are."""
    return f"# {line.replace('  #', '#', 1)}"


def _bundled(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a folder beside this module, by their paths in it."""

    def below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                yield from below(entry, f"{path}{entry.name}/")
            else:
                yield f"{path}{entry.name}", entry.read_bytes()

    return below(files("twoarm").joinpath("run", name), "")
