"""Shards for tests that put them together or look at one; made once for each worker, and copied."""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.conftest import Result, twoarm
from tests.support.run_folders import records
from tests.support.suite_files import suite_of
from twoarm.run.ledger import RunFolder
from twoarm.run.receipt import file_digests

# What no page and no evidence takes.
QUICK = ("--display", "quiet")
# The same figures for the same trial, wherever it runs.
SAME = """
echo fixed > answer.txt
used='{"input_tokens": %d, "output_tokens": 7, "cost_usd": 0.01}'
printf "$used" $((100 + ${#TASK})) > $TWOARM_USAGE
"""
# What differs from machine to machine and from day to day.
_TIMED = ("duration_seconds", "started_at_utc", "ended_at_utc")
# The folders of suites and their shards, by what they were asked for.
_MADE: dict[str, Path] = {}


def sharded(folder: Path, shards: int, *more: str, **changed: Any) -> list[Path]:
    """A suite whose shards were run one by one, the last first, each as on a machine of its own."""
    asked = json.dumps([shards, more, changed], sort_keys=True)
    if asked not in _MADE:
        made = folder.parent / f"shards-{len(_MADE)}"
        _make(made, shards, *more, **changed)
        _MADE[asked] = made
    shutil.copytree(_MADE[asked], folder, dirs_exist_ok=True)
    outs = [folder / f"shard{number}" for number in range(1, shards + 1)]
    for out in outs:
        changed_place(out, suite=str(folder / "suite" / "suite.json"))
    return outs


def _make(folder: Path, shards: int, *more: str, **changed: Any) -> None:
    suite = suite_of(folder / "suite", SAME, **{"agent": {"env": {"TASK": "{task_id}"}}, **changed})
    for number in range(shards, 0, -1):
        result = shard_run(suite, folder / f"shard{number}", f"{number}/{shards}", *more)
        assert (result.code, result.out) == (0, ""), result.err


def shard_run(suite: Path, out: Path, shard: str, *more: str) -> Result:
    repeats = () if "--repeats" in more else ("--repeats", "3")
    return twoarm("run", str(suite), "--shard", shard, "--out", str(out), *repeats, *QUICK, *more)


def tasks(count: int, **changed: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"t{n}", "prompt": "p", "acceptance_command": "test -f answer.txt"} | changed
        for n in range(count)
    ]


def merged(out: Path, shards: list[Path], *more: str) -> Result:
    return twoarm("merge", *map(str, shards), "--out", str(out), "--run-pages", "none",
                  "--no-evidence", *more)  # fmt: skip


def timeless(out: Path) -> list[dict[str, Any]]:
    return [{key: each[key] for key in each if key not in _TIMED} for each in records(out)]


# What somebody has done to a shard.


def changed_place(out: Path, **changed: Any) -> None:
    path = out / "place.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def changed_receipt(out: Path, **changed: Any) -> None:
    path = out / "receipt.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def vouched(out: Path, **changed: Any) -> None:
    """A receipt that says otherwise, and has the digests of what is there now."""
    folder = RunFolder(str(out))
    digests = dict(file_digests(folder, list(folder.runs()), list(folder.attempts())))
    changed_receipt(out, files_sha256=digests, **changed)
