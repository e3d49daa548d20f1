"""Hostile values at the keys of the fixtures: fixed seeds here, fresh ones in `make fuzz`."""

import pytest

from tests.fuzz import collect_values


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_a_hostile_value_at_any_key_is_a_record_or_a_problem(start: int) -> None:
    for seed in range(start, start + 50):
        collect_values.once(seed)
