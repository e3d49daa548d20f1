"""`twoarm run` as a user types it, and what it leaves in its folder."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.conftest import Result, twoarm

USAGE = """
used() { printf '{"input_tokens": %d, "output_tokens": 10, "cost_usd": %s}' $1 $2 > $TWOARM_USAGE; }
infra() { printf '{"failure": {"failure": "infra", "reason": "%s"}}' "$1" > $TWOARM_USAGE; }
"""

# `twoarm` for `python -c`; the page takes two seconds to draw, and is tested elsewhere.
WITHOUT_PAGE = """
import sys
from twoarm.render.report import Report
Report.to_html = lambda self, links: ""
from twoarm.commands.cli import main
sys.exit(main(sys.argv[1:]))
"""

QUICK = ("--display", "quiet", "--no-evidence", "--format", "json")


def run(suite: Path, out: Path, *more: str) -> Result:
    repeats = () if "--repeats" in more else ("--repeats", "1")
    return twoarm("run", str(suite), "--out", str(out), *repeats, *QUICK, *more)


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "collected.jsonl").read_text().splitlines()]


def runs(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out / "runs")) for path in out.glob("runs/*/*"))


def trials_of(out: Path) -> list[dict[str, Any]]:
    """The trials of a schedule, in their order."""
    parts = json.loads((out / "schedule.json").read_text())["parts"]
    return [trial for part in parts for trial in part["trials"]]


def unaccounted(out: Path) -> list[str]:
    """Planned trials without a line in `collected.jsonl`, and lines that tell no reason."""
    planned = [(trial["task"], trial["arm"], trial["repeat"]) for trial in trials_of(out)]
    path = out / "collected.jsonl"
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {trial: [] for trial in planned}
    for record in records(out) if path.exists() else ():
        trial = (record["task_id"], record["arm"], record["repeat"])
        found.setdefault(trial, []).append(record)
    wrong = [f"{trial}: nobody planned it" for trial in found if trial not in planned]
    for trial, lines in found.items():
        counted = [line for line in lines if line["failure"] in (None, "agent")]
        if not lines:
            wrong.append(f"{trial}: not in {path.name}")
        if len(counted) > 1:
            wrong.append(f"{trial}: more than one run")
        if any(not line.get("failure_reason") for line in lines if line not in counted):
            wrong.append(f"{trial}: no reason")
    return wrong


def journal(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]


ALL = ["with/one.1", "with/two.1", "without/one.1", "without/two.1"]


def committed(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "some.txt").touch()
    git = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(path)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x", "--allow-empty"]):
        subprocess.run([*git, *words], check=True)
    return path
