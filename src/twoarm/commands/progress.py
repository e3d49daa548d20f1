"""A progress bar for a terminal: it appears only when there is something to wait for."""

from contextlib import AbstractContextManager, nullcontext
from threading import Lock, Timer
from time import monotonic
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from twoarm.runs.stream import Progress

# Nobody who waits less than this sees a bar, and rich is not imported for them.
PATIENCE_SECONDS = 0.5
# rich draws ten times a second; updating it more often would cost more than the work itself.
_UPDATE_SECONDS = 0.1


def progress_bar(stream: TextIO) -> "AbstractContextManager[Progress | None]":
    """A bar if the stream is a terminal, and nothing if it is piped."""
    return Bar(stream) if stream.isatty() else nullcontext()


class Bar:
    """Takes the stage and how far along it is; draws nothing until patience runs out."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = Lock()
        self._timer = Timer(PATIENCE_SECONDS, self._appear)
        self._timer.daemon = True
        self._state: tuple[str, int, int | None] = ("starting", 0, None)
        self._progress: RichProgress | None = None
        self._line: TaskID | None = None
        self._updated = 0.0

    def __enter__(self) -> "Bar":
        self._timer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()
        # A bar that is about to appear does so first, or its thread would draw over the report.
        self._timer.join()
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Say how far along the stage is; no total means that nobody knows."""
        with self._lock:
            changed = stage != self._state[0]
            self._state = stage, done, total
            if self._progress is None or self._line is None:
                return
            now = monotonic()
            if changed:
                self._progress.remove_task(self._line)
                self._line = self._progress.add_task(stage, total=total)
            elif now - self._updated < _UPDATE_SECONDS:
                return
            self._updated = now
            self._progress.update(self._line, completed=done, total=total)

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(file=self._stream),
            transient=True,
        )
        with self._lock:
            stage, done, total = self._state
            self._line = progress.add_task(stage, completed=done, total=total)
            self._progress = progress
            progress.start()
