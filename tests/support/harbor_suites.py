"""Suites of Harbor's tasks, and a program that stands in for Harbor where speed is enough."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.suite_files import merged

WORKED = "echo done > /app/answer.txt"
VERSION = "0.24.0"

_VERIFIER = """#!/bin/sh
if [ -e /app/answer.txt ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
# What a stand-in has for a test: `begin` is what Harbor writes first, `reward R` a whole result,
# `raised NAME` one with an exception.
_STAND_IN = """#!/bin/sh
if [ "$1" = --version ]; then echo VERSION; exit; fi
asked="$*"
case "$asked" in
*" --unknown"*)
  printf '╭─ Error ───╮\n│ No such   │\n│ option: --unknown │\n╰───────────╯\n' >&2; exit 2 ;;
*" --help") exit ;;
esac
while [ $# -gt 0 ]; do
  case "$1" in
    --path) path=$2 ;; --trial-name) name=$2 ;; --trials-dir) trials=$2 ;; --agent) agent=$2 ;;
  esac
  shift
done
at=$trials/$name
begin() { mkdir -p "$at/agent"; echo '{"trial_name": "'$name'"}' > "$at/config.json"; }
at_second() { echo "\\"2026-01-01T00:00:0$1Z\\""; }
phase() { echo "{\\"started_at\\": $(at_second $1), \\"finished_at\\": $(at_second $2)}"; }
said() { cat > "$at/result.json" <<END
{"id": "of-harbor", "task_name": "org/other", "trial_name": "$name", "config": {"agent": {}},
 "agent_info": {"name": "$agent", "version": "1"}, "started_at": "2026-01-01T00:00:00Z",
 "finished_at": "2026-01-01T00:00:09Z", "agent_execution": $1, "verifier": $2,
 "agent_result": {"n_input_tokens": 100, "n_cache_tokens": 20, "n_output_tokens": 7,
 "cost_usd": 0.5},
 "verifier_result": $3, "exception_info": $4}
END
}
reward() { said "$(phase 2 6)" "$(phase 6 8)" '{"rewards": {"reward": '$1'}}' null; }
raised() { said "${2:-$(phase 2 6)}" "${3:-null}" null '{"exception_type": "'$1'"}'; }
"""
BY_AGENT = 'begin; if [ "$agent" = oracle ]; then reward 1.0; else reward 0.25; fi'


def task_folder(root: Path, name: str, solve: str = WORKED, image: str = "none") -> Path:
    """One task of Harbor, which is solved by a file in its container."""
    task = root / name
    for part in ("environment", "tests", "solution"):
        (task / part).mkdir(parents=True)
    config = f'schema_version = "1.4"\n[environment]\ndocker_image = "{image}"\n'
    (task / "task.toml").write_text(config)
    (task / "instruction.md").write_text(f"Do {name}: write /app/answer.txt.\n")
    scripts = {"tests/test.sh": _VERIFIER, "solution/solve.sh": f"#!/bin/sh\n{solve}\n"}
    for path, text in scripts.items():
        (task / path).write_text(text)
        (task / path).chmod(0o755)
    return task


def harbor_suite(folder: Path, **changed: Any) -> Path:
    """A suite of the tasks that are in `tasks` beside it: the oracle against nop."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {
        "suite_id": "harbor",
        "baseline": "nop",
        "agent": {"program": "harbor"},
        "limits": {"retries": 0, "retry_seconds": 0, "timeout_seconds": 20, "grace_seconds": 1},
        "arms": {name: {"args": ["--agent", name]} for name in ("oracle", "nop")},
        "tasks": [{"harbor": "tasks"}],
    }
    path = folder / "suite.json"
    path.write_text(json.dumps(merged(found, changed)))
    return path


def stand_in(folder: Path, script: str = BY_AGENT) -> None:
    """A `harbor` that does what a script says, and engines that do not answer."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = {"harbor": _STAND_IN.replace("VERSION", VERSION) + script}
    programs |= dict.fromkeys(("docker", "podman"), "#!/bin/sh\nexit 1")
    for name, text in programs.items():
        (folder / name).write_text(f"{text}\n")
        (folder / name).chmod(0o755)


def installed() -> Path:
    """The real program; without it CI fails, and elsewhere the test is skipped."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("TWOARM_HARBOR") or cache / "twoarm-harbor")
    if not (folder / "installed").exists():
        lacking = f"no Harbor in {folder}; to test with the real one, `make harbor` (380 MB)"
        if os.environ.get("CI"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    return folder / "bin" / "harbor"
