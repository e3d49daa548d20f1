"""Measure twoarm beside other ways to the same numbers, as ratios, taking turns in one run.

    make bench                      all sizes: about 15 minutes, 8 GB of disk, Debian's jq
    make bench SIZES=20,200k-500    only some

Every program runs as a process of its own, as a user starts it, in an environment that has what a
user installs and no more. Times are processor time, which a busy machine changes little; the
smallest of the rounds counts, because noise only ever adds. Ratios are what matters: the programs
take turns, so a slow spell hits all of them. Each bar that was measured is printed as ok or over;
one that is over makes the exit code 1.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent
OUT = HERE / "out"
PYTHON = OUT / "venv" / "bin" / "python"
TWOARM = OUT / "venv" / "bin" / "twoarm"

SCORE, EVIDENCE = "twoarm --no-evidence", "twoarm, with evidence"
VERSION, NOTHING = "twoarm --version", "starting Python"
IMPORTS, SCIPY = "importing msgspec, numpy", "importing msgspec, numpy, scipy.special"
IMPORTS_ONE, SCIPY_ONE = f"{IMPORTS}, one thread", f"{SCIPY}, one thread"
JQ, PLAIN, RAW = "jq", "plain Python", "raw parsing"

_IMPORTING = (IMPORTS, IMPORTS_ONE, SCIPY, SCIPY_ONE)
_FEW = dict.fromkeys((SCORE, EVIDENCE, VERSION, NOTHING, *_IMPORTING, JQ, PLAIN, RAW), 25)
# Runs, tasks, and rounds of each program; some are left out where they take too long.
SIZES: dict[str, tuple[int, int, dict[str, int]]] = {
    "20": (20, 2, _FEW),
    "200k-60": (200_000, 60, {SCORE: 3, EVIDENCE: 3}),
    "200k-500": (200_000, 500, {SCORE: 3, EVIDENCE: 3}),
    "200k-10000": (200_000, 10_000, {SCORE: 3, EVIDENCE: 3}),
    "1M": (1_000_000, 500, {SCORE: 3, EVIDENCE: 3, JQ: 1, PLAIN: 2, RAW: 3}),
    "10M": (10_000_000, 500, {SCORE: 2, EVIDENCE: 1}),
}
MOST_MEGABYTES = 800
# As a user starts it: how many threads numpy has is up to each program.
ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
# As the command sets it.
ONE_THREAD = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'"


class Bar(NamedTuple):
    """How much longer one program may take, or has to take, than another."""

    longer: tuple[str, str]
    shorter: tuple[str, str]
    most: float = math.inf
    least: float = 0.0


BARS = (
    Bar(("20", VERSION), ("20", NOTHING), most=4),
    Bar(("20", SCORE), ("20", IMPORTS), most=1.5),
    Bar(("20", EVIDENCE), ("20", SCIPY), most=1.5),
    Bar(("200k-10000", SCORE), ("200k-500", SCORE), most=1.5),
    Bar(("200k-60", EVIDENCE), ("200k-60", SCORE), most=3),
    Bar(("200k-500", EVIDENCE), ("200k-500", SCORE), most=3),
    Bar(("200k-10000", EVIDENCE), ("200k-10000", SCORE), most=3),
    Bar(("1M", JQ), ("1M", SCORE), least=25),
    Bar(("1M", PLAIN), ("1M", SCORE), least=5),
    Bar(("1M", SCORE), ("1M", RAW), most=4),
)

# By size and program.
Results = dict[str, dict[str, dict[str, float]]]


def main() -> int:
    wanted = (os.environ.get("SIZES") or ",".join(SIZES)).split(",")
    if shutil.which("jq") is None:
        sys.exit("jq is missing; install Debian's package: apt-get install jq")
    prepare()
    results: Results = {}
    for name in wanted:
        runs, tasks, rounds = SIZES[name]
        path = generated(name, runs, tasks)
        results[name] = measure(path, rounds)
        show(name, path, results[name])
    (OUT / "results.json").write_text(json.dumps(results, indent=2))
    return 0 if held(results) else 1


def held(results: Results) -> bool:
    """Print every bar that the results say something about, and whether it holds."""
    over = 0
    print()
    for bar in BARS:
        if {bar.longer[0], bar.shorter[0]} <= results.keys():
            above, below = (
                results[size][program]["seconds"] for size, program in (bar.longer, bar.shorter)
            )
            ratio = above / below
            fine = bar.least <= ratio <= bar.most
            over += not fine
            limit = f"at most {bar.most:g}" if bar.most < math.inf else f"at least {bar.least:g}"
            names = f"{': '.join(bar.longer)} / {': '.join(bar.shorter)}"
            print(f"{'ok' if fine else 'OVER':4}  {names}: {ratio:.2f}, {limit}")
    for program, figures in results.get("1M", {}).items():
        if program in (SCORE, EVIDENCE):
            fine = figures["megabytes"] < MOST_MEGABYTES
            over += not fine
            said = f"1M: {program}: {figures['megabytes']:,.0f} MB, less than {MOST_MEGABYTES}"
            print(f"{'ok' if fine else 'OVER':4}  {said}")
    return not over


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
        VERSION: [TWOARM, "--version"],
        NOTHING: [PYTHON, "-c", "pass"],
        IMPORTS: [PYTHON, "-c", "import msgspec, numpy"],
        IMPORTS_ONE: [PYTHON, "-c", f"{ONE_THREAD}; import msgspec, numpy"],
        SCIPY: [PYTHON, "-c", "import msgspec, numpy, scipy.special"],
        SCIPY_ONE: [PYTHON, "-c", f"{ONE_THREAD}; import msgspec, numpy, scipy.special"],
        JQ: ["jq", "-c", "-s", "-f", HERE / "score.jq", path],
        PLAIN: [PYTHON, HERE / "plain.py", path],
        RAW: [PYTHON, HERE / "parse.py", path],
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
        process = subprocess.Popen(command, stdout=nowhere, env=ENVIRONMENT)
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
