"""Every fuzzer, on a few fixed seeds; `make fuzz` runs them on fresh ones."""

import pytest

from tests.fuzz import SEEDS, fuzzers

FUZZERS = fuzzers()


@pytest.mark.parametrize("name", FUZZERS)
def test_fixed_seeds_find_nothing(name: str) -> None:
    fuzzer = FUZZERS[name]
    for seed in range(getattr(fuzzer, "SEEDS", SEEDS)):
        fuzzer.once(seed)
