"""A progress bar for a terminal: it appears only when there is something to wait for."""

from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Whoever waits less than this sees no bar, and rich is not imported for them.
PATIENCE_SECONDS = 0.5


class Bar:
    """Takes the stage and how far it is; draws nothing before the patience is over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = Lock()
        self._timer = Timer(PATIENCE_SECONDS, self._appear)
        self._timer.daemon = True
        self._state: tuple[str, int, int | None] = ("starting", 0, None)
        self._progress: Progress | None = None
        self._line: TaskID | None = None

    def __enter__(self) -> "Bar":
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        # A bar that is about to appear does so first, or its thread would draw over the report.
        self._timer.join()
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Say how far the stage is; no total means that nobody knows."""
        with self._lock:
            changed = stage != self._state[0]
            self._state = stage, done, total
            if self._progress is not None and self._line is not None:
                if changed:
                    self._progress.remove_task(self._line)
                    self._line = self._progress.add_task(stage, total=total)
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
