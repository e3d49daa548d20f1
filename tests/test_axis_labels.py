"""Labels on a phone: short on the axis, whole in the hint."""

import pytest

from twoarm.render.page.marks import labels_of


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["cli-exit-codes", "rename-public-api"], ["cli-exit-codes", "rename-pub…c-api"]),
        (["fix_a_b", "fix_the_long_name_c"], ["…a_b", "…the_long_name_c"]),
    ],
)
def test_signs_between_words_stay(names: list[str], labels: list[str]) -> None:
    assert labels_of(names, 16) == labels
