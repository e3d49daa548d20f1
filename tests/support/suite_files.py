"""What the tests of `twoarm run` share: suites in a folder, and fake agents that are quick."""

import json
import marshal
import os
import secrets
import time
from collections.abc import Callable, Mapping
from glob import glob
from pathlib import Path
from typing import Any

import msgspec

from twoarm.files.safe import OpenFolder
from twoarm.run.executors.local import Local
from twoarm.run.jobs import Job, JobOutcome
from twoarm.run.ledger import read_outcome
from twoarm.run.supervisor.manifest import manifest_of
from twoarm.run.tree import commit_all

__all__ = [
    "SOLVE",
    "Local",
    "Ran",
    "attempt",
    "job_of",
    "present",
    "processes_with",
    "suite_of",
    "wait_for",
]

# A fake agent: a shell script is up in a millisecond, and does what a test is about.
SOLVE = "echo fixed > answer.txt"


def suite_of(folder: Path, script: str = SOLVE, **changed: Any) -> Path:
    """A suite of two tasks for a fake agent, as JSON; change what the test is about."""
    folder.mkdir(parents=True, exist_ok=True)
    app = folder / "app"
    if not app.exists():
        app.mkdir()
        (app / "README.md").write_text("an app\n")
    (folder / "agent.sh").write_text(script)
    found: dict[str, Any] = {
        "suite_id": "fake",
        "baseline": "without",
        "agent": {
            "program": "command",
            "argv": ["sh", "{suite}/agent.sh"],
        },
        "workspace": {"copy": "app"},
        "limits": {"retry_seconds": 0, "timeout_seconds": 20, "grace_seconds": 1},
        "arms": {"with": {"env": {"HINT": "1"}}, "without": {}},
        "tasks": [
            {"id": name, "prompt": f"Do {name}.", "acceptance_command": "test -f answer.txt"}
            for name in ("one", "two")
        ],
    }
    path = folder / "suite.json"
    path.write_text(json.dumps(merged(found, changed)))
    return path


def merged(base: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are put together; everything else is replaced, and None takes a key away."""
    made = dict(base)
    for key, value in changed.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(made.get(key), Mapping):
            made[key] = merged(made[key], value)
        else:
            made[key] = value
    return made


def job_of(folder: Path, script: str, **changed: Any) -> Job:
    """A job for a shell script in an almost empty workspace; change what the test is about."""
    tree = folder / "tree"
    if not tree.exists():
        tree.mkdir(parents=True)
        (tree / "README.md").write_text("an app\n")
        (tree / "tests").mkdir()
        (tree / "tests" / "check.sh").write_text("test -f answer.txt\n")
        committed(tree)
    token = secrets.token_hex(6)
    kept = folder / token
    kept.mkdir()
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return msgspec.structs.replace(
        Job(
            scratch=str(folder / f"scratch-{token}"),
            folder=str(kept),
            tree=str(tree),
            manifest=f"{tree}.manifest",
            marker=token,
            prompt="Do it.",
            path=os.environ["PATH"],
            env=dict.fromkeys(("setup", "agent", "acceptance"), env),
            secrets={},
            setup=(),
            setup_seconds=20,
            home_texts={},
            home_files={},
            argv=("sh", "-c", script),
            output="stdout.txt",
            output_bytes=2**20,
            patch_bytes=2**20,
            timeout_seconds=20,
            grace_seconds=1,
            after=(),
            keep={},
            restore=(),
            acceptance={"": "sh tests/check.sh"},
            acceptance_seconds=20,
            keep_workspace="none",
            result=None,
        ),
        **changed,
    )


def committed(tree: Path) -> None:
    """A tree as the runner makes it, and what is in it where `job_of` says that it is told."""
    with OpenFolder(str(tree)) as at:
        commit_all(at)
        Path(f"{tree}.manifest").write_bytes(marshal.dumps(manifest_of(at)))


class Ran:
    """How an attempt ended, and what it left."""

    def __init__(self, job: Job, outcome: JobOutcome) -> None:
        self.outcome = outcome
        self.folder = Path(job.folder)
        self.facts: dict[str, Any] = {}
        if outcome.complete:
            with OpenFolder(job.folder) as at:
                self.facts = read_outcome(at)

    def kept(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")


def attempt(job: Job, act: Callable[[Local], None] | None = None) -> Ran:
    """One attempt from start to end, and nothing left of it."""
    executor = Local(1)
    try:
        executor.submit("it", job, None, None)
        if act is not None:
            act(executor)
        (outcome,) = executor.completed(60)
    finally:
        executor.close()
    assert not os.path.exists(job.scratch)
    assert processes_with(job.marker) == []
    return Ran(job, outcome)


def processes_with(text: str) -> list[str]:
    """The command lines of processes that have a text in their arguments or environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            if text.encode() in words or text.encode() in (folder / "environ").read_bytes():
                found.append(f"{folder.name}: {words.decode(errors='replace')}")
        except OSError:
            continue
    return found


def present(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder at this moment; `Path.glob` fails if one is removed while it looks."""
    names = glob(pattern, root_dir=folder, recursive=True, include_hidden=True)
    return [folder / name for name in names]


def wait_for(what: Callable[[], object], seconds: float = 10.0) -> None:
    """Until something is so; it is a failure if it never is."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
