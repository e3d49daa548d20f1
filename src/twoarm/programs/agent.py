"""The interface of an agent: how a program is started, what it leaves, what its running costs."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

import msgspec

from twoarm.errors import UsageError
from twoarm.programs.format import Refusal
from twoarm.programs.prices import Prices
from twoarm.programs.program import GROUP, described, has_part, installed, is_foreign, part_of
from twoarm.programs.settings import Program
from twoarm.text.escape import did_you_mean, named

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# How well the cost of a trial is known: it can be stopped at a limit; it is told at the end; or
# nobody can know it.
Cost = Literal["held", "told", "unknown"]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt starts with: suite and arm put together, every placeholder filled in."""

    prompt: str
    # The same text as a file, outside the workspace.
    prompt_file: str
    model: str | None
    # The suite's arguments, then the arm's.
    args: tuple[str, ...]
    argv: tuple[str, ...]
    # Folders of this attempt alone: all three are fresh, and only the workspace has anything in it.
    workspace: str
    home: str
    # Where standard output, standard error and what `Launch` keeps are written, under their names.
    output: str
    # Where a command may leave its own counts; see `programs/command/record.py`.
    usage: str
    # What the trial may cost; None where nothing limits it.
    trial_usd: float | None
    # A name that no other attempt has; and of a task that is a folder, its own copy of it.
    trial: str = ""
    task_folder: str = ""


class After(msgspec.Struct, frozen=True, kw_only=True):
    """A command after the agent has ended, once for each match of a pattern in a kept file.

    `{match}` in `argv` is the first group of the match. The first match writes `output`; the
    others `more`, with `{match}` in it. Without a pattern the command runs once.
    """

    argv: tuple[str, ...]
    output: str
    source: str | None = None
    pattern: str | None = None
    more: str | None = None
    seconds: float = 60.0
    # An agent may print any number of matches.
    most: int = 20


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is started, and which of its files are kept."""

    argv: tuple[str, ...]
    # The name under which standard output is kept: one that `collect` knows.
    output: str
    # Added to the environment, below what the suite says.
    env: dict[str, str] = {}
    # Texts of files in HOME, below what the suite puts there.
    home: dict[str, str] = {}
    # Files of HOME by a glob, and the name under which the last one written is kept.
    keep: dict[str, str] = {}
    after: tuple[After, ...] = ()
    # What asks it to end. With another signal than this it also has its grace when the runner is
    # gone: it has to clean up what nobody else could.
    stop_signal: int = signal.SIGTERM
    # At least this long from the signal to SIGKILL.
    least_grace_seconds: float = 0.0
    # Engines of containers: what has `Start.trial` in its name there is removed afterward.
    engines: tuple[str, ...] = ()


class Meter(Protocol):
    """What a running trial has cost so far."""

    def spent(self) -> float | None:
        """Dollars; None where nothing is known yet."""
        ...


@runtime_checkable
class Watch(Protocol):
    """What a meter may tell as well: that the provider refuses the agent, which asks again."""

    def refused(self) -> Refusal | None:
        """What the provider says; None once it has answered."""
        ...


@runtime_checkable
class ArgumentCheck(Protocol):
    """What an agent may have as well: its program can look at its arguments without running."""

    def checking(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command that does no more than that, and fails if they will not do."""
        ...

    def complaint(self, printed: str) -> str:
        """What is wrong with them, in what it prints."""
        ...


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """What `twoarm init` writes for an agent whose class has `habits`; without, these defaults.

    `guide` is the file that it reads in a workspace, `secret` the variable that holds its key. What
    nobody knows is left to the user.
    """

    guide: str = "AGENTS.md"
    model: str | None = None
    secret: str | None = None


class Agent(Protocol):
    """One agent program; made with the `[agent]` table of the suite."""

    # The value of `program` in a suite.
    name: ClassVar[str]
    # The oldest version that was tried; None where any will do.
    oldest: ClassVar[str | None]

    def __init__(self, program: Program) -> None: ...

    @property
    def executable(self) -> str:
        """The program, looked up on the PATH of the trial."""
        ...

    @property
    def format(self) -> str:
        """The format of `collect` that reads its run folders."""
        ...

    def version(self, printed: str) -> str | None:
        """The version in what `executable --version` prints; None if there is none in it."""
        ...

    def cost(self, prices: Mapping[str, Prices] | None) -> Cost:
        """How well the cost of a trial can be known, with these prices."""
        ...

    @property
    def nests(self) -> bool:
        """Whether it works inside another sandbox: one of its own may not start there."""
        ...

    @property
    def overshoot(self) -> float:
        """The share of `trial_usd` by which a trial may exceed it before it is stopped."""
        ...

    def launch(self, start: Start) -> Launch:
        """How the attempt is started."""
        ...

    def meter(self, start: Start, prices: Mapping[str, Prices] | None) -> Meter | None:
        """What tells the cost while it runs, and perhaps refusals; None if there is nothing."""
        ...


class Lines:
    """The complete lines that were added to a file since the last look, for meters."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0

    def new(self) -> Iterator[bytes]:
        """Every line that is complete by now, once."""
        try:
            with open(self._path, "rb", opener=_opened) as file:
                file.seek(self._at)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._at += len(line)
                    yield line
        except OSError:
            return


def _opened(path: str, flags: int) -> int:
    """A file as an agent left it: through a link nothing is read, and at a pipe nobody waits."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def agent_names() -> list[str]:
    """Every program that can be run, as a suite names it."""
    return sorted(name for name, entry in installed().items() if _can_be_run(entry))


def why_unknown(name: str) -> str | None:
    """What is said of an agent that is not there; None of one that is."""
    known = agent_names()
    if name in known:
        return None
    listing = ", ".join(known) or f"none: the entry points {GROUP} are not installed"
    return f"no agent {named(name)}{did_you_mean(name, known) or f'; the agents are {listing}'}"


def _can_be_run(entry: "EntryPoint") -> bool:
    try:
        return has_part(entry, "launch")
    # The code of another package may raise anything; whoever asks for it is told what.
    except (Exception, SystemExit):  # noqa: BLE001
        return True


_MEMBERS = (
    *("name", "oldest", "executable", "format", "nests", "overshoot"),
    *("version", "cost", "launch", "meter"),
)


def load_agent(program: Program) -> Agent:
    """The agent that a suite names; twoarm's own and any that is installed."""
    if unknown := why_unknown(program.program):
        raise UsageError(unknown)
    entry = installed()[program.program]
    try:
        launch = part_of(entry, "launch")
        assert launch is not None
        agent: Agent = launch(program)
        members = _MEMBERS if is_foreign(entry) else ()
        lacking = next((member for member in members if not hasattr(agent, member)), None)
    # As above.
    except (Exception, SystemExit) as error:
        why = described(error)
        raise UsageError(f"agent {named(program.program)} cannot be loaded: {why}") from error
    if lacking is not None:
        raise UsageError(f"agent {named(program.program)} is not an agent: it has no `{lacking}`")
    return agent
