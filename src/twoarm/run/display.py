"""What is shown while trials run: counts, money and time, and no effect."""

import io
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TextIO, cast

from twoarm.text.escape import counted, named, shortened

if TYPE_CHECKING:
    from rich.console import Group

    from twoarm.run.attempted import Attempted
    from twoarm.run.loop_view import LoopView
    from twoarm.run.schedule import Frozen

_LINE_SECONDS = 10.0
# Shows the cursor.
_CURSOR = b"\x1b[?25h"


class Display:
    """Is told the state all the time and shows what fits; this one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return

    def show(self, view: "LoopView") -> None:
        """The state as it is now."""


def progress_of(view: "LoopView") -> str:
    """Where a run stands, in one line."""
    parts = [f"{view.done:,} of {counted(view.trials, 'trial')} done"]
    if view.running:
        parts.append(f"{len(view.running)} running")
    if view.infra:
        parts.append(f"{view.infra:,} infra")
    ended = bool(view.done or view.infra)
    if money := money_of(view.spent, view.unknown_costs, view.budget, ended=ended):
        held = view.budget is not None
        parts.append(f"{money}, ${view.reserved:.2f} reserved" if held else money)
    left = view.trials - view.done - view.infra
    if view.each_seconds is not None and left > 0 and view.stop_request == "go":
        seconds = view.each_seconds * left / max(1, len(view.running))
        parts.append(f"about {duration(seconds)} left")
    if view.stop_request == "kill":
        parts.append("stopping now")
    elif view.stop_request != "go":
        again = "; a second Ctrl-C kills them" if view.stop_request == "ctrl_c" else ""
        parts.append(f"stopping when the running trials have finished{again}")
    elif view.paused_until > time.monotonic():
        wait = duration(view.paused_until - time.monotonic())
        parts.append(f"paused for {wait}: {shortened(view.reason, 60)}")
    return ", ".join(parts)


def money_of(spent: float, unknown: int, budget: float | None, *, ended: bool) -> str:
    """What is known of the cost; nothing before an attempt has ended, unless there is a budget."""
    told = f"{'at least ' if unknown else ''}${spent:.2f}"
    if budget is not None:
        return f"{told} of ${budget:.2f} spent"
    if unknown and not spent:
        return "cost not known"
    return f"{told} spent" if ended or spent else ""


def money_so_far(
    runs: Sequence["Attempted"], attempts: Sequence["Attempted"], budget: float | None
) -> str:
    """What is known of the cost of everything that has ended."""
    ended = [*runs, *(attempt for attempt in attempts if attempt.state != "running")]
    return money_of(
        sum(attempt.charged_usd or 0.0 for attempt in ended),
        sum(attempt.charged_usd is None for attempt in ended),
        budget,
        ended=bool(ended),
    )


def counts_by_arm(frozen: "Frozen", runs: Sequence["Attempted"]) -> str:
    """How many trials are done, in all and in each arm, and not how they ended."""
    done, planned = (Counter(trial.arm for trial in trials) for trials in (runs, frozen.trials))
    arms = ", ".join(
        f"{named(arm)} {done[arm]:,} of {planned[arm]:,}"
        for arm in (*frozen.candidates, frozen.baseline)
    )
    return f"{done.total():,} of {counted(planned.total(), 'trial')} done ({arms})"


def duration(seconds: float) -> str:
    """A time as people say it."""
    whole = max(1, round(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {whole % 60} s" if whole % 60 else f"{minutes} min"
    return f"{whole} s"


class LogLines(Display):
    """A line now and then, for logs."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._next = 0.0
        self._told: tuple[object, ...] = ()

    def show(self, view: "LoopView") -> None:
        """A line at the start and the end, for whatever is not done, and every few seconds."""
        now = time.monotonic()
        # What somebody who waits wants to know at once, and then what can wait.
        state = (view.infra, view.paused_until, view.stop_request, view.done)
        if state == self._told:
            return
        last = view.done + view.infra == view.trials
        if now >= self._next or last or state[:-1] != self._told[:-1]:
            self._told = state
            self._next = now + _LINE_SECONDS
            self._say(f"twoarm: {progress_of(view)}")


class Unawaited(io.TextIOBase):
    """A terminal that nobody waits for: while it takes nothing (Ctrl-S, a connection that hangs),
    what is drawn is left out."""

    def __init__(self, terminal: TextIO) -> None:
        # By a description of its own: whoever else writes there has one that waits.
        path, flags = f"/dev/fd/{terminal.fileno()}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        self._descriptor = os.open(path, flags)
        self._left = b""

    def write(self, text: str) -> int:
        """All of it or nothing, as far as it is begun; what is begun comes to its end first."""
        self._left = self._left or text.encode("utf-8", "replace")
        # It may also be gone.
        with suppress(OSError):
            while self._left:
                self._left = self._left[os.write(self._descriptor, self._left) :]
        return len(text)

    def isatty(self) -> bool:
        """It is a terminal."""
        return True

    def fileno(self) -> int:
        """Where its size is known."""
        return self._descriptor

    def close(self) -> None:
        """Nothing more is drawn; if something was left out, the cursor may have to come back."""
        if not self.closed:
            if self._left:
                self._left += _CURSOR
                self.write("")
            os.close(self._descriptor)
        super().close()


class Live(Display):
    """Slots and counts, drawn in place."""

    def __init__(self, terminal: TextIO | Unawaited) -> None:
        from rich.console import Console
        from rich.live import Live as Drawn

        self._terminal = terminal
        console = Console(file=cast(TextIO, terminal), force_terminal=True)
        self._drawn = Drawn(console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._drawn.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._drawn.stop()
        if isinstance(self._terminal, Unawaited):
            self._terminal.close()

    def show(self, view: "LoopView") -> None:
        """The state as it is now."""
        self._drawn.update(_drawn(view))


def _drawn(view: "LoopView") -> "Group":
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    slots = Table.grid(padding=(0, 2))
    now = time.monotonic()
    for number, (attempted, since) in sorted(view.running.items()):
        again = f"attempt {attempted.attempt}" if attempted.attempt > 1 else ""
        slots.add_row(
            f"slot {number + 1}",
            Text(shortened(attempted.task, 40)),
            f"repeat {attempted.repeat}",
            Text(shortened(attempted.arm, 30)),
            duration(now - since),
            again,
        )
    # In a table, since a bar alone does not end its line.
    bar = Table.grid()
    bar.add_row(ProgressBar(total=max(1, view.trials), completed=view.done, width=40))
    return Group(bar, Text(progress_of(view)), slots)
