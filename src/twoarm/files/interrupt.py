"""Signals that end a program: they unwind like an error, and can be held off for a moment."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handler = Callable[[int, FrameType | None], object]

# Signals that end a program at once, because Python raises no exception for them.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(BaseException):
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _terminate(number: int, frame: FrameType | None) -> None:
    # A second one must not cut the cleanup short.
    for ending in _ENDING:
        signal.signal(ending, signal.SIG_IGN)
    raise Terminated(number)


def _in_main_thread() -> bool:
    """Whether signals may be set here; whoever has other threads has imported what makes them."""
    threading = sys.modules.get("threading")
    return threading is None or threading.current_thread() is threading.main_thread()


@contextmanager
def termination_unwinds() -> Iterator[None]:
    """Turn the signals that would end the program on the spot into `Terminated`."""
    if not _in_main_thread():
        yield
        return
    changed = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in changed:
            signal.signal(number, _terminate)
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def held_off() -> Iterator[None]:
    """Let a signal that comes inside take effect only at the end."""
    handlers: dict[int, _Handler] = {}
    came: list[int] = []
    if _in_main_thread():
        for number in (signal.SIGINT, *_ENDING):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            handlers[number](number, None)
