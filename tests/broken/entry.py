"""What an entry of the tables is made of."""

from typing import NamedTuple


class Broken(NamedTuple):
    """A rule, the file below src/twoarm it lives in, its code, and the tests that go red."""

    rule: str
    file: str
    kept: str
    broken: str
    # A file of tests, or one test of it.
    tests: str
