"""Fuzzers: each module here has `once(seed)`, which raises AssertionError on a finding.

`make fuzz` runs each for its share of FUZZ_SECONDS with fresh seeds; the tests run a few fixed
ones, as many as SEEDS says if a module has it.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

SEEDS = 20


def fuzzers() -> dict[str, ModuleType]:
    """Every fuzzer by its name."""
    names = sorted(found.name for found in iter_modules(__path__) if found.name != "__main__")
    return {name: import_module(f"{__name__}.{name}") for name in names}
