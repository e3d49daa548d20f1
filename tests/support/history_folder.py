"""A folder of results, and the runs of releases."""

import math
import random
from pathlib import Path
from typing import Any

from tests.conftest import Result, lines, run, twoarm

TASKS = [f"task-{number}" for number in range(8)]


def result(
    number: int, *, step: float = 0.0, tasks: list[str] | None = None, **changed: Any
) -> list[dict[str, Any]]:
    """The runs of one release: a candidate that is 15% faster, and slower after a step."""
    draw = random.Random(number)
    made = []
    for at, task in enumerate(tasks or TASKS):
        for repeat in range(1, 6):
            for arm in ("with_skelly", "without_skelly"):
                log = 4 + 0.3 * at + draw.gauss(0, 0.1) + (arm == "with_skelly") * (step - 0.16)
                made.append(
                    run(task, arm, repeat)
                    | {
                        "success": draw.random() < 0.7,
                        "duration_seconds": round(math.exp(log), 3),
                        "agent": "opencode",
                        "model": "m-1",
                        "started_at_utc": f"2026-10-{number + 1:02d}T0{repeat}:00:00Z",
                    }
                    | changed
                )
    return made


class Folder:
    """A folder of results."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "history"
        self._runs = tmp_path

    def add(self, number: int, *words: str, **changed: Any) -> Result:
        path = self._runs / f"runs{number}.jsonl"
        path.write_bytes(lines(result(number, **changed)))
        return twoarm("log", "add", str(path), "--to", str(self.path), *words)

    def fill(self, count: int, step_at: int | None = None) -> None:
        for number in range(count):
            step = 0.5 if step_at is not None and number >= step_at else 0.0
            commit = f"{number:02d}" * 20
            assert self.add(number, "--commit", commit, step=step).code == 0

    def show(self, *words: str) -> Result:
        return twoarm("log", "show", str(self.path), *words)

    @property
    def files(self) -> list[Path]:
        return sorted(self.path.iterdir()) if self.path.exists() else []
