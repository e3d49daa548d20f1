"""Time and memory of `twoarm collect`, beside reading and JSON-parsing the same files alone.

    python benchmarks/collect.py [RUNS]

Makes RUNS Harbor trials and RUNS opencode run folders (10,000 unless told), then times both ways
in turns, so that what else the machine does falls on both. Each row is the least of its rounds.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

ROUNDS = 5
FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures" / "collect"

# Prints the most memory that the command took, in MiB; `ru_maxrss` would be at least that of the
# process that started it.
MEMORY = """
import sys
from pathlib import Path
from twoarm.commands.cli import main
code = main(sys.argv[1:])
lines = Path("/proc/self/status").read_text().splitlines()
most = next(line for line in lines if line.startswith("VmHWM:"))
sys.stderr.write(f"{int(most.split()[1]) / 1024:.1f}")
sys.exit(code)
"""


def make_harbor(folder: Path, runs: int) -> list[str]:
    """A job of as many trials, each of the size that Harbor 0.25 writes."""
    source = FIXTURES / "harbor" / "ab-demo" / "hello__NWPfFvL" / "result.json"
    trial = json.loads(source.read_text())
    # The fixture is trimmed to what is read; a real result is mostly settings left at null.
    trial["config"]["environment"] = {f"setting_of_the_sandbox_{n}": None for n in range(40)}
    read = []
    for number in range(runs):
        place = folder / f"task{number % 50}__{number:07d}"
        place.mkdir(parents=True)
        trial["id"], trial["task_name"] = f"id-{number}", f"task{number % 50}"
        trial["config"]["agent"]["kwargs"]["behaviour"] = ("solve", "fail")[number // 50 % 2]
        (place / "result.json").write_text(json.dumps(trial, indent=4))
        (place / "config.json").write_text('{"trial_name": "t"}')
        for name in ("agent", "verifier", "artifacts"):
            (place / name).mkdir()
        read.append(str(place / "result.json"))
    (folder / "config.json").write_text('{"job_name": "job"}')
    (folder / "result.json").write_text('{"n_total_trials": 1, "stats": {}}')
    return read


def make_opencode(folder: Path, runs: int) -> list[str]:
    """As many run folders, each with events, export and sidecar of the size opencode writes."""
    source = FIXTURES / "opencode" / "ok"
    events = [json.loads(line) for line in (source / "events.jsonl").read_text().splitlines()]
    export = json.loads((source / "export.json").read_text())
    # The fixture is trimmed to what is read; a real part names its place four times.
    names = {f"{name}ID": f"{name}_1ddc6a7a7001Ip0Cq1MpVZjZvy" for name in ("part", "message")}
    names |= {"snapshot": "d2bd3daf64be265a4b65206997afa20fdd6fd3d8", "session": "ses_" + "x" * 26}
    for part in (
        *(event["part"] for event in events),
        *(part for entry in export["messages"] for part in (entry["info"], *entry["parts"])),
    ):
        part.update(names)
    texts = {
        "events.jsonl": "".join(json.dumps(event) + "\n" for event in events).encode(),
        "export.json": json.dumps(export, indent=2).encode(),
    }
    read = []
    for number in range(runs):
        place = folder / f"run-{number:07d}"
        place.mkdir(parents=True)
        sidecar = {
            "task_id": f"task{number % 50}",
            "repeat": number // 100 + 1,
            "acceptance_exit_code": number % 2,
            "started_at_utc": "2026-11-15T06:00:00Z",
            "ended_at_utc": "2026-11-15T06:01:00Z",
            "arm": ("solve", "fail")[number // 50 % 2],
        }
        for name, text in texts.items():
            (place / name).write_bytes(text)
        (place / "run.json").write_text(json.dumps(sidecar))
        read += [str(place / name) for name in (*texts, "run.json")]
    return read


def parse_all(paths: list[str], parse: Callable[[bytes], object]) -> None:
    for path in paths:
        with open(path, "rb") as file:
            text = file.read()
        if path.endswith(".jsonl"):
            for line in text.splitlines():
                parse(line)
        else:
            parse(text)


# What counts as a use: a tool, a program that none of the commands is, one that half of them are.
UPTAKE = ("tool:mcp__search__*", "skill:pdf", "command:skelly *", "command:printf *")


def collect(name: str, folder: Path, key: str, uptake: Sequence[str] = ()) -> None:
    from twoarm.collect.gather import ArmPath, CollectOptions, gather
    from twoarm.files.write import Output, write

    arms = {"solve": "with_x", "fail": "without_x"}
    place = str(folder.parent)
    options = CollectOptions(arm_key=key, arm_map=arms, uptake=uptake, relative_to=place)
    with gather(name, [ArmPath(arm=None, path=str(folder))], options) as made:
        write([Output(path=f"{folder}.jsonl", content=made.lines(), append=False, named=True)])


def least(ways: "dict[str, partial[None]]") -> dict[str, float]:
    """The least time of each way, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    return {name: min(found) for name, found in times.items()}


def memory(name: str, folder: Path, key: str) -> float:
    """MiB of a process that collects the folder."""
    arguments = ["collect", name, str(folder), "--arm-key", key, "-o", str(folder) + ".jsonl"]
    arguments += ["--arm-map", "solve=with_x", "--arm-map", "fail=without_x"]
    result = subprocess.run(
        [sys.executable, "-c", MEMORY, *arguments], capture_output=True, text=True, check=True
    )
    return float(result.stderr.rsplit("\n", 1)[-1])


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as scratch:
        for name, make, key in (
            ("harbor", make_harbor, "config.agent.kwargs.behaviour"),
            ("opencode", make_opencode, "arm"),
        ):
            few = Path(scratch) / f"{name}-few"
            many = Path(scratch) / f"{name}-many"
            make(few, runs // 10)
            paths = make(many, runs)
            size = sum(os.path.getsize(path) for path in paths) / 2**20
            ways = {
                "collect": partial(collect, name, many, key),
                "collect --uptake": partial(collect, name, many, key, UPTAKE),
                "json": partial(parse_all, paths, json.loads),
                "msgspec": partial(parse_all, paths, msgspec.json.decode),
            }
            took = least(ways)
            print(f"{name}: {runs:,} runs, {len(paths):,} files, {size:.0f} MiB")
            for parser in ("json", "msgspec"):
                print(f"  read and parse, {parser:8} {took[parser]:.2f} s")
            for way in ("collect", "collect --uptake"):
                ratios = [f"{took[way] / took[one]:.2f} x of {one}" for one in ("json", "msgspec")]
                print(f"  {way:24} {took[way]:.2f} s, {', '.join(ratios)}")
            small, large = memory(name, few, key), memory(name, many, key)
            print(f"  memory                   {small:.0f} MiB at {runs // 10:,} runs", end="")
            print(f", {large:.0f} MiB at {runs:,}")


if __name__ == "__main__":
    main()
