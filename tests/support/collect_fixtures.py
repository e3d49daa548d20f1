"""What the tests of collecting share: fixtures as folders of a test's own, and records as dicts."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twoarm.collect.gather import ArmPath, Collection, CollectOptions, gather
from twoarm.errors import BadRunsError
from twoarm.programs.format import Settings

FIXTURES = Path(__file__).parent.parent / "fixtures" / "collect"
HARBOR = FIXTURES / "harbor" / "ab-demo"
# What tells the arms of `HARBOR` apart.
BEHAVIOUR: dict[str, Any] = {
    "arm_key": "config.agent.kwargs.behaviour",
    "arm_map": {"solve": "with_x", "fail": "without_x"},
}
# What the columns of the fixture table are called.
TABLE_COLUMNS = {
    "task_id": "case",
    "repeat": "attempt",
    "success": "passed",
    "duration_seconds": "seconds",
    "total_cost_usd": "usd",
    "input_tokens": "prompt",
    "output_tokens": "completion",
    "cache_read_tokens": "cached",
}


def records(collection: Collection) -> list[dict[str, Any]]:
    return [json.loads(line) for line in collection.lines()]


def collection(
    name: str, *paths: Path, settings: dict[str, Any] | None = None, **options: Any
) -> Collection:
    """A collection of paths that all belong to arm `a`, unless there is an arm key."""
    arm = None if "arm_key" in options else "a"
    places = [ArmPath(arm=arm, path=str(path)) for path in paths]
    return gather(name, places, CollectOptions(settings=Settings(**(settings or {})), **options))


def collected(name: str, *paths: Path, **options: Any) -> list[dict[str, Any]]:
    with collection(name, *paths, **options) as found:
        return records(found)


def only(name: str, path: Path, **options: Any) -> dict[str, Any]:
    """The one record of a path."""
    (record,) = collected(name, path, **options)
    return record


def copied(case: str, to: Path) -> Path:
    """A fixture that a test may change."""
    folder = to / case.replace("/", "-")
    shutil.copytree(FIXTURES / case, folder, ignore=shutil.ignore_patterns("expected.json"))
    return folder


def cat(file: str) -> str:
    """A shell command that prints a file of a fixture."""
    return f"cat {shlex.quote(str(FIXTURES / file))}"


def changed(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON document in place."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def changed_lines(path: Path, change: Callable[[list[Any]], None]) -> None:
    """Change the objects of a JSONL file in place."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    change(found)
    path.write_text("".join(json.dumps(one) + "\n" for one in found))


def sidecar(folder: Path, **keys: Any) -> None:
    """Change keys of `run.json`, or write it."""
    path = folder / "run.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    default = {
        "task_id": "t",
        "repeat": None,
        "acceptance_exit_code": 0,
        "started_at_utc": "2026-11-15T06:00:00Z",
        "ended_at_utc": "2026-11-15T06:00:10Z",
    }
    path.write_text(json.dumps(default | known | keys))


def set_keys(path: Path, **keys: Any) -> None:
    """Set keys of a JSON document in place."""
    changed(path, lambda document: document.update(keys))


def refusal(name: str, *paths: Path, **options: Any) -> str:
    """What is said about paths that give no collection."""
    return str(_refused(name, *paths, **options))


def refused(name: str, folder: Path, **options: Any) -> str:
    """What is said about the one input of a folder that gives no run."""
    error = _refused(name, folder, **options)
    assert error.count == 1
    assert str(error).startswith(str(folder))
    return str(error)


def _refused(name: str, *paths: Path, **options: Any) -> BadRunsError:
    with pytest.raises(BadRunsError) as caught:
        collected(name, *paths, **options)
    return caught.value


def left_out(name: str, good: Path, bad: Path) -> str:
    """The one problem of a collection that goes on without the bad one of two runs."""
    with collection(name, good, bad, skip_bad=True) as found:
        assert found.runs == 1
        (problem,) = found.problems
        return str(problem)
