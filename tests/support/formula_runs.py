"""Suites of runs by formula: without a draw, the same at every call."""

from typing import Any

from tests.conftest import run


def suite(
    tasks: int = 6, repeats: int = 5, baseline: dict[str, Any] | None = None, **candidate: Any
) -> list[dict[str, Any]]:
    return [
        run(f"t{task}", arm, repeat, **changed)
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm, changed in (("with_skelly", candidate), ("without_skelly", baseline or {}))
    ]


def spread(tasks: int, repeats: int, factor: float) -> list[dict[str, Any]]:
    """Runs that differ between tasks, and a little between repeats."""
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            duration_seconds=(100 + 20 * task) * times + (repeat * 3 + task) % 7,
            input_tokens=round((1000 + 200 * task) * times) + (repeat * 5 + task) % 11,
        )
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm, times in (("with_skelly", factor), ("without_skelly", 1.0))
    ]


def jitter(tasks: int, repeats: int, shifts: tuple[int, int]) -> list[dict[str, Any]]:
    """Arms that differ by noise alone; the one that is shifted has medians a hair higher."""
    return [
        run(
            f"t{task}",
            arm,
            repeat,
            duration_seconds=100 + 10 * task + (repeat * 7 + task * 5 + shift) % 13 - shift / 99,
            input_tokens=1000 + 50 * task + (repeat * 11 + task * 3 + 5 * shift) % 17 - shift,
        )
        for task in range(tasks)
        for repeat in range(1, repeats + 1)
        for arm, shift in zip(("with_skelly", "without_skelly"), shifts, strict=True)
    ]
