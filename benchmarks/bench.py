"""Measure twoarm beside other ways to the same numbers, as ratios, taking turns in one run.

    make bench              all sizes: about 15 minutes, 8 GB of disk, Debian's jq
    make bench SIZES=20     only some

Every program runs as a process of its own, in an environment that has what a user installs and no
more. Times are processor time, which a busy machine changes little; the smallest of the rounds
counts, because noise only ever adds. Ratios are what matters: the programs take turns, so a slow
spell hits all of them.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
OUT = HERE / "out"
PYTHON = OUT / "venv" / "bin" / "python"
TWOARM = OUT / "venv" / "bin" / "twoarm"

SCORE, EVIDENCE = "twoarm --no-evidence", "twoarm, with evidence"

# Runs, tasks, and rounds of each program; some are left out where they take too long.
SIZES: dict[str, tuple[int, int, dict[str, int]]] = {
    "20": (20, 2, {SCORE: 25, EVIDENCE: 25, "jq": 25, "plain Python": 25, "raw parsing": 25}),
    "1M": (1_000_000, 500, {SCORE: 3, EVIDENCE: 3, "jq": 2, "plain Python": 2, "raw parsing": 3}),
    "10M": (10_000_000, 500, {SCORE: 2, EVIDENCE: 1}),
}


def main() -> int:
    wanted = (os.environ.get("SIZES") or ",".join(SIZES)).split(",")
    if shutil.which("jq") is None:
        sys.exit("jq is missing; install Debian's package: apt-get install jq")
    prepare()
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in wanted:
        runs, tasks, rounds = SIZES[name]
        path = generated(name, runs, tasks)
        results[name] = measure(path, rounds)
        show(name, path, results[name])
    if {"1M", "10M"} <= results.keys():
        small, large = (results[size][SCORE]["seconds"] for size in ("1M", "10M"))
        print(f"\n10M takes {large / small:.1f} times as long as 1M")
    (OUT / "results.json").write_text(json.dumps(results, indent=2))
    return 0


def prepare() -> None:
    """An environment with the package and its dependencies, and orjson to compare with."""
    OUT.mkdir(exist_ok=True)
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", OUT / "venv"], check=True)
    install: list[str | Path] = [
        PYTHON,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-q",
        "install",
    ]
    constraints: list[str | Path] = ["-c", ROOT / "constraints.txt"]
    subprocess.run([*install, *constraints, "--force-reinstall", "--no-deps", ROOT], check=True)
    subprocess.run([*install, *constraints, ROOT, "orjson"], check=True)


def generated(name: str, runs: int, tasks: int) -> Path:
    path = OUT / f"runs-{name}.jsonl"
    if not path.exists():
        script: list[str | Path] = [PYTHON, HERE / "generate.py", str(runs), str(tasks)]
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            subprocess.run(script, stdout=file, check=True)
        partial.rename(path)
    return path


def measure(path: Path, rounds: dict[str, int]) -> dict[str, dict[str, float]]:
    commands: dict[str, list[str | Path]] = {
        SCORE: [TWOARM, "score", path, "--format", "json", "--no-evidence"],
        EVIDENCE: [TWOARM, "score", path, "--format", "json"],
        "jq": ["jq", "-c", "-s", "-f", HERE / "score.jq", path],
        "plain Python": [PYTHON, HERE / "plain.py", path],
        "raw parsing": [PYTHON, HERE / "parse.py", path],
    }
    best: dict[str, dict[str, float]] = {}
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
    for turn in range(max(rounds.values())):
        for name, count in rounds.items():
            if turn < count:
                seconds, megabytes = run(commands[name])
                known = best.setdefault(name, {"seconds": seconds, "megabytes": megabytes})
                known["seconds"] = min(known["seconds"], seconds)
                known["megabytes"] = max(known["megabytes"], megabytes)
    return best


def run(command: list[str | Path]) -> tuple[float, float]:
    """Processor seconds and peak memory of one process."""
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = usage.ru_utime + usage.ru_stime
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"failed: {command}")
    return seconds, usage.ru_maxrss / 1024


def show(name: str, path: Path, best: dict[str, dict[str, float]]) -> None:
    print(f"\n{name} runs, {path.stat().st_size / 1e6:,.3g} MB\n")
    print("| program | seconds | as a multiple of the first | peak memory, MB |")
    print("| --- | ---: | ---: | ---: |")
    ours = best[SCORE]["seconds"]
    for program, figures in best.items():
        print(
            f"| {program} | {figures['seconds']:.3f} | {figures['seconds'] / ours:.2f} "
            f"| {figures['megabytes']:,.0f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
