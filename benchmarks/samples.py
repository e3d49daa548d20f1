"""The calls in outputs that real programs left, counted by `collect` and a second time.

    python -m benchmarks.samples FOLDER

FOLDER has a folder for each program, and in it a folder or a file for each run. The second count is
that of tests/support/independent_calls.py, which shares nothing with twoarm. Ends with 1 if any two
differ.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support import independent_calls
from tests.support.independent_calls import Counted
from twoarm.collect.gather import ArmPath, CollectOptions, gather
from twoarm.files.zstd import zipfile

SIDECAR = {
    "task_id": "t",
    "repeat": 1,
    "acceptance_exit_code": 0,
    "started_at_utc": "2026-11-15T06:00:00Z",
    "ended_at_utc": "2026-11-15T06:00:59Z",
}
PROGRAMS: dict[str, tuple[str, Callable[[Path], Counted | None]]] = {
    "claude-code": ("claude-code", independent_calls.claude_code),
    "codex": ("codex", independent_calls.codex),
    "gemini-cli": ("gemini-cli", independent_calls.gemini_cli),
    "mini-swe-agent": ("mini-swe-agent", independent_calls.mini_swe_agent),
    "opencode": ("opencode", independent_calls.opencode),
    "opencode-1.1.53": ("opencode", independent_calls.opencode),
}
OUTPUTS = ("events.jsonl", "stream.jsonl", "result.json", "stdout.txt", "export.json")


def records(name: str, folder: Path, **options: Any) -> list[dict[str, Any]]:
    arm = None if "arm_key" in options else "a"
    with gather(name, [ArmPath(arm=arm, path=str(folder))], CollectOptions(**options)) as found:
        return [json.loads(line) for line in found.lines()]


def one_run(source: Path, place: Path) -> Path:
    """A run folder made from a sample; gives the output in it."""
    if source.is_dir():
        shutil.copytree(source, place)
    else:
        place.mkdir()
        lines = source.suffix == ".jsonl"
        name = source.name if ".traj." in source.name else ("result.json", "stream.jsonl")[lines]
        shutil.copy(source, place / name)
    (place / "run.json").write_text(json.dumps(SIDECAR))
    trajectories = list(place.glob("*.traj.json"))
    return next(path for path in (*trajectories, *(place / n for n in OUTPUTS)) if path.exists())


def agents(root: Path) -> Iterator[tuple[str, dict[str, Any], Counted | None]]:
    for program, (name, count) in PROGRAMS.items():
        for source in sorted((root / program).iterdir()):
            with tempfile.TemporaryDirectory() as scratch:
                output = one_run(source, Path(scratch) / "run")
                (record,) = records(name, Path(scratch))
                yield f"{program}/{source.name}", record, count(output)


def inspect_samples(root: Path) -> Iterator[tuple[str, dict[str, Any], Counted | None]]:
    for folder in sorted((root / "inspect_ai").iterdir()):
        expected: dict[str, Counted] = {}
        for path in folder.iterdir():
            if path.suffix == ".json":
                found = json.loads(path.read_text())["samples"]
            else:
                with zipfile.ZipFile(path) as archive:
                    names = [name for name in archive.namelist() if name.startswith("samples/")]
                    found = [json.loads(archive.read(name)) for name in names]
            expected |= {one["uuid"]: independent_calls.inspect(one) for one in found}
        options = {"renumber": True, "may_differ": ("eval.task_args.arm",)}
        for record in records("inspect", folder, **options):
            name = f"inspect/{folder.name}/{record['task_id']}.{record['repeat']}"
            yield name, record, expected[record["run_id"]]


def harbor(root: Path) -> Iterator[tuple[str, dict[str, Any], Counted | None]]:
    """Trials without a trajectory, which show no calls."""
    arms = {"solve": "with_x", "fail": "without_x"}
    options = {"arm_key": "config.agent.kwargs.behaviour", "arm_map": arms, "renumber": True}
    for job in sorted((root / "harbor").iterdir()):
        assert not list(job.rglob("trajectory.json"))
        for record in records("harbor", job, **options):
            yield f"harbor/{record['task_id']}.{record['arm']}.{record['repeat']}", record, None


def main() -> int:
    root = Path(sys.argv[1])
    runs = calls = differ = 0
    for name, record, expected in (*agents(root), *inspect_samples(root), *harbor(root)):
        found = record.get("tool_calls"), record.get("failed_tool_calls")
        wanted: tuple[Any, Any] = (None, None)
        if expected is not None:
            failed = None if expected.failed is None else dict(expected.failed)
            wanted = dict(expected.tools), failed
        runs += 1
        calls += sum((found[0] or {}).values())
        if found != wanted:
            differ += 1
            print(f"{name}: {found}, expected {wanted}")
    print(f"{runs} runs, {calls} calls, {differ} differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
