"""Run the fuzzers: `python -m tests.fuzz [--seconds N] [--seed SEED] [NAME...]`."""

import secrets
import sys
import time
import traceback
from argparse import ArgumentParser
from types import ModuleType

from tests.fuzz import fuzzers


def _found(name: str, fuzzer: ModuleType, seed: int) -> bool:
    """Whether the seed brings a finding to light; it is printed with the way to repeat it."""
    try:
        fuzzer.once(seed)
    # A crash is a finding too.
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        print(f"{name}: repeat with: python -m tests.fuzz {name} --seed {seed}", flush=True)
        return True
    return False


def _run(name: str, fuzzer: ModuleType, seconds: float) -> bool:
    """Whether fresh seeds, one after the other from a random first, bring a finding to light."""
    first = seed = secrets.randbelow(10**9)
    print(f"{name}: {seconds:.0f} s from seed {first}", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if _found(name, fuzzer, seed):
            return True
        seed += 1
    print(f"{name}: {seed - first} seeds, nothing found", flush=True)
    return False


def main() -> int:
    every = fuzzers()
    parser = ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(every)}")
    parser.add_argument("--seconds", type=float, default=600, help="for all of them together")
    parser.add_argument("--seed", type=int, help="run this seed alone")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in every]
    if unknown:
        parser.error(f"no fuzzer `{unknown[0]}`; there are {', '.join(every)}")
    chosen = {name: every[name] for name in given.names or every}
    if given.seed is not None:
        found = [_found(name, fuzzer, given.seed) for name, fuzzer in chosen.items()]
    else:
        share = given.seconds / max(len(chosen), 1)
        found = [_run(name, fuzzer, share) for name, fuzzer in chosen.items()]
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
