"""What a number that is promised may be, what it was found to be, and what things cost."""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

failed: list[str] = []


def told(what: str, found: float, bar: float, unit: str = "") -> None:
    holds = found <= bar
    print(f"{'ok  ' if holds else 'OVER'}  {what}: {found:.3g}{unit}, at most {bar:.3g}{unit}")
    if not holds:
        failed.append(what)


@contextmanager
def folder() -> Iterator[Path]:
    # In memory, if possible: how long a disk takes to make a file says more about the disk.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    made = Path(tempfile.mkdtemp(prefix="twoarm-bench-", dir=memory))
    before = os.environ.get("TWOARM_CACHE")
    os.environ["TWOARM_CACHE"] = str(made / "cache")
    try:
        yield made
    finally:
        del os.environ["TWOARM_CACHE"]
        if before is not None:
            os.environ["TWOARM_CACHE"] = before
        shutil.rmtree(made, ignore_errors=True)


def processor_seconds() -> float:
    """Of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(act: Callable[[], object], times: int) -> tuple[float, float]:
    """Processor and wall seconds of each of so many."""
    before, began = processor_seconds(), time.perf_counter()
    act()
    return (processor_seconds() - before) / times, (time.perf_counter() - began) / times
