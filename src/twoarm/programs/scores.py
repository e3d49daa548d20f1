"""Numbers with which programs grade a run, as the score and the checks of a record."""

from collections.abc import Mapping
from typing import Any

from twoarm.runs.record import MOST_CHECKS


def as_score(value: float | None) -> float | None:
    """A grade from 0 to 1; on any other scale it is none."""
    return float(value) if value is not None and 0 <= value <= 1 else None


def as_checks(grades: Mapping[str, Any]) -> dict[str, bool | None] | None:
    """Grades by name: 1 has passed, 0 has failed, and of any other nobody knows.

    None where no grade is 1 or 0, and where there are more than a record may name.
    """
    checks = {name: _passed(grade) for name, grade in grades.items() if name}
    known = any(passed is not None for passed in checks.values())
    return checks if known and len(checks) <= MOST_CHECKS else None


def _passed(grade: Any) -> bool | None:
    return bool(grade) if isinstance(grade, int | float) and grade in (0, 1) else None
