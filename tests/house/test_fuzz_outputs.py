"""A few fixed seeds of the fuzzer of outputs; `make fuzz` runs it for long."""

import pytest

from tests.fuzz import outputs


@pytest.mark.parametrize("seed", range(12))
def test_files_are_old_or_new_whatever_goes_wrong(seed: int) -> None:
    outputs.once(seed)
