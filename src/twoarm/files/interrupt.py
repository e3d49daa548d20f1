"""Signals that end a program: they unwind like an error, and can be held off for a moment."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType, TracebackType

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


@contextmanager
def termination_unwinds() -> Iterator[None]:
    """Turn the signals that would end the program on the spot into `Terminated`."""
    if current_thread() is not main_thread():
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


class Hold:
    """Inside it, a signal waits until the end, or until `released`."""

    def __init__(self) -> None:
        self._handlers: dict[int, _Handler] = {}
        self._came: list[int] = []

    def __enter__(self) -> "Hold":
        if current_thread() is main_thread():
            for number in (signal.SIGINT, *_ENDING):
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._let_through()

    def _let_through(self) -> None:
        while self._came:
            number = self._came.pop(0)
            self._handlers[number](number, None)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Let signals take effect at once, around something that may wait a long time."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        try:
            self._let_through()
            yield
        finally:
            for number in self._handlers:
                signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)
